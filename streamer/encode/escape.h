/*
 * Text of any bytes as the inside of a JSON string (RFC 8259): quotes,
 * backslashes and control characters are escaped, so that a line stays one
 * line; what is not UTF-8 becomes U+FFFD, one for each maximal part of an
 * ill-formed sequence as the Unicode standard recommends (section 3.9).
 */
#ifndef CUDATAP_ESCAPE_H
#define CUDATAP_ESCAPE_H

#include <stddef.h>

#define ESCAPE_GROWTH 6 /* bytes that one byte of text can become */

/** put_escaped - append text, unchecked: at most ESCAPE_GROWTH * @len bytes (and see put.h) */
char *put_escaped(char *p, const char *text, size_t len);

/** escape_whole - the length of text without a UTF-8 sequence that begins at its end but was cut there */
size_t escape_whole(const char *text, size_t len);

/**
 * escape_utf8 - how the text goes on
 * Returns the length of the well-formed sequence at @text, or minus the length of the ill-formed part.
 * @len is at least 1.
 */
int escape_utf8(const char *text, size_t len);

#endif
