/*
 * One librdkafka producer: making it, taking its reports, ending it. An
 * idempotent producer can meet an error after which it never sends again, and
 * the size of batches is fixed when it is made; in both cases the sink goes on
 * with a new one, and what the old one has not sent goes there, in order.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <openssl/x509_vfy.h>

#include "../streamer/log.h"
#include "kafka.h"
#include "worker.h"

#define MS           1000000ull
#define PATIENCE_NS  (5000 * MS)  /* for requests under way when a handle ends */
#define QUIET_NS     (10000 * MS) /* between two messages about one reason */
#define GROW_NS      (10000 * MS) /* after a refusal, before larger batches are tried again */
#define RENEW_MAX_NS (30000 * MS) /* between two new handles when each fails at once */
#define MAX_FAILURES 3            /* handles that failed in a row: then their lines are given up */
#define RENEW_MIN_NS (1000 * MS)
#define LOG_CRITICAL 2 /* syslog(3) */

/* ---- the end of handles ---- */

/* Shared by a sink and the threads that destroy its handles, which may outlive it. */
struct kafka_grave {
	atomic_uint refs;    /* the sink's and one for each thread */
	atomic_uint pending; /* threads */
	atomic_int x509; /* what is wrong with the broker's certificate (X509_V_ERR_...), 0: nothing known */
	bool debug;
	char name[]; /* of the sink, for librdkafka's log */
};

struct burial {
	struct kafka_grave *grave;
	rd_kafka_t *rk;
};

static void grave_unref(struct kafka_grave *grave)
{
	if (grave && atomic_fetch_sub(&grave->refs, 1) == 1)
		free(grave);
}

static void *bury(void *arg)
{
	struct burial burial = *(struct burial *)arg;

	free(arg);
	rd_kafka_destroy(burial.rk);
	atomic_fetch_sub(&burial.grave->pending, 1);
	grave_unref(burial.grave);
	return NULL;
}

static void grave_add(struct kafka_grave *grave, rd_kafka_t *rk)
{
	struct burial *burial = malloc(sizeof(*burial));
	pthread_attr_t attr;
	pthread_t thread;
	int r = burial ? 0 : -ENOMEM;

	if (!r) {
		*burial = (struct burial){grave, rk};
		atomic_fetch_add(&grave->refs, 1);
		atomic_fetch_add(&grave->pending, 1);
		pthread_attr_init(&attr);
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		r = pthread_create(&thread, &attr, bury, burial);
		pthread_attr_destroy(&attr);
		if (!r)
			return;
		atomic_fetch_sub(&grave->pending, 1);
		atomic_fetch_sub(&grave->refs, 1);
		free(burial);
	}
	rd_kafka_destroy(rk);
}

void grave_wait(struct kafka *k, uint64_t until_ns)
{
	const struct timespec nap = {.tv_nsec = 2 * MS};

	while (k->grave && atomic_load(&k->grave->pending) && worker_now() < until_ns)
		nanosleep(&nap, NULL);
	grave_unref(k->grave);
	k->grave = NULL;
}

static struct kafka_grave *grave_new(const struct kafka *k)
{
	size_t len = strlen(k->sink->name) + 1;
	struct kafka_grave *grave = malloc(sizeof(*grave) + len);

	if (!grave)
		return NULL;
	atomic_init(&grave->refs, 1);
	atomic_init(&grave->pending, 0);
	atomic_init(&grave->x509, 0);
	grave->debug = kafka_conf_debug(k->options);
	memcpy(grave->name, k->sink->name, len);
	return grave;
}

/* ---- making one ---- */

/* Errors come as events, too: of the log we show what is critical, and all of it on demand. */
static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
	const struct kafka_grave *grave = rd_kafka_opaque(rk);

	if (grave->debug || (level <= LOG_CRITICAL && strcmp(facility, "FATAL")))
		log_msg("sink %s: librdkafka: %s: %s", grave->name, facility, text);
}

/* OpenSSL's verdict stands; we keep its reason, which librdkafka's errors do not tell. */
/* NOLINTNEXTLINE(readability-non-const-parameter): as librdkafka has it */
static int on_certificate(rd_kafka_t *rk, const char *broker, int32_t id, int *error, int depth,
			  const char *der, size_t der_size, char *text, size_t text_size, void *opaque)
{
	struct kafka_grave *grave = opaque;

	if (!*error)
		return 1;
	atomic_store(&grave->x509, *error);
	snprintf(text, text_size, "%s", X509_verify_cert_error_string(*error));
	return 0;
}

static int make_conf(struct kafka *k, rd_kafka_conf_t **ret_conf, char *error, size_t size)
{
	rd_kafka_conf_t *conf;
	char text[32], why[256];
	int r = kafka_conf_new(k->options, false, &conf, error, size);

	if (r)
		return r;
	if (k->batch_bytes) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)k->batch_bytes);
		rd_kafka_conf_set(conf, "batch.size", text, why, sizeof(why));
	}
	/* A line of a spool is never too late, and when one has to come again none after it may go before. */
	if (k->sink->spooled)
		rd_kafka_conf_set(conf, "message.timeout.ms", "0", why, sizeof(why));
	if (k->sink->spooled && k->options->idempotence)
		rd_kafka_conf_set(conf, "enable.gapless.guarantee", "true", why, sizeof(why));
	rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
	rd_kafka_conf_set_log_cb(conf, on_log);
	rd_kafka_conf_set_opaque(conf, k->grave);
	if (kafka_tls(k->options))
		rd_kafka_conf_set_ssl_cert_verify_cb(conf, on_certificate);
	*ret_conf = conf;
	return 0;
}

int handle_open(struct kafka *k, char *error, size_t error_size)
{
	static const uint64_t one = 1;
	rd_kafka_conf_t *conf;
	char why[512];
	int r;

	if (!k->grave)
		k->grave = grave_new(k);
	if (!k->grave)
		return -ENOMEM;
	r = make_conf(k, &conf, error, error_size);
	if (r)
		return r;
	k->rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	if (!k->rk) {
		rd_kafka_conf_destroy(conf);
		snprintf(error, error_size, "librdkafka: %s", why);
		return -EINVAL;
	}
	k->topic = rd_kafka_topic_new(k->rk, k->options->topic, NULL);
	if (!k->topic) {
		snprintf(error, error_size, "topic %s: %s", k->options->topic,
			 rd_kafka_err2str(rd_kafka_last_error()));
		rd_kafka_destroy(k->rk);
		k->rk = NULL;
		return -EINVAL;
	}
	k->queue = rd_kafka_queue_get_main(k->rk);
	rd_kafka_queue_io_event_enable(k->queue, k->event_fd, &one, sizeof(one));
	k->returned_before = k->returned;
	k->state = KAFKA_UP;
	return 0;
}

void handle_close(struct kafka *k)
{
	if (!k->rk)
		return;
	rd_kafka_queue_io_event_enable(k->queue, -1, NULL, 0);
	rd_kafka_queue_destroy(k->queue);
	rd_kafka_topic_destroy(k->topic);
	grave_add(k->grave, k->rk);
	k->rk = NULL;
	k->queue = NULL;
	k->topic = NULL;
	k->produced = 0;
	k->state = KAFKA_DOWN;
}

/* ---- trouble ---- */

/* What to do about it. */
static const char *advice(const struct kafka *k, rd_kafka_resp_err_t err, char *out, size_t size)
{
	const char *mechanism = k->options->sasl.mechanism;

	/* Older ones send a nonce that brokers from 4.0 on refuse (CHANGELOG.md of librdkafka, 2.6.1). */
	if (err == RD_KAFKA_RESP_ERR__AUTHENTICATION && mechanism && !strncmp(mechanism, "SCRAM", 5) &&
	    rd_kafka_version() < 0x020601ff) {
		snprintf(out, size,
			 "check `sasl`; brokers from Kafka 4 on refuse SCRAM of librdkafka %s, which this "
			 "cudatap uses: the portable build has a newer one",
			 rd_kafka_version_str());
		return out;
	}
	return kafka_meaning(err).advice;
}

/* What is known of it beyond the text, or an empty string. */
static const char *cause(struct kafka *k, rd_kafka_resp_err_t err)
{
	int x509 = 0;

	if (err == RD_KAFKA_RESP_ERR__SSL && k->grave)
		x509 = atomic_exchange(&k->grave->x509, 0);
	return x509 ? X509_verify_cert_error_string(x509) : "";
}

void kafka_trouble(struct kafka *k, rd_kafka_resp_err_t err, const char *text)
{
	struct kafka_meaning meaning = kafka_meaning(err);
	struct kafka_trouble *trouble = &k->trouble;
	uint64_t now = worker_now();
	const char *more, *why;
	char room[256];

	/* Whoever is not let in is also cut off, and late after that: the first of these is the cause. */
	if (!trouble->on || (trouble->reason != meaning.reason && meaning.reason != SINK_UNREACHABLE &&
			     meaning.reason != SINK_TIMED_OUT)) {
		trouble->on = true;
		trouble->reason = meaning.reason;
		snprintf(trouble->text, sizeof(trouble->text), "%s", text);
	}
	if (now < k->quiet_ns[meaning.reason] || (trouble->reason != meaning.reason && trouble->said))
		return;
	k->quiet_ns[meaning.reason] = now + QUIET_NS;
	trouble->said = true;
	more = advice(k, err, room, sizeof(room));
	why = cause(k, err);
	log_msg("sink %s: %s: %s%s%s%s%s", k->sink->name, k->target, text, *why ? ": " : "", why,
		more ? "; " : "", more ? more : "");
}

/* ---- reports ---- */

/* A broker refused a batch as a whole: the next handle makes smaller ones. */
static void batch_refused(struct kafka *k, uint64_t bytes)
{
	uint64_t half = bytes / 2 ? bytes / 2 : 1;

	if (!k->batch_bytes || half < k->batch_bytes)
		k->batch_bytes = half;
	handle_retire(k);
}

/* Batches that were made small on account of one large line may grow again, but not too soon: each attempt
 * that meets another such line costs a handful of handles. */
static void batch_grow(struct kafka *k)
{
	if (k->state != KAFKA_UP || k->good_bytes <= k->batch_bytes || !k->batch_bytes ||
	    worker_now() < k->grow_ns)
		return;
	k->batch_bytes = k->good_bytes;
	handle_retire(k);
}

/* The messages of one report were one batch. */
static void take_reports(struct kafka *k, rd_kafka_event_t *event)
{
	size_t n = rd_kafka_event_message_count(event);
	rd_kafka_resp_err_t err = RD_KAFKA_RESP_ERR_NO_ERROR;
	const rd_kafka_message_t *message;
	uint64_t bytes = 0;

	while ((message = rd_kafka_event_message_next(event))) {
		bytes += message->len;
		err = message->err;
		k->produced--;
		kafka_fate(k, message, n);
	}
	if (!err && bytes > k->good_bytes)
		k->good_bytes = bytes;
	if (err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)
		k->grow_ns = worker_now() + GROW_NS;
	if (err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE && n > 1)
		batch_refused(k, bytes);
}

static void take_error(struct kafka *k, rd_kafka_event_t *event)
{
	rd_kafka_resp_err_t err = rd_kafka_event_error(event);
	const char *text = rd_kafka_event_error_string(event);
	char why[1];

	/* A broker that does not like our certificate says so after the handshake. */
	if (err == RD_KAFKA_RESP_ERR__TRANSPORT && strstr(text, "SSL routines"))
		err = RD_KAFKA_RESP_ERR__SSL;
	/* The event of a fatal error has the code of its cause. */
	if (rd_kafka_fatal_error(k->rk, why, sizeof(why)))
		handle_failed(k);
	else if (k->state == KAFKA_UP)
		kafka_trouble(k, err, text);
}

void handle_failed(struct kafka *k)
{
	char text[256] = "the producer cannot go on";
	rd_kafka_resp_err_t err;

	if (k->state != KAFKA_UP)
		return;
	err = rd_kafka_fatal_error(k->rk, text, sizeof(text));
	/* We wanted it so: the report on the message says what is wrong with that. */
	if (err == RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE) {
		handle_retire(k);
		return;
	}
	k->failures++;
	/* The cause, where it says whose turn it is; otherwise that it was fatal. */
	kafka_trouble(k, kafka_meaning(err).reason == SINK_AUTH ? err : RD_KAFKA_RESP_ERR__FATAL, text);
	handle_retire(k);
}

void handle_retire(struct kafka *k)
{
	if (k->state != KAFKA_UP)
		return;
	k->state = KAFKA_ENDING;
	k->purged = false;
	k->patience_ns = worker_now() + PATIENCE_NS;
	rd_kafka_purge(k->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING);
}

void handle_purge(struct kafka *k)
{
	if (k->rk)
		rd_kafka_purge(k->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
					      RD_KAFKA_PURGE_F_NON_BLOCKING);
	k->purged = true;
}

/* When the next handle is due: at once after the first failure, later and later after others. */
static uint64_t renew_delay(const struct kafka *k)
{
	uint64_t delay = RENEW_MIN_NS;

	if (k->failures < 2)
		return 0;
	for (unsigned i = 2; i < k->failures && delay < RENEW_MAX_NS; i++)
		delay *= 2;
	return delay < RENEW_MAX_NS ? delay : RENEW_MAX_NS;
}

static int by_seq(const void *a, const void *b)
{
	const struct line_meta *x = &(*(struct line *const *)a)->meta;
	const struct line_meta *y = &(*(struct line *const *)b)->meta;
	int32_t apart =
		(int32_t)((x->spool - y->spool) << 1); /* names in a spool are of 31 bits, and go round */

	if (x->spool && y->spool)
		return (apart > 0) - (apart < 0);
	return (x->seq > y->seq) - (x->seq < y->seq);
}

static void handle_renew(struct kafka *k)
{
	char error[512];

	if (k->returned != k->returned_before)
		kafka_return(k);
	/* Reports come by partition; the order of each is that of the sequence. */
	if (k->again.n)
		qsort(k->again.list, k->again.n, sizeof(*k->again.list), by_seq);
	if (!handle_open(k, error, sizeof(error)))
		return;
	kafka_trouble(k, RD_KAFKA_RESP_ERR__FATAL, error);
	k->renew_ns = worker_now() + RENEW_MIN_NS;
}

void handle_serve(struct kafka *k)
{
	uint64_t value;
	rd_kafka_event_t *event;

	if (read(k->event_fd, &value, sizeof(value)) < 0)
		value = 0;
	while (k->queue && (event = rd_kafka_queue_poll(k->queue, 0))) {
		if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR)
			take_reports(k, event);
		else if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR)
			take_error(k, event);
		rd_kafka_event_destroy(event);
	}
	kafka_tell(k);
	if (k->closing)
		return;
	batch_grow(k);
	if (k->state == KAFKA_ENDING && !k->produced) {
		handle_close(k);
		if (k->failures > MAX_FAILURES)
			kafka_give_up(k);
		k->renew_ns = worker_now() + renew_delay(k);
	} else if (k->state == KAFKA_ENDING && !k->purged && worker_now() >= k->patience_ns) {
		handle_purge(k);
	}
	if (k->state == KAFKA_DOWN && worker_now() >= k->renew_ns)
		handle_renew(k);
}
