/* Old generations of a file: which there are, moving them on, removing them, tidying up. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"

static DIR *open_again(int dir)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = copy < 0 ? NULL : fdopendir(copy);

	if (!stream && copy >= 0)
		close(copy);
	return stream;
}

static int compare_times(const struct timespec *a, const struct timespec *b)
{
	if (a->tv_sec != b->tv_sec)
		return a->tv_sec < b->tv_sec ? -1 : 1;
	return (a->tv_nsec > b->tv_nsec) - (a->tv_nsec < b->tv_nsec);
}

/* The newest first: dated names by their last change, others and those of one date by their number. */
static int by_age(const void *one, const void *other)
{
	const struct file_old *a = one, *b = other;
	bool same = a->generation.base_len == b->generation.base_len &&
		    !memcmp(a->name, b->name, a->generation.base_len);
	int times = compare_times(&b->mtime, &a->mtime);

	if (!same && times)
		return times;
	if (same && a->generation.number != b->generation.number)
		return a->generation.number < b->generation.number ? -1 : 1;
	return strcmp(b->name, a->name);
}

/* Returns whether the directory entry is an old generation. */
static bool take(int dir, const char *pattern, const char *current, const char *name,
		 struct file_old *ret_old)
{
	struct stat st;

	if (!strcmp(name, current) || !file_name_parse(pattern, name, &ret_old->generation))
		return false;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
		return false;
	snprintf(ret_old->name, sizeof(ret_old->name), "%s", name);
	ret_old->mtime = st.st_mtim;
	ret_old->dev = st.st_dev;
	ret_old->ino = st.st_ino;
	return true;
}

ssize_t file_old_list(int dir, const char *pattern, const char *current, struct file_old **ret_list)
{
	DIR *stream = open_again(dir);
	struct file_old *list = NULL, *grown;
	const struct dirent *entry;
	size_t n = 0, room = 0;

	if (!stream)
		return -errno;
	while ((entry = readdir(stream))) {
		if (n == room) {
			room = room ? room * 2 : 16;
			grown = reallocarray(list, room, sizeof(*list));
			if (!grown) {
				free(list);
				closedir(stream);
				return -ENOMEM;
			}
			list = grown;
		}
		n += take(dir, pattern, current, entry->d_name, &list[n]);
	}
	closedir(stream);
	if (n)
		qsort(list, n, sizeof(*list), by_age);
	*ret_list = list;
	return (ssize_t)n;
}

/* Generations of the current name alone. */
static bool is_of(const struct file_old *old, const char *current)
{
	return old->generation.number && old->generation.base_len == strlen(current) &&
	       !memcmp(old->name, current, old->generation.base_len);
}

static int move_on(int dir, const struct file_old *old)
{
	char name[NAME_MAX + 32];

	if (snprintf(name, sizeof(name), "%.*s.%u%s", (int)old->generation.base_len, old->name,
		     old->generation.number + 1, file_suffixes[old->generation.compress]) > NAME_MAX)
		return -ENAMETOOLONG;
	return renameat(dir, old->name, dir, name) ? -errno : 0;
}

/* Make a number free: those that have it (one, or a file and its compressed twin) move on, after the next. */
static int make_free(int dir, const struct file_old *list, size_t n, const char *current, unsigned number)
{
	size_t found = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		found += is_of(&list[i], current) && list[i].generation.number == number;
	if (found)
		r = make_free(dir, list, n, current, number + 1);
	for (size_t i = 0; found && i < n && !r; i++)
		if (is_of(&list[i], current) && list[i].generation.number == number)
			r = move_on(dir, &list[i]);
	return r;
}

int file_old_shift(int dir, const char *pattern, const char *current)
{
	struct file_old *list = NULL;
	ssize_t n = file_old_list(dir, pattern, current, &list);
	int r;

	if (n < 0)
		return (int)n;
	r = make_free(dir, list, (size_t)n, current, 1);
	free(list);
	return r;
}

void file_old_prune(int dir, const char *pattern, const char *current, size_t keep)
{
	struct file_old *list = NULL;
	ssize_t n = file_old_list(dir, pattern, current, &list);

	for (ssize_t i = (ssize_t)keep; i < n; i++)
		unlinkat(dir, list[i].name, 0);
	if (n >= 0)
		free(list);
}

/* A plain generation whose compressed twin is complete: it has got the same time, and then its name. */
static void remove_twins(int dir, const struct file_old *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++) {
			const struct file_generation *a = &list[i].generation, *b = &list[j].generation;

			if (a->compress == FILE_PLAIN && b->compress != FILE_PLAIN &&
			    a->number == b->number && a->base_len == b->base_len &&
			    !memcmp(list[i].name, list[j].name, a->base_len) &&
			    !compare_times(&list[i].mtime, &list[j].mtime))
				unlinkat(dir, list[i].name, 0);
		}
}

void file_old_clean(int dir, const char *pattern, const char *current)
{
	DIR *stream = open_again(dir);
	const struct dirent *entry;
	struct file_old *list = NULL;
	ssize_t n;

	while (stream && (entry = readdir(stream)))
		if (file_name_is_temporary(pattern, entry->d_name))
			unlinkat(dir, entry->d_name, 0);
	if (stream)
		closedir(stream);
	n = file_old_list(dir, pattern, current, &list);
	if (n < 0 || !list)
		return;
	remove_twins(dir, list, (size_t)n);
	free(list);
}
