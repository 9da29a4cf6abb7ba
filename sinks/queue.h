/*
 * The bounded queue of one sink: runs of lines, first in, first out. It has
 * no lock of its own; worker.c holds one around every call.
 *
 * The consumer looks at the front with queue_peek(), works without the lock,
 * and takes away with queue_consume() what is done with; until then the
 * lines count as queued and their chunks stay. Only the consumer takes from
 * the front; queue_evict() takes from behind what it has in its hands.
 *
 * How much memory a queue can pin. A queued line pins its whole chunk, and a
 * sink that wants one line in a thousand would pin a thousand times its
 * bytes. So the queue watches its density: a run is held by reference while
 *
 *	pinned chunks <= 2 * queued bytes + QUEUE_SLACK
 *
 * and otherwise its lines are copied into a chunk of the queue's own, which is
 * dense. A sink that takes most lines never copies; nor does one that keeps
 * up. In no case are more than 2 * max_bytes + QUEUE_SLACK bytes pinned: what
 * would go beyond is refused as if the queue were full.
 */
#ifndef CUDATAP_QUEUE_H
#define CUDATAP_QUEUE_H

#include "chunk.h"

#define QUEUE_SLACK (8 * sizeof(struct chunk)) /* 2.5 MiB */

struct queue_run {
	struct chunk *chunk; /* one reference per run */
	uint32_t first, count;
};

struct queue {
	uint64_t max_events, max_bytes;
	uint64_t events, bytes; /* queued */
	uint64_t pinned;        /* bytes of distinct chunks that queued lines lie in */
	struct chunk_pool *pool;
	struct chunk *pack;     /* lines are copied here, or NULL */
	struct queue_run *runs; /* a ring of `capacity` (a power of two), grown on demand */
	size_t head, nruns, capacity;
};

/** queue_init - @max_events, @max_bytes: 0 counts as 1; an empty queue takes any one line */
void queue_init(struct queue *queue, uint64_t max_events, uint64_t max_bytes, struct chunk_pool *pool);
/** queue_destroy - drops every reference */
void queue_destroy(struct queue *queue);

/**
 * queue_push - append a run
 * Lines are referenced (or copied), the caller keeps its own reference.
 * Returns how many lines from the first were accepted; the rest is the caller's to count as lost.
 */
size_t queue_push(struct queue *queue, struct chunk *chunk, uint32_t first, size_t count);

/** queue_push_beyond - the same whatever the limits say; only for want of memory some are not accepted */
size_t queue_push_beyond(struct queue *queue, struct chunk *chunk, uint32_t first, size_t count);

/**
 * queue_peek - lines at the front, in one array
 * @room: array of @max lines, used when the front run is short
 * @max_bytes: the lines have at most so many bytes together, but there is one if the queue has one
 * Returns their number; @ret_lines is @room or points into a chunk. Good without the lock until
 * they are consumed.
 */
size_t queue_peek(const struct queue *queue, struct line *room, size_t max, uint64_t max_bytes,
		  const struct line **ret_lines);

/** queue_consume - the first @n lines are done with */
void queue_consume(struct queue *queue, size_t n);

/** queue_evict - give up lines to make room for others
 * @skip: lines at the front that stay: those in the consumer's hands
 * @max: at most so many of the lines behind them
 * Returns how many lines went; they lay in one run, so that a second call may find more. */
size_t queue_evict(struct queue *queue, size_t skip, size_t max, uint64_t *ret_seq_first,
		   uint64_t *ret_seq_last);

#endif
