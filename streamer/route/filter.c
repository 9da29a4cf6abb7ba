/* Which calls a sink wants: a bit per row and per error, and three numbers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "filter.h"
#include "matcher.h"

struct filter {
	uint64_t status; /* bit per enum call_status */
	uint64_t min_duration_ns, max_duration_ns;
	int64_t min_bytes;         /* 0: also calls without `bytes` */
	bool *rows;                /* [table_nrows] */
	bool *errors[TABLE_NAPIS]; /* [table_nerrors]; NULL: all, and calls without an error */
	struct matcher *processes; /* NULL: all */
};

static bool is_empty(const struct config_filter *config)
{
	return !config->status && !config->errors.n && !config->functions.n && !config->families &&
	       !config->min_duration_ns && !config->max_duration_ns && !config->min_bytes &&
	       matcher_is_empty(&config->patterns);
}

static int make_rows(struct filter *filter, const struct config_filter *config)
{
	filter->rows = calloc(table_nrows, sizeof(*filter->rows));
	if (!filter->rows)
		return -ENOMEM;
	config_filter_rows(config, filter->rows);
	return 0;
}

static int make_errors(struct filter *filter, const struct config_strings *names)
{
	for (int api = 0; names->n && api < TABLE_NAPIS; api++) {
		filter->errors[api] = calloc(table_nerrors[api], sizeof(bool));
		if (!filter->errors[api])
			return -ENOMEM;
		for (unsigned e = 0; e < table_nerrors[api]; e++)
			for (size_t i = 0; i < names->n; i++)
				filter->errors[api][e] |= !strcmp(names->list[i], table_errors[api][e].name);
	}
	return 0;
}

int filter_make(const struct config_filter *config, struct filter **ret_filter)
{
	struct filter *filter;

	*ret_filter = NULL;
	if (is_empty(config))
		return 0;
	filter = calloc(1, sizeof(*filter));
	if (!filter)
		return -ENOMEM;
	filter->status = config->status ? config->status : UINT64_MAX;
	filter->min_duration_ns = config->min_duration_ns;
	filter->min_bytes = config->min_bytes < INT64_MAX ? (int64_t)config->min_bytes : INT64_MAX;
	filter->max_duration_ns = config->max_duration_ns ? config->max_duration_ns : UINT64_MAX;
	if (make_rows(filter, config) || make_errors(filter, &config->errors) ||
	    matcher_make(&config->patterns, &filter->processes)) {
		filter_free(filter);
		return -ENOMEM;
	}
	*ret_filter = filter;
	return 0;
}

void filter_free(struct filter *filter)
{
	if (!filter)
		return;
	free(filter->rows);
	for (int api = 0; api < TABLE_NAPIS; api++)
		free(filter->errors[api]);
	matcher_free(filter->processes);
	free(filter);
}

static bool has_error(const struct filter *filter, const struct call *call)
{
	const bool *wanted = filter->errors[call->row->api];

	return !wanted || (call->error && wanted[call->error - table_errors[call->row->api]]);
}

static bool has_bytes(const struct filter *filter, const struct call *call)
{
	return !filter->min_bytes ||
	       (call->keys.present & 1u << TABLE_KEY_BYTES && call->keys.bytes >= filter->min_bytes);
}

bool filter_match(const struct filter *filter, const struct call *call, const struct thread *thread)
{
	const struct rec_call *rec = call->rec;
	uint64_t duration = rec->end_ns > rec->start_ns ? rec->end_ns - rec->start_ns : 0;

	return filter->status >> call->status & 1 && filter->rows[call->row_id] &&
	       duration >= filter->min_duration_ns && duration <= filter->max_duration_ns &&
	       has_error(filter, call) && has_bytes(filter, call) &&
	       (!filter->processes || matcher_match(filter->processes, thread));
}
