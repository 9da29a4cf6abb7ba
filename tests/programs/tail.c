/* Launches as programs of CUDA 13's nvcc do: by the entry points that jump into cudaLaunchKernel. usage: tail
 * N */
#include <stdlib.h>

#include "cuda_api.h"

cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **args, size_t shared,
			       cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(void *kernel, dim3 grid, dim3 block, void **args, size_t shared,
				    cudaStream_t stream);

int main(int argc, char **argv)
{
	for (int n = atoi(argv[1]); n > 0; n--) {
		__cudaLaunchKernel(&argc, (dim3){1, 2, 3}, (dim3){4, 5, 6}, NULL, 7, NULL);
		__cudaLaunchKernel_ptsz(&argc, (dim3){1, 2, 3}, (dim3){4, 5, 6}, NULL, 7, NULL);
	}
	return 0;
}
