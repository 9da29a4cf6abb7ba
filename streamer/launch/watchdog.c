/*
 * The watchdog. While cudatap lives it sleeps, and looks up some seconds after
 * there was something to answer: a thread held for longer than its patience
 * (cudatap stopped, or stuck behind a filesystem that the
 * held process serves) goes on unseen. Once cudatap has ended or handed over
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
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mappings.h"

enum { HUNG_NAP_MS = 50 }; /* for a tracer that did not answer before: time to come back in */

struct watchdog {
	struct board *board;
	int tracer; /* pidfd of cudatap */
	int handover;
	int listener;
	int patience_ms;
	bool stuck; /* a slot is overdue: the control thread does not come back */
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

/* Closes everything but the three descriptors. */
static int keep_descriptors(struct watchdog *w)
{
	int *keep[] = {&w->tracer, &w->handover, &w->listener};
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
 * Answers slots open for at least @age_ms without progress. If there is one, the younger ones wait behind it
 * for a control thread that is stuck, and are answered too. Returns how many are open still.
 */
static unsigned answer_slots(struct watchdog *w, uint64_t age_ms)
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
			atomic_fetch_add(&w->board->overdue, 1);
		}
	}
	return open;
}

/* cudatap lives but does not receive what waits: do it in its place. */
static void take_over(struct watchdog *w)
{
	unsigned n;

	if (!board_lock(w->board, BOARD_WATCHDOG))
		return;
	n = answer_waiting(w);
	atomic_fetch_add(&w->board->taken, 1); /* what the holder's poll found may be gone */
	board_unlock(w->board);
	atomic_fetch_add(&w->board->overdue, n);
}

enum waited { WAITED_TIME, WAITED_CALL, WAITED_TRACER, WAITED_TREE };

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
			why = wait_for(w, false, hung || w->stuck ? HUNG_NAP_MS : w->patience_ms);
		if (why == WAITED_TREE)
			_exit(0);
		if (why == WAITED_TRACER)
			return;
		hung = waits && alive == atomic_load(&w->board->alive) && listener_has(w->listener, POLLIN);
		if (hung)
			take_over(w);
		open = answer_slots(w, w->patience_ms) + listener_has(w->listener, POLLIN);
	}
}

static void answer_for_ever(struct watchdog *w)
{
	answer_slots(w, 0);
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
	if (w.tracer < 0)
		return -errno;
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
	if (pid < 0)
		return -errno;
	do
		done = waitpid(pid, &status, 0);
	while (done < 0 && errno == EINTR);
	return done < 0 ? -errno : -WEXITSTATUS(status);
}
