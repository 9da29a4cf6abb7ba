/*
 * The watchdog. While cudatap lives it sleeps, and looks now and then as long as
 * there is something to answer: a thread held for longer than its patience
 * (cudatap being stuck behind a filesystem that the held process serves) goes
 * on unseen, and so do all of them while cudatap is stopped. Once cudatap has ended or handed over
 * it answers CONTINUE to every open and every later notification. It ends
 * with the tree.
 *
 * It is a fork of a program with threads and never execs, so it makes only
 * async-signal-safe calls.
 */
#include "watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mappings.h"

enum {
	HUNG_NAP_MS = 50, /* for a tracer that did not answer before: time to come back in */
	LOOK_MS = 100,    /* between two looks while something is held; a tracer is stopped that is in both */
};

struct watchdog {
	struct board *board;
	int tracer; /* pidfd of cudatap */
	int handover;
	int listener;
	int patience_ms;
	int state;         /* the control thread's /proc/PID/stat */
	bool seen_stopped; /* at the last look */
	bool stuck;        /* a slot is overdue: the control thread does not come back */
};

/* ---- becoming nobody's ---- */

/*
 * Shared mappings keep alive what the descriptors did: BPF maps, ring
 * buffers, files. @ctx: the board, which stays.
 */
static int unmap_shared(void *ctx, const struct mapping *mapping)
{
	uint64_t board = (uintptr_t)ctx;

	if (board < mapping->start || board >= mapping->end)
		munmap((void *)(uintptr_t)mapping->start, mapping->end - mapping->start);
	return 0;
}

/* Closes everything but the four descriptors. */
static int keep_descriptors(struct watchdog *w)
{
	int *keep[] = {&w->tracer, &w->handover, &w->listener, &w->state};
	enum { N = sizeof(keep) / sizeof(keep[0]), HIGH = 100 };

	/* first out of the way of 0, 1, 2, then down to them */
	for (int i = 0; i < N; i++) {
		*keep[i] = fcntl(*keep[i], F_DUPFD, HIGH);
		if (*keep[i] < 0)
			return -errno;
	}
	for (int i = 0; i < N; i++)
		*keep[i] = dup2(*keep[i], i);
	return syscall(SYS_close_range, N, ~0U, 0) ? -errno : 0;
}

/* The last one that the kernel should kill for memory: then held calls would fail. */
static void ask_for_mercy(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, "-1000", 5) < 0)
		(void)!write(fd, "0", 1); /* without CAP_SYS_RESOURCE it stays what it was */
	close(fd);
}

static int detach(struct watchdog *w)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	setsid();
	prctl(PR_SET_NAME, "cudatap-hold");
	if (chdir("/"))
		return -errno;
	ask_for_mercy();
	mapping_each(0, 0, UINT64_MAX, MAPPING_SHARED, unmap_shared, w->board);
	return keep_descriptors(w);
}

/* ---- answering ---- */

static bool listener_has(int listener, short what)
{
	struct pollfd fd = {.fd = listener, .events = what & POLLIN};

	return poll(&fd, 1, 0) == 1 && fd.revents & what;
}

/* Answers what waits in the listener. Returns how many. */
static unsigned answer_waiting(struct watchdog *w)
{
	struct board_slot slot = {0};
	unsigned n = 0;

	while (listener_has(w->listener, POLLIN))
		if (board_receive(w->listener, &slot) == 0) {
			board_answer(w->listener, &slot);
			n++;
		}
	return n;
}

/* For how long the control thread has not got on with what is held since @since. */
static uint64_t waited_ms(const struct watchdog *w, uint64_t since, uint64_t now)
{
	uint64_t progress = atomic_load(&w->board->progress_ms), from = progress > since ? progress : since;

	return now > from ? now - from : 0;
}

/*
 * Answers slots open for at least @age_ms without progress, and counts them. If there is one, the younger
 * ones wait behind it for a control thread that is stuck, and are answered too. Returns how many are open
 * still.
 */
static unsigned answer_slots(struct watchdog *w, uint64_t age_ms, _Atomic uint64_t *counter)
{
	uint64_t now = board_now_ms();
	unsigned open = 0;

	w->stuck = false;
	for (unsigned i = 0; i < BOARD_SLOTS; i++) {
		uint64_t since = atomic_load(&w->board->slot[i].since_ms);

		w->stuck = w->stuck || (since && waited_ms(w, since, now) >= age_ms);
	}
	for (unsigned i = 0; i < BOARD_SLOTS; i++) {
		struct board_slot *slot = &w->board->slot[i];
		uint64_t since = atomic_load(&slot->since_ms);
		/* the slot stays its owner's; a copy is answered */
		struct board_slot copy = {.notif.id = slot->notif.id};

		if (!since || since != atomic_load(&slot->since_ms))
			continue; /* free, or another's meanwhile */
		if (!w->stuck) {
			open++;
		} else if (board_is_valid(w->listener, &copy)) {
			board_answer(w->listener, &copy);
			atomic_fetch_add(counter, 1);
		}
	}
	return open;
}

/* cudatap lives but does not receive what waits: do it in its place, and count. */
static void take_over(struct watchdog *w, _Atomic uint64_t *counter)
{
	unsigned n;

	if (!board_lock(w->board, BOARD_WATCHDOG))
		return;
	n = answer_waiting(w);
	atomic_fetch_add(&w->board->taken, 1); /* what the holder's poll found may be gone */
	board_unlock(w->board);
	atomic_fetch_add(counter, n);
}

/* By a job-control stop. A tracer of cudatap's own stops it as well, but that may be over in no time. */
static bool is_stopped(const struct watchdog *w)
{
	char text[256];
	ssize_t n = pread(w->state, text, sizeof(text), 0);
	const char *name_end = n > 0 ? memrchr(text, ')', (size_t)n) : NULL;

	return name_end && name_end + 2 < text + n && name_end[2] == 'T';
}

/* Was it stopped at the last look, and is it now? */
static bool stays_stopped(struct watchdog *w)
{
	bool before = w->seen_stopped;

	w->seen_stopped = is_stopped(w);
	return before && w->seen_stopped;
}

enum waited { WAITED_TIME, WAITED_CALL, WAITED_STOPPED, WAITED_TRACER, WAITED_TREE };

/*
 * Waits for an end, or for a call to be held: received (POLLOUT) or not yet (POLLIN). A call that
 * is answered at once may go unseen; one that stays open does not.
 */
static enum waited wait_for(struct watchdog *w, bool for_calls, int timeout_ms)
{
	struct pollfd fd[] = {
		{.fd = w->tracer, .events = POLLIN},
		{.fd = w->handover, .events = POLLIN},
		{.fd = w->listener, .events = for_calls ? POLLIN | POLLOUT : 0},
	};

	while (poll(fd, 3, timeout_ms) < 0)
		;
	if (fd[2].revents & POLLHUP)
		return WAITED_TREE;
	if (fd[0].revents || fd[1].revents)
		return WAITED_TRACER;
	return fd[2].revents ? WAITED_CALL : WAITED_TIME;
}

static bool anything_held(const struct watchdog *w)
{
	return listener_has(w->listener, POLLIN) || listener_has(w->listener, POLLOUT);
}

/* Gives cudatap so much time to answer, as long as it runs and there is something to answer. */
static enum waited nap(struct watchdog *w, int ms)
{
	if (w->seen_stopped && stays_stopped(w))
		return WAITED_STOPPED;
	while (ms > 0) {
		int step = ms < LOOK_MS ? ms : LOOK_MS;
		enum waited why = wait_for(w, false, step);

		if (why != WAITED_TIME)
			return why;
		ms -= step;
		if (!anything_held(w))
			break;
		if (stays_stopped(w))
			return WAITED_STOPPED;
	}
	return WAITED_TIME;
}

/* Returns when cudatap has ended; does not return when the tree has. */
static void watch(struct watchdog *w)
{
	bool hung = false; /* the hold thread does not look up */
	unsigned open = 0;

	for (;;) {
		/* nothing open: sleep until something is, then nap and look again */
		enum waited why = open ? WAITED_TIME : wait_for(w, true, -1);
		uint64_t alive = atomic_load(&w->board->alive);
		bool waits = listener_has(w->listener, POLLIN);

		if (why == WAITED_TIME || why == WAITED_CALL)
			why = nap(w, hung || w->stuck ? HUNG_NAP_MS : w->patience_ms);
		if (why == WAITED_TREE)
			_exit(0);
		if (why == WAITED_TRACER)
			return;
		if (why == WAITED_STOPPED) {
			take_over(w, &w->board->stopped);
			answer_slots(w, 0, &w->board->stopped);
			w->stuck = false;
			continue;
		}
		hung = waits && alive == atomic_load(&w->board->alive) && listener_has(w->listener, POLLIN);
		if (hung)
			take_over(w, &w->board->overdue);
		open = answer_slots(w, w->patience_ms, &w->board->overdue) +
		       listener_has(w->listener, POLLIN);
	}
}

static void answer_for_ever(struct watchdog *w)
{
	answer_slots(w, 0, &w->board->overdue);
	for (;;) {
		struct pollfd fd = {.fd = w->listener, .events = POLLIN};

		answer_waiting(w);
		if (poll(&fd, 1, -1) == 1 && fd.revents & (POLLHUP | POLLERR | POLLNVAL))
			_exit(0);
	}
}

int watchdog_start(int listener, struct board *board, int handover, int patience_ms)
{
	struct watchdog w = {
		.board = board, .handover = handover, .listener = listener, .patience_ms = patience_ms};
	pid_t pid, done;
	int status = 0;

	w.tracer = syscall(SYS_pidfd_open, getpid(), 0);
	w.state = open("/proc/thread-self/stat", O_RDONLY | O_CLOEXEC);
	if (w.tracer < 0 || w.state < 0) {
		status = errno;
		close(w.tracer);
		close(w.state);
		return -status;
	}
	pid = fork();
	if (pid == 0) {
		pid = fork();
		if (pid)
			_exit(pid < 0 ? errno : 0);
		if (detach(&w) == 0)
			watch(&w);
		answer_for_ever(&w);
	}
	close(w.tracer);
	close(w.state);
	if (pid < 0)
		return -errno;
	do
		done = waitpid(pid, &status, 0);
	while (done < 0 && errno == EINTR);
	return done < 0 ? -errno : -WEXITSTATUS(status);
}
