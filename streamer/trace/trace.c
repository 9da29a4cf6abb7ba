/*
 * A run from its first to its last step. What is opened is closed in reverse;
 * at the end the probes go first, then the ring is read to its end, then the
 * sinks get their time to deliver.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../log.h"
#include "../service.h"
#include "../signals.h"
#include "../enrich/devices.h"
#include "../find/descendants.h"
#include "../route/known.h"
#include "../route/rules.h"
#include "internal.h"

/* Our own failure: 125 where a command was to be run, as env(1) and others do; else 1. */
static int own_failure(const struct trace *trace)
{
	return trace->cli->command ? EXIT_OWN_FAILURE : 1;
}

/* The process that a thread belongs to, 0 where that is not to be read. */
static pid_t thread_leader(pid_t tid)
{
	char path[64], line[256];
	pid_t leader = 0;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	status = fopen(path, "re");
	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "Tgid: %d", &leader) == 1)
			break;
	if (status)
		fclose(status);
	return leader;
}

/* Processes are found in /proc by the numbers that they have there. */
static int check_proc(const struct trace *trace)
{
	int err = find_proc();

	if (!err || (err == -EXDEV && !trace->cli->command && !trace->config->pids.n))
		return 0;
	log_msg(err == -EXDEV
			? "/proc is of another pid namespace: mount this one's (`mount -t proc proc /proc`, "
			  "`unshare --mount-proc`)"
			: "/proc is not mounted: without it no process can be seen (`mount -t proc proc "
			  "/proc`)");
	return EXIT_OWN_FAILURE;
}

static int check_pids(const struct trace *trace)
{
	size_t i;

	if (trace->cli->command && trace->cli->npids) {
		log_msg("-p and a command: choose one; with a command it and its descendants are traced");
		return EXIT_USAGE;
	}
	if (trace->cli->command)
		return 0;
	for (i = 0; i < trace->config->pids.n; i++) {
		pid_t leader = thread_leader(trace->config->pids.list[i]);

		if (leader && leader != trace->config->pids.list[i]) {
			log_msg("%d is a thread of process %d: give -p %d", trace->config->pids.list[i],
				leader, leader);
			return 1;
		}
		if (!kill(trace->config->pids.list[i], 0) || errno == EPERM)
			continue;
		log_msg("process %d: does not exist", trace->config->pids.list[i]);
		return 1;
	}
	return 0;
}

static bool a_sink_is_stdout(const struct config *config)
{
	size_t i;

	for (i = 0; i < config->nsinks; i++)
		if (!strcmp(config->sinks[i].ops->type, "stdout"))
			return true;
	return false;
}

/* Whom a command runs as. Returns 0, or the exit code after one message. */
static int find_user(struct trace *trace)
{
	int err;

	if (!trace->cli->command)
		return 0;
	err = trace->cli->user ? launch_user_find(trace->cli->user, &trace->user)
			       : launch_user_sudo(&trace->user);
	if (!err)
		return 0;
	log_msg("-u %s: no such user", trace->cli->user ? trace->cli->user : "(sudo)");
	return EXIT_USAGE;
}

static void on_program(void *ctx, pid_t pid, bool starts)
{
	known_program(ctx, pid, starts);
}

static int start_command(struct trace *trace)
{
	struct launch_options options = {
		.argv = trace->cli->command,
		.user = &trace->user,
		.stdout_to_stderr = !trace->cli->mix && a_sink_is_stdout(trace->config),
		/* files that the configuration names are probed before the command starts */
		.hold = !trace->cli->no_hold && !trace->config->libraries.n,
		.origin = trace->cli->origin,
		.on_program = trace->config->fields.env.n ? on_program : NULL,
		.program_ctx = stream_known(trace->stream),
	};
	char error[512];
	sigset_t waiting;
	int err;

	if (!trace->cli->command)
		return 0;
	signals_take(&waiting); /* from here on it is the command's affair, see control.c */
	err = launch_start(&options, &trace->launch, error, sizeof(error));
	if (err) {
		log_msg("%s", error);
		return EXIT_OWN_FAILURE;
	}
	if (launch_held(trace->launch) && options.hold)
		log_msg("the command is not held while its libraries are probed (%s): first calls into a "
			"library may be missed",
			launch_held(trace->launch));
	trace->incomplete |= launch_held(trace->launch) && options.hold;
	if (launch_note(trace->launch) && !trace->cli->quiet)
		log_msg("%s", launch_note(trace->launch));
	return 0;
}

/* A held command waits for its probes, however long they take. */
static void on_progress(void *ctx)
{
	const struct trace *trace = ctx;

	launch_progress(trace->launch);
}

static int open_capture(struct trace *trace)
{
	struct capture_options options = {
		.method = trace->cli->method,
		.ring_size = trace->config->ring.size,
		.flush_ns = trace->config->ring.flush_ns,
		.nested = trace->config->nested,
		.select_pids = trace->cli->command || trace->config->pids.n,
		.follow_children = trace->cli->command || trace->config->processes.children,
		.processes = rules_processes(&trace->config->processes.patterns),
		.accepted = rules_processes(&trace->config->filter.patterns),
		.processes_change = reload_can(trace),
		.open_after_ns = trace->config->open_after_ns,
		.plans = trace->plans,
		.row_state = trace->row_state,
		.progress = on_progress,
		.progress_ctx = trace,
	};
	char error[512];

	if (!capture_new(&options, &trace->capture, error, sizeof(error)))
		return 0;
	log_msg("%s", error);
	return own_failure(trace);
}

static int open_stream(struct trace *trace)
{
	struct stream_options options = {
		.config = trace->config,
		.plans = trace->plans,
		.capture = trace->capture,
		.on_duplicate = control_on_duplicate,
		.ctx = trace,
	};
	char error[512];

	if (!stream_new(&options, &trace->stream, error, sizeof(error)))
		return 0;
	log_msg("%s", error);
	return own_failure(trace);
}

/* Those that there are; from now on the BPF program adds those that come. */
static int select_descendants(struct trace *trace)
{
	const struct config_pids *pids = &trace->config->pids;
	ssize_t before = -1, n = 0, i;
	pid_t *list;
	int err = 0;

	/* the children of those that were not selected yet when they forked are found by another look */
	while (!err && n != before) {
		before = n;
		n = find_descendants(pids->list, pids->n, &list);
		if (n < 0)
			return (int)n;
		for (i = 0; i < n && !err; i++) {
			err = capture_select_pid(trace->capture, list[i], true);
			/* gone before it was added, it would stay, and its number may come again */
			if (!err && kill(list[i], 0) && errno == ESRCH)
				capture_select_pid(trace->capture, list[i], false);
		}
		free(list);
	}
	return err;
}

static int select_processes(struct trace *trace)
{
	size_t i;
	int err = 0;

	if (trace->launch)
		err = capture_select_pid(trace->capture, launch_pid(trace->launch), true);
	else
		for (i = 0; i < trace->config->pids.n && !err; i++)
			err = capture_select_pid(trace->capture, trace->config->pids.list[i], true);
	if (!err && !trace->launch && trace->config->pids.n && trace->config->processes.children)
		err = select_descendants(trace);
	if (err)
		log_msg("cannot select the process: %s", strerror(-err));
	return err ? own_failure(trace) : 0;
}

static int start_events(struct trace *trace)
{
	int err = stream_start(trace->stream);

	if (!err)
		err = control_open(trace);
	if (err) {
		log_msg("cannot start: %s%s", strerror(-err),
			err == -EMFILE ? "; raise the limit of open files (`ulimit -n`)" : "");
		return own_failure(trace);
	}
	stream_post(trace->stream, EVENT_START, report_start(trace));
	trace->started = true;
	return 0;
}

static int find_targets(struct trace *trace)
{
	int code = targets_find(trace);

	if (code)
		return code == EXIT_USAGE || !trace->cli->command ? code : own_failure(trace);
	if (!trace->nattached && trace->refused) /* each has been said */
		return own_failure(trace);
	if (!trace->nattached && !trace->watch && !trace->cli->command) {
		log_msg("no CUDA library found%s: name one with `libraries:`, or start the program as "
			"`cudatap -- "
			"COMMAND`; `cudatap list libraries` shows what is found",
			trace->config->pids.n ? " for the process" : "");
		return own_failure(trace);
	}
	if (!trace->nattached && !trace->cli->command && !trace->cli->quiet)
		log_msg("no CUDA library found yet%s: waiting for one to be loaded (`cudatap list "
			"libraries`)",
			trace->config->pids.n ? " in the process" : "");
	return 0;
}

void trace_select(const struct trace *trace, const struct config *config, uint8_t *state)
{
	config_select(config, state);
	if (config->names != KERNELS_OFF)
		kernels_select(state);
	devices_select(state, trace->plans);
}

static int begin(struct trace *trace)
{
	int code = check_pids(trace);

	if (!code)
		code = check_proc(trace);
	if (!code)
		code = find_user(trace);
	trace->plans = plan_all(plan_host_abi());
	trace->row_state = calloc(table_nrows, 1);
	if (!trace->plans || !trace->row_state)
		return own_failure(trace);
	trace_select(trace, trace->config, trace->row_state);
	if (!code)
		code = open_capture(trace);
	if (!code && rules_send(trace->capture, trace->config))
		code = own_failure(trace);
	if (!code)
		code = open_stream(trace);
	if (!code)
		code = start_command(trace);
	if (!code)
		code = select_processes(trace);
	if (!code)
		code = start_events(trace);
	/* without a command to hold, whoever calls after an attach event is recorded: others are still looked
	 * for */
	if (!code && !trace->launch)
		capture_record(trace->capture, true);
	if (!code)
		code = find_targets(trace);
	if (code)
		return code;
	if (trace->launch && !launch_held(trace->launch) && !trace->config->libraries.n)
		known_followed(
			stream_known(trace->stream)); /* files have their probes before they are mapped */
	capture_record(trace->capture, true);
	stream_post(trace->stream, EVENT_READY, report_ready(trace));
	if (trace->launch)
		launch_go(trace->launch);
	else
		service_notify("READY=1");
	return 0;
}

/* The probes go, what they brought is delivered, and everything is accounted for. */
static void end(struct trace *trace)
{
	struct capture_counters counters;
	uint64_t lost;

	if (!trace->launch)
		service_notify("STOPPING=1");
	capture_record(trace->capture, false);
	launch_end_hold(trace->launch);
	capture_detach_all(trace->capture);
	if (capture_method(trace->capture) == CAPTURE_CLASSIC)
		usleep(20000); /* the probes are still being closed: let programs under way end */
	control_read_out(trace);
	trace->open_calls = report_count(trace, &counters);
	trace->ended = true;
	control_drain(trace, false);
	stream_finish(trace->stream, EVENT_STOP, report_stop(trace, &counters));
	control_drain(trace, true);
	stream_close(trace->stream, control_now_ns());
	lost = report_summary(trace, &counters);
	if (trace->cli->fail_on_loss && (lost || trace->incomplete) && !trace->exit_code)
		trace->exit_code = EXIT_LOSS;
}

int trace_run(struct config *config, const struct config_strings *paths, const struct cli *cli)
{
	struct trace trace = {.config = config,
			      .cli = cli,
			      .start_ns = control_now_ns(),
			      .look_fd = -1,
			      .settle_fd = -1,
			      .retire_fd = -1,
			      .release_fd = -1,
			      .orphans_fd = -1,
			      .epoll_fd = -1,
			      .signal_fd = -1,
			      .changes_fd = -1,
			      .duplicate_fds = {-1, -1}};
	int code = begin(&trace);

	if (!code) {
		reload_watch(&trace, paths);
		control_loop(&trace);
	} else if (trace.started) {
		launch_free(trace.launch);
		trace.launch = NULL;
		trace.stop_reason = "failed";
		trace.exit_code = code;
		trace.hurry = true;
	}
	if (trace.started) {
		end(&trace);
		code = trace.exit_code;
	}
	launch_free(trace.launch);
	stream_free(trace.stream);
	capture_free(trace.capture);
	control_close(&trace);
	targets_free(&trace);
	free(trace.row_state);
	free(trace.plans);
	config_free(trace.config);
	return code;
}
