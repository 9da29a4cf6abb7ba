/*
 * Events to lines. One encoder per format; used by the reader thread alone.
 * The event's fields, their order and types are documented in
 * docs/event-schema.md and docs/event.schema.json.
 *
 * encode_call() is the hot path: no allocation, no formatted printing, no
 * system call. It appends one line to a buffer that the caller has reserved
 * ENCODE_MAX_LINE bytes in.
 */
#ifndef CUDATAP_ENCODE_H
#define CUDATAP_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "../decode/decode.h"
#include "../enrich/enrich.h"
#include "../../sinks/sink.h"

#define ENCODE_MAX_LINE 20480 /* no line is longer, newline included */

enum event_type {
	EVENT_CALL,
	EVENT_START,
	EVENT_STOP,
	EVENT_ATTACH,
	EVENT_DETACH,
	EVENT_LOSS,
	EVENT_CLOCK,
	EVENT_OPEN,
	EVENT_PROCESS,
	EVENT_DEVICE,
	EVENT_RELOAD,
	EVENT_READY,
	EVENT_NTYPES
};
extern const char *const event_type_names[EVENT_NTYPES];

struct encoder;

/* A constant field that every line has; or a key and its new name. */
struct encode_static {
	const char *name, *value;
};

struct encoder_options {
	const char *format; /* of encode_format_names[]; NULL: "json" */
	/* below THREAD_PREFIXES: where it keeps a thread's prefix. Encoders may share one when they differ in
	 * `args` and `redact` alone. */
	unsigned slot;
	const char *run; /* names this run of cudatap: 12 letters and digits */
	const char *host;
	bool args;                           /* with args and out */
	bool nested;                         /* with depth and parent */
	const struct encode_static *statics; /* appended as strings */
	size_t nstatics;
	uint64_t
		without; /* bit i: calls do not have encode_field_names[i]; the first four stay in any case */
	const struct encode_static *rename; /* keys of all events, by encode_field_names[]; "json" alone */
	size_t nrename;
	const char *const *redact; /* parameters whose values, and what keys tell of them, are not shown */
	size_t nredact;
	const char *const *env; /* names of the variables in process->environs, in their order */
	size_t nenv;
	const struct plan *plans; /* not used */
	char *error;              /* or NULL: one sentence for the user when the encoder cannot be made */
	size_t error_size;
};

/* NULL-terminated, for configuration. */
extern const char *const encode_format_names[];

/** encode_renames - whether keys can have other names in a format */
bool encode_renames(const char *format);

/* The keys of calls that `without` and `rename` speak of, in the order of the line; NULL-terminated. The
 * first ENCODE_FIXED_FIELDS cannot be left out. */
#define ENCODE_FIXED_FIELDS  4
#define ENCODE_PROCESS_FIELD 10 /* from here on six that tell of the process */
extern const char *const encode_field_names[];

/**
 * encoder_new - makes the fixed fragments of every row once
 *
 * Everything in @options is copied. Returns NULL with errno:
 *	ENOMEM	out of memory
 *	EINVAL	unknown format, a slot too high, a renamed key or redacted parameter that there is not,
 *		or a format that renames nothing
 *	EEXIST	a constant field or a new name is that of an event's key, or occurs twice
 *	E2BIG	run, host and constant fields leave no room in ENCODE_MAX_LINE
 */
struct encoder *encoder_new(const struct encoder_options *options);
void encoder_free(struct encoder *encoder);

/**
 * encode_call - one call as one line
 * @call: decoded; @thread: who made it (its prefix is made on first use)
 * @seq: sequence number; @ts_ns: unix time of the start
 * @out: at least ENCODE_MAX_LINE bytes
 * @ret_meta: filled for the sinks
 * Returns the line's length, newline included. Never fails: values that do not fit are cut and marked.
 * @call may hold any bytes that decode_call() accepts.
 */
size_t encode_call(struct encoder *encoder, const struct call *call, struct thread *thread, uint64_t seq,
		   int64_t ts_ns, char *out, struct line_meta *ret_meta);

/**
 * encode_event - an event that is no call
 * @body: its own keys, in order; a reference is borrowed. Strings that may hold other bytes than UTF-8
 *	are made by encode_string().
 * @seq: 0 for an event of one sink only
 * Not on the hot path; made with jansson. Returns the length, or -E2BIG, -ENOMEM.
 */
int encode_event(struct encoder *encoder, enum event_type type, json_t *body, uint64_t seq, int64_t ts_ns,
		 char *out, struct line_meta *ret_meta);

/** encode_string - text of any bytes as a JSON string: invalid UTF-8 becomes U+FFFD. NULL for NULL. */
json_t *encode_string(const char *text);

/* Every key that an event has outside of other objects, with some that are reserved; NULL-terminated. */
extern const char *const encode_keys[];

/** encode_parameter_known - whether a function of the API table has a parameter of this name */
bool encode_parameter_known(const char *name);

/** encode_key_known - whether events have a key of this name, so that no constant field may */
bool encode_key_known(const char *name);

#endif
