/* Texts of any bytes that are shown in many lines: escaped once, cut to what a line has room for. */
#ifndef CUDATAP_TEXT_SHOWN_H
#define CUDATAP_TEXT_SHOWN_H

#include <stddef.h>
#include <stdint.h>

/* Text of any bytes as the inside of a JSON string; from malloc(). */
struct process_text {
	char *data; /* NULL: not known */
	uint32_t len;
};

/**
 * process_text_set - escape a text in the place of what was there
 * What is longer than @max when it is escaped loses its end, whole characters at a time. Out of memory: it
 * stays as it was.
 */
void process_text_set(struct process_text *text, const char *bytes, size_t len, size_t max);

#endif
