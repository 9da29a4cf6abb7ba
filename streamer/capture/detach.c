/*
 * Taking probes off. The kernel waits in every close(2) of a link until no
 * handler can be running: several are closed at once (closing.c), and nobody
 * has to wait for those of retired links.
 *
 * Closing a classic probe takes 0.1 s of which the next one has to wait: a
 * process of their own does that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

void probe_set_close(struct probe_set *set)
{
	while (set->nfds)
		close(set->fds[--set->nfds]);
	free(set->fds);
	set->fds = NULL;
}

/* ---- classic probes: a process of their own ---- */

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Close every descriptor of the process that is not in @keep (sorted). */
static void close_all_but(const int *keep, size_t n)
{
	unsigned first = 0;
	size_t i;

	for (i = 0; i < n; first = keep[i++] + 1)
		if ((unsigned)keep[i] > first)
			syscall(SYS_close_range, first, keep[i] - 1, 0);
	syscall(SYS_close_range, first, ~0u, 0);
}

/*
 * The kernel has one mutex for opening and closing them all, and a closer has it
 * for 0.1 s a probe: each probe of a starting cudatap would wait for every
 * closer of earlier ones. So they lock two files that every host has. Who
 * attaches holds both, shared, for all its probes; a closer has the second
 * alone, for one probe, after it found the first free: however many closers
 * there are, none begins once somebody waits to attach.
 */
static const char *const turnstiles[] = {"/sys/kernel/btf", "/sys/kernel/btf/vmlinux"};

enum { WAITING, CLOSING, NTURNSTILES };

static void turnstiles_open(int fds[NTURNSTILES])
{
	int i;

	for (i = 0; i < NTURNSTILES; i++)
		fds[i] = open(turnstiles[i], O_RDONLY | O_CLOEXEC);
}

/* For @seconds at most: others may lock these files too, for ever. */
static void lock_turnstile(int fd, int how, int seconds)
{
	const struct timespec pause = {.tv_nsec = 2000000};
	int i;

	for (i = 0; fd >= 0 && i < seconds * 500 && flock(fd, how | LOCK_NB) && errno == EWOULDBLOCK; i++)
		nanosleep(&pause, NULL);
}

void closers_stop(int fds[2])
{
	turnstiles_open(fds);
	lock_turnstile(fds[WAITING], LOCK_SH, 2);
	lock_turnstile(fds[CLOSING], LOCK_SH, 10);
}

void closers_go_on(const int fds[2])
{
	int i;

	for (i = 0; i < NTURNSTILES; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void close_alone(const int turnstile[NTURNSTILES], int fd)
{
	const struct timespec pause = {.tv_nsec = 5000000};

	lock_turnstile(turnstile[WAITING], LOCK_EX, 60);
	flock(turnstile[WAITING], LOCK_UN);
	lock_turnstile(turnstile[CLOSING], LOCK_EX, 60);
	close(fd);
	flock(turnstile[CLOSING], LOCK_UN);
	nanosleep(&pause, NULL); /* who waits to attach tries again meanwhile */
}

/* In the grandchild: until cudatap has closed @turn's other end, the last to close a probe would be cudatap.
 */
static _Noreturn void close_last(const int *fds, size_t n, int turn)
{
	int turnstile[NTURNSTILES];
	char nothing;
	size_t i;

	close_all_but(fds, n);
	while (read(turn, &nothing, 1) < 0 && errno == EINTR)
		;
	turnstiles_open(turnstile);
	for (i = 0; i < n; i++)
		close_alone(turnstile, fds[i]);
	_exit(0);
}

/*
 * A grandchild that inherited the descriptors closes them alone, at exit, and
 * holds nothing else of ours open. Returns what to close when ours are closed,
 * or -1: then it takes its time here.
 */
static int close_in_background(const struct probe_set *sets, size_t nsets)
{
	int turn[2], *fds;
	size_t n = 1, s;
	pid_t child;

	for (s = 0; s < nsets; s++)
		n += sets[s].nfds;
	fds = malloc(n * sizeof(*fds));
	if (!fds || pipe2(turn, O_CLOEXEC)) {
		free(fds);
		return -1;
	}
	fds[0] = turn[0];
	for (s = 0, n = 1; s < nsets; s++) {
		memcpy(fds + n, sets[s].fds, sets[s].nfds * sizeof(*fds));
		n += sets[s].nfds;
	}
	qsort(fds, n, sizeof(*fds), by_number);
	child = fork();
	if (child == 0) {
		setsid();
		if (fork() == 0)
			close_last(fds, n, turn[0]);
		_exit(0);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
	close(turn[0]);
	free(fds);
	return turn[1];
}

/* ---- sets ---- */

/* The last @n sets of the list, in the way of the method; does not wait but for want of memory. */
static void close_last_sets(struct capture *capture, size_t n, struct closing *closing)
{
	bool classic = capture->method == CAPTURE_CLASSIC;
	size_t first = capture->nsets - n, i;
	int turn = classic && n ? close_in_background(capture->sets + first, n) : -1;

	for (i = first; i < capture->nsets; i++) {
		if (classic)
			probe_set_close(&capture->sets[i]);
		else
			closing_add(closing, &capture->sets[i]);
	}
	if (turn >= 0)
		close(turn);
	capture->nsets = first;
}

/* Brings the sets that are to go to the end of the list; returns how many. */
static size_t sort_out(struct capture *capture,
		       bool (*goes)(const struct capture *, const struct probe_set *, unsigned), unsigned arg)
{
	size_t end = capture->nsets, i = 0;

	while (i < end) {
		struct probe_set set = capture->sets[i];

		if (!goes(capture, &set, arg)) {
			i++;
			continue;
		}
		capture->sets[i] = capture->sets[--end];
		capture->sets[end] = set;
	}
	return capture->nsets - end;
}

static bool is_of(const struct capture *capture, const struct probe_set *set, unsigned attach_id)
{
	return set->attach_id == attach_id;
}

bool capture_is_probed(const struct capture *capture, unsigned attach_id, unsigned row)
{
	size_t i;

	for (i = 0; i < capture->nsets; i++)
		if (capture->sets[i].attach_id == attach_id &&
		    capture->sets[i].rows[row / 64] >> row % 64 & 1)
			return true;
	return false;
}

/* Whoever waits for it needs the probes gone: classic ones are closed here, too, one after the other. */
unsigned capture_detach(struct capture *capture, unsigned attach_id)
{
	size_t n = sort_out(capture, is_of, attach_id);
	struct closing closing = {0};
	unsigned functions = 0;

	closing_init(&closing);
	for (; n; n--) {
		struct probe_set *set = &capture->sets[--capture->nsets];

		functions += set->functions;
		if (capture->method != CAPTURE_CLASSIC) {
			closing_add(&closing, set);
			continue;
		}
		while (set->nfds) {
			close(set->fds[--set->nfds]);
			if (capture->progress)
				capture->progress(capture->progress_ctx);
		}
		probe_set_close(set);
	}
	closing_wait(&closing);
	return functions;
}

void capture_detach_later(struct capture *capture, unsigned attach_id)
{
	close_last_sets(capture, sort_out(capture, is_of, attach_id), &capture->closing);
}

void capture_detach_all(struct capture *capture)
{
	close_last_sets(capture, capture->nsets, &capture->closing);
	closing_wait(&capture->closing);
	free(capture->sets);
	capture->sets = NULL;
}

/* ---- what is no longer needed ---- */

static bool is_unneeded(const struct capture *capture, const struct probe_set *set, unsigned unused)
{
	unsigned row;

	for (row = 0; row < table_nrows; row++)
		if (set->rows[row / 64] >> row % 64 & 1 && capture->shared->row_state[row] != REC_ROW_OFF)
			return false;
	return true;
}

bool capture_retire(struct capture *capture)
{
	size_t n = sort_out(capture, is_unneeded, 0);
	uint64_t open;
	int err;

	if (!n)
		return false;
	err = capture_look(capture, &open);
	/* where not all threads can be looked at, none is known to be inside */
	if (!err && capture->shared->leaving_calls)
		return true;
	close_last_sets(capture, n, &capture->closing);
	return false;
}
