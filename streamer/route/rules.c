/* The configuration's filter and samples, for the BPF program and for the reader. */
#include "rules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../enrich/processes.h"
#include "filter.h"
#include "rate.h"

_Static_assert((int)CALL_OK == REC_STATUS_OK && (int)CALL_ERROR == REC_STATUS_ERROR &&
		       (int)CALL_NOT_READY == REC_STATUS_NOT_READY &&
		       (int)CALL_UNFINISHED == REC_STATUS_UNFINISHED,
	       "the BPF program has a name of its own for the same");
_Static_assert(TABLE_NAPIS == 2, "rec_rules.errors has as many");

/* ---- in the BPF program ---- */

/* Codes beyond what it knows are let through. Returns whether there are any. */
static bool set_errors(const struct config_strings *names, struct rec_rules *rules)
{
	bool beyond = false;

	for (unsigned api = 0; api < TABLE_NAPIS; api++)
		for (unsigned e = 0; e < table_nerrors[api]; e++) {
			const struct table_error *error = &table_errors[api][e];

			for (size_t i = 0; i < names->n; i++) {
				if (strcmp(names->list[i], error->name))
					continue;
				if (error->code < 0 || error->code >= REC_MAX_CODE)
					beyond = true;
				else
					rules->errors[api][error->code / 64] |= 1ull << (error->code % 64);
			}
		}
	return beyond;
}

void rules_make(const struct config *config, struct rec_rules *ret_rules)
{
	const struct config_filter *filter = &config->filter;

	memset(ret_rules, 0, sizeof(*ret_rules));
	ret_rules->by_error = filter->errors.n > 0;
	set_errors(&filter->errors, ret_rules);
	ret_rules->by_outcome =
		filter->status || filter->min_duration_ns || filter->max_duration_ns || filter->errors.n;
	ret_rules->status = filter->status ? (uint32_t)filter->status : UINT32_MAX;
	ret_rules->min_duration_ns = filter->min_duration_ns;
	ret_rules->max_duration_ns = filter->max_duration_ns ? filter->max_duration_ns : UINT64_MAX;
	ret_rules->min_bytes = filter->min_bytes;
	ret_rules->keep_errors = config->sample.keep_errors;
	config_sample_rows(config, ret_rules->sample);
}

struct capture_processes rules_processes(const struct config_patterns *p)
{
	return (struct capture_processes){
		.uids = {p->uids.list, p->uids.n},
		.comms = {p->comms.list, p->comms.n},
		.exe = {p->exe.list, p->exe.n},
		.cgroups = {p->cgroups.list, p->cgroups.n},
		.containers = {p->containers.list, p->containers.n},
	};
}

int rules_send(struct capture *capture, const struct config *config)
{
	struct capture_processes processes = rules_processes(&config->processes.patterns);
	struct capture_processes accepted = rules_processes(&config->filter.patterns);
	struct rec_rules *rules = malloc(sizeof(*rules));
	int err = rules ? capture_select(capture, &processes, &accepted) : -ENOMEM;

	if (!err) {
		rules_make(config, rules);
		capture_rules(capture, rules);
	}
	free(rules);
	return err;
}

/* ---- here ---- */

struct rules {
	struct filter *filter; /* NULL: nothing is left of it */
	struct config_rate_limit limit;
};

/* The conditions that the BPF program cannot decide, of all calls or of some. */
static struct config_filter rest_of(const struct config_filter *filter)
{
	struct config_filter rest = {.min_bytes = filter->min_bytes};
	struct rec_rules scratch = {0};

	if (set_errors(&filter->errors, &scratch))
		rest.errors = filter->errors;
	return rest;
}

int rules_new(const struct config *config, struct rules **ret_rules)
{
	struct config_filter rest = rest_of(&config->filter);
	struct rules *rules = calloc(1, sizeof(*rules));

	*ret_rules = NULL;
	if (!rules || filter_make(&rest, &rules->filter)) {
		free(rules);
		return -ENOMEM;
	}
	rules->limit = config->process_rate_limit;
	if (rules->filter || rules->limit.events)
		*ret_rules = rules;
	else
		free(rules);
	return 0;
}

void rules_free(struct rules *rules)
{
	if (!rules)
		return;
	filter_free(rules->filter);
	free(rules);
}

/* A process's bucket is filled when it is first looked at, and anew when the limit is another. */
static bool is_within(const struct config_rate_limit *limit, const struct call *call,
		      const struct thread *thread)
{
	struct rate wanted, *rate = thread->process ? &thread->process->rate : NULL;

	if (!limit->events || !rate)
		return true;
	rate_init(&wanted, (uint64_t)limit->events, (uint64_t)limit->burst);
	if (rate->per_second != wanted.per_second || rate->full != wanted.full)
		*rate = wanted;
	return rate_take(rate, call->rec->end_ns);
}

enum ruling rules_call(const struct rules *rules, const struct call *call, const struct thread *thread)
{
	if (!rules)
		return RULED_EVENT;
	if (rules->filter && !filter_match(rules->filter, call, thread))
		return RULED_FILTERED;
	return is_within(&rules->limit, call, thread) ? RULED_EVENT : RULED_LIMITED;
}
