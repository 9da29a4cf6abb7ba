/* Chunks: reference-counted buffers of encoded lines. */
#include <stdlib.h>

#include "chunk.h"

void chunk_pool_init(struct chunk_pool *pool, unsigned max)
{
	*pool = (struct chunk_pool){.max = max};
	pthread_mutex_init(&pool->lock, NULL);
}

void chunk_pool_destroy(struct chunk_pool *pool)
{
	for (struct chunk *chunk = pool->empty, *next; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	pthread_mutex_destroy(&pool->lock);
}

static struct chunk *pool_take(struct chunk_pool *pool, bool *may_allocate)
{
	struct chunk *chunk;

	pthread_mutex_lock(&pool->lock);
	chunk = pool->empty;
	*may_allocate = !chunk && pool->nchunks < pool->max;
	if (chunk) {
		pool->empty = chunk->next;
		pool->nempty--;
	} else if (*may_allocate) {
		pool->nchunks++;
	}
	pthread_mutex_unlock(&pool->lock);
	return chunk;
}

static void pool_forget(struct chunk_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->nchunks--;
	pthread_mutex_unlock(&pool->lock);
}

struct chunk *chunk_get(struct chunk_pool *pool)
{
	bool may_allocate;
	struct chunk *chunk = pool_take(pool, &may_allocate);

	if (!chunk && may_allocate) {
		chunk = malloc(sizeof(*chunk));
		if (!chunk)
			pool_forget(pool);
	}
	if (!chunk)
		return NULL;
	atomic_init(&chunk->refs, 1);
	chunk->pool = pool;
	chunk->nlines = 0;
	chunk->used = 0;
	return chunk;
}

void chunk_unref(struct chunk *chunk)
{
	struct chunk_pool *pool;
	bool keep;

	if (!chunk || atomic_fetch_sub_explicit(&chunk->refs, 1, memory_order_acq_rel) != 1)
		return;
	pool = chunk->pool;
	pthread_mutex_lock(&pool->lock);
	keep = pool->nempty < CHUNK_POOL_KEEP;
	if (keep) {
		chunk->next = pool->empty;
		pool->empty = chunk;
		pool->nempty++;
	} else {
		pool->nchunks--;
	}
	pthread_mutex_unlock(&pool->lock);
	if (!keep)
		free(chunk);
}

size_t lines_within(const struct line *lines, size_t n, uint64_t max)
{
	size_t low = 0, high = n; /* low lines fit, more than high do not */

	while (low < high) {
		size_t middle = low + (high - low + 1) / 2;

		if (lines_bytes(lines, middle) <= max)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}
