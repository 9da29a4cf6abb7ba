/*
 * The seccomp filter of a launch, and what a notification of it means.
 */
#ifndef CUDATAP_LAUNCH_FILTER_H
#define CUDATAP_LAUNCH_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>

/* The calls that hold a thread. */
enum held_call {
	HELD_NOTHING,
	HELD_MMAP,     /* args: address, length, prot, flags, fd, offset */
	HELD_MPROTECT, /* args: address, length, prot */
	HELD_EXECVE,   /* args: path */
	HELD_EXECVEAT, /* args: dirfd, path, argv, envp, flags */
	HELD_START,    /* set_tid_address: libc's start-up, the program is mapped and has not run yet */
};

/** launch_filter_program - the filter; its instructions are static and read-only */
struct sock_fprog launch_filter_program(void);

/** launch_filter_call - which held call a notification is about */
enum held_call launch_filter_call(const struct seccomp_data *data);

/**
 * launch_filter_install - put the filter on the calling thread and what it starts
 * Returns the listener's descriptor (close-on-exec) or a negative errno: EACCES wants
 * CAP_SYS_ADMIN or no_new_privs, EBUSY: there is a listener already, EINVAL: kernel before 5.19.
 * Async-signal-safe.
 */
int launch_filter_install(void);

#endif
