/*
 * Reading what probes need from a 64-bit ELF file of this machine: symbol
 * and string tables, the dynamic section, version definitions, notes, and
 * the way from a virtual address to a file offset.
 *
 * Everything is read by pread(2) in small pieces and checked against the
 * file's size. Nothing is mapped, so a file that shrinks meanwhile gives an
 * error instead of SIGBUS; no allocation follows a number found in the file,
 * so a library of gigabytes costs no more memory than a small one (libelf
 * reads whole string tables). Layouts: elf(5) and the System V gABI.
 *
 * Functions return 0, a negative errno of a failed read, or an enum
 * find_error.
 */
#ifndef CUDATAP_ELF_FILE_H
#define CUDATAP_ELF_FILE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include "find.h"

enum elf_file_limit {
	ELF_FILE_SEGMENTS = 64,      /* executable PT_LOADs; linkers make one or two */
	ELF_FILE_NOTES = 16,         /* note sections looked at */
	ELF_FILE_SECTIONS = 1 << 16, /* most that a file may have; linked files have dozens */
	ELF_FILE_ENTRIES = 4096,     /* dynamic entries, version definitions looked at */
	ELF_FILE_STRING = 256,       /* longest soname or version name, with its NUL */
};

struct elf_file {
	int fd; /* -1: read from bytes */
	const void *bytes;
	uint64_t size;
	uint64_t nsections;
	uint64_t section_table; /* file offset */
	/* the first section of each type; sh_type is SHT_NULL where there is none */
	Elf64_Shdr dynsym, symtab, dynamic, verdef;
	Elf64_Shdr notes[ELF_FILE_NOTES];
	unsigned nnotes;
	struct elf_segment {
		uint64_t start, end; /* virtual addresses that have bytes in the file */
		uint64_t offset;     /* of start */
	} segments[ELF_FILE_SEGMENTS];
	unsigned nsegments;
};

/** elf_file_open - check the header and find the sections; @fd stays the caller's */
int elf_file_open(struct elf_file *file, int fd);
/** elf_file_open_bytes - the same over @size bytes in memory, which must outlive @file */
int elf_file_open_bytes(struct elf_file *file, const void *bytes, size_t size);

/** elf_file_read - exactly @n bytes at @offset; FIND_BROKEN past the end */
int elf_file_read(const struct elf_file *file, uint64_t offset, void *buf, size_t n);

/** elf_file_section - header number @index; FIND_BROKEN where there is none or its bytes
 * are not inside the file */
int elf_file_section(const struct elf_file *file, uint64_t index, Elf64_Shdr *ret);

/** elf_file_offset - file offset of an executable address, or false */
bool elf_file_offset(const struct elf_file *file, uint64_t address, uint64_t *ret_offset);

/** elf_file_address - the other way, from an offset to the address of what is executed there */
bool elf_file_address(const struct elf_file *file, uint64_t offset, uint64_t *ret_address);

/** elf_file_name - name number @at of a symbol table, at most @size bytes with its NUL: what is longer is cut
 */
int elf_file_name(const struct elf_file *file, const Elf64_Shdr *table, uint64_t at, char *name, size_t size);

/* Called with a defined function's symbol; nonzero ends the walk and is returned. */
typedef int (*elf_symbol_fn)(void *ctx, const Elf64_Sym *symbol);

/** elf_file_functions - every defined STT_FUNC symbol of a table (&file->dynsym or &file->symtab) */
int elf_file_functions(const struct elf_file *file, const Elf64_Shdr *table, elf_symbol_fn fn, void *ctx);

/** elf_file_soname - DT_SONAME, malloc()ed; NULL in *ret where there is none */
int elf_file_soname(const struct elf_file *file, char **ret);
/** elf_file_build_id - NT_GNU_BUILD_ID in hex, malloc()ed; NULL in *ret where there is none */
int elf_file_build_id(const struct elf_file *file, char **ret);

/* Called with the name of a version that the file defines, its base version left out. */
typedef int (*elf_version_fn)(void *ctx, const char *name);
/** elf_file_versions - every symbol version that the file defines; nonzero of @fn ends the walk */
int elf_file_versions(const struct elf_file *file, elf_version_fn fn, void *ctx);

#endif
