/* The command line. */
#ifndef CUDATAP_CLI_H
#define CUDATAP_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "../config/config.h"
#include "capture/capture.h"
#include "launch/launch.h"

#define CUDATAP_VERSION "0.1.0"

/* Exit codes of cudatap itself; see docs/ and the man page. */
enum {
	EXIT_USAGE = 2,         /* wrong options or configuration: nothing was attached */
	EXIT_OWN_FAILURE = 125, /* cudatap failed before the command ran */
	EXIT_CANNOT_RUN = 126,
	EXIT_NOT_FOUND = 127,
	EXIT_LOSS = 3, /* --fail-on-loss, in place of a 0 */
};

struct cli {
	const char *config_path; /* -c */
	const char *profile;     /* --profile */
	const char *diff;        /* --diff, of check: another profile */
	const char *families;    /* -f */
	pid_t *pids;             /* -p */
	size_t npids;
	const char **sinks; /* -o */
	size_t nsinks;
	const char *user; /* -u */
	bool mix;         /* --mix */
	bool nested;      /* --nested */
	bool quiet;       /* -q */
	bool json;        /* --json, of list and doctor */
	bool fail_on_loss;
	bool no_hold;
	enum capture_method method;         /* --probes */
	char **command;                     /* after `--`, NULL-terminated; NULL: none */
	const char *verb;                   /* check, list, doctor ...; NULL: trace */
	const struct launch_origin *origin; /* what a command is given back; set by main */
	char **verb_args;                   /* NULL-terminated */
};

/**
 * cli_parse - read the command line
 * Returns -1 to go on, else the exit code (help and version printed: 0; after one message: 2).
 * cli_free() afterwards.
 */
int cli_parse(int argc, char **argv, struct cli *ret_cli);
void cli_free(struct cli *cli);

/** cli_overrides - what the command line adds to the configuration; points into @cli */
struct config_overrides cli_overrides(const struct cli *cli);

/** cli_load - the configuration that this command line asks for, as config_load_watched(); any number of
 * times */
int cli_load(const struct cli *cli, FILE *errors, struct config_strings *ret_paths,
	     struct config **ret_config);

#endif
