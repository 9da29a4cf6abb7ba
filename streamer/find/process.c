/* Files that processes map executable, and opening them; see find.h. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "living.h"
#include "maps.h"
#include "seen.h"

enum { PATH_SIZE = 4096 + 64 }; /* a path and what stands before it */

/* ---- maps ---- */

/* A file may really be called "x (deleted)": then it is there under that name. */
static void undo_deleted(pid_t tid, struct find_file *file, char *path)
{
	char name[PATH_SIZE];
	struct stat st;

	if (snprintf(name, sizeof(name), "/proc/%d/root%s (deleted)", (int)tid, path) >= (int)sizeof(name))
		return;
	if (stat(name, &st) == 0 && st.st_ino == file->ino && st.st_dev == file->dev) {
		path[strlen(path)] = ' '; /* the parser put a NUL over the blank */
		file->deleted = false;
	}
}

/* Walks what /proc shows under @tid, a thread of @file's process; *ret_nlines: 0 for one that has ended. */
static int walk_thread(pid_t tid, struct find_file *file, size_t *ret_nlines, find_fn fn, void *ctx,
		       bool *ret_stop)
{
	char path[64], *line = NULL;
	size_t size = 0;
	int result = 0;
	FILE *maps;

	*ret_nlines = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)tid);
	maps = fopen(path, "re");
	if (!maps)
		return errno == ENOENT ? -ESRCH : -errno;
	errno = 0;
	while (getline(&line, &size, maps) > 0) {
		++*ret_nlines;
		if (!maps_parse_line(line, file))
			continue;
		if (file->deleted)
			undo_deleted(tid, file, (char *)file->path);
		result = fn(ctx, file);
		*ret_stop = result != 0;
		if (result)
			break;
	}
	if (!result && ferror(maps))
		result = errno ? -errno : -EIO;
	fclose(maps);
	free(line);
	return result;
}

/* Walks the maps; *ret_stop says that the result is @fn's. */
static int walk_maps(pid_t pid, find_fn fn, void *ctx, bool *ret_stop)
{
	struct find_file file = {.pid = pid};
	size_t nlines = 0;
	int result;
	pid_t tid;

	*ret_stop = false;
	if (pid <= 0)
		return -ESRCH;
	result = walk_thread(pid, &file, &nlines, fn, ctx, ret_stop);
	if (nlines || (result && result != -ESRCH))
		return result;
	tid = living_thread(pid);
	if (!tid)
		return -ESRCH;
	return tid == pid ? result : walk_thread(tid, &file, &nlines, fn, ctx, ret_stop);
}

struct distinct {
	struct seen seen;
	find_fn fn;
	void *ctx;
};

static int pass_distinct(void *ctx, const struct find_file *file)
{
	struct distinct *d = ctx;
	int is_new = seen_put(&d->seen, file->dev, file->ino, 0);

	return is_new > 0 ? d->fn(d->ctx, file) : is_new;
}

static int walk_distinct(pid_t pid, find_fn fn, void *ctx, bool *ret_stop)
{
	struct distinct d = {.fn = fn, .ctx = ctx};
	int result = walk_maps(pid, pass_distinct, &d, ret_stop);

	seen_free(&d.seen);
	return result;
}

int find_in_process(pid_t pid, find_fn fn, void *ctx)
{
	bool stop;

	return walk_distinct(pid, fn, ctx, &stop);
}

int find_proc(void)
{
	char self[32] = "";

	if (readlink("/proc/self", self, sizeof(self) - 1) < 0)
		return -ENOENT;
	return atoi(self) == getpid() ? 0 : -EXDEV;
}

int find_in_processes(find_fn fn, void *ctx)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	bool stop = false;
	int result = 0;

	if (!proc)
		return -errno;
	while (!stop && (entry = readdir(proc))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		/* it may have ended or be another user's: both are no reason to stop */
		result = walk_distinct((pid_t)atoi(entry->d_name), fn, ctx, &stop);
	}
	closedir(proc);
	return stop ? result : 0;
}

struct place {
	uint64_t address;
	find_fn fn;
	void *ctx;
	int result;
};

static int pass_place(void *ctx, const struct find_file *file)
{
	struct place *place = ctx;

	if (place->address < file->map_start || place->address >= file->map_end)
		return 0;
	place->result = place->fn(place->ctx, file);
	return 1;
}

int find_mapping(pid_t pid, uint64_t address, find_fn fn, void *ctx)
{
	struct place place = {.address = address, .fn = fn, .ctx = ctx, .result = -ENOENT};
	bool stop;
	int err = walk_maps(pid, pass_place, &place, &stop);

	return stop || !err ? place.result : err;
}

/* ---- opening ---- */

static bool is_file(int fd, const struct find_file *file)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_ino == file->ino && st.st_dev == file->dev;
}

/* Only regular files: opening a device that a process maps may do something to it, and a fifo would
 * hang us. */
static int open_regular(const char *path)
{
	struct stat st;
	int fd;

	if (stat(path, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

static int open_range_of(pid_t tid, const struct find_file *file)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)tid, file->map_start,
		 file->map_end);
	return open_regular(path);
}

static int open_range(const struct find_file *file)
{
	int fd = open_range_of(file->pid, file);
	pid_t other = living_may_help(fd) ? living_other(file->pid) : 0;

	return other ? open_range_of(other, file) : fd;
}

static int open_again(void *ctx, const struct find_file *now)
{
	const struct find_file *then = ctx;

	return now->ino == then->ino || !strcmp(now->path, then->path) ? open_range(now) : -ESTALE;
}

/*
 * Through the mapping itself. Overlay filesystems show one file under several
 * devices, and inodes too (fstat, maps, perf's records), and ld.so maps a
 * library as a whole before it maps its other segments over the end of that.
 * So where range or file do not fit, what is mapped at its start now is taken.
 */
static int open_mapping(const struct find_file *file)
{
	int fd = open_range(file);

	if (fd >= 0 && is_file(fd, file))
		return fd;
	if (fd >= 0)
		close(fd);
	else if (fd != -ENOENT)
		return fd;
	return find_mapping(file->pid, file->map_start, open_again, (void *)file);
}

/* By name under @root; must still be the file that was mapped. */
static int open_name(const char *root, const struct find_file *file)
{
	char path[PATH_SIZE];
	int fd;

	if (snprintf(path, sizeof(path), "%s%s", root, file->path) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open_regular(path);
	if (fd < 0)
		return fd;
	if (file->pid == 0 || is_file(fd, file))
		return fd;
	close(fd);
	return -ESTALE;
}

void find_name(int fd, pid_t pid, const char *found, char *name, size_t size)
{
	static const char deleted[] = " (deleted)";
	const size_t mark = sizeof(deleted) - 1;
	struct find_file file = {.pid = pid};
	char link[32];
	size_t len, n = strlen(found);
	struct stat st = {0};
	ssize_t got;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	got = readlink(link, name, size - 1);
	if (got <= 0 || fstat(fd, &st)) {
		snprintf(name, size, "%s", found);
		return;
	}
	name[got] = 0;
	len = (size_t)got;
	if (len > mark && !strcmp(name + len - mark, deleted)) {
		file.dev = st.st_dev;
		file.ino = st.st_ino;
		len -= mark;
		name[len] = 0;
		undo_deleted(living_thread(pid), &file, name);
		len = strlen(name);
	}
	if (*found == '/' && len > n && !strcmp(name + len - n, found))
		memmove(name, found, n + 1);
}

int find_open(const struct find_file *file)
{
	char root[64];
	int fd, first;

	if (file->pid == 0)
		return open_name("", file);
	first = open_mapping(file);
	if (first >= 0)
		return first;
	snprintf(root, sizeof(root), "/proc/%d/root", (int)living_thread(file->pid));
	fd = open_name(root, file);
	if (fd >= 0)
		return fd;
	fd = open_name("", file);
	/* the mapping's error says most, unless only the right to read it was missing */
	return fd >= 0 || first == -EPERM || first == -EACCES ? fd : first;
}
