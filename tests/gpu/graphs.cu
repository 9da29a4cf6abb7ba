/*
 * Kernels in every way that is not cudaLaunchKernel: the language's own
 * launches, with a configuration, cooperative, captured into a graph, as a
 * graph's nodes, and through the driver. Counts them by kernel.
 *
 * usage: graphs COUNTS.json
 */
#include <cuda.h>
#include <cuda_runtime.h>

#include "own.h"

#define PLAIN "plain(int*)"
#define NODE  "node_kernel(int*)"
#define OTHER "other_kernel(int*)"

__global__ void plain(int *data)
{
	data[0]++;
}

__global__ void node_kernel(int *data)
{
	data[1]++;
}

__global__ void other_kernel(int *data)
{
	data[2]++;
}

static void must(int got, const char *what)
{
	own_must(got, 0, what);
}

static void launches(int *data, cudaStream_t stream)
{
	cudaLaunchConfig_t config = {};
	void *args[] = {&data};

	config.gridDim = dim3(3);
	config.blockDim = dim3(32);
	config.stream = stream;
	for (int i = 0; i < 20; i++) {
		plain<<<1, 1, 0, stream>>>(data);
		must(cudaLaunchKernelExC(&config, (const void *)node_kernel, args), "with a configuration");
		must(cudaLaunchCooperativeKernel((const void *)other_kernel, dim3(2), dim3(32), args, 0, stream),
		     "cooperative");
	}
	own_launches[PLAIN] += 20;
	own_launches[NODE] += 20;
	own_launches[OTHER] += 20;
}

/* Each launch during a capture is a call as well. */
static void captured(int *data, cudaStream_t stream)
{
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec = NULL;

	must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
	for (int i = 0; i < 5; i++)
		plain<<<1, 1, 0, stream>>>(data);
	must(cudaStreamEndCapture(stream, &graph), "capture");
	own_launches[PLAIN] += 5;
	must(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
	for (int i = 0; i < 10; i++, own_calls["cudaGraphLaunch"]++)
		must(cudaGraphLaunch(exec, stream), "graph launch");
	must(cudaGraphExecDestroy(exec), "destroy");
	must(cudaGraphDestroy(graph), "destroy");
}

static void nodes(int *data, cudaStream_t stream)
{
	cudaKernelNodeParams params = {};
	void *args[] = {&data};
	cudaGraph_t graph = NULL;
	cudaGraphNode_t node = NULL;
	cudaGraphExec_t exec = NULL;

	params.gridDim = dim3(4);
	params.blockDim = dim3(64);
	params.kernelParams = args;
	must(cudaGraphCreate(&graph, 0), "graph");
	for (int i = 0; i < 6; i++, own_calls["cudaGraphAddKernelNode"]++) {
		params.func = (void *)node_kernel;
		must(cudaGraphAddKernelNode(&node, graph, NULL, 0, &params), "node");
	}
	params.func = (void *)other_kernel;
	must(cudaGraphKernelNodeSetParams(node, &params), "set parameters");
	own_calls["cudaGraphKernelNodeSetParams"]++;
	must(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
	must(cudaGraphExecKernelNodeSetParams(exec, node, &params), "set parameters");
	own_calls["cudaGraphExecKernelNodeSetParams"]++;
	must(cudaGraphLaunch(exec, stream), "graph launch");
	own_calls["cudaGraphLaunch"]++;
	must(cudaGraphExecDestroy(exec), "destroy");
	must(cudaGraphDestroy(graph), "destroy");
}

static void by_driver(int *data, cudaStream_t stream)
{
	CUlaunchConfig config = {};
	void *args[] = {&data};
	cudaFunction_t function = NULL;

	must(cudaGetFuncBySymbol(&function, (const void *)plain), "function");
	config.gridDimX = config.gridDimY = config.gridDimZ = 1;
	config.blockDimX = 32;
	config.blockDimY = config.blockDimZ = 1;
	config.hStream = stream;
	for (int i = 0; i < 7; i++) {
		must(cuLaunchKernel((CUfunction)function, 1, 1, 1, 32, 1, 1, 0, stream, args, NULL), "driver");
		must(cuLaunchKernelEx(&config, (CUfunction)function, args, NULL), "driver, with a configuration");
		must(cuLaunchCooperativeKernel((CUfunction)function, 1, 1, 1, 32, 1, 1, 0, stream, args),
		     "driver, cooperative");
	}
	own_launches[PLAIN] += 21;
}

int main(int argc, char **argv)
{
	cudaStream_t stream = NULL;
	int *data = NULL;

	if (argc < 2)
		return 2;
	own_wait();
	must(cudaMalloc(&data, 4096), "malloc");
	must(cudaStreamCreate(&stream), "stream");
	launches(data, stream);
	captured(data, stream);
	nodes(data, stream);
	by_driver(data, stream);
	must(cudaStreamSynchronize(stream), "synchronize");
	must(cudaFree(data), "free");
	return own_write(argv[1]);
}
