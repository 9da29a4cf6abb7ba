/*
 * The checked configuration: what YAML file and command line say, complete
 * with defaults. Made once, then read-only; freed by the last config_free().
 */
#ifndef CUDATAP_CONFIG_H
#define CUDATAP_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "../streamer/table/table.h"

struct sink_ops; /* sinks/: one kind of sink with its key table */

/* A list of strings; n may be 0 with a NULL list. */
struct config_strings {
	char **list;
	size_t n;
};

struct config_field {
	char *name, *value;
};

/* A map of constant strings, in the order of the file. */
struct config_fields {
	struct config_field *list;
	size_t n;
};

struct config_pids {
	pid_t *list;
	size_t n;
};

/* Processes, by what can be said of them; empty: any. Every list that is not empty must have one that fits.
 */
struct config_patterns {
	struct config_strings uids, comms, exe, cgroups, containers;
};

/* Which calls are meant: those for which every condition that is there holds. */
struct config_filter {
	uint64_t status;                 /* bit i: enum call_status; 0: any */
	struct config_strings errors;    /* names of cudaError_t or CUresult; empty: any */
	struct config_strings functions; /* names or globs; empty: any */
	bool *families;                  /* [table_nfamilies]; NULL: any */
	uint64_t min_duration_ns;
	uint64_t max_duration_ns; /* 0: no limit */
	uint64_t min_bytes;       /* 0: also calls that move nothing */
	struct config_patterns patterns;
};

struct config_rate_limit {
	int64_t events; /* calls per second; 0: no limit */
	int64_t burst;  /* at once; 0: as many as in a second */
};

/* One of so many calls of these functions. */
struct config_rate {
	char *what; /* a family, or functions by name or glob */
	int64_t n;
};

/* In the order of the file. */
struct config_rates {
	struct config_rate *list;
	size_t n;
};

/* When the configuration is read again. */
enum config_reload { CONFIG_ON_SIGNAL, CONFIG_ON_CHANGE };

#define CONFIG_SPOOL_BYTES (1ull << 30) /* the default */

struct config_sink {
	char *name;                 /* its key in the map: unique */
	const struct sink_ops *ops; /* from `type` */
	char *format;               /* of encode_format_names[] */
	void *options;              /* the kind's own options, by its key table */
	struct {
		bool args;           /* false leaves them out whatever config.fields.args says */
		uint64_t only, drop; /* keys of calls, bit i: encode_field_names[ENCODE_FIXED_FIELDS + i];
				      * only 0: all */
		struct config_fields rename;  /* key to new name */
		struct config_strings redact; /* parameters, beside those of config.fields */
	} fields;
	struct config_filter filter;
	struct config_rate_limit rate_limit;
	struct {
		int64_t max_events;
		uint64_t max_bytes;
		int when_full; /* enum sink_when_full */
		uint64_t block_timeout_ns;
	} queue;
	struct {
		char *path; /* a directory; NULL: no spool */
		uint64_t max_bytes;
	} spool;          /* only for kinds that have it (sink_ops.spools) */
	bool allow_stall; /* when_full: block beside other sinks */
};

struct config {
	unsigned more_refs;          /* beside the first one */
	char *profile;               /* the one in effect; NULL: none */
	struct config_strings files; /* that were read, included ones too; not stdin */
	bool api[TABLE_NAPIS];
	bool *families;                         /* [table_nfamilies] */
	struct config_strings include, exclude; /* functions by name or glob */
	bool nested;
	uint64_t open_after_ns;          /* 0: calls that hang are not told of */
	int names;                       /* enum kernels_style */
	struct config_strings libraries; /* empty: auto */
	struct config_pids pids;         /* empty: every process */
	struct {
		bool children; /* of `pids` as well */
		struct config_patterns patterns;
	} processes;
	struct config_filter filter; /* calls that it does not mean are counted, and go nowhere */
	struct {
		struct config_rates rates;
		bool keep_errors; /* calls that failed or did not return are in every sample */
	} sample;
	struct config_rate_limit process_rate_limit;
	struct {
		bool args;
		union {
			struct config_fields constant;
			struct {
				struct config_field *statics;
				size_t nstatics;
			};
		};
		uint64_t process;             /* what calls say of it: bit i: the i-th key from `uid` on */
		struct config_strings env;    /* variables of processes, ENVIRONS_MAX_NAMES at most */
		struct config_strings redact; /* parameters whose values are not shown */
	} fields;
	char *host;
	int reload; /* enum config_reload */
	struct {
		uint64_t size; /* bytes, a power of two and multiple of the page */
		uint64_t flush_ns;
	} ring;
	struct config_sink *sinks;
	size_t nsinks;
};

/* What the command line adds to the file; NULL or empty: says nothing. */
struct config_overrides {
	const char *profile;  /* "": none, whatever else chooses one */
	const char *option;   /* that names it, for messages; NULL: "--profile" */
	const char *families; /* -f a,b,c */
	const pid_t *pids;    /* -p */
	size_t npids;
	const char *const *sinks; /* -o; replace the file's sinks */
	size_t nsinks;
};

/**
 * config_load - file and command line to a checked configuration
 * @path: YAML file, "-" for stdin, or NULL: defaults (the default families to stdout)
 * @errors: every error of the file is written here, one line each:
 *	FILE:LINE:COLUMN: what is wrong; what to do (the nearest valid word)
 * CUDATAP_PROFILE in the environment chooses a profile where @overrides does not.
 * Returns 0 and the configuration, or -EINVAL after at least one message.
 */
int config_load(const char *path, const struct config_overrides *overrides, FILE *errors,
		struct config **ret_config);
/** config_free - drop a reference, and with the last one everything. NULL is fine. */
void config_free(struct config *config);
/** config_ref - one more reference; all of them belong to one thread */
struct config *config_ref(struct config *config);

/**
 * config_load_watched - the same, for who wants to know when to load it again
 * @ret_paths: what it was made from, also after a failure: every file that was read or looked for,
 *	and patterns of names in a directory. To be freed by config_strings_free().
 */
int config_load_watched(const char *path, const struct config_overrides *overrides, FILE *errors,
			struct config_strings *ret_paths, struct config **ret_config);
void config_strings_free(struct config_strings *strings);

/** config_print - the effective configuration as YAML that config_load() reads again (`cudatap check`).
 * Secrets are masked. */
int config_print(const struct config *config, FILE *out);

/**
 * config_diff - the differences of two configurations, a line per key: PATH: VALUE -> VALUE
 * Secrets are compared and not shown. Returns 0, -ENOMEM or -EIO.
 */
int config_diff(const struct config *a, const struct config *b, FILE *out);

/* ---- from one configuration to the next ---- */

/* A key that has another value. Values are as in config_diff(); NULL: the key is not there. */
struct config_change {
	char *path; /* "families", "sinks.disk.rotate.max_size"; of a whole sink: "sinks.disk" */
	char *from, *to;
	bool at_start; /* it takes effect at the next start: config_advance() has kept the old value */
};

struct config_changes {
	struct config_change *list;
	size_t n;
	bool *same_sink; /* [nsinks of the new one]: a sink of that name goes on as it is */
};

/**
 * config_advance - what changes when @config takes the place of @old
 * Keys that cannot change while cudatap runs get the old value in @config.
 * Returns 0 or a negative errno.
 */
int config_advance(const struct config *old, struct config *config, struct config_changes *ret_changes);
void config_changes_free(struct config_changes *changes);

/** config_schema - JSON Schema (draft 2020-12) of the file, for editors. Returns 0, -ENOMEM or -EIO. */
int config_schema(FILE *out);

/** config_reference - the reference page, as Markdown (docs/configuration.md). Returns 0 or -EIO. */
int config_reference(FILE *out);

/**
 * config_select - which rows are wanted
 * @state: [table_nrows], filled with enum rec_row_state: ON for selected rows; MUTED for unselected
 *	runtime rows one of whose twins is selected (not when nested, nor when `api` is the driver alone);
 *	OFF otherwise. Rows that `filter` turns away by themselves are REJECTED in the place of ON; AROUND
 *	is set for rows inside of which there may be calls that are ON.
 */
void config_select(const struct config *config, uint8_t *state);

/** config_filter_rows - the rows whose calls a filter can mean, by function, family, and what they return
 * and move */
void config_filter_rows(const struct config_filter *filter, bool *ret_rows);

/** config_sample_rows - one of how many calls of each row is wanted: [table_nrows], 1 is all. What names a
 * function counts more than what names its family, and what comes later more than what came before. */
void config_sample_rows(const struct config *config, uint32_t *ret_sample);

#endif
