/* Numbers with units: sizes and durations. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "units.h"

#define FRACTION_DIGITS 9

const struct unit units_size[] = {
	{"TiB", 1ull << 40, true}, {"TB", 1000000000000, false}, {"GiB", 1ull << 30, true},
	{"GB", 1000000000, false}, {"MiB", 1ull << 20, true},    {"MB", 1000000, false},
	{"KiB", 1ull << 10, true}, {"kB", 1000, false},          {"B", 1, true},
	{NULL, 0, false},
};

const struct unit units_time[] = {
	{"d", 86400000000000, true},
	{"h", 3600000000000, true},
	{"m", 60000000000, true},
	{"s", 1000000000, true},
	{"ms", 1000000, true},
	{"us", 1000, true},
	{"ns", 1, true},
	{NULL, 0, false},
};

/* A decimal number as value / 10^scale. */
struct number {
	uint64_t value;
	uint64_t scale;
	bool overflow;
};

static const char *digits(const char *s, struct number *n, unsigned most)
{
	for (unsigned i = 0; *s >= '0' && *s <= '9'; s++, i++) {
		if (i >= most || __builtin_mul_overflow(n->value, 10, &n->value) ||
		    __builtin_add_overflow(n->value, *s - '0', &n->value))
			n->overflow = true;
		n->scale *= 10;
	}
	return s;
}

static const struct unit *unit_find(const struct unit *units, const char *name)
{
	for (; units->name; units++)
		if (!strcmp(units->name, name))
			return units;
	return NULL;
}

static int scale(const struct number *n, uint64_t factor, uint64_t *ret_value)
{
	unsigned __int128 product = (unsigned __int128)n->value * factor;

	if (product % n->scale)
		return -EDOM;
	product /= n->scale;
	if (product > INT64_MAX)
		return -ERANGE;
	*ret_value = product;
	return 0;
}

int units_parse(const struct unit *units, const char *text, uint64_t *ret_value, const char **ret_unit)
{
	struct number n = {.scale = 1};
	const struct unit *unit;
	const char *s = digits(text, &n, 20);

	if (s == text)
		return -EINVAL;
	n.scale = 1;
	if (*s == '.') {
		const char *fraction = s + 1;

		s = digits(fraction, &n, FRACTION_DIGITS);
		if (s == fraction)
			return -EINVAL;
	}
	while (*s == ' ')
		s++;
	if (ret_unit)
		*ret_unit = s;
	if (n.overflow)
		return -ERANGE;
	if (!*s) {
		int err = scale(&n, 1, ret_value);

		return err ? err : -ENODATA;
	}
	unit = unit_find(units, s);
	return unit ? scale(&n, unit->factor, ret_value) : -ENOENT;
}

struct units_text units_print(const struct unit *units, uint64_t value)
{
	struct units_text t = {"0"};

	for (; value && units->name; units++)
		if (units->printed && value % units->factor == 0) {
			snprintf(t.text, sizeof(t.text), "%" PRIu64 "%s", value / units->factor,
				 units->factor == 1 && !strcmp(units->name, "B") ? "" : units->name);
			break;
		}
	return t;
}

unsigned units_names(const struct unit *units, const char **names, unsigned room)
{
	unsigned n = 0;

	for (; units->name && n < room; units++)
		names[n++] = units->name;
	return n;
}
