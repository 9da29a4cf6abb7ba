/*
 * The fan-out: lines are encoded once per form (a format with a choice of
 * fields) into chunks and go by reference into the queue of every sink that
 * wants them.
 *
 * Threads: the reader thread owns the fan-out; only it calls fanout_reserve(),
 * fanout_commit(), fanout_withhold() and fanout_flush(). The functions marked
 * [any] may be called from any thread while the fan-out lives. Each sink has a
 * worker thread of its own, which blocks all signals.
 *
 * Memory: a sink's queue pins at most 2 * max_bytes + QUEUE_SLACK bytes
 * (queue.h); at most CHUNK_POOL_KEEP empty chunks are kept for reuse.
 */
#ifndef CUDATAP_FANOUT_H
#define CUDATAP_FANOUT_H

#include "../config/config.h"
#include "sink.h"

#define FANOUT_MAX_FORMS 8      /* of lines: a format with a choice of fields; each is encoded once */
#define FANOUT_MAX_SINKS 64     /* a set of sinks is a bit mask: bit i = sink i of fanout_new() */
#define FANOUT_MAX_LINE  20480u /* = ENCODE_MAX_LINE; no line is longer */
#define FANOUT_ALL       UINT64_MAX

struct fanout;

/** fanout_same_form - whether two sinks share their lines */
bool fanout_same_form(const struct config_sink *a, const struct config_sink *b);

/*
 * Encodes the loss event of a sink as a line of its format (newline included).
 * Called in the worker threads, several at a time: it must be thread safe and
 * share nothing with the reader's encoder but constants. @ret_meta comes
 * zeroed; the callback sets type and ts_ns and leaves seq 0. Returns the length, or
 * a negative errno (tried again a second later).
 */
typedef int (*fanout_loss_fn)(void *ctx, const char *format, const struct sink_loss *loss, char *out,
			      size_t size, struct line_meta *ret_meta);

/**
 * fanout_new - open all sinks and start their workers
 * @sinks, @n: from the configuration; must outlive the fan-out
 * @origin: likewise; NULL: nothing is known
 * @encode_loss, @ctx: NULL: no loss events
 * @error: one sentence for the user when the result is negative
 * Returns 0, or a negative errno with every sink closed again.
 */
int fanout_new(const struct config_sink *sinks, size_t n, const struct sink_origin *origin,
	       fanout_loss_fn encode_loss, void *ctx, struct fanout **ret_fanout, char *error,
	       size_t error_size);

/* Distinct forms of lines (format and fields), in the order of their first sink. Functions that
 * take a @format mean an index into these. */
size_t fanout_nformats(const struct fanout *fanout);
const char *fanout_format(const struct fanout *fanout, size_t format);
bool fanout_format_args(const struct fanout *fanout, size_t format);
/** fanout_format_config - a sink that has this form: its fields are those of all that have */
const struct config_sink *fanout_format_config(const struct fanout *fanout, size_t format);
/** fanout_format_sinks - which sinks have that format */
uint64_t fanout_format_sinks(const struct fanout *fanout, size_t format);

size_t fanout_nsinks(const struct fanout *fanout);
const char *fanout_sink_name(const struct fanout *fanout, size_t sink);

/**
 * fanout_reserve - room for one line
 * Returns FANOUT_MAX_LINE writable bytes, good until the next call with this
 * @format. Never NULL: without memory it is a scratch buffer, and the commit
 * counts the line as lost (queue_full).
 */
char *fanout_reserve(struct fanout *fanout, size_t format);

/**
 * fanout_commit - the line just written there is for these sinks
 * @len: with its newline, 1 to FANOUT_MAX_LINE
 * @meta: copied
 * @sinks: bit mask; bits of sinks with another format are ignored
 * Sinks see it after the next fanout_flush(), or earlier.
 */
void fanout_commit(struct fanout *fanout, size_t format, size_t len, const struct line_meta *meta,
		   uint64_t sinks);

enum fanout_withhold { FANOUT_FILTERED, FANOUT_RATE_LIMITED };

/** fanout_withhold - one event was not for these sinks: count it, nothing more */
void fanout_withhold(struct fanout *fanout, uint64_t sinks, enum fanout_withhold why);

/** fanout_lost - one event could not be made into a line for these sinks */
void fanout_lost(struct fanout *fanout, uint64_t sinks, enum sink_reason reason, uint64_t seq);

/** fanout_flush - hand all committed lines to the queues and wake sleeping workers; at the end of
 * each batch of the ring. Like fanout_reserve() it waits only for sinks with when_full: block. */
void fanout_flush(struct fanout *fanout);

/** fanout_reopen - [any] every sink opens its outside anew (SIGHUP, rotation by others) */
void fanout_reopen(struct fanout *fanout);

/** fanout_rotate - [any] every sink that keeps generations begins a new one (SIGUSR1) */
void fanout_rotate(struct fanout *fanout);

/** fanout_counters - [any] a snapshot that satisfies the equation; lines committed but not flushed
 * are not in it */
void fanout_counters(const struct fanout *fanout, size_t sink, struct sink_counters *ret_counters);

/** fanout_all_gone - [any] has the outside of every sink gone for good (readers of pipes)? */
bool fanout_all_gone(const struct fanout *fanout);
/** fanout_wants_exit - [any] did a sink fail for which the user wants cudatap to end? */
bool fanout_wants_exit(const struct fanout *fanout);
/** fanout_gone_fd - readable from the moment fanout_all_gone() or fanout_wants_exit() is true */
int fanout_gone_fd(const struct fanout *fanout);

/**
 * fanout_stop - [any] ask the workers to end: write what is queued, until the deadline
 * @deadline_ns: CLOCK_MONOTONIC; a later call may bring it forward (0: at once), never put it off
 * The reader flushes before and commits nothing afterwards.
 */
void fanout_stop(struct fanout *fanout, uint64_t deadline_ns);
/** fanout_stopped_fd - readable once every worker has ended: fanout_close() will not wait */
int fanout_stopped_fd(const struct fanout *fanout);

/**
 * fanout_close - fanout_flush() and fanout_stop(), then wait for the workers
 * Lines that are still queued at the deadline are counted as dropped{shutdown},
 * or under the reason for which the sink takes nothing (disk_full ...). A worker
 * that does not come back from the kernel (a dead NFS server) is left behind a
 * second after the deadline; what it holds counts as dropped{shutdown}.
 * Afterwards only fanout_counters(), the names and fanout_free() may be called.
 */
void fanout_close(struct fanout *fanout, uint64_t deadline_ns);

/** fanout_free - closes with deadline 0 if needed. NULL is fine. Where a worker was left behind nothing
 * is freed: it may still come back. */
void fanout_free(struct fanout *fanout);

#endif
