/*
 * The kafka sink beside a bare librdkafka producer: the same lines and
 * settings, the same real broker, in turn. Acknowledged messages per second,
 * and CPU time of this process per message.
 *
 *	bare		a loop of rd_kafka_produce() in which librdkafka copies each line
 *	bare, no copy	the same, librdkafka refers to the lines
 *	sink		lines go by the fan-out into the sink, the copy into the chunk included
 *	sink, spool	the same, through a spool in /tmp
 *
 * usage: bench_kafka [MESSAGES [ROUNDS [BOOTSTRAP]]]
 *
 * Without BOOTSTRAP (or KAFKA_BOOTSTRAP) tests/receivers/kafka.py runs a broker.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <librdkafka/rdkafka.h>

#include "sinks/fanout.h"
#include "sinks/kafka.h"
#include "sinks/kinds.h"

#define NLINES     40000 /* distinct ones */
#define LINE_MAX_  512
#define BATCH      256
#define MAX_ROUNDS 32
#define MAX_EVENTS "65536"
#define MAX_KBYTES "32768"

static char lines[NLINES][LINE_MAX_];
static size_t lengths[NLINES];

static double seconds(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void make_lines(void)
{
	srandom(1);
	for (size_t i = 0; i < NLINES; i++)
		lengths[i] = (size_t)sprintf(
			lines[i],
			"{\"type\":\"call\",\"run\":\"k3v9q2m7x0ab\",\"seq\":%zu,\"ts\":\"2026-11-29T16:21:%"
			"02zu."
			"%09ldZ\",\"host\":\"gpu07\",\"pid\":4242,\"tid\":%zu,\"comm\":\"python3\","
			"\"api\":\"runtime\",\"family\":\"memory\",\"func\":\"cudaMalloc\",\"duration_ns\":%"
			"ld,"
			"\"ret\":0,\"status\":\"ok\",\"bytes\":%ld,\"args\":{\"devPtr\":\"0x7ffd%08lx\","
			"\"size\":%ld},\"out\":{\"devPtr\":\"0x7f12%08lx\"}}\n",
			i, i % 60, random() % 1000000000, 4242 + i % 4, random() % 20000,
			random() % 100000000, random(), random() % 100000000, random());
}

struct figures {
	double rate, cpu_ns; /* messages per second, CPU time per message */
};

/* ---- bare ---- */

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
	char why[256];

	if (rd_kafka_conf_set(conf, name, value, why, sizeof(why))) {
		fprintf(stderr, "%s\n", why);
		exit(1);
	}
}

static void take_reports(rd_kafka_queue_t *queue, int timeout_ms, uint64_t *acknowledged, uint64_t *failed)
{
	rd_kafka_event_t *event;
	const rd_kafka_message_t *message;

	while ((event = rd_kafka_queue_poll(queue, timeout_ms))) {
		timeout_ms = 0;
		while ((message = rd_kafka_event_message_next(event)))
			++*(message->err ? failed : acknowledged);
		rd_kafka_event_destroy(event);
	}
}

static struct figures bare(const char *bootstrap, uint64_t n, int flags)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	uint64_t acknowledged = 0, failed = 0;
	double begin, cpu, took;
	rd_kafka_topic_t *topic;
	rd_kafka_queue_t *queue;
	char why[256];
	rd_kafka_t *rk;

	set(conf, "bootstrap.servers", bootstrap);
	set(conf, "enable.idempotence", "true");
	set(conf, "compression.codec", "lz4");
	set(conf, "partitioner", "murmur2_random");
	set(conf, "queue.buffering.max.messages", MAX_EVENTS);
	set(conf, "queue.buffering.max.kbytes", MAX_KBYTES);
	rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR);
	rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	topic = rd_kafka_topic_new(rk, "bench", NULL);
	queue = rd_kafka_queue_get_main(rk);
	begin = seconds(CLOCK_MONOTONIC);
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (uint64_t i = 0; i < n;) {
		char key[32];
		size_t len = (size_t)snprintf(key, sizeof(key), "%s/%u", "gpu07", 4242u);

		if (!rd_kafka_produce(topic, RD_KAFKA_PARTITION_UA, flags, lines[i % NLINES],
				      lengths[i % NLINES] - 1, key, len, NULL))
			i++;
		else if (rd_kafka_last_error() == RD_KAFKA_RESP_ERR__QUEUE_FULL)
			take_reports(queue, 10, &acknowledged, &failed);
		if (i % BATCH == 0)
			take_reports(queue, 0, &acknowledged, &failed);
	}
	while (acknowledged + failed < n)
		take_reports(queue, 100, &acknowledged, &failed);
	took = seconds(CLOCK_MONOTONIC) - begin;
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	if (failed)
		fprintf(stderr, "bare: %llu messages failed\n", (unsigned long long)failed);
	rd_kafka_queue_destroy(queue);
	rd_kafka_topic_destroy(topic);
	rd_kafka_destroy(rk);
	return (struct figures){(double)acknowledged / took, cpu / (double)n * 1e9};
}

/* ---- the sink ---- */

static bool half_full(struct fanout *fanout)
{
	struct sink_counters c;

	fanout_counters(fanout, 0, &c);
	return c.queued > 32768;
}

static void feed(struct fanout *fanout, uint64_t n)
{
	const struct timespec nap = {.tv_nsec = 200000};

	for (uint64_t i = 0; i < n;) {
		if (half_full(fanout)) {
			nanosleep(&nap, NULL);
			continue;
		}
		for (unsigned j = 0; j < BATCH && i < n; j++, i++) {
			struct line_meta meta = {.seq = i + 1, .pid = 4242, .tid = (uint32_t)(4242 + i % 4)};

			memcpy(fanout_reserve(fanout, 0), lines[i % NLINES], lengths[i % NLINES]);
			fanout_commit(fanout, 0, lengths[i % NLINES], &meta, FANOUT_ALL);
		}
		fanout_flush(fanout);
	}
}

static struct figures sink(char *bootstrap, uint64_t n, bool headers, char *spool)
{
	struct kafka_options options = {.brokers = {&bootstrap, 1},
					.topic = (char *)"bench",
					.key = (char *)"%{host}/%{pid}",
					.idempotence = true,
					.headers = headers,
					.tls.verify = true};
	struct config_sink config = {.name = (char *)"kafka",
				     .ops = &sink_kafka,
				     .format = (char *)"json",
				     .options = &options,
				     .queue = {.max_events = 65536, .max_bytes = 32 << 20},
				     .spool = {.path = spool, .max_bytes = 1 << 30}};
	const struct sink_origin origin = {"gpu07", "k3v9q2m7x0ab"};
	double begin, cpu, took;
	struct sink_counters c;
	struct fanout *fanout;
	char error[512];

	if (fanout_new(&config, 1, &origin, NULL, NULL, &fanout, error, sizeof(error))) {
		fprintf(stderr, "%s\n", error);
		exit(1);
	}
	begin = seconds(CLOCK_MONOTONIC);
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
	feed(fanout, n);
	do {
		usleep(500);
		fanout_counters(fanout, 0, &c);
	} while (c.delivered + sink_counters_dropped(&c) + c.unknown < n);
	took = seconds(CLOCK_MONOTONIC) - begin;
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	if (c.delivered != n)
		fprintf(stderr, "sink: %llu of %llu lines were delivered\n", (unsigned long long)c.delivered,
			(unsigned long long)n);
	fanout_close(fanout, (uint64_t)(seconds(CLOCK_MONOTONIC) + 10) * 1000000000ull);
	fanout_free(fanout);
	return (struct figures){(double)c.delivered / took, cpu / (double)n * 1e9};
}

/* ---- the table ---- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *values, size_t n)
{
	double copy[MAX_ROUNDS];

	memcpy(copy, values, n * sizeof(*copy));
	qsort(copy, n, sizeof(*copy), by_value);
	return n % 2 ? copy[n / 2] : (copy[n / 2 - 1] + copy[n / 2]) / 2;
}

enum { BARE, BARE_NO_COPY, SINK, SINK_HEADERS, SINK_SPOOL, NWAYS };
static const char *const names[NWAYS] = {"bare", "bare, no copy", "sink", "sink, headers", "sink, spool"};

static struct figures sink_spool(char *bootstrap, uint64_t n)
{
	static const char *const files[] = {"lock", "state"};
	char path[] = "/tmp/bench-spool-XXXXXX", file[64];
	struct figures figures;

	if (!mkdtemp(path)) {
		perror(path);
		exit(1);
	}
	figures = sink(bootstrap, n, false, path);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(file, sizeof(file), "%s/%s", path, files[i]);
		unlink(file);
	}
	rmdir(path);
	return figures;
}

static struct figures one(int way, char *bootstrap, uint64_t n)
{
	if (way == BARE || way == BARE_NO_COPY)
		return bare(bootstrap, n, way == BARE ? RD_KAFKA_MSG_F_COPY : 0);
	if (way == SINK_SPOOL)
		return sink_spool(bootstrap, n);
	return sink(bootstrap, n, way == SINK_HEADERS, NULL);
}

static void compare(char *bootstrap, uint64_t n, size_t rounds)
{
	double rate[NWAYS][MAX_ROUNDS], cpu[NWAYS][MAX_ROUNDS], ratio[NWAYS][MAX_ROUNDS];

	one(BARE, bootstrap, n / 2); /* Java's compiler has something to do */
	for (size_t round = 0; round < rounds; round++)
		for (int way = 0; way < NWAYS; way++) {
			struct figures f = one((way + (int)round) % NWAYS, bootstrap, n);

			rate[(way + round) % NWAYS][round] = f.rate;
			cpu[(way + round) % NWAYS][round] = f.cpu_ns;
		}
	for (int way = 0; way < NWAYS; way++)
		for (size_t round = 0; round < rounds; round++)
			ratio[way][round] = rate[way][round] / rate[BARE][round];
	printf("%-16s %14s %14s %12s\n", "", "acknowledged/s", "CPU ns/message", "to bare");
	for (int way = 0; way < NWAYS; way++)
		printf("%-16s %14.0f %14.0f %12.2f\n", names[way], median(rate[way], rounds),
		       median(cpu[way], rounds), median(ratio[way], rounds));
	printf("medians of %zu rounds of %llu messages of %zu bytes, librdkafka %s\n", rounds,
	       (unsigned long long)n, lengths[0], rd_kafka_version_str());
}

/* Again, as a child of the script that runs a broker. */
static int with_broker(char **argv)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		execl("tests/receivers/kafka.py", "kafka.py", "--fast", "--", argv[0],
		      argv[1] ? argv[1] : "1000000", argv[1] && argv[2] ? argv[2] : "5", NULL);
		fprintf(stderr, "tests/receivers/kafka.py: %s\n", strerror(errno));
		_exit(1);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return 1;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		puts("skipped: no Kafka here");
		return 0;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
	char *bootstrap = argc > 3 ? argv[3] : getenv("KAFKA_BOOTSTRAP");
	size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 5;

	if (!bootstrap)
		return with_broker(argv);
	make_lines();
	compare(bootstrap, argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000,
		rounds < 1            ? 1
		: rounds > MAX_ROUNDS ? MAX_ROUNDS
				      : rounds);
	return 0;
}
