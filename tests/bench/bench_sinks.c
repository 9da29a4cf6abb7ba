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
 * usage: bench_sinks [SECONDS]	(files on tmpfs grow by up to 2 GB each second)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "sinks/fanout.h"
#include "sinks/file.h"
#include "sinks/kinds.h"

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

static void run(const char *title, char *const *paths, size_t n, bool paced, double seconds)
{
	struct file_options options[4];
	struct config_sink sinks[4];
	char error[256];
	struct fanout *f;
	uint64_t seq = 1, begin, end, reader, process, dropped = 0, delivered = UINT64_MAX;

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
	return 0;
}
