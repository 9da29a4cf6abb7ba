/*
 * Chunks: reference-counted buffers of encoded lines with a table of the
 * lines in them. The reader appends; sinks hold references to runs of lines
 * (chunk, first, count) and read them without a lock.
 *
 * Lines of one chunk lie one behind the other without a gap, in the order of
 * the table, so that a run is one piece of memory. A line is published by
 * handing a run to a queue under that queue's lock; from then on it never
 * changes, while the reader may append others behind it.
 *
 * A pool keeps a few empty chunks, so that the steady state allocates nothing.
 */
#ifndef CUDATAP_CHUNK_H
#define CUDATAP_CHUNK_H

#include <pthread.h>
#include <stdatomic.h>

#include "sink.h"

#define CHUNK_BYTES     (256u << 10)         /* of lines */
#define CHUNK_LINES     (CHUNK_BYTES / 256u) /* shorter lines on average end a chunk early */
#define CHUNK_POOL_KEEP 32                   /* empty chunks kept for reuse: 10 MiB */

struct chunk_pool {
	pthread_mutex_t lock;
	struct chunk *empty; /* last in, first out: the warmest first */
	unsigned nempty;
	unsigned nchunks; /* all that exist */
	unsigned max;     /* of them */
};

struct chunk {
	atomic_uint refs;
	uint32_t nlines, used; /* the appender's: others know what they were given */
	struct chunk_pool *pool;
	struct chunk *next; /* in the pool */
	struct line lines[CHUNK_LINES];
	char data[CHUNK_BYTES];
};

/** chunk_pool_init - @max: chunks that may exist at a time */
void chunk_pool_init(struct chunk_pool *pool, unsigned max);
/** chunk_pool_destroy - every chunk must have come back */
void chunk_pool_destroy(struct chunk_pool *pool);

/** chunk_get - an empty chunk with one reference, or NULL: out of memory or of @max. Any thread. */
struct chunk *chunk_get(struct chunk_pool *pool);

/** chunk_ref, chunk_unref - any thread; NULL is fine for unref */
static inline void chunk_ref(struct chunk *chunk)
{
	atomic_fetch_add_explicit(&chunk->refs, 1, memory_order_relaxed);
}
void chunk_unref(struct chunk *chunk);

/** chunk_fits - is there room for one more line of @len bytes? */
static inline bool chunk_fits(const struct chunk *chunk, size_t len)
{
	return chunk->nlines < CHUNK_LINES && CHUNK_BYTES - chunk->used >= len;
}

/** chunk_end - where the next line goes */
static inline char *chunk_end(struct chunk *chunk)
{
	return chunk->data + chunk->used;
}

/** chunk_append - the @len bytes at chunk_end() are a line */
static inline void chunk_append(struct chunk *chunk, size_t len, const struct line_meta *meta)
{
	struct line *line = &chunk->lines[chunk->nlines++];

	line->data = chunk->data + chunk->used;
	line->len = (uint32_t)len;
	line->offset = (uint32_t)(line->data - (const char *)chunk);
	line->index = (uint32_t)(line - chunk->lines);
	line->meta = *meta;
	chunk->used += (uint32_t)len;
}

/** line_chunk - the chunk that a line (or a copy of its struct) lies in, or NULL */
static inline struct chunk *line_chunk(const struct line *line)
{
	return line->offset ? (struct chunk *)(void *)((char *)line->data - line->offset) : NULL;
}

/** line_home - the line in its chunk's table: good as long as one has a reference to the chunk */
static inline struct line *line_home(const struct line *line)
{
	return &line_chunk(line)->lines[line->index];
}

/** lines_bytes - of @n > 0 lines that lie one behind the other */
static inline uint64_t lines_bytes(const struct line *lines, size_t n)
{
	return (uint64_t)(lines[n - 1].data - lines[0].data) + lines[n - 1].len;
}

/** lines_within - how many of @n adjacent lines have at most @max bytes together */
size_t lines_within(const struct line *lines, size_t n, uint64_t max);

#endif
