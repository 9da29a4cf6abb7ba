/*
 * The kafka sink against librdkafka's mock cluster, where any answer of a
 * broker can be made to order; an independent consumer reads back.
 */
#include "test_sinks.h"
#include "test_spool.h"

#include "../../sinks/kafka.h"
#include "../../sinks/queue.h"

#include <librdkafka/rdkafka_mock.h> /* after rdkafka.h */

#define TOPIC      "t"
#define PARTITIONS 4
#define PRODUCE    0 /* ApiKey (kafka.apache.org/protocol) */
#define LEN        200

struct cluster {
	rd_kafka_t *rk; /* that the mock lives in */
	rd_kafka_mock_cluster_t *mock;
	char *brokers[3];
};

static void quiet(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
}

static rd_kafka_t *client(rd_kafka_type_t type, const char *bootstrap)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char why[256];
	rd_kafka_t *rk;

	rd_kafka_conf_set_log_cb(conf, quiet);
	if (bootstrap)
		rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, why, sizeof(why));
	rk = rd_kafka_new(type, conf, why, sizeof(why));
	assert_non_null(rk);
	return rk;
}

static int make_cluster(void **state)
{
	struct cluster *c = calloc(1, sizeof(*c));
	char *copy, *rest, *one;
	int n = 0;

	c->rk = client(RD_KAFKA_PRODUCER, NULL);
	c->mock = rd_kafka_mock_cluster_new(c->rk, 3);
	assert_non_null(c->mock);
	rd_kafka_mock_topic_create(c->mock, TOPIC, PARTITIONS, 3);
	copy = rest = strdup(rd_kafka_mock_cluster_bootstraps(c->mock));
	while ((one = strsep(&rest, ",")) && n < 3)
		c->brokers[n++] = strdup(one);
	free(copy);
	assert_int_equal(n, 3);
	*state = c;
	return 0;
}

static int destroy_cluster(void **state)
{
	struct cluster *c = *state;

	for (int i = 0; i < 3; i++)
		free(c->brokers[i]);
	rd_kafka_mock_cluster_destroy(c->mock);
	rd_kafka_destroy(c->rk);
	free(c);
	return 0;
}

/* ---- a sink that can be looked into ---- */

static struct sink_ops spied;
static struct kafka *_Atomic spied_kafka;

static int spied_open(struct sink *sink, char *error, size_t size)
{
	int r = sink_kafka.open(sink, error, size);

	spied_kafka = r ? NULL : sink->priv;
	return r;
}

struct bench {
	struct kafka_options options;
	struct config_sink sink;
	struct fanout *fanout;
	struct config_field properties[4];
};

static void init(struct bench *b, const struct cluster *c)
{
	memset(b, 0, sizeof(*b));
	spied = sink_kafka;
	spied.open = spied_open;
	b->options = (struct kafka_options){.brokers = {(char **)c->brokers, 3},
					    .topic = (char *)TOPIC,
					    .key = (char *)"%{pid}",
					    .idempotence = true,
					    .tls.verify = true};
	b->options.properties.list = b->properties;
	b->sink = any_sink("lake", &spied, &b->options);
}

static void property(struct bench *b, const char *name, const char *value)
{
	b->properties[b->options.properties.n++] = (struct config_field){(char *)name, (char *)value};
}

static void start(struct bench *b)
{
	b->fanout = open_fanout(&b->sink, 1);
}

static void feed(struct bench *b, uint64_t first, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		struct line_meta meta = {.seq = first + i, .pid = (uint32_t)((first + i) % 7)};

		make_line(fanout_reserve(b->fanout, 0), first + i, LEN);
		fanout_commit(b->fanout, 0, LEN, &meta, FANOUT_ALL);
	}
	fanout_flush(b->fanout);
}

/* Counters that can only be final, the law checked. */
static struct sink_counters finish(struct bench *b, unsigned ms)
{
	struct sink_counters c;

	fanout_close(b->fanout, now_ns() + ms * MS);
	c = counters(b->fanout, 0);
	assert_int_equal(c.queued + c.in_flight, 0);
	fanout_free(b->fanout);
	return c;
}

/* ---- reading back ---- */

/* Every seq, how often it arrived; @count[0] is for loss events. Order within a partition is checked, of
 * lines that come again that of the first time. */
static uint64_t read_back(const struct cluster *c, uint32_t *count, uint64_t max)
{
	rd_kafka_t *rk = client(RD_KAFKA_CONSUMER, rd_kafka_mock_cluster_bootstraps(c->mock));
	rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, TOPIC, NULL);
	rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
	uint64_t last[PARTITIONS] = {0}, total = 0;
	rd_kafka_message_t *m;

	memset(count, 0, (max + 1) * sizeof(*count));
	for (int p = 0; p < PARTITIONS; p++)
		assert_int_equal(rd_kafka_consume_start_queue(topic, p, RD_KAFKA_OFFSET_BEGINNING, queue), 0);
	while ((m = rd_kafka_consume_queue(queue, 1500))) {
		uint64_t seq = 0;

		if (!m->err) {
			char text[LEN];

			assert_true(m->len < sizeof(text));
			memcpy(text, m->payload, m->len);
			text[m->len] = 0;
			if (sscanf(text, "{\"seq\":%" SCNu64 ",", &seq) == 1) {
				assert_int_equal(m->len, LEN - 1);
				assert_in_range(seq, 1, max);
				assert_true(count[seq] || seq > last[m->partition]);
				last[m->partition] = count[seq] ? last[m->partition] : seq;
				total++;
			}
			count[seq]++;
		}
		rd_kafka_message_destroy(m);
	}
	for (int p = 0; p < PARTITIONS; p++)
		rd_kafka_consume_stop(topic, p);
	rd_kafka_queue_destroy(queue);
	rd_kafka_topic_destroy(topic);
	rd_kafka_destroy(rk);
	return total;
}

static void all_arrived(const struct cluster *c, uint64_t n)
{
	uint32_t *count = calloc(n + 1, sizeof(*count));

	assert_int_equal(read_back(c, count, n), n);
	for (uint64_t seq = 1; seq <= n; seq++)
		assert_int_equal(count[seq], 1);
	free(count);
}

/* ---- tests ---- */

static void test_delivers(void **state)
{
	const struct cluster *c = *state;
	struct sink_counters k;
	struct bench b;

	init(&b, c);
	start(&b);
	for (uint64_t i = 0; i < 20; i++)
		feed(&b, 1 + i * 1000, 1000);
	k = finish(&b, 10000);
	assert_int_equal(k.delivered, 20000);
	assert_int_equal(k.bytes, 20000 * LEN);
	all_arrived(c, 20000);
}

/* Nothing is delivered before the acknowledgement, and what is in flight keeps to the bounds. */
static void test_in_flight_is_bounded(void **state)
{
	const struct cluster *c = *state;
	struct sink_counters k;
	struct bench b;

	init(&b, c);
	b.sink.queue.max_events = 100;
	for (int i = 1; i <= 3; i++)
		rd_kafka_mock_broker_set_rtt(c->mock, i, 1500);
	start(&b);
	feed(&b, 1, 50);
	sleep_ms(500);
	k = counters(b.fanout, 0);
	assert_int_equal(k.delivered, 0);
	assert_int_equal(k.in_flight, 50);
	feed(&b, 51, 200);
	sleep_ms(500);
	/* what write() has been offered counts as well, while it waits for room */
	k = counters(b.fanout, 0);
	assert_int_equal(spied_kafka->held, 100);
	assert_true(k.in_flight >= 100 && k.in_flight + k.queued <= 200);
	assert_int_equal(k.in_flight + k.queued + k.dropped[SINK_QUEUE_FULL], 250);
	for (int i = 1; i <= 3; i++)
		rd_kafka_mock_broker_set_rtt(c->mock, i, 0);
	k = finish(&b, 20000);
	assert_int_equal(k.delivered + k.dropped[SINK_QUEUE_FULL], 250);
}

static void test_transient_errors(void **state)
{
	const struct cluster *c = *state;
	struct sink_counters k;
	struct bench b;

	init(&b, c);
	start(&b);
	rd_kafka_mock_push_request_errors(c->mock, PRODUCE, 4, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
					  RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR__TRANSPORT,
					  RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT);
	for (uint64_t i = 0; i < 50; i++) {
		feed(&b, 1 + i * 100, 100);
		sleep_ms(5);
	}
	k = finish(&b, 20000);
	assert_int_equal(k.delivered, 5000);
	all_arrived(c, 5000);
}

static void refused_by(const struct cluster *c, rd_kafka_resp_err_t err, enum sink_reason reason)
{
	struct sink_counters k;
	struct bench b;

	init(&b, c);
	start(&b);
	feed(&b, 1, 7);
	wait_for(counters(b.fanout, 0).delivered == 7);
	rd_kafka_mock_push_request_errors(c->mock, PRODUCE, 1, err);
	feed(&b, 8, 1); /* one partition, one request */
	wait_for(counters(b.fanout, 0).dropped[reason] == 1);
	wait_for(counters(b.fanout, 0).loss_events == 1);
	k = finish(&b, 10000);
	assert_int_equal(k.delivered, 7);
	assert_int_equal(k.unknown, 0);
}

static void test_refusals(void **state)
{
	refused_by(*state, RD_KAFKA_RESP_ERR_INVALID_RECORD, SINK_REJECTED);
	refused_by(*state, RD_KAFKA_RESP_ERR_POLICY_VIOLATION, SINK_REJECTED);
	refused_by(*state, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, SINK_AUTH);
	refused_by(*state, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, SINK_TOO_LARGE);
}

/* A whole batch is refused as too large: its lines go again in smaller ones, in order, by a new handle. */
static void test_batch_too_large(void **state)
{
	const struct cluster *c = *state;
	struct sink_counters k;
	struct bench b;

	init(&b, c);
	b.options.linger_ns = 50 * MS;
	start(&b);
	rd_kafka_mock_push_request_errors(c->mock, PRODUCE, 3, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
					  RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
					  RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
	feed(&b, 1, 5000);
	wait_for(counters(b.fanout, 0).delivered == 5000);
	assert_true(spied_kafka->batch_bytes > 0);
	k = finish(&b, 10000);
	assert_int_equal(k.delivered, 5000);
	all_arrived(c, 5000);
}

static void test_fatal(void **state)
{
	const struct cluster *c = *state;
	struct sink_counters k;
	struct bench b;

	init(&b, c);
	start(&b);
	feed(&b, 1, 1000);
	wait_for(counters(b.fanout, 0).delivered == 1000);
	for (uint64_t round = 0; round < 3; round++) {
		uint64_t delivered = counters(b.fanout, 0).delivered;
		char before[64]; /* names are numbered; the next handle may lie where this one did */

		snprintf(before, sizeof(before), "%s", rd_kafka_name(spied_kafka->rk));
		rd_kafka_test_fatal_error(spied_kafka->rk, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
					  "test");
		feed(&b, 1001 + round * 1000, 1000);
		wait_for(counters(b.fanout, 0).delivered == delivered + 1000);
		assert_string_not_equal(rd_kafka_name(spied_kafka->rk), before);
	}
	k = finish(&b, 10000);
	assert_int_equal(k.delivered, 4000);
	all_arrived(c, 4000);
}

/* In the middle of a stream: what was not sent goes by the next handle, what was under way has a fate. */
static void test_fatal_under_load(void **state)
{
	const struct cluster *c = *state;
	uint32_t *count = calloc(40001, sizeof(*count));
	uint64_t arrived = 0, total;
	struct sink_counters k;
	struct bench b;

	init(&b, c);
	start(&b);
	for (uint64_t i = 0; i < 400; i++) {
		feed(&b, 1 + i * 100, 100);
		sleep_ms(1);
		if (i == 100)
			rd_kafka_test_fatal_error(spied_kafka->rk, RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID,
						  "test");
	}
	k = finish(&b, 20000);
	assert_int_equal(k.delivered + k.unknown + sink_counters_dropped(&k), 40000);
	assert_int_equal(sink_counters_dropped(&k), k.dropped[SINK_FATAL]);
	total = read_back(c, count, 40000);
	for (uint64_t seq = 1; seq <= 40000; seq++) {
		assert_true(count[seq] <= 1);
		arrived += count[seq];
	}
	assert_int_equal(arrived, total);
	assert_in_range(arrived, k.delivered, k.delivered + k.unknown);
	free(count);
}

/* A cluster that makes every handle fail: lines are given up after a few, and the sink goes on trying. */
static void test_fatal_for_ever(void **state)
{
	const struct cluster *c = *state;
	struct sink_counters k;
	struct bench b;

	init(&b, c);
	for (int i = 1; i <= 3; i++)
		rd_kafka_mock_broker_set_rtt(c->mock, i, 3000);
	start(&b);
	feed(&b, 1, 10);
	wait_for(spied_kafka->produced == 10);
	for (int i = 0; i < 4; i++) {
		rd_kafka_t *rk = spied_kafka->rk;
		uint64_t end = now_ns() + 9000 * MS;

		if (rk)
			rd_kafka_test_fatal_error(rk, RD_KAFKA_RESP_ERR__FENCED, "test");
		while (spied_kafka->rk == rk && now_ns() < end)
			sleep_ms(5);
		while (!spied_kafka->rk && now_ns() < end)
			sleep_ms(5);
		sleep_ms(50);
	}
	k = counters(b.fanout, 0);
	assert_true(k.dropped[SINK_FATAL] + k.unknown + k.in_flight + k.delivered == 10);
	assert_true(k.dropped[SINK_FATAL] + k.unknown > 0);
	finish(&b, 100);
	for (int i = 1; i <= 3; i++)
		rd_kafka_mock_broker_set_rtt(c->mock, i, 0);
}

static void start_spooled(struct bench *b, const struct cluster *c, char path[64])
{
	init(b, c);
	property(b, "max.in.flight.requests.per.connection", "1");
	property(b, "batch.num.messages", "50");
	property(b, "topic.metadata.refresh.interval.ms", "100");
	b->sink.spool.path = new_spool(path);
	b->sink.spool.max_bytes = 64 << 20;
	start(b);
}

static void finish_spooled(struct bench *b, const struct cluster *c, uint64_t n, const char *path)
{
	uint32_t *count = calloc(n + 1, sizeof(*count));

	wait_for(counters(b->fanout, 0).delivered == n);
	finish(b, 20000);
	read_back(c, count, n);
	for (uint64_t seq = 1; seq <= n; seq++)
		assert_true(count[seq]);
	free(count);
	remove_spool(path);
}

/*
 * What fails comes again out of the spool: never behind lines of its partition that were fed after it.
 * Requests go one by one, for the mock's brokers do not look at sequence numbers and so take what real ones
 * refuse: a request behind one that failed.
 */
static void test_spool_order(void **state)
{
	static const rd_kafka_resp_err_t errors[] = {
		RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, /* fatal */
		RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,   /* holds for all */
		RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH,       /* given up, the producer goes on */
		RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,     /* tried again within the handle */
		RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,           /* smaller batches */
		RD_KAFKA_RESP_ERR__TRANSPORT,
	};
	uint64_t n = sizeof(errors) / sizeof(errors[0]) * 4000;
	char path[64];
	struct bench b;

	start_spooled(&b, *state, path);
	for (uint64_t i = 0; i < n; i += 1000) {
		const struct cluster *c = *state;

		if (i % 4000 == 1000)
			rd_kafka_mock_push_request_errors(c->mock, PRODUCE, 1, errors[i / 4000]);
		feed(&b, 1 + i, 1000);
		wait_for(counters(b.fanout, 0).delivered >= i / 4000 * 4000);
	}
	finish_spooled(&b, *state, n, path);
}

/* The topic is said not to be there for a while, as by brokers that have just begun. */
static void test_spool_order_without_topic(void **state)
{
	const struct cluster *c = *state;
	char path[64];
	struct bench b;

	start_spooled(&b, c, path);
	feed(&b, 1, 1000);
	wait_for(counters(b.fanout, 0).delivered == 1000);
	for (uint64_t i = 10; i < 200; i++) {
		if (i % 40 == 20)
			rd_kafka_mock_topic_set_error(c->mock, TOPIC,
						      RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
		if (i % 40 == 39)
			rd_kafka_mock_topic_set_error(c->mock, TOPIC, RD_KAFKA_RESP_ERR_NO_ERROR);
		feed(&b, 1 + i * 100, 100);
		sleep_ms(10);
	}
	finish_spooled(&b, c, 20000, path);
}

static void set_all(const struct cluster *c, bool up)
{
	for (int i = 1; i <= 3; i++) {
		if (up)
			rd_kafka_mock_broker_set_up(c->mock, i);
		else
			rd_kafka_mock_broker_set_down(c->mock, i);
	}
}

static void test_outage(void **state)
{
	const struct cluster *c = *state;
	struct sink_counters k;
	struct bench b;

	init(&b, c);
	b.sink.queue.max_events = 500;
	start(&b);
	feed(&b, 1, 400);
	wait_for(counters(b.fanout, 0).delivered == 400);
	set_all(c, false);
	for (uint64_t i = 0; i < 40; i++) {
		feed(&b, 401 + i * 100, 100);
		sleep_ms(30);
	}
	k = counters(b.fanout, 0);
	assert_true(k.dropped[SINK_UNREACHABLE] > 2000);
	assert_true(k.in_flight + k.queued <= 1000);
	set_all(c, true);
	wait_for(counters(b.fanout, 0).queued + counters(b.fanout, 0).in_flight == 0);
	k = finish(&b, 10000);
	assert_int_equal(k.delivered + k.dropped[SINK_UNREACHABLE] + k.dropped[SINK_QUEUE_FULL], 4400);
	assert_true(k.loss_events > 0);
}

/* The deadline ends it, whatever is under way: requests without answer are unknown, the rest is lost. */
static void test_deadline(void **state)
{
	const struct cluster *c = *state;
	struct sink_counters k;
	uint64_t begin;
	struct bench b;

	init(&b, c);
	start(&b);
	feed(&b, 1, 100);
	wait_for(counters(b.fanout, 0).delivered == 100);
	for (int i = 1; i <= 3; i++)
		rd_kafka_mock_broker_set_rtt(c->mock, i, 20000);
	feed(&b, 101, 1000);
	sleep_ms(200);
	feed(&b, 1101, 60000);
	begin = now_ns();
	k = finish(&b, 300);
	assert_true(now_ns() - begin < 1800 * MS);
	assert_int_equal(k.delivered, 100);
	assert_true(k.unknown >= 1000);
	assert_int_equal(k.unknown + k.dropped[SINK_SHUTDOWN], 61000);
	for (int i = 1; i <= 3; i++)
		rd_kafka_mock_broker_set_rtt(c->mock, i, 0);
}

/* A sink that wants few lines pins few chunks, even when nothing gets through. */
static void test_sparse_lines(void **state)
{
	const struct cluster *c = *state;
	struct config_sink sinks[2];
	struct sink_counters k;
	struct bench b;

	init(&b, c);
	sinks[0] = b.sink;
	sinks[1] = file_sink("rest", "/dev/null");
	set_all(c, false);
	b.fanout = open_fanout(sinks, 2);
	for (uint64_t seq = 1; seq <= 200000; seq++) {
		put_line(b.fanout, 0, seq, LEN, seq % 1000 ? 2 : 1);
		if (seq % 1000 == 0) {
			fanout_flush(b.fanout);
			sleep_ms(1);
		}
	}
	wait_for(counters(b.fanout, 0).in_flight == 200);
	sleep_ms(50);
	assert_true(spied_kafka->pins.n <= 9);
	set_all(c, true);
	wait_for(counters(b.fanout, 0).delivered == 200);
	assert_int_equal(spied_kafka->pins.n, 0);
	k = finish(&b, 10000);
	assert_int_equal(k.delivered, 200);
	free(sinks[1].options);
}

static void test_headers_and_outage(void **state)
{
	const struct cluster *c = *state;
	struct sink_counters k;
	struct bench b;

	init(&b, c);
	b.options.headers = true;
	start(&b);
	feed(&b, 1, 3000);
	wait_for(counters(b.fanout, 0).delivered == 3000);
	rd_kafka_test_fatal_error(spied_kafka->rk, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, "test");
	feed(&b, 3001, 2000);
	k = finish(&b, 10000);
	assert_int_equal(k.delivered, 5000);
	all_arrived(c, 5000);
}

static void test_too_large_before_sending(void **state)
{
	const struct cluster *c = *state;
	struct sink_counters k;
	struct bench b;

	init(&b, c);
	property(&b, "message.max.bytes", "1000");
	start(&b);
	for (uint64_t seq = 1; seq <= 100; seq++)
		put_line(b.fanout, 0, seq, seq % 10 ? LEN : 3000, FANOUT_ALL);
	fanout_flush(b.fanout);
	wait_for(counters(b.fanout, 0).dropped[SINK_TOO_LARGE] == 10);
	k = finish(&b, 10000);
	assert_int_equal(k.delivered, 90);
}

/* open() says what is wrong and leaves nothing behind. */
static void test_open_fails(void **state)
{
	struct fanout *f = NULL;
	char error[512] = "";
	struct bench b;

	init(&b, *state);
	b.options.tls.ca_file = (char *)"/does/not/exist.pem";
	assert_true(fanout_new(&b.sink, 1, NULL, NULL, NULL, &f, error, sizeof(error)) < 0);
	assert_non_null(strstr(error, "sink lake: librdkafka: "));
	assert_non_null(strstr(error, "ssl.ca.location"));
	init(&b, *state);
	b.options.sasl.mechanism = (char *)"PLAIN";
	b.options.sasl.username = (char *)"u";
	b.options.sasl.password_file = (char *)"/does/not/exist";
	assert_true(fanout_new(&b.sink, 1, NULL, NULL, NULL, &f, error, sizeof(error)) < 0);
	assert_non_null(strstr(error, "/does/not/exist: No such file or directory"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_cluster, destroy_cluster)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_delivers),
		TEST(test_in_flight_is_bounded),
		TEST(test_transient_errors),
		TEST(test_refusals),
		TEST(test_batch_too_large),
		TEST(test_fatal),
		TEST(test_fatal_under_load),
		TEST(test_fatal_for_ever),
		TEST(test_spool_order),
		TEST(test_spool_order_without_topic),
		TEST(test_outage),
		TEST(test_deadline),
		TEST(test_sparse_lines),
		TEST(test_headers_and_outage),
		TEST(test_too_large_before_sending),
		TEST(test_open_fails),
	};

	if (getenv("ONLY"))
		cmocka_set_test_filter(getenv("ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
