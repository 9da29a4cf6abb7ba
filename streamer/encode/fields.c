/* The keys of calls by name, and what a sink's choice of them may say. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "format.h"

const char *const encode_field_names[] = {
	[FIELD_TYPE] = "type",
	[FIELD_RUN] = "run",
	[FIELD_SEQ] = "seq",
	[FIELD_TS] = "ts",
	[FIELD_HOST] = "host",
	[FIELD_PID] = "pid",
	[FIELD_NS_PID] = "ns_pid",
	[FIELD_TID] = "tid",
	[FIELD_COMM] = "comm",
	[FIELD_THREAD] = "thread",
	[FIELD_UID] = "uid",
	[FIELD_EXE] = "exe",
	[FIELD_CMDLINE] = "cmdline",
	[FIELD_CGROUP] = "cgroup",
	[FIELD_CONTAINER_ID] = "container_id",
	[FIELD_POD_UID] = "pod_uid",
	[FIELD_ENVIRON] = "environ",
	[FIELD_API] = "api",
	[FIELD_FAMILY] = "family",
	[FIELD_FUNC] = "func",
	[FIELD_SYMBOL] = "symbol",
	[FIELD_DEPTH] = "depth",
	[FIELD_PARENT] = "parent",
	[FIELD_SAMPLE_N] = "sample_n",
	[FIELD_DURATION_NS] = "duration_ns",
	[FIELD_RET] = "ret",
	[FIELD_STATUS] = "status",
	[FIELD_ERROR] = "error",
	[FIELD_ERROR_MESSAGE] = "error_message",
	[FIELD_BYTES] = "bytes",
	[FIELD_DIRECTION] = "direction",
	[FIELD_DEVICE] = "device",
	[FIELD_STREAM] = "stream",
	[FIELD_KERNEL] = "kernel",
	[FIELD_KERNEL_MANGLED] = "kernel_mangled",
	[FIELD_KERNEL_HANDLE] = "kernel_handle",
	[FIELD_GRID] = "grid",
	[FIELD_BLOCK] = "block",
	[FIELD_SHARED_BYTES] = "shared_bytes",
	[FIELD_PTR] = "ptr",
	[FIELD_SRC_PTR] = "src_ptr",
	[FIELD_ARGS] = "args",
	[FIELD_OUT] = "out",
	NULL,
};

_Static_assert(NFIELDS < 64, "a set of fields is a word");
_Static_assert(FIELD_UID == ENCODE_PROCESS_FIELD, "as encode.h has it");
_Static_assert(FIELD_FIRST_OPTIONAL == ENCODE_FIXED_FIELDS, "as encode.h has it");

static int refuse(const struct encoder_options *options, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int refuse(const struct encoder_options *options, int err, const char *format, ...)
{
	va_list args;

	if (options->error && options->error_size) {
		va_start(args, format);
		vsnprintf(options->error, options->error_size, format, args);
		va_end(args);
	}
	return err;
}

const char *encode_renamed(const struct encoder_options *options, const char *name)
{
	for (size_t i = 0; i < options->nrename; i++)
		if (!strcmp(options->rename[i].name, name))
			return options->rename[i].value;
	return name;
}

static bool is_field(const char *name)
{
	for (size_t i = 0; encode_field_names[i]; i++)
		if (!strcmp(encode_field_names[i], name))
			return true;
	return false;
}

static int check_statics(const struct encoder_options *options)
{
	const struct encode_static *statics = options->statics;

	for (size_t i = 0; i < options->nstatics; i++) {
		if (encode_key_known(statics[i].name))
			return refuse(options, -EEXIST,
				      "the constant field \"%s\" is a key of the event already: choose "
				      "another name",
				      statics[i].name);
		for (size_t j = 0; j < i; j++)
			if (!strcmp(statics[i].name, statics[j].name))
				return refuse(options, -EEXIST, "the constant field \"%s\" is there twice",
					      statics[i].name);
	}
	return 0;
}

/* A new name must be nobody's: an old name stays an event's key elsewhere. */
static int check_new_name(const struct encoder_options *options, size_t index)
{
	const char *name = options->rename[index].value;

	if (!*name || encode_key_known(name))
		return refuse(options, -EEXIST, "\"%s\" cannot be renamed to \"%s\": %s",
			      options->rename[index].name, name,
			      *name ? "that is a key of the event already" : "a key has a name");
	for (size_t i = 0; i < options->nstatics; i++)
		if (!strcmp(options->statics[i].name, name))
			return refuse(options, -EEXIST,
				      "\"%s\" cannot be renamed to \"%s\": that is a constant field",
				      options->rename[index].name, name);
	for (size_t i = 0; i < index; i++)
		if (!strcmp(options->rename[i].value, name) ||
		    !strcmp(options->rename[i].name, options->rename[index].name))
			return refuse(options, -EEXIST, "\"%s\" and \"%s\" cannot both be renamed to \"%s\"",
				      options->rename[i].name, options->rename[index].name, name);
	return 0;
}

static int check_rename(const struct encoder_options *options, const struct encode_format *format)
{
	int err = 0;

	if (options->nrename && !format->renames)
		return refuse(options, -EINVAL,
			      "the format \"%s\" has fixed names: its fields cannot be renamed",
			      format->name);
	for (size_t i = 0; i < options->nrename && !err; i++) {
		if (!is_field(options->rename[i].name))
			return refuse(options, -EINVAL, "no call has a key \"%s\" that could be renamed",
				      options->rename[i].name);
		err = check_new_name(options, i);
	}
	return err;
}

bool encode_parameter_known(const char *name)
{
	for (unsigned r = 0; r < table_nrows; r++)
		for (unsigned i = 0; i < table_rows[r].nparams; i++)
			if (!strcmp(table_params[table_rows[r].param + i].name, name))
				return true;
	return false;
}

static int check_redact(const struct encoder_options *options)
{
	for (size_t i = 0; i < options->nredact; i++)
		if (!encode_parameter_known(options->redact[i]))
			return refuse(options, -EINVAL,
				      "no function has a parameter \"%s\" that could be redacted",
				      options->redact[i]);
	return 0;
}

int encode_check_fields(const struct encoder_options *options, const struct encode_format *format)
{
	int err = check_statics(options);

	if (!err)
		err = check_rename(options, format);
	if (!err)
		err = check_redact(options);
	return err;
}
