/*
 * Sinks: where lines go. The reader thread encodes each event once per format
 * into a chunk; every sink gets references to the lines it wants, through a
 * bounded queue of its own, and writes them in a worker thread of its own. A
 * slow or dead sink fills its queue and loses by count, and slows nobody.
 *
 * A kind of sink is one const `struct sink_ops` and its key table, in one
 * file, listed in sink_kinds[].
 */
#ifndef CUDATAP_SINK_H
#define CUDATAP_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../config/keys.h"

/* Of one sink's queue, when the configuration says nothing. */
#define SINK_QUEUE_EVENTS 65536
#define SINK_QUEUE_BYTES  (32u << 20)

/* What becomes of lines for which the queue has no room. */
enum sink_when_full {
	SINK_DROP_NEWEST, /* they are lost */
	SINK_DROP_OLDEST, /* the oldest queued lines are, but those that are being written */
	SINK_BLOCK,       /* the reader waits up to block_timeout; then they are lost */
};

/* ---- lines ---- */

/* Encoded lines of one format. The reader appends until it is full; a line that
 * has been published never changes; reused when the last reference goes. */
struct chunk;

/* What sinks may want to know of a line without parsing it. */
struct line_meta {
	uint64_t seq;  /* 0: an event of one sink only (its own losses) */
	int64_t ts_ns; /* unix time of the call's start */
	uint32_t pid, tid;
	uint16_t row;      /* of the API table; 0xffff for events that are no calls */
	uint8_t status;    /* enum call_status; CALL_OK for other events */
	uint8_t type;      /* enum event_type */
	uint32_t args_off; /* where `,"args":...,"out":...` lies in the line, to be cut when too long */
	uint32_t args_len; /* 0: nothing to cut */
	uint32_t spool;    /* the line lies in this sink's spool, by this name; 0: it does not */
};

struct line {
	const char *data;                 /* ends with '\n', no other newline in it */
	uint32_t len;                     /* with the newline */
	uint32_t offset : 20, index : 12; /* where in its chunk, see chunk.h; offset 0: in none */
	struct line_meta meta;
};

/* ---- loss ---- */

/* Why a sink lost a line. Closed list; names in sink_reason_names[]. */
enum sink_reason {
	SINK_QUEUE_FULL,
	SINK_TOO_LARGE,
	SINK_DISK_FULL,
	SINK_IO_ERROR,
	SINK_PIPE_CLOSED,
	SINK_UNREACHABLE,
	SINK_TIMED_OUT,
	SINK_REJECTED,
	SINK_AUTH,
	SINK_FATAL,
	SINK_SHUTDOWN,
	SINK_ENCODE_ERROR,
	SINK_SPOOL_FULL,
	SINK_SPOOL_CORRUPT,
	SINK_NREASONS
};
extern const char *const sink_reason_names[SINK_NREASONS];

/*
 * What became of the lines that one sink was given, at any moment:
 *
 * received + recovered + taken_over = delivered + sum(dropped) + unknown + filtered + rate_limited
 *			+ queued + in_flight + spooled + handed_over
 *
 * What one sink left in a spool and another one of the same run found there is
 * handed over by the first and taken over by the second: over all sinks of a
 * run these two sums are the same, and each line is received or recovered once.
 *
 * All of a sink's counters change under one lock, so that every snapshot
 * satisfies it. The sink's own loss events (meta.seq 0) are in none of them.
 */
struct sink_counters {
	uint64_t received, recovered, taken_over;
	uint64_t delivered, dropped[SINK_NREASONS], unknown, filtered, rate_limited;
	uint64_t queued, in_flight, spooled, handed_over;
	uint64_t bytes;       /* delivered */
	uint64_t loss_events; /* written into the sink's own stream */
};

/** sink_counters_check - does the equation hold? */
bool sink_counters_check(const struct sink_counters *counters);
/** sink_counters_add - what two sinks did together */
void sink_counters_add(struct sink_counters *to, const struct sink_counters *more);
/** sink_counters_dropped - sum over all reasons */
uint64_t sink_counters_dropped(const struct sink_counters *counters);

/* Lines that one sink lost for one reason since its last loss event. The
 * range is the smallest that holds them; lines in between may have arrived. */
struct sink_loss {
	const char *sink; /* its name */
	enum sink_reason reason;
	uint64_t count, seq_first, seq_last;
};

/* ---- a sink ---- */

/* Who writes: the same in all lines of a run. */
struct sink_origin {
	const char *host; /* as in the events: any bytes */
	const char *run;  /* names this run of cudatap: letters and digits */
};

struct sink_ops;
struct worker;

/* What a kind of sink sees of one sink. Everything but `priv`, `target`
 * and the idle_ members is set before open() and constant, but for `origin`
 * (ops->origin). */
struct sink {
	const char *name; /* its key in the configuration */
	const struct sink_ops *ops;
	const void *options; /* as ops->keys describe them; outlive the sink */
	const char *format;
	uint64_t max_events, max_bytes;   /* of its queue; what an async kind holds keeps to them as well */
	bool spooled;                     /* what is not delivered comes again, from its spool */
	const struct sink_origin *origin; /* or NULL */
	void *priv;                       /* the kind's own; set by open(), freed by close() */
	const char *target; /* set by open(): what messages call the outside ("/var/log/x.jsonl") */

	/* A descriptor that the worker watches while it has nothing to write (-1: none): on any of these
	 * events (poll(2); POLLERR and POLLHUP always) it calls tick(). */
	int idle_fd;
	short idle_events;

	struct worker *worker; /* of the room, not of the kind */
};

enum sink_status {
	SINK_DONE,    /* go on; lines that were not taken are offered again at once (a queue that drops its
		       * oldest may have dropped them meanwhile, but for a `partial` one) */
	SINK_STALLED, /* the outside takes nothing at present: they are offered again after a pause that
		       * doubles from 50 ms to 1 s. What the queue loses meanwhile counts under `reason`. */
	SINK_GONE,    /* the outside is gone for good: everything else is lost for `reason` */
	SINK_EXIT,    /* as SINK_GONE, and cudatap is to end because of it: the user chose so */
};

/* What write() did. */
struct sink_result {
	size_t taken; /* so many lines, from the first: delivered, or in flight if the kind is async */
	size_t lost;  /* so many lines behind those can never be delivered: dropped for `reason` */
	enum sink_status status;
	enum sink_reason reason; /* when lost, stalled or gone */
	int error;               /* the errno behind the reason, for the message; 0: none */
	const char *detail; /* for the message in the place of the errno's text; good until the next call */
	bool partial;       /* the line after the taken ones is partly out: the next call begins with it */
};

/*
 * A kind of sink. All functions but check(), from_url() and same_outside() run
 * in the sink's worker thread (open(), where no other sink has to end before,
 * and after a failure of another sink close(): in the thread that makes the
 * sinks), one at a time, all signals blocked. They may
 * wait only in sink_poll(), which a stop request ends. Functions that are
 * NULL are not needed by the kind.
 */
struct sink_ops {
	const char *type;       /* `type:` in the configuration */
	const char *about;      /* one sentence for the reference */
	const struct key *keys; /* of its options, up to a row without a name */
	size_t options_size;
	size_t batch_bytes; /* write() is given about so much at most (one line always) */
	bool async;         /* lines that write() took are in flight until sink_delivered() and the like */
	bool spools;        /* offers `spool:` */
	bool patient;       /* a stalled sink is tried until the deadline at a stop; otherwise once more */
	uint64_t tick_ns;   /* call tick() at least so often; 0: only for idle_fd */

	/* Is the combination of options right? 0, or -EINVAL and one sentence in @error. */
	int (*check)(const void *options, char *error, size_t error_size);
	/* The short form (`-o`). @options hold the defaults; strings in them are malloc()ed.
	 * 0: done; -ENOENT: not a URL of this kind; -EINVAL: one of this kind, wrong, sentence in @error. */
	int (*from_url)(const char *url, void *options, char *error, size_t error_size);
	const char *urls; /* what from_url() takes, for messages */
	/* Would two sinks of this kind get in each other's way if both were open? NULL: no two ever do. */
	bool (*same_outside)(const void *options, const void *others);
	/* 0, or a negative errno, one sentence in @error, and nothing left open. */
	int (*open)(struct sink *sink, char *error, size_t error_size);
	/* @n > 0 lines in order. */
	struct sink_result (*write)(struct sink *sink, const struct line *lines, size_t n);
	/* At a stop, queue empty: wait for what is in flight. What is then still in flight is counted
	 * as dropped{shutdown}. Lines may follow that tell what was lost meanwhile, then a second call. */
	void (*flush)(struct sink *sink, uint64_t deadline_ns);
	/* Open the outside anew (rotation by others); on failure keep the old one: negative errno. */
	int (*reopen)(struct sink *sink);
	/* Begin a new generation (SIGUSR1); on failure go on with the old one: negative errno. */
	int (*rotate)(struct sink *sink);
	/* Something happened on idle_fd or tick_ns went by. lost is ignored; taken means no lines but
	 * that a stalled sink need not wait for the end of its pause. */
	struct sink_result (*tick)(struct sink *sink);
	/* The lines to come were made by sink->origin: those of an earlier run come out of a spool. */
	void (*origin)(struct sink *sink);
	/* Free everything. @deadline_ns may have passed. */
	void (*close)(struct sink *sink, uint64_t deadline_ns);
};

/* Deadlines are CLOCK_MONOTONIC nanoseconds; this one never comes. */
#define SINK_NEVER UINT64_MAX

/* Every kind, NULL-terminated (kinds.c); from_url() is tried in this order. */
extern const struct sink_ops *const sink_kinds[];
/** sink_kind - the kind of that type, or NULL */
const struct sink_ops *sink_kind(const char *type);

/* ---- what a kind of sink may call (worker.c) ---- */

/**
 * sink_poll - wait until a descriptor is ready
 * @events: as in poll(2)
 * @timeout_ns: how long at most, or SINK_NEVER
 * Returns 1 when it is ready (or has an error to be read), 0 when the time is
 * up or a stop's deadline has passed: return from write() then with what was
 * taken. Negative errno if poll(2) fails.
 */
int sink_poll(struct sink *sink, int fd, short events, uint64_t timeout_ns);

/*
 * The fate of lines that are in flight (async kinds), in any thread. Lines
 * with seq 0 are not reported.
 */
void sink_delivered(struct sink *sink, uint64_t n, uint64_t bytes);
void sink_unknown(struct sink *sink, uint64_t n);
void sink_dropped(struct sink *sink, enum sink_reason reason, uint64_t n, uint64_t seq_first,
		  uint64_t seq_last);

/*
 * Beside that, async kinds that spool say, in the worker thread, of each line
 * in flight that has meta.spool: its place in the spool is free (it is also
 * reported above), or it could not be delivered now and is to come again (this
 * is its report).
 */
void sink_release(struct sink *sink, const struct line_meta *meta);
void sink_give_back(struct sink *sink, const struct line_meta *meta);

#endif
