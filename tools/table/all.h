/* Every CUDA header that declares exported functions; read by clang, never compiled into anything. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <GL/gl.h>
#include <vdpau/vdpau.h>
#include <cudaGL.h>
#include <cudaEGL.h>
#include <cudaVDPAU.h>
#include <cuda_gl_interop.h>
#include <cuda_egl_interop.h>
#include <cuda_vdpau_interop.h>
#include "hand.h"
