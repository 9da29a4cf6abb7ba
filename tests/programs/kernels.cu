/*
 * A small CUDA program as nvcc builds it: two named kernels, memory, copies, a stream, a call that
 * must fail. Counts its own calls and prints them as "FUNCTION COUNT" lines. Every result is looked
 * at by nobody: where there is no GPU each call fails, and is seen to fail.
 *
 * usage: kernels N
 */
#include <cstdio>
#include <cstdlib>

__global__ void scale(float *data, float by, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		data[i] *= by;
}

__global__ void fill(float *data, float with)
{
	data[blockIdx.x] = with;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	float *data = nullptr, host[256] = {};
	cudaStream_t stream = nullptr;

	cudaSetDevice(0);
	cudaStreamCreate(&stream);
	for (int i = 0; i < n; i++) {
		cudaMalloc(&data, 1024 + i);
		cudaMemcpy(data, host, sizeof(host), cudaMemcpyHostToDevice);
		scale<<<dim3(4, 2, 1), dim3(64, 1, 1), 16>>>(data, 2.0f, 256);
		fill<<<7, 8, 0, stream>>>(data, 1.0f);
		cudaMemcpyAsync(host, data, sizeof(host), cudaMemcpyDeviceToHost, stream);
		cudaStreamSynchronize(stream);
		cudaFree(data);
	}
	cudaMalloc(&data, (size_t)1 << 60);
	cudaSetDevice(12345);
	printf("cudaSetDevice 2\ncudaStreamCreate 1\ncudaMalloc %d\ncudaMemcpy %d\ncudaMemcpyAsync %d\n"
	       "cudaStreamSynchronize %d\ncudaFree %d\ncudaLaunchKernel %d\n",
	       n + 1, n, n, n, n, 2 * n);
	return 0;
}
