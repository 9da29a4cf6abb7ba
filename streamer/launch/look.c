/*
 * From a notification to files; see look.h.
 *
 * A thread is named by its own id, not its process's: descriptors, root and
 * working directory can be a thread's own, and vfork children borrow.
 */
#include "look.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "filter.h"
#include "mappings.h"

enum {
	LINK_SIZE = 96,    /* "/proc/PID/map_files/START-END" and shorter */
	SCRIPT_LINE = 256, /* what the kernel reads of a script (BINPRM_BUF_SIZE) */
	SCRIPT_DEPTH = 5,  /* interpreters that are scripts themselves (exec_binprm()) */
};

#define OLD_PATH_SIZE (PATH_MAX + LINK_SIZE)

/* ---- mappings ---- */

struct mapped {
	pid_t tid;
	look_fn fn;
	void *ctx;
};

static int look_at_mapping(void *ctx, const struct mapping *mapping)
{
	struct mapped *m = ctx;
	char link[OLD_PATH_SIZE];
	struct look_file file = {.tid = m->tid, .link = link, .path = mapping->path, .fd = -1};
	struct stat st;

	snprintf(link, sizeof(link), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)m->tid, mapping->start,
		 mapping->end);
	/* without CAP_CHECKPOINT_RESTORE only the name is left */
	if (stat(link, &st) && errno == EPERM)
		snprintf(link, sizeof(link), "/proc/%d/root%s", (int)m->tid, mapping->path);
	return m->fn(m->ctx, &file);
}

int look_at_maps(pid_t tid, look_fn fn, void *ctx)
{
	struct mapped m = {tid, fn, ctx};

	return mapping_each(tid, 0, UINT64_MAX, MAPPING_EXEC, look_at_mapping, &m);
}

/* A file mapped without PROT_EXEC whose mapping is about to get it. Anonymous memory, a JIT's, has none. */
static int look_at_range(pid_t tid, uint64_t start, uint64_t size, look_fn fn, void *ctx)
{
	struct mapped m = {tid, fn, ctx};

	return mapping_each(tid, start, start + size, 0, look_at_mapping, &m);
}

/* The program that has just been loaded and its interpreter, ld.so. */
static int look_at_start(pid_t tid, look_fn fn, void *ctx)
{
	char link[LINK_SIZE];
	struct look_file file = {.tid = tid, .link = link, .fd = -1};
	int result;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)tid);
	result = fn(ctx, &file);
	return result ? result : look_at_maps(tid, fn, ctx);
}

static int look_at_fd(pid_t tid, int fd, look_fn fn, void *ctx)
{
	char link[LINK_SIZE];
	struct look_file file = {.tid = tid, .link = link, .fd = fd};

	if (fd < 0)
		return 0; /* the call will fail */
	snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)tid, fd);
	return fn(ctx, &file);
}

/* ---- exec ---- */

/* A NUL-terminated string of the held thread, page by page: the next page may not be there. */
static int read_string(pid_t tid, uint64_t addr, char *text, size_t size)
{
	size_t have = 0, page = sysconf(_SC_PAGESIZE);

	while (have < size) {
		size_t want = page - (addr + have) % page;
		struct iovec here = {text + have, want < size - have ? want : size - have};
		struct iovec there = {(void *)(uintptr_t)(addr + have), here.iov_len};
		ssize_t n = process_vm_readv(tid, &here, 1, &there, 1, 0);

		if (n <= 0)
			return n < 0 ? -errno : -EFAULT;
		if (memchr(text + have, '\0', n))
			return 0;
		have += n;
	}
	return -ENAMETOOLONG;
}

/* Paths that mean something else when we resolve them: the process's own procfs entries. */
static const struct {
	const char *prefix, *instead;
} own_paths[] = {
	{"/proc/self/", ""},
	{"/proc/thread-self/", ""},
	{"/dev/fd/", "fd/"},
};

/*
 * Opens what @path means to the thread, as O_PATH. Absolute symbolic links on
 * the way are resolved in the thread's root where the path is absolute; a
 * relative path through such a link, in a process with another root, is
 * resolved in ours. What really runs is seen at start-up in any case.
 */
static int open_as(pid_t tid, int dirfd, const char *path)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	char base[OLD_PATH_SIZE];
	int dir, fd;

	for (size_t i = 0; i < sizeof(own_paths) / sizeof(own_paths[0]); i++) {
		size_t n = strlen(own_paths[i].prefix);

		if (strncmp(path, own_paths[i].prefix, n) == 0) {
			snprintf(base, sizeof(base), "/proc/%d/%s%s", (int)tid, own_paths[i].instead,
				 path + n);
			fd = open(base, O_PATH | O_CLOEXEC);
			return fd < 0 ? -errno : fd;
		}
	}
	if (path[0] == '/')
		snprintf(base, sizeof(base), "/proc/%d/root", (int)tid);
	else if (dirfd == AT_FDCWD)
		snprintf(base, sizeof(base), "/proc/%d/cwd", (int)tid);
	else
		snprintf(base, sizeof(base), "/proc/%d/fd/%d", (int)tid, dirfd);
	dir = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	if (path[0] == '/')
		fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
	else
		fd = openat(dir, path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	close(dir);
	return fd;
}

/* The interpreter of a script, in @line; false when the file is none. */
static bool read_interpreter(const char *link, char line[SCRIPT_LINE])
{
	int fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *start;
	ssize_t n;

	if (fd < 0)
		return false;
	n = pread(fd, line, SCRIPT_LINE - 1, 0);
	close(fd);
	if (n < 3 || line[0] != '#' || line[1] != '!')
		return false;
	line[n] = '\0';
	start = line + 2 + strspn(line + 2, " \t");
	start[strcspn(start, " \t\n")] = '\0';
	memmove(line, start, strlen(start) + 1);
	return line[0] != '\0';
}

/* A path that exec is given: the file, or the interpreter that runs instead of a script. */
static int look_at_program(pid_t tid, int dirfd, const char *path, unsigned depth, look_fn fn, void *ctx)
{
	char link[LINK_SIZE], interpreter[SCRIPT_LINE];
	struct look_file file = {.tid = tid, .link = link, .path = path, .fd = -1};
	int fd = open_as(tid, dirfd, path), result = 0;
	struct stat st;

	if (fd < 0)
		return 0; /* a PATH search tries many */
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		if (!read_interpreter(link, interpreter))
			result = fn(ctx, &file);
		else if (depth < SCRIPT_DEPTH)
			result = look_at_program(tid, AT_FDCWD, interpreter, depth + 1, fn, ctx);
	}
	close(fd);
	return result;
}

/* execveat(fd, "", ..., AT_EMPTY_PATH) runs the descriptor itself. */
static int look_at_exec(pid_t tid, int dirfd, uint64_t addr, int flags, look_fn fn, void *ctx)
{
	char path[PATH_MAX], own[LINK_SIZE];
	int result = read_string(tid, addr, path, sizeof(path));

	if (result)
		return result;
	if (path[0] || !(flags & AT_EMPTY_PATH))
		return look_at_program(tid, dirfd, path, 0, fn, ctx);
	snprintf(own, sizeof(own), "/proc/self/fd/%d", dirfd);
	return look_at_program(tid, AT_FDCWD, own, 0, fn, ctx);
}

int look_at_call(const struct seccomp_notif *notif, look_fn fn, void *ctx)
{
	const __u64 *arg = notif->data.args;
	pid_t tid = notif->pid;

	switch (launch_filter_call(&notif->data)) {
	case HELD_MMAP:
		return look_at_fd(tid, (int)arg[4], fn, ctx);
	case HELD_MPROTECT:
		return look_at_range(tid, arg[0], arg[1], fn, ctx);
	case HELD_EXECVE:
		return look_at_exec(tid, AT_FDCWD, arg[0], 0, fn, ctx);
	case HELD_EXECVEAT:
		return look_at_exec(tid, (int)arg[0], arg[1], (int)arg[4], fn, ctx);
	case HELD_START:
		return look_at_start(tid, fn, ctx);
	case HELD_NOTHING:
		break;
	}
	return 0;
}
