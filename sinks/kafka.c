/*
 * The sink `kafka`: one message per line, by librdkafka. A line counts as
 * delivered when the broker's acknowledgement is in, never when it is handed
 * to librdkafka.
 *
 * Lines are not copied: a message refers to its line in the chunk, which is
 * pinned until the report on the message comes. Everything but librdkafka's own
 * threads happens in the sink's worker thread: reports are taken there, woken by
 * an eventfd that librdkafka writes to. The lines in librdkafka's hands keep to
 * the bounds of the sink's queue; beyond them the queue fills.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../streamer/log.h"
#include "kafka.h"
#include "kinds.h"
#include "worker.h"

#define MS              1000000ull
#define WAIT_NS         (100 * MS)  /* for room, before the worker has another look around */
#define SILENCE_NS      (5000 * MS) /* without any report, with lines in flight: nobody answers */
#define FLUSH_NS        (20 * MS)   /* one step of a flush */
#define PURGE_NS        (300 * MS)  /* for the last reports */
#define DESTROY_NS      (400 * MS)  /* for the handle to end, with the deadline near */
#define DESTROY_LONG_NS (2000 * MS)

/* ---- the fate of lines ---- */

static void tally_drop(struct kafka *k, const struct line *line, enum sink_reason reason)
{
	typeof(k->tally.dropped[0]) *dropped = &k->tally.dropped[reason];

	if (!line->meta.seq)
		return;
	if (!dropped->n || line->meta.seq < dropped->first)
		dropped->first = line->meta.seq;
	if (line->meta.seq > dropped->last)
		dropped->last = line->meta.seq;
	dropped->n++;
}

/*
 * A line out of the spool that may yet arrive is not lost. It comes again behind all that is in our hands
 * now: for the sake of order that goes back as well, be it sent or not. (What a broker takes of it all the
 * same arrives twice.)
 */
static void give_back(struct kafka *k, struct line *line)
{
	sink_give_back(k->sink, &line->meta);
	kafka_let_go(k, line);
	k->returned++;
	if (k->state == KAFKA_DOWN || k->closing)
		return;
	handle_retire(k);
	if (!k->purged)
		handle_purge(k);
}

void kafka_return(struct kafka *k)
{
	struct kafka_lines *again = &k->again;
	size_t n = 0;

	for (size_t i = 0; i < again->n; i++) {
		if (again->list[i]->meta.spool)
			give_back(k, again->list[i]);
		else
			again->list[n++] = again->list[i];
	}
	k->reported |= n < again->n;
	again->n = n;
	kafka_tell(k);
}

void kafka_drop(struct kafka *k, struct line *line, enum sink_reason reason)
{
	if (line->meta.spool && reason != SINK_TOO_LARGE && reason != SINK_REJECTED) {
		give_back(k, line);
		return;
	}
	sink_release(k->sink, &line->meta);
	tally_drop(k, line, reason);
	kafka_let_go(k, line);
}

void kafka_give_up(struct kafka *k)
{
	enum sink_reason reason = k->trouble.on ? k->trouble.reason : SINK_SHUTDOWN;

	for (size_t i = 0; i < k->again.n; i++)
		kafka_drop(k, k->again.list[i], reason);
	k->reported |= k->again.n > 0;
	k->again.n = 0;
	kafka_tell(k);
}

static bool may_go_again(const struct kafka *k, rd_kafka_resp_err_t err, size_t batch)
{
	if (k->closing)
		return false;
	if (err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)
		return batch > 1; /* perhaps another line of the batch is to blame */
	return err == RD_KAFKA_RESP_ERR__PURGE_QUEUE;
}

/* The reason to be counted: what librdkafka says of one message is often the end of a longer story. */
static enum sink_reason reason_of(const struct kafka *k, rd_kafka_resp_err_t err)
{
	enum sink_reason reason = kafka_meaning(err).reason;

	if (reason == SINK_SHUTDOWN && !k->closing)
		reason = SINK_FATAL;
	if ((reason == SINK_TIMED_OUT || reason == SINK_SHUTDOWN) && k->trouble.on)
		reason = k->trouble.reason;
	return reason;
}

static void delivered(struct kafka *k, struct line *line)
{
	if (line->meta.seq) {
		k->tally.delivered++;
		k->tally.bytes += line->len;
	}
	sink_release(k->sink, &line->meta);
	kafka_let_go(k, line);
	if (k->trouble.said)
		log_msg("sink %s: %s: lines arrive again", k->sink->name, k->target);
	k->trouble.on = k->trouble.said = false;
	k->failures = 0;
}

void kafka_fate(struct kafka *k, const rd_kafka_message_t *message, size_t batch)
{
	struct line *line = message->_private;
	struct kafka_meaning meaning = kafka_meaning(message->err);
	bool unsure = !meaning.refused &&
		      rd_kafka_message_status(message) == RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED;

	if (!message->err) {
		delivered(k, line);
	} else if (line->meta.spool && (unsure || meaning.standing)) {
		give_back(k, line);
		if (!unsure)
			kafka_trouble(k, message->err, rd_kafka_err2str(message->err));
	} else if (unsure) {
		k->tally.unknown += line->meta.seq != 0;
		kafka_let_go(k, line);
	} else if (!may_go_again(k, message->err, batch) || !kafka_keep(k, line)) {
		kafka_drop(k, line, reason_of(k, message->err));
		if (meaning.reason != SINK_SHUTDOWN && meaning.reason != SINK_TOO_LARGE)
			kafka_trouble(k, message->err, rd_kafka_err2str(message->err));
	}
	k->reported = true;
}

void kafka_tell(struct kafka *k)
{
	struct kafka_tally *tally = &k->tally;

	kafka_unpin(k);
	if (!k->reported)
		return;
	k->reported = false;
	k->progress_ns = worker_now();
	if (tally->delivered)
		sink_delivered(k->sink, tally->delivered, tally->bytes);
	if (tally->unknown)
		sink_unknown(k->sink, tally->unknown);
	for (int i = 0; i < SINK_NREASONS; i++)
		if (tally->dropped[i].n)
			sink_dropped(k->sink, (enum sink_reason)i, tally->dropped[i].n,
				     tally->dropped[i].first, tally->dropped[i].last);
	*tally = (struct kafka_tally){0};
}

/* ---- handing over ---- */

/* The keys of the batch; returns for how many lines there was room. */
static size_t make_keys(struct kafka *k, size_t n)
{
	const struct line_meta *last = NULL;
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		const struct line_meta *meta = &k->batch[i]->meta;
		rd_kafka_message_t *message = &k->messages[i];
		bool same = last && !k->key.seq && meta->pid == last->pid && meta->tid == last->tid &&
			    meta->row == last->row && meta->status == last->status &&
			    meta->type == last->type;

		if (same) {
			message->key = message[-1].key;
			message->key_len = message[-1].key_len;
			continue;
		}
		if (used + KAFKA_KEY_MAX > sizeof(k->keys))
			return i;
		message->key = k->key.nparts ? &k->keys[used] : NULL;
		message->key_len = kafka_key_format(&k->key, meta, &k->keys[used]);
		used += message->key_len;
		last = meta;
	}
	return n;
}

/* One message with headers; it owns a copy of them once it is taken. */
static rd_kafka_resp_err_t produce_one(struct kafka *k, const rd_kafka_message_t *message)
{
	rd_kafka_headers_t *headers = rd_kafka_headers_copy(k->headers);
	const rd_kafka_vu_t args[] = {
		{.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = k->topic},
		{.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {message->payload, message->len}},
		{.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {message->key, message->key_len}},
		{.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = message->_private},
		{.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
	};
	rd_kafka_error_t *error = rd_kafka_produceva(k->rk, args, sizeof(args) / sizeof(args[0]));
	rd_kafka_resp_err_t err = error ? rd_kafka_error_code(error) : RD_KAFKA_RESP_ERR_NO_ERROR;

	if (error)
		rd_kafka_headers_destroy(headers);
	rd_kafka_error_destroy(error);
	return err;
}

/* Each message's fate so far is in its err. */
static void produce(struct kafka *k, size_t n)
{
	size_t i = 0;

	if (!k->headers) {
		rd_kafka_produce_batch(k->topic, RD_KAFKA_PARTITION_UA, 0, k->messages, (int)n);
		return;
	}
	do
		k->messages[i].err = produce_one(k, &k->messages[i]);
	while (!k->messages[i++].err && i < n);
	for (; i < n; i++)
		k->messages[i].err = k->messages[i - 1].err;
}

/* Does the error stop everything, or this message only? A handle that failed answers with its cause. */
static bool stops(const struct kafka *k, rd_kafka_resp_err_t *err)
{
	char text[1];

	if (rd_kafka_fatal_error(k->rk, text, sizeof(text)))
		*err = RD_KAFKA_RESP_ERR__FATAL;
	return *err == RD_KAFKA_RESP_ERR__QUEUE_FULL || *err == RD_KAFKA_RESP_ERR__FATAL ||
	       kafka_meaning(*err).standing;
}

/* Hand over the first of the lines in k->batch[]; returns for how many that settled it. */
static size_t submit(struct kafka *k, size_t n, rd_kafka_resp_err_t *ret_err)
{
	size_t i;

	*ret_err = RD_KAFKA_RESP_ERR_NO_ERROR;
	n = make_keys(k, n);
	for (i = 0; i < n; i++) {
		k->messages[i].payload = (void *)k->batch[i]->data;
		k->messages[i].len = k->batch[i]->len - 1; /* without the newline */
		k->messages[i]._private = k->batch[i];
	}
	produce(k, n);
	if (!k->produced)
		k->progress_ns = worker_now();
	for (i = 0; i < n; i++) {
		rd_kafka_resp_err_t err = k->messages[i].err;

		if (!err) {
			k->produced++;
		} else if (stops(k, &err)) {
			*ret_err = err;
			break;
		} else {
			kafka_drop(k, k->batch[i], reason_of(k, err));
			k->reported = true;
		}
	}
	return i;
}

/* What stopped the handing over. */
static void stopped(struct kafka *k, rd_kafka_resp_err_t err)
{
	if (err == RD_KAFKA_RESP_ERR__FATAL)
		handle_failed(k);
	else if (err && err != RD_KAFKA_RESP_ERR__QUEUE_FULL)
		kafka_trouble(k, err, rd_kafka_err2str(err));
}

/* Lines of the handle before come first. */
static void submit_again(struct kafka *k)
{
	struct kafka_lines *again = &k->again;
	size_t done = 0;

	while (done < again->n && k->state == KAFKA_UP) {
		size_t n = again->n - done < KAFKA_BATCH ? again->n - done : KAFKA_BATCH, taken;
		rd_kafka_resp_err_t err;

		memcpy(k->batch, &again->list[done], n * sizeof(*k->batch));
		taken = submit(k, n, &err);
		done += taken;
		stopped(k, err);
		if (err || !taken)
			break;
	}
	again->n -= done;
	memmove(again->list, again->list + done, again->n * sizeof(*again->list));
	kafka_tell(k);
}

static bool ready(const struct kafka *k)
{
	return k->state == KAFKA_UP && !k->again.n && !k->closing;
}

static void serve(struct kafka *k)
{
	handle_serve(k);
	if (k->again.n && !k->closing)
		submit_again(k);
}

/* Nothing can be taken now: is that trouble, or just a full pipe? */
static struct sink_result wait_result(struct kafka *k)
{
	struct sink_result result = {.status = SINK_DONE};

	if (k->trouble.on) {
		result.status = SINK_STALLED;
		result.reason = k->trouble.reason;
		result.detail = k->trouble.said ? NULL : k->trouble.text;
	} else if (k->held && worker_now() - k->progress_ns > SILENCE_NS) {
		result.status = SINK_STALLED;
		result.reason = SINK_TIMED_OUT;
		result.detail = "no answer";
	}
	return result;
}

static struct sink_result kafka_write(struct sink *sink, const struct line *lines, size_t n)
{
	struct kafka *k = sink->priv;
	uint64_t returned = k->returned;
	rd_kafka_resp_err_t err;
	size_t fit, held, taken;

	serve(k);
	fit = ready(k) ? kafka_room(k, lines, n) : 0;
	if (!fit) {
		sink_poll(sink, k->event_fd, POLLIN, WAIT_NS);
		serve(k);
		fit = ready(k) ? kafka_room(k, lines, n) : 0;
	}
	if (k->returned != returned)
		return (struct sink_result){.status = SINK_DONE}; /* those come before these */
	if (!fit)
		return wait_result(k);
	held = kafka_hold(k, lines, fit < KAFKA_BATCH ? fit : KAFKA_BATCH);
	if (!held)
		return (struct sink_result){.status = SINK_STALLED, .reason = SINK_IO_ERROR, .error = ENOMEM};
	taken = submit(k, held, &err);
	for (size_t i = taken; i < held; i++)
		kafka_let_go(k, k->batch[i]);
	stopped(k, err);
	kafka_tell(k);
	if (taken)
		return (struct sink_result){.taken = taken};
	return wait_result(k);
}

static struct sink_result kafka_tick(struct sink *sink)
{
	struct kafka *k = sink->priv;

	serve(k);
	return (struct sink_result){.taken = ready(k) && k->held < sink->max_events};
}

/* Certificates and the password's file are read when a handle is made. */
static int kafka_reopen(struct sink *sink)
{
	handle_retire(sink->priv);
	return 0;
}

/* ---- life ---- */

static int make_target(struct kafka *k)
{
	const struct config_strings *brokers = &k->options->brokers;
	const char *more = brokers->n > 1 ? " and others" : "";

	if (asprintf(&k->target, "topic %s at %s%s", k->options->topic, brokers->list[0], more) < 0) {
		k->target = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int make_headers(struct kafka *k)
{
	const char *host = k->sink->origin ? k->sink->origin->host : NULL;
	rd_kafka_resp_err_t err;

	if (!k->options->headers)
		return 0;
	k->headers = rd_kafka_headers_new(3);
	err = rd_kafka_header_add(k->headers, "content-type", -1, "application/json", -1);
	if (!err)
		err = rd_kafka_header_add(k->headers, "schema-version", -1, KAFKA_SCHEMA_VERSION, -1);
	if (!err && host)
		err = rd_kafka_header_add(k->headers, "host", -1, host, -1);
	return err ? -EINVAL : 0;
}

static void kafka_free(struct kafka *k)
{
	if (k->headers)
		rd_kafka_headers_destroy(k->headers);
	if (k->event_fd >= 0)
		close(k->event_fd);
	pins_free(&k->pins);
	free(k->again.list);
	free(k->target);
	free(k);
}

static int kafka_make(struct kafka *k, char *error, size_t size)
{
	int r;

	k->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (k->event_fd < 0)
		return -errno;
	r = make_target(k);
	if (!r)
		r = kafka_key_parse(k->options->key ? k->options->key : "", k->sink->origin, &k->key, error,
				    size);
	if (!r)
		r = make_headers(k);
	if (!r)
		r = handle_open(k, error, size);
	return r;
}

static int kafka_open(struct sink *sink, char *error, size_t error_size)
{
	struct kafka *k = calloc(1, sizeof(*k));
	char why[384] = "";
	int r;

	if (!k)
		return -ENOMEM;
	k->sink = sink;
	k->options = sink->options;
	k->event_fd = -1;
	r = kafka_make(k, why, sizeof(why));
	if (r) {
		snprintf(error, error_size, "sink %s: %s", sink->name, *why ? why : strerror(-r));
		grave_wait(k, 0);
		kafka_free(k);
		return r;
	}
	sink->priv = k;
	sink->target = k->target;
	sink->idle_fd = k->event_fd;
	sink->idle_events = POLLIN;
	return 0;
}

/* Serve until nothing is in our hands or the time is up; false: a stop's deadline has passed. */
static bool flush_step(struct kafka *k, uint64_t deadline_ns)
{
	uint64_t begin = worker_now();

	serve(k);
	if (!k->held || begin >= deadline_ns)
		return false;
	/* Within a flush librdkafka lets no message linger. */
	if (k->rk)
		rd_kafka_flush(k->rk, 1);
	return sink_poll(k->sink, k->event_fd, POLLIN, FLUSH_NS) || worker_now() - begin >= FLUSH_NS;
}

/* Keys that are yet to be made for lines of a failed handle get this origin, too. */
static void kafka_origin(struct sink *sink)
{
	struct kafka *k = sink->priv;
	char why[256];

	/* neither fails: the same template and names of the same length were taken before */
	kafka_key_parse(k->options->key ? k->options->key : "", sink->origin, &k->key, why, sizeof(why));
	if (k->headers)
		rd_kafka_headers_destroy(k->headers);
	k->headers = NULL;
	make_headers(k);
}

/* Drain, give up on the rest, and take the reports on that, so that each line ends with a reason. */
static void kafka_flush(struct sink *sink, uint64_t deadline_ns)
{
	struct kafka *k = sink->priv;
	const struct timespec nap = {.tv_nsec = MS};
	uint64_t end;

	while (flush_step(k, deadline_ns))
		;
	if (!k->held)
		return;
	k->closing = true;
	handle_purge(k);
	end = worker_now() + PURGE_NS;
	for (serve(k); k->produced && worker_now() < end; serve(k))
		nanosleep(&nap, NULL);
	kafka_give_up(k);
}

static void kafka_close(struct sink *sink, uint64_t deadline_ns)
{
	struct kafka *k = sink->priv;
	uint64_t now = worker_now();

	/* A thread of librdkafka may be waiting for a name server: it is left behind then. */
	handle_close(k);
	grave_wait(k, now + (deadline_ns > now + DESTROY_LONG_NS ? DESTROY_LONG_NS : DESTROY_NS));
	kafka_free(k);
	sink->priv = NULL;
}

const struct sink_ops sink_kafka = {
	.type = "kafka",
	.about = "messages of a Kafka topic",
	.keys = kafka_keys,
	.options_size = sizeof(struct kafka_options),
	.batch_bytes = CHUNK_BYTES,
	.async = true,
	.spools = true,
	.patient = true,
	.tick_ns = 1000 * MS,
	.check = kafka_check,
	.from_url = kafka_from_url,
	.urls = "kafka://HOST:PORT/TOPIC",
	.open = kafka_open,
	.write = kafka_write,
	.flush = kafka_flush,
	.reopen = kafka_reopen,
	.tick = kafka_tick,
	.origin = kafka_origin,
	.close = kafka_close,
};
