/* The sink `file`: whole lines appended to a file that is rotated at line borders. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../streamer/log.h"
#include "file.h"
#include "kinds.h"
#include "worker.h"

#define SECOND       1000000000ull
#define FILE_TICK_NS SECOND            /* how often the name, the clock and the disk are looked at */
#define PAUSE_MIN_NS (50 * 1000000ull) /* on_disk_full: drop: between two tries, doubling ... */
#define QUIET_NS     (10 * SECOND)     /* between two messages about it */
#define PAUSE_MAX_NS SECOND            /* ... up to this */

/* ---- options ---- */

#define AT(member) offsetof(struct file_options, member)

static const char *const compressions[] = {
	[FILE_PLAIN] = "none", [FILE_GZIP] = "gzip", [FILE_ZSTD] = "zstd", NULL};
static const char *const on_full[] = {
	[FILE_PAUSE] = "pause", [FILE_DROP] = "drop", [FILE_EXIT] = "exit", NULL};
static const char *const fsyncs[] = {
	[FILE_FSYNC_NONE] = "none", [FILE_FSYNC_INTERVAL] = "interval", [FILE_FSYNC_ROTATE] = "rotate", NULL};

static const struct key rotate_keys[] = {
	{.name = "max_size",
	 .type = KEY_SIZE,
	 .offset = AT(rotate.max_size),
	 .fallback = "0",
	 .about = "begin a new file before this one gets larger; 0 is any size"},
	{.name = "interval",
	 .type = KEY_DURATION,
	 .offset = AT(rotate.interval_ns),
	 .fallback = "0",
	 .max = 366ll * 86400 * 1000000000,
	 .about = "begin a new file so often, aligned to the clock in UTC: `1h` at every full hour, `1d` at "
		  "midnight; 0 is never"},
	{.name = "keep",
	 .type = KEY_INT,
	 .offset = AT(rotate.keep),
	 .fallback = "7",
	 .min = 1,
	 .max = 10000,
	 .about = "old files that are kept beside the current one; the oldest goes first"},
	{.name = "compress",
	 .type = KEY_ENUM,
	 .offset = AT(rotate.compress),
	 .fallback = "none",
	 .words = compressions,
	 .about = "compress old files but the newest"},
	{0},
};

static const struct key file_keys[] = {
	{.name = "path",
	 .type = KEY_STRING,
	 .offset = AT(path),
	 .required = true,
	 .about = "file that lines are appended to; created if it does not exist, its directory must. Its "
		  "name "
		  "may have a date in it, as strftime(3) writes it, in UTC: `cuda-%Y%m%d.jsonl`; a plain `%` "
		  "is "
		  "written `%%`"},
	{.name = "mode",
	 .type = KEY_MODE,
	 .offset = AT(mode),
	 .fallback = "0640",
	 .about = "permissions of a file that is created, whatever the umask"},
	{.name = "owner",
	 .type = KEY_STRING,
	 .offset = AT(owner),
	 .about = "owner of a file that is created: `user:group`, `user` or `:group`, by name or number"},
	{.name = "rotate", .type = KEY_MAP, .children = rotate_keys, .about = "when a new file begins"},
	{.name = "on_disk_full",
	 .type = KEY_ENUM,
	 .offset = AT(on_disk_full),
	 .fallback = "pause",
	 .words = on_full,
	 .about = "lines wait in the queue (`pause`), are lost and counted at once (`drop`) until there is "
		  "room "
		  "again, or cudatap ends (`exit`)"},
	{.name = "fsync",
	 .type = KEY_ENUM,
	 .offset = AT(fsync),
	 .fallback = "none",
	 .words = fsyncs,
	 .about = "when lines are brought to the disk itself: when the kernel sees fit, each "
		  "`fsync_interval`, "
		  "or when a file is complete; `interval` does that, too"},
	{.name = "fsync_interval",
	 .type = KEY_DURATION,
	 .offset = AT(fsync_interval_ns),
	 .fallback = "1s",
	 .min = (int64_t)SECOND,
	 .max = 3600ll * (int64_t)SECOND,
	 .about = "for `fsync: interval`"},
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

/* The last part of the path, and what comes before it. */
static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int file_check(const void *options, char *error, size_t error_size)
{
	const struct file_options *o = options;
	struct file_owner owner;
	const char *percent;

	if (!o->path || !*o->path) {
		snprintf(error, error_size, "path is empty: name a file");
		return -EINVAL;
	}
	if (o->rotate.interval_ns && o->rotate.interval_ns < SECOND) {
		snprintf(error, error_size, "rotate.interval is at least 1s");
		return -EINVAL;
	}
	percent = strchr(o->path, '%');
	if (percent && percent < last_part(o->path)) {
		snprintf(error, error_size,
			 "path has a %% in a directory: dates go into the file's name alone");
		return -EINVAL;
	}
	if (file_name_check(last_part(o->path), error, error_size))
		return -EINVAL;
	return o->owner ? file_owner_parse(o->owner, &owner, error, error_size) : 0;
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

static void explain(const struct sink *sink, const char *path, int error, char *text, size_t size)
{
	const char *advice = NULL;

	for (size_t i = 0; i < sizeof(file_advice) / sizeof(file_advice[0]); i++)
		if (file_advice[i].error == error)
			advice = file_advice[i].advice;
	snprintf(text, size, "sink %s: cannot open %s for appending: %s%s%s", sink->name, path,
		 strerror(error), advice ? "; " : "", advice ? advice : "");
}

/* ---- life ---- */

static void file_free(struct file *file, uint64_t deadline_ns)
{
	if (!file)
		return;
	if (file->options->fsync != FILE_FSYNC_NONE)
		file_sync(file);
	out_close(&file->out);
	packer_free(file->packer, deadline_ns);
	free(file->dir);
	free(file);
}

static struct file *file_new(const struct sink *sink)
{
	const struct file_options *o = sink->options;
	struct file *file = calloc(1, sizeof(*file));
	const char *last = last_part(o->path);
	char ignored[128];

	if (!file)
		return NULL;
	file->out.fd = -1;
	file->options = o;
	file->sink = sink->name;
	file->pattern = last;
	file->owner = (struct file_owner){(uid_t)-1, (gid_t)-1};
	file->dir = last == o->path       ? strdup(".")
		    : last == o->path + 1 ? strdup("/")
					  : strndup(o->path, (size_t)(last - o->path) - 1);
	if (o->owner)
		file_owner_parse(o->owner, &file->owner, ignored, sizeof(ignored));
	if (file->dir && o->rotate.compress != FILE_PLAIN)
		file->packer =
			packer_new(file->dir, last, (enum file_compress)o->rotate.compress, sink->name);
	if (!file->dir || (!file->packer && o->rotate.compress != FILE_PLAIN)) {
		file_free(file, 0);
		return NULL;
	}
	return file;
}

static bool rotates(const struct file_options *o)
{
	return o->rotate.max_size || o->rotate.interval_ns;
}

/* What there is of earlier runs. */
static void tidy_up(struct file *file)
{
	int dir = open(file->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return;
	file_old_clean(dir, file->pattern, file->name);
	close(dir);
	packer_kick(file->packer, file->name);
}

static int cannot_rotate(const struct file *file, char *error, size_t error_size)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", file->dir, file->name);
	if (!rotates(file->options) || (!lstat(path, &st) && S_ISREG(st.st_mode)))
		return 0;
	snprintf(error, error_size, "sink %s: %s is no regular file: it cannot be rotated; remove `rotate`",
		 file->sink, path);
	return -EINVAL;
}

static int file_open(struct sink *sink, char *error, size_t error_size)
{
	const struct file_options *o = sink->options;
	struct file *file = file_new(sink);
	int r = file ? file_begin(file) : -ENOMEM;

	if (r)
		explain(sink, o->path, -r, error, error_size);
	else
		r = cannot_rotate(file, error, error_size);
	if (r) {
		file_free(file, 0);
		return r;
	}
	if (file->out.regular) {
		tidy_up(file);
		file_rotate_if_due(file, 0);
	}
	sink->priv = file;
	sink->target = o->path;
	sink->idle_fd = out_watch(&file->out);
	return 0;
}

static void file_close(struct sink *sink, uint64_t deadline_ns)
{
	file_free(sink->priv, deadline_ns);
}

/* ---- lines ---- */

/* How many lines fit into the file before it is large enough, one at least. */
static size_t lines_that_fit(const struct file *file, const struct line *lines, size_t n)
{
	uint64_t max = file->options->rotate.max_size, size;
	struct stat st;
	size_t i;

	if (!max || !file->out.regular || fstat(file->out.fd, &st))
		return n;
	size = (uint64_t)st.st_size + lines[0].len;
	for (i = 1; i < n && size + lines[i].len <= max; i++)
		size += lines[i].len;
	return i;
}

static struct sink_result drop_all(size_t n)
{
	return (struct sink_result){.lost = n, .status = SINK_DONE, .reason = SINK_DISK_FULL};
}

static void say_full(struct file *file, int error)
{
	uint64_t now = worker_now();

	if (file->told_full || now < file->quiet_ns)
		return;
	file->told_full = true;
	file->quiet_ns = now + QUIET_NS;
	log_msg("sink %s: %s/%s: %s; lines are lost until there is room", file->sink, file->dir, file->name,
		strerror(error));
}

/* There is no room for the lines behind the taken ones. */
static void disk_full(struct file *file, size_t n, struct sink_result *result)
{
	uint64_t pause = file->full_pause_ns ? 2 * file->full_pause_ns : PAUSE_MIN_NS;

	switch (file->options->on_disk_full) {
	case FILE_EXIT:
		log_msg("sink %s: %s/%s: %s; cudatap ends, as on_disk_full says", file->sink, file->dir,
			file->name, strerror(result->error));
		result->status = SINK_EXIT;
		return;
	case FILE_DROP:
		if (result->partial)
			return; /* it cannot be taken back, and so waits */
		say_full(file, result->error);
		file->full_pause_ns = pause < PAUSE_MAX_NS ? pause : PAUSE_MAX_NS;
		file->full_until_ns = worker_now() + file->full_pause_ns;
		result->lost = n - result->taken;
		result->status = SINK_DONE;
		return;
	}
}

static void room_again(struct file *file)
{
	if (!file->full_until_ns)
		return;
	if (file->told_full)
		log_msg("sink %s: %s/%s takes lines again", file->sink, file->dir, file->name);
	file->told_full = false;
	file->full_pause_ns = 0;
	file->full_until_ns = 0;
}

static struct sink_result file_write(struct sink *sink, const struct line *lines, size_t n)
{
	struct file *file = sink->priv;
	struct sink_result result;

	if (file->full_until_ns && worker_now() < file->full_until_ns)
		return drop_all(n);
	file_rotate_if_due(file, lines[0].len);
	n = lines_that_fit(file, lines, n);
	result = out_write(&file->out, sink, lines, n);
	file->dirty |= result.taken > 0;
	if (result.status == SINK_STALLED && result.reason == SINK_DISK_FULL)
		disk_full(file, n, &result);
	else if (result.taken)
		room_again(file);
	return result;
}

static struct sink_result file_tick(struct sink *sink)
{
	struct file *file = sink->priv;
	uint64_t now = worker_now();

	file_follow(file);
	file_rotate_if_due(file, 0);
	if (file->options->fsync == FILE_FSYNC_INTERVAL && now >= file->sync_ns) {
		file->sync_ns = now + file->options->fsync_interval_ns;
		file_sync(file);
	}
	return out_check(&file->out);
}

static int file_reopen(struct sink *sink)
{
	struct file *file = sink->priv;
	int r = file_begin(file);

	if (!r)
		packer_kick(file->packer, file->name);
	sink->idle_fd = out_watch(&file->out);
	return r;
}

static int file_rotate_now(struct sink *sink)
{
	return file_rotate(sink->priv);
}

static bool file_same_outside(const void *options, const void *others)
{
	const struct file_options *a = options, *b = others;

	return !strcmp(a->path, b->path);
}

const struct sink_ops sink_file = {
	.type = "file",
	.about = "whole lines appended to a file, which can be rotated",
	.keys = file_keys,
	.options_size = sizeof(struct file_options),
	.batch_bytes = 256 << 10,
	.tick_ns = FILE_TICK_NS,
	.check = file_check,
	.from_url = file_from_url,
	.urls = "PATH, file:PATH",
	.same_outside = file_same_outside,
	.open = file_open,
	.write = file_write,
	.reopen = file_reopen,
	.rotate = file_rotate_now,
	.tick = file_tick,
	.close = file_close,
};
