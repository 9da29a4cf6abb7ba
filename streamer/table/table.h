/*
 * The API table: one row per CUDA function and signature.
 *
 * rows.c, types.c and names.c are generated from the CUDA headers by
 * tools/mktable.py and never edited. Everything in it is const and lives for ever; strings are shared
 * and NUL-terminated. An index of a row is its id: it goes into attach
 * cookies and fits 16 bits (fewer than REC_MAX_ROWS rows).
 *
 * Facts only: names, types, enumerators, layouts and values come from the
 * headers cuda.h, cuda_runtime_api.h, driver_types.h and the interop headers
 * of CUDA 11.8, 12.9 and 13; exported names from the libraries themselves.
 */
#ifndef CUDATAP_TABLE_H
#define CUDATAP_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum table_api { TABLE_RUNTIME, TABLE_DRIVER, TABLE_NAPIS };

/* Bit i of a row's `majors`: the shape holds for CUDA 11 + i. */
enum { TABLE_CUDA11 = 1, TABLE_CUDA12 = 2, TABLE_CUDA13 = 4, TABLE_CUDA_ANY = 7 };

/* How a value is laid out and printed. */
enum table_kind {
	TABLE_VOID,
	TABLE_HEX,    /* pointers, handles, device pointers, unsigned 64-bit ids: "0x..." */
	TABLE_INT,    /* signed integer of `size` bytes */
	TABLE_UINT,   /* unsigned integer of `size` bytes; size_t */
	TABLE_FLOAT,  /* float or double by `size` */
	TABLE_ENUM,   /* 4 bytes, `ref` = enumeration */
	TABLE_STRUCT, /* `ref` = structure; printed as an object */
	TABLE_DIM3,   /* three u32: [x,y,z] */
	TABLE_STRING, /* const char *: the pointed-to text */
	TABLE_CHARS,  /* char[n] inside a structure or buffer: text up to NUL */
	TABLE_BYTES,  /* opaque bytes, printed as hex digits (uuid, ipc handles) */
	TABLE_UNION,  /* `ref` = union; only of fields: printed as the member that its tag tells, if any */
};

struct table_type {
	const char *name; /* C spelling: "cudaMemcpyKind", "void **" */
	uint8_t kind;     /* enum table_kind */
	uint16_t size;    /* bytes of one value */
	uint16_t ref;     /* index of the enumeration, structure or union */
};

struct table_enumerator {
	const char *name;
	int64_t value;
};

struct table_enum {
	const char *name;      /* "cudaMemcpyKind" */
	uint16_t first, count; /* in table_enumerators[], ascending by value, one per value */
};

struct table_field {
	const char *name; /* "extent.width" never occurs: nested structures nest */
	uint16_t type;    /* index in table_types[] */
	uint16_t offset;  /* bytes; the same on x86-64 and aarch64 */
	uint16_t count;   /* array length, 0 for a plain field */
};

struct table_struct {
	const char *name;
	uint16_t size;         /* where majors differ in what is not printed: the smallest */
	uint16_t first, count; /* in table_fields[] */
};

/* A union of which another field of the structure around it, an enumeration, tells the member. */
struct table_union {
	const char *name;      /* of the structure */
	uint16_t tag;          /* bytes from the structure's begin to the tag */
	uint16_t first, count; /* in table_variants[], ascending by value */
};

struct table_variant {
	int32_t value;  /* of the tag */
	uint16_t field; /* the member, in table_fields[]: its offset is from the structure's begin */
};

/* Where an ABI puts a parameter. */
enum table_where {
	TABLE_REG,        /* integer register `index`, and the next ones for `words` > 1 */
	TABLE_STACK,      /* stack word `index` (0 = first argument word), `words` of them */
	TABLE_REF,        /* register `index` points to a copy (aarch64, structs over 16 bytes) */
	TABLE_STACKREF,   /* stack word `index` points to a copy */
	TABLE_UNREADABLE, /* floating-point register */
};

struct table_place {
	uint8_t where; /* enum table_where */
	uint8_t index;
	uint8_t words;
};

enum table_abi { TABLE_X86_64, TABLE_AARCH64, TABLE_NABIS };

/* What is read through a pointer parameter. */
enum table_deref {
	TABLE_NO_DEREF,
	TABLE_IN,  /* at entry; shown in args in place of the address */
	TABLE_OUT, /* on return after success; shown in out */
};

#define TABLE_NONE 0xff

struct table_param {
	const char *name;      /* the header's own; "arg0" where it has none */
	uint16_t type;         /* as declared: what `args` prints */
	uint8_t deref;         /* enum table_deref */
	uint16_t pointee;      /* type of what is read (one element) when deref != NO_DEREF; for text it is
				* the TABLE_STRING itself (IN: at the parameter; OUT: *parameter points to
				* it), or TABLE_CHARS whose size is the most that is read of a buffer */
	uint8_t count;         /* parameter that holds the number of elements, or TABLE_NONE: one */
	bool count_is_pointer; /* that parameter points to the count (in/out) */
	struct table_place place[TABLE_NABIS];
};

enum table_ret {
	TABLE_RET_STATUS, /* cudaError_t or CUresult */
	TABLE_RET_POINTER,
	TABLE_RET_STRING, /* const char * to be read */
	TABLE_RET_VOID,
	TABLE_RET_VALUE,
	TABLE_RET_SRET, /* a struct through a hidden pointer (x86-64: shifts every argument) */
};

/* ---- normalised keys: equal for both libraries and all variants ---- */

enum table_key_id {
	TABLE_KEY_BYTES,
	TABLE_KEY_DIRECTION,
	TABLE_KEY_DEVICE,
	TABLE_KEY_STREAM,
	TABLE_KEY_KERNEL_HANDLE,
	TABLE_KEY_GRID,
	TABLE_KEY_BLOCK,
	TABLE_KEY_SHARED_BYTES,
	TABLE_KEY_PTR,
	TABLE_KEY_SRC_PTR,
	TABLE_NKEYS,
	TABLE_KEY_WHEN = TABLE_NKEYS, /* no key: those behind it, up to the next one, hold where its two
				       * operands are equal */
};

enum table_mode {
	TABLE_VALUE,         /* the first operand */
	TABLE_PRODUCT,       /* all operands multiplied */
	TABLE_FIRST_NONZERO, /* the first operand that is not 0 */
	TABLE_DIM,           /* one dim3 operand or three integers */
	TABLE_KIND,          /* direction: operand is a cudaMemcpyKind */
	TABLE_FIXED,         /* direction: operand is a constant enum table_direction */
	TABLE_MEMTYPES,      /* direction: two CUmemorytype operands, source then destination */
	TABLE_SUM,           /* sum over the elements of an array operand (marked absent if cut) */
	TABLE_PITCHED,       /* the first three operands multiplied, unless one of the operands after
			      * them is not 0 (width counts elements then, not bytes): absent */
	TABLE_LOCATION,      /* device: operands are a memory location's type and id; absent unless the
			      * type is TABLE_LOCATION_DEVICE */
	TABLE_PLACE,         /* operands are a CUmemorytype, and the host, device and array addresses, of
			      * which it chooses one */
	TABLE_EQUAL,         /* of TABLE_KEY_WHEN: a union's tag and the value that it must have */
};

/* cudaMemLocationTypeDevice and CU_MEM_LOCATION_TYPE_DEVICE */
#define TABLE_LOCATION_DEVICE 1

enum table_direction { TABLE_H2H, TABLE_H2D, TABLE_D2H, TABLE_D2D, TABLE_DEFAULT, TABLE_P2P };

enum table_source {
	TABLE_FROM_ARG,   /* parameter `param` as passed */
	TABLE_FROM_FIELD, /* of the structure behind or in `param`: at `offset` bytes, `type` */
	TABLE_FROM_OUT,   /* what was read on return through `param`: at `offset` bytes of it, `type` */
	TABLE_FROM_CONST, /* `offset` is the value */
};

struct table_operand {
	uint8_t source; /* enum table_source */
	uint8_t param;
	uint16_t type; /* FIELD: type of the field */
	uint32_t offset;
};

struct table_key {
	uint8_t key;  /* enum table_key_id */
	uint8_t mode; /* enum table_mode */
	uint8_t noperands;
	uint16_t operand; /* first, in table_operands[] */
};

/* flags of a row */
#define TABLE_PER_THREAD_STREAM (1 << 0) /* _ptsz, _ptds: stream 0 means 0x2 */
#define TABLE_REPORTS_ERROR     (1 << 1) /* cudaGetLastError: ret is an older error */
#define TABLE_TAIL              (1 << 2) /* jumps into `twin` of its own library, which is probed instead */
#define TABLE_BRINGS_NAMES      (1 << 3) /* reads strings: needs the sleepable pair where there is one */
#define TABLE_OF_GRAPH          (1 << 4) /* family graph: its payload is a node's, moved when the graph runs */

struct table_row {
	const char *symbol; /* exported: "cuMemAlloc_v2" */
	const char *func;   /* what people write: "cuMemAlloc" */
	uint16_t param;     /* first, in table_params[] */
	uint16_t key;       /* first, in table_keys[] */
	uint16_t twin;      /* first, in table_twins[]; ntwins symbols this one may call in the driver */
	uint16_t ret_type;
	uint8_t api;
	uint8_t family; /* index in table_families[] */
	uint8_t majors;
	uint8_t ret; /* enum table_ret */
	uint8_t flags;
	uint8_t nparams;
	uint8_t nkeys;
	uint8_t ntwins;
};

struct table_family {
	const char *name;
	bool in_default;
	const char *about; /* one line for `cudatap list families` */
};

struct table_error {
	int32_t code;
	const char *name;    /* "cudaErrorMemoryAllocation" */
	const char *message; /* what cudaGetErrorString says: "out of memory" */
};

extern const struct table_row table_rows[];
extern const unsigned table_nrows;
extern const struct table_param table_params[];
extern const struct table_type table_types[];
extern const unsigned table_ntypes;
extern const struct table_enum table_enums[];
extern const unsigned table_nenums;
extern const struct table_enumerator table_enumerators[];
extern const struct table_struct table_structs[];
extern const unsigned table_nstructs;
extern const struct table_field table_fields[];
extern const unsigned table_nfields;
extern const struct table_union table_unions[];
extern const unsigned table_nunions;
extern const struct table_variant table_variants[];
extern const struct table_key table_keys[];
extern const struct table_operand table_operands[];
extern const char *const table_twins[]; /* exact driver symbols */
extern const struct table_family table_families[];
extern const unsigned table_nfamilies;
/* ascending by code, [api] */
extern const struct table_error *const table_errors[TABLE_NAPIS];
extern const unsigned table_nerrors[TABLE_NAPIS];

/* ---- look-ups (table.c) ---- */

/**
 * table_find - the row of an exported name
 * @api:   which library exports it
 * @symbol: exact exported name, without "@version"
 * @major: 11, 12, 13; a newer major takes the newest row, 0 (undecided) finds
 *         only rows whose parameters are those of every major
 *
 * Returns the row's id, or -ENOENT. With @major 0 a function whose parameters
 * changed gives -ENOTUNIQ: print its arguments as arg0... Where only a
 * structure grew, 0 finds the row with the oldest and smallest one.
 */
int table_find(enum table_api api, const char *symbol, unsigned major);

/**
 * table_next - rows by glob
 * @pattern: glob (glob.h) or plain name, matched with symbol and func
 * @row: in/out, start with -1
 * Returns true and the next matching row id in @row, or false.
 */
bool table_next(const char *pattern, int *row);

/** table_family - index of the family of that name, or -ENOENT */
int table_family(const char *name);

/** table_error - the error of a status code, or NULL if the table has none */
const struct table_error *table_error(enum table_api api, int32_t code);

/** table_enumerator - name of an enumeration's value, or NULL */
const char *table_enumerator(const struct table_enum *e, int64_t value);

/**
 * table_member - the member of a union that holds
 * @u: the union
 * @data, @len: the structure around it, as far as it is known
 * Returns NULL where the tag is not known or has a value without a member.
 */
const struct table_field *table_member(const struct table_union *u, const void *data, size_t len);

/**
 * table_nearest - the known word nearest to a mistyped one
 * @word: what was written
 * @words: candidates, @n of them
 * Returns the candidate with the smallest edit distance if that is at most a
 * third of the word's length (at least 1), else NULL.
 */
const char *table_nearest(const char *word, const char *const *words, size_t n);

/** table_nearest_function - same, over every symbol and func */
const char *table_nearest_function(const char *word);

#endif
