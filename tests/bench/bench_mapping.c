/*
 * From the mapping of a library that nobody has mapped before to its probes:
 * a process maps copies of it, the kernel's record is read, the file looked
 * into, all its functions probed. And what fork() takes in a process that has
 * nothing to do with it, while that goes on and while it does not.
 *
 * usage: bench_mapping LIBRARY [ROUNDS]
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "streamer/capture/capture.h"
#include "streamer/find/watch.h"

enum { MAX_ROUNDS = 256, MAX_FORKS = 1 << 16, NPHASES = 3 };

static const char *const phase_names[NPHASES] = {"nothing else", "attaching", "detaching"};

/* Shared with the processes that map and fork. */
struct shared {
	volatile int phase; /* -1: end */
	volatile uint64_t mapped_ns;
	unsigned nforks[NPHASES];
	float fork_us[NPHASES][MAX_FORKS];
};

struct bench {
	struct shared *shared;
	struct find_watch *watch;
	struct capture *capture;
	unsigned id;
	const char *wanted; /* path of the copy at hand */
	uint64_t attached_ns;
	unsigned functions;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return x < y ? -1 : x > y;
}

/* ---- the others ---- */

static pid_t start_forker(struct shared *shared)
{
	pid_t forker = fork(), child;
	uint64_t start;
	int phase;

	if (forker)
		return forker;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while ((phase = shared->phase) >= 0) {
		start = now_ns();
		child = fork();
		if (child == 0)
			_exit(0);
		if (phase == shared->phase && shared->nforks[phase] < MAX_FORKS)
			shared->fork_us[phase][shared->nforks[phase]++] = (now_ns() - start) / 1e3f;
		waitpid(child, NULL, 0);
		usleep(200);
	}
	_exit(0);
}

/* Maps a file executable as ld.so does, and stays until it is killed. */
static pid_t start_mapper(struct shared *shared, const char *path)
{
	pid_t mapper = fork();
	int fd;

	if (mapper)
		return mapper;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	shared->mapped_ns = now_ns();
	if (mmap(NULL, lseek(fd, 0, SEEK_END), PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		_exit(1);
	pause();
	_exit(0);
}

static int copy(const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC),
	    out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	struct stat st;
	off_t at = 0;

	if (in < 0 || out < 0 || fstat(in, &st))
		return -errno;
	while (at < st.st_size)
		if (sendfile(out, in, &at, st.st_size - at) <= 0)
			return -errno;
	close(in);
	return close(out);
}

/* ---- what is measured ---- */

static int attach(void *ctx, const struct find_file *file)
{
	struct capture_attached attached;
	struct find_image image = {0};
	struct bench *bench = ctx;
	int fd;

	if (strcmp(file->path, bench->wanted) != 0 || bench->attached_ns)
		return 0;
	fd = find_open(file);
	if (fd >= 0 && !find_image_read(fd, &image) &&
	    !capture_attach(bench->capture, fd, bench->id, image.functions, image.nfunctions, 0, &attached)) {
		bench->attached_ns = now_ns();
		bench->functions = attached.functions;
	}
	find_image_free(&image);
	if (fd >= 0)
		close(fd);
	return 0;
}

/* One copy: returns milliseconds from its mapping to its probes, or a negative number. */
static float map_once(struct bench *bench, const char *library, float *ret_detach_ms)
{
	struct shared *shared = bench->shared;
	char path[] = "/tmp/cudatap-bench-XXXXXX";
	int fd = mkstemp(path);
	struct pollfd poll_fd = {.fd = find_watch_fd(bench->watch), .events = POLLIN};
	uint64_t start;
	pid_t mapper;

	close(fd);
	if (fd < 0 || copy(library, path))
		return -1;
	bench->id++;
	bench->wanted = path;
	bench->attached_ns = 0;
	shared->phase = 1;
	mapper = start_mapper(shared, path);
	for (start = now_ns(); !bench->attached_ns && now_ns() - start < 2000000000ull;) {
		poll(&poll_fd, 1, 100);
		find_watch_read(bench->watch, attach, bench);
	}
	shared->phase = 2;
	start = now_ns();
	capture_detach(bench->capture, bench->id);
	*ret_detach_ms = (now_ns() - start) / 1e6f;
	shared->phase = 0;
	kill(mapper, SIGKILL);
	waitpid(mapper, NULL, 0);
	unlink(path);
	usleep(20000);
	return bench->attached_ns ? (bench->attached_ns - shared->mapped_ns) / 1e6f : -1;
}

static void print_forks(struct shared *shared)
{
	printf("%-30s %8s %10s %10s %10s\n", "fork() elsewhere, beside", "forks", "median us", "99 % us",
	       "max us");
	for (int phase = 0; phase < NPHASES; phase++) {
		float *us = shared->fork_us[phase];
		unsigned n = shared->nforks[phase];

		qsort(us, n, sizeof(*us), by_value);
		if (n)
			printf("%-30s %8u %10.0f %10.0f %10.0f\n", phase_names[phase], n, us[n / 2],
			       us[n * 99 / 100], us[n - 1]);
	}
}

static int measure(enum capture_method method, const char *library, unsigned rounds)
{
	uint8_t *state = malloc(table_nrows);
	struct capture_options options = {.method = method,
					  .ring_size = 1 << 20,
					  .flush_ns = 20000000,
					  .plans = plan_all(plan_host_abi()),
					  .row_state = state};
	struct bench bench = {0};
	float ms[MAX_ROUNDS], detach_ms[MAX_ROUNDS];
	char error[256];
	pid_t forker;

	memset(state, REC_ROW_ON, table_nrows);
	bench.shared =
		mmap(NULL, sizeof(*bench.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (bench.shared == MAP_FAILED || capture_new(&options, &bench.capture, error, sizeof(error)) ||
	    find_watch_new(0, &bench.watch))
		return -1;
	forker = start_forker(bench.shared);
	usleep(300000);
	for (unsigned i = 0; i < rounds; i++)
		ms[i] = map_once(&bench, library, &detach_ms[i]);
	bench.shared->phase = -1;
	waitpid(forker, NULL, 0);
	qsort(ms, rounds, sizeof(*ms), by_value);
	qsort(detach_ms, rounds, sizeof(*detach_ms), by_value);
	printf("%s, %u functions, %u copies: mapping to attach, ms: median %.1f, 90 %% %.1f, max %.1f; "
	       "detach: median "
	       "%.1f\n",
	       capture_method_names[method], bench.functions, rounds, ms[rounds / 2], ms[rounds * 9 / 10],
	       ms[rounds - 1], detach_ms[rounds / 2]);
	print_forks(bench.shared);
	find_watch_free(bench.watch);
	capture_free(bench.capture);
	munmap(bench.shared, sizeof(*bench.shared));
	free((void *)options.plans);
	free(state);
	return ms[0] < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 2 ? atoi(argv[2]) : 40;
	int m, err = 0;

	if (argc < 2 || rounds < 1 || rounds > MAX_ROUNDS) {
		fprintf(stderr, "usage: bench_mapping LIBRARY [ROUNDS]\n");
		return 2;
	}
	for (m = CAPTURE_SESSION; m <= CAPTURE_MULTI; m++)
		err |= measure(m, argv[1], rounds);
	return err ? 1 : 0;
}
