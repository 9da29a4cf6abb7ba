/* Wall-clock time of boot times: the differences of the two clocks, and since when each holds. */
#include "enrich.h"

#include <stdlib.h>
#include <time.h>

#define MAX_PAIRS 1024
#define NOISE_NS  10000 /* smaller changes of the difference come from reading two clocks in turn */
#define STEP_NS   1000000
#define ATTEMPTS  5

struct pair {
	uint64_t boot_ns;  /* the difference holds from here on */
	int64_t offset_ns; /* real - boot */
};

struct clock_map {
	unsigned first, n; /* ring: the oldest pair goes when it is full */
	uint64_t last_boot_ns;
	struct pair pairs[MAX_PAIRS];
};

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* The two clocks cannot be read at once: the tightest of a few attempts counts. */
static uint64_t read_pair(uint64_t *ret_boot_ns, int64_t *ret_real_ns)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < ATTEMPTS; i++) {
		uint64_t before = now_ns(CLOCK_BOOTTIME);
		uint64_t real = now_ns(CLOCK_REALTIME);
		uint64_t width = now_ns(CLOCK_BOOTTIME) - before;

		if (width >= best)
			continue;
		best = width;
		*ret_boot_ns = before + width / 2;
		*ret_real_ns = (int64_t)real;
	}
	return best;
}

static const struct pair *pair_at(const struct clock_map *map, unsigned i)
{
	return &map->pairs[(map->first + i) % MAX_PAIRS];
}

struct clock_map *clock_map_new(void)
{
	struct clock_map *map = calloc(1, sizeof(*map));
	uint64_t boot_ns;
	int64_t real_ns;

	if (!map)
		return NULL;
	read_pair(&boot_ns, &real_ns);
	clock_map_pair(map, boot_ns, real_ns);
	return map;
}

void clock_map_free(struct clock_map *map)
{
	free(map);
}

int64_t clock_map_tick(struct clock_map *map)
{
	uint64_t boot_ns;
	int64_t real_ns;
	uint64_t width = read_pair(&boot_ns, &real_ns);

	/* Interrupted every time: such a pair would look like a change. The next tick will do. */
	if (width > NOISE_NS)
		return 0;
	return clock_map_pair(map, boot_ns, real_ns);
}

int64_t clock_map_pair(struct clock_map *map, uint64_t boot_ns, int64_t real_ns)
{
	int64_t offset_ns = real_ns - (int64_t)boot_ns;
	int64_t change = 0;

	if (map->n) {
		if (boot_ns < map->last_boot_ns)
			return 0;
		change = offset_ns - pair_at(map, map->n - 1)->offset_ns;
	}
	map->last_boot_ns = boot_ns;
	if (map->n && llabs(change) <= NOISE_NS)
		return 0;
	if (map->n == MAX_PAIRS) {
		map->first = (map->first + 1) % MAX_PAIRS;
		map->n--;
	}
	map->pairs[(map->first + map->n++) % MAX_PAIRS] = (struct pair){boot_ns, offset_ns};
	return llabs(change) > STEP_NS ? change : 0;
}

int64_t clock_map_real(const struct clock_map *map, uint64_t boot_ns)
{
	unsigned i = map->n - 1;

	/* nearly always the newest */
	while (i > 0 && pair_at(map, i)->boot_ns > boot_ns)
		i--;
	return (int64_t)boot_ns + pair_at(map, i)->offset_ns;
}
