/* Lines in the hands of a kafka sink: referred to in their chunks, or copied where that pins too much. */
#include <stdlib.h>
#include <string.h>

#include "kafka.h"

static struct line *copy_line(const struct line *line)
{
	struct line *copy = malloc(sizeof(*copy) + line->len);

	if (!copy)
		return NULL;
	*copy = *line;
	copy->data = memcpy(copy + 1, line->data, line->len);
	copy->offset = 0;
	return copy;
}

/* Lines from the first that lie in one chunk, and their bytes. */
static size_t same_chunk(const struct line *lines, size_t n, uint64_t *ret_bytes)
{
	const struct chunk *chunk = line_chunk(lines);
	size_t run = 0;

	*ret_bytes = 0;
	do
		*ret_bytes += lines[run++].len;
	while (run < n && chunk && line_chunk(&lines[run]) == chunk);
	return run;
}

size_t kafka_hold(struct kafka *k, const struct line *lines, size_t n)
{
	size_t done = 0;

	while (done < n) {
		uint64_t bytes;
		size_t run = same_chunk(&lines[done], n - done, &bytes);
		struct chunk *chunk = line_chunk(&lines[done]);
		bool pin = chunk && pins_may(&k->pins, chunk, k->held_bytes + bytes) &&
			   pins_add(&k->pins, chunk, (uint32_t)run);

		for (size_t end = done + run; done < end; done++) {
			k->batch[done] = pin ? line_home(&lines[done]) : copy_line(&lines[done]);
			if (!k->batch[done])
				return done;
			k->held++;
			k->held_bytes += lines[done].len;
		}
	}
	return done;
}

void kafka_unpin(struct kafka *k)
{
	if (k->unpinned.lines)
		pins_drop(&k->pins, k->unpinned.chunk, k->unpinned.lines);
	k->unpinned = (struct kafka_pin){0};
}

void kafka_let_go(struct kafka *k, struct line *line)
{
	struct chunk *chunk = line_chunk(line);

	k->held--;
	k->held_bytes -= line->len;
	if (!chunk) {
		free(line);
		return;
	}
	if (k->unpinned.chunk != chunk)
		kafka_unpin(k);
	k->unpinned.chunk = chunk;
	k->unpinned.lines++;
}

size_t kafka_room(const struct kafka *k, const struct line *lines, size_t n)
{
	uint64_t events = k->sink->max_events > k->held ? k->sink->max_events - k->held : 0;
	uint64_t bytes = k->held_bytes;
	size_t fit = 0;

	n = n < events ? n : (size_t)events;
	while (fit < n && (bytes += lines[fit].len) <= k->sink->max_bytes)
		fit++;
	return fit || k->held || !n ? fit : 1;
}

bool kafka_keep(struct kafka *k, struct line *line)
{
	struct kafka_lines *again = &k->again;

	if (again->n == again->capacity) {
		size_t capacity = again->capacity ? again->capacity * 2 : KAFKA_BATCH;
		struct line **list = reallocarray(again->list, capacity, sizeof(*list));

		if (!list)
			return false;
		again->list = list;
		again->capacity = capacity;
	}
	again->list[again->n++] = line;
	return true;
}
