/* The bounded queue of one sink. */
#include <stdlib.h>
#include <string.h>

#include "queue.h"

#define QUEUE_FIRST_RUNS 64
#define QUEUE_LONG_RUN   64 /* a run of so many lines is handed out where it lies */

void queue_init(struct queue *queue, uint64_t max_events, uint64_t max_bytes, struct chunk_pool *pool)
{
	*queue = (struct queue){
		.max_events = max_events ? max_events : 1,
		.max_bytes = max_bytes ? max_bytes : 1,
		.pool = pool,
	};
}

static struct queue_run *run_at(const struct queue *queue, size_t i)
{
	return &queue->runs[(queue->head + i) & (queue->capacity - 1)];
}

void queue_destroy(struct queue *queue)
{
	for (size_t i = 0; i < queue->nruns; i++)
		chunk_unref(run_at(queue, i)->chunk);
	chunk_unref(queue->pack);
	free(queue->runs);
	*queue = (struct queue){0};
}

static bool queue_grow(struct queue *queue)
{
	size_t capacity = queue->capacity ? queue->capacity * 2 : QUEUE_FIRST_RUNS;
	struct queue_run *runs = malloc(capacity * sizeof(*runs));

	if (!runs)
		return false;
	for (size_t i = 0; i < queue->nruns; i++)
		runs[i] = *run_at(queue, i);
	free(queue->runs);
	queue->runs = runs;
	queue->capacity = capacity;
	queue->head = 0;
	return true;
}

static struct queue_run *queue_tail(const struct queue *queue)
{
	return queue->nruns ? run_at(queue, queue->nruns - 1) : NULL;
}

/* Append lines that are known to be within the limits. */
static bool queue_append(struct queue *queue, struct chunk *chunk, uint32_t first, size_t count)
{
	struct queue_run *tail = queue_tail(queue);
	bool pinned = tail && tail->chunk == chunk;

	if (pinned && tail->first + tail->count == first) {
		tail->count += (uint32_t)count;
	} else {
		if (queue->nruns == queue->capacity && !queue_grow(queue))
			return false;
		*run_at(queue, queue->nruns++) = (struct queue_run){chunk, first, (uint32_t)count};
		chunk_ref(chunk);
		if (!pinned)
			queue->pinned += sizeof(*chunk);
	}
	queue->events += count;
	queue->bytes += lines_bytes(&chunk->lines[first], count);
	return true;
}

/* May another chunk be pinned when @bytes are queued? */
static bool may_pin(const struct queue *queue, uint64_t bytes)
{
	uint64_t pinned = queue->pinned + sizeof(struct chunk);

	return pinned <= QUEUE_SLACK || (pinned - QUEUE_SLACK) / 2 <= bytes;
}

/* A chunk of the queue's own with room for @len bytes. The full one is kept by its runs. */
static struct chunk *queue_pack(struct queue *queue, size_t len)
{
	if (queue->pack && chunk_fits(queue->pack, len))
		return queue->pack;
	chunk_unref(queue->pack);
	/* Lines are packed when the queue is sparse: its bytes do not excuse the chunk, the limit does. */
	queue->pack = may_pin(queue, queue->max_bytes) ? chunk_get(queue->pool) : NULL;
	return queue->pack;
}

static size_t queue_copy(struct queue *queue, const struct line *lines, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct chunk *pack = queue_pack(queue, lines[i].len);

		if (!pack)
			return i;
		memcpy(chunk_end(pack), lines[i].data, lines[i].len);
		chunk_append(pack, lines[i].len, &lines[i].meta);
		if (!queue_append(queue, pack, pack->nlines - 1, 1))
			return i; /* the copy stays in the chunk as an unused line */
	}
	return count;
}

/* How many of these lines the limits allow. */
static size_t queue_room(const struct queue *queue, const struct line *lines, size_t count)
{
	uint64_t events = queue->max_events > queue->events ? queue->max_events - queue->events : 0;
	uint64_t bytes = queue->max_bytes > queue->bytes ? queue->max_bytes - queue->bytes : 0;
	size_t n = count < events ? count : (size_t)events;

	n = lines_within(lines, n, bytes);
	return n || queue->events ? n : 1;
}

size_t queue_push(struct queue *queue, struct chunk *chunk, uint32_t first, size_t count)
{
	const struct line *lines = &chunk->lines[first];
	const struct queue_run *tail = queue_tail(queue);
	size_t n = count ? queue_room(queue, lines, count) : 0;

	if (!n)
		return 0;
	if ((tail && tail->chunk == chunk) || may_pin(queue, queue->bytes + lines_bytes(lines, n))) {
		/* Back to references: the order of chunks in the queue stays one of groups. */
		chunk_unref(queue->pack);
		queue->pack = NULL;
		return queue_append(queue, chunk, first, n) ? n : 0;
	}
	return queue_copy(queue, lines, n);
}

size_t queue_push_beyond(struct queue *queue, struct chunk *chunk, uint32_t first, size_t count)
{
	uint64_t max_events = queue->max_events, max_bytes = queue->max_bytes;
	size_t n;

	queue->max_events = queue->max_bytes = UINT64_MAX;
	n = queue_push(queue, chunk, first, count);
	queue->max_events = max_events;
	queue->max_bytes = max_bytes;
	return n;
}

size_t queue_peek(const struct queue *queue, struct line *room, size_t max, uint64_t max_bytes,
		  const struct line **ret_lines)
{
	size_t n = 0;

	for (size_t i = 0; i < queue->nruns && n < max; i++) {
		const struct queue_run *run = run_at(queue, i);
		const struct line *lines = &run->chunk->lines[run->first];
		size_t count = run->count < max - n ? run->count : max - n;
		size_t fit = lines_within(lines, count, max_bytes);

		if (!fit && !n)
			fit = 1;
		if (!n && fit >= QUEUE_LONG_RUN) {
			*ret_lines = lines;
			return fit;
		}
		if (!fit)
			break;
		memcpy(&room[n], lines, fit * sizeof(*lines));
		n += fit;
		if (fit < count)
			break;
		max_bytes -= lines_bytes(lines, fit) < max_bytes ? lines_bytes(lines, fit) : max_bytes;
	}
	*ret_lines = room;
	return n;
}

void queue_consume(struct queue *queue, size_t n)
{
	while (n) {
		struct queue_run *run = run_at(queue, 0);
		uint32_t count = run->count < n ? run->count : (uint32_t)n;
		struct chunk *chunk = run->chunk;

		queue->events -= count;
		queue->bytes -= lines_bytes(&chunk->lines[run->first], count);
		run->first += count;
		run->count -= count;
		n -= count;
		if (run->count)
			break;
		queue->head = (queue->head + 1) & (queue->capacity - 1);
		queue->nruns--;
		if (!queue->nruns || run_at(queue, 0)->chunk != chunk)
			queue->pinned -= sizeof(*chunk);
		chunk_unref(chunk);
	}
}

/* A gap at run @i for one more run. */
static bool open_gap(struct queue *queue, size_t i)
{
	if (queue->nruns == queue->capacity && !queue_grow(queue))
		return false;
	for (size_t j = queue->nruns++; j > i; j--)
		*run_at(queue, j) = *run_at(queue, j - 1);
	return true;
}

/* The runs before @i move up by one; usually they are few: what a writer holds. */
static void close_gap(struct queue *queue, size_t i)
{
	for (size_t j = i; j > 0; j--)
		*run_at(queue, j) = *run_at(queue, j - 1);
	queue->head = (queue->head + 1) & (queue->capacity - 1);
	queue->nruns--;
}

/* Runs of one chunk lie side by side: does a neighbour of run @i pin it, too? */
static bool pinned_beside(const struct queue *queue, size_t i)
{
	const struct chunk *chunk = run_at(queue, i)->chunk;

	return (i && run_at(queue, i - 1)->chunk == chunk) ||
	       (i + 1 < queue->nruns && run_at(queue, i + 1)->chunk == chunk);
}

/* The run that begins with line @skip, cut in two when that lies inside one. NRUNS: there is none. */
static size_t run_from(struct queue *queue, size_t skip)
{
	size_t i = 0;

	while (i < queue->nruns && run_at(queue, i)->count <= skip)
		skip -= run_at(queue, i++)->count;
	if (i == queue->nruns || !skip)
		return i;
	if (!open_gap(queue, i))
		return queue->nruns;
	run_at(queue, i)->count = (uint32_t)skip;
	run_at(queue, i + 1)->first += (uint32_t)skip;
	run_at(queue, i + 1)->count -= (uint32_t)skip;
	chunk_ref(run_at(queue, i)->chunk);
	return i + 1;
}

size_t queue_evict(struct queue *queue, size_t skip, size_t max, uint64_t *ret_seq_first,
		   uint64_t *ret_seq_last)
{
	size_t i = max ? run_from(queue, skip) : queue->nruns;
	struct queue_run *run;
	const struct line *lines;
	uint32_t n;

	if (i == queue->nruns)
		return 0;
	run = run_at(queue, i);
	n = run->count < max ? run->count : (uint32_t)max;
	lines = &run->chunk->lines[run->first];
	*ret_seq_first = lines[0].meta.seq;
	*ret_seq_last = lines[n - 1].meta.seq;
	queue->events -= n;
	queue->bytes -= lines_bytes(lines, n);
	run->first += n;
	run->count -= n;
	if (!run->count) {
		struct chunk *chunk = run->chunk;

		if (!pinned_beside(queue, i))
			queue->pinned -= sizeof(*chunk);
		close_gap(queue, i);
		chunk_unref(chunk);
	}
	return n;
}
