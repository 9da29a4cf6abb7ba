/* Encoders: making one of a format by name; the names of events and their keys. */
#include "encode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"

const char *const event_type_names[EVENT_NTYPES] = {
	[EVENT_CALL] = "call",     [EVENT_START] = "start",   [EVENT_STOP] = "stop",
	[EVENT_ATTACH] = "attach", [EVENT_DETACH] = "detach", [EVENT_LOSS] = "loss",
	[EVENT_CLOCK] = "clock",
};

static const struct encode_format *const formats[] = {
	&encode_format_json,
};
#define NFORMATS (sizeof(formats) / sizeof(formats[0]))

const char *const encode_format_names[] = {"json", NULL};

const char *const encode_keys[] = {
	"type",
	"run",
	"seq",
	"ts",
	"host",
	/* call */
	"pid",
	"ns_pid",
	"tid",
	"comm",
	"thread",
	"api",
	"family",
	"func",
	"symbol",
	"depth",
	"parent",
	"duration_ns",
	"ret",
	"status",
	"error",
	"error_message",
	"bytes",
	"direction",
	"device",
	"stream",
	"kernel",
	"kernel_handle",
	"grid",
	"block",
	"shared_bytes",
	"ptr",
	"src_ptr",
	"args",
	"out",
	"truncated",
	/* start */
	"version",
	"kernel_release",
	"method",
	"config",
	"command",
	/* attach, detach */
	"attach_id",
	"path",
	"build_id",
	"soname",
	"apis",
	"static",
	"major",
	"functions",
	"failed",
	"reason",
	/* loss */
	"source",
	"sink",
	"count",
	"first_ts",
	"last_ts",
	"seq_first",
	"seq_last",
	"by_function",
	/* clock */
	"step_ns",
	/* stop */
	"exit_code",
	"calls",
	"sinks",
	/* reserved for the name of a launched kernel */
	"kernel",
	NULL,
};

bool encode_key_known(const char *name)
{
	for (size_t i = 0; encode_keys[i]; i++)
		if (!strcmp(encode_keys[i], name))
			return true;
	return false;
}

static const struct encode_format *find_format(const char *name)
{
	for (size_t i = 0; i < NFORMATS; i++)
		if (!name || !strcmp(formats[i]->name, name))
			return formats[i];
	return NULL;
}

static int check_statics(const struct encoder_options *options)
{
	for (size_t i = 0; i < options->nstatics; i++) {
		if (encode_key_known(options->statics[i].name))
			return -EEXIST;
		for (size_t j = 0; j < i; j++)
			if (!strcmp(options->statics[i].name, options->statics[j].name))
				return -EEXIST;
	}
	return 0;
}

static int encoder_init(struct encoder *encoder, const struct encoder_options *options)
{
	int err = check_statics(options);

	if (err)
		return err;
	encoder->format = find_format(options->format);
	if (!encoder->format || options->slot >= THREAD_PREFIXES)
		return -EINVAL;
	encoder->slot = options->slot;
	encoder->args = options->args;
	encoder->nested = options->nested;
	encoder->run = strdup(options->run);
	if (!encoder->run)
		return -ENOMEM;
	return fragments_make(&encoder->fragments, options);
}

struct encoder *encoder_new(const struct encoder_options *options)
{
	struct encoder *encoder = calloc(1, sizeof(*encoder));
	int err = encoder ? encoder_init(encoder, options) : -ENOMEM;

	if (!err)
		return encoder;
	encoder_free(encoder);
	errno = -err;
	return NULL;
}

void encoder_free(struct encoder *encoder)
{
	if (!encoder)
		return;
	fragments_free(&encoder->fragments);
	free(encoder->run);
	free(encoder);
}

size_t encode_call(struct encoder *encoder, const struct call *call, struct thread *thread, uint64_t seq,
		   int64_t ts_ns, char *out, struct line_meta *ret_meta)
{
	return encoder->format->call(encoder, call, thread, seq, ts_ns, out, ret_meta);
}

int encode_event(struct encoder *encoder, enum event_type type, json_t *body, uint64_t seq, int64_t ts_ns,
		 char *out, struct line_meta *ret_meta)
{
	return encoder->format->event(encoder, type, body, seq, ts_ns, out, ret_meta);
}
