/*
 * Several GPUs in one process: a thread on each, copies between them, contexts
 * of the driver that threads hand to each other, and a graph whose nodes are
 * added as one structure. What each of its calls must look like it says
 * itself (own_expect()), and asks CUDA whether the device is what it thinks.
 *
 * usage: devices COUNTS.json
 *
 * With one GPU everything is on it; OWN_DEVICES says how many there are where
 * there is none (OWN_DRY).
 */
#include <cuda.h>
#include <cuda_runtime.h>
#include <string>
#include <thread>
#include <vector>

#include "own.h"

#define SIZE   ((size_t)1 << 16)
#define ADD    "add(int*, int)"
#define A(ptr) ((unsigned long)(ptr))

static int ndevices = 1;

__global__ void add(int *data, int n)
{
	data[threadIdx.x] += n;
}

static void must(int got, const char *what)
{
	own_must(got, 0, what);
}

/* Is it CUDA's opinion, too? */
static void on_device(int device)
{
	int current = -1;

	if (getenv("OWN_DRY"))
		return;
	must(cudaGetDevice(&current), "which device");
	own_must(current, device, "the current device");
}

static void in_context(int device)
{
	CUdevice current = -1;

	if (getenv("OWN_DRY"))
		return;
	must(cuCtxGetDevice(&current), "which device");
	own_must(current, device, "the current context's device");
}

static void set_device(int device)
{
	must(cudaSetDevice(device), "set device");
	own_expect("device", "cudaSetDevice", device, "");
}

/* ---- the runtime ---- */

static void *allocate(int device, size_t size)
{
	void *data = NULL;

	must(cudaMalloc(&data, size), "malloc");
	own_expect("memory", "cudaMalloc", device, ", \"bytes\": %lu, \"ptr\": \"0x%lx\"",
		   (unsigned long)size, A(data));
	return data;
}

static void release(int device, void *data)
{
	must(cudaFree(data), "free");
	own_expect("memory", "cudaFree", device, ", \"ptr\": \"0x%lx\"", A(data));
}

static void fill(int device, void *data, int value)
{
	must(cudaMemset(data, value, SIZE), "memset");
	own_expect("transfer", "cudaMemset", device, ", \"bytes\": %lu, \"ptr\": \"0x%lx\"",
		   (unsigned long)SIZE, A(data));
}

static void launch(int device, void *data)
{
	add<<<1, 32, 64>>>((int *)data, 1);
	must(cudaGetLastError(), "launch");
	own_expect("launch", "cudaLaunchKernel", device,
		   ", \"kernel\": \"" ADD
		   "\", \"grid\": [1, 1, 1], \"block\": [32, 1, 1], \"shared_bytes\": 64");
	own_launch(ADD, 1);
}

/* The first int of what a device's memory holds. */
static void holds(int device, void *data, int wanted)
{
	int value = 0;

	must(cudaMemcpy(&value, data, sizeof(value), cudaMemcpyDeviceToHost), "copy");
	own_expect("transfer", "cudaMemcpy", device,
		   ", \"bytes\": 4, \"direction\": \"d2h\", \"src_ptr\": \"0x%lx\"", A(data));
	own_must(value, wanted, "what the memory holds");
}

static void work(int device, int rounds)
{
	void *data = allocate(device, SIZE);

	for (int i = 0; i < rounds; i++) {
		fill(device, data, 0);
		launch(device, data);
	}
	holds(device, data, 1);
	release(device, data);
}

/* Each goes to every device in turn, beginning with its own. */
static void worker(int first)
{
	for (int i = 0; i < ndevices; i++) {
		int device = (first + i) % ndevices;

		set_device(device);
		work(device, 5 + first);
		on_device(device);
	}
}

/* A thread that sets none has the first one. */
static void untold(void)
{
	work(0, 3);
	on_device(0);
}

/* What does not change the current device. */
static void still(void)
{
	int last = ndevices - 1, value = 0;

	set_device(last);
	must(cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerBlock, 0), "attribute");
	own_expect("query", "cudaDeviceGetAttribute", 0, "");
#if CUDART_VERSION >= 12000
	must(cudaInitDevice(0, 0, 0), "initialise");
	own_expect("device", "cudaInitDevice", 0, "");
#endif
	work(last, 1);
	if (!getenv("OWN_DRY")) {
		own_must(cudaSetDevice(99), cudaErrorInvalidDevice, "no such device");
		cudaGetLastError();
	}
	work(last, 1);
	on_device(last);
}

static void reset(void)
{
	int last = ndevices - 1;

	set_device(last);
	must(cudaDeviceReset(), "reset");
	own_expect("device", "cudaDeviceReset", last, "");
	work(last, 1);
	on_device(last);
}

/* ---- between devices ---- */

static void enable_peer(int device, int peer)
{
	int can = 0, got;

	must(cudaDeviceCanAccessPeer(&can, device, peer), "can they");
	own_expect("query", "cudaDeviceCanAccessPeer", device, ", \"args\": {\"peerDevice\": %d}", peer);
	if (device == peer || !can)
		return;
	got = cudaDeviceEnablePeerAccess(peer, 0);
	own_must(got, 0, "peer access");
	own_expect("context", "cudaDeviceEnablePeerAccess", peer, "");
}

static void copy_peer(int dst_device, void *dst, int src_device, void *src, cudaStream_t stream)
{
	if (stream)
		must(cudaMemcpyPeerAsync(dst, dst_device, src, src_device, SIZE, stream), "copy to a peer");
	else
		must(cudaMemcpyPeer(dst, dst_device, src, src_device, SIZE), "copy to a peer");
	own_expect("transfer", stream ? "cudaMemcpyPeerAsync" : "cudaMemcpyPeer", dst_device,
		   ", \"bytes\": %lu, \"direction\": \"p2p\", \"ptr\": \"0x%lx\", \"src_ptr\": \"0x%lx\", "
		   "\"args\": {\"dstDevice\": %d, \"srcDevice\": %d}",
		   (unsigned long)SIZE, A(dst), A(src), dst_device, src_device);
	own_peer_bytes += SIZE;
}

static void peers(void)
{
	int other = ndevices > 1;
	cudaStream_t stream = NULL;
	void *here, *there;

	set_device(other);
	there = allocate(other, SIZE);
	fill(other, there, 0);
	set_device(0);
	here = allocate(0, SIZE);
	fill(0, here, 0);
	launch(0, here);
	must(cudaStreamCreate(&stream), "stream");
	for (int way = 0; way < 2;
	     way++) { /* first without access to each other, then with it where there is */
		copy_peer(other, there, 0, here, NULL);
		copy_peer(0, here, other, there, stream);
		must(cudaStreamSynchronize(stream), "synchronize");
		if (!way)
			enable_peer(0, other);
	}
	must(cudaMemcpy(there, here, SIZE, cudaMemcpyDefault), "copy by address");
	own_expect("transfer", "cudaMemcpy", 0, ", \"bytes\": %lu, \"direction\": \"default\"",
		   (unsigned long)SIZE);
	holds(0, there, 1);
	must(cudaStreamDestroy(stream), "stream");
	release(0, here);
	release(0, there); /* which is the other one's: the call is made on this one */
	on_device(0);
}

/* ---- the driver: contexts ---- */

static CUcontext create_context(int device)
{
	CUcontext context = NULL;

#if CUDA_VERSION >= 13000
	must(cuCtxCreate(&context, NULL, 0, device), "context");
#else
	must(cuCtxCreate(&context, 0, device), "context");
#endif
	own_expect("context", "cuCtxCreate", device, "");
	return context;
}

static void driver_work(int device)
{
	CUdeviceptr data = 0;

	in_context(device);
	must(cuMemAlloc(&data, SIZE), "allocate");
	own_expect("memory", "cuMemAlloc", device, ", \"bytes\": %lu, \"ptr\": \"0x%lx\"",
		   (unsigned long)SIZE, A(data));
	must(cuMemsetD32(data, 7, SIZE / 4), "fill");
	own_expect("transfer", "cuMemsetD32", device, ", \"bytes\": %lu", (unsigned long)SIZE);
	must(cuMemFree(data), "free");
	own_expect("memory", "cuMemFree", device, ", \"ptr\": \"0x%lx\"", A(data));
}

static void pop(void)
{
	CUcontext popped;

	must(cuCtxPopCurrent(&popped), "pop");
}

/* The runtime takes the current context, unless it is too new to like that. */
static void try_runtime(int device)
{
	void *data = NULL;

	if (cudaMalloc(&data, SIZE)) {
		cudaGetLastError(); /* or the next launch's check finds it */
		return;
	}
	own_expect("memory", "cudaMalloc", device, ", \"ptr\": \"0x%lx\"", A(data));
	release(device, data);
}

/* Contexts that the main thread has made. */
static void borrow(std::vector<CUcontext> contexts)
{
	for (int device = 0; device < ndevices; device++) {
		must(cuCtxPushCurrent(contexts[device]), "push");
		driver_work(device);
	}
	for (int device = ndevices - 1; device > 0; device--) {
		pop();
		driver_work(device - 1);
	}
	pop();
	for (int i = 0; i < 2 * ndevices; i++) {
		must(cuCtxSetCurrent(contexts[i % ndevices]), "set");
		driver_work(i % ndevices);
		try_runtime(i % ndevices);
	}
	must(cuCtxSetCurrent(NULL), "set none");
}

/* The runtime's own contexts, by the driver. */
static void primaries(void)
{
	std::vector<CUcontext> contexts(ndevices);

	for (int device = 0; device < ndevices; device++)
		must(cuDevicePrimaryCtxRetain(&contexts[device], device), "primary");
	for (int device = ndevices - 1; device >= 0; device--) {
		must(cuCtxSetCurrent(contexts[device]), "set");
		driver_work(device);
		work(device, 1);
	}
	set_device(ndevices - 1); /* the runtime's choice replaces the driver's */
	driver_work(ndevices - 1);
	for (int device = 0; device < ndevices; device++)
		must(cuDevicePrimaryCtxRelease(device), "release");
}

static void contexts(void)
{
	std::vector<CUcontext> made;

	for (int device = 0; device < ndevices; device++) {
		made.push_back(create_context(device));
		driver_work(device);
		pop();
	}
	std::thread(borrow, made).join();
	std::thread(borrow, made).join();
	for (int device = 0; device < ndevices; device++) {
		must(cuCtxPushCurrent(made[device]), "push");
		driver_work(device);
		must(cuCtxDestroy(made[device]), "destroy");
	}
}

/* Part of a device as a context; where that is not to be had, none. */
static void green(void)
{
#if CUDA_VERSION >= 12040
	int device = ndevices - 1;
	CUdevResource resource;
	CUdevResourceDesc desc;
	CUgreenCtx part;
	CUcontext context;

	if (cuDeviceGetDevResource(device, &resource, CU_DEV_RESOURCE_TYPE_SM) ||
	    cuDevResourceGenerateDesc(&desc, &resource, 1) ||
	    cuGreenCtxCreate(&part, desc, device, CU_GREEN_CTX_DEFAULT_STREAM))
		return;
	must(cuCtxFromGreenCtx(&context, part), "green");
	must(cuCtxSetCurrent(context), "set");
	driver_work(device);
	must(cuCtxSetCurrent(NULL), "set none");
	must(cuGreenCtxDestroy(part), "green");
#endif
}

/* ---- a graph ---- */

#if CUDART_VERSION >= 12030
static cudaGraphNode_t add_node(cudaGraph_t graph, cudaGraphNode_t after, cudaGraphNodeParams *params)
{
	cudaGraphNode_t node = NULL;

#if CUDART_VERSION >= 13000
	must(cudaGraphAddNode(&node, graph, &after, NULL, after ? 1 : 0, params), "node");
#else
	must(cudaGraphAddNode(&node, graph, &after, after ? 1 : 0, params), "node");
#endif
	return node;
}

static cudaGraphNodeParams kernel_params(void **args, int threads)
{
	cudaGraphNodeParams params = {};

	params.type = cudaGraphNodeTypeKernel;
	params.kernel.func = (void *)add;
	params.kernel.gridDim = dim3(1, 1, 1);
	params.kernel.blockDim = dim3(threads, 1, 1);
	params.kernel.sharedMemBytes = 128;
	params.kernel.kernelParams = args;
	return params;
}

static void expect_kernel(const char *func, int device, int threads)
{
	own_expect("graph", func, device,
		   ", \"kernel\": \"" ADD
		   "\", \"grid\": [1, 1, 1], \"block\": [%d, 1, 1], \"shared_bytes\": 128, "
		   "\"args\": {\"nodeParams\": {\"type\": \"cudaGraphNodeTypeKernel\", \"kernel\": "
		   "{\"gridDim\": "
		   "[1, 1, 1], \"blockDim\": [%d, 1, 1], \"sharedMemBytes\": 128}}}",
		   threads, threads);
}

static cudaGraphNode_t add_fill(int device, cudaGraph_t graph, void *data)
{
	cudaGraphNodeParams params = {};
	cudaGraphNode_t node;

	params.type = cudaGraphNodeTypeMemset;
	params.memset.dst = data;
	params.memset.value = 41;
	params.memset.elementSize = 4;
	params.memset.width = SIZE / 4;
	params.memset.height = 1;
	node = add_node(graph, NULL, &params);
	own_expect("graph", "cudaGraphAddNode", device,
		   ", \"bytes\": %lu, \"ptr\": \"0x%lx\", \"args\": {\"nodeParams\": {\"type\": "
		   "\"cudaGraphNodeTypeMemset\", \"memset\": {\"dst\": \"0x%lx\", \"value\": 41, "
		   "\"elementSize\": 4, "
		   "\"width\": %lu, \"height\": 1}}}",
		   (unsigned long)SIZE, A(data), A(data), (unsigned long)SIZE / 4);
	return node;
}

static cudaGraphNode_t add_copy(int device, cudaGraph_t graph, cudaGraphNode_t after, void *dst, void *src)
{
	cudaGraphNodeParams params = {};
	cudaMemcpy3DParms *copy = &params.memcpy.copyParams;
	cudaGraphNode_t node;

	params.type = cudaGraphNodeTypeMemcpy;
	copy->srcPtr = make_cudaPitchedPtr(src, SIZE, SIZE, 1);
	copy->dstPtr = make_cudaPitchedPtr(dst, SIZE, SIZE, 1);
	copy->extent = make_cudaExtent(SIZE, 1, 1);
	copy->kind = cudaMemcpyDeviceToDevice;
	node = add_node(graph, after, &params);
	own_expect(
		"graph", "cudaGraphAddNode", device,
		", \"bytes\": %lu, \"direction\": \"d2d\", \"ptr\": \"0x%lx\", \"src_ptr\": \"0x%lx\", "
		"\"args\": "
		"{\"nodeParams\": {\"type\": \"cudaGraphNodeTypeMemcpy\", \"memcpy\": {\"copyParams\": "
		"{\"extent\": "
		"{\"width\": %lu, \"height\": 1, \"depth\": 1}, \"kind\": \"cudaMemcpyDeviceToDevice\"}}}}",
		(unsigned long)SIZE, A(dst), A(src), (unsigned long)SIZE);
	return node;
}

/* 41 everywhere, 1 more by a kernel, copied to the other buffer. */
static void run_graph(int device)
{
	int one = 1;
	void *a, *b;
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec = NULL;
	cudaGraphNode_t node;

	set_device(device);
	a = allocate(device, SIZE);
	b = allocate(device, SIZE);

	void *args[] = {&a, &one};
	cudaGraphNodeParams params = kernel_params(args, 64);

	must(cudaGraphCreate(&graph, 0), "graph");
	node = add_node(graph, add_fill(device, graph, a), &params);
	expect_kernel("cudaGraphAddNode", device, 64);
	add_copy(device, graph, node, b, a);
	params = kernel_params(args, 96);
	must(cudaGraphNodeSetParams(node, &params), "set parameters");
	expect_kernel("cudaGraphNodeSetParams", device, 96);
	must(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
	params = kernel_params(args, 128);
	must(cudaGraphExecNodeSetParams(exec, node, &params), "set parameters");
	expect_kernel("cudaGraphExecNodeSetParams", device, 128);
	for (int i = 0; i < 4; i++) {
		must(cudaGraphLaunch(exec, 0), "graph launch");
		own_expect("graph", "cudaGraphLaunch", device, ", \"args\": {\"graphExec\": \"0x%lx\"}",
			   A(exec));
	}
	must(cudaDeviceSynchronize(), "synchronize");
	holds(device, b, 42);
	must(cudaGraphExecDestroy(exec), "destroy");
	must(cudaGraphDestroy(graph), "destroy");
	release(device, a);
	release(device, b);
}
#else
static void run_graph(int device)
{
}
#endif

/* ---- all of it ---- */

static void note_uuids(void)
{
	for (int device = 0; device < ndevices; device++) {
		cudaDeviceProp properties;

		if (getenv("OWN_DRY") || cudaGetDeviceProperties(&properties, device))
			return;
		own_uuid(device, (const unsigned char *)properties.uuid.bytes);
	}
}

int main(int argc, char **argv)
{
	std::vector<std::thread> workers;

	if (argc < 2)
		return 2;
	own_wait();
	must(cudaGetDeviceCount(&ndevices), "how many");
	if (getenv("OWN_DEVICES"))
		ndevices = atoi(getenv("OWN_DEVICES"));
	std::thread(untold).join();
	for (int device = 0; device < ndevices; device++)
		workers.emplace_back(worker, device);
	for (std::thread &one : workers)
		one.join();
	peers();
	std::thread(still).join();
	for (int device = 0; device < ndevices; device++)
		run_graph(device);
	contexts();
	std::thread(primaries).join();
	std::thread(green).join();
	note_uuids();
	std::thread(reset).join();
	printf("%d GPU%s\n", ndevices,
	       ndevices > 1 ? "s" : ": all threads, contexts and copies between devices are on it");
	return own_write(argv[1]);
}
