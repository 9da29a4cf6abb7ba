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
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mappings.h"

enum { LOOK_MS = 50 }; /* between two looks while something is held */

struct watchdog {
	struct board *board;
	int tracer; /* pidfd of cudatap */
	int handover;
	int listener;
	int patience_ms;
	int state;         /* the control thread's /proc/PID/stat */
	bool seen_stopped; /* at the last look */
	bool hung;         /* the hold thread has not looked up since it was found not to receive */
	uint64_t alive;    /* the board's at the last look */
	uint64_t waits_ms; /* since when something waits to be received, 0: nothing does */
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

/* Closes everything but the four descriptors; it takes no new one, for there may be none to be had. */
static int keep_descriptors(const struct watchdog *w)
{
	const unsigned keep[] = {w->tracer, w->handover, w->listener, w->state};
	unsigned from = 0, next;

	do {
		next = UINT_MAX;
		for (size_t i = 0; i < sizeof(keep) / sizeof(keep[0]); i++)
			if (keep[i] >= from && keep[i] < next)
				next = keep[i];
		if (next > from && syscall(SYS_close_range, from, next - 1, 0))
			return -errno;
		from = next + 1;
	} while (next != UINT_MAX);
	return 0;
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
	sigdelset(&all, SIGALRM);
	board_wake_by(SIGALRM);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	prctl(PR_SET_NAME, "cudatap-hold");
	if (chdir("/"))
		return -errno;
	ask_for_mercy();
	mapping_each(0, 0, UINT64_MAX, MAPPING_SHARED, unmap_shared, w->board);
	return keep_descriptors(w);
}

/* ---- answering ---- */

/* POLLIN: a call that waits to be received; POLLOUT: one that was received and waits for its answer. */
static bool listener_has(int listener, short what)
{
	struct pollfd fd = {.fd = listener, .events = what};

	return poll(&fd, 1, 0) == 1 && fd.revents & what;
}

/* A receiver that came too late sleeps in the kernel: now and then it is woken. */
static void wake_every(int ms)
{
	struct itimerval time = {{0, ms * 1000}, {0, ms * 1000}};

	setitimer(ITIMER_REAL, &time, NULL);
}

/* Answers what waits in the listener, so much at a time that there is time to look up. Returns how many. */
static unsigned answer_waiting(struct watchdog *w)
{
	struct board_slot slot = {0};
	unsigned n = 0;

	wake_every(LOOK_MS);
	for (int i = 0; i < BOARD_SLOTS && listener_has(w->listener, POLLIN); i++)
		if (board_receive(w->listener, &slot) == 0) {
			board_answer(w->listener, &slot);
			n++;
		}
	wake_every(0);
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
 * ones wait behind it for a control thread that is stuck, and are answered too.
 */
static void answer_slots(struct watchdog *w, uint64_t age_ms, _Atomic uint64_t *counter)
{
	uint64_t now = board_now_ms();
	bool stuck = false;

	for (unsigned i = 0; i < BOARD_SLOTS; i++) {
		uint64_t since = atomic_load(&w->board->slot[i].since_ms);

		/* without an id nothing has been received into it */
		stuck = stuck || (since && w->board->slot[i].notif.id && waited_ms(w, since, now) >= age_ms);
	}
	for (unsigned i = 0; stuck && i < BOARD_SLOTS; i++) {
		struct board_slot *slot = &w->board->slot[i];
		uint64_t since = atomic_load(&slot->since_ms);
		/* the slot stays its owner's; a copy is answered */
		struct board_slot copy = {.notif.id = slot->notif.id};

		if (!since || since != atomic_load(&slot->since_ms))
			continue; /* free, or another's meanwhile */
		if (board_is_valid(w->listener, &copy)) {
			board_answer(w->listener, &copy);
			atomic_fetch_add(counter, 1);
		}
	}
}

/* cudatap lives but does not receive what waits: do it in its place, and count. */
static void take_over(struct watchdog *w, _Atomic uint64_t *counter)
{
	unsigned n;

	board_seize(w->board, BOARD_WATCHDOG);
	n = answer_waiting(w);
	atomic_fetch_add(&w->board->taken, 1); /* what the holder's poll found may be gone */
	board_unlock(w->board, BOARD_WATCHDOG);
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

enum waited { WAITED, WAITED_TRACER, WAITED_TREE };

/*
 * Waits for an end, or for a call to be held; where one is already, for the time of the next look. A call
 * that is answered at once may go unseen; one that stays open does not.
 */
static enum waited wait_on(struct watchdog *w, bool held)
{
	struct pollfd fd[] = {
		{.fd = w->tracer, .events = POLLIN},
		{.fd = w->handover, .events = POLLIN},
		{.fd = w->listener, .events = held ? 0 : POLLIN | POLLOUT},
	};

	while (poll(fd, 3, held ? LOOK_MS : -1) < 0)
		;
	if (fd[2].revents & POLLHUP)
		return WAITED_TREE;
	if (fd[0].revents || fd[1].revents)
		return WAITED_TRACER;
	return WAITED;
}

/*
 * Is it to be expected that nobody receives what waits? For that the hold thread must not have looked up for
 * the whole patience; found so, it gets one look's time for each call until it does.
 */
static bool is_hung(struct watchdog *w, bool waits)
{
	uint64_t now = board_now_ms(), alive = atomic_load(&w->board->alive);

	if (alive != w->alive)
		w->hung = false;
	if (!waits || !w->waits_ms || alive != w->alive)
		w->waits_ms = waits ? now : 0;
	w->alive = alive;
	if (!waits || now - w->waits_ms < (uint64_t)(w->hung ? LOOK_MS : w->patience_ms))
		return false;
	w->hung = true;
	return true;
}

/*
 * Lets go what is held for too long. Returns whether something still is.
 * @before: what the look before returned; what came since then is too new to judge: its time may not be
 * written yet
 */
static bool look(struct watchdog *w, bool before)
{
	bool waits = listener_has(w->listener, POLLIN), held = waits || listener_has(w->listener, POLLOUT);

	if (held && stays_stopped(w)) {
		answer_slots(w, 0, &w->board->stopped);
		take_over(w, &w->board->stopped);
		w->waits_ms = 0;
		return false;
	}
	if (is_hung(w, waits))
		take_over(w, &w->board->overdue);
	if (held && before)
		answer_slots(w, w->patience_ms, &w->board->overdue);
	if (!held)
		w->seen_stopped = false;
	return held;
}

/* Returns when cudatap has ended; does not return when the tree has. */
static void watch(struct watchdog *w)
{
	bool held = false;

	for (;;) {
		switch (wait_on(w, held)) {
		case WAITED_TREE:
			_exit(0);
		case WAITED_TRACER:
			return;
		case WAITED:
			held = look(w, held);
		}
	}
}

static void answer_for_ever(struct watchdog *w)
{
	answer_slots(w, 0, &w->board->overdue);
	for (;;) {
		struct pollfd fd = {.fd = w->listener, .events = POLLIN};

		answer_waiting(w);
		if (poll(&fd, 1, -1) == 1 && fd.revents & (POLLHUP | POLLNVAL))
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
