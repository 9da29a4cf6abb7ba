/*
 * Calls many functions of libcudart (and, with a second library, of libcuda)
 * with known arguments, N times each, and says on stdout what a trace of it
 * must show: one JSON line per call with func, args as passed, ret, and the
 * out-values that the program itself then found.
 *
 * usage: calls N LIBCUDART [LIBCUDA]
 *
 * The libraries are loaded by dlopen(), so that the same program serves fake
 * and real ones of every major. All of its functions have one shape in all
 * majors; a function that a library lacks is passed over.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_api.h"

static void *runtime, *driver;

/* The function in its library, with its type from cuda_api.h; NULL when there is none. */
#define RUNTIME(name) ((__typeof__(&name))dlsym(runtime, #name))
#define DRIVER(name)  ((__typeof__(&name))dlsym(driver, #name))

/* `fn`(arguments) if it is there, then what is to be seen. */
#define CALL(library, name, arguments, ...)              \
	do {                                             \
		__typeof__(&name) fn = library(name);    \
                                                         \
		if (fn) {                                \
			long ret = (long)fn arguments;   \
                                                         \
			expect(#name, ret, __VA_ARGS__); \
		}                                        \
	} while (0)

/* Pointers that nobody looks behind. */
#define P(n)     ((void *)(0x7a0000001000ul + (n)*0x10000ul))
#define STREAM   ((cudaStream_t)0x5500aa80ul)
#define EVENT    ((cudaEvent_t)0x5500bb40ul)
#define DPTR     0x7f2233440000ull
#define HEX      "\"0x%lx\""
#define A(value) ((unsigned long)(value)) /* a pointer or handle for HEX */

static void expect(const char *symbol, long ret, const char *out, const char *args, ...)
{
	va_list list;

	printf("{\"symbol\":\"%s\",\"ret\":%d,\"args\":{", symbol, (int)ret);
	va_start(list, args);
	vprintf(args, list);
	va_end(list);
	if (out)
		printf("},\"out\":{%s", out);
	printf("}}\n");
}

/* What one out-parameter holds after the call. */
static const char *out_hex(const char *name, const void *value)
{
	static char text[128];

	snprintf(text, sizeof(text), "\"%s\":\"0x%lx\"", name, *(const unsigned long *)value);
	return text;
}

static const char *out_int(const char *name, const int *value)
{
	static char text[128];

	snprintf(text, sizeof(text), "\"%s\":%d", name, *value);
	return text;
}

static void memory(void)
{
	void *p = NULL;
	size_t pitch = 0;
	struct cudaExtent extent = {300, 20, 3};
	struct cudaPitchedPtr pitched = {NULL, 0, 0, 0};

	CALL(RUNTIME, cudaMalloc, (&p, 1048577), out_hex("devPtr", &p), "\"devPtr\":" HEX ",\"size\":1048577",
	     A(&p));
	CALL(RUNTIME, cudaMallocManaged, (&p, 4096, 1), out_hex("devPtr", &p),
	     "\"devPtr\":" HEX ",\"size\":4096,\"flags\":1", A(&p));
	CALL(RUNTIME, cudaMallocHost, (&p, 5000000), out_hex("ptr", &p), "\"ptr\":" HEX ",\"size\":5000000",
	     A(&p));
	CALL(RUNTIME, cudaHostAlloc, (&p, 77, 2), out_hex("pHost", &p),
	     "\"pHost\":" HEX ",\"size\":77,\"flags\":2", A(&p));
	CALL(RUNTIME, cudaMallocPitch, (&p, &pitch, 1000, 50), NULL,
	     "\"devPtr\":" HEX ",\"pitch\":" HEX ",\"width\":1000,\"height\":50", A(&p), A(&pitch));
	CALL(RUNTIME, cudaMalloc3D, (&pitched, extent), NULL,
	     "\"pitchedDevPtr\":" HEX ",\"extent\":{\"width\":300,\"height\":20,\"depth\":3}", A(&pitched));
	CALL(RUNTIME, cudaHostRegister, (P(1), 65536, 3), NULL, "\"ptr\":" HEX ",\"size\":65536,\"flags\":3",
	     A(P(1)));
	CALL(RUNTIME, cudaHostUnregister, (P(1)), NULL, "\"ptr\":" HEX, A(P(1)));
	CALL(RUNTIME, cudaFree, (P(2)), NULL, "\"devPtr\":" HEX, A(P(2)));
	CALL(RUNTIME, cudaFreeHost, (P(3)), NULL, "\"ptr\":" HEX, A(P(3)));
	CALL(RUNTIME, cudaMallocAsync, (&p, 123456789012, STREAM), NULL,
	     "\"devPtr\":" HEX ",\"size\":123456789012,\"hStream\":" HEX, A(&p), A(STREAM));
	CALL(RUNTIME, cudaFreeAsync, (P(4), STREAM), NULL, "\"devPtr\":" HEX ",\"hStream\":" HEX, A(P(4)),
	     A(STREAM));
}

static void transfers(void)
{
	struct cudaPitchedPtr pitched = {P(5), 512, 300, 20};
	struct cudaExtent extent = {300, 20, 3};
	struct cudaMemcpy3DParms parms = {
		.srcPos = {1, 2, 3},
		.srcPtr = {P(6), 400, 390, 21},
		.dstPos = {4, 5, 6},
		.dstPtr = {P(7), 800, 790, 41},
		.extent = {64, 7, 2},
		.kind = D2D,
	};

	CALL(RUNTIME, cudaMemcpy, (P(1), P(2), 1000, H2D), NULL,
	     "\"dst\":" HEX ",\"src\":" HEX ",\"count\":1000,\"kind\":\"cudaMemcpyHostToDevice\"", A(P(1)),
	     A(P(2)));
	CALL(RUNTIME, cudaMemcpyAsync, (P(3), P(4), 2000, D2H, STREAM), NULL,
	     "\"dst\":" HEX ",\"src\":" HEX
	     ",\"count\":2000,\"kind\":\"cudaMemcpyDeviceToHost\",\"stream\":" HEX,
	     A(P(3)), A(P(4)), A(STREAM));
	CALL(RUNTIME, cudaMemcpyAsync_ptsz, (P(3), P(4), 2001, 9, NULL), NULL,
	     "\"dst\":" HEX ",\"src\":" HEX
	     ",\"count\":2001,\"kind\":\"cudaMemcpyKind(9)\",\"stream\":\"0x0\"",
	     A(P(3)), A(P(4)));
	CALL(RUNTIME, cudaMemcpy2D, (P(5), 512, P(6), 256, 200, 10, D2D), NULL,
	     "\"dst\":" HEX ",\"dpitch\":512,\"src\":" HEX
	     ",\"spitch\":256,\"width\":200,\"height\":10,\"kind\":\"cudaMemcpyDeviceToDevice\"",
	     A(P(5)), A(P(6)));
	CALL(RUNTIME, cudaMemcpy2DAsync, (P(7), 513, P(8), 257, 201, 11, H2H, STREAM), NULL,
	     "\"dst\":" HEX ",\"dpitch\":513,\"src\":" HEX
	     ",\"spitch\":257,\"width\":201,\"height\":11,\"kind\":\"cudaMemcpyHostToHost\",\"stream\":" HEX,
	     A(P(7)), A(P(8)), A(STREAM));
	CALL(RUNTIME, cudaMemcpy3D, (&parms), NULL,
	     "\"p\":{\"srcArray\":\"0x0\",\"srcPos\":{\"x\":1,\"y\":2,\"z\":3},\"srcPtr\":{\"ptr\":" HEX
	     ",\"pitch\":400,\"xsize\":390,\"ysize\":21},\"dstArray\":\"0x0\",\"dstPos\":{\"x\":4,\"y\":5,"
	     "\"z\":6},"
	     "\"dstPtr\":{\"ptr\":" HEX ",\"pitch\":800,\"xsize\":790,\"ysize\":41},"
	     "\"extent\":{\"width\":64,\"height\":7,\"depth\":2},\"kind\":\"cudaMemcpyDeviceToDevice\"}",
	     A(P(6)), A(P(7)));
	CALL(RUNTIME, cudaMemcpyPeer, (P(1), 1, P(2), -2, 3000), NULL,
	     "\"dst\":" HEX ",\"dstDevice\":1,\"src\":" HEX ",\"srcDevice\":-2,\"count\":3000", A(P(1)),
	     A(P(2)));
	CALL(RUNTIME, cudaMemcpyPeerAsync, (P(1), 3, P(2), 0, 4000, STREAM), NULL,
	     "\"dst\":" HEX ",\"dstDevice\":3,\"src\":" HEX ",\"srcDevice\":0,\"count\":4000,\"stream\":" HEX,
	     A(P(1)), A(P(2)), A(STREAM));
	CALL(RUNTIME, cudaMemset, (P(1), -1, 100), NULL, "\"devPtr\":" HEX ",\"value\":-1,\"count\":100",
	     A(P(1)));
	CALL(RUNTIME, cudaMemsetAsync, (P(1), 255, 101, STREAM), NULL,
	     "\"devPtr\":" HEX ",\"value\":255,\"count\":101,\"stream\":" HEX, A(P(1)), A(STREAM));
	CALL(RUNTIME, cudaMemset2D, (P(2), 64, 7, 60, 5), NULL,
	     "\"devPtr\":" HEX ",\"pitch\":64,\"value\":7,\"width\":60,\"height\":5", A(P(2)));
	CALL(RUNTIME, cudaMemset3D, (pitched, 9, extent), NULL,
	     "\"pitchedDevPtr\":{\"ptr\":" HEX ",\"pitch\":512,\"xsize\":300,\"ysize\":20},\"value\":9,"
	     "\"extent\":{\"width\":300,\"height\":20,\"depth\":3}",
	     A(P(5)));
}

static void streams_and_events(void)
{
	cudaStream_t stream = NULL;
	cudaEvent_t event = NULL;
	float ms = 0;

	CALL(RUNTIME, cudaStreamCreate, (&stream), out_hex("pStream", &stream), "\"pStream\":" HEX,
	     A(&stream));
	CALL(RUNTIME, cudaStreamCreateWithPriority, (&stream, 1, -5), out_hex("pStream", &stream),
	     "\"pStream\":" HEX ",\"flags\":1,\"priority\":-5", A(&stream));
	CALL(RUNTIME, cudaStreamSynchronize, (STREAM), NULL, "\"stream\":" HEX, A(STREAM));
	CALL(RUNTIME, cudaStreamWaitEvent, (STREAM, EVENT, 1), NULL,
	     "\"stream\":" HEX ",\"event\":" HEX ",\"flags\":1", A(STREAM), A(EVENT));
	CALL(RUNTIME, cudaStreamQuery, (STREAM), NULL, "\"stream\":" HEX, A(STREAM));
	CALL(RUNTIME, cudaStreamDestroy, (STREAM), NULL, "\"stream\":" HEX, A(STREAM));
	CALL(RUNTIME, cudaEventCreate, (&event), out_hex("event", &event), "\"event\":" HEX, A(&event));
	CALL(RUNTIME, cudaEventCreateWithFlags, (&event, 2), out_hex("event", &event),
	     "\"event\":" HEX ",\"flags\":2", A(&event));
	CALL(RUNTIME, cudaEventRecord, (EVENT, STREAM), NULL, "\"event\":" HEX ",\"stream\":" HEX, A(EVENT),
	     A(STREAM));
	CALL(RUNTIME, cudaEventQuery, (EVENT), NULL, "\"event\":" HEX, A(EVENT));
	CALL(RUNTIME, cudaEventSynchronize, (EVENT), NULL, "\"event\":" HEX, A(EVENT));
	CALL(RUNTIME, cudaEventElapsedTime, (&ms, EVENT, EVENT), "\"ms\":1",
	     "\"ms\":" HEX ",\"start\":" HEX ",\"end\":" HEX, A(&ms), A(EVENT), A(EVENT));
	CALL(RUNTIME, cudaEventDestroy, (EVENT), NULL, "\"event\":" HEX, A(EVENT));
}

static void devices(void)
{
	int value = 0;

	CALL(RUNTIME, cudaDeviceSynchronize, (), NULL, "");
	CALL(RUNTIME, cudaDeviceGetAttribute, (&value, 75, 3), out_int("value", &value),
	     "\"value\":" HEX ",\"attr\":\"cudaDevAttrComputeCapabilityMajor\",\"device\":3", A(&value));
	CALL(RUNTIME, cudaDeviceSetLimit, (2, 8388608), NULL,
	     "\"limit\":\"cudaLimitMallocHeapSize\",\"value\":8388608");
	CALL(RUNTIME, cudaDeviceCanAccessPeer, (&value, 1, 2), out_int("canAccessPeer", &value),
	     "\"canAccessPeer\":" HEX ",\"device\":1,\"peerDevice\":2", A(&value));
	CALL(RUNTIME, cudaGetDevice, (&value), out_int("device", &value), "\"device\":" HEX, A(&value));
	CALL(RUNTIME, cudaGetDeviceCount, (&value), out_int("count", &value), "\"count\":" HEX, A(&value));
	CALL(RUNTIME, cudaSetDevice, (1234), NULL, "\"device\":1234");
}

static void launches(void)
{
	dim3 grid = {70000, 3, 2}, block = {32, 4, 8};
	cudaLaunchConfig_t config = {{5, 6, 7}, {8, 9, 10}, 4096, STREAM, NULL, 0};
	cudaIpcMemHandle_t handle;
	void *p = NULL;

	memset(handle.reserved, 0xa5, sizeof(handle.reserved));
	CALL(RUNTIME, cudaLaunchKernel, (P(1), grid, block, P(2), 49152, STREAM), NULL,
	     "\"func\":" HEX ",\"gridDim\":[70000,3,2],\"blockDim\":[32,4,8],\"args\":" HEX
	     ",\"sharedMem\":49152,\"stream\":" HEX,
	     A(P(1)), A(P(2)), A(STREAM));
	CALL(RUNTIME, cudaLaunchKernelExC, (&config, P(3), P(4)), NULL,
	     "\"config\":{\"gridDim\":[5,6,7],\"blockDim\":[8,9,10],\"dynamicSmemBytes\":4096,\"stream\":" HEX
	     ",\"attrs\":\"0x0\",\"numAttrs\":0},\"func\":" HEX ",\"args\":" HEX,
	     A(STREAM), A(P(3)), A(P(4)));
	CALL(RUNTIME, cudaIpcOpenMemHandle, (&p, handle, 1), NULL,
	     "\"devPtr\":" HEX ",\"handle\":\"%s\",\"flags\":1", A(&p), "IPC");
}

static void graphs(void)
{
	cudaGraph_t graph = NULL;
	cudaGraphNode_t node = NULL,
			on[3] = {(cudaGraphNode_t)0x1110, (cudaGraphNode_t)0x2220, (cudaGraphNode_t)0x3330};

	CALL(RUNTIME, cudaGraphCreate, (&graph, 0), out_hex("pGraph", &graph),
	     "\"pGraph\":" HEX ",\"flags\":0", A(&graph));
	CALL(RUNTIME, cudaGraphAddEmptyNode, (&node, (cudaGraph_t)0x4440, on, 3),
	     out_hex("pGraphNode", &node),
	     "\"pGraphNode\":" HEX
	     ",\"graph\":\"0x4440\",\"pDependencies\":[\"0x1110\",\"0x2220\",\"0x3330\"],"
	     "\"numDependencies\":3",
	     A(&node));
}

/* A kernel's name on a page that nobody has touched so far: a plain read from a probe finds nothing there. */
static const char *untouched_name(void)
{
	static const char name[] = "_Z16untouched_kernelPfS_i";
	char path[] = "/tmp/cudatap-name.XXXXXX";
	int fd = mkstemp(path);
	char *page;

	unlink(path);
	if (fd < 0 || pwrite(fd, name, sizeof(name), 0) < 0 || ftruncate(fd, 4096))
		exit(1);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	return page;
}

static void driver_calls(void)
{
	CUlaunchConfig config = {11, 12, 13, 14, 15, 16, 17, STREAM, NULL, 0};
	CUdeviceptr dptr = 0;
	CUmodule module = NULL;
	CUfunction function = NULL;
	CUdevice device = 0;

	CALL(DRIVER, cuInit, (0), NULL, "\"Flags\":0");
	CALL(DRIVER, cuDeviceGet, (&device, 2), out_int("device", &device),
	     "\"device\":" HEX ",\"ordinal\":2", A(&device));
	CALL(DRIVER, cuMemAlloc_v2, (&dptr, 256), out_hex("dptr", &dptr), "\"dptr\":" HEX ",\"bytesize\":256",
	     A(&dptr));
	CALL(DRIVER, cuMemFree_v2, (DPTR), NULL, "\"dptr\":" HEX, A(DPTR));
	CALL(DRIVER, cuMemcpyHtoD_v2, (DPTR, P(1), 4242), NULL,
	     "\"dstDevice\":" HEX ",\"srcHost\":" HEX ",\"ByteCount\":4242", A(DPTR), A(P(1)));
	CALL(DRIVER, cuMemcpyDtoHAsync_v2, (P(2), DPTR, 4243, STREAM), NULL,
	     "\"dstHost\":" HEX ",\"srcDevice\":" HEX ",\"ByteCount\":4243,\"hStream\":" HEX, A(P(2)),
	     A(DPTR), A(STREAM));
	CALL(DRIVER, cuMemsetD8_v2, (DPTR, 200, 12), NULL, "\"dstDevice\":" HEX ",\"uc\":200,\"N\":12",
	     A(DPTR));
	CALL(DRIVER, cuMemsetD32_v2, (DPTR, 4000000000u, 13), NULL,
	     "\"dstDevice\":" HEX ",\"ui\":4000000000,\"N\":13", A(DPTR));
	CALL(DRIVER, cuModuleLoadData, (&module, P(3)), out_hex("module", &module),
	     "\"module\":" HEX ",\"image\":" HEX, A(&module), A(P(3)));
	CALL(DRIVER, cuModuleGetFunction, (&function, (CUmodule)0x9990, untouched_name()),
	     out_hex("hfunc", &function),
	     "\"hfunc\":" HEX ",\"hmod\":\"0x9990\",\"name\":\"_Z16untouched_kernelPfS_i\"", A(&function));
	CALL(DRIVER, cuLaunchKernel, ((CUfunction)0x8880, 1, 2, 3, 4, 5, 6, 7, STREAM, P(4), P(5)), NULL,
	     "\"f\":\"0x8880\",\"gridDimX\":1,\"gridDimY\":2,\"gridDimZ\":3,\"blockDimX\":4,\"blockDimY\":5,"
	     "\"blockDimZ\":6,\"sharedMemBytes\":7,\"hStream\":" HEX ",\"kernelParams\":" HEX
	     ",\"extra\":" HEX,
	     A(STREAM), A(P(4)), A(P(5)));
	CALL(DRIVER, cuLaunchKernelEx, (&config, (CUfunction)0x8880, P(6), NULL), NULL,
	     "\"config\":{\"gridDimX\":11,\"gridDimY\":12,\"gridDimZ\":13,\"blockDimX\":14,\"blockDimY\":15,"
	     "\"blockDimZ\":16,\"sharedMemBytes\":17,\"hStream\":" HEX ",\"attrs\":\"0x0\",\"numAttrs\":0},"
	     "\"f\":\"0x8880\",\"kernelParams\":" HEX ",\"extra\":\"0x0\"",
	     A(STREAM), A(P(6)));
	CALL(DRIVER, cuCtxSynchronize, (), NULL, "");
}

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[1]) : 0;

	if (n < 1)
		return 2;
	runtime = dlopen(argv[2], RTLD_NOW);
	driver = argc > 3 ? dlopen(argv[3], RTLD_NOW) : NULL;
	if (!runtime || (argc > 3 && !driver)) {
		fprintf(stderr, "calls: %s\n", dlerror());
		return 1;
	}
	while (n--) {
		memory();
		transfers();
		streams_and_events();
		devices();
		launches();
		graphs();
		if (driver)
			driver_calls();
	}
	return 0;
}
