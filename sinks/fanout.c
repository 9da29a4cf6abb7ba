/* The fan-out: lines once per format, by reference to every sink. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "worker.h"

#define FANOUT_PENDING  64 /* runs kept back per sink between two pushes */
#define FANOUT_LOOK_MS  100
#define FANOUT_STUCK_NS 1000000000ull /* beyond the deadline, for a worker to come back */

static_assert(FANOUT_MAX_LINE <= CHUNK_BYTES, "a line must fit into a chunk");
static_assert(sizeof(struct chunk) < 1u << 20 && CHUNK_LINES <= 1u << 12, "as struct line has it");

/* Lines of one form being written. */
struct stream {
	const struct config_sink *config; /* of the first sink: its format and fields are the form */
	uint64_t sinks;
	struct chunk *chunk;
	struct chunk *scratch; /* always there: where lines go when there is no memory */
	uint32_t first;        /* lines from here on are not in a run yet, all for the same sinks */
	uint64_t mask;         /* these */
};

/* What one sink is due at the next push. */
struct outlet {
	struct worker *worker;
	struct queue_run runs[FANOUT_PENDING];
	size_t nruns;
	uint64_t filtered, rate_limited;
};

struct fanout {
	struct workers all;
	size_t nstreams;
	struct stream streams[FANOUT_MAX_SINKS];
	size_t noutlets;
	struct outlet *outlets;
	_Atomic uint64_t deadline_ns;
	bool closed, leaked;
};

#define for_each_sink(i, mask)                                                                  \
	for (uint64_t left_ = (mask), i; left_ && (i = (uint64_t)__builtin_ctzll(left_), true); \
	     left_ &= left_ - 1)

/* ---- life ---- */

static bool same_fields(const struct config_fields *a, const struct config_fields *b)
{
	for (size_t i = 0; a->n == b->n && i < a->n; i++)
		if (strcmp(a->list[i].name, b->list[i].name) || strcmp(a->list[i].value, b->list[i].value))
			return false;
	return a->n == b->n;
}

static bool same_strings(const struct config_strings *a, const struct config_strings *b)
{
	for (size_t i = 0; a->n == b->n && i < a->n; i++)
		if (strcmp(a->list[i], b->list[i]))
			return false;
	return a->n == b->n;
}

bool fanout_same_form(const struct config_sink *a, const struct config_sink *b)
{
	return !strcmp(a->format, b->format) && a->fields.args == b->fields.args &&
	       a->fields.only == b->fields.only && a->fields.drop == b->fields.drop &&
	       same_fields(&a->fields.rename, &b->fields.rename) &&
	       same_strings(&a->fields.redact, &b->fields.redact);
}

static int stream_find(const struct fanout *fanout, const struct config_sink *config)
{
	for (size_t i = 0; i < fanout->nstreams; i++)
		if (fanout_same_form(fanout->streams[i].config, config))
			return (int)i;
	return -1;
}

static int stream_add(struct fanout *fanout, const struct config_sink *config, size_t sink)
{
	int i = stream_find(fanout, config);

	if (i < 0) {
		i = (int)fanout->nstreams++;
		fanout->streams[i].config = config;
		fanout->streams[i].scratch = chunk_get(&fanout->all.pool);
		if (!fanout->streams[i].scratch)
			return -ENOMEM;
	}
	fanout->streams[i].sinks |= 1ull << sink;
	return 0;
}

static int fanout_open(struct fanout *fanout, const struct config_sink *sinks, size_t n, char *error,
		       size_t size)
{
	int r = 0;

	for (size_t i = 0; i < n && !r; i++) {
		r = stream_add(fanout, &sinks[i], i);
		if (r)
			snprintf(error, size, "sink %s: out of memory", sinks[i].name);
		else
			r = worker_new(&sinks[i], &fanout->all, &fanout->outlets[i].worker, error, size);
	}
	/* Counted beforehand: a worker may end before the last one has started. */
	atomic_store(&fanout->all.n, r ? 0 : (unsigned)n);
	for (size_t i = 0; i < n && !r; i++) {
		r = worker_start(fanout->outlets[i].worker);
		if (r) {
			atomic_store(&fanout->all.n, (unsigned)i);
			snprintf(error, size, "sink %s: cannot start a thread: %s", sinks[i].name,
				 strerror(-r));
		}
	}
	return r;
}

int fanout_new(const struct config_sink *sinks, size_t n, const struct sink_origin *origin,
	       fanout_loss_fn encode_loss, void *ctx, struct fanout **ret_fanout, char *error,
	       size_t error_size)
{
	struct fanout *fanout;
	int r;

	if (!n || n > FANOUT_MAX_SINKS) {
		snprintf(error, error_size, "there are %zu sinks; 1 to %d can be", n, FANOUT_MAX_SINKS);
		return -EINVAL;
	}
	fanout = calloc(1, sizeof(*fanout));
	if (fanout)
		fanout->outlets = calloc(n, sizeof(*fanout->outlets));
	if (!fanout || !fanout->outlets) {
		free(fanout);
		snprintf(error, error_size, "out of memory for %zu sinks", n);
		return -ENOMEM;
	}
	chunk_pool_init(&fanout->all.pool, UINT32_MAX);
	fanout->noutlets = n;
	atomic_init(&fanout->deadline_ns, SINK_NEVER);
	fanout->all.origin = origin;
	fanout->all.encode_loss = encode_loss;
	fanout->all.ctx = ctx;
	fanout->all.gone_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fanout->all.ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fanout->all.gone_fd < 0 || fanout->all.ended_fd < 0) {
		r = -errno;
		snprintf(error, error_size, "cannot make an eventfd: %s", strerror(errno));
	} else {
		r = fanout_open(fanout, sinks, n, error, error_size);
	}
	if (r) {
		fanout_free(fanout);
		return r;
	}
	*ret_fanout = fanout;
	return 0;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void fanout_free(struct fanout *fanout)
{
	if (!fanout)
		return;
	if (!fanout->closed)
		fanout_close(fanout, 0);
	if (fanout->leaked)
		return; /* a stuck thread may still come back to it */
	for (size_t i = 0; i < fanout->noutlets; i++)
		worker_free(fanout->outlets[i].worker);
	for (size_t i = 0; i < fanout->nstreams; i++)
		chunk_unref(fanout->streams[i].scratch);
	chunk_pool_destroy(&fanout->all.pool);
	close_fd(fanout->all.gone_fd);
	close_fd(fanout->all.ended_fd);
	free(fanout->outlets);
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
	for_each_sink(i, stream->mask) outlet_add(&fanout->outlets[i], chunk, stream->first, count);
	stream->first = chunk->nlines;
}

/* Pending runs hold no reference: they are pushed before the chunk is let go. */
static void stream_renew(struct fanout *fanout, struct stream *stream)
{
	if (stream->chunk) {
		stream_cut(fanout, stream);
		for_each_sink(i, stream->sinks) outlet_push(&fanout->outlets[i]);
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
	return chunk_end(stream->chunk ? stream->chunk : stream->scratch);
}

void fanout_commit(struct fanout *fanout, size_t format, size_t len, const struct line_meta *meta,
		   uint64_t sinks)
{
	struct stream *stream = &fanout->streams[format];

	sinks &= stream->sinks;
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

void fanout_withhold(struct fanout *fanout, uint64_t sinks, enum fanout_withhold why)
{
	for_each_sink(i, sinks)
	{
		if (i >= fanout->noutlets)
			break;
		if (why == FANOUT_FILTERED)
			fanout->outlets[i].filtered++;
		else
			fanout->outlets[i].rate_limited++;
	}
}

void fanout_lost(struct fanout *fanout, uint64_t sinks, enum sink_reason reason, uint64_t seq)
{
	for_each_sink(i, sinks)
	{
		if (i >= fanout->noutlets)
			break;
		worker_lost(fanout->outlets[i].worker, reason, seq);
	}
}

void fanout_flush(struct fanout *fanout)
{
	for (size_t i = 0; i < fanout->nstreams; i++)
		stream_cut(fanout, &fanout->streams[i]);
	for (size_t i = 0; i < fanout->noutlets; i++)
		outlet_push(&fanout->outlets[i]);
}

/* ---- the end ---- */

void fanout_stop(struct fanout *fanout, uint64_t deadline_ns)
{
	uint64_t old = atomic_load(&fanout->deadline_ns);

	while (deadline_ns < old && !atomic_compare_exchange_weak(&fanout->deadline_ns, &old, deadline_ns))
		;
	for (size_t i = 0; i < fanout->noutlets; i++)
		if (fanout->outlets[i].worker)
			worker_stop(fanout->outlets[i].worker, deadline_ns);
}

/* Until every worker has ended, or one has been stuck for a second after the deadline, which may be
 * brought forward meanwhile. */
static void wait_ended(struct fanout *fanout)
{
	uint64_t begin = worker_now();

	while (atomic_load(&fanout->all.nended) < atomic_load(&fanout->all.n)) {
		struct pollfd p = {.fd = fanout->all.ended_fd, .events = POLLIN};
		uint64_t deadline = atomic_load(&fanout->deadline_ns), now = worker_now();

		if (now >= (deadline > begin ? deadline : begin) + FANOUT_STUCK_NS)
			return;
		poll(&p, 1, FANOUT_LOOK_MS);
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
	for (size_t i = 0; i < fanout->noutlets; i++)
		if (fanout->outlets[i].worker && !worker_join(fanout->outlets[i].worker))
			fanout->leaked = true;
	for (size_t i = 0; i < fanout->nstreams; i++) {
		chunk_unref(fanout->streams[i].chunk);
		fanout->streams[i].chunk = NULL;
	}
}

int fanout_stopped_fd(const struct fanout *fanout)
{
	return fanout->all.ended_fd;
}

bool fanout_all_gone(const struct fanout *fanout)
{
	return atomic_load(&fanout->all.ngone) == fanout->noutlets;
}

int fanout_gone_fd(const struct fanout *fanout)
{
	return fanout->all.gone_fd;
}

bool fanout_wants_exit(const struct fanout *fanout)
{
	return atomic_load(&fanout->all.exit);
}

void fanout_reopen(struct fanout *fanout)
{
	for (size_t i = 0; i < fanout->noutlets; i++)
		worker_reopen(fanout->outlets[i].worker);
}

void fanout_rotate(struct fanout *fanout)
{
	for (size_t i = 0; i < fanout->noutlets; i++)
		worker_rotate(fanout->outlets[i].worker);
}

/* ---- what there is ---- */

size_t fanout_nformats(const struct fanout *fanout)
{
	return fanout->nstreams;
}

const char *fanout_format(const struct fanout *fanout, size_t format)
{
	return fanout->streams[format].config->format;
}

bool fanout_format_args(const struct fanout *fanout, size_t format)
{
	return fanout->streams[format].config->fields.args;
}

const struct config_sink *fanout_format_config(const struct fanout *fanout, size_t format)
{
	return fanout->streams[format].config;
}

uint64_t fanout_format_sinks(const struct fanout *fanout, size_t format)
{
	return fanout->streams[format].sinks;
}

size_t fanout_nsinks(const struct fanout *fanout)
{
	return fanout->noutlets;
}

const char *fanout_sink_name(const struct fanout *fanout, size_t sink)
{
	return worker_name(fanout->outlets[sink].worker);
}

void fanout_counters(const struct fanout *fanout, size_t sink, struct sink_counters *ret_counters)
{
	worker_counters(fanout->outlets[sink].worker, ret_counters);
}
