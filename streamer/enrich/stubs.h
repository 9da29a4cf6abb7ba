/*
 * Kernels' names from their host stubs: what a program passes to a launch is
 * the address of a function of its own that the compiler named after the
 * kernel. For kernels whose registration was not seen, as in programs that
 * are older than the tracer. Files that were stripped tell nothing.
 */
#ifndef CUDATAP_STUBS_H
#define CUDATAP_STUBS_H

#include "../find/symbols.h"

/**
 * stubs_name - the mangled name of the kernel whose stub is at an address of a process
 * @symbols: remembers what it reads of files
 * @pid, @start_ns: which process, as in struct process
 * Returns the length of the name, cut to @size - 1, or a negative number: there is no stub, or it has no
 * name.
 */
int stubs_name(struct symbols *symbols, pid_t pid, uint64_t start_ns, uint64_t address, char *name,
	       size_t size);

/** stubs_kernel - a symbol's name to the kernel's, in place: _Z26__device_stub__Z5scalePffiPffi is
 * _Z5scalePffi's inner stub. Returns the length. */
size_t stubs_kernel(char *name);

#endif
