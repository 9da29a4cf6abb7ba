/*
 * The name of the function that begins at an address of a process, by the ELF
 * symbols of the file that is mapped there. The addresses of a file's
 * functions are remembered, so that the next name of the same file is one
 * search; files are not kept open.
 */
#ifndef CUDATAP_SYMBOLS_H
#define CUDATAP_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SYMBOLS_MAX (1u << 20) /* functions remembered over all files, 16 bytes each */

struct symbols;

/** symbols_new - NULL when out of memory */
struct symbols *symbols_new(void);
void symbols_free(struct symbols *symbols);

/**
 * symbols_find - the function that begins at an address of a process, as the file names it
 * @name: at least one byte; a name that is longer is cut to @size - 1
 * Returns its length, -ENOENT when no function begins there or the file has lost its symbols, another
 * negative errno, or an enum find_error.
 */
int symbols_find(struct symbols *symbols, pid_t pid, uint64_t address, char *name, size_t size);

#endif
