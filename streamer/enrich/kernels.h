/*
 * Kernels' names: which handle of which process is called what. Learned from
 * the calls that register kernels, look them up or unload their modules
 * (REC_NAME records). Used by the reader thread alone.
 *
 * Names and calls come through different rings. A name is therefore queued
 * and takes effect in time order: before the first launch that ends after
 * it. So a launch never shows the name that its handle got later, nor one
 * whose module had been unloaded.
 */
#ifndef CUDATAP_KERNELS_H
#define CUDATAP_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../decode/decode.h"

/* How names are shown. */
enum kernels_style { KERNELS_DEMANGLED, KERNELS_MANGLED, KERNELS_OFF, KERNELS_BOTH };

struct kernels;

/**
 * kernels_new - an empty cache
 * @plans: plan_all(), kept
 * NULL when out of memory.
 */
struct kernels *kernels_new(const struct plan *plans, enum kernels_style style);
void kernels_free(struct kernels *kernels);

/** kernels_select - mark the rows that bring names (REC_ROW_NAMES) when a function that launches is
 * selected. @state: [table_nrows], from config_select() */
void kernels_select(uint8_t *state);

/** kernels_queue - take a REC_NAME record. Returns 0, or -ENOMEM: the name is lost. */
int kernels_queue(struct kernels *kernels, const struct rec_call *rec, size_t size);

/** kernels_settle - let queued names that ended until @end_ns take effect; UINT64_MAX: all */
void kernels_settle(struct kernels *kernels, uint64_t end_ns);

/**
 * kernels_find - the name of a process's handle as the inside of a JSON string, or NULL
 * @tgid: the process, in the initial pid namespace
 * @ret_len: its length, at most DECODE_MAX_KERNEL
 * Good until the next call on the cache.
 */
const char *kernels_find(struct kernels *kernels, uint32_t tgid, uint64_t handle, uint32_t *ret_len);

/*
 * Names a handle whose registration was not seen: the text's length, or a negative number when it is not
 * known. @name has room for REC_MAX_NAME bytes.
 */
typedef int (*kernels_guess_fn)(void *ctx, uint32_t tgid, uint64_t handle, char *name);

/** kernels_guess_by - whom to ask about a handle that is not known; NULL (at first): nobody */
void kernels_guess_by(struct kernels *kernels, kernels_guess_fn fn, void *ctx);
/** kernels_guess - as kernels_find(), where that knows nothing: ask, and remember the answer, also if it is
 * none */
const char *kernels_guess(struct kernels *kernels, uint32_t tgid, uint64_t handle, uint32_t *ret_len);

/** kernels_mangled - the name that was found last, as the compiler wrote it, with KERNELS_BOTH; NULL where
 * that is what was found, and where both are longer than DECODE_MAX_KERNEL. Good until the next call on the
 * cache. */
const char *kernels_mangled(struct kernels *kernels, uint32_t *ret_len);

/** kernels_fork - a process has forked: the new one has what it had, names that settled until now */
void kernels_fork(struct kernels *kernels, const struct rec_fork *rec);
/** kernels_process - a process has shown itself: a forked one has what its parent had, if its REC_FORK was
 * lost */
void kernels_process(struct kernels *kernels, const struct rec_thread *rec);
/** kernels_forget - it has ended, or another program runs in it */
void kernels_forget(struct kernels *kernels, uint32_t tgid);

struct kernels_size {
	size_t processes, handles, names, bytes;
};
void kernels_size(const struct kernels *kernels, struct kernels_size *ret_size);

#endif
