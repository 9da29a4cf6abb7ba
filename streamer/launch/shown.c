/*
 * The set of files shown: open addressing, linear probing, half full at most.
 */
#include "shown.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SHOWN_FIRST = 1 << 10, SHOWN_MOST = 1 << 20 };

struct shown {
	pthread_mutex_t lock;
	struct shown_key *slot; /* unused when ino and dev are all 0 */
	size_t nslots, used;
};

static uint64_t time_ns(const struct statx_timestamp *t)
{
	return (uint64_t)t->tv_sec * 1000000000u + t->tv_nsec;
}

int shown_key(int dirfd, const char *path, int flags, struct shown_key *ret_key)
{
	struct statx st;

	if (statx(dirfd, path, flags, STATX_BASIC_STATS | STATX_BTIME, &st))
		return -errno;
	if (!S_ISREG(st.stx_mode))
		return 0;
	*ret_key = (struct shown_key){
		.ino = st.stx_ino,
		.size = st.stx_size,
		.mtime_ns = time_ns(&st.stx_mtime),
		.btime_ns = time_ns(st.stx_mask & STATX_BTIME ? &st.stx_btime : &st.stx_ctime),
		.dev_major = st.stx_dev_major,
		.dev_minor = st.stx_dev_minor,
	};
	return 1;
}

struct shown *shown_new(void)
{
	struct shown *shown = calloc(1, sizeof(*shown));

	if (!shown)
		return NULL;
	shown->slot = calloc(SHOWN_FIRST, sizeof(*shown->slot));
	if (!shown->slot) {
		free(shown);
		return NULL;
	}
	shown->nslots = SHOWN_FIRST;
	pthread_mutex_init(&shown->lock, NULL);
	return shown;
}

void shown_free(struct shown *shown)
{
	if (!shown)
		return;
	pthread_mutex_destroy(&shown->lock);
	free(shown->slot);
	free(shown);
}

static bool is_unused(const struct shown_key *key)
{
	return !key->ino && !key->dev_major && !key->dev_minor;
}

bool shown_same(const struct shown_key *a, const struct shown_key *b)
{
	return a->ino == b->ino && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor &&
	       a->size == b->size && a->mtime_ns == b->mtime_ns && a->btime_ns == b->btime_ns;
}

static size_t home_of(const struct shown_key *key, size_t mask)
{
	return ((key->ino ^ key->mtime_ns) * 0x9e3779b97f4a7c15u >> 32) & mask;
}

/* The slot that holds the key, or the unused one where it belongs. */
static struct shown_key *shown_slot(struct shown_key *slots, size_t nslots, const struct shown_key *key)
{
	size_t i = home_of(key, nslots - 1);

	while (!is_unused(&slots[i]) && !shown_same(&slots[i], key))
		i = (i + 1) & (nslots - 1);
	return &slots[i];
}

bool shown_has(struct shown *shown, const struct shown_key *key)
{
	bool has;

	pthread_mutex_lock(&shown->lock);
	has = !is_unused(shown_slot(shown->slot, shown->nslots, key));
	pthread_mutex_unlock(&shown->lock);
	return has;
}

/* Doubles the table; empties it when it may not grow. */
static void shown_grow(struct shown *shown)
{
	size_t n = shown->nslots * 2;
	struct shown_key *slots = n <= SHOWN_MOST ? calloc(n, sizeof(*slots)) : NULL;

	if (!slots) {
		memset(shown->slot, 0, shown->nslots * sizeof(*shown->slot));
		shown->used = 0;
		return;
	}
	for (size_t i = 0; i < shown->nslots; i++)
		if (!is_unused(&shown->slot[i]))
			*shown_slot(slots, n, &shown->slot[i]) = shown->slot[i];
	free(shown->slot);
	shown->slot = slots;
	shown->nslots = n;
}

void shown_add(struct shown *shown, const struct shown_key *key)
{
	struct shown_key *slot;

	pthread_mutex_lock(&shown->lock);
	if (2 * (shown->used + 1) > shown->nslots)
		shown_grow(shown);
	slot = shown_slot(shown->slot, shown->nslots, key);
	if (is_unused(slot)) {
		*slot = *key;
		shown->used++;
	}
	pthread_mutex_unlock(&shown->lock);
}

void shown_remove(struct shown *shown, const struct shown_key *key)
{
	struct shown_key *slots = shown->slot, *hole;
	size_t mask = shown->nslots - 1, i;

	pthread_mutex_lock(&shown->lock);
	hole = shown_slot(slots, shown->nslots, key);
	if (!is_unused(hole)) {
		/* what had been pushed past it moves back: behind an unused slot nobody would find it */
		for (i = (hole - slots + 1) & mask; !is_unused(&slots[i]); i = (i + 1) & mask)
			if (((i - home_of(&slots[i], mask)) & mask) >= ((i - (hole - slots)) & mask)) {
				*hole = slots[i];
				hole = &slots[i];
			}
		*hole = (struct shown_key){0};
		shown->used--;
	}
	pthread_mutex_unlock(&shown->lock);
}
