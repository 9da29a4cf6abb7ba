/* Which rows of the API table a configuration wants. */
#include <stdbool.h>
#include <string.h>

#include "config.h"

#include "../bpf/record.h"

static const unsigned majors[] = {11, 12, 13};

#define NMAJORS (sizeof(majors) / sizeof(majors[0]))

static void select_families(const struct config *config, uint8_t *state)
{
	for (unsigned i = 0; i < table_nrows; i++) {
		const struct table_row *row = &table_rows[i];

		state[i] = config->api[row->api] && config->families[row->family] ? REC_ROW_ON : REC_ROW_OFF;
	}
}

static void set_matching(const struct config_strings *patterns, uint8_t *state, enum rec_row_state to)
{
	for (size_t i = 0; i < patterns->n; i++)
		for (int row = -1; table_next(patterns->list[i], &row);)
			state[row] = to;
}

/* Such a function jumps into another one, which reports the call. */
static void drop_tails(uint8_t *state)
{
	for (unsigned i = 0; i < table_nrows; i++)
		if (table_rows[i].flags & TABLE_TAIL)
			state[i] = REC_ROW_OFF;
}

/* Does it call a selected function of the driver, in any major? */
static bool contains_selected(const struct table_row *row, const uint8_t *state)
{
	for (unsigned i = 0; i < row->ntwins; i++)
		for (size_t m = 0; m < NMAJORS; m++) {
			int twin = table_find(TABLE_DRIVER, table_twins[row->twin + i], majors[m]);

			if (twin >= 0 && state[twin] & REC_ROW_ON)
				return true;
		}
	return false;
}

/* An unselected runtime call must not come up as the driver call inside it. */
static void mute_callers(uint8_t *state)
{
	for (unsigned i = 0; i < table_nrows; i++) {
		const struct table_row *row = &table_rows[i];

		if (row->api == TABLE_RUNTIME && state[i] == REC_ROW_OFF && !(row->flags & TABLE_TAIL) &&
		    contains_selected(row, state))
			state[i] = REC_ROW_MUTED;
	}
}

/* Can a call of it end so that the filter lets it through? Rows that return no status always end well, if
 * they end; an older call's error does not make one an error. */
static bool can_end_so(const struct config_filter *filter, const struct table_row *row)
{
	uint64_t ends = 1u << REC_STATUS_OK | 1u << REC_STATUS_UNFINISHED;

	if (row->ret == TABLE_RET_STATUS)
		ends |= 1u << REC_STATUS_NOT_READY |
			(row->flags & TABLE_REPORTS_ERROR ? 0 : 1u << REC_STATUS_ERROR);
	if (filter->errors.n && row->ret != TABLE_RET_STATUS)
		return false;
	return !filter->status || filter->status & ends;
}

static bool moves_bytes(const struct table_row *row)
{
	for (unsigned i = 0; i < row->nkeys; i++)
		if (table_keys[row->key + i].key == TABLE_KEY_BYTES)
			return true;
	return false;
}

void config_filter_rows(const struct config_filter *filter, bool *ret_rows)
{
	for (unsigned i = 0; i < table_nrows; i++)
		ret_rows[i] = !filter->functions.n;
	for (size_t i = 0; i < filter->functions.n; i++)
		for (int row = -1; table_next(filter->functions.list[i], &row);)
			ret_rows[row] = true;
	for (unsigned i = 0; i < table_nrows; i++) {
		const struct table_row *row = &table_rows[i];

		ret_rows[i] = ret_rows[i] && (!filter->families || filter->families[row->family]) &&
			      can_end_so(filter, row) && (!filter->min_bytes || moves_bytes(row));
	}
}

void config_sample_rows(const struct config *config, uint32_t *ret_sample)
{
	const struct config_rates *rates = &config->sample.rates;

	for (unsigned i = 0; i < table_nrows; i++)
		ret_sample[i] = 1;
	for (size_t i = 0; i < rates->n; i++)
		for (unsigned row = 0; row < table_nrows; row++)
			if (table_rows[row].family == table_family(rates->list[i].what))
				ret_sample[row] = (uint32_t)rates->list[i].n;
	for (size_t i = 0; i < rates->n; i++)
		for (int row = -1; table_next(rates->list[i].what, &row);)
			ret_sample[row] = (uint32_t)rates->list[i].n;
}

static void reject(const struct config_filter *filter, uint8_t *state)
{
	bool rows[REC_MAX_ROWS];

	config_filter_rows(filter, rows);
	for (unsigned i = 0; i < table_nrows; i++)
		if (state[i] == REC_ROW_ON && !rows[i])
			state[i] = REC_ROW_REJECTED;
}

/*
 * What is turned away must not come up as the call inside it. A rejected function counts as an unselected one
 * does; one that is turned away call by call encloses whatever else it calls as well.
 */
static void mark_callers(const struct config *config, uint8_t *state)
{
	bool driver = false;

	for (unsigned i = 0; i < table_nrows; i++)
		driver |= table_rows[i].api == TABLE_DRIVER && state[i] == REC_ROW_ON;
	for (unsigned i = 0; driver && i < table_nrows; i++) {
		const struct table_row *row = &table_rows[i];

		if (row->api != TABLE_RUNTIME)
			continue;
		if (state[i] == REC_ROW_ON ||
		    (state[i] == REC_ROW_REJECTED && !config->nested && contains_selected(row, state)))
			state[i] |= REC_ROW_AROUND;
	}
}

void config_select(const struct config *config, uint8_t *state)
{
	select_families(config, state);
	set_matching(&config->include, state, REC_ROW_ON);
	set_matching(&config->exclude, state, REC_ROW_OFF);
	drop_tails(state);
	reject(&config->filter, state);
	/* without the runtime in `api` it is no call around the driver's, but just a caller */
	if (!config->nested && config->api[TABLE_RUNTIME])
		mute_callers(state);
	mark_callers(config, state);
}
