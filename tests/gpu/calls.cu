/*
 * Makes known calls of the CUDA runtime and writes, as JSON, how many of each
 * it made and with which values, for comparison with what cudatap saw.
 *
 * usage: calls COUNTS.json
 */
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

static std::map<std::string, long> counts;

#define CALL(function, ...) (counts[#function]++, function(__VA_ARGS__))

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
	if (got == wanted)
		return;
	fprintf(stderr, "calls: %s: got %d, wanted %d\n", what, got, wanted);
	exit(1);
}

static void launch(float *data, int n, cudaStream_t stream)
{
	float factor = 1.5f;
	void *args[] = {&data, &factor, &n};
	void *args2[] = {&data, &n};

	for (int i = 0; i < 100; i++)
		must(CALL(cudaLaunchKernel, (const void *)scale, dim3(64), dim3(256), args, 1024, stream), cudaSuccess,
		     "launch scale");
	for (int i = 0; i < 50; i++)
		must(CALL(cudaLaunchKernel, (const void *)add_grid, dim3(8, 4, 2), dim3(16, 8, 1), args2, 0, stream),
		     cudaSuccess, "launch add_grid");
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

int main(int argc, char **argv)
{
	const int n = 1 << 16;
	const size_t bytes = n * sizeof(float);
	float *host = (float *)calloc(n, sizeof(float)), *device, *other, *kept;
	cudaStream_t stream;
	cudaEvent_t event;
	FILE *out;

	if (argc < 2 || !host)
		return 2;
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
	out = fopen(argv[1], "w");
	if (!out)
		return 1;
	fprintf(out, "{");
	for (auto it = counts.begin(); it != counts.end(); ++it)
		fprintf(out, "%s\"%s\": %ld", it == counts.begin() ? "" : ", ", it->first.c_str(), it->second);
	fprintf(out, "}\n");
	return fclose(out) ? 1 : 0;
}
