/*
 * The files that a launch has shown: a set of inodes that grows until the
 * launch ends. Safe to use from several threads.
 */
#ifndef CUDATAP_LAUNCH_SHOWN_H
#define CUDATAP_LAUNCH_SHOWN_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What makes a file the same one as before. Device and inode number are not
 * enough: compilers and JITs write, load and delete library after library,
 * and the file system gives the number away again at once.
 */
struct shown_key {
	uint64_t ino, size, mtime_ns, btime_ns; /* change time where there is no birth time */
	uint32_t dev_major, dev_minor;
};

struct shown;

/**
 * shown_key - the key of the file at a path
 * @dirfd, @path, @flags: as for statx(2)
 * Returns 1, 0 when it is no regular file, or a negative errno.
 */
int shown_key(int dirfd, const char *path, int flags, struct shown_key *ret_key);

struct shown *shown_new(void);
void shown_free(struct shown *shown);
bool shown_has(struct shown *shown, const struct shown_key *key);
/** shown_same - whether two keys are one file's */
bool shown_same(const struct shown_key *a, const struct shown_key *b);
/** shown_remove - forget a file: it is to be shown again. One that is not in the set is fine. */
void shown_remove(struct shown *shown, const struct shown_key *key);
/** shown_add - remember a file. Where memory is short the set forgets instead: files are shown twice. */
void shown_add(struct shown *shown, const struct shown_key *key);

#endif
