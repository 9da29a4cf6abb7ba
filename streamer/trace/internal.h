/* What the files of this room share. */
#ifndef CUDATAP_TRACE_INTERNAL_H
#define CUDATAP_TRACE_INTERNAL_H

#include <jansson.h>

#include "../enrich/kernels.h"
#include "../find/list.h"
#include "../find/patience.h"
#include "../find/watch.h"
#include "../launch/launch.h"
#include "../launch/shown.h"
#include "../route/stream.h"
#include "file_watch.h"
#include "trace.h"

/* A file that holds CUDA functions, with probes on those that are wanted. */
struct target {
	char *path;
	int fd; /* to put further probes on it */
	struct find_image image;
	pid_t pid;            /* through which it was found; 0: through none */
	unsigned functions;   /* with probes */
	bool was_probed;      /* it has had probes */
	struct shown_key key; /* what the file was then */
	int change;           /* inotify watch, or -1 */
	bool gone;        /* another file now, a double, or mapped by nobody: its probes are off for good */
	bool pinned;      /* named by the user or in the linker's cache: never let go */
	unsigned same_as; /* attach id that has probes on this file under another name, 0: none */
	bool suspect;     /* no process mapped it at the last look; see release.c */
	bool unmapped;    /* within one look */
	pid_t mapper;     /* a process that mapped it when last looked at, 0: not known */
	uint64_t map_start, map_end;
	struct shown_key mapped_as; /* under which of its names */
};

struct trace {
	struct config *config; /* a reference to the one in effect */
	const struct cli *cli;
	struct plan *plans;
	uint8_t *row_state;
	struct capture *capture;
	struct stream *stream;
	struct launch *launch; /* with a command */
	struct launch_user user;
	struct find_watch *watch;  /* of new mappings; NULL where every file is shown before it is mapped */
	struct shown *looked;      /* files that were looked into */
	struct patience *patience; /* with file systems that do not answer */
	struct target *targets;    /* [attach id - 1] */
	unsigned ntargets;
	unsigned nattached;       /* of these, so many have had probes */
	unsigned refused;         /* CUDA libraries that could not be probed */
	bool incomplete;          /* something could not be probed or went on without: calls went unseen */
	uint64_t start_ns;        /* CLOCK_MONOTONIC */
	int look_fd;              /* timer: look for calls that hang */
	struct file_watch *files; /* of the configuration; NULL: it is in none */
	int settle_fd;            /* timer: read them again */
	uint64_t unsettled_ns;    /* CLOCK_MONOTONIC: first change that has not been read; 0: there is none */
	int retire_fd;            /* timer: take off probes that nobody wants */
	uint64_t retire_ns;       /* what it was set to */
	struct launch_counts unseen; /* what went on without so far, and was told of */
	int orphans_fd;              /* timer: look whether children are left */
	int release_fd;              /* timer: look for files that nobody maps any more */
	bool releasing;              /* it is set */
	int epoll_fd, signal_fd, duplicate_fds[2];
	int changes_fd; /* inotify: files with probes are written to */
	int *pid_fds;   /* of -p, -1 when ended */
	size_t npids_alive;
	const char *stop_reason;     /* NULL: running */
	bool draining;               /* the probes are gone, the sinks write what they have */
	uint64_t drain_ns, moved_ns; /* CLOCK_MONOTONIC: when that began, when a sink last got on */
	uint64_t drained;            /* what the sinks had done then */
	int signals;                 /* INT and TERM so far */
	bool hurry;                  /* nobody waits for the sinks: the start has failed */
	bool started;                /* there is a `start` event */
	bool ended;                  /* recording has stopped, and open_calls is final */
	uint64_t open_calls;
	int exit_code;
};

/* trace.c */

/** trace_select - what a configuration wants of each row of the table; @state: [table_nrows] */
void trace_select(const struct trace *trace, const struct config *config, uint8_t *state);

/* targets.c */

/** targets_find - attach to what is there already: configured files, processes, the host's libraries.
 * Returns 0, or the exit code after one message. */
int targets_find(struct trace *trace);
/** targets_find_again - look for configured files again: those that have taken the place of others, and new
 * ones that a glob names, get probes. What is wrong with one is said, and the others go on. */
void targets_find_again(struct trace *trace);
/** targets_show - look into one open file and attach to it when it holds CUDA functions */
void targets_show(struct trace *trace, pid_t pid, int fd, const char *path);
/** targets_new_mappings - the watch has records */
void targets_new_mappings(struct trace *trace);
/** targets_answered - a file system that did not answer does */
void targets_answered(struct trace *trace);
/** targets_extend - put probes on the functions that a new selection wants as well
 * @state: [table_nrows], not in effect yet */
void targets_extend(struct trace *trace, const uint8_t *state);
/* Functions, over all files. */
struct targets_difference {
	unsigned attached, detached;
};
/** targets_compare - what another selection adds and takes away */
struct targets_difference targets_compare(const struct trace *trace, const uint8_t *from, const uint8_t *to);
/** targets_settle - the selection in effect is another one: what no file has to have any more goes */
void targets_settle(struct trace *trace);
/** targets_detach - remove a file's probes for good, with a `detach` event */
void targets_detach(struct trace *trace, unsigned attach_id, const char *reason);
/** targets_find_probed - the file of that key, or whose probes a double has; NULL when there is
 * none */
struct target *targets_find_probed(struct trace *trace, const struct shown_key *key);
/** targets_mapped_key - the key of the file that a process maps at exactly that range; false when there is
 * none */
bool targets_mapped_key(pid_t pid, uint64_t start, uint64_t end, struct shown_key *ret_key);
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
void release_keep(struct trace *trace, struct target *target);
/** release_never - a process whose mappings may not be read maps that file */
void release_never(struct trace *trace, const struct find_file *file);
/** release_look - the timer says so */
void release_look(struct trace *trace);

/* control.c */

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

/** control_read_out - wait until the ring has been read to its end and the reader has ended; sinks with
 * when_full: block may hold it up for half of that time */
void control_read_out(struct trace *trace);
/**
 * control_drain - wait for the sinks, as long as they may take
 * @finished: they have been asked to end; otherwise until their queues are empty, so that the last
 *	event finds room and can say what became of the others
 */
void control_drain(struct trace *trace, bool finished);
/** control_now_ns - CLOCK_MONOTONIC */
uint64_t control_now_ns(void);
void control_close(struct trace *trace);
/** control_set_look - the look at calls that hang, by the configuration in effect; 0 or a negative errno */
int control_set_look(struct trace *trace);
/** control_on_duplicate - stream_duplicate_fn */
void control_on_duplicate(void *ctx, unsigned second, unsigned first);

/* reload.c */

/* One reload under way. */
struct reload {
	struct trace *trace;
	const char *reason;          /* "signal", "files" */
	uint64_t start_ns;           /* CLOCK_MONOTONIC */
	struct config *config;       /* the new one; NULL: it has mistakes */
	struct config_strings paths; /* what it was made from */
	struct config_changes changes;
	uint8_t *row_state;
	int rules_err; /* of rules_send() */
	struct targets_difference difference;
};

/** reload_can - has the configuration a file that can be read again? */
bool reload_can(const struct trace *trace);
/** reload_open - 0 or a negative errno */
int reload_open(struct trace *trace);
void reload_close(struct trace *trace);
/** reload_watch - watch the files of the configuration in effect, if it wants that */
void reload_watch(struct trace *trace, const struct config_strings *paths);
/** reload_run - read the configuration again, change to it if it is right, and look for the files that the
 * one in effect names. Says everything itself. */
void reload_run(struct trace *trace, const char *reason);
/** reload_files, reload_settled, reload_retire - its descriptors are readable */
void reload_files(struct trace *trace);
void reload_settled(struct trace *trace);
void reload_retire(struct trace *trace);

/* reload_report.c: bodies of `reload` events */
json_t *report_reload(const struct reload *reload);
/** report_refused - @messages: one a line */
json_t *report_refused(const struct reload *reload, const char *messages);

/* report.c */

/** report_count - calls so far: the counters, and how many are under way. Final when recording has stopped.
 */
uint64_t report_count(struct trace *trace, struct capture_counters *ret_counters);
json_t *report_start(const struct trace *trace);
json_t *report_ready(const struct trace *trace);
json_t *report_stop(const struct trace *trace, const struct capture_counters *counters);
/** report_status - one JSON object on stderr, on one line: calls and sinks so far */
void report_status(struct trace *trace);
/** report_summary - totals on stderr; returns how many events were lost, at the source and in sinks */
uint64_t report_summary(struct trace *trace, const struct capture_counters *counters);

#endif
