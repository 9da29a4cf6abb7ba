/* Registers kernels as fast as it can, as a large library does when it is loaded, and launches the last one.
 * usage: many_kernels COUNT NAME_LENGTH */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_api.h"

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[1]) : 0, length = argc > 2 ? atoi(argv[2]) : 0;
	char *names = calloc((size_t)count + 1, (size_t)length + 16);
	void **module = __cudaRegisterFatBinary(NULL);
	char *name = names;

	for (int i = 0; i < count; i++, name += length + 16)
		snprintf(name, (size_t)length + 16, "kernel_%0*d", length - 7, i);
	name = names;
	for (int i = 0; i < count; i++, name += length + 16)
		__cudaRegisterFunction(module, (const char *)(0x1000L + 16L * i), name, name, -1, NULL, NULL,
				       NULL, NULL, NULL);
	cudaLaunchKernel((const void *)(0x1000L + 16L * (count - 1)), (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL,
			 0, NULL);
	free(names);
	return 0;
}
