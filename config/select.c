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

			if (twin >= 0 && state[twin] == REC_ROW_ON)
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

void config_select(const struct config *config, uint8_t *state)
{
	select_families(config, state);
	set_matching(&config->include, state, REC_ROW_ON);
	set_matching(&config->exclude, state, REC_ROW_OFF);
	drop_tails(state);
	/* without the runtime in `api` it is no call around the driver's, but just a caller */
	if (!config->nested && config->api[TABLE_RUNTIME])
		mute_callers(state);
}
