/*
 * Changes the current device in every way, from several threads. Each
 * allocation has a size of 1000 + the device that it is for, or of 999 where
 * nobody can know.
 *
 * usage: devices		changes it
 *	  devices named		makes device 1 current and calls functions that name another
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_api.h"
#include "tests/fake/fake_cuda.h"

typedef struct {
	unsigned char bytes[16];
} CUuuid;

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned flags, CUdevice dev);
CUresult cuCtxDestroy_v2(CUcontext ctx);
CUresult cuCtxSetCurrent(CUcontext ctx);
CUresult cuCtxPushCurrent_v2(CUcontext ctx);
CUresult cuCtxPopCurrent_v2(CUcontext *pctx);
CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev);
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev);
CUresult cuGreenCtxCreate(CUcontext *phCtx, void *desc, CUdevice dev, unsigned flags);
CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUcontext hCtx);
CUresult cuGreenCtxDestroy(CUcontext hCtx);
CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream);
cudaError_t cudaInitDevice(int device, unsigned deviceFlags, unsigned flags);

struct location {
	int type, id;
};

cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count, struct location location, unsigned flags,
				 cudaStream_t stream);
cudaError_t cudaMemAdvise(const void *devPtr, size_t count, int advice, struct location location);
cudaError_t cudaMemGetMemPool(cudaMemPool_t *memPool, struct location *location, int type);

static void *buffer;
static CUdeviceptr pointer;
static CUcontext primary[8];

static void runtime_on(int device)
{
	cudaMalloc(&buffer, 1000 + device);
}

static void driver_on(int device)
{
	cuMemAlloc_v2(&pointer, 1000 + device);
}

static void *other_thread(void *arg)
{
	CUcontext popped, late = (CUcontext)0x1230, later = (CUcontext)0x4560;

	/* each thread begins with the first one, whatever others have set */
	runtime_on(0);
	cudaSetDevice(3);
	runtime_on(3);
	/* a context of one thread made current in another */
	cuCtxPushCurrent_v2(primary[5]);
	driver_on(5);
	runtime_on(5);
	cuCtxPushCurrent_v2(primary[6]);
	driver_on(6);
	cuCtxPopCurrent_v2(&popped);
	driver_on(5);
	cuCtxPopCurrent_v2(&popped);
	driver_on(3);
	cuCtxSetCurrent(primary[6]);
	driver_on(6);
	/* made before anybody looked, as far as one can tell */
	cuCtxSetCurrent(late);
	driver_on(-1);
	cuCtxPushCurrent_v2(primary[6]);
	driver_on(6);
	/* as the runtime does: what it is for is said when it is current already, or below */
	fake_cuda_set("cuDevicePrimaryCtxRetain", FAKE_CUDA_NO_OUTS, 0, 0);
	cuDevicePrimaryCtxRetain(&late, 1);
	cuCtxPopCurrent_v2(&popped);
	driver_on(1);
	cuCtxSetCurrent(later);
	driver_on(-1);
	cuDevicePrimaryCtxRetain(&later, 5);
	driver_on(5);
	cudaSetDevice(2);
	runtime_on(2);
	return arg;
}

/* Contexts that another thread has made, moved about and taken away. */
static void *borrower(void *arg)
{
	CUcontext *made = arg, popped;

	driver_on(-1);
	cuCtxPushCurrent_v2(made[1]);
	driver_on(1);
	runtime_on(1);
	cuCtxPushCurrent_v2(made[2]);
	driver_on(2);
	cuCtxDestroy_v2(made[2]); /* the current one: popped */
	driver_on(1);
	cuCtxPopCurrent_v2(&popped);
	driver_on(-1);
	cuCtxSetCurrent(made[1]);
	driver_on(1);
	fake_cuda_set("cuCtxSetCurrent", FAKE_CUDA_RET, 201, 0);
	cuCtxSetCurrent(made[4]);
	driver_on(1);
	fake_cuda_set("cuCtxSetCurrent", 0, 0, 0);
	cuCtxSetCurrent(made[2]); /* its address is nobody's, or somebody else's */
	driver_on(-1);
	cuCtxSetCurrent(made[4]);
	cuCtxDestroy_v2(made[1]); /* not the current one */
	driver_on(4);
	cuCtxSetCurrent(NULL);
	driver_on(-1);
	return arg;
}

/* The runtime's device through what looks as if it changed it. */
static void *resetter(void *arg)
{
	CUcontext same = primary[5];

	cudaSetDevice(3);
	cudaDeviceReset();
	runtime_on(3);
	cudaInitDevice(6, 0, 0);
	runtime_on(3);
	fake_cuda_set("cudaSetDevice", FAKE_CUDA_RET, 101, 0);
	cudaSetDevice(7);
	runtime_on(3);
	fake_cuda_set("cudaSetDevice", 0, 0, 0);
	/* a context that the runtime has replaced is current no more */
	cuCtxSetCurrent(same);
	driver_on(5);
	cudaSetDevice(2);
	cuDevicePrimaryCtxRetain(&same, 5);
	driver_on(2);
	runtime_on(2);
	return arg;
}

static void *green(void *arg)
{
	CUcontext part, context;

	cuGreenCtxCreate(&part, NULL, 4, 1);
	cuCtxFromGreenCtx(&context, part);
	driver_on(-1);
	cuCtxSetCurrent(context);
	driver_on(4);
	cuGreenCtxDestroy(part);
	return arg;
}

static void in_thread(void *(*work)(void *), void *arg)
{
	pthread_t thread;

	pthread_create(&thread, NULL, work, arg);
	pthread_join(thread, NULL);
}

static void moved(void)
{
	CUcontext made[5] = {NULL}, popped;

	for (int device = 1; device < 5; device++) {
		cuCtxCreate_v2(&made[device], 0, device);
		driver_on(device);
	}
	for (int device = 3; device > 0; device--) {
		cuCtxPopCurrent_v2(&popped);
		driver_on(device);
	}
	cuCtxPopCurrent_v2(&popped);
	in_thread(borrower, made);
	in_thread(resetter, NULL);
	in_thread(green, NULL);
}

/* What is named counts, whatever is current: its number is that of the size, or of the address. */
static void named(void)
{
	cudaMemPool_t pool;
	int value;

	cudaSetDevice(1);
	cudaMemcpyPeer((void *)0x1000, 2, (void *)0x2000, 3, 1002);
	cudaMemcpyPeerAsync((void *)0x1000, 4, (void *)0x2000, 0, 1004, NULL);
	cudaDeviceGetAttribute(&value, 75, 5);
	cudaDeviceCanAccessPeer(&value, 3, 6);
	cudaDeviceEnablePeerAccess(6, 0);
	cudaMemPrefetchAsync((void *)0x1000, 1003, (struct location){1, 3}, 0, NULL);
	cudaMemPrefetchAsync((void *)0x1000, 1001, (struct location){2, 3}, 0, NULL); /* the host */
	cudaMemAdvise((void *)0x1000, 1004, 3, (struct location){1, 4});
	cudaMemGetMemPool(&pool, &(struct location){1, 2}, 1);
	cuMemPrefetchAsync(0x1000, 1003, 3, NULL);
	cuMemPrefetchAsync(0x1000, 1001, -1, NULL); /* CU_DEVICE_CPU */
	cudaMemcpyAsync((void *)0x1000, (void *)0x2000, 1001, D2D, NULL);
	fake_cuda_set("cudaSetDevice", FAKE_CUDA_RET, 101, 0);
	cudaSetDevice(99);
	cudaSetDevice(-1);
}

static void contexts(void)
{
	CUcontext context;

	cuCtxCreate_v2(&context, 0, 4);
	driver_on(4);
	cuCtxDestroy_v2(context);
	driver_on(1);
}

int main(int argc, char **argv)
{
	CUuuid uuid;

	if (argc > 1) {
		named();
		return 0;
	}
	driver_on(-1); /* no context, no device */
	runtime_on(0);
	cudaSetDevice(1);
	runtime_on(1);
	driver_on(1);
	cuDeviceGetUuid(&uuid, 1);
	cuDeviceGetUuid(&uuid, 1);
	cuDeviceGetUuid(&uuid, 0);
	for (int i = 5; i < 7; i++)
		cuDevicePrimaryCtxRetain(&primary[i], i);
	driver_on(1);
	contexts();
	in_thread(other_thread, NULL);
	runtime_on(1);
	moved();
	runtime_on(1);
	if (!fork()) {
		runtime_on(-1); /* it may have what its parent had, or not */
		cudaSetDevice(7);
		runtime_on(7);
		_exit(0);
	}
	return wait(NULL) < 0;
}
