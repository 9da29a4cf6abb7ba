/* Walking a process's file mappings; see mappings.h. The text is described in proc_pid_maps(5). */
#include "mappings.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* include/uapi/linux/fs.h of 6.11; older systems' headers do not have it. */
struct procmap_query_v1 {
	uint64_t size, query_flags, query_addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};

#define QUERY_MAPPING     _IOWR('f', 17, struct procmap_query_v1)
#define QUERY_EXECUTABLE  0x04
#define QUERY_SHARED      0x08
#define QUERY_OR_NEXT     0x10
#define QUERY_FILE_BACKED 0x20

/* Opens the maps. Without stdio: the watchdog uses this after a fork of many threads. */
static int open_maps(pid_t pid)
{
	char path[32] = "/proc/self/maps";
	int fd;

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* -ENOTTY when the kernel does not know the query. */
static int each_by_query(int fd, uint64_t start, uint64_t end, unsigned want, mapping_fn fn, void *ctx)
{
	char path[PATH_MAX + 16];
	int result = 0;

	while (!result && start < end) {
		struct procmap_query_v1 query = {
			.size = sizeof(query),
			.query_flags = QUERY_OR_NEXT | QUERY_FILE_BACKED |
				       (want & MAPPING_EXEC ? QUERY_EXECUTABLE : 0) |
				       (want & MAPPING_SHARED ? QUERY_SHARED : 0),
			.query_addr = start,
			.vma_name_size = sizeof(path),
			.vma_name_addr = (uintptr_t)path,
		};

		path[0] = '\0';
		if (ioctl(fd, QUERY_MAPPING, &query))
			return errno == ENOENT ? 0 : -errno;
		if (query.vma_start >= end)
			return 0;
		result = fn(ctx, &(struct mapping){query.vma_start, query.vma_end, path});
		start = query.vma_end;
	}
	return result;
}

static uint64_t take_hex(const char **text)
{
	uint64_t value = 0;

	for (;; (*text)++) {
		char c = **text;
		unsigned digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;

		if (digit == 16)
			return value;
		value = value << 4 | digit;
	}
}

static const char *skip_field(const char *text)
{
	text += strcspn(text, " ");
	return text + strspn(text, " ");
}

/* "start-end perms offset dev inode   path" */
static bool parse_line(const char *text, unsigned want, struct mapping *mapping)
{
	const char *perms, *inode;

	mapping->start = take_hex(&text);
	if (*text++ != '-')
		return false;
	mapping->end = take_hex(&text);
	perms = skip_field(text);
	inode = skip_field(skip_field(skip_field(perms)));
	mapping->path = skip_field(inode);
	if (inode[0] == '0' || !inode[0])
		return false;
	if (want & MAPPING_EXEC && perms[2] != 'x')
		return false;
	return !(want & MAPPING_SHARED) || perms[3] == 's';
}

static int each_by_text(int fd, uint64_t start, uint64_t end, unsigned want, mapping_fn fn, void *ctx)
{
	char text[2 * PATH_MAX];
	struct mapping mapping;
	size_t have = 0;
	int result = 0;
	ssize_t n;

	while ((n = read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
		char *line = text, *newline;

		have += n;
		text[have] = '\0';
		while ((newline = strchr(line, '\n'))) {
			*newline = '\0';
			if (parse_line(line, want, &mapping) && mapping.end > start) {
				if (mapping.start >= end)
					return 0;
				result = fn(ctx, &mapping);
				if (result)
					return result;
			}
			line = newline + 1;
		}
		have -= line - text;
		memmove(text, line, have);
		if (have == sizeof(text) - 1)
			return -ENAMETOOLONG;
	}
	return n < 0 ? -errno : 0;
}

int mapping_each(pid_t pid, uint64_t start, uint64_t end, unsigned want, mapping_fn fn, void *ctx)
{
	int fd = open_maps(pid), result;

	if (fd < 0)
		return fd;
	result = each_by_query(fd, start, end, want, fn, ctx);
	if (result == -ENOTTY)
		result = each_by_text(fd, start, end, want, fn, ctx);
	close(fd);
	return result;
}

int mapping_each_text(pid_t pid, uint64_t start, uint64_t end, unsigned want, mapping_fn fn, void *ctx)
{
	int fd = open_maps(pid), result;

	if (fd < 0)
		return fd;
	result = each_by_text(fd, start, end, want, fn, ctx);
	close(fd);
	return result;
}
