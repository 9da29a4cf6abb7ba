/* Selection, on the real API table. */
#include "config_help.h"

#include "bpf/record.h"

static uint8_t *selection(const char *text)
{
	struct config *config = load_good(text);
	uint8_t *state = malloc(table_nrows);

	memset(state, 0xaa, table_nrows);
	config_select(config, state);
	for (unsigned row = 0; row < table_nrows; row++) {
		if (state[row] == (REC_ROW_ON | REC_ROW_AROUND))
			state[row] = REC_ROW_ON; /* see test_rules.c */
		assert_true(state[row] == REC_ROW_OFF || state[row] == REC_ROW_ON ||
			    state[row] == REC_ROW_MUTED);
	}
	config_free(config);
	return state;
}

/* The state that all rows of an exported name have in common. */
static int state_of(const uint8_t *state, const char *symbol)
{
	int found = -1;

	for (unsigned row = 0; row < table_nrows; row++) {
		if (strcmp(table_rows[row].symbol, symbol))
			continue;
		assert_true(found < 0 || found == state[row]);
		found = state[row];
	}
	if (found < 0)
		fail_msg("the table has no %s", symbol);
	return found;
}

static const char *family_of(unsigned row)
{
	return table_families[table_rows[row].family].name;
}

static bool calls(const struct table_row *row, const char *symbol)
{
	for (unsigned i = 0; i < row->ntwins; i++)
		if (!strcmp(table_twins[row->twin + i], symbol))
			return true;
	return false;
}

/* Does the row call a function of the driver that is on? Row by row, without the table's look-ups. */
static bool calls_selected(const struct table_row *row, const uint8_t *state)
{
	for (unsigned i = 0; i < table_nrows; i++)
		if (table_rows[i].api == TABLE_DRIVER && state[i] == REC_ROW_ON &&
		    calls(row, table_rows[i].symbol))
			return true;
	return false;
}

/* ---- families and libraries ---- */

static void test_api_and_family(void **state)
{
	uint8_t *s = selection("api: driver\nfamilies: [memory, launch]\n");

	for (unsigned row = 0; row < table_nrows; row++) {
		const struct table_row *r = &table_rows[row];
		bool wanted = r->api == TABLE_DRIVER && !(r->flags & TABLE_TAIL) &&
			      (!strcmp(family_of(row), "memory") || !strcmp(family_of(row), "launch"));

		assert_int_equal(s[row] == REC_ROW_ON, wanted);
	}
	free(s);
}

static void test_default_families(void **state)
{
	uint8_t *s = selection("");

	assert_int_equal(state_of(s, "cudaMalloc"), REC_ROW_ON);
	assert_int_equal(state_of(s, "cuMemAlloc_v2"), REC_ROW_ON);
	assert_int_equal(state_of(s, "cudaLaunchKernel"), REC_ROW_ON);
	assert_int_equal(state_of(s, "cudaLaunchKernel_ptsz"), REC_ROW_ON);
	/* the polling calls, ten for each launch of a training loop */
	assert_int_equal(state_of(s, "cudaGetDevice"), REC_ROW_OFF);
	assert_int_equal(state_of(s, "cudaGetLastError"), REC_ROW_OFF);
	free(s);
}

static void test_all_but_tails(void **state)
{
	uint8_t *s = selection("families: all\n");
	unsigned tails = 0;

	for (unsigned row = 0; row < table_nrows; row++) {
		bool tail = table_rows[row].flags & TABLE_TAIL;

		tails += tail;
		assert_int_equal(s[row], tail ? REC_ROW_OFF : REC_ROW_ON);
	}
	assert_true(tails);
	assert_int_equal(state_of(s, "__cudaLaunchKernel"), REC_ROW_OFF);
	free(s);
}

/* ---- include and exclude ---- */

static void test_include(void **state)
{
	uint8_t *s = selection(
		"api: runtime\nfamilies: []\ninclude: [cudaGetDevice, cuDeviceGet, \"cuEventR*\"]\n");

	assert_int_equal(state_of(s, "cudaGetDevice"), REC_ROW_ON);
	assert_int_equal(state_of(s, "cuDeviceGet"), REC_ROW_ON);
	assert_int_equal(state_of(s, "cuEventRecord"), REC_ROW_ON);
	assert_int_equal(state_of(s, "cudaGetDeviceCount"), REC_ROW_OFF);
	assert_int_equal(state_of(s, "cuEventCreate"), REC_ROW_OFF);
	free(s);
}

/* The name that people write brings all its variants, an exported name just itself. */
static void test_func_and_symbol(void **state)
{
	uint8_t *by_func = selection("families: []\ninclude: cuMemAlloc\n");
	uint8_t *by_symbol = selection("families: []\ninclude: cuMemAlloc_v2\n");

	assert_int_equal(state_of(by_func, "cuMemAlloc_v2"), REC_ROW_ON);
	assert_int_equal(state_of(by_func, "cuMemAlloc"), REC_ROW_ON);
	assert_int_equal(state_of(by_symbol, "cuMemAlloc_v2"), REC_ROW_ON);
	assert_int_equal(state_of(by_symbol, "cuMemAlloc"), REC_ROW_OFF);
	free(by_func);
	free(by_symbol);
}

static void test_exclude_wins(void **state)
{
	uint8_t *s =
		selection("families: all\ninclude: [cudaMemsetAsync]\nexclude: [\"cudaMemset*\", \"cu*\"]\n"
			  "nested: true\n");

	for (unsigned row = 0; row < table_nrows; row++)
		if (!strncmp(table_rows[row].func, "cu", 2))
			assert_int_equal(s[row], REC_ROW_OFF);
	free(s);
	s = selection("include: [cudaMemsetAsync]\nexclude: [\"cudaMemset*\"]\nnested: true\n");
	assert_int_equal(state_of(s, "cudaMemsetAsync"), REC_ROW_OFF);
	assert_int_equal(state_of(s, "cudaMemset2D"), REC_ROW_OFF);
	assert_int_equal(state_of(s, "cudaMemcpy"), REC_ROW_ON);
	free(s);
}

/* ---- muted rows ---- */

static void test_muted_memset(void **state)
{
	uint8_t *s = selection("exclude: [\"cudaMemset*\"]\n");

	assert_int_equal(state_of(s, "cudaMemset"), REC_ROW_MUTED);
	assert_int_equal(state_of(s, "cuMemsetD8_v2"), REC_ROW_ON);
	free(s);
	/* with the driver's gone too nothing is left to be hidden */
	s = selection("exclude: [\"cudaMemset*\", \"cuMemset*\"]\n");
	assert_int_equal(state_of(s, "cudaMemset"), REC_ROW_OFF);
	free(s);
	/* and with nested calls wanted, nothing is hidden */
	s = selection("exclude: [\"cudaMemset*\"]\nnested: true\n");
	assert_int_equal(state_of(s, "cudaMemset"), REC_ROW_OFF);
	free(s);
}

/* By its definition, for several selections. */
static void test_muted_by_definition(void **state)
{
	static const char *const texts[] = {
		"",
		"api: driver\n",
		"api: runtime\n",
		"families: memory\nexclude: [\"cuda*\"]\n",
		"families: [query, error]\n",
		"families: all\nexclude: [\"cudaM*\", \"cuMemcpy*\"]\n",
		"api: driver\nfamilies: all\n",
		"families: launch\ninclude: [\"cu[A-Z]*\"]\n",
	};
	unsigned muted = 0;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		uint8_t *s = selection(texts[i]);
		bool runtime = !strstr(texts[i], "api: driver");

		for (unsigned row = 0; row < table_nrows; row++) {
			const struct table_row *r = &table_rows[row];
			bool wanted = runtime && r->api == TABLE_RUNTIME && s[row] != REC_ROW_ON &&
				      !(r->flags & TABLE_TAIL) && calls_selected(r, s);

			muted += wanted;
			assert_int_equal(s[row] == REC_ROW_MUTED, wanted);
		}
		free(s);
	}
	assert_true(muted > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_api_and_family),  cmocka_unit_test(test_default_families),
		cmocka_unit_test(test_all_but_tails),   cmocka_unit_test(test_include),
		cmocka_unit_test(test_func_and_symbol), cmocka_unit_test(test_exclude_wins),
		cmocka_unit_test(test_muted_memset),    cmocka_unit_test(test_muted_by_definition),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
