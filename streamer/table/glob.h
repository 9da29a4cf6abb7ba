/*
 * Globs over names: `*`, `?`, `[a-z]`, `[!a-z]`, `\` before a character that means itself.
 *
 * As fnmatch(3) in the C locale (without [:classes:]), but never slower than
 * the product of both lengths: patterns come from users.
 */
#ifndef CUDATAP_TABLE_GLOB_H
#define CUDATAP_TABLE_GLOB_H

#include <stdbool.h>
#include <stddef.h>

/** table_glob_match - does the pattern match all of the text? */
bool table_glob_match(const char *pattern, const char *text);

/** glob_prefix - bytes at the pattern's start that mean themselves: every match begins with them */
size_t glob_prefix(const char *pattern);

#endif
