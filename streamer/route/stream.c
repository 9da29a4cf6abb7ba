/*
 * The reader thread: ring records to events, events to lines, lines to sinks.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "../enrich/enrich.h"
#include "../log.h"
#include "bodies.h"
#include "gate.h"
#include "known.h"
#include "losses.h"
#include "rules.h"
#include "stream.h"

#define MAX_FORMATS    FANOUT_MAX_FORMS
#define PROCESS_FIELDS 0x3full /* of encode_field_names[], from ENCODE_PROCESS_FIELD on */
#define SECOND         1000000000ull

_Static_assert(MAX_FORMATS <= THREAD_PREFIXES,
	       "each form keeps what it says of a thread in a slot of its own");

/* An event on its way from the control thread. */
struct posted {
	struct posted *next;
	enum event_type type;
	json_t *body;
};

struct stream {
	struct stream_options options;
	struct fanout *fanout;
	struct gate *gate;   /* NULL: every sink takes every call */
	struct rules *rules; /* NULL: every call becomes an event */
	struct known *known;
	struct clock_map *clock;
	char run[13];
	struct sink_origin origin;
	size_t nformats;
	struct encoder *encoders[MAX_FORMATS];      /* the reader's */
	struct encoder *loss_encoders[MAX_FORMATS]; /* the workers', under loss_lock */
	uint64_t format_sinks[MAX_FORMATS];
	pthread_mutex_t loss_lock;
	struct losses losses;
	uint64_t seq, last_tick_ns;
	_Atomic uint64_t emitted, unfinished, undecodable, filtered, limited, events;
	pthread_t reader;
	bool running;
	atomic_bool stop;
	pthread_mutex_t post_lock;
	struct posted *first, **last;
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * SECOND + ts.tv_nsec;
}

/* ---- events ---- */

static void count(_Atomic uint64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static void emit_call(struct stream *stream, const struct call *call, struct thread *thread)
{
	int64_t ts = clock_map_real(stream->clock, call->rec->start_ns);
	uint64_t wanted, sinks;
	struct line_meta meta;
	size_t format, len;

	known_count(thread, call);
	stream->seq++;
	wanted = gate_call(stream->gate, stream->fanout, call, thread);
	for (format = 0; format < stream->nformats; format++) {
		sinks = stream->format_sinks[format] & wanted;
		if (!sinks)
			continue;
		len = encode_call(stream->encoders[format], call, thread, stream->seq, ts,
				  fanout_reserve(stream->fanout, format), &meta);
		fanout_commit(stream->fanout, format, len, &meta, sinks);
	}
	count(&stream->emitted);
	if (call->status == CALL_UNFINISHED)
		count(&stream->unfinished);
}

static void emit_event(struct stream *stream, enum event_type type, json_t *body)
{
	int64_t ts = clock_ns(CLOCK_REALTIME);
	struct line_meta meta;
	size_t format;
	int len;

	stream->seq++;
	for (format = 0; format < stream->nformats; format++) {
		len = encode_event(stream->encoders[format], type, body, stream->seq, ts,
				   fanout_reserve(stream->fanout, format), &meta);
		if (len > 0)
			fanout_commit(stream->fanout, format, len, &meta, stream->format_sinks[format]);
		else
			fanout_lost(stream->fanout, stream->format_sinks[format], SINK_ENCODE_ERROR,
				    stream->seq);
	}
	json_decref(body);
}

static void emit_known(void *ctx, enum event_type type, json_t *body)
{
	emit_event(ctx, type, body);
}

static void emit_posted(struct stream *stream)
{
	struct posted *posted, *next;

	pthread_mutex_lock(&stream->post_lock);
	posted = stream->first;
	stream->first = NULL;
	stream->last = &stream->first;
	pthread_mutex_unlock(&stream->post_lock);
	for (; posted; posted = next) {
		next = posted->next;
		emit_event(stream, posted->type, posted->body);
		free(posted);
	}
}

void stream_post(struct stream *stream, enum event_type type, json_t *body)
{
	struct posted *posted = malloc(sizeof(*posted));

	if (!posted || !body) {
		log_msg("out of memory: a `%s` event is missing from the stream", event_type_names[type]);
		free(posted);
		json_decref(body);
		return;
	}
	*posted = (struct posted){.type = type, .body = body};
	pthread_mutex_lock(&stream->post_lock);
	*stream->last = posted;
	stream->last = &posted->next;
	pthread_mutex_unlock(&stream->post_lock);
	capture_wake(stream->options.capture);
}

/* ---- records ---- */

static void take_call(struct stream *stream, const void *record, size_t size)
{
	struct thread *thread = NULL;
	struct call call;

	if (!decode_call(stream->options.plans, record, size, &call))
		thread = known_call(stream->known, &call);
	if (!thread) {
		count(&stream->undecodable); /* or no memory: the call is lost, and said to be */
		return;
	}
	switch (rules_call(stream->rules, &call, thread)) {
	case RULED_EVENT:
		emit_call(stream, &call, thread);
		break;
	case RULED_FILTERED:
		count(&stream->filtered);
		break;
	case RULED_LIMITED:
		count(&stream->limited);
		break;
	}
}

/* The look at open calls may have come too late: the call's end went into the ring before. */
static void take_open(struct stream *stream, const void *record, size_t size)
{
	struct thread *thread;
	struct call call;

	if (decode_call(stream->options.plans, record, size, &call))
		return;
	thread = known_call(stream->known, &call);
	if (!thread || thread->last_start_ns == call.rec->start_ns)
		return;
	emit_event(stream, EVENT_OPEN,
		   body_open(&call, thread, clock_map_real(stream->clock, call.rec->start_ns)));
}

static void take_record(void *ctx, const void *record, size_t size)
{
	const struct rec_duplicate *duplicate = record;
	struct stream *stream = ctx;

	switch (*(const uint16_t *)record) {
	case REC_CALL:
		take_call(stream, record, size);
		break;
	case REC_OPEN:
		take_open(stream, record, size);
		break;
	case REC_DUPLICATE:
		if (stream->options.on_duplicate)
			stream->options.on_duplicate(stream->options.ctx, duplicate->cookie >> 16,
						     duplicate->first_cookie >> 16);
		break;
	default:
		known_record(stream->known, record, size);
	}
}

/* Once a second, while there is something to do: the clock, and what was lost meanwhile. */
static void tick(struct stream *stream, bool last)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	json_t *body;
	int64_t step;

	if (!last && now - stream->last_tick_ns < SECOND)
		return;
	stream->last_tick_ns = now;
	step = clock_map_tick(stream->clock);
	if (step)
		emit_event(stream, EVENT_CLOCK, json_pack("{sI}", "step_ns", (json_int_t)step));
	while ((body = losses_next(&stream->losses, stream->options.capture,
				   atomic_load(&stream->undecodable))))
		emit_event(stream, EVENT_LOSS, body);
}

static size_t read_records(struct stream *stream, bool wait)
{
	size_t n;

	known_turn(stream->known);
	n = capture_read(stream->options.capture, take_record, stream, wait);

	if (n < CAPTURE_BATCH)
		known_settle(stream->known);
	return n;
}

static void *reader_main(void *arg)
{
	struct stream *stream = arg;

	pthread_setname_np(pthread_self(), "cudatap-reader");
	while (!atomic_load(&stream->stop)) {
		read_records(stream, true);
		tick(stream, false);
		emit_posted(stream);
		atomic_store(&stream->events, stream->seq);
		fanout_flush(stream->fanout);
	}
	/* producers are gone by now: what they left is finite */
	while (read_records(stream, false))
		fanout_flush(stream->fanout);
	tick(stream, true);
	emit_posted(stream);
	atomic_store(&stream->events, stream->seq);
	fanout_flush(stream->fanout);
	return NULL;
}

/* ---- losses of sinks ---- */

static size_t sink_index(const struct stream *stream, const char *name)
{
	const struct config *config = stream->options.config;
	size_t i = 0;

	while (i + 1 < config->nsinks && strcmp(config->sinks[i].name, name))
		i++;
	return i;
}

/* Runs in the sinks' workers. */
static int encode_sink_loss(void *ctx, const char *format, const struct sink_loss *loss, char *out,
			    size_t size, struct line_meta *ret_meta)
{
	struct stream *stream = ctx;
	int len = -EINVAL;
	json_t *body;
	size_t i;

	if (size < ENCODE_MAX_LINE)
		return -E2BIG;
	body = json_pack("{ss so ss sI}", "source", "sink", "sink", encode_string(loss->sink), "reason",
			 sink_reason_names[loss->reason], "count", (json_int_t)loss->count);
	if (loss->seq_first) { /* an earlier run's lines, out of its spool, have no number in this one */
		json_object_set_new(body, "seq_first", json_integer((json_int_t)loss->seq_first));
		json_object_set_new(body, "seq_last", json_integer((json_int_t)loss->seq_last));
	}
	if (!body)
		return -ENOMEM;
	pthread_mutex_lock(&stream->loss_lock);
	for (i = 0; i < stream->nformats && len < 0; i++)
		if (stream->format_sinks[i] >> sink_index(stream, loss->sink) & 1)
			len = encode_event(stream->loss_encoders[i], EVENT_LOSS, body, 0,
					   clock_ns(CLOCK_REALTIME), out, ret_meta);
	pthread_mutex_unlock(&stream->loss_lock);
	json_decref(body);
	return len;
}

json_t *stream_sinks(const struct stream *stream)
{
	json_t *all = json_object(), *one, *dropped;
	struct sink_counters c;
	size_t i;
	int r;

	for (i = 0; i < fanout_nsinks(stream->fanout); i++) {
		fanout_counters(stream->fanout, i, &c);
		dropped = json_object();
		for (r = 0; r < SINK_NREASONS; r++)
			if (c.dropped[r])
				json_object_set_new(dropped, sink_reason_names[r],
						    json_integer(c.dropped[r]));
		one = json_pack("{sI sI sI so sI sI sI sI sI sI}", "received", (json_int_t)c.received,
				"recovered", (json_int_t)c.recovered, "delivered", (json_int_t)c.delivered,
				"dropped", dropped, "unknown", (json_int_t)c.unknown, "filtered",
				(json_int_t)c.filtered, "rate_limited", (json_int_t)c.rate_limited, "queued",
				(json_int_t)c.queued, "in_flight", (json_int_t)c.in_flight, "spooled",
				(json_int_t)c.spooled);
		json_object_set_new(all, fanout_sink_name(stream->fanout, i), one);
	}
	return all;
}

uint64_t stream_sinks_lost(const struct stream *stream)
{
	struct sink_counters c;
	uint64_t lost = 0;
	size_t i;

	for (i = 0; i < fanout_nsinks(stream->fanout); i++) {
		fanout_counters(stream->fanout, i, &c);
		lost += sink_counters_dropped(&c) + c.unknown;
	}
	return lost;
}

/* ---- life ---- */

/* 12 letters and digits: 62 bits of chance, enough for every run there will be. */
static void make_run(char run[13])
{
	static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	uint64_t bits = clock_ns(CLOCK_REALTIME);
	int i;

	if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits))
		bits ^= clock_ns(CLOCK_BOOTTIME) << 20;
	for (i = 0; i < 12; i++, bits /= 36)
		run[i] = letters[bits % 36];
	run[12] = 0;
}

/* The keys that a sink's calls do not have, for encoder_options. */
static uint64_t unwanted_fields(const struct config *config, const struct config_sink *sink)
{
	uint64_t unwanted = ~config->fields.process & PROCESS_FIELDS;
	uint64_t only = sink->fields.only ? sink->fields.only : UINT64_MAX;

	return (~only | sink->fields.drop) << ENCODE_FIXED_FIELDS | unwanted << ENCODE_PROCESS_FIELD;
}

static void copy_fields(struct encode_static *to, const struct config_fields *from)
{
	for (size_t i = 0; i < from->n; i++)
		to[i] = (struct encode_static){from->list[i].name, from->list[i].value};
}

static struct encoder *make_encoder(const struct stream *stream, size_t format, char *error,
				    size_t error_size)
{
	const struct config *config = stream->options.config;
	const struct config_sink *sink = fanout_format_config(stream->fanout, format);
	const struct config_strings *redact[] = {&config->fields.redact, &sink->fields.redact};
	struct encode_static statics[config->fields.nstatics + 1], rename[sink->fields.rename.n + 1];
	const char *parameters[redact[0]->n + redact[1]->n + 1];
	struct encoder_options options = {
		.format = sink->format,
		.slot = (unsigned)format,
		.run = stream->run,
		.host = config->host,
		.args = config->fields.args && sink->fields.args,
		.nested = config->nested,
		.statics = statics,
		.nstatics = config->fields.nstatics,
		.without = unwanted_fields(config, sink),
		.rename = rename,
		.nrename = sink->fields.rename.n,
		.redact = parameters,
		.env = (const char *const *)config->fields.env.list,
		.nenv = config->fields.env.n,
		.plans = stream->options.plans,
		.error_size = error_size,
	};

	options.error = error;
	copy_fields(statics, &config->fields.constant);
	copy_fields(rename, &sink->fields.rename);
	for (int i = 0; i < 2; i++)
		for (size_t j = 0; j < redact[i]->n; j++)
			parameters[options.nredact++] = redact[i]->list[j];
	return encoder_new(&options);
}

static int make_encoders(struct stream *stream, char *error, size_t error_size)
{
	char why[256];
	size_t i;

	stream->nformats = fanout_nformats(stream->fanout);
	if (stream->nformats > MAX_FORMATS) {
		stream->nformats = 0;
		snprintf(error, error_size,
			 "the sinks want events in more than %d combinations of `format` and `fields`",
			 MAX_FORMATS);
		return -E2BIG;
	}
	for (i = 0; i < stream->nformats; i++) {
		stream->format_sinks[i] = fanout_format_sinks(stream->fanout, i);
		stream->encoders[i] = make_encoder(stream, i, why, sizeof(why));
		if (stream->encoders[i])
			stream->loss_encoders[i] = make_encoder(stream, i, why, sizeof(why));
		if (stream->encoders[i] && stream->loss_encoders[i])
			continue;
		snprintf(error, error_size, "sink %s: %s", fanout_format_config(stream->fanout, i)->name,
			 why);
		return errno ? -errno : -ENOMEM;
	}
	return 0;
}

int stream_new(const struct stream_options *options, struct stream **ret_stream, char *error,
	       size_t error_size)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	struct known_options known = {options->config, options->plans, options->capture, emit_known, stream};
	int err;

	if (!stream)
		return -ENOMEM;
	stream->options = *options;
	stream->last = &stream->first;
	pthread_mutex_init(&stream->post_lock, NULL);
	pthread_mutex_init(&stream->loss_lock, NULL);
	make_run(stream->run);
	losses_init(&stream->losses);
	snprintf(error, error_size, "out of memory");
	stream->origin = (struct sink_origin){options->config->host, stream->run};
	err = fanout_new(options->config->sinks, options->config->nsinks, &stream->origin, encode_sink_loss,
			 stream, &stream->fanout, error, error_size);
	if (!err)
		err = gate_new(options->config->sinks, options->config->nsinks, &stream->gate);
	if (!err)
		err = rules_new(options->config, &stream->rules);
	if (!err)
		err = make_encoders(stream, error, error_size);
	if (!err) {
		stream->known = known_new(&known);
		stream->clock = clock_map_new();
		if (!stream->known || !stream->clock)
			err = -ENOMEM;
	}
	if (err) {
		stream_free(stream);
		return err;
	}
	*ret_stream = stream;
	return 0;
}

int stream_start(struct stream *stream)
{
	sigset_t all, old;
	int err;

	/* signals are the main thread's: here they would end the program at once */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&stream->reader, NULL, reader_main, stream);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	stream->running = !err;
	return -err;
}

struct known *stream_known(struct stream *stream)
{
	return stream->known;
}

const struct fanout *stream_fanout(const struct stream *stream)
{
	return stream->fanout;
}

void stream_totals(const struct stream *stream, struct stream_totals *ret_totals)
{
	ret_totals->emitted = atomic_load(&stream->emitted);
	ret_totals->unfinished = atomic_load(&stream->unfinished);
	ret_totals->undecodable = atomic_load(&stream->undecodable);
	ret_totals->filtered = atomic_load(&stream->filtered);
	ret_totals->rate_limited = atomic_load(&stream->limited);
	ret_totals->events = atomic_load(&stream->events);
}

void stream_drain(struct stream *stream)
{
	if (!stream->running)
		return;
	atomic_store(&stream->stop, true);
	capture_wake(stream->options.capture);
	pthread_join(stream->reader, NULL);
	stream->running = false;
}

bool stream_progress(const struct stream *stream, uint64_t *ret_done)
{
	struct sink_counters c;
	bool queued = false;
	size_t i;

	*ret_done = 0;
	for (i = 0; i < fanout_nsinks(stream->fanout); i++) {
		fanout_counters(stream->fanout, i, &c);
		*ret_done += c.delivered + c.unknown + sink_counters_dropped(&c) + c.spooled;
		queued |= c.queued > 0;
	}
	return queued;
}

void stream_finish(struct stream *stream, enum event_type type, json_t *body)
{
	emit_event(stream, type, body);
	fanout_flush(stream->fanout);
	fanout_stop(stream->fanout, SINK_NEVER - 1); /* for as long as stream_close() lets them */
}

int stream_finished_fd(const struct stream *stream)
{
	return fanout_stopped_fd(stream->fanout);
}

void stream_close(struct stream *stream, uint64_t deadline_ns)
{
	fanout_close(stream->fanout, deadline_ns);
}

void stream_free(struct stream *stream)
{
	struct posted *posted;
	size_t i;

	if (!stream)
		return;
	stream_drain(stream);
	fanout_free(stream->fanout);
	gate_free(stream->gate);
	rules_free(stream->rules);
	for (i = 0; i < MAX_FORMATS; i++) {
		encoder_free(stream->encoders[i]);
		encoder_free(stream->loss_encoders[i]);
	}
	while ((posted = stream->first)) {
		stream->first = posted->next;
		json_decref(posted->body);
		free(posted);
	}
	losses_free(&stream->losses);
	known_free(stream->known);
	clock_map_free(stream->clock);
	free(stream);
}
