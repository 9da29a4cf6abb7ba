/* The child between fork and exec, and what it tells its parent. */
#ifndef CUDATAP_LAUNCH_CHILD_H
#define CUDATAP_LAUNCH_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "launch.h"

/* How far the child got: with an error, the step that failed. */
enum child_step {
	CHILD_STDOUT, /* putting stdout on stderr */
	CHILD_LIMITS, /* giving back resource limits */
	CHILD_FILTER, /* the seccomp filter: the command can run without */
	CHILD_USER,   /* becoming the user */
	CHILD_RIGHTS, /* dropping capabilities */
	CHILD_READY,  /* waits to be let go; the listener comes with it */
	CHILD_EXEC,   /* exec failed */
};

struct child_message {
	int step;  /* enum child_step */
	int error; /* errno, 0: none */
	bool no_new_privs;
};

/* All that the child needs, made before the fork: it may not allocate. */
struct child_plan {
	const struct launch_options *options;
	char **environ;
	gid_t *groups; /* of the user; NULL: unchanged */
	int ngroups;
	bool hold;
	int socket; /* the child's end */
};

/** child_run - become the command. Never returns; every signal must be blocked. */
_Noreturn void child_run(const struct child_plan *plan);

/** child_exit_code - what a shell would exit with after that errno of exec */
int child_exit_code(int exec_errno);

/**
 * child_receive - a message of the child
 * @ret_listener: the descriptor that came with it, or -1
 * Returns 0, -EPIPE when the child's end is closed, -EAGAIN with @flags MSG_DONTWAIT.
 */
int child_receive(int socket, int flags, struct child_message *ret_message, int *ret_listener);

#endif
