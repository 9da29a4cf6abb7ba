/* The options of a kafka sink as librdkafka's configuration. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kafka.h"

#define SECRET_MAX 4096

/* ---- properties that the `librdkafka` map may not have ---- */

/* Which of the named keys are there? */
enum given { ALWAYS, ACKS, COMPRESSION, LINGER, TIMEOUT, PARTITIONER };

static bool is_given(const struct kafka_options *o, enum given given)
{
	switch (given) {
	case ACKS:
		return o->acks;
	case COMPRESSION:
		return o->compression;
	case LINGER:
		return o->linger_ns;
	case TIMEOUT:
		return o->delivery_timeout_ns;
	case PARTITIONER:
		return o->partitioner;
	case ALWAYS:
		break;
	}
	return true;
}

static const struct {
	const char *property;
	const char *key; /* that says the same; NULL: there is none, see `why` */
	enum given when; /* refused when that key is given */
	const char *why;
} refused[] = {
	{"bootstrap.servers", "brokers", ALWAYS, NULL},
	{"metadata.broker.list", "brokers", ALWAYS, NULL},
	{"enable.idempotence", "idempotence", ALWAYS, NULL},
	{"acks", "acks", ACKS, NULL},
	{"request.required.acks", "acks", ACKS, NULL},
	{"compression.codec", "compression", COMPRESSION, NULL},
	{"compression.type", "compression", COMPRESSION, NULL},
	{"linger.ms", "linger", LINGER, NULL},
	{"queue.buffering.max.ms", "linger", LINGER, NULL},
	{"message.timeout.ms", "delivery_timeout", TIMEOUT, NULL},
	{"delivery.timeout.ms", "delivery_timeout", TIMEOUT, NULL},
	{"partitioner", "partitioner", PARTITIONER, NULL},
	{"queue.buffering.max.messages", "queue.max_events", ALWAYS, NULL},
	{"queue.buffering.max.kbytes", "queue.max_bytes", ALWAYS, NULL},
	{"security.protocol", "tls, sasl", ALWAYS, NULL},
	{"ssl.ca.location", "tls.ca_file", ALWAYS, NULL},
	{"ssl.certificate.location", "tls.cert_file", ALWAYS, NULL},
	{"ssl.key.location", "tls.key_file", ALWAYS, NULL},
	{"enable.ssl.certificate.verification", "tls.verify", ALWAYS, NULL},
	{"sasl.mechanism", "sasl.mechanism", ALWAYS, NULL},
	{"sasl.mechanisms", "sasl.mechanism", ALWAYS, NULL},
	{"sasl.username", "sasl.username", ALWAYS, NULL},
	{"sasl.password", "sasl.password", ALWAYS, NULL},
	{"ssl.key.password", NULL, ALWAYS,
	 "secrets of this map would be printed; use a key without password"},
	{"ssl.key.pem", NULL, ALWAYS, "secrets of this map would be printed; use tls.key_file"},
	{"ssl.keystore.password", NULL, ALWAYS, "secrets of this map would be printed; use tls.key_file"},
	{"sasl.oauthbearer.client.secret", NULL, ALWAYS, "secrets of this map would be printed"},
	{"sasl.oauthbearer.config", NULL, ALWAYS, "secrets of this map would be printed"},
	{"delivery.report.only.error", NULL, ALWAYS, "what was delivered could not be counted"},
	{"transactional.id", NULL, ALWAYS, "the sink makes no transactions"},
	{"log.queue", NULL, ALWAYS, "nobody would read it"},
};

static int refuse(const struct kafka_options *o, const char *property, char *error, size_t size)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		if (strcmp(refused[i].property, property) || !is_given(o, refused[i].when))
			continue;
		if (refused[i].key)
			snprintf(error, size, "librdkafka: \"%s\" is said by the key %s%s", property,
				 refused[i].key, refused[i].when == ALWAYS ? "" : ", which is there, too");
		else
			snprintf(error, size, "librdkafka: \"%s\" cannot be set: %s", property,
				 refused[i].why);
		return -EINVAL;
	}
	return 0;
}

/* ---- setting ---- */

static int conf_set(rd_kafka_conf_t *conf, const char *name, const char *value, char *error, size_t size)
{
	char why[256];

	if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) == RD_KAFKA_CONF_OK)
		return 0;
	snprintf(error, size, "librdkafka: %s", why);
	return -EINVAL;
}

/* For what the map may overrule, and for what older versions do not know. */
static void conf_default(rd_kafka_conf_t *conf, const char *name, const char *value)
{
	char why[256];

	rd_kafka_conf_set(conf, name, value, why, sizeof(why));
}

static void conf_defaults(const struct kafka_options *o, rd_kafka_conf_t *conf)
{
	static const struct {
		const char *name, *value;
	} defaults[] = {
		{"client.id", "cudatap"},
		{"log.connection.close", "false"},
		{"socket.keepalive.enable", "true"},
		/* A broker that is back is used soon; lines wait in a bounded queue meanwhile. */
		{"reconnect.backoff.max.ms", "1000"},
		{"socket.connection.setup.timeout.ms", "10000"},
		/* A topic that is not there: when to believe it. */
		{"topic.metadata.propagation.max.ms", "10000"},
		/* From 2.5 on clients send figures about themselves when brokers ask. */
		{"enable.metrics.push", "false"},
		/* The sink keeps to the bounds of its queue itself. */
		{"queue.buffering.max.messages", "2147483647"},
		{"queue.buffering.max.kbytes", "2147483647"},
	};

	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
		conf_default(conf, defaults[i].name, defaults[i].value);
	conf_default(conf, "enable.idempotence", o->idempotence ? "true" : "false");
	conf_default(conf, "acks", o->acks ? o->acks : "all");
	conf_default(conf, "compression.codec", o->compression ? o->compression : "lz4");
	conf_default(conf, "partitioner", o->partitioner ? o->partitioner : "murmur2_random");
}

static void conf_times(const struct kafka_options *o, rd_kafka_conf_t *conf)
{
	char text[32];

	if (o->linger_ns) {
		snprintf(text, sizeof(text), "%.3f", (double)o->linger_ns / 1e6);
		conf_default(conf, "linger.ms", text);
	}
	if (o->delivery_timeout_ns) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)(o->delivery_timeout_ns / 1000000));
		conf_default(conf, "message.timeout.ms", text);
	}
}

static int conf_brokers(const struct kafka_options *o, rd_kafka_conf_t *conf, char *error, size_t size)
{
	size_t len = 1;
	char *text, *p;
	int r;

	for (size_t i = 0; i < o->brokers.n; i++)
		len += strlen(o->brokers.list[i]) + 1;
	text = p = malloc(len);
	if (!text)
		return -ENOMEM;
	*p = 0;
	for (size_t i = 0; i < o->brokers.n; i++)
		p += sprintf(p, "%s%s", i ? "," : "", o->brokers.list[i]);
	r = conf_set(conf, "bootstrap.servers", text, error, size);
	free(text);
	return r;
}

/* The first line of a file. */
static int read_secret(const char *path, char *out, size_t out_size, char *error, size_t size)
{
	FILE *file = fopen(path, "re");
	int r = 0;

	if (!file || !fgets(out, (int)out_size, file)) {
		r = file && !ferror(file) ? -ENODATA : errno ? -errno : -EIO;
		snprintf(error, size, "sasl.password_file %s: %s", path,
			 r == -ENODATA ? "it is empty" : strerror(-r));
	} else {
		out[strcspn(out, "\r\n")] = 0;
	}
	if (file)
		fclose(file);
	return r;
}

static int conf_tls(const struct kafka_options *o, rd_kafka_conf_t *conf, char *error, size_t size)
{
	int r = conf_set(conf, "ssl.ca.location", o->tls.ca_file ? o->tls.ca_file : "probe", error, size);

	if (!r && o->tls.cert_file)
		r = conf_set(conf, "ssl.certificate.location", o->tls.cert_file, error, size);
	if (!r && o->tls.key_file)
		r = conf_set(conf, "ssl.key.location", o->tls.key_file, error, size);
	if (!r && !o->tls.verify)
		r = conf_set(conf, "enable.ssl.certificate.verification", "false", error, size);
	if (!r && !o->tls.verify)
		r = conf_set(conf, "ssl.endpoint.identification.algorithm", "none", error, size);
	return r;
}

static int conf_sasl(const struct kafka_options *o, rd_kafka_conf_t *conf, char *error, size_t size)
{
	char secret[SECRET_MAX];
	const char *password = o->sasl.password;
	int r = 0;

	if (o->sasl.password_file) {
		r = read_secret(o->sasl.password_file, secret, sizeof(secret), error, size);
		password = secret;
	}
	if (!r)
		r = conf_set(conf, "sasl.mechanism", o->sasl.mechanism, error, size);
	if (!r)
		r = conf_set(conf, "sasl.username", o->sasl.username, error, size);
	if (!r)
		r = conf_set(conf, "sasl.password", password, error, size);
	explicit_bzero(secret, sizeof(secret));
	return r;
}

static int conf_security(const struct kafka_options *o, rd_kafka_conf_t *conf, char *error, size_t size)
{
	static const char *const protocols[2][2] = {{"plaintext", "ssl"}, {"sasl_plaintext", "sasl_ssl"}};
	bool sasl = o->sasl.mechanism, tls = kafka_tls(o);
	int r = conf_set(conf, "security.protocol", protocols[sasl][tls], error, size);

	if (!r && tls)
		r = conf_tls(o, conf, error, size);
	if (!r && sasl)
		r = conf_sasl(o, conf, error, size);
	return r;
}

static int conf_properties(const struct kafka_options *o, rd_kafka_conf_t *conf, char *error, size_t size)
{
	int r = 0;

	for (size_t i = 0; i < o->properties.n && !r; i++) {
		const struct config_field *property = &o->properties.list[i];

		r = refuse(o, property->name, error, size);
		if (!r)
			r = conf_set(conf, property->name, property->value, error, size);
	}
	return r;
}

int kafka_conf_new(const struct kafka_options *o, bool dry, rd_kafka_conf_t **ret_conf, char *error,
		   size_t error_size)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	int r;

	snprintf(error, error_size, "out of memory");
	conf_defaults(o, conf);
	conf_times(o, conf);
	r = conf_properties(o, conf, error, error_size);
	if (!r && !dry)
		r = conf_brokers(o, conf, error, error_size);
	if (!r && !dry)
		r = conf_security(o, conf, error, error_size);
	if (r) {
		rd_kafka_conf_destroy(conf);
		return r;
	}
	*ret_conf = conf;
	return 0;
}

bool kafka_conf_debug(const struct kafka_options *o)
{
	for (size_t i = 0; i < o->properties.n; i++)
		if (!strcmp(o->properties.list[i].name, "debug"))
			return true;
	return false;
}
