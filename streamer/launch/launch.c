/*
 * Starting COMMAND: fork, handshake, exec status, reaping; see launch.h.
 *
 * One socket pair carries it all: the child says READY and sends the
 * listener, the parent says go, the child says why exec failed or, by exec
 * closing the socket, that it did not.
 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "environ.h"
#include "hold.h"

enum { REFUSED = 1 }; /* no filter to be had: the command can still run without */

struct launch {
	pid_t pid;
	int pidfd;
	int socket;
	bool gone; /* let go */
	struct hold *hold;
	char why_not[160]; /* it is not held; empty: it is */
	bool no_new_privs;
	struct launch_counts counts; /* once holding has ended */
	int exit_code;               /* -EAGAIN until it has ended */
	int exec_errno;              /* of a failed exec, once read */
};

/* ---- what it was like before ---- */

void launch_origin_take(struct launch_origin *origin)
{
	struct sigaction action;

	memset(origin, 0, sizeof(*origin));
	for (int fd = 0; fd < LAUNCH_MAX_FD; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			origin->descriptors[fd / 64] |= 1ull << fd % 64;
	sigprocmask(SIG_BLOCK, NULL, &origin->mask);
	sigemptyset(&origin->ignored);
	for (int sig = 1; sig <= SIGRTMAX; sig++)
		if (sigaction(sig, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
			sigaddset(&origin->ignored, sig);
	getrlimit(RLIMIT_NOFILE, &origin->nofile);
	getrlimit(RLIMIT_MEMLOCK, &origin->memlock);
}

/* ---- messages ---- */

static const struct {
	int error;
	const char *text;
} refusals[] = {
	{EBUSY, "another seccomp listener is in force already (a container runtime's, or a supervisor's)"},
	{EINVAL, "this kernel has no killable seccomp notifications (5.19 or newer needed)"},
	{ENOSYS, "this kernel has no seccomp filters"},
	{EACCES, "the kernel allows it neither by CAP_SYS_ADMIN nor by no_new_privs"},
	{EPERM, "a seccomp filter or security policy in force does not allow another one"},
};

static void say_refusal(struct launch *launch, int error)
{
	const char *text = strerror(error);

	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		if (refusals[i].error == error)
			text = refusals[i].text;
	snprintf(launch->why_not, sizeof(launch->why_not), "%s", text);
}

static void say_failure(const struct launch_options *options, const struct child_message *m, char *error,
			size_t size)
{
	const char *why = strerror(m->error);

	switch (m->step) {
	case CHILD_STDOUT:
		snprintf(error, size, "cannot put the command's stdout on stderr: %s", why);
		break;
	case CHILD_LIMITS:
		snprintf(error, size, "cannot give the command its resource limits back: %s", why);
		break;
	case CHILD_USER:
		snprintf(error, size, "cannot run the command as uid %u, gid %u: %s (root can)",
			 options->user->uid, options->user->gid, why);
		break;
	default:
		snprintf(error, size, "cannot prepare the command's process: %s", why);
	}
}

/* ---- starting ---- */

static int find_groups(const struct launch_user *user, struct child_plan *plan)
{
	int size = 64, n;

	if (!user || !user->set)
		return 0;
	for (;;) {
		gid_t *groups = reallocarray(plan->groups, size, sizeof(*groups));

		if (!groups)
			return -ENOMEM;
		plan->groups = groups;
		groups[0] = user->gid;
		n = 1;
		if (!user->name[0])
			break;
		n = size;
		if (getgrouplist(user->name, user->gid, groups, &n) >= 0)
			break;
		size = n > size ? n : 2 * size;
		if (size > NGROUPS_MAX)
			return -E2BIG;
	}
	plan->ngroups = n;
	return 0;
}

static void plan_free(struct child_plan *plan)
{
	environ_free(plan->environ);
	free(plan->groups);
}

static int plan_make(const struct launch_options *options, struct child_plan *plan)
{
	int result;

	*plan = (struct child_plan){.options = options};
	plan->environ = environ_make(options->user);
	result = plan->environ ? find_groups(options->user, plan) : -ENOMEM;
	if (result)
		plan_free(plan);
	return result;
}

static int fork_child(struct launch *launch, struct child_plan *plan)
{
	int pair[2], result = 0;
	sigset_t all, old;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	plan->socket = pair[1];
	/* our handlers must not run in the child */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	launch->pid = fork();
	if (launch->pid == 0) {
		close(pair[0]); /* or it would never see us go */
		child_run(plan);
	}
	if (launch->pid < 0)
		result = -errno;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	close(pair[1]);
	if (result)
		close(pair[0]);
	else
		launch->socket = pair[0];
	return result;
}

/* Undoes fork_child(). A child that has not been let go ends by itself once nobody has its socket any more;
 * it is not left to that. */
static void drop_child(struct launch *launch)
{
	if (launch->socket >= 0)
		close(launch->socket);
	launch->socket = -1;
	if (launch->pidfd >= 0)
		close(launch->pidfd);
	launch->pidfd = -1;
	if (launch->pid > 0) {
		kill(launch->pid, SIGKILL);
		while (waitpid(launch->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	launch->pid = -1;
}

/* The child up to READY. REFUSED: why is noted. */
static int try_start(struct launch *launch, struct child_plan *plan, char *error, size_t size)
{
	struct child_message m = {.step = CHILD_READY};
	int listener = -1, result = fork_child(launch, plan);

	if (result) {
		snprintf(error, size, "cannot start a process for the command: %s", strerror(-result));
		return result;
	}
	result = child_receive(launch->socket, 0, &m, &listener);
	if (result == -EPIPE && plan->hold) { /* killed at seccomp(2) by a filter in force */
		say_refusal(launch, EPERM);
		return REFUSED;
	}
	if (!result && m.step == CHILD_FILTER) {
		say_refusal(launch, m.error);
		return REFUSED;
	}
	if (result || m.step != CHILD_READY) {
		m.error = result ? -result : m.error;
		say_failure(plan->options, &m, error, size);
		return -m.error;
	}
	launch->no_new_privs = m.no_new_privs;
	if (listener >= 0) {
		result = hold_start(listener, plan->options, &launch->hold);
		if (result) {
			say_refusal(launch, -result);
			return REFUSED;
		}
	}
	launch->pidfd = syscall(SYS_pidfd_open, launch->pid, 0);
	if (launch->pidfd >= 0)
		return 0;
	result = -errno;
	snprintf(error, size, "cannot watch the command's process: %s (Linux 5.3 or newer needed)",
		 strerror(-result));
	return result;
}

int launch_start(const struct launch_options *options, struct launch **ret_launch, char *error,
		 size_t error_size)
{
	struct launch *launch = calloc(1, sizeof(*launch));
	struct child_plan plan;
	int result = -ENOMEM;

	if (launch)
		result = options->argv && options->argv[0] ? plan_make(options, &plan) : -EINVAL;
	if (result) {
		snprintf(error, error_size, "cannot prepare the command: %s", strerror(-result));
		free(launch);
		return result;
	}
	*launch = (struct launch){.pid = -1, .pidfd = -1, .socket = -1, .exit_code = -EAGAIN};
	if (!options->hold)
		snprintf(launch->why_not, sizeof(launch->why_not), "holding is switched off");
	plan.hold = options->hold;
	result = try_start(launch, &plan, error, error_size);
	if (result == REFUSED) {
		drop_child(launch);
		launch->no_new_privs = false;
		plan.hold = false;
		result = try_start(launch, &plan, error, error_size);
	}
	plan_free(&plan);
	if (result)
		launch_free(launch);
	else
		*ret_launch = launch;
	return result;
}

/* ---- running ---- */

pid_t launch_pid(const struct launch *launch)
{
	return launch->pid;
}

int launch_go(struct launch *launch)
{
	if (send(launch->socket, "g", 1, MSG_NOSIGNAL) != 1)
		return -EPIPE;
	launch->gone = true;
	return 0;
}

int launch_exec_fd(const struct launch *launch)
{
	return launch->socket;
}

int launch_exec_status(struct launch *launch, int *ret_errno)
{
	struct child_message m;
	int listener;

	if (!launch->exec_errno && child_receive(launch->socket, MSG_DONTWAIT, &m, &listener) == 0 &&
	    m.step == CHILD_EXEC)
		launch->exec_errno = m.error;
	if (!launch->exec_errno)
		return 0;
	*ret_errno = launch->exec_errno;
	return child_exit_code(launch->exec_errno);
}

const char *launch_held(const struct launch *launch)
{
	return launch->hold ? NULL : launch->why_not;
}

const char *launch_note(const struct launch *launch)
{
	return launch->no_new_privs
		       ? "setuid programs that the command starts run without their extra rights: holding "
			 "without CAP_SYS_ADMIN sets no_new_privs"
		       : NULL;
}

int launch_notify_fd(const struct launch *launch)
{
	return launch->hold ? hold_fd(launch->hold) : -1;
}

int launch_handle(struct launch *launch, launch_file_fn fn, void *ctx)
{
	return launch->hold ? hold_handle(launch->hold, fn, ctx) : -ENOENT;
}

void launch_forget(struct launch *launch, const struct shown_key *key)
{
	if (launch->hold)
		hold_forget(launch->hold, key);
}

void launch_progress(struct launch *launch)
{
	if (launch && launch->hold)
		hold_progress(launch->hold);
}

void launch_counts(const struct launch *launch, struct launch_counts *ret_counts)
{
	*ret_counts = launch->counts;
	if (launch->hold)
		hold_counts(launch->hold, ret_counts);
}

/* ---- the end ---- */

void launch_end_hold(struct launch *launch)
{
	if (!launch || !launch->hold)
		return;
	hold_counts(launch->hold, &launch->counts);
	hold_stop(launch->hold);
	launch->hold = NULL;
	snprintf(launch->why_not, sizeof(launch->why_not), "holding has ended");
}

int launch_wait_fd(const struct launch *launch)
{
	return launch->pidfd;
}

static int exit_code_of(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* As PID 1 of a container we inherit the tree's orphans. */
static void reap_orphans(struct launch *launch)
{
	int status;
	pid_t pid;

	while (getpid() == 1 && (pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == launch->pid)
			launch->exit_code = exit_code_of(status);
}

int launch_reap(struct launch *launch)
{
	int status;
	pid_t pid;

	reap_orphans(launch);
	if (launch->exit_code != -EAGAIN)
		return launch->exit_code;
	pid = waitpid(launch->pid, &status, WNOHANG);
	if (pid == launch->pid)
		launch->exit_code = exit_code_of(status);
	else if (pid < 0)
		launch->exit_code = -errno;
	return launch->exit_code;
}

void launch_free(struct launch *launch)
{
	if (!launch)
		return;
	launch_end_hold(launch);
	if (launch->gone || launch->exit_code != -EAGAIN) {
		if (launch->exit_code == -EAGAIN)
			launch_reap(launch);
		launch->pid = -1;
	}
	drop_child(launch);
	free(launch);
}
