/*
 * Another configuration while tracing goes on. Everything that can fail comes
 * first and leaves no trace: reading the files, opening new sinks, making
 * encoders. Then functions that are wanted from now on get their probes, and
 * the reader thread changes from the old configuration to the new one between
 * two events. Last go the sinks and the probes that nobody wants any more, each
 * when it has done its work.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "../log.h"
#include "../route/rules.h"
#include "internal.h"

#define SETTLE_NS     100000000ull  /* files have not changed for so long: they are whole */
#define SETTLE_MAX_NS 2000000000ull /* or change all the time */
#define READ_MOST     3             /* times at once, while others and others are to be watched */
#define RETIRE_NS     50000000ull   /* before probes go: few calls take longer; doubling ... */
#define RETIRE_MAX_NS 1000000000ull /* ... up to this */

static void arm(int fd, uint64_t ns)
{
	const struct itimerspec once = {.it_value = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)}};

	timerfd_settime(fd, 0, &once, NULL);
}

static bool expired(int fd)
{
	uint64_t times;

	return read(fd, &times, sizeof(times)) == sizeof(times);
}

/* ---- files that change ---- */

bool reload_can(const struct trace *trace)
{
	return trace->cli->config_path && strcmp(trace->cli->config_path, "-") != 0;
}

/* Something may have changed: read the files when it has been quiet for a while. */
static void settle(struct trace *trace)
{
	uint64_t now = control_now_ns();

	if (!trace->unsettled_ns)
		trace->unsettled_ns = now;
	if (now - trace->unsettled_ns < SETTLE_MAX_NS)
		arm(trace->settle_fd, SETTLE_NS);
}

/* Returns whether others are watched now than before. */
static bool watch_files(struct trace *trace, const struct config_strings *paths)
{
	static const struct config_strings none;
	bool wanted = trace->config->reload == CONFIG_ON_CHANGE;

	return trace->files && file_watch_set(trace->files, wanted ? paths : &none) && wanted;
}

void reload_watch(struct trace *trace, const struct config_strings *paths)
{
	/* between reading and watching they may have changed */
	if (watch_files(trace, paths))
		settle(trace);
}

void reload_files(struct trace *trace)
{
	if (file_watch_read(trace->files))
		settle(trace);
}

void reload_settled(struct trace *trace)
{
	if (!expired(trace->settle_fd))
		return;
	trace->unsettled_ns = 0;
	reload_run(trace, "files");
}

/* ---- probes that nobody wants any more ---- */

static void retire_later(struct trace *trace, uint64_t ns)
{
	trace->retire_ns = ns;
	arm(trace->retire_fd, ns);
}

void reload_retire(struct trace *trace)
{
	uint64_t twice = 2 * trace->retire_ns;

	if (expired(trace->retire_fd) && capture_retire(trace->capture))
		retire_later(trace, twice < RETIRE_MAX_NS ? twice : RETIRE_MAX_NS);
}

/* ---- a reload ---- */

static void refuse(struct reload *reload, const char *messages)
{
	struct trace *trace = reload->trace;

	log_msg("the configuration stays as it was");
	stream_post(trace->stream, EVENT_RELOAD, report_refused(reload, messages));
}

/*
 * Can the file be read again? What came out of a pipe is gone, and who waits for more waits for ever. At the
 * start an empty file means the defaults; one that became empty is half of a change, or a full disk's doing.
 */
static bool is_readable(struct reload *reload)
{
	const char *path = reload->trace->cli->config_path, *why = NULL;
	char message[512];
	struct stat st;

	if (stat(path, &st) || S_ISDIR(st.st_mode))
		return true; /* reading it says what is wrong */
	if (!S_ISREG(st.st_mode))
		why = "not a regular file, which alone can be read again";
	else if (!st.st_size)
		why = "the file has become empty";
	if (!why)
		return true;
	snprintf(message, sizeof(message), "%s: %s", path, why);
	log_msg("%s", message);
	refuse(reload, message);
	return false;
}

/* What reading the files once has brought. */
static int read_once(struct reload *reload, char **ret_messages)
{
	struct trace *trace = reload->trace;
	size_t len = 0;
	FILE *out;
	int err;

	free(*ret_messages);
	*ret_messages = NULL;
	config_strings_free(&reload->paths);
	config_free(reload->config);
	reload->config = NULL;
	out = open_memstream(ret_messages, &len);
	err = out ? cli_load(trace->cli, out, &reload->paths, &reload->config) : -ENOMEM;
	if (out && fclose(out))
		err = err ? err : -ENOMEM;
	return err;
}

/*
 * Mistakes go to stderr as they do at the start, once: files that come to be watched may have
 * changed just before, so they are read again, and only then is anything said.
 */
static int load(struct reload *reload)
{
	struct trace *trace = reload->trace;
	char *messages = NULL;
	int err = read_once(reload, &messages);

	for (int i = 1; i < READ_MOST && watch_files(trace, &reload->paths); i++)
		err = read_once(reload, &messages);
	if (messages && write(STDERR_FILENO, messages, strlen(messages)) < 0)
		errno = 0; /* what stderr does not take is nobody's problem */
	if (err)
		refuse(reload, messages ? messages : strerror(ENOMEM));
	free(messages);
	return err;
}

static void say_kept(const struct reload *reload)
{
	for (size_t i = 0; i < reload->changes.n; i++)
		if (reload->changes.list[i].at_start)
			log_msg("%s: takes effect at the next start", reload->changes.list[i].path);
}

static int prepare(struct reload *reload, struct stream_change **ret_change)
{
	struct trace *trace = reload->trace;
	char error[512];
	int err;

	reload->row_state = calloc(table_nrows, 1);
	snprintf(error, sizeof(error), "out of memory");
	err = reload->row_state ? config_advance(trace->config, reload->config, &reload->changes) : -ENOMEM;
	if (!err && !reload->changes.n)
		return 0;
	if (!err)
		err = stream_prepare(trace->stream, reload->config, reload->changes.same_sink, ret_change,
				     error, sizeof(error));
	if (err) {
		log_msg("%s", error);
		refuse(reload, error);
	}
	return err;
}

/* In the reader thread, between two events. */
static json_t *at_border(void *ctx)
{
	struct reload *reload = ctx;
	const struct config *config = reload->config;
	const struct capture_switch to = {
		.row_state = reload->row_state,
		.nested = config->nested,
		.open_after_ns = config->open_after_ns,
		.flush_ns = config->ring.flush_ns,
	};

	reload->rules_err = rules_send(reload->trace->capture, config);
	capture_switch(reload->trace->capture, &to);
	return report_reload(reload);
}

/* From here on nothing fails. */
static void apply(struct reload *reload, struct stream_change *change)
{
	struct trace *trace = reload->trace;

	trace_select(trace, reload->config, reload->row_state);
	reload->difference = targets_compare(trace, trace->row_state, reload->row_state);
	targets_extend(trace, reload->row_state);
	stream_switch(change, EVENT_RELOAD, at_border, reload, control_now_ns() + DRAIN_NS);
	if (reload->rules_err)
		log_msg("`processes`, `filter` and `sample` are as they were: %s",
			strerror(-reload->rules_err));
	/* with this goes all that uses the old one, but sinks, which have references */
	stream_change_free(change);
	config_free(trace->config);
	trace->config = config_ref(reload->config);
	memcpy(trace->row_state, reload->row_state, table_nrows);
	targets_settle(trace);
	control_set_look(trace);
	retire_later(trace, RETIRE_NS);
	if (!trace->cli->quiet)
		log_msg("the configuration has changed: %zu key%s; %u functions attached, %u detached",
			reload->changes.n, reload->changes.n == 1 ? "" : "s", reload->difference.attached,
			reload->difference.detached);
}

/* Reads the configuration again, and changes to it. */
static void change_over(struct trace *trace, const char *reason)
{
	struct reload reload = {.trace = trace, .reason = reason, .start_ns = control_now_ns()};
	struct stream_change *change = NULL;

	if (!is_readable(&reload))
		return;
	if (!load(&reload) && !prepare(&reload, &change)) {
		say_kept(&reload);
		if (change)
			apply(&reload, change);
		else if (!trace->cli->quiet && !strcmp(reason, "signal"))
			log_msg("the configuration has not changed");
	}
	reload_watch(trace, &reload.paths);
	config_strings_free(&reload.paths);
	config_changes_free(&reload.changes);
	config_free(reload.config);
	free(reload.row_state);
}

void reload_run(struct trace *trace, const char *reason)
{
	if (trace->draining)
		return;
	if (reload_can(trace))
		change_over(trace, reason);
	targets_find_again(trace);
}

/* ---- life ---- */

int reload_open(struct trace *trace)
{
	trace->settle_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	trace->retire_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (trace->settle_fd < 0 || trace->retire_fd < 0)
		return -errno;
	if (!reload_can(trace))
		return 0;
	trace->files = file_watch_new();
	if (!trace->files)
		return -errno;
	return 0;
}

void reload_close(struct trace *trace)
{
	file_watch_free(trace->files);
	close(trace->settle_fd);
	close(trace->retire_fd);
}
