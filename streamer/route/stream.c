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
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "../enrich/enrich.h"
#include "../log.h"
#include "bodies.h"
#include "dispatch.h"
#include "gate.h"
#include "known.h"
#include "losses.h"
#include "rules.h"
#include "stream.h"

#define SECOND 1000000000ull

/* An event on its way from the control thread. */
struct posted {
	struct posted *next;
	enum event_type type;
	json_t *body;
};

struct stream {
	struct stream_options options;
	struct fanout *fanout;
	struct dispatch *dispatch; /* the reader's; changed, and its loss encoders used, under loss_lock */
	struct known *known;
	struct clock_map *clock;
	char run[13];
	pthread_mutex_t loss_lock;
	struct losses losses;
	uint64_t seq, last_tick_ns;
	_Atomic uint64_t emitted, unfinished, undecodable, filtered, limited, events;
	pthread_t reader;
	bool running;
	int drained_fd;
	atomic_bool stop;
	pthread_mutex_t post_lock; /* guards from here */
	struct posted *first, **last;
	struct stream_change *change; /* for the reader to make; NULL: none */
	pthread_cond_t changed;
};

/* From one configuration to the next. */
struct stream_change {
	struct stream *stream;
	struct config *config;
	struct fanout_change *sinks;
	struct dispatch *dispatch; /* the new one; the old one when it is done */
	enum event_type type;
	stream_border_fn border;
	void *ctx;
	uint64_t deadline_ns;
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
	const struct dispatch *dispatch = stream->dispatch;
	uint64_t wanted, sinks;
	struct line_meta meta;
	size_t form, len;

	known_count(thread, call);
	stream->seq++;
	wanted = gate_call(dispatch->gate, stream->fanout, call, thread);
	for (form = 0; form < dispatch->n; form++) {
		sinks = dispatch->sinks[form] & wanted;
		if (!sinks)
			continue;
		len = encode_call(dispatch->encoders[form], call, thread, stream->seq, ts,
				  fanout_reserve(stream->fanout, form), &meta);
		fanout_commit(stream->fanout, form, len, &meta, sinks);
	}
	count(&stream->emitted);
	if (call->status == CALL_UNFINISHED)
		count(&stream->unfinished);
}

/* The event of the present number, for some sinks. */
static void emit_lines(struct stream *stream, enum event_type type, json_t *body, int64_t ts, uint64_t to)
{
	const struct dispatch *dispatch = stream->dispatch;
	struct line_meta meta;
	uint64_t sinks;
	size_t form;
	int len;

	for (form = 0; form < dispatch->n; form++) {
		sinks = dispatch->sinks[form] & to;
		if (!sinks)
			continue;
		len = encode_event(dispatch->encoders[form], type, body, stream->seq, ts,
				   fanout_reserve(stream->fanout, form), &meta);
		if (len > 0)
			fanout_commit(stream->fanout, form, len, &meta, sinks);
		else
			fanout_lost(stream->fanout, sinks, SINK_ENCODE_ERROR, stream->seq);
	}
}

static void emit_event(struct stream *stream, enum event_type type, json_t *body)
{
	stream->seq++;
	emit_lines(stream, type, body, clock_ns(CLOCK_REALTIME), FANOUT_ALL);
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

/* ---- another configuration ---- */

static void make_change(struct stream *stream, struct stream_change *change)
{
	struct dispatch *old = stream->dispatch;
	int64_t ts = clock_ns(CLOCK_REALTIME);
	json_t *body = change->border(change->ctx);

	stream->seq++;
	emit_lines(stream, change->type, body, ts, fanout_change_removed(change->sinks));
	fanout_apply(change->sinks, change->deadline_ns);
	gate_continue(change->dispatch->gate, old->gate);
	pthread_mutex_lock(&stream->loss_lock);
	stream->dispatch = change->dispatch;
	pthread_mutex_unlock(&stream->loss_lock);
	change->dispatch = old;
	known_configure(stream->known, change->config);
	emit_lines(stream, change->type, body, ts, FANOUT_ALL);
	json_decref(body);
	fanout_flush(stream->fanout);
}

static void make_changes(struct stream *stream)
{
	struct stream_change *change;

	pthread_mutex_lock(&stream->post_lock);
	change = stream->change;
	pthread_mutex_unlock(&stream->post_lock);
	if (!change)
		return;
	make_change(stream, change);
	pthread_mutex_lock(&stream->post_lock);
	stream->change = NULL;
	pthread_cond_signal(&stream->changed);
	pthread_mutex_unlock(&stream->post_lock);
}

int stream_prepare(struct stream *stream, struct config *config, const bool *same_sink,
		   struct stream_change **ret_change, char *error, size_t error_size)
{
	const struct sink_origin origin = {config->host, stream->run};
	const struct fanout_sinks sinks = {
		.list = config->sinks,
		.n = config->nsinks,
		.config = config,
		.origin = &origin,
		.same = same_sink,
	};
	struct stream_change *change = calloc(1, sizeof(*change));
	int err = change ? 0 : -ENOMEM;

	snprintf(error, error_size, "out of memory");
	if (change) {
		change->stream = stream;
		change->config = config;
		err = fanout_prepare(stream->fanout, &sinks, &change->sinks, error, error_size);
	}
	if (!err)
		err = dispatch_new(config, fanout_change_forms(change->sinks), stream->run, &change->dispatch,
				   error, error_size);
	if (err)
		stream_change_free(change);
	else
		*ret_change = change;
	return err;
}

void stream_switch(struct stream_change *change, enum event_type type, stream_border_fn border, void *ctx,
		   uint64_t deadline_ns)
{
	struct stream *stream = change->stream;

	change->type = type;
	change->border = border;
	change->ctx = ctx;
	change->deadline_ns = deadline_ns;
	fanout_set_patience(stream->fanout, FANOUT_EXCEEDS); /* whoever it waits for is not waited for here */
	pthread_mutex_lock(&stream->post_lock);
	stream->change = change;
	capture_wake(stream->options.capture);
	while (stream->change)
		pthread_cond_wait(&stream->changed, &stream->post_lock);
	pthread_mutex_unlock(&stream->post_lock);
	fanout_set_patience(stream->fanout, FANOUT_WAITS);
}

void stream_change_free(struct stream_change *change)
{
	if (!change)
		return;
	fanout_change_free(change->sinks);
	dispatch_free(change->dispatch);
	free(change);
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
	switch (rules_call(stream->dispatch->rules, &call, thread)) {
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
		make_changes(stream);
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
	eventfd_write(stream->drained_fd, 1);
	return NULL;
}

/* ---- losses of sinks ---- */

/* Runs in the sinks' workers. */
static int encode_sink_loss(void *ctx, const char *format, const struct sink_loss *loss, char *out,
			    size_t size, struct line_meta *ret_meta)
{
	struct encoder *encoder, *own = NULL;
	struct stream *stream = ctx;
	int len = -ENOMEM;
	json_t *body;

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
	encoder = dispatch_loss_encoder(stream->dispatch, stream->run, loss->sink, format, &own);
	if (encoder)
		len = encode_event(encoder, EVENT_LOSS, body, 0, clock_ns(CLOCK_REALTIME), out, ret_meta);
	pthread_mutex_unlock(&stream->loss_lock);
	encoder_free(own);
	json_decref(body);
	return len;
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

static int open_sinks(struct stream *stream, char *error, size_t error_size)
{
	struct config *config = stream->options.config;
	const struct sink_origin origin = {config->host, stream->run};
	const struct fanout_sinks sinks = {config->sinks, config->nsinks, config, &origin, NULL};
	struct forms forms;
	int err;

	err = fanout_open(&sinks, encode_sink_loss, stream, &stream->fanout, error, error_size);
	if (err)
		return err;
	forms_make(&forms, config->sinks, config->nsinks);
	return dispatch_new(config, &forms, stream->run, &stream->dispatch, error, error_size);
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
	stream->drained_fd = eventfd(0, EFD_CLOEXEC);
	pthread_mutex_init(&stream->post_lock, NULL);
	pthread_cond_init(&stream->changed, NULL);
	pthread_mutex_init(&stream->loss_lock, NULL);
	make_run(stream->run);
	losses_init(&stream->losses);
	snprintf(error, error_size, "out of memory");
	err = open_sinks(stream, error, error_size);
	if (!err && stream->drained_fd < 0)
		err = -errno;
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

struct fanout *stream_fanout(const struct stream *stream)
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

void stream_end(struct stream *stream)
{
	atomic_store(&stream->stop, true);
	capture_wake(stream->options.capture);
}

int stream_drained_fd(const struct stream *stream)
{
	return stream->drained_fd;
}

void stream_drain(struct stream *stream)
{
	if (!stream->running)
		return;
	stream_end(stream);
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
	fanout_set_patience(stream->fanout, FANOUT_EXCEEDS);
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

	if (!stream)
		return;
	stream_drain(stream);
	fanout_free(stream->fanout);
	dispatch_free(stream->dispatch);
	while ((posted = stream->first)) {
		stream->first = posted->next;
		json_decref(posted->body);
		free(posted);
	}
	losses_free(&stream->losses);
	close(stream->drained_fd);
	known_free(stream->known);
	clock_map_free(stream->clock);
	free(stream);
}
