/* All CUDA libraries of a host; see list.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "list.h"

#define NO_LIBRARY SIZE_MAX /* number of a seen file that is not in the list */

static int add_pid(struct find_library *library, pid_t pid)
{
	pid_t *grown;

	if (pid == 0 || (library->npids && library->pids[library->npids - 1] == pid))
		return 0;
	/* room grows at powers of two */
	if ((library->npids & (library->npids - 1)) == 0) {
		grown = reallocarray(library->pids, library->npids ? 2 * library->npids : 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		library->pids = grown;
	}
	library->pids[library->npids++] = pid;
	return 0;
}

/* A new library at the list's end, its path copied; it counts only once list->n is raised. */
static struct find_library *new_library(struct find_list *list, const struct find_file *file)
{
	struct find_library *library;

	if (list->n == list->size) {
		size_t size = list->size ? 2 * list->size : 16;

		library = reallocarray(list->libraries, size, sizeof(*library));
		if (!library)
			return NULL;
		list->libraries = library;
		list->size = size;
	}
	library = &list->libraries[list->n];
	*library = (struct find_library){.file = *file};
	library->file.path = strdup(file->path);
	return library->file.path ? library : NULL;
}

/* Reads a candidate. @file gets the device and inode that the open file has: on overlay
 * filesystems and btrfs maps may show others. */
static int read_file(struct find_file *file, struct find_image *image)
{
	int fd = find_open(file), err;
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) == 0) {
		file->dev = st.st_dev;
		file->ino = st.st_ino;
	}
	err = find_image_read(fd, image);
	close(fd);
	return err;
}

/* It could not be opened or read: the next process that maps it may offer a way. */
static bool may_pass(int error)
{
	return error < 0 && (error < FIND_NOT_ELF || error > FIND_BROKEN);
}

static int note_pid(struct find_list *list, size_t number, pid_t pid)
{
	return number == NO_LIBRARY ? 0 : add_pid(&list->libraries[number], pid);
}

/* Puts what was read into the library of that number, or into a new one. */
static int keep(struct find_list *list, const struct find_file *file, int error, struct find_image *image,
		size_t *number)
{
	struct find_library *library;

	if (*number == NO_LIBRARY) {
		library = new_library(list, file);
		if (!library)
			return -ENOMEM;
		*number = list->n++;
	} else {
		library = &list->libraries[*number];
		if (!error) {
			const char *path = library->file.path;

			library->file = *file;
			library->file.path = path;
		}
	}
	library->error = error;
	library->image = *image;
	*image = (struct find_image){0};
	return 0;
}

static int add(struct find_list *list, const struct find_file *file, bool named)
{
	const struct seen_file *known = seen_find(&list->seen, file->dev, file->ino);
	size_t number = known ? known->number : NO_LIBRARY;
	struct find_file opened = *file;
	struct find_image image = {0};
	int error, err = 0;

	if (known && (number == NO_LIBRARY ? !named : !may_pass(list->libraries[number].error)))
		return note_pid(list, number, file->pid);
	error = read_file(&opened, &image);
	list->nread++;
	known = seen_find(&list->seen, opened.dev, opened.ino);
	if (known && known->number != NO_LIBRARY && !may_pass(list->libraries[known->number].error))
		number = known->number; /* there already, under the other device */
	else if (!error || named || find_looks_like_cuda(file->path))
		err = keep(list, file, error, &image, &number);
	find_image_free(&image);
	if (!err && (number != NO_LIBRARY || !may_pass(error))) {
		err = seen_put(&list->seen, file->dev, file->ino, number);
		if (err >= 0)
			err = seen_put(&list->seen, opened.dev, opened.ino, number);
	}
	return err < 0 ? err : note_pid(list, number, file->pid);
}

int find_list_add(void *list, const struct find_file *file)
{
	return add(list, file, false);
}

int find_list_add_named(void *list, const struct find_file *file)
{
	return add(list, file, true);
}

int find_host(struct find_list *list)
{
	int err = find_in_processes(find_list_add, list);

	return err ? err : find_in_cache(find_list_add, list);
}

void find_list_free(struct find_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		struct find_library *library = &list->libraries[i];

		free((char *)library->file.path);
		free(library->pids);
		find_image_free(&library->image);
	}
	free(list->libraries);
	seen_free(&list->seen);
	*list = (struct find_list){0};
}
