/*
 * Makes known calls of the CUDA runtime and writes, as JSON, how many of each
 * it made and with which values, for comparison with what cudatap saw.
 *
 * usage: calls COUNTS.json, or as a shared library calls_run(COUNTS.json)
 */
#include <cuda_runtime.h>

#include "own.h"

#define CALL(function, ...) (own_calls[#function]++, function(__VA_ARGS__))

__global__ void scale(float *data, float factor, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		data[i] *= factor;
}

__global__ void add_grid(float *data, int n)
{
	int i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x;

	if (i < n)
		data[i] += 1;
}

static void must(cudaError_t got, cudaError_t wanted, const char *what)
{
	own_must(got, wanted, what);
}

static void launch(float *data, int n, cudaStream_t stream)
{
	float factor = 1.5f;
	void *args[] = {&data, &factor, &n};
	void *args2[] = {&data, &n};

	for (int i = 0; i < 100; i++) {
		own_launches["scale(float*, float, int)"]++;
		must(CALL(cudaLaunchKernel, (const void *)scale, dim3(64), dim3(256), args, 1024, stream), cudaSuccess,
		     "launch scale");
	}
	for (int i = 0; i < 50; i++) {
		own_launches["add_grid(float*, int)"]++;
		must(CALL(cudaLaunchKernel, (const void *)add_grid, dim3(8, 4, 2), dim3(16, 8, 1), args2, 0, stream),
		     cudaSuccess, "launch add_grid");
	}
}

static void transfer(float *device, float *other, float *host, size_t bytes, cudaStream_t stream)
{
	for (int i = 0; i < 20; i++) {
		must(CALL(cudaMemcpy, device, host, bytes, cudaMemcpyHostToDevice), cudaSuccess, "h2d");
		must(CALL(cudaMemcpy, host, device, bytes / 2, cudaMemcpyDeviceToHost), cudaSuccess, "d2h");
		must(CALL(cudaMemcpyAsync, other, device, bytes / 4, cudaMemcpyDeviceToDevice, stream), cudaSuccess, "d2d");
		must(CALL(cudaMemset, device, 0, 4096), cudaSuccess, "memset");
		must(CALL(cudaMemsetAsync, device, 0, 8192, stream), cudaSuccess, "memset async");
	}
}

static void fail()
{
	void *p = NULL;
	size_t huge = (size_t)1 << 48;

	must(CALL(cudaMalloc, &p, huge), cudaErrorMemoryAllocation, "huge allocation");
	must(CALL(cudaGetLastError), cudaErrorMemoryAllocation, "last error");
	must(CALL(cudaSetDevice, 99), cudaErrorInvalidDevice, "bad device");
	must(CALL(cudaGetLastError), cudaErrorInvalidDevice, "last error");
}

extern "C" int calls_run(const char *counts)
{
	const int n = 1 << 16;
	const size_t bytes = n * sizeof(float);
	float *host = (float *)calloc(n, sizeof(float)), *device = NULL, *other = NULL, *kept;
	cudaStream_t stream = NULL;
	cudaEvent_t event = NULL;

	own_wait();
	must(CALL(cudaMalloc, (void **)&device, bytes), cudaSuccess, "malloc");
	must(CALL(cudaMalloc, (void **)&other, bytes), cudaSuccess, "malloc");
	must(CALL(cudaMalloc, (void **)&kept, 12345), cudaSuccess, "malloc");
	must(CALL(cudaStreamCreate, &stream), cudaSuccess, "stream");
	must(CALL(cudaEventCreate, &event), cudaSuccess, "event");
	transfer(device, other, host, bytes, stream);
	launch(device, n, stream);
	must(CALL(cudaEventRecord, event, stream), cudaSuccess, "record");
	must(CALL(cudaStreamSynchronize, stream), cudaSuccess, "synchronize");
	must(CALL(cudaDeviceSynchronize), cudaSuccess, "synchronize");
	fail();
	must(CALL(cudaEventDestroy, event), cudaSuccess, "event");
	must(CALL(cudaStreamDestroy, stream), cudaSuccess, "stream");
	must(CALL(cudaFree, device), cudaSuccess, "free");
	must(CALL(cudaFree, other), cudaSuccess, "free");
	free(host);
	return own_write(counts);
}

int main(int argc, char **argv)
{
	return argc < 2 ? 2 : calls_run(argv[1]);
}
