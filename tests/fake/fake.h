/*
 * Fake CUDA libraries: what the files of this folder share.
 *
 * A fake libcudart or libcuda exports every name of the real one. Each export
 * is a stub of a few instructions (made by gen.c) that hands its argument
 * registers to fake_dispatch(), which knows from cudatap's own API table what
 * the function takes and returns. x86-64 only.
 *
 * Threads: everything may be called from any thread. The plans are made by a
 * constructor and read-only from then on.
 */
#ifndef FAKE_H
#define FAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fake_cuda.h"
#include "streamer/table/table.h"

#define FAKE_NREGS       6
#define FAKE_MAX_WORDS   32  /* argument words of one function: registers, then stack */
#define FAKE_MAX_OUTS    8   /* values written through pointers by one function */
#define FAKE_SCRATCH     256 /* bytes behind one made-up pointer of a nested call */
#define FAKE_MAX_SCRATCH 8   /* made-up pointers of one nested call */

/* ---- made by gen.c, one set per library ---- */

struct fake_function {
	const char *name; /* exported */
	int row;          /* in the API table, or -1: an export without a prototype */
};

extern const struct fake_function fake_functions[]; /* ascending by name */
extern void *const fake_addresses[];                /* of the stubs */
extern const unsigned fake_nfunctions;
extern const char fake_soname[];
extern const unsigned fake_major; /* 11, 12, 13; of libcuda: its newest */
extern const enum table_api fake_api;

/* ---- one call ---- */

struct fake_call {
	unsigned index;        /* in fake_functions[] */
	const uint64_t *regs;  /* FAKE_NREGS words */
	const uint64_t *stack; /* argument words on the stack */
};

static inline uint64_t fake_word(const struct fake_call *call, unsigned word)
{
	return word < FAKE_NREGS ? call->regs[word] : call->stack[word - FAKE_NREGS];
}

/* Index of a parameter's first word, as fake_word() counts them. */
static inline unsigned fake_param_word(const struct table_param *param)
{
	const struct table_place *place = &param->place[TABLE_X86_64];

	return place->where == TABLE_STACK ? FAKE_NREGS + place->index : place->index;
}

/** fake_arg - a parameter by its header's name; 0 when the function has none of that name */
uint64_t fake_arg(const struct fake_call *call, const char *name);

/* ---- what a function does ---- */

typedef uint64_t (*fake_special_fn)(const struct fake_call *call);

struct fake_out {
	uint8_t word;  /* that holds the pointer */
	uint8_t limit; /* word of the number of elements or bytes there is room for, or TABLE_NONE */
	bool count_is_pointer;
	uint8_t kind; /* enum table_kind of the pointee */
	uint16_t size;
	uint64_t value; /* what is written; of TABLE_HEX: enum fake_handles */
};

enum fake_handles { FAKE_HANDLE, FAKE_ADDRESS };

struct fake_plan {
	const struct table_row *row; /* NULL: no prototype */
	bool plain;                  /* returns 0 and does nothing */
	fake_special_fn special;     /* in place of nesting and out-values */
	uint8_t nouts;
	struct fake_out outs[FAKE_MAX_OUTS];
	bool allocates; /* subject to the memory limit */
	uint8_t nsizes;
	uint8_t size[3];   /* words whose product is the number of bytes */
	bool nests;        /* has twins in the driver */
	uint8_t copy_kind; /* word of a cudaMemcpyKind that decides the twin, or TABLE_NONE */
};

extern struct fake_plan fake_plans[]; /* [fake_nfunctions] */

/* plan.c */
void fake_plan_all(void);

/* outs.c */

/** fake_write_outs - out-values of a successful call; pointers that the driver wrote through are in @done (a
 * bit per word) */
void fake_write_outs(const struct fake_plan *plan, const struct fake_call *call, uint32_t done);
uint64_t fake_new_handle(void);
/** fake_new_address - a device address that no other allocation of this process has */
uint64_t fake_new_address(uint64_t bytes);

/* special.c */
fake_special_fn fake_special(const char *func);
/** fake_failed - remember a runtime error for cudaGetLastError() */
void fake_failed(int ret);

/* nest.c */

/** fake_nest_start - make room for the plans */
void fake_nest_start(void);
/** fake_nest - call the driver function that a runtime function stands on.
 * Returns its result (0 when there is none), and in @ret_done the words whose pointees it has written. */
int fake_nest(const struct fake_call *call, const struct fake_plan *plan, uint32_t *ret_done);
/** fake_call_words - call with any number of argument words (thunk.S) */
uint64_t fake_call_words(void *function, const uint64_t *words, uint64_t nwords);

/* control.c */

struct fake_behaviour {
	_Atomic bool active; /* anything below differs from the default */
	_Atomic unsigned flags;
	_Atomic int64_t ret;
	_Atomic uint64_t delay_ns;
	_Atomic(fake_cuda_hook) hook;
	void *ctx;
};

struct fake_settings {
	bool nested;
	uint64_t memory;
};

extern struct fake_settings fake_settings;
extern struct fake_behaviour fake_behaviours[]; /* [fake_nfunctions] */

/* What each library shows the others, so that all can be controlled through one. */
struct fake_own {
	int (*index)(const char *name);
	uint64_t (*calls)(unsigned index);
	struct fake_behaviour *behaviours;
};

extern const struct fake_own fake_cuda_own;

int fake_index(const char *name);

/* initial-exec: a dlopen'ed library must not allocate when a signal handler calls it first */
extern __thread __attribute__((tls_model("initial-exec"))) _Atomic uint64_t *fake_my_counts;
extern _Atomic uint64_t *fake_last_shard;

void fake_take_shard(void);

static inline void fake_count(unsigned index)
{
	if (__builtin_expect(!fake_my_counts, 0))
		fake_take_shard();
	if (__builtin_expect(fake_my_counts == fake_last_shard, 0))
		atomic_fetch_add_explicit(&fake_my_counts[index], 1, memory_order_relaxed);
	else /* one instruction, so that a signal handler's calls count too */
		__asm__ volatile("incq %0" : "+m"(fake_my_counts[index]));
}

/* dispatch.c */
uint64_t fake_dispatch(uint32_t index, const uint64_t *regs, const uint64_t *sp);

#endif
