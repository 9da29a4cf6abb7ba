/*
 * Multiplies matrices by cuBLAS. How many kernels a product takes, and which,
 * it learns from a graph that captures one; so it can count the launches that
 * only the library makes.
 *
 * usage: cublas COUNTS.json
 */
#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <cxxabi.h>
#include <vector>

#include "own.h"

#define SIZE 512

static void must(int got, const char *what)
{
	own_must(got, 0, what);
}

static std::string demangled(const char *name)
{
	int status;
	char *text = abi::__cxa_demangle(name, NULL, NULL, &status);
	std::string result = text ? text : name;

	free(text);
	return result;
}

/* Adds a graph's kernels to the launches, each so many times. */
static void add_kernels(cudaGraph_t graph, long times)
{
	size_t n = 0;

	must(cudaGraphGetNodes(graph, NULL, &n), "nodes");
	std::vector<cudaGraphNode_t> nodes(n);
	must(cudaGraphGetNodes(graph, nodes.data(), &n), "nodes");
	for (cudaGraphNode_t node : nodes) {
		CUDA_KERNEL_NODE_PARAMS params;
		CUgraphNodeType type;
		const char *name = "?";

		must(cuGraphNodeGetType((CUgraphNode)node, &type), "type");
		if (type != CU_GRAPH_NODE_TYPE_KERNEL)
			continue;
		must(cuGraphKernelNodeGetParams((CUgraphNode)node, &params), "parameters");
		if (params.func)
			must(cuFuncGetName(&name, params.func), "name");
		else
			must(cuKernelGetName(&name, params.kern), "name");
		own_launches[demangled(name)] += times;
	}
}

int main(int argc, char **argv)
{
	const float one = 1, zero = 0;
	float *a, *b, *c;
	cublasHandle_t handle;
	cudaStream_t stream;
	cudaGraph_t graph;
	void *workspace;

	if (argc < 2)
		return 2;
	own_wait();
	must(cudaMalloc(&a, SIZE * SIZE * sizeof(float)), "malloc");
	must(cudaMalloc(&b, SIZE * SIZE * sizeof(float)), "malloc");
	must(cudaMalloc(&c, SIZE * SIZE * sizeof(float)), "malloc");
	must(cudaMalloc(&workspace, 32 << 20), "malloc");
	must(cudaStreamCreate(&stream), "stream");
	must(cublasCreate(&handle), "cuBLAS");
	must(cublasSetStream(handle, stream), "stream");
	must(cublasSetWorkspace(handle, workspace, 32 << 20), "workspace"); /* else a capture makes one of its own */
	auto multiply = [&] {
		must(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, SIZE, SIZE, SIZE, &one, a, SIZE, b, SIZE, &zero, c,
				 SIZE),
		     "product");
	};
	/* once and thirty times more, as often as the capture shows */
	multiply();
	must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
	multiply();
	must(cudaStreamEndCapture(stream, &graph), "capture");
	for (int i = 0; i < 30; i++)
		multiply();
	must(cudaStreamSynchronize(stream), "synchronize");
	add_kernels(graph, 32);
	must(cublasDestroy(handle), "destroy");
	return own_write(argv[1]);
}
