/*
 * What a format is, for encoder_new(); private to this folder. A format is
 * one file with one const `struct encode_format`, listed in encode.c.
 */
#ifndef CUDATAP_FORMAT_H
#define CUDATAP_FORMAT_H

#include "encode.h"
#include "fragments.h"
#include "timestamp.h"

struct encode_format {
	const char *name;
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
	char *run;
};

extern const struct encode_format encode_format_json;

/* event.c: control events as flat JSON objects */
int encode_json_event(struct encoder *encoder, enum event_type type, json_t *body, uint64_t seq,
		      int64_t ts_ns, char *out, struct line_meta *ret_meta);

#endif
