/*
 * Taking probes off. The kernel waits in every close(2) of a link until no
 * handler can be running: several are closed at once, in threads of their
 * own, and nobody has to wait for those of retired links.
 *
 * Closing a classic probe takes 0.1 s of which the next one has to wait: a
 * process of their own does that.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define MAX_THREADS (sizeof(((struct closing *)NULL)->threads) / sizeof(pthread_t))

/* A list of descriptors that grows; what it has no memory for is closed on the spot. */
struct fds {
	int *list;
	size_t n;
};

static void fds_add(struct fds *fds, const int *more, size_t n)
{
	int *grown = reallocarray(fds->list, fds->n + n + 1, sizeof(*grown));
	size_t i;

	for (i = 0; !grown && i < n; i++)
		close(more[i]);
	if (!grown)
		return;
	memcpy(grown + fds->n, more, n * sizeof(*grown));
	fds->list = grown;
	fds->n += n;
}

/* ---- links: several threads ---- */

static void *closing_main(void *arg)
{
	struct closing *closing = arg;
	size_t i;

	while ((i = atomic_fetch_add(&closing->next, 1)) < closing->nfds)
		close(closing->fds[i]);
	return NULL;
}

void closing_wait(struct closing *closing)
{
	while (closing->nthreads)
		pthread_join(closing->threads[--closing->nthreads], NULL);
	free(closing->fds);
	closing->fds = NULL;
}

/* Takes the list over. */
static void closing_start(struct closing *closing, struct fds *fds)
{
	sigset_t all, old;

	closing_wait(closing);
	closing->fds = fds->list;
	closing->nfds = fds->n;
	*fds = (struct fds){0};
	atomic_store(&closing->next, 0);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (closing->nthreads < closing->nfds && closing->nthreads < MAX_THREADS &&
	       !pthread_create(&closing->threads[closing->nthreads], NULL, closing_main, closing))
		closing->nthreads++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!closing->nthreads)
		closing_main(closing);
}

static void close_now(struct fds *fds)
{
	struct closing closing = {0};

	closing_start(&closing, fds);
	closing_wait(&closing);
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
 * closer of earlier ones. So they lock a file that every host has: who attaches,
 * shared and for all its probes; a closer, alone and for one.
 */
static int turnstile(void)
{
	return open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC);
}

/* For 2 s at most: others may lock that file too, for ever. */
static void lock_turnstile(int fd, int how)
{
	const struct timespec pause = {.tv_nsec = 2000000};
	int i;

	for (i = 0; fd >= 0 && i < 1000 && flock(fd, how | LOCK_NB) && errno == EWOULDBLOCK; i++)
		nanosleep(&pause, NULL);
}

int closers_stop(void)
{
	int fd = turnstile();

	lock_turnstile(fd, LOCK_SH);
	return fd;
}

/* In the grandchild: until cudatap has closed @turn's other end, the last to close a probe would be cudatap.
 */
static _Noreturn void close_last(const int *fds, size_t n, int turn)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	char nothing;
	size_t i;
	int lock;

	close_all_but(fds, n);
	while (read(turn, &nothing, 1) < 0 && errno == EINTR)
		;
	lock = turnstile();
	for (i = 0; i < n; i++) {
		lock_turnstile(lock, LOCK_EX);
		close(fds[i]);
		flock(lock, LOCK_UN);
		nanosleep(&pause, NULL); /* who waits to attach tries again meanwhile */
	}
	_exit(0);
}

/* A grandchild that inherited the descriptors closes them alone, at exit, and holds nothing else of ours
 * open. Where there is none, it takes its time here. */
static void close_apart(struct fds *fds)
{
	int turn[2] = {-1, -1};
	size_t i, n = fds->n;
	pid_t child = -1;

	if (!pipe2(turn, O_CLOEXEC)) {
		fds_add(fds, turn, 1);
		qsort(fds->list, fds->n, sizeof(*fds->list), by_number);
		child = fork();
	}
	if (child == 0) {
		setsid();
		if (fork() == 0)
			close_last(fds->list, fds->n, turn[0]);
		_exit(0);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
	for (i = 0; i < (turn[1] < 0 ? n : n + 1); i++)
		close(fds->list[i]);
	if (turn[1] >= 0)
		close(turn[1]);
	free(fds->list);
	*fds = (struct fds){0};
}

/* ---- sets ---- */

bool capture_is_probed(const struct capture *capture, unsigned attach_id, unsigned row)
{
	size_t i;

	for (i = 0; i < capture->nsets; i++)
		if (capture->sets[i].attach_id == attach_id &&
		    capture->sets[i].rows[row / 64] >> row % 64 & 1)
			return true;
	return false;
}

static void set_forget(struct capture *capture, size_t i)
{
	free(capture->sets[i].fds);
	capture->sets[i] = capture->sets[--capture->nsets];
}

/* Entry sides first. */
unsigned capture_detach(struct capture *capture, unsigned attach_id)
{
	struct fds entries = {0}, returns = {0};
	unsigned functions = 0;
	size_t i = 0;

	while (i < capture->nsets) {
		const struct probe_set *set = &capture->sets[i];

		if (set->attach_id != attach_id) {
			i++;
			continue;
		}
		functions += set->functions;
		fds_add(&entries, set->fds + set->nreturn, set->nfds - set->nreturn);
		fds_add(&returns, set->fds, set->nreturn);
		set_forget(capture, i);
	}
	close_now(&entries);
	close_now(&returns);
	return functions;
}

void capture_detach_all(struct capture *capture)
{
	struct fds fds = {0};

	while (capture->nsets) {
		fds_add(&fds, capture->sets[0].fds, capture->sets[0].nfds);
		set_forget(capture, 0);
	}
	if (capture->method == CAPTURE_CLASSIC && fds.n)
		close_apart(&fds);
	else
		close_now(&fds);
	closing_wait(&capture->closing);
}

/* ---- what is no longer needed ---- */

static bool is_needed(const struct capture *capture, const struct probe_set *set)
{
	unsigned row;

	for (row = 0; row < table_nrows; row++)
		if (set->rows[row / 64] >> row % 64 & 1 && capture->shared->row_state[row] != REC_ROW_OFF)
			return true;
	return false;
}

static bool any_unneeded(const struct capture *capture)
{
	size_t i;

	for (i = 0; i < capture->nsets; i++)
		if (!is_needed(capture, &capture->sets[i]))
			return true;
	return false;
}

bool capture_retire(struct capture *capture)
{
	struct fds fds = {0};
	uint64_t open;
	size_t i = 0;
	int err;

	if (!any_unneeded(capture))
		return false;
	err = capture_look(capture, &open);
	/* where not all threads can be looked at, none is known to be inside */
	if (!err && capture->shared->leaving_calls)
		return true;
	while (i < capture->nsets) {
		if (is_needed(capture, &capture->sets[i])) {
			i++;
			continue;
		}
		fds_add(&fds, capture->sets[i].fds, capture->sets[i].nfds);
		set_forget(capture, i);
	}
	if (capture->method == CAPTURE_CLASSIC)
		close_apart(&fds);
	else
		closing_start(&capture->closing, &fds);
	return false;
}
