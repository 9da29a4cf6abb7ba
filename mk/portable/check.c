/* Does the portable executable's librdkafka have what the Kafka sink promises? */
#include <librdkafka/rdkafka.h>
#include <stdio.h>

static const char *const settings[][2] = {
	{"security.protocol", "sasl_ssl"},
	{"sasl.mechanisms", "SCRAM-SHA-512"},
	{"sasl.username", "user"},
	{"sasl.password", "password"},
	{"compression.type", "zstd"},
	{"log_level", "3"},
	{"enable.idempotence", "true"},
};

int main(void)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char error[512];
	rd_kafka_t *producer;

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (rd_kafka_conf_set(conf, settings[i][0], settings[i][1], error, sizeof(error))) {
			fprintf(stderr, "librdkafka: %s\n", error);
			return 1;
		}
	producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof(error));
	if (!producer) {
		fprintf(stderr, "librdkafka: %s\n", error);
		return 1;
	}
	rd_kafka_destroy(producer);
	return 0;
}
