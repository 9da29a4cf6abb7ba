/* Interned kernel names: each text once, however many processes have it. */
#ifndef CUDATAP_NAMES_H
#define CUDATAP_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct name {
	size_t refs;
	uint64_t hash;
	char *shown; /* made at first use: the inside of a JSON string */
	uint32_t shown_len;
	char *plain; /* made when it is asked for: the same without demangling */
	uint32_t plain_len;
	size_t len;
	char text[]; /* as the program had it */
};

/* Start with {0}. */
struct names {
	struct name **slots;
	size_t nslots, n; /* nslots: a power of two, at least 4/3 of n */
	size_t bytes;
};

/** names_get - the name of that text, with one more reference; NULL when out of memory */
struct name *names_get(struct names *names, const char *text, size_t len);
/** names_put - give a reference back; the last one frees. NULL is fine. */
void names_put(struct names *names, struct name *name);
/**
 * names_shown - as it is to be shown, as the inside of a JSON string
 * @demangle: as people write it, "scale(float*, float, int)", where it is mangled; the same for all names
 * @ret_len: at most DECODE_MAX_KERNEL; what is longer is cut
 * NULL when out of memory.
 */
const char *names_shown(struct names *names, struct name *name, bool demangle, uint32_t *ret_len);
/** names_plain - not demangled, in the same form */
const char *names_plain(struct names *names, struct name *name, uint32_t *ret_len);
void names_free(struct names *names);

#endif
