/*
 * The bytes of a configuration, before they are YAML: read whole, within a
 * limit, and known to be clean UTF-8 text afterwards.
 */
#ifndef CUDATAP_CONFIG_TEXT_H
#define CUDATAP_CONFIG_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "errors.h"

#define TEXT_MAX (1u << 20) /* bytes of one configuration; a thousand lines have 50 KiB */

/**
 * text_read - all that a descriptor gives
 * @max: bytes; one more shows that there were too many
 * @ret_text: owned by the caller, free(3); NUL-terminated
 * Returns 0 or a negative errno.
 */
int text_read(int fd, size_t max, char **ret_text, size_t *ret_len);

/**
 * text_beside - where a path leads that a file names
 * @file: that file; without a "/" it is in the working directory
 * Returns the path, relative ones beside the file, to be freed; NULL when out of memory.
 */
char *text_beside(const char *file, const char *path);

/**
 * text_check - UTF-8 without control characters, at most TEXT_MAX bytes
 * @mark: where the text begins; without a line, the place of a wrong byte has none either
 * Returns 0, or -EINVAL after one message with the place of the first wrong byte.
 */
int text_check(const char *text, size_t len, const struct mark *mark, struct errors *errors);

/** text_is_clean - what text_check() checks but the size, without a message */
bool text_is_clean(const char *text, size_t len);

/** text_character - bytes of the UTF-8 character at @text, 0 if it is none */
size_t text_character(const char *text, size_t len);

#endif
