/* The kafka sink's parts that need no broker: keys, pins, options. */
#include "test_sinks.h"

#include "../../sinks/kafka.h"
#include "../../sinks/queue.h"
#include "../../streamer/encode/encode.h"

/* ---- keys ---- */

static const struct sink_origin origin = {"gpu07", "k3v9q2m7x0ab"};

static uint16_t row_named(const char *func)
{
	for (unsigned i = 0; i < table_nrows; i++)
		if (!strcmp(table_rows[i].func, func))
			return (uint16_t)i;
	fail_msg("no row %s", func);
	return 0;
}

static void test_keys(void **state)
{
	const struct line_meta call = {.seq = 18446744073709551615ull,
				       .pid = 4242,
				       .tid = 0,
				       .row = row_named("cudaMalloc"),
				       .status = 2,
				       .type = EVENT_CALL};
	const struct line_meta other = {.seq = 7, .pid = 1, .row = UINT16_MAX, .type = EVENT_LOSS};
	static const struct {
		const char *template, *call, *other;
	} cases[] = {
		{"", "", ""},
		{"x", "x", "x"},
		{"%{host}/%{pid}", "gpu07/4242", "gpu07/1"},
		{"%{run}.%{seq}", "k3v9q2m7x0ab.18446744073709551615", "k3v9q2m7x0ab.7"},
		{"%{tid}%{tid}", "00", "00"},
		{"%{func}|%{api}|%{family}|%{status}|%{type}", "cudaMalloc|runtime|memory|not_ready|call",
		 "-|-|-|-|loss"},
		{"100%% %{pid}%%", "100% 4242%", "100% 1%"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char error[256] = "", out[KAFKA_KEY_MAX + 1];
		struct kafka_key key;

		assert_int_equal(kafka_key_parse(cases[i].template, &origin, &key, error, sizeof(error)), 0);
		out[kafka_key_format(&key, &call, out)] = 0;
		assert_string_equal(out, cases[i].call);
		out[kafka_key_format(&key, &other, out)] = 0;
		assert_string_equal(out, cases[i].other);
	}
}

static void test_key_mistakes(void **state)
{
	static const struct {
		const char *template, *words;
	} cases[] = {
		{"%{nosuch}", "unknown field \"%{nosuch}\"; known: %{host} %{run}"},
		{"%{}", "unknown field"},
		{"%{pid", "\"%{pid\" is no field"},
		{"%pid", "%% for a percent sign"},
		{"50%", "%% for a percent sign"},
		{"%{pid}%{pid}%{pid}%{pid}%{pid}%{pid}%{pid}%{pid}%{pid}%{pid}%{pid}%{pid}%{pid}%{pid}%{pid}%"
		 "{pid}%{"
		 "pid}",
		 "at most 16 parts"},
		{"%{host}%{host}%{host}%{host}%{host}", "1275 bytes; the most is 1024"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kafka_key key = {.nparts = 77};
		char error[512] = "";

		assert_int_equal(kafka_key_parse(cases[i].template, NULL, &key, error, sizeof(error)),
				 -EINVAL);
		if (!strstr(error, cases[i].words))
			fail_msg("\"%s\" lacks \"%s\"", error, cases[i].words);
		assert_int_equal(key.nparts, 77); /* untouched */
	}
}

static void test_key_long_host(void **state)
{
	char host[600], out[KAFKA_KEY_MAX], error[256];
	const struct sink_origin far = {host, "r"};
	const struct line_meta meta = {.pid = 1};
	struct kafka_key key;

	memset(host, 'h', sizeof(host) - 1);
	host[sizeof(host) - 1] = 0;
	assert_int_equal(kafka_key_parse("%{host}%{host}%{host}%{host}", &far, &key, error, sizeof(error)),
			 0);
	assert_int_equal(kafka_key_format(&key, &meta, out), 4 * 255);
}

/* ---- pins ---- */

#define NCHUNKS 300

static void test_pins(void **state)
{
	struct chunk_pool pool;
	struct chunk *chunks[NCHUNKS];
	uint32_t lines[NCHUNKS] = {0}, total = 0;
	struct kafka_pins pins = {0};

	chunk_pool_init(&pool, UINT32_MAX);
	for (int i = 0; i < NCHUNKS; i++) {
		chunks[i] = chunk_get(&pool);
		assert_non_null(chunks[i]);
	}
	srandom(1);
	for (int step = 0; step < 200000; step++) {
		int i = (int)(random() % NCHUNKS);
		uint32_t n = (uint32_t)(random() % 50) + 1;

		if (random() % 2 && step < 190000) {
			assert_true(pins_add(&pins, chunks[i], n));
			lines[i] += n;
			total += n;
		} else if (lines[i]) {
			n = n < lines[i] ? n : lines[i];
			pins_drop(&pins, chunks[i], n);
			lines[i] -= n;
			total -= n;
		}
		assert_int_equal(atomic_load(&chunks[i]->refs), 1 + (lines[i] > 0));
	}
	for (int i = 0; i < NCHUNKS; i++)
		while (lines[i]) {
			pins_drop(&pins, chunks[i], 1);
			lines[i]--;
			total--;
		}
	assert_int_equal(total, 0);
	assert_int_equal(pins.n, 0);
	pins_free(&pins);
	for (int i = 0; i < NCHUNKS; i++) {
		assert_int_equal(atomic_load(&chunks[i]->refs), 1);
		chunk_unref(chunks[i]);
	}
	chunk_pool_destroy(&pool);
}

/* Few bytes in flight never pin many chunks. */
static void test_pins_bound(void **state)
{
	struct chunk_pool pool;
	struct chunk *chunks[NCHUNKS];
	struct kafka_pins pins = {0};
	uint64_t bytes = 0;

	chunk_pool_init(&pool, UINT32_MAX);
	for (int i = 0; i < NCHUNKS; i++) {
		chunks[i] = chunk_get(&pool);
		bytes += 100;
		if (pins_may(&pins, chunks[i], bytes))
			assert_true(pins_add(&pins, chunks[i], 1));
		assert_true(pins.n * sizeof(struct chunk) <= 2 * bytes + QUEUE_SLACK);
	}
	assert_true(pins.n >= 8 && pins.n < 10);
	assert_true(pins_may(&pins, chunks[0], 0)); /* pinned already */
	for (int i = 0; i < NCHUNKS; i++) {
		if (atomic_load(&chunks[i]->refs) == 2)
			pins_drop(&pins, chunks[i], 1);
		chunk_unref(chunks[i]);
	}
	pins_free(&pins);
	chunk_pool_destroy(&pool);
}

/* ---- options ---- */

static struct kafka_options good(void)
{
	static char *brokers[] = {(char *)"k1:9092", (char *)"[::1]:9092", (char *)"10.0.0.1"};

	return (struct kafka_options){.brokers = {brokers, 3},
				      .topic = (char *)"cuda-events",
				      .key = (char *)"%{host}/%{pid}",
				      .idempotence = true,
				      .tls.verify = true};
}

static void expect(const struct kafka_options *o, const char *words)
{
	char error[512] = "";
	int r = kafka_check(o, error, sizeof(error));

	if (!words) {
		if (r)
			fail_msg("refused: %s", error);
		return;
	}
	assert_int_equal(r, -EINVAL);
	if (!strstr(error, words))
		fail_msg("\"%s\" lacks \"%s\"", error, words);
}

static void test_options(void **state)
{
	static char *bad_brokers[] = {(char *)"",      (char *)"k1:0",  (char *)"k1:x",
				      (char *)"k1,k2", (char *)":9092", (char *)"ssl://k1:9092",
				      (char *)"a:b:9", (char *)"[::1",  (char *)"k1:"};
	struct kafka_options o = good();

	expect(&o, NULL);
	for (size_t i = 0; i < sizeof(bad_brokers) / sizeof(bad_brokers[0]); i++) {
		o.brokers = (struct config_strings){&bad_brokers[i], 1};
		expect(&o, "is not HOST:PORT");
	}
	o = good();
	o.topic = (char *)"no spaces";
	expect(&o, "topic \"no spaces\"");
	o.topic = (char *)"..";
	expect(&o, "topic");
	o = good();
	o.key = (char *)"%{what}";
	expect(&o, "unknown field");
	o = good();
	o.acks = (char *)"1";
	expect(&o, "idempotence: false");
	o.idempotence = false;
	expect(&o, NULL);
	o = good();
	o.linger_ns = 2000000000;
	o.delivery_timeout_ns = 1000000000;
	expect(&o, "librdkafka:");
}

static void test_security(void **state)
{
	struct kafka_options o = good();

	assert_false(kafka_tls(&o));
	o.tls.cert_file = (char *)"c";
	expect(&o, "cert_file and key_file");
	o.tls.key_file = (char *)"k";
	expect(&o, NULL); /* files are looked at when the sink opens */
	assert_true(kafka_tls(&o));
	o = good();
	o.sasl.username = (char *)"alice";
	expect(&o, "mechanism and username");
	o.sasl.mechanism = (char *)"PLAIN";
	expect(&o, "password");
	o.sasl.password = (char *)"p";
	expect(&o, NULL);
	o.sasl.password_file = (char *)"f";
	expect(&o, "one of password and password_file");
}

static void test_properties(void **state)
{
	static const struct {
		struct config_field property;
		const char *words; /* NULL: fine */
	} cases[] = {
		{{(char *)"batch.size", (char *)"50000"}, NULL},
		{{(char *)"client.id", (char *)"tap"}, NULL},
		{{(char *)"compression.type", (char *)"zstd"}, NULL},
		{{(char *)"linger.ms", (char *)"1"}, NULL},
		{{(char *)"no.such.thing", (char *)"1"}, "\"no.such.thing\""},
		{{(char *)"batch.size", (char *)"many"}, "\"batch.size\""},
		{{(char *)"bootstrap.servers", (char *)"x:1"},
		 "\"bootstrap.servers\" is said by the key brokers"},
		{{(char *)"enable.idempotence", (char *)"false"}, "the key idempotence"},
		{{(char *)"sasl.password", (char *)"x"}, "the key sasl.password"},
		{{(char *)"security.protocol", (char *)"ssl"}, "the key tls, sasl"},
		{{(char *)"queue.buffering.max.messages", (char *)"9"}, "queue.max_events"},
		{{(char *)"ssl.key.pem", (char *)"x"}, "would be printed"},
		{{(char *)"delivery.report.only.error", (char *)"true"}, "could not be counted"},
		{{(char *)"transactional.id", (char *)"x"}, "no transactions"},
		{{(char *)"max.in.flight", (char *)"50"}, "librdkafka:"}, /* not with idempotence */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kafka_options o = good();

		o.properties = (struct config_fields){(struct config_field *)&cases[i].property, 1};
		expect(&o, cases[i].words);
	}
}

/* The same said twice: by a key that is there, and by a property. */
static void test_clashes(void **state)
{
	static const struct {
		const char *property, *value;
		size_t offset;
		const char *text; /* of the key; NULL: it is a duration */
	} cases[] = {
		{"compression.type", "zstd", offsetof(struct kafka_options, compression), "lz4"},
		{"compression.codec", "zstd", offsetof(struct kafka_options, compression), "lz4"},
		{"acks", "all", offsetof(struct kafka_options, acks), "all"},
		{"request.required.acks", "-1", offsetof(struct kafka_options, acks), "all"},
		{"partitioner", "random", offsetof(struct kafka_options, partitioner), "murmur2"},
		{"linger.ms", "1", offsetof(struct kafka_options, linger_ns), NULL},
		{"queue.buffering.max.ms", "1", offsetof(struct kafka_options, linger_ns), NULL},
		{"message.timeout.ms", "60000", offsetof(struct kafka_options, delivery_timeout_ns), NULL},
		{"delivery.timeout.ms", "60000", offsetof(struct kafka_options, delivery_timeout_ns), NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct config_field property = {(char *)cases[i].property, (char *)cases[i].value};
		struct kafka_options o = good();
		char *value = (char *)&o + cases[i].offset;

		o.properties = (struct config_fields){&property, 1};
		expect(&o, NULL);
		if (cases[i].text)
			*(char **)value = (char *)cases[i].text;
		else
			*(uint64_t *)value = 30000000000ull;
		expect(&o, "which is there, too");
	}
}

static void test_url(void **state)
{
	static const struct {
		const char *url;
		int result;
		size_t nbrokers;
		const char *first, *last, *topic;
	} cases[] = {
		{"kafka://k1:9092/t", 0, 1, "k1:9092", "k1:9092", "t"},
		{"kafka://k1:9092,k2:9093,[::1]:9/a.b", 0, 3, "k1:9092", "[::1]:9", "a.b"},
		{"kafka://k1/t", 0, 1, "k1", "k1", "t"},
		{"kafka:k1:9092/t", -EINVAL, 0, NULL, NULL, NULL},
		{"kafka://k1:9092", -EINVAL, 0, NULL, NULL, NULL},
		{"kafka://k1:9092/", -EINVAL, 0, NULL, NULL, NULL},
		{"kafka:///t", -EINVAL, 0, NULL, NULL, NULL},
		{"kafka:", -EINVAL, 0, NULL, NULL, NULL},
		{"kafka", -ENOENT, 0, NULL, NULL, NULL},
		{"file:kafka://x/t", -ENOENT, 0, NULL, NULL, NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kafka_options o = {0};
		char error[256] = "";

		assert_int_equal(kafka_from_url(cases[i].url, &o, error, sizeof(error)), cases[i].result);
		assert_int_equal(*error != 0, cases[i].result == -EINVAL);
		assert_int_equal(o.brokers.n, cases[i].nbrokers);
		if (cases[i].first) {
			assert_string_equal(o.brokers.list[0], cases[i].first);
			assert_string_equal(o.brokers.list[o.brokers.n - 1], cases[i].last);
			assert_string_equal(o.topic, cases[i].topic);
		}
		while (o.brokers.n)
			free(o.brokers.list[--o.brokers.n]);
		free(o.brokers.list);
		free(o.topic);
	}
}

static void test_meanings(void **state)
{
	assert_int_equal(kafka_meaning(RD_KAFKA_RESP_ERR__TRANSPORT).reason, SINK_UNREACHABLE);
	assert_int_equal(kafka_meaning(RD_KAFKA_RESP_ERR__RESOLVE).reason, SINK_UNREACHABLE);
	assert_int_equal(kafka_meaning(RD_KAFKA_RESP_ERR__MSG_TIMED_OUT).reason, SINK_TIMED_OUT);
	assert_int_equal(kafka_meaning(RD_KAFKA_RESP_ERR__SSL).reason, SINK_AUTH);
	assert_int_equal(kafka_meaning(RD_KAFKA_RESP_ERR__AUTHENTICATION).reason, SINK_AUTH);
	assert_int_equal(kafka_meaning(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE).reason, SINK_TOO_LARGE);
	assert_int_equal(kafka_meaning(RD_KAFKA_RESP_ERR__FATAL).reason, SINK_FATAL);
	assert_int_equal(kafka_meaning(RD_KAFKA_RESP_ERR__PURGE_QUEUE).reason, SINK_SHUTDOWN);
	assert_true(kafka_meaning(RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC).standing);
	assert_true(kafka_meaning(RD_KAFKA_RESP_ERR_INVALID_RECORD).refused);
	/* not in the table: a broker's word, or librdkafka's own */
	assert_int_equal(kafka_meaning(RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH).reason, SINK_REJECTED);
	assert_int_equal(kafka_meaning(RD_KAFKA_RESP_ERR__FS).reason, SINK_IO_ERROR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys),          cmocka_unit_test(test_key_mistakes),
		cmocka_unit_test(test_key_long_host), cmocka_unit_test(test_pins),
		cmocka_unit_test(test_pins_bound),    cmocka_unit_test(test_options),
		cmocka_unit_test(test_security),      cmocka_unit_test(test_properties),
		cmocka_unit_test(test_clashes),       cmocka_unit_test(test_url),
		cmocka_unit_test(test_meanings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
