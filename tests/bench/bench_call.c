/*
 * What a traced call costs: one function of a library, called in a loop by
 * this process, under an empty pair (the floor), the tutorial's design, and
 * cudatap by each method. Rounds are interleaved; medians are compared.
 *
 * usage: bench_call LIBRARY FUNCTION RIVALS.bpf.o [CALLS [ROUNDS]]
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "streamer/capture/capture.h"

typedef int (*cuda_fn)(void *, size_t, int, int, int, int);

struct target {
	cuda_fn call;
	const char *path, *symbol;
	uint64_t offset;
	int row;
};

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* The function's offset in its file, from the mapping that holds it. */
static int locate(struct target *target)
{
	unsigned long start, end, offset, addr = (unsigned long)target->call;
	char line[1024];
	FILE *maps = fopen("/proc/self/maps", "re");

	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && addr >= start &&
		    addr < end)
			target->offset = addr - start + offset;
	if (maps)
		fclose(maps);
	return target->offset ? 0 : -ENOENT;
}

static double us_per_call(const struct target *target, unsigned calls)
{
	void *p;
	double start = now_s();

	for (unsigned i = 0; i < calls; i++)
		target->call(&p, 4096, 0, 0, 0, 0);
	return (now_s() - start) / calls * 1e6;
}

/* ---- rivals ---- */

static int multi_link(int prog, const struct target *target, unsigned flags)
{
	struct {
		uint32_t prog_fd, target_fd, attach_type, flags;
		uint64_t path, offsets, ref_ctr_offsets, cookies;
		uint32_t cnt, multi_flags, pid;
	} attr = {.prog_fd = prog,
		  .attach_type = 48,
		  .path = (uintptr_t)target->path,
		  .offsets = (uintptr_t)&target->offset,
		  .cnt = 1,
		  .multi_flags = flags};

	return syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
}

static int count_event(void *ctx, void *data, size_t size)
{
	/* others may use the library at the same time */
	if (*(const uint32_t *)data == (uint32_t)getpid())
		++*(uint64_t *)ctx;
	return 0;
}

struct rival {
	struct bpf_object *object;
	uint64_t events;
	volatile bool stop;
	pthread_t reader;
};

static void *rival_reader(void *arg)
{
	struct rival *rival = arg;
	struct ring_buffer *ring = ring_buffer__new(bpf_object__find_map_fd_by_name(rival->object, "events"),
						    count_event, &rival->events, NULL);

	while (!rival->stop)
		ring_buffer__poll(ring, 20);
	ring_buffer__consume(ring);
	ring_buffer__free(ring);
	return NULL;
}

static double run_rival(struct rival *rival, const struct target *target, const char *entry, const char *ret,
			unsigned calls)
{
	int entry_prog = bpf_program__fd(bpf_object__find_program_by_name(rival->object, entry));
	int ret_prog = bpf_program__fd(bpf_object__find_program_by_name(rival->object, ret));
	int ret_link = multi_link(ret_prog, target, 1), entry_link = multi_link(entry_prog, target, 0);
	double us;

	if (ret_link < 0 || entry_link < 0) {
		perror("bench_call: uprobe_multi link");
		exit(1);
	}
	rival->stop = false;
	pthread_create(&rival->reader, NULL, rival_reader, rival);
	us = us_per_call(target, calls);
	rival->stop = true;
	pthread_join(rival->reader, NULL);
	close(entry_link);
	close(ret_link);
	return us;
}

static int open_rivals(struct rival *rival, const char *path)
{
	struct bpf_program *prog;

	rival->object = bpf_object__open_file(path, NULL);
	if (!rival->object)
		return -errno;
	bpf_object__for_each_program(prog, rival->object) bpf_program__set_expected_attach_type(prog, 48);
	return bpf_object__load(rival->object);
}

/* ---- cudatap ---- */

static pid_t another_process(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	return pid;
}

struct tap {
	struct capture *capture;
	volatile bool stop;
	uint64_t calls;
	pthread_t reader;
};

static void take(void *ctx, const void *record, size_t size)
{
	const struct rec_call *call = record;
	struct tap *tap = ctx;

	tap->calls += call->kind == REC_CALL && call->pid_tgid >> 32 == (uint64_t)getpid();
}

static void *tap_reader(void *arg)
{
	struct tap *tap = arg;

	while (!tap->stop)
		capture_read(tap->capture, take, tap, true);
	while (capture_read(tap->capture, take, tap, false))
		;
	return NULL;
}

/* What becomes of the calls of this process. */
enum use {
	TRACED,
	REJECTED,  /* probes for all processes, which turn it away */
	ELSEWHERE, /* probes bound to another process, as with -p */
};

static double run_tap(const struct target *target, const struct plan *plans, enum capture_method method,
		      enum use use, unsigned calls, uint64_t *lost)
{
	uint8_t *state = calloc(table_nrows, 1);
	struct capture_options options = {.method = method,
					  .ring_size = 16 << 20,
					  .flush_ns = 20000000,
					  .plans = plans,
					  .row_state = state,
					  .select_pids = use == REJECTED};
	struct find_function function = {.offset = target->offset, .row = target->row};
	struct capture_attached attached;
	struct capture_counters counters;
	struct tap tap = {0};
	char error[256];
	int fd = open(target->path, O_RDONLY | O_CLOEXEC);
	pid_t other = use == ELSEWHERE ? another_process() : 0;
	double us;

	memset(state, use == REJECTED ? REC_ROW_OFF : REC_ROW_ON, table_nrows);
	if (capture_new(&options, &tap.capture, error, sizeof(error))) {
		fprintf(stderr, "bench_call: %s: %s\n", capture_method_names[method], error);
		exit(1);
	}
	if (capture_attach(tap.capture, fd, 1, &function, 1, other, &attached)) {
		fprintf(stderr, "bench_call: %s: cannot attach: %s\n", capture_method_names[method],
			strerror(attached.error));
		exit(1);
	}
	close(fd);
	capture_record(tap.capture, true);
	pthread_create(&tap.reader, NULL, tap_reader, &tap);
	us = us_per_call(target, calls);
	tap.stop = true;
	capture_wake(tap.capture);
	pthread_join(tap.reader, NULL);
	capture_counters(tap.capture, &counters);
	*lost += (use == TRACED ? calls : 0) - tap.calls;
	capture_free(tap.capture);
	free(state);
	if (other) {
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
	}
	return us;
}

/* ---- the table ---- */

enum mode {
	BARE,
	FLOOR,
	TUTORIAL,
	SESSION,
	MULTI,
	CLASSIC,
	REJECT_SESSION,
	REJECT_MULTI,
	OTHER_SESSION,
	OTHER_MULTI,
	OTHER_CLASSIC,
	NMODES
};

static const char *const mode_names[NMODES] = {
	"no probe",
	"empty pair (floor)",
	"tutorial: hash map, wake-up per event",
	"cudatap, session",
	"cudatap, multi",
	"cudatap, classic",
	"cudatap, session, turned away at entry",
	"cudatap, multi, turned away at entry",
	"not traced, beside -p OTHER, session",
	"not traced, beside -p OTHER, multi",
	"not traced, beside -p OTHER, classic",
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	unsigned calls = argc > 4 ? atoi(argv[4]) : 200000, rounds = argc > 5 ? atoi(argv[5]) : 7, r;
	double us[NMODES][64], floor;
	struct target target = {0};
	struct rival rival = {0};
	uint64_t lost[NMODES] = {0};
	struct plan *plans;
	void *library;
	int m;

	if (argc < 4 || rounds > 64) {
		fprintf(stderr, "usage: bench_call LIBRARY FUNCTION RIVALS.bpf.o [CALLS [ROUNDS]]\n");
		return 2;
	}
	target.path = argv[1];
	target.symbol = argv[2];
	library = dlopen(argv[1], RTLD_NOW);
	target.call = library ? (cuda_fn)dlsym(library, argv[2]) : NULL;
	target.row = table_find(TABLE_RUNTIME, argv[2], 13);
	plans = plan_all(plan_host_abi());
	if (!target.call || locate(&target) || target.row < 0 || !plans || open_rivals(&rival, argv[3])) {
		fprintf(stderr, "bench_call: cannot set up: %s\n", library ? argv[2] : dlerror());
		return 1;
	}
	for (r = 0; r < rounds; r++) {
		us[BARE][r] = us_per_call(&target, calls);
		us[FLOOR][r] = run_rival(&rival, &target, "empty", "empty", calls);
		us[TUTORIAL][r] = run_rival(&rival, &target, "tutorial_entry", "tutorial_return", calls);
		for (m = SESSION; m <= CLASSIC; m++)
			us[m][r] = run_tap(&target, plans, m - SESSION, TRACED, calls, &lost[m]);
		us[REJECT_SESSION][r] =
			run_tap(&target, plans, CAPTURE_SESSION, REJECTED, calls, &lost[REJECT_SESSION]);
		us[REJECT_MULTI][r] =
			run_tap(&target, plans, CAPTURE_MULTI, REJECTED, calls, &lost[REJECT_MULTI]);
		for (m = OTHER_SESSION; m <= OTHER_CLASSIC; m++)
			us[m][r] = run_tap(&target, plans, m - OTHER_SESSION, ELSEWHERE, calls, &lost[m]);
	}
	lost[TUTORIAL] = (uint64_t)calls * rounds - rival.events;
	for (m = 0; m < NMODES; m++)
		qsort(us[m], rounds, sizeof(us[m][0]), by_value);
	floor = us[FLOOR][rounds / 2];
	printf("%-42s %10s %8s %10s\n", "one call", "us", "ratio", "lost");
	for (m = 0; m < NMODES; m++)
		printf("%-42s %10.3f %8.2f %10llu\n", mode_names[m], us[m][rounds / 2],
		       us[m][rounds / 2] / floor, (unsigned long long)lost[m]);
	return 0;
}
