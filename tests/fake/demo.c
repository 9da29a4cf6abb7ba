/*
 * A small CUDA program as people write them, for machines without a GPU: it
 * runs on the fake libcudart. It allocates, copies, launches two named
 * kernels, asks for more memory than there is and forgets to free a buffer.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/programs/cuda_api.h"

#define N          (1 << 20)
#define TOO_LARGE  (64ull << 30)
#define THREADS    256
#define ITERATIONS 3

/* What nvcc would make of two kernels: host stubs, registered by a constructor under the device's names. */
static char vector_add[1], reduce_sum[1];
static void **fat_binary;

static __attribute__((constructor)) void register_kernels(void)
{
	static long image[4];

	fat_binary = __cudaRegisterFatBinary(image);
	__cudaRegisterFunction(fat_binary, vector_add, vector_add, "_Z10vector_addPKfS0_Pfi", -1, NULL, NULL,
			       NULL, NULL, NULL);
	__cudaRegisterFunction(fat_binary, reduce_sum, reduce_sum, "_Z10reduce_sumPKfPfi", -1, NULL, NULL,
			       NULL, NULL, NULL);
	__cudaRegisterFatBinaryEnd(fat_binary);
}

static __attribute__((destructor)) void unregister_kernels(void)
{
	__cudaUnregisterFatBinary(fat_binary);
}

static void check(cudaError_t error, const char *what)
{
	if (error) {
		fprintf(stderr, "demo: %s: %s\n", what, cudaGetErrorString(error));
		exit(1);
	}
}

static void compute(float *a, float *b, float *c, cudaStream_t stream, cudaEvent_t done)
{
	dim3 grid = {(N + THREADS - 1) / THREADS, 1, 1}, block = {THREADS, 1, 1};
	int n = N;
	void *add_args[] = {&a, &b, &c, &n}, *sum_args[] = {&c, &a, &n};

	for (int i = 0; i < ITERATIONS; i++) {
		check(cudaLaunchKernel(vector_add, grid, block, add_args, 0, stream), "vector_add");
		check(cudaLaunchKernel(reduce_sum, (dim3){64, 2, 1}, (dim3){32, 8, 1}, sum_args,
				       THREADS * sizeof(float), stream),
		      "reduce_sum");
	}
	check(cudaEventRecord(done, stream), "event");
	check(cudaEventSynchronize(done), "wait for event");
}

int main(void)
{
	float *host = calloc(N, sizeof(float)), *a, *b, *c;
	void *large = NULL;
	cudaStream_t stream;
	cudaEvent_t done;
	cudaError_t error;

	check(cudaSetDevice(0), "device");
	check(cudaMalloc((void **)&a, N * sizeof(float)), "malloc");
	check(cudaMalloc((void **)&b, N * sizeof(float)), "malloc");
	check(cudaMalloc((void **)&c, N * sizeof(float)), "malloc");
	check(cudaStreamCreate(&stream), "stream");
	check(cudaEventCreate(&done), "event");
	check(cudaMemcpy(a, host, N * sizeof(float), H2D), "copy");
	check(cudaMemcpyAsync(b, host, N * sizeof(float), H2D, stream), "copy");
	check(cudaMemsetAsync(c, 0, N * sizeof(float), stream), "memset");
	compute(a, b, c, stream, done);
	check(cudaMemcpy(host, c, N * sizeof(float), D2H), "copy back");

	error = cudaMalloc(&large, TOO_LARGE);
	printf("demo: %d vectors of %d floats; %d launches; %llu GiB at once: %s\n", 3, N, 2 * ITERATIONS,
	       TOO_LARGE >> 30, cudaGetErrorString(error));
	cudaGetLastError();

	check(cudaEventDestroy(done), "event");
	check(cudaStreamDestroy(stream), "stream");
	check(cudaFree(a), "free");
	check(cudaFree(b), "free"); /* c is leaked */
	check(cudaDeviceSynchronize(), "synchronize");
	free(host);
	return 0;
}
