/* Sinks that misbehave on purpose and count for themselves. */
#ifndef CUDATAP_TEST_SINKS_MOCK_H
#define CUDATAP_TEST_SINKS_MOCK_H

#include <pthread.h>
#include <stdatomic.h>

#include "test_sinks.h"

/* What a mock sink does and what it saw. Counted by itself, independently of the room's counters. */
struct mock {
	unsigned random; /* seed: 0: takes everything */
	uint64_t gone_after;
	atomic_bool stall; /* as long as this is set */
	unsigned delay_us;
	atomic_bool blocks; /* in write(), deaf to everything */
	bool wait;          /* in sink_poll(), for ever */

	atomic_bool open;
	atomic_uint_fast64_t lines, lost, unknown; /* seqs seen */
	uint64_t last_seq, disorder, losses, told, reopened;
	uint64_t bytes;
	atomic_int writes;
	char text[16];

	/* async only */
	pthread_t thread;
	pthread_mutex_t lock;
	struct mock_message {
		uint64_t seq, bytes;
	} sent[4096];
	size_t nsent;
	bool ending;
	struct sink *sink;
};

static inline int mock_open(struct sink *sink, char *error, size_t error_size)
{
	struct mock *m = (struct mock *)sink->options;

	m->open = true;
	sink->priv = m;
	return 0;
}

static void mock_close(struct sink *sink, uint64_t deadline_ns)
{
	struct mock *m = sink->priv;

	assert_true(m->open);
	m->open = false;
}

static void mock_see(struct mock *m, const struct line *line)
{
	uint64_t count;
	char reason[32], sink[32];

	if (!line->meta.seq) {
		assert_int_equal(sscanf(line->data,
					"{\"loss\":\"%31[a-z_]\",\"sink\":\"%31[^\"]\",\"count\":%" SCNu64,
					reason, sink, &count),
				 3);
		m->losses++;
		m->told += count;
		return;
	}
	m->disorder += line->meta.seq <= m->last_seq;
	m->last_seq = line->meta.seq;
	m->lines++;
	m->bytes += line->len;
	memcpy(m->text, line->data, sizeof(m->text));
}

static struct sink_result mock_write(struct sink *sink, const struct line *lines, size_t n)
{
	struct mock *m = sink->priv;
	struct sink_result r = {.taken = n, .status = SINK_DONE, .reason = SINK_REJECTED};

	m->writes++;
	while (atomic_load(&m->blocks))
		sleep_ms(5);
	if (m->delay_us)
		usleep(m->delay_us);
	if (m->wait) {
		sink_poll(sink, -1, 0, SINK_NEVER);
		return (struct sink_result){.status = SINK_DONE};
	}
	if (m->random) {
		r.taken = rand_r(&m->random) % (n + 1);
		r.lost = rand_r(&m->random) % 4 ? 0 : rand_r(&m->random) % (n - r.taken + 1);
		if (!r.lost && rand_r(&m->random) % 16 == 0) {
			r.status = SINK_STALLED;
			r.reason = SINK_UNREACHABLE;
		}
	}
	if (m->stall)
		r = (struct sink_result){.status = SINK_STALLED, .reason = SINK_UNREACHABLE};
	for (size_t i = 0; i < r.taken; i++)
		mock_see(m, &lines[i]);
	for (size_t i = 0; i < r.lost; i++) {
		m->lost += lines[r.taken + i].meta.seq > 0;
		m->last_seq = lines[r.taken + i].meta.seq > 0 ? lines[r.taken + i].meta.seq : m->last_seq;
	}
	if (m->gone_after && m->lines >= m->gone_after)
		r = (struct sink_result){.taken = r.taken, .status = SINK_GONE, .reason = SINK_PIPE_CLOSED};
	return r;
}

static int mock_reopen(struct sink *sink)
{
	((struct mock *)sink->priv)->reopened++;
	return 0;
}

static const struct sink_ops mock_ops __attribute__((unused)) = {
	.type = "mock",
	.batch_bytes = 100000,
	.open = mock_open,
	.write = mock_write,
	.reopen = mock_reopen,
	.close = mock_close,
};

/* ---- a kind that learns later what became of its lines ---- */

static void *async_main(void *arg)
{
	struct mock *m = arg;
	unsigned rand = 7;
	bool ending = false;

	while (!ending) {
		struct mock_message sent[4096];
		size_t n;

		usleep(300);
		pthread_mutex_lock(&m->lock);
		ending = m->ending;
		n = m->nsent;
		memcpy(sent, m->sent, n * sizeof(sent[0]));
		m->nsent = 0;
		pthread_mutex_unlock(&m->lock);
		for (size_t i = 0; i < n; i++) {
			unsigned fate = rand_r(&rand) % 100;

			if (fate == 0) {
				m->unknown++;
				sink_unknown(m->sink, 1);
			} else if (fate < 5) {
				m->lost++;
				sink_dropped(m->sink, SINK_TIMED_OUT, 1, sent[i].seq, sent[i].seq);
			} else {
				m->lines++;
				sink_delivered(m->sink, 1, sent[i].bytes);
			}
		}
	}
	return NULL;
}

static int async_open(struct sink *sink, char *error, size_t error_size)
{
	struct mock *m = (struct mock *)sink->options;

	m->sink = sink;
	pthread_mutex_init(&m->lock, NULL);
	return mock_open(sink, error, error_size);
}

static struct sink_result async_write(struct sink *sink, const struct line *lines, size_t n)
{
	struct mock *m = sink->priv;
	struct sink_result r = {.status = SINK_DONE};

	if (!m->thread)
		pthread_create(&m->thread, NULL, async_main, m);
	pthread_mutex_lock(&m->lock);
	for (; r.taken < n && m->nsent < 4096; r.taken++) {
		const struct line *line = &lines[r.taken];

		if (line->meta.seq)
			m->sent[m->nsent++] = (struct mock_message){line->meta.seq, line->len};
		else
			m->losses++;
	}
	pthread_mutex_unlock(&m->lock);
	return r;
}

static void async_flush(struct sink *sink, uint64_t deadline_ns)
{
	struct mock *m = sink->priv;

	pthread_mutex_lock(&m->lock);
	m->ending = true;
	pthread_mutex_unlock(&m->lock);
	if (m->thread)
		pthread_join(m->thread, NULL);
	m->thread = 0; /* what is written after a flush comes with another one */
}

static const struct sink_ops async_ops __attribute__((unused)) = {
	.type = "async",
	.batch_bytes = 100000,
	.async = true,
	.open = async_open,
	.write = async_write,
	.flush = async_flush,
	.close = mock_close,
};

static inline struct config_sink mock_sink(const char *name, struct mock *m)
{
	return any_sink(name, &mock_ops, m);
}

#endif
