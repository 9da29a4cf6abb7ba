/* cudatap: reads the command line and does what it says. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "log.h"
#include "signals.h"
#include "trace/trace.h"
#include "verbs.h"

static const struct verb {
	const char *name;
	int (*run)(const struct cli *cli);
} verbs[] = {
	{"check", verb_check},
	{"list", verb_list},
	{"doctor", verb_doctor},
	{"config", verb_config},
};

static int trace(const struct cli *cli)
{
	struct config_strings paths;
	struct config *config;
	int code = EXIT_USAGE;

	signals_may_end(cli->command);
	if (!cli_load(cli, stderr, &paths, &config))
		code = trace_run(config, &paths, cli);
	config_strings_free(&paths);
	return code;
}

/* The others only look and say: no signal has to be prepared for. */
static int run(const struct cli *cli)
{
	size_t i;

	if (!cli->verb)
		return trace(cli);
	signals_release(&cli->origin->mask);
	for (i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(cli->verb, verbs[i].name))
			return verbs[i].run(cli);
	return EXIT_USAGE;
}

/* Whoever starts us with a standard descriptor closed would have the next file opened there. */
static void fill_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* stdout may be a full disk: say so rather than end with half a text and a 0. */
static int finish_stdout(int code)
{
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	log_msg("cannot write to stdout: %s", strerror(errno));
	return code ? code : 1;
}

int main(int argc, char **argv)
{
	struct launch_origin origin;
	struct cli cli;
	sigset_t mask;
	int code;

	signals_hold(&mask);
	launch_origin_take(&origin);
	origin.mask = mask;
	fill_standard_descriptors();
	/* a closed pipe is an error of write(2), told by the sink that met it */
	signal(SIGPIPE, SIG_IGN);
	code = cli_parse(argc, argv, &cli);
	cli.origin = &origin;
	if (code < 0)
		code = run(&cli);
	cli_free(&cli);
	return finish_stdout(code);
}
