/*
 * Which places of a string table begin the name of a CUDA function.
 *
 * The string table is read once, in pieces. Symbols are then matched by the
 * number in st_name alone, so that a file with a million C++ names costs one
 * pass over its strings and no memory for them. Strings may share tails
 * ("__cudaLaunchKernel" holds "cudaLaunchKernel"), so a name can begin
 * anywhere.
 */
#ifndef CUDATAP_NAMES_H
#define CUDATAP_NAMES_H

#include "elf_file.h"

struct find_name {
	uint32_t at;    /* in the string table: a symbol's st_name */
	uint8_t api;    /* enum table_api, by the name's prefix */
	uint8_t majors; /* those in which the table knows it; 0: it has no row */
	uint16_t row;   /* the newest row of that symbol */
};

struct find_names {
	struct find_name *names; /* ascending by at */
	size_t n, size;
	size_t nknown;
	size_t nlookups;
};

enum find_names_limit {
	FIND_NAME_LENGTH = 128,       /* longest name looked at, with its NUL; the longest known has 57 */
	FIND_NAMES_STORED = 1 << 16,  /* more of these is no library but an attack */
	FIND_NAMES_LOOKUPS = 1 << 20, /* tails of C++ names that look like ours at first sight */
};

/**
 * find_names_scan - collect the names of one string table
 * @unknown: also keep names that look like CUDA functions but have no row
 *
 * Versions are cut off ("cudaMalloc@@libcudart.so.12"). Returns 0 and @names
 * (freed by find_names_free()), or as elf_file_read().
 */
int find_names_scan(const struct elf_file *file, const Elf64_Shdr *strings, bool unknown,
		    struct find_names *names);
void find_names_free(struct find_names *names);

/** find_names_get - the name that begins at @at, or NULL */
const struct find_name *find_names_get(const struct find_names *names, uint32_t at);

#endif
