/*
 * The syslog sink beside a bare sendmmsg(2) loop, into the same rsyslogd over
 * its unix socket: messages of 350 bytes, as fast as the daemon takes them.
 * The loop has its messages ready made; the sink makes them from lines of the
 * fan-out. Runs take turns; the table has medians.
 *
 * usage: bench_syslog SOCKET [MESSAGES [ROUNDS]], as tests/receivers/rsyslog.py runs it
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "sinks/fanout.h"

#define LINE  350
#define BATCH 256 /* of the bare loop: the best of 16 to 1024 */

struct figures {
	double rate; /* messages/s */
	double cpu;  /* ns of our own per message */
};

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static size_t make_line(char *out, uint64_t seq)
{
	int n = sprintf(out,
			"{\"type\":\"call\",\"run\":\"bench0000000\",\"seq\":%" PRIu64
			",\"ts\":\"2026-11-29T16:21:03.123456789Z\",\"host\":\"bench\",\"pid\":4242,\"p\":\"",
			seq);

	memset(out + n, 'x', LINE - (size_t)n - 3);
	memcpy(out + LINE - 3, "\"}\n", 3);
	return LINE;
}

/* ---- the two ---- */

static struct figures bare(const char *socket_path, uint64_t n)
{
	static char text[BATCH][LINE + 64];
	static struct iovec iov[BATCH];
	static struct mmsghdr msgs[BATCH];
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	uint64_t begin, cpu, sent = 0;
	char line[LINE];

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", socket_path);
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		perror("connect");
		exit(1);
	}
	for (unsigned i = 0; i < BATCH; i++) {
		make_line(line, i);
		iov[i].iov_base = text[i];
		iov[i].iov_len =
			(size_t)sprintf(text[i], "<14>Nov 29 16:21:03 cudatap[4242]: %.*s", LINE - 1, line);
		msgs[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1};
	}
	begin = clock_ns(CLOCK_MONOTONIC);
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	while (sent < n) {
		int r = sendmmsg(fd, msgs, BATCH, 0);

		if (r < 0) {
			perror("sendmmsg");
			exit(1);
		}
		sent += (uint64_t)r;
	}
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	begin = clock_ns(CLOCK_MONOTONIC) - begin;
	close(fd);
	return (struct figures){(double)sent / (double)begin * 1e9, (double)cpu / (double)sent};
}

static uint64_t queued(struct fanout *f)
{
	struct sink_counters c;

	fanout_counters(f, 0, &c);
	return c.queued;
}

static struct figures sink(const char *socket_path, uint64_t n)
{
	struct config_overrides overrides = {.nsinks = 1};
	struct sink_counters c;
	struct line_meta meta = {.pid = 4242};
	struct config *config;
	struct fanout *f;
	char url[128], error[256], line[LINE];
	const char *urls[] = {url};
	uint64_t begin, cpu;

	snprintf(url, sizeof(url), "unix:%s", socket_path);
	overrides.sinks = urls;
	if (config_load(NULL, &overrides, stderr, &config) ||
	    fanout_new(config->sinks, config->nsinks, NULL, NULL, NULL, &f, error, sizeof(error)))
		exit(1);
	meta.ts_ns = (int64_t)clock_ns(CLOCK_REALTIME);
	make_line(line, 1);
	begin = clock_ns(CLOCK_MONOTONIC);
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	while (meta.seq < n) {
		if (queued(f) > SINK_QUEUE_EVENTS / 2) {
			usleep(2000);
			continue;
		}
		for (int i = 0; i < 2048; i++) {
			meta.seq++;
			memcpy(fanout_reserve(f, 0), line, LINE);
			fanout_commit(f, 0, LINE, &meta, FANOUT_ALL);
		}
		fanout_flush(f);
	}
	fanout_close(f, clock_ns(CLOCK_MONOTONIC) + 60000000000ull);
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	begin = clock_ns(CLOCK_MONOTONIC) - begin;
	fanout_counters(f, 0, &c);
	if (c.delivered != meta.seq)
		fprintf(stderr, "delivered %" PRIu64 " of %" PRIu64 "\n", c.delivered, meta.seq);
	fanout_free(f);
	config_free(config);
	return (struct figures){(double)c.delivered / (double)begin * 1e9, (double)cpu / (double)c.delivered};
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), by_value);
	return values[n / 2];
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "/dev/log";
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 200000;
	size_t rounds = argc > 3 ? strtoull(argv[3], NULL, 10) : 7;
	double rates[2][64], cpus[2][64], ratios[64];

	rounds = rounds > 64 ? 64 : rounds;
	bare(path, n / 4); /* warm */
	for (size_t i = 0; i < rounds; i++) {
		struct figures b = bare(path, n), s = sink(path, n);

		rates[0][i] = b.rate;
		rates[1][i] = s.rate;
		cpus[0][i] = b.cpu;
		cpus[1][i] = s.cpu;
		ratios[i] = s.rate / b.rate;
	}
	printf("bare sendmmsg loop  %8.0f messages/s %7.0f ns CPU each\n", median(rates[0], rounds),
	       median(cpus[0], rounds));
	printf("sink syslog         %8.0f messages/s %7.0f ns CPU each\n", median(rates[1], rounds),
	       median(cpus[1], rounds));
	printf("ratio               %8.2f (goal 0.80)\n", median(ratios, rounds));
	return 0;
}
