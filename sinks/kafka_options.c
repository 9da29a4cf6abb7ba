/* The sink `kafka`: its keys, what they may be together, its short URL. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kafka.h"

#define AT(member) offsetof(struct kafka_options, member)
#define MS         1000000ll

static const char *const partitioners[] = {
	"murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a",
	"random",         NULL};
static const char *const acks_words[] = {"all", "1", "0", NULL};
static const char *const codecs[] = {"none", "gzip", "snappy", "lz4", "zstd", NULL};
static const char *const mechanisms[] = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", NULL};

static const struct key tls_keys[] = {
	{.name = "enabled",
	 .type = KEY_BOOL,
	 .offset = AT(tls.enabled),
	 .fallback = "false",
	 .about = "speak TLS with the brokers; any of the following keys enables it as well"},
	{.name = "ca_file",
	 .type = KEY_STRING,
	 .offset = AT(tls.ca_file),
	 .computed = "the system's",
	 .about = "certificates (PEM) of the authorities that may vouch for brokers"},
	{.name = "cert_file",
	 .type = KEY_STRING,
	 .offset = AT(tls.cert_file),
	 .about = "our own certificate with its chain (PEM), for brokers that ask for one"},
	{.name = "key_file",
	 .type = KEY_STRING,
	 .offset = AT(tls.key_file),
	 .about = "the private key (PEM, not encrypted) of `cert_file`"},
	{.name = "verify",
	 .type = KEY_BOOL,
	 .offset = AT(tls.verify),
	 .fallback = "true",
	 .about =
		 "check the broker's certificate and that it is its host's; `false` lets anybody read along"},
	{0},
};

static const struct key sasl_keys[] = {
	{.name = "mechanism",
	 .type = KEY_STRING,
	 .offset = AT(sasl.mechanism),
	 .words = mechanisms,
	 .about = "how to prove who we are; PLAIN shows the password to whoever reads along without TLS"},
	{.name = "username", .type = KEY_STRING, .offset = AT(sasl.username), .about = "the user's name"},
	{.name = "password",
	 .type = KEY_STRING,
	 .offset = AT(sasl.password),
	 .flags = KEY_SECRET,
	 .about = "the password; better in a file or as `${VARIABLE}`"},
	{.name = "password_file",
	 .type = KEY_STRING,
	 .offset = AT(sasl.password_file),
	 .about = "file whose first line is the password, read when the sink opens"},
	{0},
};

const struct key kafka_keys[] = {
	{.name = "brokers",
	 .type = KEY_STRINGS,
	 .offset = AT(brokers),
	 .required = true,
	 .flags = KEY_NOT_EMPTY,
	 .about = "brokers to begin with, as `HOST:PORT` (PORT is 9092 unless given); they name the others"},
	{.name = "topic",
	 .type = KEY_STRING,
	 .offset = AT(topic),
	 .required = true,
	 .about = "topic that lines go to, one message each"},
	{.name = "key",
	 .type = KEY_STRING,
	 .offset = AT(key),
	 .fallback = "\"%{host}/%{pid}\"",
	 .about = "key of each message, which decides its partition: text with any of %{host} %{run} %{pid} "
		  "%{tid} %{seq} %{func} %{api} %{family} %{status} %{type}; lines of one key stay in order; "
		  "an empty text is no key"},
	{.name = "partitioner",
	 .type = KEY_STRING,
	 .offset = AT(partitioner),
	 .computed = "murmur2_random",
	 .words = partitioners,
	 .about = "how a key chooses its partition; `murmur2_random` does as Java's producers do"},
	{.name = "headers",
	 .type = KEY_BOOL,
	 .offset = AT(headers),
	 .fallback = "false",
	 .about =
		 "put the headers `content-type`, `schema-version` and `host` on every message; they cost as "
		 "much as the message itself"},
	{.name = "acks",
	 .type = KEY_STRING,
	 .offset = AT(acks),
	 .computed = "all",
	 .words = acks_words,
	 .about = "who must have a line before it counts as delivered: `all` replicas in sync, the leader "
		  "(`1`), nobody (`0`)"},
	{.name = "idempotence",
	 .type = KEY_BOOL,
	 .offset = AT(idempotence),
	 .fallback = "true",
	 .about = "retries neither double nor reorder lines; wants `acks: all`"},
	{.name = "compression",
	 .type = KEY_STRING,
	 .offset = AT(compression),
	 .computed = "lz4",
	 .words = codecs,
	 .about = "how batches are compressed"},
	{.name = "linger",
	 .type = KEY_DURATION,
	 .offset = AT(linger_ns),
	 .computed = "5ms",
	 .min = 1000,
	 .max = 900000 * MS,
	 .about = "how long a line may wait for others of its batch"},
	{.name = "delivery_timeout",
	 .type = KEY_DURATION,
	 .offset = AT(delivery_timeout_ns),
	 .computed = "5m",
	 .min = MS,
	 .max = 24 * 86400000 * MS, /* librdkafka counts milliseconds in 31 bits */
	 .about = "how long to try to deliver a line before it counts as lost; with a spool it never does"},
	{.name = "tls", .type = KEY_MAP, .children = tls_keys, .about = "TLS"},
	{.name = "sasl", .type = KEY_MAP, .children = sasl_keys, .about = "SASL: user and password"},
	{.name = "librdkafka",
	 .type = KEY_FIELDS,
	 .offset = AT(properties),
	 .fallback = "{}",
	 .about = "further properties of librdkafka (its CONFIGURATION.md), such as `{client.id: tap}`; not "
		  "those that have a key here"},
	{0},
};

bool kafka_tls(const struct kafka_options *o)
{
	return o->tls.enabled || o->tls.ca_file || o->tls.cert_file || o->tls.key_file || !o->tls.verify;
}

/* ---- checks: each says what is wrong, or nothing ---- */

typedef int (*check_fn)(const struct kafka_options *o, char *error, size_t size);

/* HOST, HOST:PORT, [IPV6]:PORT */
static bool broker_ok(const char *broker)
{
	const char *colon = strrchr(broker, ':'), *bracket = strchr(broker, ']');
	char *end;
	long port;

	if (!*broker || *broker == ':' || strpbrk(broker, ", \t/") || (*broker == '[') != (bracket != NULL))
		return false;
	if (bracket && colon < bracket)
		return !bracket[1];
	if (!colon)
		return true;
	if (!bracket && strchr(broker, ':') != colon)
		return false;
	port = strtol(colon + 1, &end, 10);
	return colon[1] >= '0' && colon[1] <= '9' && !*end && port > 0 && port < 65536;
}

static int check_brokers(const struct kafka_options *o, char *error, size_t size)
{
	for (size_t i = 0; i < o->brokers.n; i++)
		if (!broker_ok(o->brokers.list[i])) {
			snprintf(error, size, "brokers: \"%.80s\" is not HOST:PORT", o->brokers.list[i]);
			return -EINVAL;
		}
	return 0;
}

static int check_topic(const struct kafka_options *o, char *error, size_t size)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	const char *topic = o->topic;

	/* org.apache.kafka.common.internals.Topic */
	if (*topic && strlen(topic) <= 249 && !topic[strspn(topic, letters)] && strcmp(topic, ".") &&
	    strcmp(topic, ".."))
		return 0;
	snprintf(error, size, "topic \"%.80s\": 1 to 249 letters, digits, \".\", \"_\", \"-\"", topic);
	return -EINVAL;
}

static int check_key(const struct kafka_options *o, char *error, size_t size)
{
	struct kafka_key key;

	return o->key ? kafka_key_parse(o->key, NULL, &key, error, size) : 0;
}

static int check_acks(const struct kafka_options *o, char *error, size_t size)
{
	if (!o->idempotence || !o->acks || !strcmp(o->acks, "all"))
		return 0;
	snprintf(error, size, "acks: %s does not go with idempotence: set `idempotence: false` as well",
		 o->acks);
	return -EINVAL;
}

static int check_security(const struct kafka_options *o, char *error, size_t size)
{
	bool sasl = o->sasl.mechanism || o->sasl.username || o->sasl.password || o->sasl.password_file;
	const char *wrong = NULL;

	if (!o->tls.cert_file != !o->tls.key_file)
		wrong = "tls: cert_file and key_file come together";
	else if (sasl && (!o->sasl.mechanism || !o->sasl.username))
		wrong = "sasl: mechanism and username are both needed";
	else if (sasl && !o->sasl.password == !o->sasl.password_file)
		wrong = "sasl: one of password and password_file is needed";
	if (!wrong)
		return 0;
	snprintf(error, size, "%s", wrong);
	return -EINVAL;
}

static void no_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
}

/* What librdkafka itself has to say about properties and their combination. */
static int check_properties(const struct kafka_options *o, char *error, size_t size)
{
	rd_kafka_conf_t *conf;
	rd_kafka_t *rk;
	char why[256];
	int r = kafka_conf_new(o, true, &conf, error, size);

	if (r)
		return r;
	rd_kafka_conf_set_log_cb(conf, no_log);
	rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	if (rk) {
		rd_kafka_destroy(rk);
		return 0;
	}
	rd_kafka_conf_destroy(conf);
	snprintf(error, size, "librdkafka: %s", why);
	return -EINVAL;
}

static const check_fn checks[] = {
	check_brokers, check_topic, check_key, check_acks, check_security, check_properties,
};

int kafka_check(const void *options, char *error, size_t error_size)
{
	int r = 0;

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && !r; i++)
		r = checks[i](options, error, error_size);
	return r;
}

/* ---- kafka://HOST:PORT,HOST:PORT/TOPIC ---- */

/* Frees the list when it fails. */
static int split_brokers(const char *text, size_t len, struct config_strings *ret_brokers)
{
	struct config_strings brokers = {0};
	size_t most = 1, done = 0;

	for (size_t i = 0; i < len; i++)
		most += text[i] == ',';
	brokers.list = calloc(most, sizeof(*brokers.list));
	while (brokers.list && done <= len) {
		size_t n = 0;

		while (done + n < len && text[done + n] != ',')
			n++;
		brokers.list[brokers.n] = strndup(text + done, n);
		if (!brokers.list[brokers.n])
			break;
		brokers.n++;
		done += n + 1;
	}
	if (brokers.n == most) {
		*ret_brokers = brokers;
		return 0;
	}
	while (brokers.n)
		free(brokers.list[--brokers.n]);
	free(brokers.list);
	return -ENOMEM;
}

int kafka_from_url(const char *url, void *options, char *error, size_t error_size)
{
	static const char scheme[] = "kafka:";
	struct kafka_options *o = options;
	const char *brokers, *topic;
	int r;

	if (strncmp(url, scheme, strlen(scheme)))
		return -ENOENT;
	brokers = url + strlen(scheme) + 2;
	topic = strncmp(url + strlen(scheme), "//", 2) ? NULL : strchr(brokers, '/');
	if (!topic || topic == brokers || !topic[1]) {
		snprintf(error, error_size,
			 "write kafka://HOST:PORT/TOPIC, or kafka://HOST:PORT,HOST:PORT/TOPIC");
		return -EINVAL;
	}
	r = split_brokers(brokers, (size_t)(topic - brokers), &o->brokers);
	if (r)
		return r;
	free(o->topic);
	o->topic = strdup(topic + 1);
	return o->topic ? 0 : -ENOMEM;
}
