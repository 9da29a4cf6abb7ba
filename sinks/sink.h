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

/* ---- lines ---- */

/* Encoded lines of one format. Written by the reader until it is full, never
 * changed afterwards; freed (or reused) when the last reference goes. */
struct chunk;

/* What sinks may want to know of a line without parsing it. */
struct line_meta {
	uint64_t seq;		/* 0: an event of one sink only (its own losses) */
	int64_t ts_ns;		/* unix time of the call's start */
	uint32_t pid, tid;
	uint16_t row;		/* of the API table; 0xffff for events that are no calls */
	uint8_t status;		/* enum call_status; CALL_OK for other events */
	uint8_t type;		/* enum event_type */
	uint32_t args_off;	/* where `,"args":...,"out":...` lies in the line, to be cut when too long */
	uint32_t args_len;	/* 0: nothing to cut */
};

struct line {
	const char *data;	/* ends with '\n', no other newline in it */
	uint32_t len;		/* with the newline */
	struct line_meta meta;
};

/* ---- loss ---- */

/* Why a sink lost a line. Closed list; names in sink_reason_names[]. */
enum sink_reason {
	SINK_QUEUE_FULL, SINK_TOO_LARGE, SINK_DISK_FULL, SINK_IO_ERROR, SINK_PIPE_CLOSED, SINK_UNREACHABLE,
	SINK_TIMED_OUT, SINK_REJECTED, SINK_AUTH, SINK_FATAL, SINK_SHUTDOWN, SINK_ENCODE_ERROR,
	SINK_SPOOL_FULL, SINK_SPOOL_CORRUPT, SINK_NREASONS
};
extern const char *const sink_reason_names[SINK_NREASONS];

/* received + recovered = delivered + sum(dropped) + unknown + filtered + rate_limited
 *                      + queued + in_flight + spooled */
struct sink_counters {
	uint64_t received, recovered;
	uint64_t delivered, dropped[SINK_NREASONS], unknown, filtered, rate_limited;
	uint64_t queued, in_flight, spooled;
	uint64_t bytes;		/* delivered */
};

/* A run of lines that one sink lost for one reason. */
struct sink_loss {
	const char *sink;	/* its name */
	enum sink_reason reason;
	uint64_t count, seq_first, seq_last;
};

#endif
