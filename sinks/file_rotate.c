/* The current file of a sink: taking it up, beginning a new generation, following what others do to it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../streamer/log.h"
#include "file.h"
#include "worker.h"

#define SECOND   1000000000ull
#define RETRY_NS (10 * SECOND) /* after a rotation that failed */

static int64_t real_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * (int64_t)SECOND + ts.tv_nsec;
}

/* Intervals are counted from 1970: whole minutes, hours and days are those of UTC. */
static int64_t period_of(const struct file *file, int64_t at_ns)
{
	return file->options->rotate.interval_ns ? at_ns / (int64_t)file->options->rotate.interval_ns : 0;
}

/* ---- taking up a file ---- */

static void leave_old(struct file *file)
{
	if (file->options->fsync != FILE_FSYNC_NONE)
		file_sync(file);
	out_close(&file->out);
}

/* Write to @fd from now on. Takes it over, also when it fails. */
static int take_up(struct file *file, int fd, const char *name)
{
	int64_t now = real_ns();
	struct out fresh;
	struct stat st;
	int r = fstat(fd, &st) ? -errno : out_init(&fresh, fd);

	if (r) {
		close(fd);
		return r;
	}
	if (file->out.fd >= 0)
		leave_old(file);
	file->out = fresh;
	file->dev = st.st_dev;
	file->ino = st.st_ino;
	file->missing = false;
	file->period = period_of(file, st.st_size ? st.st_mtim.tv_sec * (int64_t)SECOND : now);
	if (name != file->name)
		snprintf(file->name, sizeof(file->name), "%s", name);
	return 0;
}

int file_begin(struct file *file)
{
	char name[NAME_MAX + 1];
	int fd;

	file_name_make(file->pattern, real_ns() / (int64_t)SECOND, name);
	fd = file_open_or_make(file->dir, name, file->options->mode, &file->owner);
	return fd < 0 ? fd : take_up(file, fd, name);
}

/* ---- a new generation ---- */

/* Is the name still that of our file? 0, -ESTALE when it is another's or nobody's, or another errno. */
static int still_ours(const struct file *file, int dir)
{
	struct stat st;

	if (fstatat(dir, file->name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? -ESTALE : -errno;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	return st.st_dev == file->dev && st.st_ino == file->ino ? 0 : -ESTALE;
}

/* NAME becomes NAME.1, and the fresh file NAME. */
static int change_places(struct file *file, int dir, struct file_fresh *fresh)
{
	char old[NAME_MAX + 8];
	int r;

	snprintf(old, sizeof(old), "%s.1", file->name);
	packer_lock(file->packer);
	r = file_old_shift(dir, file->pattern, file->name);
	if (!r && renameat(dir, file->name, dir, old))
		r = -errno;
	packer_unlock(file->packer);
	if (r)
		return r;
	r = file_show(fresh, file->name);
	if (r && r != -EEXIST)
		renameat(dir, old, dir, file->name);
	return r;
}

/* The name stays: the file moves. */
static int rotate_by_number(struct file *file, int dir)
{
	struct file_fresh fresh;
	int r = still_ours(file, dir);

	if (r == -ESTALE)
		return file_begin(file); /* somebody else has rotated */
	if (!r)
		r = file_make(dir, file->name, file->options->mode, &file->owner, &fresh);
	if (r)
		return r;
	r = change_places(file, dir, &fresh);
	if (!r)
		return take_up(file, fresh.fd, file->name);
	file_discard(&fresh);
	return r == -EEXIST ? file_begin(file) : r;
}

/* The date has changed: the old file has its name for good, unless there is nothing in it. */
static int rotate_by_date(struct file *file, int dir)
{
	char old[NAME_MAX + 1];
	struct stat st;
	bool empty = !fstat(file->out.fd, &st) && !st.st_size && !still_ours(file, dir);
	int r;

	memcpy(old, file->name, sizeof(old));
	r = file_begin(file);
	if (!r && empty)
		unlinkat(dir, old, 0);
	return r;
}

/* Has it something to keep, or a new name to take? */
static bool worth_it(const struct file *file, const char *name)
{
	struct stat st;

	return strcmp(name, file->name) != 0 || (!fstat(file->out.fd, &st) && st.st_size);
}

int file_rotate(struct file *file)
{
	char name[NAME_MAX + 1];
	int dir, r;

	if (!file->out.regular)
		return 0;
	if (file->out.partial)
		return -EAGAIN; /* half a line that could not be cut off: it must be completed here */
	file_name_make(file->pattern, real_ns() / (int64_t)SECOND, name);
	if (!worth_it(file, name))
		return 0;
	dir = open(file->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	r = strcmp(name, file->name) != 0 ? rotate_by_date(file, dir) : rotate_by_number(file, dir);
	if (!r) {
		file->period = period_of(file, real_ns());
		packer_lock(file->packer);
		file_old_prune(dir, file->pattern, file->name, (size_t)file->options->rotate.keep);
		packer_unlock(file->packer);
		packer_kick(file->packer, file->name);
	}
	close(dir);
	return r;
}

static bool too_large(const struct file *file, uint64_t more)
{
	uint64_t max = file->options->rotate.max_size;
	struct stat st;

	return more && max && !fstat(file->out.fd, &st) && st.st_size && (uint64_t)st.st_size + more > max;
}

/* Has the clock gone into another interval? An empty file of the same name goes with it. */
static bool too_old(struct file *file)
{
	int64_t now = file->options->rotate.interval_ns ? real_ns() : 0;
	int64_t period = period_of(file, now);
	char name[NAME_MAX + 1];

	if (period <= file->period)
		return false;
	file_name_make(file->pattern, now / (int64_t)SECOND, name);
	if (worth_it(file, name))
		return true;
	file->period = period;
	return false;
}

void file_rotate_if_due(struct file *file, uint64_t more)
{
	uint64_t now;
	int r;

	if (!file->out.regular || file->out.partial || !(too_old(file) || too_large(file, more)))
		return;
	now = worker_now();
	if (now < file->retry_ns)
		return;
	r = file_rotate(file);
	file->retry_ns = r ? now + RETRY_NS : 0;
	if (r && !file->told_rotate)
		log_msg("sink %s: cannot rotate %s/%s: %s; going on with it and trying again every 10 s",
			file->sink, file->dir, file->name, strerror(-r));
	file->told_rotate = r;
}

/* ---- others ---- */

static int look(struct file *file, struct stat *ret_st)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", file->dir, file->name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	return stat(path, ret_st) ? -errno : 0;
}

/*
 * A missing file is made anew only at the second look: who has moved it away
 * may be about to make the new one himself, as logrotate does.
 */
void file_follow(struct file *file)
{
	bool missing = file->missing;
	struct stat st;
	int r;

	if (!file->out.regular || file->out.partial)
		return;
	r = look(file, &st);
	file->missing = r == -ENOENT;
	if (r && (r != -ENOENT || !missing))
		return;
	if (!r && st.st_dev == file->dev && st.st_ino == file->ino)
		return;
	r = file_begin(file);
	if (r && !file->told_open)
		log_msg("sink %s: %s/%s is not our file any more, and a new one cannot be opened: %s; going "
			"on "
			"with the old one",
			file->sink, file->dir, file->name, strerror(-r));
	file->told_open = r;
	if (!r)
		packer_kick(file->packer, file->name);
}

void file_sync(struct file *file)
{
	int r;

	if (!file->dirty || !file->out.regular)
		return;
	file->dirty = false;
	r = fdatasync(file->out.fd);
	if (r && !file->told_sync)
		log_msg("sink %s: %s/%s: fsync: %s; what was written last may not be on the disk", file->sink,
			file->dir, file->name, strerror(errno));
	file->told_sync = r;
}
