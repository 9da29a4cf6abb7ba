/*
 * The encoder against the reference: random calls of every row of the API
 * table. With CUDATAP_LINES=FILE the lines are kept there, for a validator.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "encode_record.h"
#include "encode_reference.h"

#define ROUNDS 12

static const struct encode_static statics[] = {{"env", "prod"}, {"note", "a \"b\"\n\xff"}};

static const struct encoder_options variants[] = {
	{.run = "k3v9q2m7x0ab", .host = "gpu07", .args = true},
	{.run = "k3v9q2m7x0ab",
	 .host = "gpu07",
	 .args = true,
	 .nested = true,
	 .statics = statics,
	 .nstatics = 2},
	{.run = "k3v9q2m7x0ab", .host = "gpu07", .nested = true},
};
#define NVARIANTS (sizeof(variants) / sizeof(variants[0]))

static FILE *lines;

static struct thread random_thread(uint64_t *random)
{
	struct thread thread = {
		.pid = (uint32_t)record_random_word(random),
		.tid = (uint32_t)record_random_word(random),
		.ns_pid = (uint32_t)(record_random(random) % 2 ? record_random(random) : 0),
	};

	record_random_bytes(random, (unsigned char *)thread.comm, record_random(random) % 17, true);
	record_random_bytes(random, (unsigned char *)thread.thread, record_random(random) % 17, true);
	return thread;
}

static void check_line(struct encoder *encoder, const struct encoder_options *options,
		       const struct call *call, uint64_t *random)
{
	static char out[ENCODE_MAX_LINE];
	struct thread thread = random_thread(random);
	uint64_t seq = record_random_word(random) / 2 + 1;
	int64_t ts = (int64_t)record_random(random);
	struct line_meta meta;
	size_t len = encode_call(encoder, call, &thread, seq, ts, out, &meta);
	json_t *actual = reference_parse(out, len),
	       *expected = reference_call(options, call, &thread, seq, ts);

	assert_true(len <= ENCODE_MAX_LINE);
	if (lines)
		fwrite(out, 1, len, lines);
	assert_non_null(actual);
	if (!reference_same(actual, expected)) {
		print_message("%s\nis:       %.*s", call->row->symbol, (int)len, out);
		print_message("expected: %s\n", json_dumps(expected, JSON_COMPACT));
		fail();
	}
	assert_int_equal(meta.seq, seq);
	assert_int_equal(meta.row, call->row_id);
	assert_int_equal(meta.status, call->status);
	if (meta.args_len) {
		assert_memory_equal(out + meta.args_off, ",\"", 2);
		memmove(out + meta.args_off, out + meta.args_off + meta.args_len,
			len - meta.args_off - meta.args_len);
		json_decref(actual);
		actual = reference_parse(out, len - meta.args_len);
		json_object_del(expected, "args");
		json_object_del(expected, "out");
		assert_true(reference_same(actual, expected));
	} else {
		assert_null(json_object_get(actual, "args"));
		assert_null(json_object_get(actual, "out"));
	}
	json_decref(actual);
	json_decref(expected);
	thread_drop_prefixes(&thread);
}

static void test_every_row(void **state)
{
	struct plan *plans = plan_all(plan_host_abi());
	uint64_t random = 88172645463325252;
	static struct record record;
	struct call call;

	assert_non_null(plans);
	for (size_t v = 0; v < NVARIANTS; v++) {
		struct encoder *encoder = encoder_new(&variants[v]);

		assert_non_null(encoder);
		for (unsigned row = 0; row < table_nrows; row++) {
			for (int round = 0; round < ROUNDS; round++) {
				record_fill_random(&record, plans, row, &random);
				if (decode_call(plans, record_call(&record), record.size, &call)) {
					print_message("%s: record refused\n", table_rows[row].symbol);
					fail();
				}
				check_line(encoder, &variants[v], &call, &random);
			}
		}
		encoder_free(encoder);
	}
	free(plans);
}

/* No two parameters of a function, and no parameter and mark, share a name. */
static void test_names(void **state)
{
	for (unsigned r = 0; r < table_nrows; r++) {
		const struct table_row *row = &table_rows[r];

		assert_true(row->nparams <= DECODE_MAX_PARAMS);
		for (unsigned i = 0; i < row->nparams; i++) {
			const char *name = table_params[row->param + i].name;
			size_t len = strlen(name);

			assert_true(len > 0 && len < 64);
			assert_true(len < 4 || strcmp(name + len - 4, "_cut"));
			for (unsigned j = 0; j < i; j++)
				if (!strcmp(name, table_params[row->param + j].name)) {
					print_message("%s has %s twice\n", row->symbol, name);
					fail();
				}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_every_row),
	};

	const char *path = getenv("CUDATAP_LINES");
	int failed;

	lines = path ? fopen(path, "w") : NULL;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	return failed || (lines && fclose(lines));
}
