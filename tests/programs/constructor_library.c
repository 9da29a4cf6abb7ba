/* A library that calls CUDA in its constructor and then from a function: whoever loads it must be held
 * until the CUDA library that comes with it is probed. */
#include "cuda_api.h"

void library_work(int n);

static __attribute__((constructor)) void start(void)
{
	int device;

	for (int i = 0; i < 5; i++)
		cudaGetDevice(&device);
	cudaSetDevice(0);
}

__attribute__((visibility("default"))) void library_work(int n)
{
	void *p;

	for (int i = 0; i < n; i++)
		cudaMalloc(&p, (size_t)i + 1);
}
