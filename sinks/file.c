/* The sink `file`: whole lines appended to a file. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kinds.h"
#include "out.h"

struct file_options {
	char *path;
	mode_t mode;
};

static const struct key file_keys[] = {
	{
		.name = "path",
		.type = KEY_STRING,
		.offset = offsetof(struct file_options, path),
		.required = true,
		.about = "file that lines are appended to; created if it does not exist, its directory must",
	},
	{
		.name = "mode",
		.type = KEY_MODE,
		.offset = offsetof(struct file_options, mode),
		.fallback = "0640",
		.about = "permissions of a file that is created, whatever the umask",
	},
	{0},
};

/* "word:rest" is some other kind's URL, mistyped or not built in; ./word:rest is a path. */
static bool looks_like_url(const char *url)
{
	size_t n = strspn(url, "abcdefghijklmnopqrstuvwxyz0123456789+");

	return n && url[n] == ':';
}

static int file_from_url(const char *url, void *options, char *error, size_t error_size)
{
	struct file_options *o = options;
	bool named = !strncmp(url, "file:", 5);
	const char *path = named ? url + 5 : url;
	char *copy;

	if (!named && looks_like_url(url))
		return -ENOENT;
	if (!*path) {
		snprintf(error, error_size, "a file needs a path: `file:PATH` or just `PATH`");
		return -EINVAL;
	}
	copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	free(o->path);
	o->path = copy;
	return 0;
}

static int file_check(const void *options, char *error, size_t error_size)
{
	const struct file_options *o = options;

	if (o->path && *o->path)
		return 0;
	snprintf(error, error_size, "path is empty: name a file");
	return -EINVAL;
}

/* What to do about it. */
static const struct {
	int error;
	const char *advice;
} file_advice[] = {
	{ENOENT, "create its directory first"},
	{ENOTDIR, "a part of the path is not a directory"},
	{EISDIR, "name a file in that directory"},
	{EACCES, "choose a path that this user may write, or change its permissions"},
	{EPERM, "choose a path that this user may write, or change its permissions"},
	{EROFS, "choose a path on a writable file system"},
	{ENXIO, "a FIFO needs its reader first, a socket cannot be opened"},
	{ELOOP, "the path is a loop of symbolic links"},
	{ENOSPC, "free some space"},
	{EDQUOT, "free some space or raise the quota"},
};

static void file_explain(const struct sink *sink, const char *path, int error, char *text, size_t size)
{
	const char *advice = NULL;

	for (size_t i = 0; i < sizeof(file_advice) / sizeof(file_advice[0]); i++)
		if (file_advice[i].error == error)
			advice = file_advice[i].advice;
	snprintf(text, size, "sink %s: cannot open %s for appending: %s%s%s", sink->name, path,
		 strerror(error), advice ? "; " : "", advice ? advice : "");
}

static int file_open_path(const struct file_options *o, struct out *out)
{
	const int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	int fd = open(o->path, flags), r;
	bool create = fd < 0 && errno == ENOENT;

	if (create)
		fd = open(o->path, flags | O_CREAT, o->mode);
	if (fd < 0)
		return -errno;
	/* The umask belongs to the whole process and cannot be set aside in a thread. */
	if (create && fchmod(fd, o->mode) && errno != EPERM && errno != EINVAL && errno != EOPNOTSUPP) {
		r = -errno;
		close(fd);
		return r;
	}
	r = out_init(out, fd);
	if (r)
		close(fd);
	return r;
}

static int file_open(struct sink *sink, char *error, size_t error_size)
{
	const struct file_options *o = sink->options;
	struct out *out = malloc(sizeof(*out));
	int r = out ? file_open_path(o, out) : -ENOMEM;

	if (r) {
		file_explain(sink, o->path, -r, error, error_size);
		free(out);
		return r;
	}
	sink->priv = out;
	sink->target = o->path;
	sink->idle_fd = out_watch(out);
	return 0;
}

static struct sink_result file_write(struct sink *sink, const struct line *lines, size_t n)
{
	return out_write(sink->priv, sink, lines, n);
}

static struct sink_result file_tick(struct sink *sink)
{
	return out_check(sink->priv);
}

static int file_reopen(struct sink *sink)
{
	struct out *out = sink->priv, fresh;
	int r = file_open_path(sink->options, &fresh);

	if (r)
		return r;
	out_close(out);
	*out = fresh;
	sink->idle_fd = out_watch(out);
	return 0;
}

static void file_close(struct sink *sink, uint64_t deadline_ns)
{
	out_close(sink->priv);
	free(sink->priv);
}

const struct sink_ops sink_file = {
	.type = "file",
	.about = "whole lines appended to a file",
	.keys = file_keys,
	.options_size = sizeof(struct file_options),
	.batch_bytes = 256 << 10,
	.check = file_check,
	.from_url = file_from_url,
	.open = file_open,
	.write = file_write,
	.reopen = file_reopen,
	.tick = file_tick,
	.close = file_close,
};
