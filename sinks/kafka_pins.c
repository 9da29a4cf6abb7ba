/* Which chunks the messages in flight lie in: a hash table from chunk to its count of lines. */
#include <stdlib.h>

#include "kafka.h"
#include "queue.h"

#define PINS_FIRST 64

static size_t pins_home(const struct kafka_pins *pins, const struct chunk *chunk)
{
	/* Chunks come from malloc: the low bits are alike. */
	return (size_t)(((uintptr_t)chunk >> 4) * 0x9e3779b97f4a7c15ull >> 32) & (pins->capacity - 1);
}

/* The chunk's slot, or the free one where it would go. There is always a free one. */
static size_t pins_find(const struct kafka_pins *pins, const struct chunk *chunk)
{
	size_t i = pins_home(pins, chunk);

	while (pins->slots[i].chunk && pins->slots[i].chunk != chunk)
		i = (i + 1) & (pins->capacity - 1);
	return i;
}

static bool pins_grow(struct kafka_pins *pins)
{
	struct kafka_pins old = *pins;
	size_t capacity = old.capacity ? old.capacity * 2 : PINS_FIRST;
	struct kafka_pin *slots = calloc(capacity, sizeof(*slots));

	if (!slots)
		return false;
	pins->slots = slots;
	pins->capacity = capacity;
	for (size_t i = 0; i < old.capacity; i++)
		if (old.slots[i].chunk)
			slots[pins_find(pins, old.slots[i].chunk)] = old.slots[i];
	free(old.slots);
	return true;
}

bool pins_may(struct kafka_pins *pins, const struct chunk *chunk, uint64_t bytes)
{
	uint64_t pinned = (pins->n + 1) * sizeof(struct chunk);

	if (pins->n && pins->slots[pins_find(pins, chunk)].chunk)
		return true;
	return pinned <= QUEUE_SLACK || (pinned - QUEUE_SLACK) / 2 <= bytes;
}

bool pins_add(struct kafka_pins *pins, struct chunk *chunk, uint32_t n)
{
	struct kafka_pin *pin;

	if (pins->n * 2 >= pins->capacity && !pins_grow(pins))
		return false;
	pin = &pins->slots[pins_find(pins, chunk)];
	if (!pin->chunk) {
		pin->chunk = chunk;
		chunk_ref(chunk);
		pins->n++;
	}
	pin->lines += n;
	return true;
}

/* Empty a slot and move up what had to go past it. */
static void pins_remove(struct kafka_pins *pins, size_t hole)
{
	size_t mask = pins->capacity - 1;

	for (size_t i = (hole + 1) & mask; pins->slots[i].chunk; i = (i + 1) & mask) {
		size_t home = pins_home(pins, pins->slots[i].chunk);

		/* It may fill the hole unless its home lies behind the hole. */
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			pins->slots[hole] = pins->slots[i];
			hole = i;
		}
	}
	pins->slots[hole] = (struct kafka_pin){0};
	pins->n--;
}

void pins_drop(struct kafka_pins *pins, struct chunk *chunk, uint32_t n)
{
	size_t i = pins_find(pins, chunk);

	pins->slots[i].lines -= n;
	if (pins->slots[i].lines)
		return;
	pins_remove(pins, i);
	chunk_unref(chunk);
}

void pins_free(struct kafka_pins *pins)
{
	free(pins->slots);
	*pins = (struct kafka_pins){0};
}
