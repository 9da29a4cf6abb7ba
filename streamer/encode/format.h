/*
 * What a format is, for encoder_new(); private to this folder. A format is
 * one file with one const `struct encode_format`, listed in encode.c, and a
 * second one for events that are no calls.
 */
#ifndef CUDATAP_FORMAT_H
#define CUDATAP_FORMAT_H

#include "encode.h"
#include "fragments.h"
#include "timestamp.h"

struct encode_format {
	const char *name;
	const struct dialect *dialect;
	bool renames; /* keys can have other names */
	/*
	 * Adds the format's own fragments: rows (first, second, parent), errors, status, open, close, start,
	 * middle, who, tail. Everything else is there.
	 */
	void (*prepare)(struct fragments *f, const struct encoder_options *options);
	/* Appends what a line says of a thread, at most `who` and FRAGMENTS_WHO_MAX, to be kept for the
	 * thread's next lines. */
	char *(*who)(char *p, const struct encoder *encoder, const struct thread *thread);
	/* the contracts of encode_call() and encode_event() */
	size_t (*call)(struct encoder *encoder, const struct call *call, struct thread *thread, uint64_t seq,
		       int64_t ts_ns, char *out, struct line_meta *ret_meta);
	int (*event)(struct encoder *encoder, enum event_type type, json_t *body, uint64_t seq, int64_t ts_ns,
		     char *out, struct line_meta *ret_meta);
};

struct encoder {
	const struct encode_format *format;
	unsigned slot;
	bool args, nested;
	struct fragments fragments;
	struct timestamp_cache clock;
	uint64_t run_hash;          /* of `run` */
	struct thread_prefix spare; /* room for a thread's part when there is no memory to keep it in */
	char *run, *host;
	struct encode_static *statics, *rename; /* copied */
	size_t nstatics, nrename;
};

extern const struct encode_format encode_format_json, encode_format_ecs, encode_format_otlp;

/** encode_check_fields - what the options say of fields: 0, -EINVAL or -EEXIST and a sentence in
 * options->error */
int encode_check_fields(const struct encoder_options *options, const struct encode_format *format);

/** encode_renamed - the name that a key of events has in this encoder's lines */
const char *encode_renamed(const struct encoder_options *options, const char *name);

/** encode_make_who - the thread's part, made and kept in its prefix, or in encoder->spare when out of memory
 */
const struct thread_prefix *encode_make_who(struct encoder *encoder, struct thread *thread);

/** encode_who - the thread's part, as who() wrote it */
static inline const struct thread_prefix *encode_who(struct encoder *encoder, struct thread *thread)
{
	const struct thread_prefix *prefix = &thread->prefix[encoder->slot];

	return prefix->data ? prefix : encode_make_who(encoder, thread);
}

/* json_event.c, ecs_event.c, otlp_event.c: events that are no calls */
int encode_json_event(struct encoder *encoder, enum event_type type, json_t *body, uint64_t seq,
		      int64_t ts_ns, char *out, struct line_meta *ret_meta);
int encode_ecs_event(struct encoder *encoder, enum event_type type, json_t *body, uint64_t seq, int64_t ts_ns,
		     char *out, struct line_meta *ret_meta);
int encode_otlp_event(struct encoder *encoder, enum event_type type, json_t *body, uint64_t seq,
		      int64_t ts_ns, char *out, struct line_meta *ret_meta);

/**
 * encode_line_of - a made event as a line
 * @event: the reference is taken over; NULL: out of memory
 * Returns the length, -ENOMEM or -E2BIG; fills @ret_meta.
 */
int encode_line_of(json_t *event, enum event_type type, uint64_t seq, int64_t ts_ns, char *out,
		   struct line_meta *ret_meta);

/** encode_duration - of a call in ns, within what a signed number holds */
static inline uint64_t encode_duration(const struct rec_call *rec)
{
	uint64_t ns = rec->end_ns - rec->start_ns;

	if (rec->end_ns < rec->start_ns)
		return 0;
	return ns <= INT64_MAX ? ns : INT64_MAX;
}

/** encode_meta - what sinks want to know of a call's line; args_off and args_len are the caller's */
static inline struct line_meta encode_meta(const struct call *call, const struct thread *thread, uint64_t seq,
					   int64_t ts_ns)
{
	return (struct line_meta){
		.seq = seq,
		.ts_ns = ts_ns,
		.pid = thread->pid,
		.tid = thread->tid,
		.row = (uint16_t)call->row_id,
		.status = (uint8_t)call->status,
		.type = EVENT_CALL,
	};
}

#endif
