/*
 * Prototypes of exported functions that the C headers above do not declare:
 * entry points that nvcc's generated code calls (their shapes are in
 * crt/host_runtime.h, which is C++), and the profiler's switches.
 */
#ifdef __cplusplus
extern "C" {
#endif

typedef enum CUoutput_mode_enum {
	CU_OUT_KEY_VALUE_PAIR = 0,
	CU_OUT_CSV = 1,
} CUoutput_mode;

CUresult cuProfilerInitialize(const char *configFile, const char *outputFile, CUoutput_mode outputMode);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

void **__cudaRegisterFatBinary(void *fatCubin);
void __cudaRegisterFatBinaryEnd(void **fatCubinHandle);
void __cudaUnregisterFatBinary(void **fatCubinHandle);
char __cudaInitModule(void **fatCubinHandle);
void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
			    const char *deviceName, int thread_limit, uint3 *tid, uint3 *bid, dim3 *bDim,
			    dim3 *gDim, int *wSize);
void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress, const char *deviceName,
		       int ext, size_t size, int constant, int global);
void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress, char *deviceAddress,
			      const char *deviceName, int ext, size_t size, int constant, int global);
void __cudaRegisterTexture(void **fatCubinHandle, const struct textureReference *hostVar,
			   const void **deviceAddress, const char *deviceName, int dim, int norm, int ext);
void __cudaRegisterSurface(void **fatCubinHandle, const struct surfaceReference *hostVar,
			   const void **deviceAddress, const char *deviceName, int dim, int ext);
unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
				     struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem, void *stream);
#if CUDART_VERSION < 12000
cudaError_t cudaProfilerInitialize(const char *configFile, const char *outputFile,
				   cudaOutputMode_t outputMode);
#endif
#if CUDART_VERSION >= 12000
cudaError_t __cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
			       size_t sharedMem, cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
				    size_t sharedMem, cudaStream_t stream);
#endif

#ifdef __cplusplus
}
#endif
