/*
 * The sink `kafka` from inside. Files:
 *
 *	kafka.c			the kind: lines in, fates out
 *	kafka_handle.c		one librdkafka producer: making, ending, what it reports
 *	kafka_options.c		keys, checks, short URLs
 *	kafka_conf.c		options to librdkafka's configuration
 *	kafka_errors.c		what an error means: reason of loss, advice
 *	kafka_key.c		the template of message keys
 *	kafka_lines.c		lines between their queue and their fate
 *	kafka_pins.c		which chunks the messages in flight lie in
 *
 * Sources of facts: librdkafka's rdkafka.h, INTRODUCTION.md and CONFIGURATION.md (2.0 to 2.12).
 */
#ifndef CUDATAP_KAFKA_H
#define CUDATAP_KAFKA_H

#include <librdkafka/rdkafka.h>

#include "../config/config.h"
#include "chunk.h"
#include "sink.h"

/* ---- options ---- */

struct kafka_options {
	struct config_strings brokers;
	char *topic;
	char *key;                               /* template */
	char *partitioner, *acks, *compression;  /* NULL: the default */
	uint64_t linger_ns, delivery_timeout_ns; /* 0: the default */
	bool idempotence, headers;
	struct {
		bool enabled, verify;
		char *ca_file, *cert_file, *key_file;
	} tls;
	struct {
		char *mechanism, *username, *password, *password_file;
	} sasl;
	struct config_fields properties;
};

extern const struct key kafka_keys[];
int kafka_check(const void *options, char *error, size_t error_size);
int kafka_from_url(const char *url, void *options, char *error, size_t error_size);
/** kafka_tls - is TLS to be used? */
bool kafka_tls(const struct kafka_options *o);

/**
 * kafka_conf_new - librdkafka's configuration
 * @dry: for checking: no brokers, no files are read, no security
 * Returns 0, or -EINVAL or -ENOMEM and one sentence in @error.
 */
int kafka_conf_new(const struct kafka_options *o, bool dry, rd_kafka_conf_t **ret_conf, char *error,
		   size_t error_size);
/** kafka_conf_debug - does the user want librdkafka's own log? */
bool kafka_conf_debug(const struct kafka_options *o);

/* ---- keys of messages ---- */

#define KAFKA_KEY_PARTS 16
#define KAFKA_KEY_MAX   1024 /* bytes of one key */

struct kafka_key_part {
	int field; /* of kafka_key.c's table; -1: text */
	const char *text;
	size_t len;
};

struct kafka_key {
	struct kafka_key_part parts[KAFKA_KEY_PARTS];
	size_t nparts; /* 0: messages have no key */
	bool seq;      /* each line has a key of its own */
};

/**
 * kafka_key_parse - compile a template such as "%{host}/%{pid}"
 * @template: is referred to
 * @origin: likewise; NULL: only check
 * Returns 0, or -EINVAL and one sentence.
 */
int kafka_key_parse(const char *template, const struct sink_origin *origin, struct kafka_key *ret_key,
		    char *error, size_t error_size);
/** kafka_key_format - the key of one line; returns its length, at most KAFKA_KEY_MAX */
size_t kafka_key_format(const struct kafka_key *key, const struct line_meta *meta, char *out);

/* ---- errors ---- */

struct kafka_meaning {
	enum sink_reason reason;
	bool refused;       /* the broker surely has not kept the message, whatever its status says */
	bool standing;      /* holds for every message until something changes outside */
	const char *advice; /* or NULL */
};

struct kafka_meaning kafka_meaning(rd_kafka_resp_err_t err);

/* ---- pins ---- */

/*
 * Messages refer to lines in chunks until their fate is known. One reference
 * per chunk is held, with the count of lines it is for. What is pinned stays
 * within twice the bytes in flight and QUEUE_SLACK, as in the queue: a line
 * that would go beyond is copied.
 */
struct kafka_pin {
	struct chunk *chunk;
	uint32_t lines;
};

struct kafka_pins {
	struct kafka_pin *slots; /* open addressing, a power of two; chunk NULL: free */
	size_t capacity, n;
};

/** pins_may - may that chunk be pinned when so many bytes are in flight? */
bool pins_may(struct kafka_pins *pins, const struct chunk *chunk, uint64_t bytes);
/** pins_add - @n more lines of it; false: out of memory */
bool pins_add(struct kafka_pins *pins, struct chunk *chunk, uint32_t n);
/** pins_drop - @n lines less */
void pins_drop(struct kafka_pins *pins, struct chunk *chunk, uint32_t n);
void pins_free(struct kafka_pins *pins);

/* ---- one sink ---- */

#define KAFKA_SCHEMA_VERSION "1" /* of docs/event.schema.json, in the headers */

#define KAFKA_BATCH 1024        /* lines handed to librdkafka at once */
#define KAFKA_KEYS  (64u << 10) /* bytes of their keys */

/* Lines in flight are named by a pointer: to the table of their chunk, or to a copy of their own. */
struct kafka_lines {
	struct line **list;
	size_t n, capacity;
};

/* What a round of reports said, told to the worker in one go. */
struct kafka_tally {
	uint64_t delivered, bytes, unknown;
	struct {
		uint64_t n, first, last;
	} dropped[SINK_NREASONS];
};

/* What keeps messages from being delivered, since the last one was. */
struct kafka_trouble {
	bool on, said;
	enum sink_reason reason;
	char text[256];
};

enum kafka_state {
	KAFKA_UP,
	KAFKA_ENDING, /* the handle takes nothing more: a new one follows when it is empty */
	KAFKA_DOWN,   /* no handle: a new one is made at renew_ns */
};

struct kafka_grave; /* handles being destroyed */

struct kafka {
	struct sink *sink;
	const struct kafka_options *options;
	struct kafka_key key;
	rd_kafka_headers_t *headers; /* or NULL */
	char *target;

	/* the handle */
	enum kafka_state state;
	rd_kafka_t *rk;
	rd_kafka_topic_t *topic;
	rd_kafka_queue_t *queue;
	int event_fd;         /* readable: something is in the queue */
	size_t produced;      /* messages that the handle has */
	bool purged;          /* KAFKA_ENDING: in flight, too */
	uint64_t patience_ns; /* until when it may end by itself */
	uint64_t renew_ns;
	unsigned failures;        /* fatal errors since the last delivery */
	uint64_t returned_before; /* `returned` when it was made */
	uint64_t batch_bytes;     /* batch.size, 0: librdkafka's; lowered when brokers refuse batches */
	uint64_t grow_ns;         /* when it may be raised to good_bytes */
	uint64_t good_bytes;      /* the largest batch that a broker took */
	struct kafka_grave *grave;
	bool closing;

	/* lines in our hands: in the handle, or to be handed to the next one */
	uint64_t held, held_bytes;
	struct kafka_pins pins;
	struct kafka_pin unpinned; /* lines of one chunk that are done with, not yet told to `pins` */
	struct kafka_lines again;  /* for the next handle */
	uint64_t returned;         /* lines that went back to the spool, ever */
	struct kafka_tally tally;
	bool reported; /* something is in it, or was heard at all */
	struct kafka_trouble trouble;
	uint64_t progress_ns;             /* the last report, or the moment something was first handed over */
	uint64_t quiet_ns[SINK_NREASONS]; /* no message about this before */

	struct line *batch[KAFKA_BATCH];
	rd_kafka_message_t messages[KAFKA_BATCH];
	char keys[KAFKA_KEYS];
};

/* kafka_handle.c */

/** handle_open - a new producer. Returns 0, or a negative errno and one sentence. */
int handle_open(struct kafka *k, char *error, size_t error_size);
/** handle_close - destroy it, in a thread of its own: that can wait for name servers */
void handle_close(struct kafka *k);
/** handle_retire - take nothing more; what has not been sent comes back to `again` */
void handle_retire(struct kafka *k);
/** handle_serve - take its reports and errors, without waiting; end and renew it where that is due */
void handle_serve(struct kafka *k);
/** handle_failed - the handle met a fatal error: retire it */
void handle_failed(struct kafka *k);
/** handle_purge - give up on all that it has */
void handle_purge(struct kafka *k);
/** grave_wait - until all handles are destroyed or the time is up */
void grave_wait(struct kafka *k, uint64_t until_ns);

/** kafka_trouble - something stands in the way; says so at most every 10 s for each reason */
void kafka_trouble(struct kafka *k, rd_kafka_resp_err_t err, const char *text);

/* kafka_lines.c */

/** kafka_room - how many of these lines may come into our hands now */
size_t kafka_room(const struct kafka *k, const struct line *lines, size_t n);
/** kafka_hold - take lines: they stay readable by k->batch[] until they are let go. Returns how many;
 * fewer than @n when out of memory. */
size_t kafka_hold(struct kafka *k, const struct line *lines, size_t n);
/** kafka_keep - a line goes by the next handle; false: out of memory */
bool kafka_keep(struct kafka *k, struct line *line);
/** kafka_let_go - a line is done with. Its chunk may stay pinned until kafka_unpin(). */
void kafka_let_go(struct kafka *k, struct line *line);
void kafka_unpin(struct kafka *k);

/* kafka.c */

/** kafka_fate - the report on one message; @batch: how many were reported together */
void kafka_fate(struct kafka *k, const rd_kafka_message_t *message, size_t batch);
/** kafka_drop - one line is lost */
void kafka_drop(struct kafka *k, struct line *line, enum sink_reason reason);
/** kafka_give_up - the lines for the next handle are lost, for what stands in the way */
void kafka_give_up(struct kafka *k);
/** kafka_return - the lines for the next handle go back to the spool, those that are out of it */
void kafka_return(struct kafka *k);
/** kafka_tell - the tally to the worker */
void kafka_tell(struct kafka *k);

#endif
