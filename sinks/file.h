/*
 * The sink `file` from inside. Its parts: names of generations (file_name.c),
 * opening and creating (file_open.c), what lies beside the current file
 * (file_old.c), beginning a new one (file_rotate.c), compression in a thread of
 * its own (file_pack.c, file_codec.c), and the sink itself (file.c).
 *
 * Generations. The current file always has the configured name. A rotation
 * renames it to NAME.1 after NAME.1 has become NAME.2 and so on; where the name
 * has a date in it and the date is another one, the old file just keeps its
 * name. The newest old generation stays as it is, older ones get .gz or .zst.
 * All state is in the directory: whatever a crash leaves behind is put in
 * order at the next start.
 */
#ifndef CUDATAP_FILE_H
#define CUDATAP_FILE_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

#include "out.h"

enum file_compress { FILE_PLAIN, FILE_GZIP, FILE_ZSTD, FILE_NCOMPRESS };
enum file_on_full { FILE_PAUSE, FILE_DROP, FILE_EXIT };
enum file_fsync { FILE_FSYNC_NONE, FILE_FSYNC_INTERVAL, FILE_FSYNC_ROTATE };

struct file_options {
	char *path;
	mode_t mode;
	char *owner; /* "user:group", or NULL */
	struct {
		uint64_t max_size;    /* bytes; 0: any size */
		uint64_t interval_ns; /* 0: never */
		int64_t keep;
		int compress; /* enum file_compress */
	} rotate;
	int on_disk_full; /* enum file_on_full */
	int fsync;        /* enum file_fsync */
	uint64_t fsync_interval_ns;
};

/* ---- file_name.c: the last part of the path, which may have a date in it ---- */

/** file_name_check - 0, or -EINVAL and one sentence */
int file_name_check(const char *pattern, char *error, size_t error_size);
bool file_name_is_dated(const char *pattern);
/** file_name_make - the name at a moment, in UTC */
void file_name_make(const char *pattern, time_t at, char ret_name[NAME_MAX + 1]);

extern const char *const file_suffixes[FILE_NCOMPRESS]; /* "", ".gz", ".zst" */

/* What the name of a generation says: BASE[.NUMBER][.gz|.zst] */
struct file_generation {
	size_t base_len;
	unsigned number; /* 0: none */
	enum file_compress compress;
};

/** file_name_parse - is it the name of a generation, old or current? */
bool file_name_parse(const char *pattern, const char *name, struct file_generation *ret_generation);
/** file_name_is_temporary - the name of one that never became complete */
bool file_name_is_temporary(const char *pattern, const char *name);
/** file_name_temporary - where @name is made before it is visible; -ENAMETOOLONG */
int file_name_temporary(const char *name, char ret_name[NAME_MAX + 1]);

/* ---- file_open.c ---- */

struct file_owner {
	uid_t uid; /* -1: as it comes */
	gid_t gid;
};

/** file_owner_parse - "user:group", "user", ":group"; numbers will do. 0, or -EINVAL and one sentence. */
int file_owner_parse(const char *text, struct file_owner *ret_owner, char *error, size_t error_size);

/* A file that nobody else sees yet. */
struct file_fresh {
	int dir, fd;                  /* dir is borrowed */
	char temporary[NAME_MAX + 1]; /* empty: it has no name at all (O_TMPFILE) */
};

/** file_make - with its mode and owner, to be shown as @name in @dir later. 0 or a negative errno. */
int file_make(int dir, const char *name, mode_t mode, const struct file_owner *owner,
	      struct file_fresh *ret_fresh);
/** file_show - give it its name. Its descriptor is the caller's then. -EEXIST: somebody was faster. */
int file_show(struct file_fresh *fresh, const char *name);
void file_discard(struct file_fresh *fresh);

/** file_open_or_make - what is there, else a new one. The descriptor or a negative errno. */
int file_open_or_make(const char *dir, const char *name, mode_t mode, const struct file_owner *owner);

/* ---- file_old.c: old generations ---- */

struct file_old {
	char name[NAME_MAX + 1];
	struct file_generation generation;
	struct timespec mtime;
	dev_t dev;
	ino_t ino;
};

/** file_old_list - old generations, the newest first; free() the list. Returns how many, or a negative errno.
 */
ssize_t file_old_list(int dir, const char *pattern, const char *current, struct file_old **ret_list);
/** file_old_shift - make NAME.1 free. 0 or a negative errno. */
int file_old_shift(int dir, const char *pattern, const char *current);
/** file_old_prune - all but the newest @keep go */
void file_old_prune(int dir, const char *pattern, const char *current, size_t keep);
/** file_old_clean - what a crash left half done */
void file_old_clean(int dir, const char *pattern, const char *current);

/* ---- file_codec.c, file_pack.c: compression ---- */

/** file_codec_run - everything from one descriptor to another
 * Returns 0, a negative errno, or -ECANCELED when @stop was set. */
int file_codec_run(enum file_compress how, int from, int to, const atomic_bool *stop);

/* Compresses old generations of one file, in a thread of low priority that is started when needed. */
struct packer;

/** packer_new - @dir, @pattern, @sink are borrowed. NULL when out of memory. */
struct packer *packer_new(const char *dir, const char *pattern, enum file_compress how, const char *sink);
/** packer_kick - there may be something to do; @current is the file that is written now */
void packer_kick(struct packer *packer, const char *current);
/** packer_lock - names of generations stay until packer_unlock(). NULL is fine for both. */
void packer_lock(struct packer *packer);
void packer_unlock(struct packer *packer);
/** packer_free - waits until all is compressed or the deadline has passed: the rest is done at the next
 * start. NULL is fine. */
void packer_free(struct packer *packer, uint64_t deadline_ns);

/* ---- file_rotate.c, file.c ---- */

struct file {
	struct out out;
	const struct file_options *options;
	const char *sink; /* its name */
	char *dir;        /* of the path */
	const char *pattern;
	char name[NAME_MAX + 1]; /* current */
	struct file_owner owner;
	struct packer *packer; /* NULL: nothing is compressed */
	dev_t dev;
	ino_t ino;
	int64_t period;                                  /* number of the interval that the file belongs to */
	bool missing;                                    /* its name is gone since the last look */
	bool dirty;                                      /* written to since the last fsync */
	uint64_t retry_ns;                               /* no rotation before, after one that failed */
	uint64_t sync_ns;                                /* next fsync */
	uint64_t full_until_ns, full_pause_ns, quiet_ns; /* on_disk_full: drop */
	bool told_rotate, told_open, told_full, told_sync;
};

/** file_begin - open or make the file of this moment and write there from now on; the old one stays open when
 * that fails. 0 or a negative errno. */
int file_begin(struct file *file);
/** file_rotate - begin a new generation, likewise */
int file_rotate(struct file *file);
/** file_rotate_if_due - before @more bytes are written (0: by time alone); says so when it fails */
void file_rotate_if_due(struct file *file, uint64_t more);
/** file_follow - has someone else moved or removed the file? Then begin a new one. */
void file_follow(struct file *file);
void file_sync(struct file *file);

#endif
