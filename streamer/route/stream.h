/*
 * The stream: the reader thread that takes records from the ring, makes
 * events of them, and hands their lines to the sinks. It alone numbers
 * events. The control thread starts and stops it, and posts the events that
 * are no calls.
 */
#ifndef CUDATAP_STREAM_H
#define CUDATAP_STREAM_H

#include <jansson.h>
#include <stdbool.h>

#include "../capture/capture.h"
#include "../encode/encode.h"
#include "../../config/config.h"
#include "../../sinks/fanout.h"

struct config_changes;
struct known;
struct stream;

/* Two probes turned out to sit on one function. Called in the reader thread. */
typedef void (*stream_duplicate_fn)(void *ctx, unsigned second_attach_id, unsigned first_attach_id);

struct stream_options {
	struct config *config;            /* kept until another one takes its place, or stream_free() */
	const struct plan *plans;         /* likewise */
	struct capture *capture;          /* likewise */
	stream_duplicate_fn on_duplicate; /* or NULL */
	void *ctx;
};

/**
 * stream_new - opens the sinks and makes the encoders; nothing runs yet
 * @error: one sentence for the user when the result is negative
 * Returns 0 or a negative errno with everything closed again.
 */
int stream_new(const struct stream_options *options, struct stream **ret_stream, char *error,
	       size_t error_size);
/** stream_start - start the reader thread */
int stream_start(struct stream *stream);
/** stream_known - what the stream knows of who calls, to be told more */
struct known *stream_known(struct stream *stream);
struct fanout *stream_fanout(const struct stream *stream);

/**
 * stream_post - emit an event that is no call, before the records that follow
 * @body: its own keys in order; the reference is taken over. Any thread.
 */
void stream_post(struct stream *stream, enum event_type type, json_t *body);

/* ---- another configuration, while events flow ---- */

/* Called in the reader thread at the border between the last event by the old configuration and the first
 * by the new one. Returns the body of the event that stands there: a new reference. */
typedef json_t *(*stream_border_fn)(void *ctx);

/* A change in the making; by the control thread, one at a time. */
struct stream_change;

/**
 * stream_prepare - open new sinks, make encoders
 * @config: kept when stream_switch() has been called
 * @same_sink: [config->nsinks], see config_advance()
 * @error: one sentence for the user when the result is negative
 * Returns 0 or a negative errno with nothing changed.
 */
int stream_prepare(struct stream *stream, struct config *config, const bool *same_sink,
		   struct stream_change **ret_change, char *error, size_t error_size);

/**
 * stream_switch - from the next event on by the new configuration; waits until that is so
 * @type: of the event at the border: the first one of new sinks, the last one of those that go
 * @deadline_ns: CLOCK_MONOTONIC, when sinks that go must have written what they have
 */
void stream_switch(struct stream_change *change, enum event_type type, stream_border_fn border, void *ctx,
		   uint64_t deadline_ns);
/** stream_change_free - after stream_switch(), or instead of it. NULL is fine. */
void stream_change_free(struct stream_change *change);

/* What the stream has done with records; exact once the reader has ended. */
struct stream_totals {
	uint64_t emitted;     /* calls made into events, the unfinished ones included */
	uint64_t unfinished;  /* of these */
	uint64_t undecodable; /* records that contradict the table: a fault, counted as lost */
	uint64_t
		filtered; /* calls that the configuration's filter turned away here, not in the BPF program */
	uint64_t rate_limited; /* calls of processes that made too many */
	uint64_t events;       /* sequence numbers given out */
};
void stream_totals(const struct stream *stream, struct stream_totals *ret_totals);

/** stream_end - the probes are gone: read what is left in the ring and end the reader thread */
void stream_end(struct stream *stream);
/** stream_drained_fd - readable once that is done: stream_drain() will not wait */
int stream_drained_fd(const struct stream *stream);
/** stream_drain - stream_end(), and wait for it */
void stream_drain(struct stream *stream);

/**
 * stream_progress - what the sinks have done with the lines they were given
 * @ret_done: rises as long as they get on
 * Returns whether lines wait in a queue.
 */
bool stream_progress(const struct stream *stream, uint64_t *ret_done);

/**
 * stream_finish - emit the last event and ask the sinks to end when they have written what they have
 * The body's `sinks` come from the caller before that, so the last word on them is
 * stream_sinks() after stream_close().
 */
void stream_finish(struct stream *stream, enum event_type type, json_t *body);
/** stream_finished_fd - readable once they have ended */
int stream_finished_fd(const struct stream *stream);
/** stream_close - wait for them until the deadline (CLOCK_MONOTONIC; what is not written then counts
 * as lost) */
void stream_close(struct stream *stream, uint64_t deadline_ns);

/** stream_sinks - the counters of every sink as a JSON object by name (sinks.c); of more names than there can
 * be sinks, those that have ended are one, "(removed)" */
json_t *stream_sinks(const struct stream *stream);
/** stream_sinks_lost - events that sinks dropped, over all of them */
uint64_t stream_sinks_lost(const struct stream *stream);

/** stream_loss - the calls that capture lost so far, by cause, as a JSON object; @ret_total is their sum */
json_t *stream_loss(const struct capture_counters *counters, uint64_t undecodable, uint64_t *ret_total);

void stream_free(struct stream *stream);

#endif
