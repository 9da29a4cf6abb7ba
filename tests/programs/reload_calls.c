/*
 * Calls as fast as it can, until its stdin ends or it has called so often. usage: reload_calls THREADS TIMES
 * | hang Says "calling" when it has begun, and at the end how many times it called cudaMalloc and cudaMemset.
 * The first thread's cudaMalloc has sizes 1, 2, ... With `hang` it is in one call of cudaDeviceSynchronize
 * all the time.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_api.h"
#include "../fake/fake_cuda.h"

static atomic_bool ending;
static size_t times;
static atomic_ullong mallocs, memsets;

static void *work(void *arg)
{
	void *p;

	for (size_t i = 1; i <= times && !atomic_load(&ending); i++) {
		cudaMalloc(&p, i);
		cudaMemset(p, 0, i);
		cudaFree(p);
		atomic_fetch_add(&mallocs, 1);
		atomic_fetch_add(&memsets, 1);
	}
	return NULL;
}

static void wait_for_end(void *ctx)
{
	char drop[64];

	while (read(STDIN_FILENO, drop, sizeof(drop)) > 0)
		;
}

static int hang(void)
{
	void *p;

	cudaMalloc(&p, 1);
	fake_cuda_on("cudaDeviceSynchronize", wait_for_end, NULL);
	puts("calling");
	fflush(stdout);
	cudaDeviceSynchronize();
	cudaFree(p);
	return 0;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t *all = calloc((size_t)threads + 1, sizeof(*all));

	if (argc > 1 && !strcmp(argv[1], "hang"))
		return hang();
	times = argc > 2 ? (size_t)atoll(argv[2]) : 1000;
	for (int i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, work, NULL);
	puts("calling");
	fflush(stdout);
	wait_for_end(NULL);
	atomic_store(&ending, true);
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	printf("%llu %llu\n", atomic_load(&mallocs), atomic_load(&memsets));
	free(all);
	return 0;
}
