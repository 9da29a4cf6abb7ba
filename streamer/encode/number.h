/*
 * Numbers as JSON text, appended unchecked (see put.h).
 */
#ifndef CUDATAP_NUMBER_H
#define CUDATAP_NUMBER_H

#include "put.h"

#define NUMBER_MAX_U64   20 /* 18446744073709551615 */
#define NUMBER_MAX_I64   20 /* -9223372036854775808 */
#define NUMBER_MAX_HEX   20 /* "0xffffffffffffffff", with the quotes */
#define NUMBER_MAX_FLOAT 32

extern const char number_pairs[200]; /* "00" to "99" */

static inline char *put_2digits(char *p, unsigned value)
{
	memcpy(p, number_pairs + value * 2, 2);
	return p + 2;
}

/* exactly nine digits */
static inline char *put_9digits(char *p, uint32_t value)
{
	p[8] = (char)('0' + value % 10);
	value /= 10;
	for (int i = 6; i >= 0; i -= 2) {
		put_2digits(p + i, value % 100);
		value /= 100;
	}
	return p + 9;
}

static inline unsigned count_digits(uint64_t value)
{
	static const uint64_t powers[] = {
		0,
		10,
		100,
		1000,
		10000,
		100000,
		1000000,
		10000000,
		100000000,
		1000000000,
		10000000000,
		100000000000,
		1000000000000,
		10000000000000,
		100000000000000,
		1000000000000000,
		10000000000000000,
		100000000000000000,
		1000000000000000000,
		10000000000000000000u,
	};
	/* 1233 / 4096 is log10(2): right, or one too high */
	unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
	unsigned guess = bits * 1233 >> 12;

	return guess + (value >= powers[guess]);
}

static inline char *put_u64(char *p, uint64_t value)
{
	unsigned n = count_digits(value);
	char *end = p + n;

	for (; n > 2; n -= 2) {
		put_2digits(p + n - 2, (unsigned)(value % 100));
		value /= 100;
	}
	if (n == 2)
		put_2digits(p, (unsigned)value);
	else
		*p = (char)('0' + value);
	return end;
}

static inline char *put_i64(char *p, int64_t value)
{
	uint64_t magnitude = (uint64_t)value;

	if (value < 0) {
		*p++ = '-';
		magnitude = 0 - magnitude;
	}
	return put_u64(p, magnitude);
}

/* Eight hex digits in one word, the highest in the lowest byte. */
static inline uint64_t hex_digits(uint32_t value)
{
	uint64_t x = __builtin_bswap32(value);
	uint64_t letters;

	x = (x | x << 16) & 0x0000ffff0000ffff;
	x = (x | x << 8) & 0x00ff00ff00ff00ff;
	x = (x >> 4 & 0x000f000f000f000f) | (x & 0x000f000f000f000f) << 8;
	letters = (x + 0x0606060606060606) >> 4 & 0x0101010101010101;
	return x + 0x3030303030303030 + letters * ('a' - '0' - 10);
}

/* "0x..." with the quotes, without leading zeros */
static inline char *put_hex(char *p, uint64_t value)
{
	unsigned n = (67 - (unsigned)__builtin_clzll(value | 1)) / 4;
	uint64_t digits[2];

	value <<= 64 - 4 * n;
	digits[0] = hex_digits((uint32_t)(value >> 32));
	digits[1] = hex_digits((uint32_t)value);
	p = PUT_LITERAL(p, "\"0x");
	memcpy(p, digits, sizeof(digits));
	p[n] = '"';
	return p + n + 1;
}

/**
 * put_float - the shortest digits that read back as the same number
 * @digits: 9 for a float, 17 for a double (FLT_DECIMAL_DIG, DBL_DECIMAL_DIG)
 * JSON knows neither infinity nor NaN: these become null. Not for the hot path.
 */
char *put_float(char *p, double value, int digits);

#endif
