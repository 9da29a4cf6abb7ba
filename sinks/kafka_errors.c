/* What Kafka's errors mean here: one row each. Names and meanings: rdkafka.h. */
#include "kafka.h"

static const struct {
	rd_kafka_resp_err_t err;
	struct kafka_meaning meaning;
} errors[] = {
#define ROW(name, why, ...)                          \
	{                                            \
		RD_KAFKA_RESP_ERR_##name,            \
		{                                    \
			.reason = (why), __VA_ARGS__ \
		}                                    \
	}
#define REFUSED  .refused = true
#define STANDING .standing = true
	/* nobody answers */
	ROW(_TRANSPORT, SINK_UNREACHABLE),
	ROW(_RESOLVE, SINK_UNREACHABLE, .advice = "check the names in `brokers`"),
	ROW(_ALL_BROKERS_DOWN, SINK_UNREACHABLE),
	ROW(_NODE_UPDATE, SINK_UNREACHABLE),
	ROW(_WAIT_COORD, SINK_UNREACHABLE),
	ROW(BROKER_NOT_AVAILABLE, SINK_UNREACHABLE),
	ROW(LEADER_NOT_AVAILABLE, SINK_UNREACHABLE),
	ROW(NOT_LEADER_FOR_PARTITION, SINK_UNREACHABLE),
	ROW(REPLICA_NOT_AVAILABLE, SINK_UNREACHABLE),
	ROW(NETWORK_EXCEPTION, SINK_UNREACHABLE),
	ROW(COORDINATOR_NOT_AVAILABLE, SINK_UNREACHABLE),
	ROW(COORDINATOR_LOAD_IN_PROGRESS, SINK_UNREACHABLE),
	ROW(NOT_ENOUGH_REPLICAS, SINK_UNREACHABLE,
	    .advice = "fewer brokers are in sync than min.insync.replicas of the topic"),
	ROW(NOT_ENOUGH_REPLICAS_AFTER_APPEND, SINK_UNREACHABLE),
	ROW(KAFKA_STORAGE_ERROR, SINK_UNREACHABLE),
	/* answers come too late */
	ROW(_TIMED_OUT, SINK_TIMED_OUT),
	ROW(_TIMED_OUT_QUEUE, SINK_TIMED_OUT),
	ROW(_MSG_TIMED_OUT, SINK_TIMED_OUT),
	ROW(REQUEST_TIMED_OUT, SINK_TIMED_OUT),
	/* one of the two does not trust the other */
	ROW(_SSL, SINK_AUTH, .advice = "check `tls` and the broker's certificate"),
	ROW(_AUTHENTICATION, SINK_AUTH, .advice = "check `sasl`"),
	ROW(SASL_AUTHENTICATION_FAILED, SINK_AUTH, .advice = "check `sasl`"),
	ROW(UNSUPPORTED_SASL_MECHANISM, SINK_AUTH, .advice = "check `sasl.mechanism`"),
	ROW(TOPIC_AUTHORIZATION_FAILED, SINK_AUTH, REFUSED, STANDING,
	    .advice = "the user needs the right to write to the topic"),
	ROW(CLUSTER_AUTHORIZATION_FAILED, SINK_AUTH, REFUSED, STANDING,
	    .advice =
		    "the user needs the right to write idempotently (IdempotentWrite on the cluster), or set "
		    "`idempotence: false`"),
	ROW(TRANSACTIONAL_ID_AUTHORIZATION_FAILED, SINK_AUTH, REFUSED, STANDING),
	/* the broker, or librdkafka for it, does not want the message */
	ROW(_UNKNOWN_TOPIC, SINK_REJECTED, REFUSED, STANDING,
	    .advice = "create the topic, or let the brokers create topics"),
	ROW(UNKNOWN_TOPIC_OR_PART, SINK_REJECTED, REFUSED, STANDING,
	    .advice = "create the topic, or let the brokers create topics"),
	/* what lay ready for a topic's partition when the brokers no longer knew the topic */
	ROW(_UNKNOWN_PARTITION, SINK_REJECTED, REFUSED, STANDING,
	    .advice = "create the topic, or let the brokers create topics"),
	ROW(TOPIC_EXCEPTION, SINK_REJECTED, REFUSED, STANDING, .advice = "choose another name for the topic"),
	ROW(POLICY_VIOLATION, SINK_REJECTED, REFUSED),
	ROW(INVALID_MSG, SINK_REJECTED, REFUSED),
	ROW(INVALID_RECORD, SINK_REJECTED, REFUSED),
	ROW(INVALID_TIMESTAMP, SINK_REJECTED, REFUSED,
	    .advice = "compare this host's clock with the broker's"),
	ROW(INVALID_REQUIRED_ACKS, SINK_REJECTED, REFUSED),
	ROW(UNSUPPORTED_FOR_MESSAGE_FORMAT, SINK_REJECTED, REFUSED),
	ROW(UNSUPPORTED_VERSION, SINK_REJECTED, REFUSED),
	ROW(UNSUPPORTED_COMPRESSION_TYPE, SINK_REJECTED, REFUSED, .advice = "set another `compression`"),
	ROW(_NOT_IMPLEMENTED, SINK_REJECTED, REFUSED),
	/* too much at once */
	ROW(MSG_SIZE_TOO_LARGE, SINK_TOO_LARGE, REFUSED),
	ROW(RECORD_LIST_TOO_LARGE, SINK_TOO_LARGE, REFUSED),
	/* the producer cannot go on */
	ROW(_FATAL, SINK_FATAL),
	ROW(_STATE, SINK_FATAL),
	ROW(_INCONSISTENT, SINK_FATAL),
	ROW(_FENCED, SINK_FATAL),
	ROW(_GAPLESS_GUARANTEE, SINK_FATAL),
	ROW(OUT_OF_ORDER_SEQUENCE_NUMBER, SINK_FATAL),
	ROW(UNKNOWN_PRODUCER_ID, SINK_FATAL),
	ROW(INVALID_PRODUCER_EPOCH, SINK_FATAL),
	/* the end */
	ROW(_PURGE_QUEUE, SINK_SHUTDOWN),
	ROW(_PURGE_INFLIGHT, SINK_SHUTDOWN),
	ROW(_DESTROY, SINK_SHUTDOWN),
#undef ROW
#undef REFUSED
#undef STANDING
};

struct kafka_meaning kafka_meaning(rd_kafka_resp_err_t err)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].err == err)
			return errors[i].meaning;
	/* Positive codes are a broker's word, negative ones librdkafka's own. */
	return (struct kafka_meaning){.reason = err > 0 ? SINK_REJECTED : SINK_IO_ERROR};
}
