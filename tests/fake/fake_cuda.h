/*
 * How a test controls the fake CUDA libraries. The functions are exported by
 * each of them, and each finds the others that are loaded, so that it does
 * not matter whose are called. They are not CUDA functions and not probed.
 *
 * Environment, read when the library is loaded:
 *
 *	FAKE_CUDA		rules, divided by `;`: GLOB:KEY=VALUE,...
 *				ret=N, delay=NUMBER[ns|us|ms|s], outs=0|1
 *	FAKE_CUDA_MEMORY	bytes (or with KiB, MiB, GiB): a larger allocation fails with 2
 *	FAKE_CUDA_NESTED	0: the runtime does not call the driver
 *	FAKE_CUDA_COUNTS	directory: calls are counted in DIR/SONAME, over all processes
 *
 * A counts file: u32 functions, u32 shards, at 64 functions times a name of 64
 * bytes, then shards times functions times a u64 that add up.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stdint.h>

enum {
	FAKE_CUDA_RET = 1,     /* return `ret` */
	FAKE_CUDA_NO_OUTS = 2, /* write nothing through pointers, call no driver function */
};

/* Called inside the function, after its delay. May call CUDA, longjmp, fork, exit, exec, be killed. */
typedef void (*fake_cuda_hook)(void *ctx);

/**
 * fake_cuda_set - what a function does from now on
 * @name: exported name
 * @flags: FAKE_CUDA_...
 * Returns 0, or -ENOENT when no loaded fake library has it. fake_cuda_set(name, 0, 0, 0) is the default.
 */
int fake_cuda_set(const char *name, unsigned flags, int64_t ret, uint64_t delay_ns);

/** fake_cuda_on - run @hook inside every call of a function; NULL: no more */
int fake_cuda_on(const char *name, fake_cuda_hook hook, void *ctx);

/** fake_cuda_calls - calls of a function so far (of all processes with FAKE_CUDA_COUNTS), 0 for an unknown
 * one */
uint64_t fake_cuda_calls(const char *name);

#endif
