/* Stand-in for the system's VDPAU header: 32-bit handles and the address getter's type. */
#ifndef CUDATAP_STUB_VDPAU_H
#define CUDATAP_STUB_VDPAU_H

typedef unsigned int VdpDevice;
typedef unsigned int VdpVideoSurface;
typedef unsigned int VdpOutputSurface;
typedef int VdpGetProcAddress(VdpDevice device, unsigned int function_id, void **function_pointer);

#endif
