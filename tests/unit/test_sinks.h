/* What the tests of sinks share: lines with a seq in them, and reading them back. */
#ifndef CUDATAP_TEST_SINKS_H
#define CUDATAP_TEST_SINKS_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../sinks/fanout.h"
#include "../../sinks/file.h"
#include "../../sinks/kinds.h"

#define MS 1000000ull

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static inline void sleep_ms(unsigned ms)
{
	usleep(ms * 1000);
}

/* A line of @len bytes (at least 40) for @seq. */
static inline size_t make_line(char *out, uint64_t seq, size_t len)
{
	int n = sprintf(out, "{\"seq\":%" PRIu64 ",\"p\":\"", seq);

	memset(out + n, 'x', len - (size_t)n - 3);
	memcpy(out + len - 3, "\"}\n", 3);
	return len;
}

static inline void put_line(struct fanout *f, size_t format, uint64_t seq, size_t len, uint64_t mask)
{
	struct line_meta meta = {.seq = seq, .row = 7};

	make_line(fanout_reserve(f, format), seq, len);
	fanout_commit(f, format, len, &meta, mask);
}

static inline void put_lines(struct fanout *f, uint64_t first, uint64_t n, size_t len)
{
	for (uint64_t i = 0; i < n; i++)
		put_line(f, 0, first + i, len, FANOUT_ALL);
	fanout_flush(f);
}

/* A loss event as the tests write it. */
static inline int test_loss(void *ctx, const char *format, const struct sink_loss *loss, char *out,
			    size_t size, struct line_meta *ret_meta)
{
	return snprintf(out, size,
			"{\"loss\":\"%s\",\"sink\":\"%s\",\"count\":%" PRIu64 ",\"first\":%" PRIu64
			",\"last\":%" PRIu64 "}\n",
			sink_reason_names[loss->reason], loss->sink, loss->count, loss->seq_first,
			loss->seq_last);
}

/* What a reader made of a stream. */
struct reading {
	uint64_t lines, losses, lost;
	uint64_t first, last; /* seqs */
	uint64_t bad;         /* torn or strange lines */
	uint64_t disorder;    /* seq not above the one before */
	char rest[FANOUT_MAX_LINE + 1];
	size_t nrest;
};

static inline void read_line(struct reading *r, const char *line, size_t len)
{
	uint64_t seq, count;
	char reason[32], sink[64];

	if (sscanf(line, "{\"seq\":%" SCNu64 ",", &seq) == 1 && len > 2 &&
	    !memcmp(line + len - 2, "\"}", 2)) {
		r->disorder += r->lines && seq <= r->last;
		r->first = r->lines ? r->first : seq;
		r->last = seq;
		r->lines++;
	} else if (sscanf(line, "{\"loss\":\"%31[a-z_]\",\"sink\":\"%63[^\"]\",\"count\":%" SCNu64, reason,
			  sink, &count) == 3 &&
		   line[len - 1] == '}') {
		r->losses++;
		r->lost += count;
	} else {
		r->bad++;
	}
}

static inline void read_bytes(struct reading *r, const char *data, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (data[i] == '\n') {
			r->rest[r->nrest] = 0;
			read_line(r, r->rest, r->nrest);
			r->nrest = 0;
		} else if (r->nrest < FANOUT_MAX_LINE) {
			r->rest[r->nrest++] = data[i];
		}
	}
}

/* Until the end of the file; a rest without newline counts as bad. */
static inline void read_all(struct reading *r, int fd)
{
	static _Thread_local char data[65536];
	ssize_t n;

	while ((n = read(fd, data, sizeof(data))) > 0)
		read_bytes(r, data, (size_t)n);
	r->bad += r->nrest > 0;
}

static inline void read_path(struct reading *r, const char *path)
{
	int fd = open(path, O_RDONLY);

	assert_true(fd >= 0);
	memset(r, 0, sizeof(*r));
	read_all(r, fd);
	close(fd);
}

static inline struct sink_counters counters(struct fanout *f, size_t sink)
{
	struct sink_counters c;

	fanout_counters(f, sink, &c);
	assert_true(sink_counters_check(&c));
	return c;
}

/* Wait until a counter's condition holds, 5 s at most. */
#define wait_for(cond)                                \
	do {                                          \
		uint64_t end_ = now_ns() + 5000 * MS; \
		while (!(cond) && now_ns() < end_)    \
			sleep_ms(2);                  \
		assert_true(cond);                    \
	} while (0)

static inline struct config_sink file_sink(const char *name, const char *path)
{
	struct file_options *o = calloc(1, sizeof(*o));
	struct config_sink s = {
		.name = (char *)name, .ops = &sink_file, .format = (char *)"json", .options = o};

	o->path = (char *)path;
	o->mode = 0640;
	o->rotate.keep = 7;
	o->fsync_interval_ns = 1000 * MS;
	s.queue.max_events = SINK_QUEUE_EVENTS;
	s.queue.max_bytes = SINK_QUEUE_BYTES;
	return s;
}

static inline struct config_sink any_sink(const char *name, const struct sink_ops *ops, void *options)
{
	struct config_sink s = {
		.name = (char *)name, .ops = ops, .format = (char *)"json", .options = options};

	s.queue.max_events = SINK_QUEUE_EVENTS;
	s.queue.max_bytes = SINK_QUEUE_BYTES;
	return s;
}

static inline struct fanout *open_fanout(const struct config_sink *sinks, size_t n)
{
	char error[512] = "";
	struct fanout *f = NULL;
	int r = fanout_new(sinks, n, NULL, test_loss, NULL, &f, error, sizeof(error));

	if (r)
		print_error("fanout_new: %s\n", error);
	assert_int_equal(r, 0);
	return f;
}

#endif
