/* What the files of this room share. */
#ifndef CUDATAP_TRACE_INTERNAL_H
#define CUDATAP_TRACE_INTERNAL_H

#include <jansson.h>

#include "../enrich/kernels.h"
#include "../find/list.h"
#include "../find/watch.h"
#include "../launch/launch.h"
#include "../launch/shown.h"
#include "../route/stream.h"
#include "trace.h"

/* A file with probes on it. */
struct attached {
	char *path;
	unsigned functions;
	struct shown_key key; /* what the file was then */
	int change;           /* inotify watch, or -1 */
	bool gone;            /* detached again */
	bool pinned;          /* named by the user or in the linker's cache: never let go */
	unsigned same_as;     /* attach id that has probes on this file under another name, 0: none */
	bool suspect;         /* no process mapped it at the last look; see release.c */
	bool unmapped;        /* within one look */
	pid_t mapper;         /* a process that mapped it when last looked at, 0: not known */
	uint64_t map_start, map_end;
	struct shown_key mapped_as; /* under which of its names */
};

struct trace {
	const struct config *config;
	const struct cli *cli;
	struct plan *plans;
	uint8_t *row_state;
	struct capture *capture;
	struct stream *stream;
	struct launch *launch; /* with a command */
	struct launch_user user;
	struct find_watch *watch;  /* of new mappings; NULL where every file is shown before it is mapped */
	struct shown *looked;      /* files that were looked into */
	struct attached *attached; /* [attach id - 1] */
	unsigned nattached;
	uint64_t overdue;  /* held calls that went on unseen so far */
	unsigned refused;  /* CUDA libraries that could not be probed */
	uint64_t start_ns; /* CLOCK_MONOTONIC */
	int orphans_fd;    /* timer: look whether children are left */
	int look_fd;       /* timer: look for calls that hang */
	int release_fd;    /* timer: look for files that nobody maps any more */
	bool releasing;    /* it is set */
	int epoll_fd, signal_fd, duplicate_fds[2];
	int changes_fd; /* inotify: files with probes are written to */
	int *pid_fds;   /* of -p, -1 when ended */
	size_t npids_alive;
	const char *stop_reason;     /* NULL: running */
	bool draining;               /* the probes are gone, the sinks write what they have */
	uint64_t drain_ns, moved_ns; /* CLOCK_MONOTONIC: when that began, when a sink last got on */
	int signals;                 /* INT and TERM so far */
	bool ended;                  /* recording has stopped, and open_calls is final */
	uint64_t open_calls;
	int exit_code;
};

/* targets.c */

/** targets_find - attach to what is there already: configured files, processes, the host's libraries.
 * Returns 0, or the exit code after one message. */
int targets_find(struct trace *trace);
/** targets_show - look into one open file and attach to it when it holds CUDA functions */
void targets_show(struct trace *trace, pid_t pid, int fd, const char *path);
/** targets_new_mappings - the watch has records */
void targets_new_mappings(struct trace *trace);
/** targets_detach - remove a file's probes, with a `detach` event */
void targets_detach(struct trace *trace, unsigned attach_id, const char *reason);
/** targets_find_attached - the file with probes of that key, or whose probes a double has; NULL when there is
 * none */
struct attached *targets_find_attached(struct trace *trace, const struct shown_key *key);
/** targets_double - one file has probes twice: those that fire second go, for the calls under way are the
 * others' */
void targets_double(struct trace *trace, unsigned second, unsigned first);
/** targets_release - the same, not waiting for it: no process maps the file any more */
void targets_release(struct trace *trace, unsigned attach_id);
/** targets_changes - files were written to: their probes are wrong from now on, and go */
void targets_changes(struct trace *trace);
void targets_free(struct trace *trace);

/* release.c */

/** release_open - begin to let files go, where all processes can be seen; 0 or a negative errno */
int release_open(struct trace *trace);
/** release_later - a file has got probes that may be let go one day */
void release_later(struct trace *trace);
/** release_keep - the file is about to be mapped, or was, by a process */
void release_keep(struct trace *trace, struct attached *attached);
/** release_never - a process whose mappings may not be read maps that file */
void release_never(struct trace *trace, const struct find_file *file);
/** release_look - the timer says so */
void release_look(struct trace *trace);

/* control.c */

/** control_hold_requests - HUP, USR1 and USR2 wait from now on: whoever rotates files does not know how far
 * the start has got */
void control_hold_requests(void);
/** control_open - descriptors and signals of the control thread; 0 or a negative errno */
int control_open(struct trace *trace);
/** control_loop - until stop_reason is set */
void control_loop(struct trace *trace);
/*
 * How long the sinks get at the end, nanoseconds: after a signal so much in
 * all; with nobody in a hurry as long as they get on, and so much without
 * getting on; after a second signal hardly anything.
 */
#define DRAIN_NS       5000000000ull
#define DRAIN_HURRY_NS 200000000ull

/**
 * control_drain - wait for the sinks, as long as they may take
 * @finished: they have been asked to end; otherwise until their queues are empty, so that the last
 *	event finds room and can say what became of the others
 */
void control_drain(struct trace *trace, bool finished);
/** control_now_ns - CLOCK_MONOTONIC */
uint64_t control_now_ns(void);
void control_close(struct trace *trace);
/** control_on_duplicate - stream_duplicate_fn */
void control_on_duplicate(void *ctx, unsigned second, unsigned first);

/* report.c */

/** report_count - calls so far: the counters, and how many are under way. Final when recording has stopped.
 */
uint64_t report_count(struct trace *trace, struct capture_counters *ret_counters);
json_t *report_start(const struct trace *trace);
json_t *report_stop(const struct trace *trace, const struct capture_counters *counters);
/** report_status - one JSON object on stderr, on one line: calls and sinks so far */
void report_status(struct trace *trace);
/** report_summary - totals on stderr; returns how many events were lost, at the source and in sinks */
uint64_t report_summary(struct trace *trace, const struct capture_counters *counters);

#endif
