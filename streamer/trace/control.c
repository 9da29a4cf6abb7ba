/*
 * The control thread's loop: one epoll over signals, held processes, the
 * command's end, traced processes' ends, duplicate probes, and the end of the
 * last reader of our output.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "../log.h"
#include "../signals.h"
#include "internal.h"

#define ORPHANS_NS  100000000   /* between two looks whether children are left */
#define SIGNALS     8           /* kinds of them, and one more */
#define LOOK_MIN_NS 25000000ull /* between two looks at all threads of the host */

struct duplicate {
	unsigned second, first;
};

typedef void (*source_fn)(struct trace *trace, uint32_t index);

static void on_signal(struct trace *trace, uint32_t index);
static void on_held(struct trace *trace, uint32_t index);
static void on_command_exec(struct trace *trace, uint32_t index);
static void on_command_end(struct trace *trace, uint32_t index);
static void on_process_end(struct trace *trace, uint32_t index);
static void on_duplicates(struct trace *trace, uint32_t index);
static void on_all_gone(struct trace *trace, uint32_t index);
static void on_mappings(struct trace *trace, uint32_t index);
static void on_changes(struct trace *trace, uint32_t index);
static void on_answered(struct trace *trace, uint32_t index);
static void on_look(struct trace *trace, uint32_t index);
static void on_files(struct trace *trace, uint32_t index);
static void on_settled(struct trace *trace, uint32_t index);
static void on_retire(struct trace *trace, uint32_t index);
static void on_left(struct trace *trace, uint32_t index);
static void on_release(struct trace *trace, uint32_t index);
static void on_orphans(struct trace *trace, uint32_t index);

enum source {
	SIGNAL,
	HELD,
	COMMAND_EXEC,
	COMMAND_END,
	PROCESS_END,
	DUPLICATES,
	ALL_GONE,
	MAPPINGS,
	CHANGES,
	ANSWERED,
	LOOK,
	FILES,
	SETTLED,
	RETIRE,
	LEFT,
	RELEASE,
	ORPHANS
};

static const source_fn sources[] = {
	[SIGNAL] = on_signal,
	[HELD] = on_held,
	[COMMAND_EXEC] = on_command_exec,
	[COMMAND_END] = on_command_end,
	[PROCESS_END] = on_process_end,
	[DUPLICATES] = on_duplicates,
	[ALL_GONE] = on_all_gone,
	[MAPPINGS] = on_mappings,
	[CHANGES] = on_changes,
	[ANSWERED] = on_answered,
	[LOOK] = on_look,
	[FILES] = on_files,
	[SETTLED] = on_settled,
	[RETIRE] = on_retire,
	[LEFT] = on_left,
	[RELEASE] = on_release,
	[ORPHANS] = on_orphans,
};

static int watch(struct trace *trace, int fd, enum source source, uint32_t index)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)source << 32 | index};

	if (fd < 0)
		return 0;
	return epoll_ctl(trace->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static void unwatch(struct trace *trace, int fd)
{
	epoll_ctl(trace->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void stop(struct trace *trace, const char *reason)
{
	if (!trace->stop_reason)
		trace->stop_reason = reason;
}

uint64_t control_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* ---- sources ---- */

/*
 * With a command the first INT or TERM is the command's affair: a terminal
 * has sent it to the whole foreground group already, others reached only us
 * and are passed on. Tracing goes on until the command ends, so that what it
 * does on its way out is seen. A second signal does not wait for it.
 */
static void on_stop_signal(struct trace *trace, const struct signalfd_siginfo *info)
{
	bool from_terminal = info->ssi_code == SI_KERNEL;

	if (trace->draining) {
		trace->signals++;
		return;
	}
	if (trace->signals++ == 0 && trace->launch) {
		if (!from_terminal)
			kill(launch_pid(trace->launch), info->ssi_signo);
		return;
	}
	if (trace->launch)
		log_msg("the command (process %d) is left running", launch_pid(trace->launch));
	trace->exit_code = trace->launch ? 128 + (int)info->ssi_signo : 0;
	stop(trace, "signal");
}

/* QUIT is often a question (a JVM dumps its threads) and may come many times: always the command's. */
static void on_quit(struct trace *trace, const struct signalfd_siginfo *info)
{
	if (!trace->launch)
		on_stop_signal(trace, info);
	else if (info->ssi_code != SI_KERNEL)
		kill(launch_pid(trace->launch), SIGQUIT);
}

static void obey(struct trace *trace, const struct signalfd_siginfo *info)
{
	switch (info->ssi_signo) {
	case SIGINT:
	case SIGTERM:
		on_stop_signal(trace, info);
		break;
	case SIGQUIT:
		on_quit(trace, info);
		break;
	case SIGHUP:
		fanout_reopen(stream_fanout(trace->stream));
		reload_run(trace, "signal");
		break;
	case SIGUSR1:
		fanout_rotate(stream_fanout(trace->stream));
		break;
	case SIGUSR2:
		report_status(trace);
		break;
	}
}

/*
 * What is pending now and no more: signals may come faster than they are obeyed, and held processes wait for
 * their turn. All of it at once, because a HUP is always read before a TERM.
 */
static void on_signal(struct trace *trace, uint32_t index)
{
	struct signalfd_siginfo info[SIGNALS];
	ssize_t n = read(trace->signal_fd, info, sizeof(info));

	for (ssize_t i = 0; i < n / (ssize_t)sizeof(info[0]); i++)
		obey(trace, &info[i]);
}

static void show_held_file(void *ctx, pid_t pid, int fd, const char *path)
{
	targets_show(ctx, pid, fd, path);
}

/* What went on without having been looked at: each kind is told of once. */
static void say_unseen(struct trace *trace)
{
	struct launch_counts counts = {0}, *before = &trace->unseen;
	const struct {
		uint64_t *now, *before;
		const char *text;
	} kinds[] = {
		{&counts.overdue, &before->overdue,
		 "a process was held for more than 10 s and goes on before its libraries are probed"},
		{&counts.stopped, &before->stopped,
		 "cudatap was stopped (SIGSTOP): what programs loaded meanwhile was not probed"},
		{&counts.unopened, &before->unopened,
		 "a file that a process mapped could not be looked into and is not probed"},
		{&counts.foreign, &before->foreign,
		 "a process outside of this pid namespace is not followed, its libraries are not probed"},
	};

	_Static_assert(LAUNCH_PATIENCE_MS == 10000, "the text says so");
	if (!trace->launch)
		return;
	launch_counts(trace->launch, &counts);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (*kinds[i].now && !*kinds[i].before)
			log_msg("%s: calls may be missed", kinds[i].text);
		trace->incomplete |= *kinds[i].now > 0;
	}
	*before = counts;
}

static void on_held(struct trace *trace, uint32_t index)
{
	int err = launch_handle(trace->launch, show_held_file, trace);

	say_unseen(trace);
	if (err < 0 && err != -EAGAIN)
		unwatch(trace, launch_notify_fd(trace->launch));
}

static void on_command_exec(struct trace *trace, uint32_t index)
{
	int err = 0, code = launch_exec_status(trace->launch, &err);

	unwatch(trace, launch_exec_fd(trace->launch));
	if (!code)
		return;
	log_msg("%s: %s", trace->cli->command[0], strerror(err));
	trace->exit_code = code;
	stop(trace, "command_failed");
}

static void on_command_end(struct trace *trace, uint32_t index)
{
	int code = launch_reap(trace->launch);

	if (code == -EAGAIN)
		return;
	unwatch(trace, launch_wait_fd(trace->launch));
	if (trace->stop_reason)
		return;
	/* a failed exec ends the child as well: its own status says so */
	on_command_exec(trace, 0);
	if (!trace->stop_reason)
		trace->exit_code = code < 0 ? EXIT_OWN_FAILURE : code;
	stop(trace, "command_ended");
}

/* What the given processes leave behind is traced to its end; only the BPF program knows it. */
static int watch_orphans(struct trace *trace)
{
	const struct itimerspec every = {{0, ORPHANS_NS}, {0, ORPHANS_NS}};

	trace->orphans_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (trace->orphans_fd < 0 || timerfd_settime(trace->orphans_fd, 0, &every, NULL))
		return -errno;
	return watch(trace, trace->orphans_fd, ORPHANS, 0);
}

static void on_orphans(struct trace *trace, uint32_t index)
{
	uint64_t times;

	if (read(trace->orphans_fd, &times, sizeof(times)) == sizeof(times) &&
	    !capture_selected_pids(trace->capture))
		stop(trace, "processes_ended");
}

static void on_process_end(struct trace *trace, uint32_t index)
{
	unwatch(trace, trace->pid_fds[index]);
	close(trace->pid_fds[index]);
	trace->pid_fds[index] = -1;
	if (--trace->npids_alive)
		return;
	if (!trace->config->processes.children || watch_orphans(trace))
		stop(trace, "processes_ended");
}

/* Runs in the reader thread. */
void control_on_duplicate(void *ctx, unsigned second, unsigned first)
{
	struct trace *trace = ctx;
	struct duplicate duplicate = {second, first};

	/* a full pipe has enough of them in it; the next one tells again */
	if (write(trace->duplicate_fds[1], &duplicate, sizeof(duplicate)) < 0)
		return;
}

static void on_duplicates(struct trace *trace, uint32_t index)
{
	struct duplicate duplicate;

	while (read(trace->duplicate_fds[0], &duplicate, sizeof(duplicate)) == sizeof(duplicate))
		targets_double(trace, duplicate.second, duplicate.first);
}

/* Nobody reads our output any more, or a sink is to end us: the probes go, a command runs on. */
static void on_all_gone(struct trace *trace, uint32_t index)
{
	if (!fanout_wants_exit(stream_fanout(trace->stream))) {
		stop(trace, "output_closed");
		return;
	}
	trace->exit_code = trace->launch ? EXIT_OWN_FAILURE : 1;
	stop(trace, "sink_failed");
}

static void on_mappings(struct trace *trace, uint32_t index)
{
	targets_new_mappings(trace);
}

static void on_changes(struct trace *trace, uint32_t index)
{
	targets_changes(trace);
}

static void on_answered(struct trace *trace, uint32_t index)
{
	targets_answered(trace);
}

static void on_look(struct trace *trace, uint32_t index)
{
	uint64_t times, open;

	if (read(trace->look_fd, &times, sizeof(times)) == sizeof(times))
		capture_look(trace->capture, &open);
}

static void on_files(struct trace *trace, uint32_t index)
{
	reload_files(trace);
}

static void on_settled(struct trace *trace, uint32_t index)
{
	reload_settled(trace);
}

static void on_retire(struct trace *trace, uint32_t index)
{
	reload_retire(trace);
}

static void on_left(struct trace *trace, uint32_t index)
{
	fanout_reap(stream_fanout(trace->stream));
}

static void on_release(struct trace *trace, uint32_t index)
{
	release_look(trace);
}

/* ---- life ---- */

static int open_signals(struct trace *trace)
{
	sigset_t set;

	signals_take(&set);
	trace->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return trace->signal_fd < 0 ? -errno : watch(trace, trace->signal_fd, SIGNAL, 0);
}

static int open_pids(struct trace *trace)
{
	size_t i, n = trace->launch ? 0 : trace->config->pids.n;
	int err;

	if (!n)
		return 0;
	trace->pid_fds = malloc(n * sizeof(*trace->pid_fds));
	if (!trace->pid_fds)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		trace->pid_fds[i] = syscall(SYS_pidfd_open, trace->config->pids.list[i], 0);
		if (trace->pid_fds[i] < 0)
			continue; /* it has ended since it was looked at */
		err = watch(trace, trace->pid_fds[i], PROCESS_END, i);
		if (err)
			return err;
		trace->npids_alive++;
	}
	if (!trace->npids_alive)
		stop(trace, "processes_ended");
	return 0;
}

static int open_launch(struct trace *trace)
{
	int err;

	if (!trace->launch)
		return 0;
	err = watch(trace, launch_notify_fd(trace->launch), HELD, 0);
	if (!err)
		err = watch(trace, launch_exec_fd(trace->launch), COMMAND_EXEC, 0);
	if (!err)
		err = watch(trace, launch_wait_fd(trace->launch), COMMAND_END, 0);
	return err;
}

/* Calls that hang are told of between open_after and a quarter more. */
int control_set_look(struct trace *trace)
{
	uint64_t after_ns = trace->config->open_after_ns;
	uint64_t ns = after_ns / 4 > LOOK_MIN_NS ? after_ns / 4 : LOOK_MIN_NS;
	struct itimerspec every = {.it_interval = {ns / 1000000000, ns % 1000000000}};

	if (!after_ns)
		every.it_interval = (struct timespec){0}; /* never */
	every.it_value = every.it_interval;
	return timerfd_settime(trace->look_fd, 0, &every, NULL) ? -errno : 0;
}

static int open_look(struct trace *trace)
{
	int err;

	trace->look_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (trace->look_fd < 0)
		return -errno;
	err = control_set_look(trace);
	return err ? err : watch(trace, trace->look_fd, LOOK, 0);
}

static int open_reload(struct trace *trace)
{
	int err = reload_open(trace);

	if (!err && trace->files)
		err = watch(trace, file_watch_fd(trace->files), FILES, 0);
	if (!err)
		err = watch(trace, trace->settle_fd, SETTLED, 0);
	if (!err)
		err = watch(trace, trace->retire_fd, RETIRE, 0);
	return err ? err : watch(trace, fanout_left_fd(stream_fanout(trace->stream)), LEFT, 0);
}

int control_open(struct trace *trace)
{
	int err;

	trace->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (trace->epoll_fd < 0 || pipe2(trace->duplicate_fds, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	trace->patience = patience_new();
	if (!trace->patience)
		return -ENOMEM;
	trace->changes_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK); /* without it probes go a little later */
	err = open_signals(trace);
	if (!err)
		err = watch(trace, trace->duplicate_fds[0], DUPLICATES, 0);
	if (!err)
		err = watch(trace, trace->changes_fd, CHANGES, 0);
	if (!err)
		err = watch(trace, patience_fd(trace->patience), ANSWERED, 0);
	if (!err)
		err = watch(trace, fanout_gone_fd(stream_fanout(trace->stream)), ALL_GONE, 0);
	if (!err)
		err = open_pids(trace);
	if (!err)
		err = open_launch(trace);
	if (!err)
		err = open_look(trace);
	if (!err)
		err = open_reload(trace);
	if (!err)
		err = release_open(trace);
	if (!err)
		err = watch(trace, trace->release_fd, RELEASE, 0);
	return err;
}

void control_loop(struct trace *trace)
{
	struct epoll_event events[16];
	int i, n;

	if (trace->watch)
		watch(trace, find_watch_fd(trace->watch), MAPPINGS, 0);

	while (!trace->stop_reason) {
		n = epoll_wait(trace->epoll_fd, events, 16, -1);
		for (i = 0; i < n; i++)
			sources[events[i].data.u64 >> 32](trace, (uint32_t)events[i].data.u64);
	}
}

/* The last event is made when half of the time is over at the latest. */
static bool drain_is_over(const struct trace *trace, bool finished, uint64_t now)
{
	uint64_t time = trace->hurry || trace->signals > 1 ? DRAIN_HURRY_NS : DRAIN_NS;
	uint64_t from = trace->hurry || trace->signals ? trace->drain_ns : trace->moved_ns;

	return now >= from + (finished ? time : time / 2);
}

static void begin_draining(struct trace *trace)
{
	say_unseen(trace);
	if (!trace->draining)
		trace->drain_ns = trace->moved_ns = control_now_ns();
	trace->draining = true; /* signals are counted, a command has nothing to do with them any more */
}

/* Until @fd is readable or so much time has gone by; meanwhile signals count, and sinks get on. Returns
 * whether it is. */
static bool wait_draining(struct trace *trace, int fd, int timeout_ms)
{
	struct pollfd fds[2] = {{.fd = trace->signal_fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
	int signals = trace->signals;
	uint64_t done, now;

	poll(fds, 2, timeout_ms);
	if (fds[1].revents)
		return true;
	on_signal(trace, 0);
	fanout_reap(stream_fanout(trace->stream));
	now = control_now_ns();
	if (trace->signals != signals)
		trace->drain_ns = now; /* its time counts from here */
	stream_progress(trace->stream, &done);
	if (done != trace->drained)
		trace->moved_ns = now;
	trace->drained = done;
	return false;
}

void control_read_out(struct trace *trace)
{
	begin_draining(trace);
	stream_end(trace->stream);
	while (!wait_draining(trace, stream_drained_fd(trace->stream), 100))
		if (drain_is_over(trace, false, control_now_ns()))
			fanout_set_patience(stream_fanout(trace->stream), FANOUT_LOSES);
	stream_drain(trace->stream);
}

void control_drain(struct trace *trace, bool finished)
{
	uint64_t done;

	begin_draining(trace);
	while (!drain_is_over(trace, finished, control_now_ns())) {
		if (!finished && !stream_progress(trace->stream, &done))
			return;
		/* before the last event the sinks have not been asked to end: look again soon */
		if (wait_draining(trace, finished ? stream_finished_fd(trace->stream) : -1,
				  finished ? 100 : 2))
			return;
	}
}

void control_close(struct trace *trace)
{
	size_t i;

	for (i = 0; trace->pid_fds && i < trace->config->pids.n; i++)
		if (trace->pid_fds[i] >= 0)
			close(trace->pid_fds[i]);
	free(trace->pid_fds);
	reload_close(trace);
	close(trace->look_fd);
	close(trace->release_fd);
	close(trace->orphans_fd);
	close(trace->signal_fd);
	close(trace->changes_fd);
	close(trace->duplicate_fds[0]);
	close(trace->duplicate_fds[1]);
	close(trace->epoll_fd);
}
