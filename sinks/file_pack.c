/*
 * Compression of old generations, off the way of events: a thread of low
 * priority (while nobody waits for its end) looks into the directory and
 * compresses what is older than the newest one, under a hidden name that
 * becomes visible when it is complete. Generations may be renamed meanwhile; at
 * the end the file is found again by its inode.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../streamer/log.h"
#include "../streamer/monotonic.h"
#include "file.h"

#define LOWEST_PRIORITY 19

struct packer {
	const char *dir, *pattern, *sink;
	enum file_compress how;
	pthread_t thread;
	bool started;
	pid_t tid; /* 0 until it runs */
	atomic_bool stop;
	pthread_mutex_t names; /* held while generations are renamed */
	pthread_mutex_t lock;  /* guards the rest */
	pthread_cond_t changed;
	char current[NAME_MAX + 1];
	bool wanted, busy, ending;
};

/* Of one thread: Linux takes its id for a process's. */
static void set_priority(pid_t tid, int priority)
{
	setpriority(PRIO_PROCESS, (id_t)tid, priority);
}

/* ---- one file ---- */

/*
 * Does anybody still write to the file: another sink, another cudatap, who has not seen that it was renamed?
 * The kernel grants a lease for reading only where nobody has it open for writing. It is given back at once;
 * should somebody break it meanwhile, the signal is one that nobody minds.
 */
static bool is_written(int fd)
{
	if (fcntl(fd, F_SETSIG, SIGURG) || fcntl(fd, F_SETLEASE, F_RDLCK))
		return errno == EAGAIN; /* others: this file system, or our rights, have no leases */
	fcntl(fd, F_SETLEASE, F_UNLCK);
	return false;
}

/* Is it as it was read? */
static bool is_unchanged(int fd, const struct stat *before)
{
	struct stat now;

	return !fstat(fd, &now) && now.st_size == before->st_size &&
	       now.st_mtim.tv_sec == before->st_mtim.tv_sec && now.st_mtim.tv_nsec == before->st_mtim.tv_nsec;
}

/* The same content under another name: what it is worth to others stays. */
static int take_after(int to, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	/* without the right to give it away it stays ours */
	if (fchown(to, st->st_uid, st->st_gid) && errno != EPERM)
		return -errno;
	if (fchmod(to, st->st_mode & 07777) && errno != EPERM)
		return -errno;
	if (fdatasync(to) || futimens(to, times))
		return -errno;
	return 0;
}

/* Names may have changed: which one is it now? Under packer_lock(). */
static bool find_again(const struct packer *packer, int dir, const struct file_old *old,
		       struct file_old *ret_now)
{
	struct file_old *list;
	ssize_t n = file_old_list(dir, packer->pattern, "", &list);
	bool found = false;

	for (ssize_t i = 0; i < n && !found; i++) {
		found = list[i].ino == old->ino && list[i].dev == old->dev;
		if (found)
			*ret_now = list[i];
	}
	if (n >= 0)
		free(list);
	return found;
}

static int put_in_place(struct packer *packer, int dir, const struct file_old *old, const char *temporary)
{
	char name[NAME_MAX + 8];
	struct file_old now;
	int r = -ENOENT;

	packer_lock(packer);
	if (find_again(packer, dir, old, &now)) {
		snprintf(name, sizeof(name), "%s%s", now.name, file_suffixes[packer->how]);
		r = renameat2(dir, temporary, dir, name, RENAME_NOREPLACE) ? -errno : 0;
		if (r == -EINVAL) /* this file system cannot look first */
			r = renameat(dir, temporary, dir, name) ? -errno : 0;
		if (!r)
			unlinkat(dir, now.name, 0);
	}
	packer_unlock(packer);
	return r;
}

static int pack_open(struct packer *packer, int dir, const struct file_old *old, int from)
{
	char plain[NAME_MAX + 8], temporary[NAME_MAX + 1];
	struct stat st;
	int to, r;

	snprintf(plain, sizeof(plain), "%s%s", old->name, file_suffixes[packer->how]);
	r = file_name_temporary(plain, temporary);
	if (r || fstat(from, &st))
		return r ? r : -errno;
	if (st.st_ino != old->ino || st.st_dev != old->dev)
		return -ENOENT;
	unlinkat(dir, temporary, 0);
	to = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	r = file_codec_run(packer->how, from, to, &packer->stop);
	if (!r)
		r = take_after(to, &st);
	if (!r && (is_written(from) || !is_unchanged(from, &st)))
		r = -EBUSY;
	close(to);
	if (!r)
		r = put_in_place(packer, dir, old, temporary);
	if (r)
		unlinkat(dir, temporary, 0);
	return r;
}

static int pack(struct packer *packer, int dir, const struct file_old *old)
{
	int from = openat(dir, old->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), r;

	if (from < 0)
		return -errno;
	posix_fadvise(from, 0, 0, POSIX_FADV_SEQUENTIAL);
	r = is_written(from) ? -EBUSY : pack_open(packer, dir, old, from);
	close(from);
	return r;
}

/* ---- all of them ---- */

/* Renamed or removed meanwhile, or still written to: it is looked at again at the next rotation. */
static bool is_temporary(int r)
{
	return r == -ENOENT || r == -EBUSY || r == -ECANCELED;
}

/* All but the newest, which a shipper may still be reading. */
static void pack_all(struct packer *packer, const char *current)
{
	bool told = false;
	int dir = open(packer->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	struct file_old *list = NULL;
	ssize_t n;

	if (dir < 0)
		return;
	packer_lock(packer);
	n = file_old_list(dir, packer->pattern, current, &list);
	packer_unlock(packer);
	for (ssize_t i = 1; i < n && !atomic_load(&packer->stop); i++) {
		if (list[i].generation.compress != FILE_PLAIN)
			continue;
		r = pack(packer, dir, &list[i]);
		if (!r || is_temporary(r))
			continue;
		if (!told)
			log_msg("sink %s: cannot compress %s/%s: %s; it stays as it is until the next "
				"rotation",
				packer->sink, packer->dir, list[i].name, strerror(-r));
		told = true;
		if (r == -ENOSPC || r == -EDQUOT)
			break;
	}
	free(list);
	close(dir);
}

static void *packer_main(void *arg)
{
	struct packer *packer = arg;
	char current[NAME_MAX + 1];

	pthread_mutex_lock(&packer->lock);
	packer->tid = gettid();
	if (!packer->ending)
		set_priority(packer->tid, LOWEST_PRIORITY);
	while (packer->wanted || !packer->ending) {
		if (!packer->wanted) {
			pthread_cond_wait(&packer->changed, &packer->lock);
			continue;
		}
		packer->wanted = false;
		packer->busy = true;
		memcpy(current, packer->current, sizeof(current));
		pthread_mutex_unlock(&packer->lock);
		pack_all(packer, current);
		pthread_mutex_lock(&packer->lock);
		packer->busy = false;
		packer->wanted &= !atomic_load(&packer->stop);
		pthread_cond_broadcast(&packer->changed);
	}
	pthread_mutex_unlock(&packer->lock);
	return NULL;
}

/* ---- life ---- */

struct packer *packer_new(const char *dir, const char *pattern, enum file_compress how, const char *sink)
{
	struct packer *packer = calloc(1, sizeof(*packer));

	if (!packer)
		return NULL;
	packer->dir = dir;
	packer->pattern = pattern;
	packer->how = how;
	packer->sink = sink;
	pthread_mutex_init(&packer->names, NULL);
	pthread_mutex_init(&packer->lock, NULL);
	monotonic_cond_init(&packer->changed);
	return packer;
}

void packer_kick(struct packer *packer, const char *current)
{
	sigset_t all, old;
	int r;

	if (!packer)
		return;
	pthread_mutex_lock(&packer->lock);
	snprintf(packer->current, sizeof(packer->current), "%s", current);
	packer->wanted = true;
	pthread_cond_broadcast(&packer->changed);
	pthread_mutex_unlock(&packer->lock);
	if (packer->started)
		return;
	sigfillset(&all); /* signals are the main thread's */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&packer->thread, NULL, packer_main, packer);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	packer->started = !r;
	if (r)
		log_msg("sink %s: old files are not compressed: cannot start a thread: %s", packer->sink,
			strerror(r));
	else
		pthread_setname_np(packer->thread, "cudatap-pack");
}

void packer_lock(struct packer *packer)
{
	if (packer)
		pthread_mutex_lock(&packer->names);
}

void packer_unlock(struct packer *packer)
{
	if (packer)
		pthread_mutex_unlock(&packer->names);
}

static void wait_idle(struct packer *packer, uint64_t deadline_ns)
{
	struct timespec ts = {(time_t)(deadline_ns / 1000000000ull), (long)(deadline_ns % 1000000000ull)};

	if (deadline_ns / 1000000000ull > INT_MAX)
		ts.tv_sec = INT_MAX;
	pthread_mutex_lock(&packer->lock);
	packer->ending = true;
	/* now somebody waits for it; who has not the right to say so waits longer */
	if (packer->tid)
		set_priority(packer->tid, getpriority(PRIO_PROCESS, (id_t)gettid()));
	pthread_cond_broadcast(&packer->changed);
	while (packer->wanted || packer->busy)
		if (pthread_cond_timedwait(&packer->changed, &packer->lock, &ts))
			break;
	packer->wanted = false;
	pthread_mutex_unlock(&packer->lock);
	atomic_store(&packer->stop, true);
}

void packer_free(struct packer *packer, uint64_t deadline_ns)
{
	if (!packer)
		return;
	if (packer->started) {
		wait_idle(packer, deadline_ns);
		pthread_join(packer->thread, NULL);
	}
	pthread_cond_destroy(&packer->changed);
	pthread_mutex_destroy(&packer->lock);
	pthread_mutex_destroy(&packer->names);
	free(packer);
}
