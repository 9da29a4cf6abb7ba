/*
 * The bytes of a configuration, before they are YAML: read whole, within a
 * limit, and known to be clean UTF-8 text afterwards.
 */
#ifndef CUDATAP_CONFIG_TEXT_H
#define CUDATAP_CONFIG_TEXT_H

#include <stddef.h>

#include "errors.h"

#define TEXT_MAX (1u << 20) /* bytes of one file; a thousand lines have 50 KiB */

/**
 * text_read - a whole file
 * @path: "-" is stdin; pipes are read to their end
 * @mark: where errors are reported, without a line
 * @ret_text: owned by the caller, free(3)
 * Returns 0, or -EINVAL after one message.
 */
int text_read(const char *path, const struct mark *mark, struct errors *errors, char **ret_text,
	      size_t *ret_len);

/**
 * text_check - UTF-8 without control characters, at most TEXT_MAX bytes
 * @mark: where the text begins; without a line, the place of a wrong byte has none either
 * Returns 0, or -EINVAL after one message with the place of the first wrong byte.
 */
int text_check(const char *text, size_t len, const struct mark *mark, struct errors *errors);

/** text_character - bytes of the UTF-8 character at @text, 0 if it is none */
size_t text_character(const char *text, size_t len);

#endif
