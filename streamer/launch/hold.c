/*
 * Holding. The thread receives each notification at once and looks whether
 * one of its files has not been shown yet. If none, it answers: a JIT that
 * flips pages, the hundredth process that maps libc, cost one round trip. If
 * one is new, the slot goes to the control thread, which looks again and
 * shows: another process may have brought the same file meanwhile.
 *
 * When a new library is shown, the process's other mappings are looked at too,
 * now and then, for what might have got past: a descriptor swapped in mid-call.
 */
#include "hold.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "board.h"
#include "filter.h"
#include "look.h"
#include "shown.h"
#include "watchdog.h"

/* 6.6: wake the receiver on the held thread's CPU, which then sleeps anyway */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS      SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

enum {
	WALK_EVERY_MS = 250, /* a process that loads 300 libraries shall not pay for 300 walks */
	RETRY_MS = 5,        /* all slots taken */
	LOCKED_US = 100,     /* the watchdog is at it */
	JOIN_NS = 20000000,
	WAKING = SIGURG, /* the signal, ignored by default */
};

struct hold {
	int listener;
	int handover; /* eventfd: the watchdog's turn */
	int stop;     /* eventfd: the thread's end */
	int ready;    /* eventfd semaphore: queued slots, and one more at the tree's end */
	struct board *board;
	struct shown *shown;
	pthread_t thread;
	bool has_thread;

	pthread_mutex_t lock; /* of the queue */
	uint8_t queue[BOARD_SLOTS];
	unsigned first, queued;
	bool ended;

	launch_program_fn on_program;
	void *program_ctx;
	uint64_t walked_ms; /* the control thread's */
	_Atomic uint64_t nshown, foreign, unopened;
};

/* ---- is there anything new? ---- */

/* Files that are not there any more are not counted: their process is gone, or failed to find them too. */
static void count_unopened(struct hold *hold, int error)
{
	if (error != -ENOENT && error != -ESRCH && error != -EBADF && error != -ENOTDIR)
		atomic_fetch_add(&hold->unopened, 1);
}

static int stop_at_new(void *ctx, const struct look_file *file)
{
	struct hold *hold = ctx;
	struct shown_key key;
	int result = shown_key(AT_FDCWD, file->link, 0, &key);

	if (result < 0)
		count_unopened(hold, result);
	return result == 1 && !shown_has(hold->shown, &key);
}

static bool needs_control(struct hold *hold, const struct board_slot *slot)
{
	if (slot->notif.pid == 0) { /* it lives outside our pid namespace */
		atomic_fetch_add(&hold->foreign, 1);
		return false;
	}
	return look_at_call(&slot->notif, stop_at_new, hold) == 1;
}

/* ---- the thread ---- */

/* The process of a thread; the thread itself when it is gone. */
static pid_t process_of(pid_t tid)
{
	char path[64], text[1024], *line;
	int fd;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return tid;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return tid;
	text[n] = '\0';
	line = strstr(text, "\nTgid:");
	return line ? (pid_t)strtol(line + 6, NULL, 10) : tid;
}

/* A thread that execs becomes its process's leader. */
static void tell_program(struct hold *hold, const struct board_slot *slot)
{
	enum held_call call = launch_filter_call(&slot->notif.data);

	if (!hold->on_program || !slot->notif.pid)
		return;
	if (call == HELD_START || call == HELD_EXECVE || call == HELD_EXECVEAT)
		hold->on_program(hold->program_ctx, process_of((pid_t)slot->notif.pid), call == HELD_START);
}

static void hold_queue(struct hold *hold, unsigned slot)
{
	pthread_mutex_lock(&hold->lock);
	hold->queue[(hold->first + hold->queued++) % BOARD_SLOTS] = slot;
	pthread_mutex_unlock(&hold->lock);
	eventfd_write(hold->ready, 1);
}

static void hold_end(struct hold *hold)
{
	pthread_mutex_lock(&hold->lock);
	hold->ended = true;
	pthread_mutex_unlock(&hold->lock);
	eventfd_write(hold->ready, 1);
}

/* Takes those out of the queue whose thread waits no more: killed, or let go by the watchdog. */
static void drop_outdated(struct hold *hold)
{
	unsigned n;

	pthread_mutex_lock(&hold->lock);
	n = hold->queued;
	hold->queued = 0;
	for (unsigned i = 0; i < n; i++) {
		uint8_t id = hold->queue[(hold->first + i) % BOARD_SLOTS];

		if (board_is_valid(hold->listener, &hold->board->slot[id]))
			hold->queue[(hold->first + hold->queued++) % BOARD_SLOTS] = id;
		else
			atomic_store(&hold->board->slot[id].since_ms, 0);
	}
	pthread_mutex_unlock(&hold->lock);
}

/* A free slot's index, or -1. Only the thread takes slots, so a free one stays free. */
static int free_slot(const struct board *board)
{
	for (int i = 0; i < BOARD_SLOTS; i++)
		if (!atomic_load(&board->slot[i].since_ms))
			return i;
	return -1;
}

/* @taken: the watchdog's count before the poll that found something */
static void receive_one(struct hold *hold, unsigned slot_id, uint64_t taken)
{
	struct board *board = hold->board;
	struct board_slot *slot = &board->slot[slot_id];
	int result = -EAGAIN;

	if (!board_lock(board, BOARD_HOLDER)) {
		usleep(LOCKED_US);
		return;
	}
	/* else that poll may be outdated and receiving would sleep */
	if (taken == atomic_load(&board->taken))
		result = board_receive(hold->listener, slot);
	board_unlock(board, BOARD_HOLDER);
	if (result)
		return;
	atomic_fetch_add(&board->received, 1);
	tell_program(hold, slot);
	if (needs_control(hold, slot))
		hold_queue(hold, slot_id);
	else
		board_answer(hold->listener, slot);
}

static void *hold_thread(void *arg)
{
	struct hold *hold = arg;
	struct pollfd fd[] = {{.fd = hold->stop, .events = POLLIN}, {.fd = hold->listener}};

	/* what a traced program waits for, and how long it can be interrupted: first in line if allowed */
	setpriority(PRIO_PROCESS, syscall(SYS_gettid), -20);
	for (;;) {
		uint64_t taken = atomic_load(&hold->board->taken);
		int slot = free_slot(hold->board);

		if (slot < 0) { /* the control thread is late */
			drop_outdated(hold);
			slot = free_slot(hold->board);
		}
		atomic_fetch_add(&hold->board->alive, 1);

		/* all slots taken: look for a free one now and then */
		fd[1].events = slot < 0 ? 0 : POLLIN;
		if (poll(fd, 2, slot < 0 ? RETRY_MS : -1) < 0)
			continue;
		if (fd[0].revents)
			break;
		if (slot >= 0 && fd[1].revents & POLLIN) {
			receive_one(hold, slot, taken);
		} else if (fd[1].revents & POLLHUP) { /* POLLERR: a signal came while the kernel looked */
			hold_end(hold);
			break;
		}
	}
	return NULL;
}

/* ---- showing ---- */

struct showing {
	struct hold *hold;
	const struct board_slot *slot;
	launch_file_fn fn;
	void *ctx;
};

/* The held thread's own descriptor: it may read what we may not open (NFS without root). */
static int borrow_fd(const struct look_file *file)
{
	int pidfd, fd;

	if (file->fd < 0)
		return -EACCES;
	pidfd = syscall(SYS_pidfd_open, process_of(file->tid), 0);
	if (pidfd < 0)
		return -errno;
	fd = syscall(SYS_pidfd_getfd, pidfd, file->fd, 0);
	if (fd < 0)
		fd = -errno;
	close(pidfd);
	return fd;
}

static int open_file(const struct look_file *file)
{
	int fd = open(file->link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error = errno;

	if (fd < 0 && (error == EACCES || error == EPERM)) {
		fd = borrow_fd(file);
		return fd < 0 ? -error : fd;
	}
	return fd < 0 ? -error : fd;
}

/* What to call a file that its process did not name. */
static void name_file(const struct look_file *file, char *path, size_t size)
{
	ssize_t n =
		file->path ? snprintf(path, size, "%s", file->path) : readlink(file->link, path, size - 1);

	if (!file->path)
		path[n < 0 ? 0 : n] = '\0';
}

static int show_file(void *ctx, const struct look_file *file)
{
	struct showing *s = ctx;
	struct hold *hold = s->hold;
	struct shown_key key;
	char path[PATH_MAX + 64];
	int fd;

	if (shown_key(AT_FDCWD, file->link, 0, &key) != 1 || shown_has(hold->shown, &key))
		return 0;
	name_file(file, path, sizeof(path));
	fd = open_file(file);
	if (fd < 0) {
		count_unopened(hold, fd);
		if (fd == -EACCES || fd == -EPERM) /* it will not change: do not ask again */
			shown_add(hold->shown, &key);
		return 0;
	}
	/* the id is checked last: only then was it this thread's file that was opened */
	if (shown_key(fd, "", AT_EMPTY_PATH, &key) == 1 && !shown_has(hold->shown, &key) &&
	    board_is_valid(hold->listener, s->slot)) {
		s->fn(s->ctx, process_of(file->tid), fd, path);
		shown_add(hold->shown, &key);
		atomic_fetch_add(&hold->nshown, 1);
	}
	close(fd);
	return 0;
}

void hold_forget(struct hold *hold, const struct shown_key *key)
{
	shown_remove(hold->shown, key);
}

void hold_progress(struct hold *hold)
{
	atomic_store(&hold->board->progress_ms, board_now_ms());
}

static bool hold_take(struct hold *hold, unsigned *ret_slot, bool *ret_ended)
{
	bool has;

	pthread_mutex_lock(&hold->lock);
	has = hold->queued > 0;
	*ret_ended = hold->ended;
	if (has) {
		*ret_slot = hold->queue[hold->first];
		hold->first = (hold->first + 1) % BOARD_SLOTS;
		hold->queued--;
	}
	pthread_mutex_unlock(&hold->lock);
	return has;
}

int hold_handle(struct hold *hold, launch_file_fn fn, void *ctx)
{
	struct showing s = {.hold = hold, .fn = fn, .ctx = ctx};
	struct board_slot *slot;
	eventfd_t one;
	unsigned id;
	bool ended;

	eventfd_read(hold->ready, &one);
	if (!hold_take(hold, &id, &ended))
		return ended ? -ENOENT : 0;
	slot = &hold->board->slot[id];
	s.slot = slot;
	look_at_call(&slot->notif, show_file, &s);
	if (launch_filter_call(&slot->notif.data) == HELD_MMAP &&
	    board_now_ms() - hold->walked_ms >= WALK_EVERY_MS) {
		look_at_maps(slot->notif.pid, show_file, &s);
		hold->walked_ms = board_now_ms();
	}
	board_answer(hold->listener, slot);
	hold_progress(hold); /* those that queue behind it have not waited for nothing */
	return 1;
}

/* ---- beginning and end ---- */

/* It may sleep in the kernel for a call which the watchdog received in its place: signals wake it. */
static void stop_thread(struct hold *hold)
{
	struct timespec until;

	eventfd_write(hold->stop, 1);
	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += (until.tv_nsec + JOIN_NS) / 1000000000;
		until.tv_nsec = (until.tv_nsec + JOIN_NS) % 1000000000;
		if (!pthread_clockjoin_np(hold->thread, NULL, CLOCK_MONOTONIC, &until))
			return;
		pthread_kill(hold->thread, WAKING);
	}
}

static void hold_destroy(struct hold *hold)
{
	int *fd[] = {&hold->listener, &hold->handover, &hold->stop, &hold->ready};

	for (size_t i = 0; i < sizeof(fd) / sizeof(fd[0]); i++)
		if (*fd[i] >= 0)
			close(*fd[i]);
	board_free(hold->board);
	shown_free(hold->shown);
	pthread_mutex_destroy(&hold->lock);
	free(hold);
}

static int start_thread(struct hold *hold)
{
	sigset_t all, old;
	int result;

	/* the other signals are the control thread's */
	sigfillset(&all);
	sigdelset(&all, WAKING);
	board_wake_by(WAKING);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	result = pthread_create(&hold->thread, NULL, hold_thread, hold);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	hold->has_thread = result == 0;
	if (hold->has_thread)
		pthread_setname_np(hold->thread, "hold");
	return -result;
}

int hold_start(int listener, const struct launch_options *options, struct hold **ret_hold)
{
	int patience_ms = options->patience_ms ? options->patience_ms : LAUNCH_PATIENCE_MS;
	__u64 flags = SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP;
	struct hold *hold = calloc(1, sizeof(*hold));
	int result;

	if (!hold) {
		close(listener);
		return -ENOMEM;
	}
	hold->listener = listener;
	hold->on_program = options->on_program;
	hold->program_ctx = options->program_ctx;
	pthread_mutex_init(&hold->lock, NULL);
	hold->handover = eventfd(0, EFD_CLOEXEC);
	hold->stop = eventfd(0, EFD_CLOEXEC);
	hold->ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	hold->board = board_new();
	hold->shown = shown_new();
	result = hold->handover < 0 || hold->stop < 0 || hold->ready < 0 ? -EMFILE : 0;
	if (!result && (!hold->board || !hold->shown))
		result = -ENOMEM;
	/* the watchdog first: from here on nobody is left behind */
	if (!result)
		result = watchdog_start(listener, hold->board, hold->handover, patience_ms);
	if (!result)
		result = start_thread(hold);
	if (result) {
		hold_stop(hold);
		return result;
	}
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, flags); /* older kernels do without */
	*ret_hold = hold;
	return 0;
}

void hold_stop(struct hold *hold)
{
	unsigned slot;
	bool ended;

	if (!hold)
		return;
	if (hold->has_thread)
		stop_thread(hold);
	while (hold_take(hold, &slot, &ended))
		board_answer(hold->listener, &hold->board->slot[slot]);
	if (hold->handover >= 0)
		eventfd_write(hold->handover, 1);
	hold_destroy(hold);
}

int hold_fd(const struct hold *hold)
{
	return hold->ready;
}

void hold_counts(const struct hold *hold, struct launch_counts *ret_counts)
{
	*ret_counts = (struct launch_counts){
		.held = atomic_load(&hold->board->received),
		.shown = atomic_load(&hold->nshown),
		.foreign = atomic_load(&hold->foreign),
		.unopened = atomic_load(&hold->unopened),
		.overdue = atomic_load(&hold->board->overdue),
		.stopped = atomic_load(&hold->board->stopped),
	};
}
