/*
 * The fan-out: lines are encoded once per form (a format with a choice of
 * fields) into chunks and go by reference into the queue of every sink that
 * wants them.
 *
 * Threads: the reader thread owns the fan-out; only it calls fanout_reserve(),
 * fanout_commit(), fanout_withhold(), fanout_flush() and fanout_apply(), and
 * what tells of formats. The functions marked [any] may be called from any
 * thread while the fan-out lives. Each sink has a worker thread of its own,
 * which blocks all signals.
 *
 * Memory: a sink's queue pins at most 2 * max_bytes + QUEUE_SLACK bytes
 * (queue.h); at most CHUNK_POOL_KEEP empty chunks are kept for reuse.
 */
#ifndef CUDATAP_FANOUT_H
#define CUDATAP_FANOUT_H

#include "../config/config.h"
#include "forms.h"
#include "sink.h"

#define FANOUT_MAX_SINKS \
	FORMS_MAX_SINKS /* a set of sinks is a bit mask: bit i = sink i of the present list */
#define FANOUT_MAX_ALIVE (4 * FANOUT_MAX_SINKS) /* with those that still write what they have */
#define FANOUT_MAX_LINE  20480u                 /* = ENCODE_MAX_LINE; no line is longer */
#define FANOUT_ALL       UINT64_MAX

struct fanout;

/*
 * Encodes the loss event of a sink as a line of its format (newline included).
 * Called in the worker threads, several at a time: it must be thread safe and
 * share nothing with the reader's encoder but constants. @ret_meta comes
 * zeroed; the callback sets type and ts_ns and leaves seq 0. Returns the length, or
 * a negative errno (tried again a second later).
 */
typedef int (*fanout_loss_fn)(void *ctx, const char *format, const struct sink_loss *loss, char *out,
			      size_t size, struct line_meta *ret_meta);

/* The sinks that there are to be. */
struct fanout_sinks {
	const struct config_sink *list; /* outlive the fan-out, unless @config is given */
	size_t n;
	struct config *config;            /* what they are part of: each sink holds a reference; or NULL */
	const struct sink_origin *origin; /* copied; what it points to lives likewise; or NULL */
	const bool *same; /* [n]: the sink of that name goes on as it is, with what it has been made from;
			   * NULL: none does */
};

/**
 * fanout_open - open all sinks and start their workers
 * @encode_loss, @ctx: NULL: no loss events
 * @error: one sentence for the user when the result is negative
 * Returns 0, or a negative errno with every sink closed again.
 */
int fanout_open(const struct fanout_sinks *sinks, fanout_loss_fn encode_loss, void *ctx,
		struct fanout **ret_fanout, char *error, size_t error_size);

/** fanout_new - fanout_open() for sinks that outlive the fan-out, as their @origin does */
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

/* [any] All names that sinks have had, in the order in which they came: what sinks of one name did, one after
 * the other, is counted together. Functions that take a @sink mean an index into these. */
size_t fanout_nsinks(struct fanout *fanout);
const char *fanout_sink_name(struct fanout *fanout, size_t sink);
/** fanout_sink_is_removed - no sink has that name now, nor ends */
bool fanout_sink_is_removed(struct fanout *fanout, size_t sink);

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

/* Where a sink with when_full: block has no room, the reader ... */
enum fanout_patience {
	FANOUT_WAITS,   /* up to its block_timeout */
	FANOUT_EXCEEDS, /* goes beyond the queue's limits, unless the sink has kept it waiting in vain before
			 */
	FANOUT_LOSES,   /* loses the lines, as others do */
};

/** fanout_set_patience - [any] from now on; who waits at the moment is woken. FANOUT_WAITS at the beginning.
 * FANOUT_EXCEEDS is for who waits for the reader: for as long as it takes to have it come. */
void fanout_set_patience(struct fanout *fanout, enum fanout_patience patience);

/** fanout_flush - hand all committed lines to the queues and wake sleeping workers; at the end of
 * each batch of the ring. Like fanout_reserve() it waits only for sinks with when_full: block. */
void fanout_flush(struct fanout *fanout);

/** fanout_reopen - [any] every sink opens its outside anew (SIGHUP, rotation by others) */
void fanout_reopen(struct fanout *fanout);

/** fanout_rotate - [any] every sink that keeps generations begins a new one (SIGUSR1) */
void fanout_rotate(struct fanout *fanout);

/** fanout_counters - [any] a snapshot that satisfies the equation; lines committed but not flushed
 * are not in it */
void fanout_counters(struct fanout *fanout, size_t sink, struct sink_counters *ret_counters);

/** fanout_all_gone - [any] has the outside of every sink gone for good (readers of pipes)? */
bool fanout_all_gone(struct fanout *fanout);
/** fanout_wants_exit - [any] did a sink fail for which the user wants cudatap to end? */
bool fanout_wants_exit(const struct fanout *fanout);
/** fanout_gone_fd - readable from the moment fanout_all_gone() or fanout_wants_exit() is true */
int fanout_gone_fd(const struct fanout *fanout);

/* ---- other sinks, while lines flow ---- */

/* A change in the making. One at a time, in one thread, which also calls fanout_reap(). */
struct fanout_change;

/**
 * fanout_prepare - open those sinks that are new
 * A new sink whose outside is in use by one that goes (same_outside(), or one spool) begins when that has
 * ended; others are open now.
 * @error: one sentence when the result is negative
 * Returns 0, or a negative errno with nothing changed.
 */
int fanout_prepare(struct fanout *fanout, const struct fanout_sinks *sinks, struct fanout_change **ret_change,
		   char *error, size_t error_size);
/** fanout_change_forms - what fanout_format() and the like will tell */
const struct forms *fanout_change_forms(const struct fanout_change *change);
/** fanout_change_removed - the sinks, by their present bits, whose names the new ones do not have */
uint64_t fanout_change_removed(const struct fanout_change *change);

/**
 * fanout_apply - lines from now on are for the new sinks, all before for the old ones. Reader thread.
 * Old ones that do not go on get until @deadline_ns to write what they have.
 */
void fanout_apply(struct fanout_change *change, uint64_t deadline_ns);
/** fanout_change_free - after fanout_apply(), or instead of it: then nothing has changed. NULL is fine. */
void fanout_change_free(struct fanout_change *change);

/** fanout_left_fd - readable when fanout_reap() has something to do */
int fanout_left_fd(const struct fanout *fanout);
/** fanout_reap - let go of sinks that have left and ended, and those begin that waited for them */
void fanout_reap(struct fanout *fanout);

/* ---- the end ---- */

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
