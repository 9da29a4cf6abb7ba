/* Stand-in for the system's GL header: only the types that CUDA's interop prototypes name. */
#ifndef CUDATAP_STUB_GL_H
#define CUDATAP_STUB_GL_H

typedef unsigned int GLenum;
typedef unsigned int GLuint;

#endif
