/*
 * Feeds the sinks of a configuration with calls that nobody made: for tests of
 * sinks with real receivers, without probes.
 *
 *	feed -c FILE | -o SINK  [-n CALLS] [-r CALLS_PER_SECOND] [-s BYTES] [-w] [-d SECONDS] [-f SEQ]
 *
 * -s	bytes of the longest line (shorter ones come between); its args can be cut off
 * -w	wait while a queue is half full, so that a slow sink loses nothing
 * -d	drain deadline at the end (default 10 s)
 * -f	first seq (default 1)
 *
 * SIGUSR1: print the counters. SIGTERM, SIGINT: feed no more, drain, end.
 * Each print is one line of JSON on stdout: {"fed":N,"sinks":{NAME:{...}}}; the last one comes at the end.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "sinks/fanout.h"
#include "streamer/encode/encode.h"

#define SECOND 1000000000ull
#define BATCH  512

struct feed {
	struct config *config;
	struct fanout *fanout;
	struct sink_origin origin;
	uint64_t n, rate, first, deadline_ns;
	size_t size;
	bool wait;
	uint64_t fed;
	int signals;
};

static const char run[] = "feed00000000";

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

static size_t put_time(char *out, int64_t ts_ns)
{
	time_t second = ts_ns / (int64_t)SECOND;
	struct tm tm;
	size_t n;

	gmtime_r(&second, &tm);
	n = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &tm);
	return n + (size_t)sprintf(out + n, ".%09" PRId64 "Z", ts_ns % (int64_t)SECOND);
}

/* What a receiver must bring through unharmed, in JSON: escapes, UTF-8, numbers of all sizes. */
static const char *const texts[] = {
	"python3",
	"a b\\tc",
	"\\\"quoted\\\\\\\"",
	"gr\xc3\xbc\xc3\x9f \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\x98\x80",
	"tab\\u0009nul\\u0001",
	"100% #012 [x=\\\"1\\\"]: <13>1",
};

static const char *const statuses[] = {"ok", "error", "not_ready", "unfinished"};

/* Every line is made from its seq alone, but for the time. */
static size_t make_line(const struct feed *feed, uint64_t seq, bool args, char *out, struct line_meta *meta)
{
	int64_t now = (int64_t)clock_ns(CLOCK_REALTIME);
	unsigned status = seq % 8 < 4 ? 0 : (unsigned)(seq % 4);
	uint32_t pid = 1000 + (uint32_t)(seq % 7);
	size_t room = feed->size > 600 ? feed->size - 600 : 0;
	char *p = out;

	p += sprintf(p, "{\"type\":\"call\",\"run\":\"%s\",\"seq\":%" PRIu64 ",\"ts\":\"", run, seq);
	p += put_time(p, now);
	p += sprintf(p,
		     "\",\"host\":\"%.200s\",\"pid\":%u,\"tid\":%u,\"comm\":\"%s\",\"api\":\"runtime\","
		     "\"family\":\"memory\",\"func\":\"cudaMalloc\",\"duration_ns\":%" PRIu64
		     ",\"ret\":%u,\"status\":\"%s\",\"bytes\":%" PRIu64,
		     feed->config->host, pid, pid + 1, texts[seq % (sizeof(texts) / sizeof(texts[0]))],
		     seq * 7919 % 1000003, status, statuses[status], seq % 5 ? seq : (uint64_t)INT64_MAX);
	*meta = (struct line_meta){.seq = seq,
				   .ts_ns = now,
				   .pid = pid,
				   .tid = pid + 1,
				   .row = 1,
				   .status = (uint8_t)status,
				   .type = EVENT_CALL};
	if (args) {
		meta->args_off = (uint32_t)(p - out);
		p += sprintf(p,
			     ",\"args\":{\"devPtr\":\"0x7ffd%08" PRIx64 "\",\"size\":%" PRIu64 ",\"name\":\"",
			     seq, seq);
		memset(p, 'x', seq % 10 ? room / 4 : room);
		p += seq % 10 ? room / 4 : room;
		p += sprintf(p, "\"},\"out\":{\"devPtr\":\"0x7f12%08" PRIx64 "\"}", seq);
		meta->args_len = (uint32_t)(p - out) - meta->args_off;
	}
	p += sprintf(p, "}\n");
	return (size_t)(p - out);
}

static int loss_line(void *ctx, const char *format, const struct sink_loss *loss, char *out, size_t size,
		     struct line_meta *ret_meta)
{
	int64_t now = (int64_t)clock_ns(CLOCK_REALTIME);
	char time[48];

	put_time(time, now);
	ret_meta->type = EVENT_LOSS;
	ret_meta->ts_ns = now;
	return snprintf(out, size,
			"{\"type\":\"loss\",\"run\":\"%s\",\"ts\":\"%s\",\"host\":\"x\",\"sink\":\"%s\","
			"\"reason\":\"%s\","
			"\"count\":%" PRIu64 ",\"seq_first\":%" PRIu64 ",\"seq_last\":%" PRIu64 "}\n",
			run, time, loss->sink, sink_reason_names[loss->reason], loss->count, loss->seq_first,
			loss->seq_last);
}

/* ---- counters ---- */

static json_t *counters_json(const struct sink_counters *c)
{
	json_t *dropped = json_object(), *o;

	for (int i = 0; i < SINK_NREASONS; i++)
		if (c->dropped[i])
			json_object_set_new(dropped, sink_reason_names[i],
					    json_integer((json_int_t)c->dropped[i]));
	o = json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:b}", "received",
		      (json_int_t)c->received, "recovered", (json_int_t)c->recovered, "delivered",
		      (json_int_t)c->delivered, "unknown", (json_int_t)c->unknown, "filtered",
		      (json_int_t)c->filtered, "rate_limited", (json_int_t)c->rate_limited, "queued",
		      (json_int_t)c->queued, "in_flight", (json_int_t)c->in_flight, "spooled",
		      (json_int_t)c->spooled, "bytes", (json_int_t)c->bytes, "loss_events",
		      (json_int_t)c->loss_events, "holds", sink_counters_check(c));
	json_object_set_new(o, "dropped", dropped);
	return o;
}

static void print_counters(const struct feed *feed)
{
	json_t *sinks = json_object(), *all;

	for (size_t i = 0; i < fanout_nsinks(feed->fanout); i++) {
		struct sink_counters c;

		fanout_counters(feed->fanout, i, &c);
		json_object_set_new(sinks, fanout_sink_name(feed->fanout, i), counters_json(&c));
	}
	all = json_pack("{s:I,s:o}", "fed", (json_int_t)feed->fed, "sinks", sinks);
	json_dumpf(all, stdout, JSON_COMPACT);
	putchar('\n');
	fflush(stdout);
	json_decref(all);
}

/* ---- feeding ---- */

/* Wait a while, serving signals; false: end. */
static bool serve(const struct feed *feed, int timeout_ms)
{
	struct pollfd p = {.fd = feed->signals, .events = POLLIN};
	struct signalfd_siginfo info;

	if (poll(&p, 1, timeout_ms) < 1 || read(feed->signals, &info, sizeof(info)) != sizeof(info))
		return true;
	if (info.ssi_signo == SIGHUP)
		fanout_reopen(feed->fanout);
	if (info.ssi_signo == SIGUSR1)
		print_counters(feed);
	return info.ssi_signo == SIGHUP || info.ssi_signo == SIGUSR1;
}

static bool half_full(const struct feed *feed)
{
	for (size_t i = 0; feed->wait && i < fanout_nsinks(feed->fanout); i++) {
		struct sink_counters c;

		fanout_counters(feed->fanout, i, &c);
		if (c.queued > (uint64_t)feed->config->sinks[i].queue.max_events / 2 ||
		    c.queued * (feed->size + 600) > feed->config->sinks[i].queue.max_bytes / 2)
			return true;
	}
	return false;
}

static void feed_batch(struct feed *feed, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++, feed->fed++) {
		for (size_t format = 0; format < fanout_nformats(feed->fanout); format++) {
			struct line_meta meta;
			char *out = fanout_reserve(feed->fanout, format);
			size_t len = make_line(feed, feed->first + feed->fed,
					       fanout_format_args(feed->fanout, format), out, &meta);

			fanout_commit(feed->fanout, format, len, &meta, FANOUT_ALL);
		}
	}
	fanout_flush(feed->fanout);
}

static void feed_all(struct feed *feed)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);

	while (feed->fed < feed->n && serve(feed, 0)) {
		uint64_t left = feed->n - feed->fed, n = left < BATCH ? left : BATCH;

		if (feed->rate) {
			uint64_t due = (uint64_t)((double)(clock_ns(CLOCK_MONOTONIC) - begin) / 1e9 *
						  (double)feed->rate) +
				       1;

			n = due <= feed->fed ? 0 : due - feed->fed < n ? due - feed->fed : n;
		}
		if (n && !half_full(feed))
			feed_batch(feed, n);
		else if (!serve(feed, 1))
			break;
	}
}

static void options(struct feed *feed, int argc, char **argv)
{
	const char *file = NULL, *sinks[16];
	struct config_overrides overrides = {.sinks = sinks};
	int c;

	while ((c = getopt(argc, argv, "c:o:n:r:s:wd:f:")) >= 0) {
		switch (c) {
		case 'c':
			file = optarg;
			break;
		case 'o':
			if (overrides.nsinks < 16)
				sinks[overrides.nsinks++] = optarg;
			break;
		case 'n':
			feed->n = strtoull(optarg, NULL, 10);
			break;
		case 'r':
			feed->rate = strtoull(optarg, NULL, 10);
			break;
		case 's':
			feed->size = strtoull(optarg, NULL, 10);
			break;
		case 'w':
			feed->wait = true;
			break;
		case 'd':
			feed->deadline_ns = (uint64_t)(strtod(optarg, NULL) * 1e9);
			break;
		case 'f':
			feed->first = strtoull(optarg, NULL, 10);
			break;
		default:
			exit(2);
		}
	}
	if (feed->size > FANOUT_MAX_LINE - 600)
		feed->size = FANOUT_MAX_LINE - 600;
	if (config_load(file, &overrides, stderr, &feed->config))
		exit(2);
}

int main(int argc, char **argv)
{
	struct feed feed = {.n = 1000, .first = 1, .deadline_ns = 10 * SECOND};
	char error[512] = "";
	sigset_t set;
	int r;

	options(&feed, argc, argv);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	feed.signals = signalfd(-1, &set, SFD_CLOEXEC);
	feed.origin = (struct sink_origin){feed.config->host, run};
	r = fanout_new(feed.config->sinks, feed.config->nsinks, &feed.origin, loss_line, NULL, &feed.fanout,
		       error, sizeof(error));
	if (r) {
		fprintf(stderr, "feed: %s\n", error);
		return 1;
	}
	feed_all(&feed);
	fanout_close(feed.fanout, clock_ns(CLOCK_MONOTONIC) + feed.deadline_ns);
	print_counters(&feed);
	fanout_free(feed.fanout);
	config_free(feed.config);
	return 0;
}
