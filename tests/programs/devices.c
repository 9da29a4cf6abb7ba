/*
 * Changes the current device in every way, from several threads. Each
 * allocation has a size of 1000 + the device that it is for, or of 999 where
 * nobody can know.
 *
 * usage: devices
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

static void contexts(void)
{
	CUcontext context;

	cuCtxCreate_v2(&context, 0, 4);
	driver_on(4);
	cuCtxDestroy_v2(context);
	driver_on(1);
}

int main(void)
{
	pthread_t thread;
	CUuuid uuid;

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
	pthread_create(&thread, NULL, other_thread, NULL);
	pthread_join(thread, NULL);
	runtime_on(1);
	if (!fork()) {
		runtime_on(-1); /* it may have what its parent had, or not */
		cudaSetDevice(7);
		runtime_on(7);
		_exit(0);
	}
	return wait(NULL) < 0;
}
