/* What lines are made of: numbers, timestamps, escaped text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>

#include "../../streamer/encode/escape.h"
#include "../../streamer/encode/number.h"
#include "../../streamer/encode/timestamp.h"
#include "encode_record.h"
#include "encode_reference.h"

#define TS 1795969263123456789 /* 2026-11-29T16:21:03.123456789Z */

/* ---- numbers ---- */

static void check_u64(uint64_t value)
{
	char text[128], expected[64];

	*put_u64(text, value) = '\0';
	snprintf(expected, sizeof(expected), "%" PRIu64, value);
	assert_string_equal(text, expected);
	*put_i64(text, (int64_t)value) = '\0';
	snprintf(expected, sizeof(expected), "%" PRId64, (int64_t)value);
	assert_string_equal(text, expected);
	*put_hex(text, value) = '\0';
	snprintf(expected, sizeof(expected), "\"0x%" PRIx64 "\"", value);
	assert_string_equal(text, expected);
}

static void test_integers(void **state)
{
	uint64_t power = 1, random = 1;

	check_u64(0);
	for (int i = 0; i < 20; i++, power *= 10) {
		check_u64(power - 1);
		check_u64(power);
		check_u64(power + 1);
	}
	for (int i = 0; i < 64; i++) {
		check_u64(1ull << i);
		check_u64((1ull << i) - 1);
		check_u64(0 - (1ull << i));
	}
	check_u64(UINT64_MAX);
	for (int i = 0; i < 200000; i++)
		check_u64(record_random(&random) >> (i & 63));
}

static void check_float(double value, int digits, const char *expected)
{
	char text[NUMBER_MAX_FLOAT + 1];

	*put_float(text, value, digits) = '\0';
	assert_string_equal(text, expected);
}

static void test_floats(void **state)
{
	uint64_t random = 3;

	check_float(0, FLT_DECIMAL_DIG, "0");
	check_float(1, FLT_DECIMAL_DIG, "1");
	check_float((double)0.1f, FLT_DECIMAL_DIG, "0.1");
	check_float(0.1, DBL_DECIMAL_DIG, "0.1");
	check_float(-2.5, DBL_DECIMAL_DIG, "-2.5");
	check_float(1.0 / 3, DBL_DECIMAL_DIG, "0.3333333333333333");
	check_float(HUGE_VAL, DBL_DECIMAL_DIG, "null");
	check_float(-HUGE_VAL, DBL_DECIMAL_DIG, "null");
	check_float(NAN, FLT_DECIMAL_DIG, "null");
	check_float(-DBL_MAX, DBL_DECIMAL_DIG, "-1.7976931348623157e+308");
	check_float(-4.9406564584124654e-324, DBL_DECIMAL_DIG, "-5e-324");
	for (int i = 0; i < 20000; i++) {
		uint64_t bits = record_random(&random);
		char text[NUMBER_MAX_FLOAT + 1];
		double value;
		float single;

		memcpy(&value, &bits, sizeof(value));
		memcpy(&single, &bits, sizeof(single));
		if (isfinite(value)) {
			*put_float(text, value, DBL_DECIMAL_DIG) = '\0';
			assert_true(strlen(text) <= NUMBER_MAX_FLOAT && strtod(text, NULL) == value);
		}
		if (isfinite(single)) {
			*put_float(text, (double)single, FLT_DECIMAL_DIG) = '\0';
			assert_true(strtof(text, NULL) == single);
		}
	}
}

/* ---- timestamps ---- */

static void check_ts(int64_t ts_ns)
{
	struct timestamp_cache cache = {0};
	json_t *expected = reference_ts(ts_ns);
	char text[TIMESTAMP_LEN + 1];

	/* twice: fresh, and from the cache */
	for (int i = 0; i < 2; i++) {
		*put_timestamp(text, &cache, ts_ns) = '\0';
		assert_string_equal(text, json_string_value(expected));
	}
	json_decref(expected);
}

static void test_timestamps(void **state)
{
	static const int64_t seconds[] = {
		0,          951782399,  951782400,  951868800,  /* 2000-02-28/29, -03-01 */
		1709164799, 1709164800, 1709251199, 1709251200, /* 2024-02-29 */
		1735689599, 1735689600,                         /* new year */
		2147483647, 2147483648, 4294967295, 4294967296, /* 2038, 2106 */
		4107542399, 4107542400,                         /* 2100 is no leap year */
	};
	struct timestamp_cache cache = {0};
	char text[TIMESTAMP_LEN + 1];
	uint64_t random = 5;

	for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
		check_ts(seconds[i] * 1000000000);
		check_ts(seconds[i] * 1000000000 + 999999999);
	}
	check_ts(-1);
	check_ts(INT64_MAX);
	check_ts(INT64_MIN);
	for (int i = 0; i < 100000; i++)
		check_ts((int64_t)record_random(&random));
	for (int64_t day = 0; day < 366 * 401; day++)
		check_ts((day - 200 * 365) * 86400 % (INT64_MAX / 1000000000) * 1000000000);
	/* one cache over seconds that come and go */
	for (int i = 0; i < 1000; i++) {
		int64_t ts = TS + (int64_t)(record_random(&random) % 3000000000);
		json_t *expected = reference_ts(ts);

		*put_timestamp(text, &cache, ts) = '\0';
		assert_string_equal(text, json_string_value(expected));
		json_decref(expected);
	}
}

/* ---- text ---- */

static void check_text(const char *text, size_t len)
{
	char quoted[8192];
	json_t *expected = reference_text(text, len, false), *actual;
	char *p = quoted;

	assert_true(len * ESCAPE_GROWTH + PUT_SLACK < sizeof(quoted));
	*p++ = '"';
	p = put_escaped(p, text, len);
	assert_true((size_t)(p - quoted) <= len * ESCAPE_GROWTH + 1);
	*p++ = '"';
	actual = json_loadb(quoted, (size_t)(p - quoted), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	assert_non_null(actual);
	assert_true(json_equal(actual, expected));
	for (char *c = quoted; c < p; c++)
		assert_true((unsigned char)*c >= 0x20);
	json_decref(actual);
	json_decref(expected);
}

static void test_escapes(void **state)
{
	uint64_t random = 7;
	char text[1024];

	for (int c = 0; c < 256; c++) {
		/* at every place in and around a group of eight */
		for (int at = 0; at < 20; at++) {
			memset(text, 'x', 20);
			text[at] = (char)c;
			check_text(text, 20);
		}
		for (int d = 0; d < 256; d++) {
			text[0] = (char)c;
			text[1] = (char)d;
			check_text(text, 2);
		}
	}
	for (int i = 0; i < 20000; i++) {
		size_t len = record_random(&random) % 400;

		record_random_bytes(&random, (unsigned char *)text, len, i & 1);
		check_text(text, len);
	}
}

/* Every sequence of up to four bytes whose bytes are at the borders of the UTF-8 ranges. */
static void test_utf8(void **state)
{
	static const unsigned char borders[] = {0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
						0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed,
						0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff};
	const size_t n = sizeof(borders);
	char text[4];

	for (size_t i = 0; i < n * n * n * n; i++) {
		size_t rest = i;

		for (int b = 0; b < 4; b++, rest /= n)
			text[b] = (char)borders[rest % n];
		check_text(text, 4);
	}
}

static void test_whole(void **state)
{
	assert_int_equal(escape_whole("", 0), 0);
	assert_int_equal(escape_whole("abc", 3), 3);
	assert_int_equal(escape_whole("a\xc3\xa9", 3), 3);
	assert_int_equal(escape_whole("a\xc3", 2), 1);
	assert_int_equal(escape_whole("a\xe2\x82", 3), 1);
	assert_int_equal(escape_whole("a\xe2\x82\xac", 4), 4);
	assert_int_equal(escape_whole("a\xf0\x9f\x98", 4), 1);
	assert_int_equal(escape_whole("\xf0\x9f\x98\x80", 4), 4);
	assert_int_equal(escape_whole("a\xff", 2), 2);
	assert_int_equal(escape_whole("a\x80", 2), 2);
	assert_int_equal(escape_whole("\x80\x80\x80\x80\x80", 5), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_integers),   cmocka_unit_test(test_floats),
		cmocka_unit_test(test_timestamps), cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_utf8),       cmocka_unit_test(test_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
