/* Encoders: making one of a format by name; the names of events and their keys. */
#include "encode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"

const char *const event_type_names[EVENT_NTYPES] = {
	[EVENT_CALL] = "call",     [EVENT_START] = "start",   [EVENT_STOP] = "stop",
	[EVENT_ATTACH] = "attach", [EVENT_DETACH] = "detach", [EVENT_LOSS] = "loss",
	[EVENT_CLOCK] = "clock",   [EVENT_OPEN] = "open",     [EVENT_PROCESS] = "process",
	[EVENT_DEVICE] = "device", [EVENT_RELOAD] = "reload", [EVENT_READY] = "ready",
};

static const struct encode_format *const formats[] = {
	&encode_format_json,
	&encode_format_ecs,
	&encode_format_otlp,
};
#define NFORMATS (sizeof(formats) / sizeof(formats[0]))

const char *const encode_format_names[] = {"json", "ecs", "otlp", NULL};

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
	"uid",
	"exe",
	"cmdline",
	"cgroup",
	"container_id",
	"pod_uid",
	"environ",
	"api",
	"family",
	"func",
	"symbol",
	"depth",
	"parent",
	"sample_n",
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
	"kernel_mangled",
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
	"command_cut",
	/* ready */
	"files",
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
	"failed_error",
	"since_mapping_ns",
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
	/* open */
	"call_ts",
	/* process, device */
	"phase",
	"signal",
	"total",
	"uuid",
	/* reload */
	"changes",
	"errors",
	/* stop */
	"exit_code",
	"calls",
	"sinks",
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

bool encode_renames(const char *name)
{
	const struct encode_format *format = find_format(name);

	return format && format->renames;
}

/* ---- life ---- */

static void statics_free(struct encode_static *statics, size_t n)
{
	for (size_t i = 0; statics && i < n; i++) {
		free((char *)statics[i].name);
		free((char *)statics[i].value);
	}
	free(statics);
}

static struct encode_static *statics_copy(const struct encode_static *statics, size_t n)
{
	struct encode_static *copy = calloc(n + 1, sizeof(*copy));

	for (size_t i = 0; copy && i < n; i++) {
		copy[i] = (struct encode_static){strdup(statics[i].name), strdup(statics[i].value)};
		if (!copy[i].name || !copy[i].value) {
			statics_free(copy, n);
			return NULL;
		}
	}
	return copy;
}

/* FNV-1a */
static uint64_t hash(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
	return hash;
}

static int copy_options(struct encoder *encoder, const struct encoder_options *options)
{
	encoder->slot = options->slot;
	encoder->args = options->args;
	encoder->nested = options->nested;
	encoder->nstatics = options->nstatics;
	encoder->nrename = options->nrename;
	encoder->run = strdup(options->run);
	encoder->host = strdup(options->host);
	encoder->run_hash = hash(options->run);
	encoder->statics = statics_copy(options->statics, options->nstatics);
	encoder->rename = statics_copy(options->rename, options->nrename);
	if (!encoder->run || !encoder->host || !encoder->statics || !encoder->rename)
		return -ENOMEM;
	return 0;
}

static size_t who_size(const struct encoder *encoder)
{
	const struct fragments *f = &encoder->fragments;

	return f->who.len + f->labels.len + f->env_len + f->object.len + FRAGMENTS_WHO_MAX + PUT_SLACK;
}

static int encoder_init(struct encoder *encoder, const struct encoder_options *options)
{
	int err;

	encoder->format = find_format(options->format);
	if (!encoder->format || options->slot >= THREAD_PREFIXES)
		return -EINVAL;
	err = encode_check_fields(options, encoder->format);
	if (!err)
		err = copy_options(encoder, options);
	if (!err)
		err = fragments_make(&encoder->fragments, encoder->format, options);
	if (!err) {
		encoder->spare.data = malloc(who_size(encoder));
		err = encoder->spare.data ? 0 : -ENOMEM;
	}
	return err;
}

struct encoder *encoder_new(const struct encoder_options *options)
{
	struct encoder *encoder = calloc(1, sizeof(*encoder));
	int err;

	if (options->error && options->error_size)
		options->error[0] = '\0';
	err = encoder ? encoder_init(encoder, options) : -ENOMEM;
	if (!err)
		return encoder;
	encoder_free(encoder);
	if (options->error && options->error_size && !options->error[0])
		snprintf(options->error, options->error_size, "%s",
			 err == -E2BIG    ? "host and constant fields are too long for a line: shorten them"
			 : err == -ENOMEM ? "out of memory"
					  : "no such format");
	errno = -err;
	return NULL;
}

void encoder_free(struct encoder *encoder)
{
	if (!encoder)
		return;
	fragments_free(&encoder->fragments);
	statics_free(encoder->statics, encoder->nstatics);
	statics_free(encoder->rename, encoder->nrename);
	free(encoder->run);
	free(encoder->host);
	free(encoder->spare.data);
	free(encoder);
}

/* ---- encoding ---- */

const struct thread_prefix *encode_make_who(struct encoder *encoder, struct thread *thread)
{
	struct thread_prefix *prefix = &thread->prefix[encoder->slot];

	prefix->data = malloc(who_size(encoder));
	if (!prefix->data)
		prefix = &encoder->spare;
	prefix->len = (uint32_t)(encoder->format->who(prefix->data, encoder, thread) - prefix->data);
	return prefix;
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
