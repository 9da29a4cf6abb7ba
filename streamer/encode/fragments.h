/*
 * What the lines of one encoder have in common, as JSON text made once: the
 * table's names in the format's dialect, the names of its keys, and the
 * encoder's own constants. A key that a sink does not want is an empty
 * fragment, a renamed one has its new name in it: neither costs anything per
 * event.
 */
#ifndef CUDATAP_FRAGMENTS_H
#define CUDATAP_FRAGMENTS_H

#include <stdint.h>

#include "../enrich/processes.h"
#include "../table/table.h"
#include "dialect.h"
#include "encode.h"
#include "fields.h"
#include "put.h"

#define FRAGMENTS_SMALL_ENUM  32   /* enumerators of 0 to this - 1 are prepared */
#define FRAGMENTS_MAX_UNKNOWN 14   /* "(-2147483648)" and quotes, beside the name */
#define FRAGMENTS_HEAD_MAX    1024 /* numbers and names of a call, without args, out and the kernel's name */
#define FRAGMENTS_ROOM        4096 /* at least this is left for the kernel's name, strings, arrays, structures */

/* what a thread's part adds to `who`: names and numbers, and what is known of its process */
#define FRAGMENTS_WHO_MAX (1024 + PROCESS_MAX_EXE + PROCESS_MAX_CMDLINE + PROCESS_MAX_CGROUP + ENVIRONS_MAX)

enum { FRAGMENTS_IN_ARGS, FRAGMENTS_IN_OUT };

struct param_fragments {
	/* FRAGMENTS_IN_ARGS, FRAGMENTS_IN_OUT: where the dialect has them as objects, both are the same */
	struct fragment key[2]; /* ,"devPtr": */
	struct fragment cut[2]; /* ,"devPtr_cut":true */
	bool redacted;
};

/* `first` and `second`: where a format's line tells of it; one of them may be empty. */
struct row_fragments {
	struct fragment
		first; /* ,"api":"driver","family":"memory","func":"cuMemAlloc","symbol":"cuMemAlloc_v2" */
	struct fragment second;
	struct fragment parent; /* ,"parent":"cuMemAlloc" */
	uint32_t reserve;       /* bytes of args and out when all values are scalars */
	uint32_t keys;          /* bit i: enum table_key_id i is wanted */
};

struct pair_fragments {
	struct fragment first, second;
};

struct enum_fragments {
	struct fragment small[FRAGMENTS_SMALL_ENUM]; /* "cudaMemcpyHostToDevice", as a value */
	uint32_t max;                                /* bytes of the longest value */
};

struct fragments {
	char *text; /* the arena */
	size_t len, size;
	const struct dialect *dialect;
	uint64_t without;               /* FIELD_BIT() of the keys that are left out */
	struct row_fragments *rows;     /* [table_nrows] */
	struct param_fragments *params; /* as table_params[] */
	struct fragment *fields;        /* as table_fields[]: ,"gridDim": */
	struct enum_fragments *enums;   /* as table_enums[] */
	struct pair_fragments
		*errors[TABLE_NAPIS];            /* as table_errors[]: ,"error":"...","error_message":"..." */
	struct pair_fragments status[4];         /* enum call_status: ,"status":"ok" */
	struct fragment open[NFIELDS];           /* what is in front of a key's value: ,"ts":" */
	struct fragment close[NFIELDS];          /* and behind it, if anything */
	struct fragment ret_key, ret_cut;        /* ,"return": in `out` */
	struct fragment start;                   /* what every line of a call begins with */
	struct fragment middle, object;          /* as the format likes */
	struct fragment who;                     /* what every thread's part begins with */
	struct fragment labels;                  /* "ecs": constant fields, which variables stand beside */
	struct fragment env[ENVIRONS_MAX_NAMES]; /* in front of a variable's value; empty: not wanted */
	struct fragment env_close;
	unsigned nenv;
	uint32_t env_len;     /* of what is around all variables */
	struct fragment tail; /* the end and the newline */
	size_t nparams, nfields, nenums;
	int error; /* of the building: 0 or a negative errno */
};

struct encode_format;

/**
 * fragments_make - all of it
 * @f: zeroed. Returns 0, or -ENOMEM, -E2BIG (see encoder_new()); free it in any case.
 */
int fragments_make(struct fragments *f, const struct encode_format *format,
		   const struct encoder_options *options);
void fragments_free(struct fragments *f);

/* ---- for a format's prepare() ---- */

/**
 * fragments_add - one fragment from pieces: plain text and text to be escaped in turns, up to a NULL
 * Out of memory: f->error is set.
 */
struct fragment fragments_add(struct fragments *f, const char *const *pieces);

#define FRAGMENT(f, ...) fragments_add(f, (const char *const[]){__VA_ARGS__, NULL})

/** fragments_add_env - what is around the variables: @open NAME @close and so on, @end; none where the key
 * is not wanted */
void fragments_add_env(struct fragments *f, const struct encoder_options *options, const char *open,
		       const char *close, const char *end);

/** fragments_since - what was added since f->len was @start, as one */
static inline struct fragment fragments_since(const struct fragments *f, size_t start)
{
	return (struct fragment){(uint32_t)start, (uint32_t)(f->len - start)};
}

/** fragments_wanted - is this key in the lines? */
static inline bool fragments_wanted(const struct fragments *f, enum encode_field field)
{
	return !(f->without & FIELD_BIT(field));
}

/** fragments_api - a row's library, as events name it */
static inline const char *fragments_api(const struct table_row *row)
{
	return row->api == TABLE_RUNTIME ? "runtime" : "driver";
}

#endif
