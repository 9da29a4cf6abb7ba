/*
 * What the lines of one encoder have in common, as JSON text made once: the
 * table's names and the encoder's own constants. Used by every JSON format.
 */
#ifndef CUDATAP_FRAGMENTS_H
#define CUDATAP_FRAGMENTS_H

#include <stdint.h>

#include "../table/table.h"
#include "encode.h"
#include "put.h"

#define FRAGMENTS_SMALL_ENUM  32   /* enumerators of 0 to this - 1 are prepared */
#define FRAGMENTS_MAX_UNKNOWN 14   /* "(-2147483648)" and quotes, beside the name */
#define FRAGMENTS_HEAD_MAX    1024 /* numbers, names and normalised keys of a call (json.c) */
#define FRAGMENTS_ROOM        4096 /* at least this is left for strings, arrays and structures */

struct param_fragments {
	struct fragment key; /* ,"devPtr": */
	struct fragment cut; /* ,"devPtr_cut":true */
};

struct row_fragments {
	struct fragment
		head; /* ,"api":"driver","family":"memory","func":"cuMemAlloc","symbol":"cuMemAlloc_v2" */
	struct fragment parent; /* ,"parent":"cuMemAlloc" */
	uint32_t reserve;       /* bytes of args and out when all values are scalars */
};

struct enum_fragments {
	struct fragment small[FRAGMENTS_SMALL_ENUM]; /* "cudaMemcpyHostToDevice", with the quotes */
	uint32_t max;                                /* bytes of the longest value */
};

struct fragments {
	char *text; /* the arena */
	size_t len, size;
	struct row_fragments *rows;           /* [table_nrows] */
	struct param_fragments *params;       /* as table_params[] */
	struct fragment *fields;              /* as table_fields[]: ,"gridDim": */
	struct enum_fragments *enums;         /* as table_enums[] */
	struct fragment *errors[TABLE_NAPIS]; /* as table_errors[]: ,"error":"...","error_message":"..." */
	struct fragment start;                /* {"type":"call","run":"...","seq": */
	struct fragment host;                 /* ,"host":"..." */
	struct fragment tail;                 /* constant fields, } and the newline */
	size_t nparams, nfields, nenums;
	int error; /* of the building: 0 or a negative errno */
};

/**
 * fragments_make - all of it
 * @f: zeroed. Returns 0, or -ENOMEM, -E2BIG (see encoder_new()); free it in any case.
 */
int fragments_make(struct fragments *f, const struct encoder_options *options);
void fragments_free(struct fragments *f);

#endif
