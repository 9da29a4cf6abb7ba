/*
 * Sinks that come and go while lines flow.
 *
 * A change is made in three steps. One thread prepares it: new sinks get a
 * free place, their outside is opened, their threads start. The reader applies
 * it between two lines: what was committed before is in the queues of the old
 * sinks, what comes after goes to the new ones. Those that are left over write
 * what they have in threads of their own, and are reaped when they have ended.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fanout_internal.h"

struct fanout_change {
	struct fanout *fanout;
	struct fanout_sinks sinks;
	struct forms forms;
	uint8_t bits[FORMS_MAX_SINKS];        /* of each sink: its place */
	uint64_t going;                       /* places whose sinks do not go on */
	uint64_t removed;                     /* of these, those whose names go as well */
	struct outlet *made[FORMS_MAX_SINKS]; /* by place: new ones, not current yet */
	bool applied;
};

static uint64_t bit(size_t place)
{
	return 1ull << place;
}

/* ---- names ---- */

static size_t account_find(const struct fanout *fanout, const char *name)
{
	for (size_t i = 0; i < fanout->naccounts; i++)
		if (!strcmp(fanout->accounts[i].name, name))
			return i;
	return FANOUT_NO_ACCOUNT;
}

/* Room for the names of all sinks, so that fanout_apply() cannot fail. */
static int accounts_grow(struct fanout *fanout, size_t more)
{
	struct account *grown;

	pthread_mutex_lock(&fanout->lock);
	grown = reallocarray(fanout->accounts, fanout->naccounts + more + 1, sizeof(*grown));
	if (grown)
		fanout->accounts = grown;
	pthread_mutex_unlock(&fanout->lock);
	return grown ? 0 : -ENOMEM;
}

/* The name is taken over or freed. */
static size_t account_of(struct fanout *fanout, char *name)
{
	size_t i = account_find(fanout, name);

	if (i == FANOUT_NO_ACCOUNT) {
		fanout->accounts[fanout->naccounts] = (struct account){.name = name};
		return fanout->naccounts++;
	}
	free(name);
	return i;
}

/* ---- preparing ---- */

/* The current sink of that name, or -1. */
static int place_of(const struct fanout *fanout, const char *name)
{
	for_each_sink(i, fanout->current) if (!strcmp(worker_name(fanout->outlets[i].worker), name)) return (
		int)i;
	return -1;
}

static int free_place(const struct fanout_change *change)
{
	for (int i = 0; i < FANOUT_MAX_SINKS; i++)
		if (!change->fanout->outlets[i].worker && !change->made[i])
			return i;
	return -1;
}

static bool in_the_way(const struct config_sink *a, const struct config_sink *b)
{
	if (a->spool.path && b->spool.path && !strcmp(a->spool.path, b->spool.path))
		return true;
	return a->ops == b->ops && a->ops->same_outside && a->ops->same_outside(a->options, b->options);
}

/* Sinks that go, or have not ended yet, and have what this one wants. */
static uint64_t find_predecessors(const struct fanout_change *change, const struct config_sink *sink)
{
	const struct fanout *fanout = change->fanout;
	uint64_t found = 0;

	for (size_t i = 0; i < FANOUT_MAX_SINKS; i++) {
		const struct outlet *outlet = &fanout->outlets[i];

		if (outlet->worker && (outlet->leaving || change->going & bit(i)) &&
		    in_the_way(worker_config(outlet->worker), sink))
			found |= bit(i);
	}
	return found;
}

static int make_sink(struct fanout_change *change, size_t i, char *error, size_t size)
{
	const struct config_sink *sink = &change->sinks.list[i];
	struct fanout *fanout = change->fanout;
	int place = free_place(change), r;
	struct outlet *made;

	if (place < 0) {
		snprintf(error, size,
			 "sink %s: there are %d sinks, with those that still write what they have",
			 sink->name, FANOUT_MAX_SINKS);
		return -EBUSY;
	}
	made = calloc(1, sizeof(*made));
	if (!made) {
		snprintf(error, size, "sink %s: out of memory", sink->name);
		return -ENOMEM;
	}
	change->made[place] = made;
	change->bits[i] = (uint8_t)place;
	made->account = FANOUT_NO_ACCOUNT;
	made->waits_for = find_predecessors(change, sink);
	r = worker_new(sink, change->sinks.origin, made->waits_for ? WORKER_WHEN_FREE : WORKER_AT_ONCE,
		       &fanout->all, &made->worker, error, size);
	if (!r && change->sinks.config)
		made->config = config_ref(change->sinks.config);
	return r;
}

static void find_going(struct fanout_change *change)
{
	const struct fanout_sinks *sinks = &change->sinks;
	struct fanout *fanout = change->fanout;

	change->going = change->removed = fanout->current;
	for (size_t i = 0; i < sinks->n; i++) {
		int place = place_of(fanout, sinks->list[i].name);

		if (place < 0)
			continue;
		change->removed &= ~bit((size_t)place);
		if (!sinks->same || !sinks->same[i])
			continue;
		change->going &= ~bit((size_t)place);
		change->bits[i] = (uint8_t)place;
	}
}

static bool goes_on(const struct fanout_change *change, size_t i)
{
	return change->sinks.same && change->sinks.same[i] &&
	       place_of(change->fanout, change->sinks.list[i].name) >= 0;
}

static int make_sinks(struct fanout_change *change, char *error, size_t size)
{
	int r = 0;

	for (size_t i = 0; i < change->sinks.n && !r; i++)
		if (!goes_on(change, i))
			r = make_sink(change, i, error, size);
	for (size_t i = 0; i < FANOUT_MAX_SINKS && !r; i++) {
		if (!change->made[i])
			continue;
		r = worker_start(change->made[i]->worker);
		if (r)
			snprintf(error, size, "sink %s: cannot start a thread: %s",
				 worker_name(change->made[i]->worker), strerror(-r));
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
	if (!change || accounts_grow(fanout, sinks->n)) {
		free(change);
		snprintf(error, error_size, "out of memory for %zu sinks", sinks->n);
		return -ENOMEM;
	}
	change->fanout = fanout;
	change->sinks = *sinks;
	find_going(change);
	r = make_sinks(change, error, error_size);
	if (r) {
		fanout_change_free(change);
		return r;
	}
	forms_make(&change->forms, sinks->list, change->bits, sinks->n);
	*ret_change = change;
	return 0;
}

const uint8_t *fanout_change_bits(const struct fanout_change *change)
{
	return change->bits;
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

/* Puts a new sink into its place. Under the lock. */
static void install(struct fanout_change *change, size_t place, bool leaving)
{
	struct fanout *fanout = change->fanout;

	fanout->outlets[place] = *change->made[place];
	fanout->outlets[place].leaving = leaving;
	free(change->made[place]);
	change->made[place] = NULL;
}

static void leave(struct fanout *fanout, size_t place, uint64_t deadline_ns)
{
	fanout->current &= ~bit(place);
	fanout->outlets[place].leaving = true;
	workers_leave(fanout->outlets[place].worker);
	worker_stop(fanout->outlets[place].worker, deadline_ns);
}

static void enter(struct fanout *fanout, size_t place)
{
	struct outlet *outlet = &fanout->outlets[place];
	char *name = strdup(worker_name(outlet->worker));

	/* without memory for its name it is counted with the first one */
	outlet->account = name ? account_of(fanout, name) : 0;
	fanout->current |= bit(place);
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
		if (!change->made[change->bits[i]])
			continue;
		install(change, change->bits[i], false);
		enter(fanout, change->bits[i]);
	}
	for_each_sink(i, change->going) leave(fanout, i, deadline_ns);
	pthread_mutex_unlock(&fanout->lock);
	change->applied = true;
}

/* New sinks that are not to be have had no line: they end at once, and are reaped as others are. */
void fanout_change_free(struct fanout_change *change)
{
	if (!change)
		return;
	pthread_mutex_lock(&change->fanout->lock);
	for (size_t i = 0; i < FANOUT_MAX_SINKS; i++) {
		struct outlet *made = change->made[i];

		if (!made)
			continue;
		if (made->worker && worker_is_running(made->worker)) {
			worker_stop(made->worker, 0);
			install(change, i, true);
			continue;
		}
		worker_free(made->worker);
		config_free(made->config);
		free(made);
	}
	pthread_mutex_unlock(&change->fanout->lock);
	free(change);
}

/* ---- reaping ---- */

/* What it left in its spool is for the one that waits for it. */
static void hand_over(struct fanout *fanout, size_t place, uint64_t spooled)
{
	size_t account = fanout->outlets[place].account;

	for (size_t i = 0; i < FANOUT_MAX_SINKS; i++) {
		struct outlet *outlet = &fanout->outlets[i];

		if (!outlet->worker || !(outlet->waits_for & bit(place)))
			continue;
		if (outlet->account == account && account != FANOUT_NO_ACCOUNT && !outlet->leaving)
			fanout->accounts[account].handed += spooled;
		outlet->waits_for &= ~bit(place);
		if (!outlet->waits_for)
			worker_go(outlet->worker);
	}
}

static void reap(struct fanout *fanout, size_t place)
{
	struct outlet *outlet = &fanout->outlets[place];
	struct sink_counters counters;

	worker_join(outlet->worker);
	worker_counters(outlet->worker, &counters);
	if (outlet->account != FANOUT_NO_ACCOUNT)
		sink_counters_add(&fanout->accounts[outlet->account].ended, &counters);
	hand_over(fanout, place, counters.spooled);
	worker_free(outlet->worker);
	config_free(outlet->config);
	*outlet = (struct outlet){0};
}

void fanout_reap(struct fanout *fanout)
{
	uint64_t drop;

	if (read(fanout->all.left_fd, &drop, sizeof(drop)) < 0)
		return; /* nobody has left */
	pthread_mutex_lock(&fanout->lock);
	for (size_t i = 0; i < FANOUT_MAX_SINKS; i++)
		if (fanout->outlets[i].worker && fanout->outlets[i].leaving &&
		    worker_has_ended(fanout->outlets[i].worker))
			reap(fanout, i);
	pthread_mutex_unlock(&fanout->lock);
}
