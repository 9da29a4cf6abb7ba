/*
 * Compiles two kernels by NVRTC when it runs, a template's instance among
 * them, loads them as a module and as a library, and launches them through
 * the driver. Counts the launches by kernel.
 *
 * usage: nvrtc COUNTS.json
 */
#include <cuda.h>
#include <nvrtc.h>
#include <vector>

#include "own.h"

static const char source[] = "extern \"C\" __global__ void count_up(int *data) { data[0]++; }\n"
			     "template <typename T> __global__ void add(T *data, T by) { data[threadIdx.x] += by; }\n";

static void must(int got, const char *what)
{
	own_must(got, 0, what);
}

static std::vector<char> compile(CUdevice device, std::string *ret_name)
{
	const char *lowered;
	nvrtcProgram program;
	std::string arch;
	size_t size;
	int major, minor;

	must(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device), "attribute");
	must(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device), "attribute");
	arch = "--gpu-architecture=sm_" + std::to_string(major * 10 + minor);
	const char *options[] = {arch.c_str()};
	must(nvrtcCreateProgram(&program, source, "kernels.cu", 0, NULL, NULL), "program");
	must(nvrtcAddNameExpression(program, "add<float>"), "name");
	must(nvrtcCompileProgram(program, 1, options), "compile");
	must(nvrtcGetLoweredName(program, "add<float>", &lowered), "lowered name");
	*ret_name = lowered;
	must(nvrtcGetCUBINSize(program, &size), "size");
	std::vector<char> image(size);
	must(nvrtcGetCUBIN(program, image.data()), "image");
	must(nvrtcDestroyProgram(&program), "destroy");
	return image;
}

int main(int argc, char **argv)
{
	CUfunction function;
	CUdeviceptr data;
	CUlibrary library;
	CUkernel kernel;
	CUcontext context;
	CUmodule module;
	CUdevice device;
	std::string name;
	float by = 1;

	if (argc < 2)
		return 2;
	own_wait();
	must(cuInit(0), "init");
	must(cuDeviceGet(&device, 0), "device");
	must(cuDevicePrimaryCtxRetain(&context, device), "context");
	must(cuCtxSetCurrent(context), "context");
	std::vector<char> image = compile(device, &name);
	must(cuModuleLoadData(&module, image.data()), "module");
	must(cuLibraryLoadData(&library, image.data(), NULL, NULL, 0, NULL, NULL, 0), "library");
	must(cuMemAlloc(&data, 4096), "malloc");
	void *args[] = {&data, &by};
	must(cuModuleGetFunction(&function, module, "count_up"), "function");
	for (int i = 0; i < 31; i++, own_launches["count_up"]++)
		must(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL), "launch");
	must(cuModuleGetFunction(&function, module, name.c_str()), "function");
	for (int i = 0; i < 17; i++, own_launches["void add<float>(float*, float)"]++)
		must(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL), "launch");
	must(cuLibraryGetKernel(&kernel, library, name.c_str()), "kernel");
	for (int i = 0; i < 13; i++, own_launches["void add<float>(float*, float)"]++)
		must(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL), "launch");
	must(cuCtxSynchronize(), "synchronize");
	must(cuLibraryUnload(library), "unload");
	must(cuModuleUnload(module), "unload");
	return own_write(argv[1]);
}
