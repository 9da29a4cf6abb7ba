/*
 * From a ring record to a call whose values can be printed: the plan says
 * which words and slots a row's record has (the same plan that the BPF
 * program copies by), decode_call() points into the record.
 *
 * Nothing here allocates; a call lives as long as its record.
 */
#ifndef CUDATAP_DECODE_H
#define CUDATAP_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../bpf/record.h"
#include "../table/table.h"

#define DECODE_MAX_PARAMS 24
#define DECODE_MAX_KERNEL 4096

/* What one row's record holds, for one ABI. */
struct plan {
	struct rec_desc desc;
	uint8_t op_param[REC_MAX_OPS];   /* parameter that op i reads for, or TABLE_NONE: the return value */
	uint8_t word[DECODE_MAX_PARAMS]; /* index in words[] of each parameter's first word, or TABLE_NONE */
};

/**
 * plan_make - the plan of a row
 * @id: of the row, index in table_rows[]
 * @abi: where arguments are
 * Parameters beyond the limits of a record are left out of the plan (their
 * word or op is absent, never wrong).
 */
void plan_make(unsigned id, enum table_abi abi, struct plan *plan);

/** plan_host_abi - the ABI that this executable was built for */
enum table_abi plan_host_abi(void);

/** plan_all - plans of every row, allocated; NULL when out of memory */
struct plan *plan_all(enum table_abi abi);

enum call_status { CALL_OK, CALL_ERROR, CALL_NOT_READY, CALL_UNFINISHED };

/* A value of the record: bytes in the type's own layout. */
struct call_value {
	const void *data; /* NULL: absent (not in the plan, not readable, not successful) */
	uint32_t len;     /* bytes at data */
	uint32_t count;   /* arrays: elements the program has, len / type size are here; strings: 1 if cut */
	uint16_t type;    /* of one element, in table_types[] */
};

/* Normalised keys; bit i of `present` = enum table_key_id i. */
struct call_keys {
	uint32_t present;
	enum table_direction direction;
	int32_t device;
	int64_t bytes; /* clamped to 2^63-1 */
	uint64_t stream, kernel_handle, ptr, src_ptr;
	uint32_t grid[3], block[3];
	uint64_t shared_bytes;
	/* beside kernel_handle, not by decode_call(): the kernel's name as the inside of a JSON string;
	 * NULL: unknown */
	const char *kernel;
	uint32_t kernel_len;         /* at most DECODE_MAX_KERNEL */
	const char *kernel_mangled;  /* the same, as the compiler wrote it, where both are to be shown and
					differ; or NULL */
	uint32_t kernel_mangled_len; /* with kernel_len at most DECODE_MAX_KERNEL */
};

struct call {
	const struct table_row *row;
	const struct rec_call *rec;
	const uint64_t *words;
	const struct table_error *error; /* name and text of a status that is not success, or NULL */
	enum call_status status;
	int32_t ret; /* low 32 bits; meaningful when row->ret == TABLE_RET_STATUS */
	unsigned row_id;
	unsigned attach_id;
	struct call_value arg[DECODE_MAX_PARAMS]; /* as passed: the words */
	struct call_value in[DECODE_MAX_PARAMS];  /* TABLE_IN pointees */
	struct call_value out[DECODE_MAX_PARAMS]; /* TABLE_OUT pointees */
	struct call_value ret_string;             /* TABLE_RET_STRING */
	struct call_keys keys;
};

/**
 * decode_call - a ring record as a call
 * @plans: plan_all()
 * @rec, @size: a REC_CALL, REC_OPEN or REC_NAME record as it lies in its ring; any bytes are safe. Of an open
 *call the status is CALL_UNFINISHED. Returns 0, or -EBADMSG when the record contradicts its row's plan.
 */
int decode_call(const struct plan *plans, const struct rec_call *rec, size_t size, struct call *call);

#endif
