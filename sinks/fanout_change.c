/*
 * Sinks that come and go while lines flow.
 *
 * A change is made in three steps. One thread prepares it: new sinks have
 * their outside opened, and their threads start. The reader applies it between
 * two lines: what was committed before is in the queues of the old sinks, what
 * comes after goes to the new ones. Those that are left over write what they
 * have in threads of their own, and are reaped when they have ended.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fanout_internal.h"
#include "spool.h"

struct fanout_change {
	struct fanout *fanout;
	struct fanout_sinks sinks;
	struct forms forms;
	uint64_t going;                       /* sinks, by their present bits, that do not go on */
	uint64_t removed;                     /* of these, those whose names go as well */
	struct outlet *next[FORMS_MAX_SINKS]; /* by the new bits */
	bool made[FORMS_MAX_SINKS];           /* of these, those that are new and in no list yet */
};

static uint64_t bit(size_t i)
{
	return 1ull << i;
}

void outlet_free(struct outlet *outlet)
{
	if (!outlet)
		return;
	worker_free(outlet->worker);
	config_free(outlet->config);
	free(outlet);
}

/* The newest come last. Under the lock. */
static void list_add(struct fanout *fanout, struct outlet *outlet)
{
	struct outlet **end = &fanout->outlets;

	while (*end)
		end = &(*end)->next;
	*end = outlet;
}

/* ---- who waits for whom ---- */

static bool in_the_way(const struct config_sink *a, const struct config_sink *b)
{
	if (a->spool.path && b->spool.path && spool_same(a->spool.path, b->spool.path))
		return true;
	return a->ops == b->ops && a->ops->same_outside && a->ops->same_outside(a->options, b->options);
}

/* Is there one among those that came before it that leaves and has what it wants? */
static bool must_wait(const struct fanout *fanout, const struct outlet *outlet)
{
	for_each_outlet (one, fanout) {
		if (one == outlet)
			break;
		if (one->leaving && in_the_way(worker_config(one->worker), worker_config(outlet->worker)))
			return true;
	}
	return false;
}

/* Under the lock. */
static void let_go(struct fanout *fanout)
{
	for_each_outlet (outlet, fanout) {
		if (!outlet->waits || must_wait(fanout, outlet))
			continue;
		outlet->waits = false;
		worker_go(outlet->worker);
	}
}

/* ---- preparing ---- */

/* The bit of the current sink of that name, or -1. */
static int bit_of(const struct fanout *fanout, const char *name)
{
	for (size_t i = 0; i < fanout->ncurrent; i++)
		if (!strcmp(worker_name(fanout->current[i]->worker), name))
			return (int)i;
	return -1;
}

static void find_going(struct fanout_change *change)
{
	const struct fanout_sinks *sinks = &change->sinks;
	struct fanout *fanout = change->fanout;

	for (size_t i = 0; i < fanout->ncurrent; i++)
		change->going |= bit(i);
	change->removed = change->going;
	for (size_t i = 0; i < sinks->n; i++) {
		int now = bit_of(fanout, sinks->list[i].name);

		if (now < 0)
			continue;
		change->removed &= ~bit((size_t)now);
		if (!sinks->same || !sinks->same[i])
			continue;
		change->going &= ~bit((size_t)now);
		change->next[i] = fanout->current[now];
	}
}

/* Does one that goes, or has not ended yet, have what this one wants? */
static bool has_predecessor(const struct fanout_change *change, const struct config_sink *sink)
{
	const struct fanout *fanout = change->fanout;

	for_each_bit (i, change->going)
		if (in_the_way(worker_config(fanout->current[i]->worker), sink))
			return true;
	for_each_outlet (outlet, fanout)
		if (outlet->leaving && in_the_way(worker_config(outlet->worker), sink))
			return true;
	return false;
}

static int make_sink(struct fanout_change *change, size_t i, char *error, size_t size)
{
	const struct config_sink *sink = &change->sinks.list[i];
	struct outlet *made = calloc(1, sizeof(*made));
	int r;

	if (!made) {
		snprintf(error, size, "sink %s: out of memory", sink->name);
		return -ENOMEM;
	}
	change->next[i] = made;
	change->made[i] = true;
	made->account = FANOUT_NO_ACCOUNT;
	made->waits = has_predecessor(change, sink);
	r = worker_new(sink, change->sinks.origin, made->waits ? WORKER_WHEN_FREE : WORKER_AT_ONCE,
		       &change->fanout->all, &made->worker, error, size);
	if (!r && change->sinks.config)
		made->config = config_ref(change->sinks.config);
	return r;
}

/* A dead outside may keep its sink for ever: there is an end to how many such there can be. */
static int check_number(const struct fanout_change *change, char *error, size_t size)
{
	size_t alive = 0, more = 0;

	for_each_outlet (outlet, change->fanout)
		alive++;
	for (size_t i = 0; i < change->sinks.n; i++)
		more += !change->next[i];
	if (alive + more <= FANOUT_MAX_ALIVE)
		return 0;
	snprintf(error, size,
		 "%zu sinks, with those that still write what they have, and %zu more: %d can be", alive,
		 more, FANOUT_MAX_ALIVE);
	return -EBUSY;
}

static int make_sinks(struct fanout_change *change, char *error, size_t size)
{
	int r = check_number(change, error, size);

	for (size_t i = 0; i < change->sinks.n && !r; i++)
		if (!change->next[i])
			r = make_sink(change, i, error, size);
	for (size_t i = 0; i < change->sinks.n && !r; i++) {
		if (!change->made[i])
			continue;
		r = worker_start(change->next[i]->worker);
		if (r)
			snprintf(error, size, "sink %s: cannot start a thread: %s",
				 worker_name(change->next[i]->worker), strerror(-r));
	}
	return r;
}

int fanout_prepare(struct fanout *fanout, const struct fanout_sinks *sinks, struct fanout_change **ret_change,
		   char *error, size_t error_size)
{
	struct fanout_change *change;
	int r;

	if (!sinks->n || sinks->n > FANOUT_MAX_SINKS) {
		snprintf(error, error_size, "there are %zu sinks; 1 to %d can be", sinks->n,
			 FANOUT_MAX_SINKS);
		return -EINVAL;
	}
	change = calloc(1, sizeof(*change));
	pthread_mutex_lock(&fanout->lock);
	r = change ? account_room(fanout, sinks->n) : -ENOMEM;
	pthread_mutex_unlock(&fanout->lock);
	if (r) {
		free(change);
		snprintf(error, error_size, "out of memory for %zu sinks", sinks->n);
		return r;
	}
	change->fanout = fanout;
	change->sinks = *sinks;
	find_going(change);
	r = make_sinks(change, error, error_size);
	if (r) {
		fanout_change_free(change);
		return r;
	}
	forms_make(&change->forms, sinks->list, sinks->n);
	*ret_change = change;
	return 0;
}

const struct forms *fanout_change_forms(const struct fanout_change *change)
{
	return &change->forms;
}

uint64_t fanout_change_removed(const struct fanout_change *change)
{
	return change->removed;
}

/* ---- applying ---- */

static void leave(struct outlet *outlet, uint64_t deadline_ns)
{
	outlet->leaving = true;
	workers_leave(outlet->worker);
	worker_stop(outlet->worker, deadline_ns);
}

static void enter(struct fanout *fanout, struct outlet *outlet)
{
	outlet->account = account_of(fanout, worker_name(outlet->worker));
	list_add(fanout, outlet);
	workers_enter(outlet->worker);
}

void fanout_apply(struct fanout_change *change, uint64_t deadline_ns)
{
	struct fanout *fanout = change->fanout;

	fanout_flush(fanout);
	for (size_t i = 0; i < fanout->forms.n; i++)
		chunk_unref(fanout->streams[i].chunk);
	memset(fanout->streams, 0, sizeof(fanout->streams));
	fanout->forms = change->forms;
	pthread_mutex_lock(&fanout->lock);
	/* new ones first: for want of a sink nobody is to think that all have gone */
	for (size_t i = 0; i < change->sinks.n; i++) {
		if (change->made[i])
			enter(fanout, change->next[i]);
		change->made[i] = false;
	}
	for_each_bit (i, change->going)
		leave(fanout->current[i], deadline_ns);
	memcpy(fanout->current, change->next, sizeof(fanout->current));
	fanout->ncurrent = change->sinks.n;
	let_go(fanout);
	pthread_mutex_unlock(&fanout->lock);
}

/* New sinks that are not to be have had no line: they end at once, and are reaped as others are. */
void fanout_change_free(struct fanout_change *change)
{
	if (!change)
		return;
	pthread_mutex_lock(&change->fanout->lock);
	for (size_t i = 0; i < change->sinks.n; i++) {
		struct outlet *made = change->made[i] ? change->next[i] : NULL;

		if (made && made->worker && worker_is_running(made->worker)) {
			worker_stop(made->worker, 0);
			made->leaving = true;
			list_add(change->fanout, made);
			continue;
		}
		outlet_free(made);
	}
	pthread_mutex_unlock(&change->fanout->lock);
	free(change);
}

/* ---- reaping ---- */

static void reap(struct fanout *fanout, struct outlet *outlet)
{
	worker_join(outlet->worker);
	account_end(fanout, outlet);
	outlet_free(outlet);
}

void fanout_reap(struct fanout *fanout)
{
	struct outlet **at = &fanout->outlets, *one;
	uint64_t drop;

	if (read(fanout->all.left_fd, &drop, sizeof(drop)) < 0)
		return; /* nobody has left */
	pthread_mutex_lock(&fanout->lock);
	while ((one = *at)) {
		if (!one->leaving || !worker_has_ended(one->worker)) {
			at = &one->next;
			continue;
		}
		*at = one->next;
		reap(fanout, one);
	}
	let_go(fanout);
	pthread_mutex_unlock(&fanout->lock);
}
