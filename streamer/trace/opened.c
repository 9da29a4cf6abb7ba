/* Opening and reading files that may lie anywhere, not waiting for ever. */
#include "opened.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../log.h"

static void open_and_read(void *job)
{
	struct opened *opened = job;

	opened->fd = find_open(&opened->file);
	if (opened->fd < 0)
		return;
	opened->has_key = shown_key(opened->fd, "", AT_EMPTY_PATH, &opened->key) == 1;
	opened->err = find_image_read(opened->fd, &opened->image);
}

void opened_free(void *job)
{
	struct opened *opened = job;

	if (opened->fd >= 0)
		close(opened->fd);
	find_image_free(&opened->image);
	free(opened);
}

/* A thread of its own has the job until it returns. */
int opened_read(struct trace *trace, const struct find_file *file, struct opened **ret_opened)
{
	size_t size = strlen(file->path) + 1;
	struct opened *opened = calloc(1, sizeof(*opened) + size);
	int err;

	if (!opened)
		return -ENOMEM;
	opened->fd = -1;
	opened->file = *file;
	opened->file.path = memcpy(opened->path, file->path, size);
	err = patience_call(trace->patience, file->dev, open_and_read, opened_free, opened);
	if (err == -ETIMEDOUT)
		log_msg("%s: its file system does not answer: until it does nothing there is probed, "
			"calls may be missed",
			file->path);
	trace->incomplete |= err != 0;
	if (!err)
		*ret_opened = opened;
	return err;
}
