/* Calls as fast as it can from several threads. usage: rate THREADS CALLS
 * Prints how many calls it made and how long one took, in nanoseconds. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cuda_api.h"

static int calls;

static void *work(void *arg)
{
	for (int i = 0; i < calls; i++)
		cudaMemset(NULL, i, (size_t)i + 1);
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[1]) : 0;
	pthread_t *all = calloc((size_t)threads + 1, sizeof(*all));
	struct timespec begin, end;

	calls = argc > 2 ? atoi(argv[2]) : 0;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, work, NULL);
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%d calls, %.0f ns each\n", threads * calls,
	       ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / calls /
		       threads);
	free(all);
	return 0;
}
