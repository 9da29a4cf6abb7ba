/*
 * What the fan-out costs: lines of 400 bytes from memory through queues into
 * sinks. Two kinds of runs, for /dev/null and a file on tmpfs, one and two
 * sinks:
 *
 *	paced	2 M lines/s, a batch every 5 ms: share of one core that the
 *		reader's side and the workers take
 *	full	as fast as the slowest sink delivers, without loss: lines/s
 *
 * `reader` is the reader thread's CPU time per line, the copy of the line into
 * the chunk included (`copy` is that copy alone, into one buffer).
 *
 * And from records in memory, decoded, encoded and committed as the reader does it:
 *
 *	one core	all threads on one core into a file on tmpfs: events per second of its time
 *	second sink	the reader's CPU time per event with two files over that with one, the
 *			median of interleaved rounds
 *
 * usage: bench_sinks [SECONDS]	(files on tmpfs grow by up to 2 GB each second)
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "sinks/fanout.h"
#include "sinks/file.h"
#include "sinks/kinds.h"
#include "streamer/encode/encode.h"
#include "samples.h"

#define LINE     400
#define RATE     2000000ull
#define BATCH_NS 5000000ull

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static char line[LINE];

static void put(struct fanout *f, uint64_t first, uint64_t n)
{
	struct line_meta meta = {0};

	for (uint64_t i = 0; i < n; i++) {
		meta.seq = first + i;
		memcpy(fanout_reserve(f, 0), line, LINE);
		fanout_commit(f, 0, LINE, &meta, FANOUT_ALL);
	}
	fanout_flush(f);
}

static uint64_t queued(struct fanout *f)
{
	uint64_t most = 0;

	for (size_t i = 0; i < fanout_nsinks(f); i++) {
		struct sink_counters c;

		fanout_counters(f, i, &c);
		most = c.queued > most ? c.queued : most;
	}
	return most;
}

/* Their options stay until the next call: one fan-out at a time. */
static struct fanout *open_sinks(char *const *paths, size_t n)
{
	static struct file_options options[4];
	static struct config_sink sinks[4];
	char error[256];
	struct fanout *f;

	for (size_t i = 0; i < n; i++) {
		options[i] = (struct file_options){.path = paths[i], .mode = 0600, .rotate.keep = 7};
		sinks[i] = (struct config_sink){.name = paths[i],
						.ops = &sink_file,
						.format = (char *)"json",
						.options = &options[i],
						.queue = {SINK_QUEUE_EVENTS, SINK_QUEUE_BYTES}};
	}
	if (fanout_new(sinks, n, NULL, NULL, NULL, &f, error, sizeof(error))) {
		fprintf(stderr, "%s\n", error);
		exit(1);
	}
	return f;
}

static void run(const char *title, char *const *paths, size_t n, bool paced, double seconds)
{
	struct fanout *f = open_sinks(paths, n);
	uint64_t seq = 1, begin, end, reader, process, dropped = 0, delivered = UINT64_MAX;

	begin = clock_ns(CLOCK_MONOTONIC);
	reader = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	process = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	end = begin + (uint64_t)(seconds * 1e9);
	for (uint64_t now = begin; now < end; now = clock_ns(CLOCK_MONOTONIC)) {
		uint64_t due = (now - begin) / 1000 * (RATE / 1000) / 1000;

		if (paced && due >= seq) {
			put(f, seq, due + 1 - seq);
			seq = due + 1;
		}
		if (paced)
			usleep(BATCH_NS / 1000);
		else if (queued(f) > SINK_QUEUE_EVENTS / 2)
			usleep(500);
		else {
			put(f, seq, 4096);
			seq += 4096;
		}
	}
	reader = clock_ns(CLOCK_THREAD_CPUTIME_ID) - reader;
	fanout_close(f, clock_ns(CLOCK_MONOTONIC) + 5000000000ull);
	process = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - process;
	end = clock_ns(CLOCK_MONOTONIC);
	for (size_t i = 0; i < n; i++) {
		struct sink_counters c;

		fanout_counters(f, i, &c);
		delivered = c.delivered < delivered ? c.delivered : delivered;
		dropped += sink_counters_dropped(&c);
	}
	fanout_free(f);
	for (size_t i = 0; i < n; i++)
		if (strcmp(paths[i], "/dev/null"))
			unlink(paths[i]);
	printf("%-6s %-22s %7.2f M lines/s  reader %5.1f ns/line  workers %6.1f ns/line  cores: reader %4.2f "
	       "workers "
	       "%4.2f  dropped %lu\n",
	       paced ? "paced" : "full", title, (double)delivered / (double)(end - begin) * 1e3,
	       (double)reader / (double)(seq - 1), (double)(process - reader) / (double)(seq - 1),
	       (double)reader / (double)(end - begin), (double)(process - reader) / (double)(end - begin),
	       (unsigned long)dropped);
}

static void copy_alone(void)
{
	static char buffer[1 << 18];
	uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	const uint64_t n = 20000000;

	for (uint64_t i = 0; i < n; i++) {
		memcpy(buffer + i % 600 * LINE, line, LINE);
		__asm__ volatile("" ::"r"(buffer) : "memory");
	}
	printf("copy   %.1f ns/line\n", (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / (double)n);
}

/* ---- from records ---- */

#define EVENTS 400000
#define ROUNDS 15

struct pipeline {
	const struct plan *plans;
	struct encoder *encoder;
	struct thread thread;
	struct fanout *fanout;
	uint64_t seq;
};

static void one_event(struct pipeline *p)
{
	const struct record *record = &records[p->seq % NSAMPLES];
	struct line_meta meta;
	struct call call;
	size_t len;

	p->seq++;
	if (decode_call(p->plans, (const struct rec_call *)record->bytes, record->size, &call))
		abort();
	len = encode_call(p->encoder, &call, &p->thread, p->seq, 1790000000000000000 + (int64_t)p->seq * 1234,
			  fanout_reserve(p->fanout, 0), &meta);
	fanout_commit(p->fanout, 0, len, &meta, FANOUT_ALL);
}

/* Returns CPU time in ns per event: of the reader alone, or of all threads until everything is written. */
static double pipeline_run(struct pipeline *p, char *const *paths, size_t n, bool one_core)
{
	clockid_t clock = one_core ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_THREAD_CPUTIME_ID;
	uint64_t begin = clock_ns(clock), took;

	p->fanout = open_sinks(paths, n);
	p->seq = 0;
	for (unsigned batch = 0; p->seq < EVENTS; batch++) {
		for (unsigned i = 0; i < 2048; i++)
			one_event(p);
		fanout_flush(p->fanout);
		while (queued(p->fanout) > SINK_QUEUE_EVENTS / 2)
			usleep(200);
	}
	took = clock_ns(clock) - begin;
	fanout_close(p->fanout, clock_ns(CLOCK_MONOTONIC) + 5000000000ull);
	if (one_core)
		took = clock_ns(clock) - begin;
	for (size_t i = 0; i < n; i++) {
		struct sink_counters c;

		fanout_counters(p->fanout, i, &c);
		if (c.delivered != p->seq) {
			fprintf(stderr, "%s: %lu of %lu events arrived\n", paths[i],
				(unsigned long)c.delivered, (unsigned long)p->seq);
			exit(1);
		}
		unlink(paths[i]);
	}
	fanout_free(p->fanout);
	return (double)took / (double)p->seq;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), by_value);
	return values[ROUNDS / 2];
}

/* Threads that are made later run there, too. */
static void stay_on_this_core(bool stay)
{
	static cpu_set_t before;
	cpu_set_t one;

	if (stay) {
		sched_getaffinity(0, sizeof(before), &before);
		CPU_ZERO(&one);
		CPU_SET((unsigned)sched_getcpu(), &one);
	}
	sched_setaffinity(0, sizeof(one), stay ? &one : &before);
}

static int from_records(char *const *paths)
{
	static const struct encoder_options encoding = {.run = "k3v9q2m7x0ab", .host = "gpu07", .args = true};
	struct plan *plans = plan_all(plan_host_abi());
	struct pipeline p = {
		.plans = plans,
		.encoder = encoder_new(&encoding),
		.thread = {.pid = 4242, .tid = 4243, .comm = "python3", .thread = "pt_autograd_0"},
	};
	double core[ROUNDS], one[ROUNDS], two[ROUNDS], all, first, second;

	if (!plans || !p.encoder)
		return 1;
	make_calls(plans);
	for (int i = 0; i < ROUNDS; i++) {
		stay_on_this_core(true);
		core[i] = pipeline_run(&p, paths, 1, true);
		stay_on_this_core(false);
		one[i] = pipeline_run(&p, paths, 1, false);
		two[i] = pipeline_run(&p, paths, 2, false);
	}
	all = median(core);
	first = median(one);
	second = median(two);
	printf("one core, records to a file on tmpfs: %5.2f M events/s (%.0f ns/event; goal: 1.5 M/s)\n",
	       1e3 / all, all);
	printf("second sink: reader %.0f ns/event with one, %.0f with two: %+.1f %% (goal: below 15 %%)\n",
	       first, second, 100 * (second - first) / first);
	encoder_free(p.encoder);
	thread_drop_prefixes(&p.thread);
	free(plans);
	return 1e3 / all >= 1.5 && second < 1.15 * first ? 0 : 1;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	char a[] = "/dev/shm/cudatap-bench-1", b[] = "/dev/shm/cudatap-bench-2", null[] = "/dev/null";

	memset(line, 'x', LINE - 1);
	line[LINE - 1] = '\n';
	copy_alone();
	for (int paced = 1; paced >= 0; paced--) {
		run("/dev/null", (char *[]){null}, 1, paced, seconds);
		run("/dev/null twice", (char *[]){null, null}, 2, paced, seconds);
		run("tmpfs", (char *[]){a}, 1, paced, seconds);
		run("tmpfs twice", (char *[]){a, b}, 2, paced, seconds);
	}
	return from_records((char *[]){a, b});
}
