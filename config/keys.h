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
	KEY_INT,       /* int64_t, within [min, max] */
	KEY_SIZE,      /* uint64_t bytes: 65536, 64KiB, 16MiB, 1GiB; kB MB GB are powers of ten */
	KEY_DURATION,  /* uint64_t ns: 10us, 20ms, 1.5s, 2m, 1h, 1d */
	KEY_STRING,    /* char *, owned; one of `words` if there are any */
	KEY_ENUM,      /* int: index in `words` */
	KEY_WORDS,     /* uint64_t: list of `words`, bit i for the word of that index */
	KEY_STRINGS,   /* struct config_strings; a word of `words` stands for the empty list */
	KEY_PIDS,      /* struct config_pids: list of positive integers */
	KEY_FAMILIES,  /* bool *: list or word: family names, default, all */
	KEY_FUNCTIONS, /* struct config_strings: names and globs, each matching at least one function */
	KEY_ERRORS,    /* struct config_strings: names of error codes */
	KEY_APIS,      /* bool [TABLE_NAPIS] */
	KEY_FIELDS,    /* struct config_fields: map of constant strings */
	KEY_MODE,      /* mode_t, octal: "0640" */
	KEY_MAP,       /* a map with keys of its own (children, whose offsets count from this one's) */
	KEY_SINKS,     /* the map of sinks by name, in struct config */
	KEY_LITERAL,   /* must have the value of `fallback`: version: 1 */
	KEY_SINK_KIND, /* const struct sink_ops *: a sink's type */
	KEY_RATES,     /* struct config_rates: map of families, functions and globs to numbers */
	KEY_PROFILES,  /* nothing: profiles are merged before the values are read (profiles.h) */
	KEY_NTYPES
};

/* flags of a key */
#define KEY_SECRET       (1 << 0) /* STRING: printed as "********" */
#define KEY_POWER_OF_TWO (1 << 1) /* SIZE: a power of two, at least one page */
#define KEY_NOT_EMPTY    (1 << 2) /* lists: at least one item */
#define KEY_PATHS        (1 << 3) /* STRINGS with `words`: every other text has a "/" */
#define KEY_LAYER        (1 << 4) /* says what is merged: settled before, and no part of the outcome */
#define KEY_PARAMETERS   (1 << 5) /* STRINGS: names of parameters */
#define KEY_RENAME       (1 << 6) /* FIELDS: new names by one of `words` */
#define KEY_VARIABLES    (1 << 7) /* STRINGS: names of environment variables, each once, `max` at most */
#define KEY_AT_START     (1 << 8) /* a reload does not change it: it takes effect at the next start */

struct key {
	const char *name;
	enum key_type type;
	size_t offset;        /* of the value in its structure (struct config, or a sink's options) */
	const char *fallback; /* default, as it would be written in YAML; NULL: required or absent */
	const char *computed; /* what the default is when it has no text: "the host's name" */
	bool required;
	unsigned flags;           /* KEY_SECRET ... */
	int64_t min, max;         /* INT, SIZE, DURATION: bounds; STRING: of its bytes; when max is not 0 */
	const char *const *words; /* ENUM, STRING, WORDS, STRINGS: NULL-terminated */
	const char *(*wrong)(const char *text); /* STRINGS: NULL, or what an item is to be: "the id of ..." */
	const struct key *children; /* MAP: rows up to one without a name; @offset is added to theirs */
	const char *about;          /* one sentence for the reference */
};

#endif
