/* Stand-in for the system's EGL extension header: three opaque handles. */
#ifndef CUDATAP_STUB_EGLEXT_H
#define CUDATAP_STUB_EGLEXT_H

typedef void *EGLImageKHR;
typedef void *EGLStreamKHR;
typedef void *EGLSyncKHR;

#endif
