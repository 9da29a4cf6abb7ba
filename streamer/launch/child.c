/*
 * The child between fork and exec. cudatap may have threads, so everything
 * here is async-signal-safe: no allocation, no name service.
 */
#include "child.h"

#include <errno.h>
#include <linux/close_range.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "filter.h"

enum { EXIT_OWN_FAILURE = 125, EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 };

/* ---- messages ---- */

static void child_send(int socket, struct child_message message, int listener)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec data = {&message, sizeof(message)};
	struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};

	if (listener >= 0) {
		struct cmsghdr *c = (struct cmsghdr *)control;

		header.msg_control = control;
		header.msg_controllen = sizeof(control);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &listener, sizeof(int));
	}
	sendmsg(socket, &header, MSG_NOSIGNAL);
}

int child_receive(int socket, int flags, struct child_message *ret_message, int *ret_listener)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct child_message message;
	struct iovec data = {&message, sizeof(message)};
	struct msghdr header = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	ssize_t n;

	do
		n = recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	if (n != sizeof(message))
		return -EPIPE;
	*ret_message = message;
	*ret_listener = -1;
	c = CMSG_FIRSTHDR(&header);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(ret_listener, CMSG_DATA(c), sizeof(int));
	return 0;
}

int child_exit_code(int exec_errno)
{
	return exec_errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

/* ---- steps; each returns 0 or an errno ---- */

static int step_stdout(const struct child_plan *plan)
{
	return plan->options->stdout_to_stderr && dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ? errno : 0;
}

static int step_limits(const struct child_plan *plan)
{
	const struct launch_origin *origin = plan->options->origin;

	if (!origin)
		return 0;
	return setrlimit(RLIMIT_NOFILE, &origin->nofile) || setrlimit(RLIMIT_MEMLOCK, &origin->memlock)
		       ? errno
		       : 0;
}

/* What we have opened since we were started is not the command's. */
static void step_descriptors(const struct child_plan *plan)
{
	const struct launch_origin *origin = plan->options->origin;

	if (!origin)
		return;
	for (int fd = STDERR_FILENO + 1; fd < LAUNCH_MAX_FD; fd++)
		if (!(origin->descriptors[fd / 64] >> fd % 64 & 1))
			fcntl(fd, F_SETFD, FD_CLOEXEC); /* EBADF: there is none */
	syscall(SYS_close_range, LAUNCH_MAX_FD, ~0u, CLOSE_RANGE_CLOEXEC);
}

static int step_user(const struct child_plan *plan)
{
	const struct launch_user *user = plan->options->user;

	if (!user || !user->set)
		return 0;
	/* being that user already needs no rights */
	if (geteuid() != 0 && getuid() == user->uid && getgid() == user->gid)
		return 0;
	if (setgroups(plan->ngroups, plan->groups))
		return errno;
	if (setresgid(user->gid, user->gid, user->gid))
		return errno;
	return setresuid(user->uid, user->uid, user->uid) ? errno : 0;
}

/* What cudatap holds by file capabilities or was given as ambient ones is not the command's. */
static int step_rights(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
		return errno;
	if (syscall(SYS_capget, &header, data))
		return errno;
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		data[i].inheritable = 0;
	return syscall(SYS_capset, &header, data) ? errno : 0;
}

/* Without CAP_SYS_ADMIN the kernel wants the promise that no setuid program is run under the filter. */
static int install_filter(bool *ret_no_new_privs)
{
	int listener = launch_filter_install();

	if (listener != -EACCES)
		return listener;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	*ret_no_new_privs = true;
	return launch_filter_install();
}

static void reset_signals(const struct launch_origin *origin)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int sig = 1; sig <= SIGRTMAX; sig++) {
		action.sa_handler = origin && sigismember(&origin->ignored, sig) == 1 ? SIG_IGN : SIG_DFL;
		sigaction(sig, &action, NULL); /* KILL, STOP and libc's own say no */
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, origin ? &origin->mask : &none, NULL);
}

static _Noreturn void fail(const struct child_plan *plan, enum child_step step, int error)
{
	child_send(plan->socket, (struct child_message){.step = step, .error = error}, -1);
	_exit(EXIT_OWN_FAILURE);
}

void child_run(const struct child_plan *plan)
{
	struct child_message ready = {.step = CHILD_READY};
	int error, listener = -1;
	char go;

	reset_signals(plan->options->origin);
	error = step_stdout(plan);
	if (error)
		fail(plan, CHILD_STDOUT, error);
	step_descriptors(plan);
	error = step_limits(plan);
	if (error)
		fail(plan, CHILD_LIMITS, error);
	if (plan->hold) { /* while still root */
		listener = install_filter(&ready.no_new_privs);
		if (listener < 0)
			fail(plan, CHILD_FILTER, -listener);
	}
	error = step_user(plan);
	if (error)
		fail(plan, CHILD_USER, error);
	error = step_rights();
	if (error)
		fail(plan, CHILD_RIGHTS, error);
	child_send(plan->socket, ready, listener);
	if (listener >= 0)
		close(listener);
	while (read(plan->socket, &go, 1) != 1) /* closed: cudatap does not want to any more */
		if (errno != EINTR)
			_exit(EXIT_OWN_FAILURE);
	execvpe(plan->options->argv[0], plan->options->argv, plan->environ);
	error = errno;
	child_send(plan->socket, (struct child_message){.step = CHILD_EXEC, .error = error}, -1);
	_exit(child_exit_code(error));
}
