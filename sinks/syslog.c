/*
 * The sink `syslog`: each line is a message, on a datagram socket many by one
 * sendmmsg(2), on a stream many by one sendmsg(2).
 *
 * Delivered means that the kernel has taken the whole message for a connected
 * socket. Syslog has no answers: what a receiver had not read yet when it
 * died is lost, and nobody can know.
 *
 * On a stream `ahead` counts the bytes that are out already of the messages
 * from the first line on that has not been reported as taken. A message is
 * the same each time it is made, so it goes on there; when the connection
 * fails, it begins anew on the next one.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syslog.h"
#include "worker.h"

#define BATCH            256 /* messages that are made at once */
#define PIECES           (BATCH * SYSLOG_PIECES)
#define CAREFUL_NS       20000000ull /* for a refusal (ICMP) to come back over udp */
#define BURST            16          /* datagrams at once over udp ... */
#define BURST_NS         100000ull   /* ... and the pause behind them: a receiver's buffer holds some 200 */
#define TRIES            3           /* connections in one write() */
#define FALLBACK_MESSAGE 64          /* no kernel refuses a message that short */

static_assert(PIECES <= 1024, "sendmsg(2) takes UIO_MAXIOV pieces");

struct syslog_sink {
	struct syslog_link link;
	struct syslog_form form;
	size_t configured_max, max; /* bytes of a message; lowered when the kernel takes less */
	size_t ahead;

	/* the batch being sent */
	size_t n;
	uint32_t size[BATCH]; /* of each message, in bytes */
	struct mmsghdr msgs[BATCH];
	struct iovec iov[PIECES];
	int niov;
	char heads[BATCH][SYSLOG_MAX_HEAD];
};

/* ---- batches ---- */

/* Messages of as many lines as there is room for, up to one that is too large. */
static void batch_make(struct syslog_sink *s, const struct line *lines, size_t n)
{
	s->n = 0;
	s->niov = 0;
	while (s->n < n && s->n < BATCH) {
		struct iovec *iov = &s->iov[s->niov];
		int count;
		size_t size = syslog_message(&s->form, &lines[s->n], s->max, s->heads[s->n], iov, &count);

		if (!size)
			break;
		s->size[s->n] = (uint32_t)size;
		s->msgs[s->n].msg_hdr = (struct msghdr){.msg_iov = iov, .msg_iovlen = (size_t)count};
		s->niov += count;
		s->n++;
	}
}

/* Take @skip bytes off the front of @count pieces from *@first on. */
static void skip_bytes(struct iovec *iov, int count, int *first, size_t skip)
{
	while (*first < count && skip >= iov[*first].iov_len)
		skip -= iov[(*first)++].iov_len;
	if (*first < count) {
		iov[*first].iov_base = (char *)iov[*first].iov_base + skip;
		iov[*first].iov_len -= skip;
	}
}

/* Bytes out become whole messages in @result, the rest stays ahead. */
static void count_whole(struct syslog_sink *s, struct sink_result *result)
{
	while (result->taken < s->n && s->ahead >= s->size[result->taken])
		s->ahead -= s->size[result->taken++];
}

/* ---- streams ---- */

/* 0, or a negative errno: the connection has failed. */
static int stream_send(struct syslog_sink *s, struct sink_result *result)
{
	struct syslog_link *link = &s->link;
	int first = 0, r = 1;

	skip_bytes(s->iov, s->niov, &first, s->ahead);
	while (r > 0 && first < s->niov) {
		ssize_t sent = link_send(link, s->iov + first, s->niov - first);

		if (sent >= 0) {
			s->ahead += (size_t)sent;
			skip_bytes(s->iov, s->niov, &first, (size_t)sent);
		} else if (sent == -EAGAIN || sent == -ENOBUFS || sent == -ENOMEM) {
			r = link_wait(link, (int)-sent);
		} else {
			r = (int)sent;
		}
	}
	count_whole(s, result);
	result->partial = s->ahead || link->nrecord;
	return r < 0 ? r : 0;
}

/* ---- datagrams ---- */

/* Has the message just sent been refused? Nobody listening shows within a round trip, if at all. */
static int datagram_refused(struct syslog_link *link)
{
	socklen_t len = sizeof(int);
	int error = 0;

	if (sink_poll(link->sink, link->fd, 0, CAREFUL_NS) == 1)
		getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &len);
	return -error;
}

/* Bytes of a message that was too large for the kernel: the next limit is below. */
static void lower_max(struct syslog_sink *s, size_t size)
{
	s->max = size > FALLBACK_MESSAGE ? size - 1 : s->max;
}

/* One call. Messages sent, or a negative errno. */
static int datagram_once(struct syslog_sink *s, size_t from)
{
	struct syslog_link *link = &s->link;
	bool udp = link->target.transport == SYSLOG_UDP;
	size_t max = link->careful ? 1 : udp ? BURST : BATCH, n = s->n - from;
	int sent = sendmmsg(link->fd, &s->msgs[from], (unsigned)(n < max ? n : max), MSG_DONTWAIT), r = 0;

	if (sent < 0)
		return -errno;
	if (link->careful)
		r = datagram_refused(link);
	else if (udp && sent == BURST)
		sink_poll(link->sink, -1, 0, BURST_NS);
	link->careful = false;
	return r ? r : sent;
}

static int datagram_send(struct syslog_sink *s, struct sink_result *result)
{
	int r = 1;

	while (r > 0 && result->taken < s->n) {
		r = datagram_once(s, result->taken);
		if (r >= 0) {
			result->taken += (size_t)r;
			r = 1;
		} else if (r == -EAGAIN || r == -ENOBUFS || r == -ENOMEM) {
			s->link.wants = POLLOUT;
			r = link_wait(&s->link, -r);
		} else if (r == -EINTR) {
			r = 1;
		} else if (r == -EMSGSIZE) {
			lower_max(s, s->size[result->taken]);
			r = 0;
		}
	}
	return r;
}

/* ---- the kind ---- */

static int make_tls(struct syslog_sink *s, struct sink *sink, char *error, size_t error_size)
{
	char why[400];
	int r;

	if (s->link.target.transport != SYSLOG_TLS)
		return 0;
	r = syslog_tls_new(sink->options, &s->link.tls, why, sizeof(why));
	if (r)
		snprintf(error, error_size, "sink %s: %s", sink->name, why);
	return r;
}

/* Whether the receiver is there shows with the first line: it may come up later than we. */
static int syslog_open(struct sink *sink, char *error, size_t error_size)
{
	const struct syslog_options *o = sink->options;
	struct syslog_sink *s = calloc(1, sizeof(*s));
	struct syslog_target target;
	int r;

	if (!s) {
		snprintf(error, error_size, "sink %s: out of memory", sink->name);
		return -ENOMEM;
	}
	r = syslog_target_parse(o->target, &target, error, error_size);
	if (!r) {
		link_init(&s->link, sink, &target);
		r = make_tls(s, sink, error, error_size);
	}
	if (r) {
		free(s);
		return r;
	}
	syslog_form_init(&s->form, o, target.transport, sink->origin);
	s->configured_max = syslog_max_message(o, target.transport);
	s->max = s->configured_max;
	sink->priv = s;
	sink->target = o->target;
	return 0;
}

static struct sink_result stalled(const struct syslog_link *link, struct sink_result result)
{
	result.status = SINK_STALLED;
	result.reason = link->reason;
	result.error = link->error;
	result.detail = *link->detail ? link->detail : NULL;
	return result;
}

/* A connection that can be used: 1, or 0 with the reason in the link. */
static int connected(struct syslog_sink *s)
{
	bool was = s->link.fd >= 0;

	if (was && !link_alive(&s->link)) {
		link_lost(&s->link, ECONNRESET);
		was = false;
	}
	if (was)
		return 1;
	s->ahead = 0;
	s->max = s->configured_max;
	if (!link_open(&s->link))
		return 0;
	syslog_form_connected(&s->form, s->link.datagram);
	return 1;
}

static struct sink_result syslog_write(struct sink *sink, const struct line *lines, size_t n)
{
	struct syslog_sink *s = sink->priv;
	struct sink_result result = {.status = SINK_DONE};
	int r = -ENOTCONN;

	for (int tries = 0; r < 0 && !result.taken; tries++) {
		if (tries == TRIES || !connected(s))
			return stalled(&s->link, result);
		batch_make(s, lines, n);
		r = s->link.datagram ? datagram_send(s, &result) : stream_send(s, &result);
		if (r < 0)
			link_lost(&s->link, -r);
	}
	if (r < 0)
		result.partial = false;
	if (result.taken == s->n && s->n < n && s->n < BATCH && !result.partial) {
		result.lost = 1;
		result.reason = SINK_TOO_LARGE;
	}
	return result;
}

static struct sink_result syslog_tick(struct sink *sink)
{
	struct syslog_sink *s = sink->priv;

	return (struct sink_result){.taken = link_tick(&s->link), .status = SINK_DONE};
}

/* Files of TLS are read again for connections to come; the one that works stays. */
static int syslog_reopen(struct sink *sink)
{
	struct syslog_sink *s = sink->priv;
	struct syslog_tls *old = s->link.tls;
	char why[512];
	int r;

	link_hurry(&s->link);
	if (!old)
		return 0;
	r = make_tls(s, sink, why, sizeof(why));
	if (r)
		s->link.tls = old;
	else
		syslog_tls_free(old);
	return r;
}

static void syslog_origin(struct sink *sink)
{
	struct syslog_sink *s = sink->priv;

	syslog_form_init(&s->form, sink->options, s->link.target.transport, sink->origin);
	syslog_form_connected(&s->form, s->link.datagram);
}

static void syslog_flush(struct sink *sink, uint64_t deadline_ns)
{
	struct syslog_sink *s = sink->priv;

	if (!s->ahead && !s->link.nrecord)
		link_finish(&s->link);
}

static void syslog_close(struct sink *sink, uint64_t deadline_ns)
{
	struct syslog_sink *s = sink->priv;

	link_free(&s->link);
	free(s);
}

const struct sink_ops sink_syslog = {
	.type = "syslog",
	.about = "messages for a syslog daemon, here or on the network",
	.keys = syslog_keys,
	.options_size = sizeof(struct syslog_options),
	.batch_bytes = 256 << 10,
	.spools = true,
	.patient = true,
	.check = syslog_check,
	.from_url = syslog_from_url,
	.urls = "syslog:, unix:PATH, syslog+udp://HOST:PORT, syslog+tcp://HOST:PORT, syslog+tls://HOST:PORT",
	.open = syslog_open,
	.write = syslog_write,
	.flush = syslog_flush,
	.reopen = syslog_reopen,
	.tick = syslog_tick,
	.origin = syslog_origin,
	.close = syslog_close,
};
