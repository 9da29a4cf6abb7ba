/* The fan-out: lines once per format, by reference to every sink. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fanout_internal.h"

#define FANOUT_LOOK_MS  100
#define FANOUT_STUCK_NS 1000000000ull /* beyond the deadline, for a worker to come back */

static_assert(FANOUT_MAX_LINE <= CHUNK_BYTES, "a line must fit into a chunk");
static_assert(sizeof(struct chunk) < 1u << 20 && CHUNK_LINES <= 1u << 12, "as struct line has it");

/* ---- life ---- */

int fanout_open(const struct fanout_sinks *sinks, fanout_loss_fn encode_loss, void *ctx,
		struct fanout **ret_fanout, char *error, size_t error_size)
{
	struct fanout *fanout = calloc(1, sizeof(*fanout));
	struct fanout_change *change;
	int r;

	if (!fanout) {
		snprintf(error, error_size, "out of memory for %zu sinks", sinks->n);
		return -ENOMEM;
	}
	pthread_mutex_init(&fanout->lock, NULL);
	atomic_init(&fanout->deadline_ns, SINK_NEVER);
	fanout->all.encode_loss = encode_loss;
	fanout->all.ctx = ctx;
	r = workers_init(&fanout->all);
	fanout->scratch = r ? NULL : chunk_get(&fanout->all.pool);
	if (!r && !fanout->scratch)
		r = -ENOMEM;
	if (r)
		snprintf(error, error_size, "cannot make sinks: %s", strerror(-r));
	else
		r = fanout_prepare(fanout, sinks, &change, error, error_size);
	if (r) {
		fanout_free(fanout);
		return r;
	}
	fanout_apply(change, 0);
	fanout_change_free(change);
	*ret_fanout = fanout;
	return 0;
}

int fanout_new(const struct config_sink *sinks, size_t n, const struct sink_origin *origin,
	       fanout_loss_fn encode_loss, void *ctx, struct fanout **ret_fanout, char *error,
	       size_t error_size)
{
	const struct fanout_sinks all = {.list = sinks, .n = n, .origin = origin};

	return fanout_open(&all, encode_loss, ctx, ret_fanout, error, error_size);
}

void fanout_free(struct fanout *fanout)
{
	if (!fanout)
		return;
	if (!fanout->closed)
		fanout_close(fanout, 0);
	if (fanout->leaked)
		return; /* a stuck thread may still come back to it */
	for (struct outlet *next, *outlet = fanout->outlets; outlet; outlet = next) {
		next = outlet->next;
		outlet_free(outlet);
	}
	chunk_unref(fanout->scratch);
	workers_destroy(&fanout->all);
	accounts_free(fanout);
	pthread_mutex_destroy(&fanout->lock);
	free(fanout);
}

/* ---- lines ---- */

static void outlet_push(struct outlet *outlet)
{
	if (!outlet->nruns && !outlet->filtered && !outlet->rate_limited)
		return;
	worker_push(outlet->worker, outlet->runs, outlet->nruns, outlet->filtered, outlet->rate_limited);
	outlet->nruns = 0;
	outlet->filtered = 0;
	outlet->rate_limited = 0;
}

static void outlet_add(struct outlet *outlet, struct chunk *chunk, uint32_t first, uint32_t count)
{
	struct queue_run *last = outlet->nruns ? &outlet->runs[outlet->nruns - 1] : NULL;

	if (last && last->chunk == chunk && last->first + last->count == first) {
		last->count += count;
		return;
	}
	if (outlet->nruns == FANOUT_PENDING)
		outlet_push(outlet);
	outlet->runs[outlet->nruns++] = (struct queue_run){chunk, first, count};
}

/* The lines since `first` become a run of each sink in the mask. */
static void stream_cut(struct fanout *fanout, struct stream *stream)
{
	struct chunk *chunk = stream->chunk;
	uint32_t count = chunk ? chunk->nlines - stream->first : 0;

	if (!count)
		return;
	for_each_bit (i, stream->mask)
		outlet_add(fanout->current[i], chunk, stream->first, count);
	stream->first = chunk->nlines;
}

static void push_all(struct fanout *fanout)
{
	for (size_t i = 0; i < fanout->ncurrent; i++)
		outlet_push(fanout->current[i]);
}

/* Pending runs hold no reference: they are pushed before the chunk is let go. */
static void stream_renew(struct fanout *fanout, struct stream *stream)
{
	if (stream->chunk) {
		stream_cut(fanout, stream);
		push_all(fanout);
		chunk_unref(stream->chunk);
	}
	stream->chunk = chunk_get(&fanout->all.pool);
	stream->first = 0;
}

char *fanout_reserve(struct fanout *fanout, size_t format)
{
	struct stream *stream = &fanout->streams[format];

	if (!stream->chunk || !chunk_fits(stream->chunk, FANOUT_MAX_LINE))
		stream_renew(fanout, stream);
	return chunk_end(stream->chunk ? stream->chunk : fanout->scratch);
}

void fanout_commit(struct fanout *fanout, size_t format, size_t len, const struct line_meta *meta,
		   uint64_t sinks)
{
	struct stream *stream = &fanout->streams[format];

	sinks &= fanout->forms.list[format].sinks;
	if (!sinks)
		return; /* the next line is written over it */
	if (!stream->chunk) {
		fanout_lost(fanout, sinks, SINK_QUEUE_FULL, meta->seq);
		return;
	}
	if (sinks != stream->mask) {
		stream_cut(fanout, stream);
		stream->mask = sinks;
	}
	chunk_append(stream->chunk, len, meta);
}

static uint64_t current_bits(const struct fanout *fanout)
{
	return fanout->ncurrent ? UINT64_MAX >> (FORMS_MAX_SINKS - fanout->ncurrent) : 0;
}

void fanout_withhold(struct fanout *fanout, uint64_t sinks, enum fanout_withhold why)
{
	for_each_bit (i, sinks & current_bits(fanout)) {
		if (why == FANOUT_FILTERED)
			fanout->current[i]->filtered++;
		else
			fanout->current[i]->rate_limited++;
	}
}

void fanout_lost(struct fanout *fanout, uint64_t sinks, enum sink_reason reason, uint64_t seq)
{
	for_each_bit (i, sinks & current_bits(fanout))
		worker_lost(fanout->current[i]->worker, reason, seq);
}

void fanout_flush(struct fanout *fanout)
{
	for (size_t i = 0; i < fanout->forms.n; i++)
		stream_cut(fanout, &fanout->streams[i]);
	push_all(fanout);
}

void fanout_set_patience(struct fanout *fanout, enum fanout_patience patience)
{
	atomic_store(&fanout->all.patience, patience);
	pthread_mutex_lock(&fanout->lock);
	for_each_outlet (outlet, fanout)
		worker_stir(outlet->worker);
	pthread_mutex_unlock(&fanout->lock);
}

/* ---- the end ---- */

void fanout_stop(struct fanout *fanout, uint64_t deadline_ns)
{
	uint64_t old = atomic_load(&fanout->deadline_ns);

	while (deadline_ns < old && !atomic_compare_exchange_weak(&fanout->deadline_ns, &old, deadline_ns))
		;
	pthread_mutex_lock(&fanout->lock);
	for_each_outlet (outlet, fanout)
		worker_stop(outlet->worker, deadline_ns);
	pthread_mutex_unlock(&fanout->lock);
}

static bool any_running(struct fanout *fanout)
{
	bool any;

	pthread_mutex_lock(&fanout->all.lock);
	any = fanout->all.nrunning;
	pthread_mutex_unlock(&fanout->all.lock);
	return any;
}

/* Until every worker has ended, or one has been stuck for a second after the deadline, which may be
 * brought forward meanwhile. */
static void wait_ended(struct fanout *fanout)
{
	uint64_t begin = worker_now();

	while (any_running(fanout)) {
		struct pollfd p[] = {{.fd = fanout->all.ended_fd, .events = POLLIN},
				     {.fd = fanout->all.left_fd, .events = POLLIN}};
		uint64_t deadline = atomic_load(&fanout->deadline_ns), now = worker_now();

		if (now >= (deadline > begin ? deadline : begin) + FANOUT_STUCK_NS)
			return;
		poll(p, 2, FANOUT_LOOK_MS);
		fanout_reap(fanout);
	}
}

void fanout_close(struct fanout *fanout, uint64_t deadline_ns)
{
	if (fanout->closed)
		return;
	fanout->closed = true;
	fanout_flush(fanout);
	fanout_stop(fanout, deadline_ns);
	wait_ended(fanout);
	for_each_outlet (outlet, fanout)
		if (!worker_join(outlet->worker))
			fanout->leaked = true;
	for (size_t i = 0; i < fanout->forms.n; i++) {
		chunk_unref(fanout->streams[i].chunk);
		fanout->streams[i].chunk = NULL;
	}
}

int fanout_stopped_fd(const struct fanout *fanout)
{
	return fanout->all.ended_fd;
}

int fanout_left_fd(const struct fanout *fanout)
{
	return fanout->all.left_fd;
}

bool fanout_all_gone(struct fanout *fanout)
{
	bool gone;

	pthread_mutex_lock(&fanout->all.lock);
	gone = fanout->all.ngone == fanout->all.ncurrent;
	pthread_mutex_unlock(&fanout->all.lock);
	return gone;
}

int fanout_gone_fd(const struct fanout *fanout)
{
	return fanout->all.gone_fd;
}

bool fanout_wants_exit(const struct fanout *fanout)
{
	return atomic_load(&fanout->all.exit);
}

static void for_current(struct fanout *fanout, void (*fn)(struct worker *worker))
{
	pthread_mutex_lock(&fanout->lock);
	for_each_outlet (outlet, fanout)
		if (!outlet->leaving)
			fn(outlet->worker);
	pthread_mutex_unlock(&fanout->lock);
}

void fanout_reopen(struct fanout *fanout)
{
	for_current(fanout, worker_reopen);
}

void fanout_rotate(struct fanout *fanout)
{
	for_current(fanout, worker_rotate);
}

/* ---- what there is ---- */

size_t fanout_nformats(const struct fanout *fanout)
{
	return fanout->forms.n;
}

const char *fanout_format(const struct fanout *fanout, size_t format)
{
	return fanout->forms.list[format].config->format;
}

bool fanout_format_args(const struct fanout *fanout, size_t format)
{
	return fanout->forms.list[format].config->fields.args;
}

const struct config_sink *fanout_format_config(const struct fanout *fanout, size_t format)
{
	return fanout->forms.list[format].config;
}

uint64_t fanout_format_sinks(const struct fanout *fanout, size_t format)
{
	return fanout->forms.list[format].sinks;
}

size_t fanout_nsinks(struct fanout *fanout)
{
	size_t n;

	pthread_mutex_lock(&fanout->lock);
	n = fanout->naccounts;
	pthread_mutex_unlock(&fanout->lock);
	return n;
}

const char *fanout_sink_name(struct fanout *fanout, size_t sink)
{
	const char *name;

	pthread_mutex_lock(&fanout->lock);
	name = fanout->accounts[sink].name;
	pthread_mutex_unlock(&fanout->lock);
	return name;
}

bool fanout_sink_is_removed(struct fanout *fanout, size_t sink)
{
	bool removed = true;

	pthread_mutex_lock(&fanout->lock);
	for_each_outlet (outlet, fanout)
		if (outlet->account == sink)
			removed = false;
	pthread_mutex_unlock(&fanout->lock);
	return removed;
}
