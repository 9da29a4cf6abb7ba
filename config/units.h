/* Numbers with units: sizes and durations. Exact integers, no floating point. */
#ifndef CUDATAP_CONFIG_UNITS_H
#define CUDATAP_CONFIG_UNITS_H

#include <stdbool.h>
#include <stdint.h>

struct unit {
	const char *name;
	uint64_t factor;
	bool printed; /* units_print() uses it */
};

/* Descending, up to one without a name. */
extern const struct unit units_size[]; /* bytes */
extern const struct unit units_time[]; /* nanoseconds */

/**
 * units_parse - "16MiB", "1.5s", "20 ms"
 * @ret_unit: where the unit begins in @text, also on failure; NULL is allowed
 * Returns 0; -EINVAL: no number, -ENODATA: no unit (@ret_value is the bare number), -ENOENT: unknown
 * unit, -ERANGE: past 64 bits, -EDOM: a fraction of a byte or of a nanosecond.
 */
int units_parse(const struct unit *units, const char *text, uint64_t *ret_value, const char **ret_unit);

struct units_text {
	char text[32];
};

/** units_print - shortest exact text; units_parse() reads it back */
struct units_text units_print(const struct unit *units, uint64_t value);

/** units_names - the units' names, for messages; returns how many */
unsigned units_names(const struct unit *units, const char **names, unsigned room);

#endif
