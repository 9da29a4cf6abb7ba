/*
 * What became of the lines of each name: the sinks that had it, one after the
 * other, are counted together.
 *
 * A sink may leave lines in its spool that another one of this run finds
 * there. They were received once, so they are recovered by nobody: between
 * sinks of one name they are as if they had never been in a spool, between two
 * names the one has handed them over and the other has taken them over.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fanout_internal.h"
#include "spool.h"

/* ---- names ---- */

int account_room(struct fanout *fanout, size_t more)
{
	struct account *grown = reallocarray(fanout->accounts, fanout->naccounts + more + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	fanout->accounts = grown;
	return 0;
}

size_t account_of(struct fanout *fanout, const char *name)
{
	char *own;

	for (size_t i = 0; i < fanout->naccounts; i++)
		if (!strcmp(fanout->accounts[i].name, name))
			return i;
	own = strdup(name);
	if (!own && fanout->naccounts)
		return 0;
	fanout->accounts[fanout->naccounts] = (struct account){.name = own};
	return fanout->naccounts++;
}

void accounts_free(struct fanout *fanout)
{
	for (size_t i = 0; i < fanout->naccounts; i++)
		free(fanout->accounts[i].name);
	free(fanout->accounts);
	for (size_t i = 0; i < fanout->nleftovers; i++)
		free(fanout->leftovers[i].path);
	free(fanout->leftovers);
}

/* ---- what is left in spools ---- */

static const char *spool_of(const struct outlet *outlet)
{
	return worker_config(outlet->worker)->spool.path;
}

static struct leftover *leftover_find(const struct fanout *fanout, const char *path)
{
	for (size_t i = 0; i < fanout->nleftovers; i++)
		if (spool_same(fanout->leftovers[i].path, path))
			return &fanout->leftovers[i];
	return NULL;
}

static void leftover_forget(struct fanout *fanout, struct leftover *leftover)
{
	free(leftover->path);
	*leftover = fanout->leftovers[--fanout->nleftovers];
}

/* Who leaves nothing may never have opened the spool: what was there before is there still. */
static void leftover_note(struct fanout *fanout, const struct outlet *outlet, uint64_t n)
{
	struct leftover *one, *grown;

	if (!spool_of(outlet) || !n)
		return;
	one = leftover_find(fanout, spool_of(outlet));
	if (!one) {
		grown = reallocarray(fanout->leftovers, fanout->nleftovers + 1, sizeof(*grown));
		if (!grown)
			return;
		fanout->leftovers = grown;
		one = &grown[fanout->nleftovers];
		one->path = strdup(spool_of(outlet));
		if (!one->path)
			return;
		fanout->nleftovers++;
	}
	one->account = outlet->account;
	one->n = n;
}

/* It has opened its spool, as its counters tell: what it found there is another one's no more. */
static void inherit(struct fanout *fanout, struct outlet *outlet, const struct sink_counters *c)
{
	struct leftover *left;
	struct sink_counters *of;

	if (outlet->inherited || !c->recovered || outlet->account == FANOUT_NO_ACCOUNT)
		return;
	outlet->inherited = true;
	left = leftover_find(fanout, spool_of(outlet));
	if (!left)
		return;
	of = &fanout->accounts[left->account].ended;
	outlet->found = left->n < c->recovered ? left->n : c->recovered;
	outlet->from_other = left->account != outlet->account;
	of->spooled -= outlet->found;
	of->handed_over += outlet->from_other ? outlet->found : 0;
	leftover_forget(fanout, left);
}

static void inherit_all(struct fanout *fanout)
{
	struct sink_counters counters;

	for_each_outlet (outlet, fanout) {
		if (outlet->inherited || !spool_of(outlet))
			continue;
		worker_counters(outlet->worker, &counters);
		inherit(fanout, outlet, &counters);
	}
}

/* ---- counters ---- */

static void outlet_counters(struct fanout *fanout, struct outlet *outlet, struct sink_counters *ret_counters)
{
	worker_counters(outlet->worker, ret_counters);
	inherit(fanout, outlet, ret_counters);
	ret_counters->recovered -= outlet->found;
	ret_counters->taken_over += outlet->from_other ? outlet->found : 0;
}

void account_end(struct fanout *fanout, struct outlet *outlet)
{
	struct sink_counters counters;

	if (outlet->account == FANOUT_NO_ACCOUNT)
		return;
	outlet_counters(fanout, outlet, &counters);
	sink_counters_add(&fanout->accounts[outlet->account].ended, &counters);
	leftover_note(fanout, outlet, counters.spooled);
}

void fanout_counters(struct fanout *fanout, size_t sink, struct sink_counters *ret_counters)
{
	struct sink_counters one;

	pthread_mutex_lock(&fanout->lock);
	inherit_all(fanout);
	*ret_counters = (struct sink_counters){0};
	for_each_outlet (outlet, fanout) {
		if (outlet->account != sink)
			continue;
		outlet_counters(fanout, outlet, &one);
		sink_counters_add(ret_counters, &one);
	}
	sink_counters_add(ret_counters, &fanout->accounts[sink].ended);
	pthread_mutex_unlock(&fanout->lock);
}
