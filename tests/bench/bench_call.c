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

/* What is done with the calls. */
enum fate {
	RECORDED,
	UNWANTED,  /* the function is not selected, the probe is there */
	REJECTED,  /* the filter turns the function away: entry alone */
	UNDRAWN,   /* a sample in which none is, drawn at entry */
	ENCLOSING, /* rejected, and calls inside of it must be known to be inside */
	JUDGED,    /* the filter turns it away by its status: on return */
	ELSEWHERE, /* probes bound to another process, as with -p */
};

static void set_fate(enum fate fate, int row, uint8_t *state, struct rec_rules *rules)
{
	static const uint8_t states[] = {
		[RECORDED] = REC_ROW_ON,
		[UNWANTED] = REC_ROW_OFF,
		[REJECTED] = REC_ROW_REJECTED,
		[UNDRAWN] = REC_ROW_ON,
		[ENCLOSING] = REC_ROW_REJECTED | REC_ROW_AROUND,
		[JUDGED] = REC_ROW_ON,
		[ELSEWHERE] = REC_ROW_ON,
	};

	memset(state, states[fate], table_nrows);
	if (fate == UNDRAWN)
		rules->sample[row] = 4000000000u;
	if (fate == JUDGED) {
		rules->by_outcome = 1;
		rules->status = 1 << REC_STATUS_ERROR;
		rules->max_duration_ns = UINT64_MAX;
	}
}

static double run_tap(const struct target *target, const struct plan *plans, enum capture_method method,
		      enum fate fate, unsigned calls, uint64_t *lost)
{
	struct rec_rules *rules = calloc(1, sizeof(*rules));
	uint8_t *state = calloc(table_nrows, 1);
	struct capture_options options = {.method = method,
					  .ring_size = 16 << 20,
					  .flush_ns = 20000000,
					  .plans = plans,
					  .row_state = state};
	struct find_function function = {.offset = target->offset, .row = target->row};
	struct capture_attached attached;
	struct capture_counters counters;
	struct tap tap = {0};
	char error[256];
	int fd = open(target->path, O_RDONLY | O_CLOEXEC);
	pid_t other = fate == ELSEWHERE ? another_process() : 0;
	double us;

	set_fate(fate, target->row, state, rules);
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
	capture_rules(tap.capture, rules);
	capture_record(tap.capture, true);
	pthread_create(&tap.reader, NULL, tap_reader, &tap);
	us = us_per_call(target, calls);
	tap.stop = true;
	capture_wake(tap.capture);
	pthread_join(tap.reader, NULL);
	capture_counters(tap.capture, &counters);
	*lost += (fate == RECORDED ? calls : 0) - tap.calls;
	capture_free(tap.capture);
	free(state);
	free(rules);
	if (other) {
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
	}
	return us;
}

/* ---- the table ---- */

enum mode { BARE, FLOOR, TUTORIAL, TAPS };

static const char *const mode_names[TAPS] = {
	"no probe",
	"empty pair (floor)",
	"tutorial: hash map, wake-up per event",
};

static const struct {
	const char *name;
	enum capture_method method;
	enum fate fate;
} taps[] = {
	{"cudatap, session", CAPTURE_SESSION, RECORDED},
	{"cudatap, multi", CAPTURE_MULTI, RECORDED},
	{"cudatap, classic", CAPTURE_CLASSIC, RECORDED},
	{"cudatap, session, not selected", CAPTURE_SESSION, UNWANTED},
	{"cudatap, multi, not selected", CAPTURE_MULTI, UNWANTED},
	{"cudatap, session, filtered at entry", CAPTURE_SESSION, REJECTED},
	{"cudatap, multi, filtered at entry", CAPTURE_MULTI, REJECTED},
	{"cudatap, session, sampled out at entry", CAPTURE_SESSION, UNDRAWN},
	{"cudatap, multi, sampled out at entry", CAPTURE_MULTI, UNDRAWN},
	{"cudatap, session, filtered, may enclose", CAPTURE_SESSION, ENCLOSING},
	{"cudatap, session, filtered on return", CAPTURE_SESSION, JUDGED},
	{"cudatap, multi, filtered on return", CAPTURE_MULTI, JUDGED},
	{"not traced, beside -p OTHER, session", CAPTURE_SESSION, ELSEWHERE},
	{"not traced, beside -p OTHER, multi", CAPTURE_MULTI, ELSEWHERE},
	{"not traced, beside -p OTHER, classic", CAPTURE_CLASSIC, ELSEWHERE},
};
#define NTAPS  (sizeof(taps) / sizeof(taps[0]))
#define NMODES (TAPS + NTAPS)

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
	size_t m;

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
		for (m = 0; m < NTAPS; m++)
			us[TAPS + m][r] =
				run_tap(&target, plans, taps[m].method, taps[m].fate, calls, &lost[TAPS + m]);
	}
	lost[TUTORIAL] = (uint64_t)calls * rounds - rival.events;
	for (m = 0; m < NMODES; m++)
		qsort(us[m], rounds, sizeof(us[m][0]), by_value);
	floor = us[FLOOR][rounds / 2];
	printf("%-42s %10s %8s %10s\n", "one call", "us", "ratio", "lost");
	for (m = 0; m < NMODES; m++)
		printf("%-42s %10.3f %8.2f %10llu\n", m < TAPS ? mode_names[m] : taps[m - TAPS].name,
		       us[m][rounds / 2], us[m][rounds / 2] / floor, (unsigned long long)lost[m]);
	return 0;
}
