/*
 * One row per configuration key. The rows drive parsing, defaults, checking,
 * `cudatap check`, the reference page and the JSON Schema for editors: a key
 * exists in one place. Sinks bring their own rows for their own options.
 */
#ifndef CUDATAP_KEYS_H
#define CUDATAP_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum key_type {
	KEY_BOOL,
	KEY_INT,		/* int64_t, within [min, max] */
	KEY_SIZE,		/* uint64_t bytes: 65536, 64KiB, 16MiB, 1GiB; kB MB GB are powers of ten */
	KEY_DURATION,		/* uint64_t ns: 10us, 20ms, 1.5s, 2m, 1h, 1d */
	KEY_STRING,		/* char *, owned */
	KEY_ENUM,		/* int: index in `words` */
	KEY_STRINGS,		/* struct config_strings */
	KEY_PIDS,		/* list of positive integers */
	KEY_FAMILIES,		/* list or word: family names, default, all */
	KEY_FUNCTIONS,		/* list of function names and globs, each matching at least one */
	KEY_APIS,
	KEY_FIELDS,		/* map of constant strings */
	KEY_MODE,		/* mode_t, octal: "0640" */
	KEY_MAP,		/* a map with keys of its own (children) */
	KEY_SINKS,		/* the map of sinks by name */
	KEY_LITERAL,		/* must have the value of `fallback`: version: 1 */
};

struct key {
	const char *name;
	enum key_type type;
	size_t offset;		/* of the value in its structure (struct config, or a sink's options) */
	const char *fallback;	/* default, as it would be written in YAML; NULL: required or absent */
	bool required;
	int64_t min, max;	/* INT, SIZE, DURATION: bounds when max is not 0 */
	const char *const *words;	/* ENUM: NULL-terminated */
	const struct key *children;	/* MAP: rows up to one without a name */
	const char *about;	/* one sentence for the reference */
};

#endif
