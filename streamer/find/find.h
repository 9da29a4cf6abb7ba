/*
 * Finding CUDA libraries: which files hold CUDA functions, and at which file
 * offsets. Nothing here attaches or keeps state between calls; a file is
 * opened once and everything is read through that descriptor.
 */
#ifndef CUDATAP_FIND_H
#define CUDATAP_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../table/table.h"

/* One function to probe. Two names at one offset appear once. */
struct find_function {
	uint64_t offset;    /* in the file; past endbr64 where the function begins with it */
	uint16_t row;       /* in table_rows[] */
	bool shape_unknown; /* its signature changed between majors and the major is undecided:
			     * the row is the newest, print the arguments as arg0... */
};

/* What a file holds. Owned by the caller, freed by find_image_free(). */
struct find_image {
	bool has[TABLE_NAPIS];           /* holds functions of that library */
	bool is_static;                  /* libcudart inside an executable or another library */
	unsigned major;                  /* of the runtime (or the driver's API), 0 undecided */
	const char *major_from;          /* "soname", "symbol version", "names", or NULL */
	char *soname;                    /* or NULL */
	char *build_id;                  /* hex, or NULL */
	struct find_function *functions; /* ascending by offset */
	size_t nfunctions;
	size_t nunknown; /* cuda* and cu* exports without a row: internal ones, or a newer CUDA's */
};

/* Why a file cannot be probed: negative errno-like codes of find_image_read(). */
enum find_error {
	FIND_NOT_ELF = -1000,
	FIND_OTHER_MACHINE, /* another architecture or 32-bit */
	FIND_NO_CUDA,       /* a proper ELF file without a CUDA function */
	FIND_BROKEN,        /* cut or inconsistent tables */
};

/**
 * find_image_read - read the CUDA functions of an ELF file
 * @fd: open for reading; its position is not used nor changed
 * @image: filled on success; untouched otherwise
 *
 * Reads .dynsym and .symtab, skips undefined symbols and C++ wrappers, strips
 * symbol versions, decides the major and maps names to rows. TABLE_TAIL rows are left
 * out where their target is present. Of several names at one offset the public one
 * stays (no leading underscore, then no per-thread stream, then the alphabet).
 * A library counts as held when the soname names it, or when at least eight of its
 * functions are defined.
 * Major of the runtime: soname, else version definitions, else the major in which most
 * of the names exist; of the driver: its newest name. Memory stays small whatever the
 * file's size. Any bytes at all are safe input, also of a file that changes meanwhile.
 * Returns 0, a negative errno, or an enum find_error.
 */
int find_image_read(int fd, struct find_image *image);
void find_image_free(struct find_image *image);
/** find_error_text - what to tell the user about a result of find_image_read() */
const char *find_error_text(int error);

/* A candidate file. */
struct find_file {
	dev_t dev;
	ino_t ino;
	const char *path;            /* as its process or this host names it; " (deleted)" stripped */
	pid_t pid;                   /* process that maps it, or 0 */
	uint64_t map_start, map_end; /* of that mapping, 0 when pid is 0 */
	uint64_t map_offset;         /* in the file, of map_start */
	uint64_t mapped_ns;          /* CLOCK_MONOTONIC, when that mapping was made; 0: not known */
	bool deleted;
};

/**
 * find_open - open a candidate: /proc/PID/map_files first (deleted files and
 * other mount namespaces work), then PATH below /proc/PID/root, checked by dev
 * and inode, then PATH. Returns a descriptor (O_CLOEXEC) or a negative errno.
 */
int find_open(const struct find_file *file);

/**
 * find_name - what an open file is called, which may be another one than was looked for
 * @pid: that maps it
 * @found: what it was called when it was found. That stays if the file has this name still, seen from its
 *	process's root; otherwise it is named as this host names it.
 * " (deleted)" is stripped. @name: of PATH_MAX bytes at least
 */
void find_name(int fd, pid_t pid, const char *found, char *name, size_t size);

/* Callback of the walks: return 0 to go on, anything else ends the walk and is returned. */
typedef int (*find_fn)(void *ctx, const struct find_file *file);

/** find_in_process - every distinct file that a process maps executable.
 * -ESRCH when it does not exist (or has ended). */
int find_in_process(pid_t pid, find_fn fn, void *ctx);
/** find_mapping - the file that a process maps executable at an address; -ENOENT when there is none */
int find_mapping(pid_t pid, uint64_t address, find_fn fn, void *ctx);
/** find_proc - whether /proc shows this process's pid namespace
 *
 * Returns 0, -ENOENT when none is mounted, or -EXDEV when it is another namespace's: its numbers are not
 * those that this process and the kernel's records use.
 */
int find_proc(void);

/** find_in_processes - the same over all processes; those that end meanwhile are skipped */
int find_in_processes(find_fn fn, void *ctx);
/** find_in_cache - libcudart.so* and libcuda.so* that ld.so would find on this host:
 * /etc/ld.so.cache, the default directories, LD_LIBRARY_PATH, toolkits, conda, Python packages */
int find_in_cache(find_fn fn, void *ctx);
/** find_by_glob - files of a path or glob; -ENOENT when there is none */
int find_by_glob(const char *pattern, find_fn fn, void *ctx);

/** find_looks_like_cuda - cheap test by file name: worth an early look (libcudart*, libcuda.so*).
 * False says nothing: bundled and static copies have any name. */
bool find_looks_like_cuda(const char *path);

#endif
