/* The calls that benchmarks are made with: typical ones of a training loop, as records and decoded. */
#ifndef CUDATAP_BENCH_SAMPLES_H
#define CUDATAP_BENCH_SAMPLES_H

#include <stdio.h>
#include <stdlib.h>

#include "../unit/encode_record.h"

struct value {
	const char *param;
	uint64_t value;
};

static const struct sample {
	enum table_api api;
	const char *symbol;
	uint64_t ret;
	struct value values[12];
} samples[] = {
	{TABLE_RUNTIME, "cudaMalloc", 0, {{"devPtr", 0x7ffd01a2b3c8}, {"size", 1048576}}},
	{TABLE_RUNTIME, "cudaMalloc", 2, {{"devPtr", 0x7ffd01a2b3c8}, {"size", 68719476736}}},
	{TABLE_RUNTIME, "cudaFree", 0, {{"devPtr", 0x7f12a4000000}}},
	{TABLE_RUNTIME,
	 "cudaMemcpyAsync",
	 0,
	 {{"dst", 0x7f12a4000000},
	  {"src", 0x55d0c8a01000},
	  {"count", 602112},
	  {"kind", 1},
	  {"stream", 0x55d0c8b12340}}},
	{TABLE_RUNTIME,
	 "cudaLaunchKernel",
	 0,
	 {{"func", 0x7f12b0c01230},
	  {"gridDim", 1024},
	  {"blockDim", 256},
	  {"args", 0x7ffd01a2b100},
	  {"stream", 0x55d0c8b12340}}},
	{TABLE_RUNTIME, "cudaLaunchKernelExC", 0, {{"config", 0x7ffd01a2b100}, {"func", 0x7f12b0c01230}}},
	{TABLE_DRIVER,
	 "cuLaunchKernel",
	 0,
	 {{"f", 0x55d0c8c00000},
	  {"gridDimX", 1024},
	  {"gridDimY", 1},
	  {"gridDimZ", 1},
	  {"blockDimX", 256},
	  {"blockDimY", 1},
	  {"blockDimZ", 1},
	  {"sharedMemBytes", 49152},
	  {"hStream", 0x55d0c8b12340},
	  {"kernelParams", 0x7ffd01a2b100}}},
	{TABLE_DRIVER, "cuMemAlloc_v2", 0, {{"dptr", 0x7ffd01a2b3c8}, {"bytesize", 2097152}}},
	{TABLE_RUNTIME, "cudaEventRecord", 0, {{"event", 0x55d0c8d00010}, {"stream", 0x55d0c8b12340}}},
	{TABLE_RUNTIME, "cudaStreamSynchronize", 0, {{"stream", 0x55d0c8b12340}}},
	{TABLE_RUNTIME, "cudaStreamWaitEvent", 0, {{"stream", 0x55d0c8b12340}, {"event", 0x55d0c8d00010}}},
};
#define NSAMPLES (sizeof(samples) / sizeof(samples[0]))

static struct record records[NSAMPLES];
static struct call calls[NSAMPLES];

/* What was read through pointers: small numbers, as in most structures. */
static void add_slots(struct record *record, uint64_t ret)
{
	static const uint32_t numbers[REC_MAX_SLOT / 4] = {1024, 1,     1, 256,        1,
							   1,    49152, 0, 0xc8b12340, 0x55d0};
	const struct rec_desc *desc = &record->plan->desc;

	while (record->op < (ret ? desc->nentry : desc->nops))
		record_slot(record, numbers, desc->ops[record->op].size, 0);
}

static void make_calls(const struct plan *plans)
{
	for (size_t i = 0; i < NSAMPLES; i++) {
		record_begin(&records[i], plans, record_row(samples[i].api, samples[i].symbol));
		for (const struct value *v = samples[i].values; v->param; v++)
			record_param(&records[i], v->param, v->value);
		record_call(&records[i])->ret = samples[i].ret;
		add_slots(&records[i], samples[i].ret);
		if (decode_call(plans, record_call(&records[i]), records[i].size, &calls[i])) {
			fprintf(stderr, "%s: record refused\n", samples[i].symbol);
			exit(1);
		}
	}
}

#endif
