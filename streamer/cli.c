/*
 * The command line: options in one table, which also prints the help.
 * Options end at the first word that is none; a command to trace stands
 * after `--`, so that it is never mistaken for a verb of ours.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "log.h"

enum {
	OPT_MIX = 256,
	OPT_NESTED,
	OPT_JSON,
	OPT_FAIL_ON_LOSS,
	OPT_NO_HOLD,
	OPT_PROBES,
	OPT_PROFILE,
	OPT_DIFF
};

static const struct cli_option {
	const char *name;
	int key;           /* a letter, or one of OPT_ */
	const char *value; /* NULL: a flag */
	const char *about;
	const char *only; /* verbs that take it, or "COMMAND"; NULL: all */
} cli_options[] = {
	{"config", 'c', "FILE", "configuration (YAML); without it: the default families to stdout"},
	{"profile", OPT_PROFILE, "NAME",
	 "the configuration's profile; else CUDATAP_PROFILE or the file chooses"},
	{"families", 'f', "FAMILY,...", "families to trace, or `default`, `all` (`cudatap list families`)"},
	{"pid", 'p', "PID", "trace this process only; may be repeated"},
	{"output", 'o', "SINK",
	 "where to: `-` for stdout, a path, or a URL as of syslog: and kafka://HOST/TOPIC; may be repeated"},
	{"user", 'u', "USER", "run the command as this user, by name or id", "COMMAND"},
	{"nested", OPT_NESTED, NULL,
	 "also the calls that CUDA makes inside a call, with `depth` and `parent`"},
	{"mix", OPT_MIX, NULL, "leave the command's stdout where it is, even when events go there too",
	 "COMMAND"},
	{"fail-on-loss", OPT_FAIL_ON_LOSS, NULL,
	 "exit with 3 in place of 0 when an event was lost or something could not be probed"},
	{"probes", OPT_PROBES, "METHOD", "session, multi or classic; default: the best the kernel has"},
	{"no-hold", OPT_NO_HOLD, NULL, "do not hold the command while its libraries are probed", "COMMAND"},
	{"json", OPT_JSON, NULL, "`list` and `doctor` print JSON", "list, doctor"},
	{"diff", OPT_DIFF, "NAME", "`check` prints how the configuration differs under this profile",
	 "check"},
	{"quiet", 'q', NULL, "no summary on stderr at the end"},
	{"version", 'V', NULL, "print the version"},
	{"help", 'h', NULL, "print this help"},
};
#define NOPTIONS (sizeof(cli_options) / sizeof(cli_options[0]))

static const struct cli_verb {
	const char *name, *args, *about;
} cli_verbs[] = {
	{"check", "", "check the configuration (-c FILE) and print it as it takes effect"},
	{"list", "functions|families|libraries", "print what can be traced"},
	{"doctor", "", "print what this kernel, these rights and these libraries allow"},
	{"config", "reference|schema",
	 "print the reference of the configuration keys (Markdown), or their JSON Schema"},
};
#define NVERBS (sizeof(cli_verbs) / sizeof(cli_verbs[0]))

static void print_help(void)
{
	char left[64];
	size_t i;

	printf("cudatap - every CUDA call of this host as one JSON line\n\n"
	       "usage: cudatap [options] -- COMMAND [ARGUMENTS]   trace a command and its descendants\n"
	       "       cudatap [options] -p PID                   trace a running process\n"
	       "       cudatap [options]                          trace the whole host\n");
	for (i = 0; i < NVERBS; i++)
		printf("       cudatap [options] %s%s%s\n", cli_verbs[i].name, *cli_verbs[i].args ? " " : "",
		       cli_verbs[i].args);
	printf("\noptions:\n");
	for (i = 0; i < NOPTIONS; i++) {
		const struct cli_option *o = &cli_options[i];

		if (o->key < 256)
			snprintf(left, sizeof(left), "-%c, --%s%s%s", o->key, o->name, o->value ? "=" : "",
				 o->value ? o->value : "");
		else
			snprintf(left, sizeof(left), "    --%s%s%s", o->name, o->value ? "=" : "",
				 o->value ? o->value : "");
		printf("  %-26s %s\n", left, o->about);
	}
	printf("\nverbs:\n");
	for (i = 0; i < NVERBS; i++)
		printf("  %-26s %s\n", cli_verbs[i].name, cli_verbs[i].about);
	printf("\nexit codes: the command's own, 128 + signal when it was killed; 2 usage or configuration,\n"
	       "3 --fail-on-loss, 125 cudatap itself failed (1 without a command), 126 the command cannot be "
	       "run,\n"
	       "127 it was not found\n");
}

static int add_pid(struct cli *cli, const char *text)
{
	pid_t *pids = realloc(cli->pids, (cli->npids + 1) * sizeof(*pids));
	char *end;
	long pid;

	if (!pids)
		return EXIT_OWN_FAILURE;
	cli->pids = pids;
	errno = 0;
	pid = strtol(text, &end, 10);
	if (errno || *end || end == text || pid <= 0 || pid > 0x7fffffff) {
		log_msg("-p %s: not a process id: give a positive number", text);
		return EXIT_USAGE;
	}
	pids[cli->npids++] = pid;
	return -1;
}

static int add_sink(struct cli *cli, const char *text)
{
	const char **sinks = realloc(cli->sinks, (cli->nsinks + 1) * sizeof(*sinks));

	if (!sinks)
		return EXIT_OWN_FAILURE;
	cli->sinks = sinks;
	sinks[cli->nsinks++] = text;
	return -1;
}

static int choose_method(struct cli *cli, const char *text)
{
	int i;

	for (i = 0; i < CAPTURE_NMETHODS; i++) {
		if (!strcmp(text, capture_method_names[i])) {
			cli->method = i;
			return -1;
		}
	}
	log_msg("--probes=%s: unknown: choose session, multi or classic", text);
	return EXIT_USAGE;
}

/* Returns -1 to go on, else the exit code. */
static int take_option(struct cli *cli, int key, const char *value)
{
	switch (key) {
	case 'c':
		cli->config_path = value;
		return -1;
	case OPT_PROFILE:
		cli->profile = value;
		return -1;
	case OPT_DIFF:
		cli->diff = value;
		return -1;
	case 'f':
		cli->families = value;
		return -1;
	case 'p':
		return add_pid(cli, value);
	case 'o':
		return add_sink(cli, value);
	case 'u':
		cli->user = value;
		return -1;
	case 'q':
		cli->quiet = true;
		return -1;
	case OPT_MIX:
		cli->mix = true;
		return -1;
	case OPT_NESTED:
		cli->nested = true;
		return -1;
	case OPT_JSON:
		cli->json = true;
		return -1;
	case OPT_FAIL_ON_LOSS:
		cli->fail_on_loss = true;
		return -1;
	case OPT_NO_HOLD:
		cli->no_hold = true;
		return -1;
	case OPT_PROBES:
		return choose_method(cli, value);
	case 'V':
		printf("cudatap " CUDATAP_VERSION "\n");
		return 0;
	case 'h':
		print_help();
		return 0;
	default:
		return EXIT_USAGE; /* getopt has said what is wrong */
	}
}

/* The words after the options: a command behind `--`, or a verb. */
static int take_words(struct cli *cli, int argc, char **argv, bool behind_dashes,
		      const struct cli_verb **ret_verb)
{
	const char *names[NVERBS], *nearest;
	size_t i;

	if (behind_dashes) {
		if (!argv[0]) {
			log_msg("no command after `--`: write `cudatap -- COMMAND`");
			return EXIT_USAGE;
		}
		cli->command = argv;
		return -1;
	}
	if (!argc)
		return -1;
	for (i = 0; i < NVERBS; i++) {
		names[i] = cli_verbs[i].name;
		if (!strcmp(argv[0], names[i])) {
			*ret_verb = &cli_verbs[i];
			cli->verb = names[i];
			return -1;
		}
	}
	nearest = table_nearest(argv[0], names, NVERBS);
	if (nearest)
		log_msg("%s: unknown verb; did you mean `%s`? To trace a command, write `cudatap -- %s`",
			argv[0], nearest, argv[0]);
	else
		log_msg("%s: unknown verb; to trace a command, write `cudatap -- %s`", argv[0], argv[0]);
	return EXIT_USAGE;
}

static void make_getopt(struct option *longs, char *shorts)
{
	size_t i;

	*shorts++ = '+'; /* options end at the first word that is none */
	for (i = 0; i < NOPTIONS; i++) {
		const struct cli_option *o = &cli_options[i];

		longs[i] = (struct option){o->name, o->value ? required_argument : no_argument, NULL, o->key};
		if (o->key < 256) {
			*shorts++ = o->key;
			if (o->value)
				*shorts++ = ':';
		}
	}
	*shorts = 0;
}

/* The options up to the first word that is none, or all where @shorts does not begin with "+"; @given:
 * [NOPTIONS]. Returns -1 to go on, else the exit code. */
static int take_options(struct cli *cli, int argc, char **argv, const char *shorts,
			const struct option *longs, bool *given)
{
	int key, code = -1;
	size_t i;

	optind = 0; /* glibc: begin anew */
	while (code < 0 && (key = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		for (i = 0; i < NOPTIONS; i++)
			given[i] |= cli_options[i].key == key;
		code = take_option(cli, key, optarg);
	}
	return code;
}

/* What would be without effect is a mistake. */
static int check_options(const struct cli *cli, const bool *given)
{
	const char *mode = cli->verb ? cli->verb : cli->command ? "COMMAND" : "-";

	for (size_t i = 0; i < NOPTIONS; i++) {
		const struct cli_option *o = &cli_options[i];

		if (!given[i] || !o->only || strstr(o->only, mode))
			continue;
		if (strcmp(o->only, "COMMAND") != 0)
			log_msg("--%s: has no effect here, only with %s", o->name, o->only);
		else
			log_msg("--%s: has no effect without a command: `cudatap --%s%s -- COMMAND`", o->name,
				o->name, o->value ? "=..." : "");
		return EXIT_USAGE;
	}
	return -1;
}

/* Words that no verb takes may have been meant as something. */
static int check_words(const struct cli *cli, const struct cli_verb *verb)
{
	char **word = cli->verb_args;

	if (*word && *verb->args)
		word++;
	if (!*word)
		return -1;
	log_msg("%s: unexpected word `%s`; a configuration is named by `-c FILE`", verb->name, *word);
	return EXIT_USAGE;
}

int cli_parse(int argc, char **argv, struct cli *cli)
{
	struct option longs[NOPTIONS + 1] = {0};
	char shorts[2 * NOPTIONS + 2];
	bool given[NOPTIONS] = {false};
	const struct cli_verb *verb = NULL;
	int code, verb_optind;

	memset(cli, 0, sizeof(*cli));
	cli->method = CAPTURE_AUTO;
	make_getopt(longs, shorts);
	code = take_options(cli, argc, argv, shorts, longs, given);
	if (code < 0)
		code = take_words(cli, argc - optind, argv + optind,
				  optind > 1 && !strcmp(argv[optind - 1], "--"), &verb);
	if (code < 0 && verb) {
		/* options may also follow a verb: `cudatap check -c FILE` */
		verb_optind = optind;
		code = take_options(cli, argc - verb_optind, argv + verb_optind, shorts + 1, longs, given);
		cli->verb_args = argv + verb_optind + optind;
		if (code < 0)
			code = check_words(cli, verb);
	}
	return code < 0 ? check_options(cli, given) : code;
}

void cli_free(struct cli *cli)
{
	free(cli->pids);
	free(cli->sinks);
}

struct config_overrides cli_overrides(const struct cli *cli)
{
	return (struct config_overrides){
		.profile = cli->profile,
		.families = cli->families,
		.pids = cli->pids,
		.npids = cli->npids,
		.sinks = cli->sinks,
		.nsinks = cli->nsinks,
	};
}

int cli_load(const struct cli *cli, FILE *errors, struct config_strings *ret_paths,
	     struct config **ret_config)
{
	struct config_overrides overrides = cli_overrides(cli);
	int err = config_load_watched(cli->config_path, &overrides, errors, ret_paths, ret_config);

	if (!err && cli->nested)
		(*ret_config)->nested = true;
	return err;
}
