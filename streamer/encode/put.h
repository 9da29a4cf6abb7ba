/*
 * Appending to a line, unchecked: the caller has reserved the worst case once.
 * Each function writes at `p` and returns the place behind what it wrote.
 * Up to PUT_SLACK bytes behind that place may be overwritten too: copying a
 * fixed number of bytes and moving on by fewer is what makes these fast.
 */
#ifndef CUDATAP_PUT_H
#define CUDATAP_PUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PUT_SLACK 64
#define PUT_STEP  32 /* fragments are copied in steps of this; they may be read that far past their end */

/* A stretch of prepared text in an arena that has PUT_STEP bytes to spare at its end. */
struct fragment {
	uint32_t off, len;
};

#define PUT_LITERAL(p, literal) put_bytes(p, literal, sizeof(literal) - 1)

static inline char *put_bytes(char *p, const char *from, size_t len)
{
	memcpy(p, from, len);
	return p + len;
}

static inline char *put_fragment(char *p, const char *arena, struct fragment fragment)
{
	const char *from = arena + fragment.off;

	for (size_t done = 0; done < fragment.len; done += PUT_STEP)
		memcpy(p + done, from + done, PUT_STEP);
	return p + fragment.len;
}

#endif
