/* What tests see and set: environment, control functions, the count of calls. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"

#define EXPORTED   __attribute__((visibility("default")))
#define NSHARDS    64 /* of the counts: each thread has its own, the rest share the last */
#define NAME_LEN   64
#define HEADER     64
#define MAX_PATH   4096
#define MEMORY_GIB 8

struct fake_settings fake_settings = {.nested = true, .memory = (uint64_t)MEMORY_GIB << 30};

/* Shards are given out by a counter that lies before the counts, for all processes that share them. */
static _Atomic uint32_t *next_shard;
static _Atomic uint64_t *counts; /* [NSHARDS][fake_nfunctions] */
_Atomic uint64_t *fake_last_shard;
__thread _Atomic uint64_t *fake_my_counts;

/* ---- counting ---- */

static _Atomic uint64_t *shard(unsigned i)
{
	return counts + (size_t)i * fake_nfunctions;
}

void fake_take_shard(void)
{
	unsigned i = atomic_fetch_add(next_shard, 1);

	fake_my_counts = shard(i < NSHARDS ? i : NSHARDS - 1);
}

/* A child of fork() must not add to the shard of the thread that made it. */
static void leave_shard(void)
{
	fake_my_counts = NULL;
}

static uint64_t own_calls(unsigned index)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < NSHARDS; i++)
		n += atomic_load(&shard(i)[index]);
	return n;
}

/* A file that every process with this library adds to. */
static void *map_file(const char *dir, size_t size)
{
	char path[MAX_PATH];
	void *map;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, fake_soname);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return MAP_FAILED;
	fchmod(fd, 0666); /* whoever the program becomes */
	map = ftruncate(fd, (off_t)size) ? MAP_FAILED
					 : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return map;
}

/* Laid out as fake_cuda.h says. */
static void start_counts(void)
{
	const char *dir = getenv("FAKE_CUDA_COUNTS");
	size_t names = (size_t)fake_nfunctions * NAME_LEN;
	size_t size = HEADER + names + (size_t)fake_nfunctions * NSHARDS * sizeof(*counts);
	char *map = dir ? map_file(dir, size) : MAP_FAILED;

	if (map == MAP_FAILED)
		map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		abort();
	((uint32_t *)map)[0] = fake_nfunctions;
	((uint32_t *)map)[1] = NSHARDS;
	next_shard = (_Atomic uint32_t *)map + 2;
	for (unsigned i = 0; i < fake_nfunctions; i++)
		strncpy(map + HEADER + i * NAME_LEN, fake_functions[i].name, NAME_LEN - 1);
	counts = (_Atomic uint64_t *)(map + HEADER + names);
	fake_last_shard = shard(NSHARDS - 1);
	pthread_atfork(NULL, NULL, leave_shard);
}

/* ---- behaviour ---- */

static void set_behaviour(struct fake_behaviour *to, unsigned flags, int64_t ret, uint64_t delay_ns)
{
	atomic_store(&to->flags, flags);
	atomic_store(&to->ret, ret);
	atomic_store(&to->delay_ns, delay_ns);
	atomic_store(&to->active, flags || delay_ns || atomic_load(&to->hook));
}

int fake_index(const char *name)
{
	unsigned low = 0, high = fake_nfunctions;

	while (low < high) {
		unsigned middle = low + (high - low) / 2;
		int order = strcmp(fake_functions[middle].name, name);

		if (!order)
			return (int)middle;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return -ENOENT;
}

EXPORTED const struct fake_own fake_cuda_own = {
	.index = fake_index,
	.calls = own_calls,
	.behaviours = fake_behaviours,
};

/* The loaded library that has a function, and its index there. */
static const struct fake_own *find(const char *name, int *ret_index)
{
	static const char *const sonames[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0",
					      "libcuda.so.1"};
	const struct fake_own *own = NULL;

	*ret_index = fake_index(name);
	if (*ret_index >= 0)
		return &fake_cuda_own;
	for (size_t i = 0; i < sizeof(sonames) / sizeof(sonames[0]); i++) {
		void *handle = dlopen(sonames[i], RTLD_NOW | RTLD_NOLOAD);

		own = handle ? dlsym(handle, "fake_cuda_own") : NULL;
		if (handle)
			dlclose(handle);
		*ret_index = own ? own->index(name) : -ENOENT;
		if (*ret_index >= 0)
			return own;
	}
	return NULL;
}

EXPORTED int fake_cuda_set(const char *name, unsigned flags, int64_t ret, uint64_t delay_ns)
{
	int index;
	const struct fake_own *own = find(name, &index);

	if (!own)
		return -ENOENT;
	set_behaviour(&own->behaviours[index], flags, ret, delay_ns);
	return 0;
}

EXPORTED int fake_cuda_on(const char *name, fake_cuda_hook hook, void *ctx)
{
	int index;
	const struct fake_own *own = find(name, &index);
	struct fake_behaviour *to;

	if (!own)
		return -ENOENT;
	to = &own->behaviours[index];
	to->ctx = ctx;
	atomic_store(&to->hook, hook);
	atomic_store(&to->active, hook || atomic_load(&to->flags) || atomic_load(&to->delay_ns));
	return 0;
}

EXPORTED uint64_t fake_cuda_calls(const char *name)
{
	int index;
	const struct fake_own *own = find(name, &index);

	return own ? own->calls((unsigned)index) : 0;
}

/* ---- environment ---- */

struct unit {
	const char *name;
	uint64_t factor;
};

static uint64_t read_number(const char *text, const struct unit *units)
{
	char *end;
	double value = strtod(text, &end);

	for (; units->name; units++)
		if (!strcmp(end, units->name))
			return (uint64_t)(value * (double)units->factor);
	return (uint64_t)value;
}

static const struct unit durations[] = {
	{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {NULL, 0}};
static const struct unit sizes[] = {{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {NULL, 0}};

/* GLOB:KEY=VALUE,... */
static void apply_rule(char *rule)
{
	char *save, *key, *keys = strchr(rule, ':');
	unsigned flags = 0;
	int64_t ret = 0;
	uint64_t delay_ns = 0;

	if (!keys)
		return;
	*keys++ = 0;
	for (key = strtok_r(keys, ",", &save); key; key = strtok_r(NULL, ",", &save)) {
		if (!strncmp(key, "ret=", 4)) {
			ret = strtoll(key + 4, NULL, 0);
			flags |= FAKE_CUDA_RET;
		} else if (!strncmp(key, "delay=", 6)) {
			delay_ns = read_number(key + 6, durations);
		} else if (!strcmp(key, "outs=0")) {
			flags |= FAKE_CUDA_NO_OUTS;
		}
	}
	for (unsigned i = 0; i < fake_nfunctions; i++)
		if (!fnmatch(rule, fake_functions[i].name, 0))
			set_behaviour(&fake_behaviours[i], flags, ret, delay_ns);
}

static void read_environment(void)
{
	const char *rules = getenv("FAKE_CUDA"), *memory = getenv("FAKE_CUDA_MEMORY");
	const char *nested = getenv("FAKE_CUDA_NESTED");
	char *copy = rules ? strdup(rules) : NULL, *save, *rule;

	if (memory)
		fake_settings.memory = read_number(memory, sizes);
	if (nested)
		fake_settings.nested = strcmp(nested, "0") != 0;
	for (rule = copy ? strtok_r(copy, ";", &save) : NULL; rule; rule = strtok_r(NULL, ";", &save))
		apply_rule(rule);
	free(copy);
}

/* Before any other constructor: those of the program may call CUDA at once. */
__attribute__((constructor(101))) static void start(void)
{
	start_counts();
	read_environment();
	fake_nest_start();
	fake_plan_all();
}
