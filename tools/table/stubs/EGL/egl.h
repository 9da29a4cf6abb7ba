/* Stand-in for the system's EGL header: only the types that CUDA's interop prototypes name. */
#ifndef CUDATAP_STUB_EGL_H
#define CUDATAP_STUB_EGL_H

typedef int EGLint;

#endif
