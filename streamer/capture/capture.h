/*
 * Capture: the loaded BPF program, its probes on files, and its ring.
 *
 * The control thread loads, attaches, detaches and reads counters; the reader
 * thread alone calls capture_read(). Both run at the same time.
 */
#ifndef CUDATAP_CAPTURE_H
#define CUDATAP_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../../bpf/record.h"
#include "../decode/decode.h"
#include "../find/find.h"

/* Descriptors that are no probes: programs, maps, sinks, held processes, libraries being read. With fewer
 * nothing begins. */
#define CAPTURE_OTHER_FILES 256

/* How probes are put on functions, best first. */
enum capture_method {
	CAPTURE_SESSION, /* uprobe sessions, kernel 6.13: one link, return armed on demand */
	CAPTURE_MULTI,   /* uprobe_multi links, kernel 6.6 */
	CAPTURE_CLASSIC, /* one perf event per function and side, kernel 5.15 */
	CAPTURE_NMETHODS,
	CAPTURE_AUTO = CAPTURE_NMETHODS
};
extern const char *const capture_method_names[CAPTURE_NMETHODS];

/* Which processes are recorded; every list that is not empty must have one that fits. See patterns.h. */
struct capture_patterns {
	char *const *list;
	size_t n;
};

struct capture_processes {
	struct capture_patterns uids, comms, exe, cgroups, containers;
};

struct capture_options {
	enum capture_method method; /* CAPTURE_AUTO: the best that works */
	uint64_t ring_size;         /* bytes, a power of two, at least one page */
	uint64_t flush_ns;          /* how long a record may wait while the reader is awake */
	bool nested;
	bool select_pids; /* only processes given by capture_select_pid() */
	bool follow_children;
	struct capture_processes processes; /* that are recorded */
	struct capture_processes accepted;  /* of these: calls of the others are counted as filtered */
	bool processes_change; /* others may follow, by whatever they are selected: the program is larger then
				*/
	uint64_t open_after_ns;   /* calls that last longer are told of by capture_look(); 0: none are */
	const struct plan *plans; /* [table_nrows]; kept until capture_free() */
	const uint8_t *row_state; /* [table_nrows], enum rec_row_state */
	/* called within capture_attach() after each step, of which classic probes need many slow ones; or
	 * NULL */
	void (*progress)(void *ctx);
	void *progress_ctx;
};

struct capture;

/**
 * capture_new - load the BPF program
 * @error: one message for the user, with what to do, when the result is negative
 * Nothing is recorded before capture_record(). Returns 0 or a negative errno.
 */
int capture_new(const struct capture_options *options, struct capture **ret_capture, char *error,
		size_t error_size);

/** capture_free - detach everything and unload. NULL is fine. */
void capture_free(struct capture *capture);

enum capture_method capture_method(const struct capture *capture);

/** capture_binds - can probes be bound to a process, with all its threads? Else capture_attach() wants no
 * pid, and the BPF program alone tells who is selected. */
bool capture_binds(const struct capture *capture);

/** capture_unbind - capture_binds() says no from now on: a process is there that cannot be bound to */
void capture_unbind(struct capture *capture);

/** capture_record - let the programs record, or make them return at once */
void capture_record(struct capture *capture, bool on);

/** capture_select_pid - add or remove a process (pid in cudatap's pid namespace) */
int capture_select_pid(struct capture *capture, pid_t pid, bool selected);

/* What can change while probes are there. */
struct capture_switch {
	const uint8_t *row_state; /* [table_nrows] */
	bool nested;
	uint64_t open_after_ns, flush_ns;
};

/** capture_switch - record by other rules from the next call on, without touching probes; calls under way
 * end as they began. Reader thread. */
void capture_switch(struct capture *capture, const struct capture_switch *to);

/** capture_selected_pids - how many processes given by capture_select_pid(), and children of theirs, there
 * are */
size_t capture_selected_pids(const struct capture *capture);

/**
 * capture_select - which processes are recorded, beside capture_select_pid(), and which of these the filter
 * lets through
 * Any time; threads decide anew at their next call, those within a call after it. Returns 0, or -EOPNOTSUPP
 * when they are selected by what the program was not loaded for (capture_options.processes_change), with
 * nothing changed, or another negative errno.
 */
int capture_select(struct capture *capture, const struct capture_processes *processes,
		   const struct capture_processes *accepted);

/**
 * capture_rules - which calls become records: from the next call on
 * Before the first time all calls of rows that are ON do. Any thread, while probes are there.
 */
void capture_rules(struct capture *capture, const struct rec_rules *rules);

/** capture_sees_all - whether every process of the host is in a pid namespace that cudatap can see */
bool capture_sees_all(const struct capture *capture);

struct capture_attached {
	unsigned functions; /* probed */
	unsigned failed;    /* refused by the kernel one by one */
	int error;          /* errno of the first refusal */
};

/**
 * capture_attach - probe the functions of a file
 * @fd: the file; may be closed afterwards
 * @attach_id: 1...; appears in each record's cookie
 * @functions: those to probe (rows that are OFF may be left out by the caller)
 * @pid: bind the probes to one process (where the kernel can), 0: all
 * There is a link for each family (and side), so that families can come and go.
 * May be called again with the same id (another pid, further functions). Returns 0 when at least
 * one function is probed, else a negative errno.
 */
int capture_attach(struct capture *capture, int fd, unsigned attach_id, const struct find_function *functions,
		   size_t n, pid_t pid, struct capture_attached *ret_attached);

/** capture_is_probed - has a function of that attach id a probe? */
bool capture_is_probed(const struct capture *capture, unsigned attach_id, unsigned row);

/**
 * capture_retire - remove links that serve only rows that are OFF, as soon as no call is under way in them
 * Returns whether some are still there: call it again a little later. Does not wait for the removal.
 */
bool capture_retire(struct capture *capture);

/** capture_detach - remove all probes of an attach id; they are gone when it returns (classic: 0.1 s for
 * each). Returns how many functions had one. */
unsigned capture_detach(struct capture *capture, unsigned attach_id);

/** capture_detach_later - the same in threads of its own: the kernel takes some 50 ms for each file. The
 * probes may still record until then. Not for classic probes. */
void capture_detach_later(struct capture *capture, unsigned attach_id);

/** capture_detach_all - remove all probes, in the background where that takes long (classic) */
void capture_detach_all(struct capture *capture);

/**
 * capture_look - walk over all threads and their open calls
 * @ret_open: calls under way. Once recording has stopped, each is counted one time in the capture's life,
 *	here or, where its thread ended, in REC_LEFT_OPEN: call it before capture_counters() then.
 * While recording, puts a REC_OPEN record into the ring for each call that has lasted open_after_ns, and
 *again whenever it has lasted twice as long. One thread at a time. Returns 0, -EXDEV when only the threads of
 *cudatap's own pid namespace could be visited, or another negative errno.
 */
int capture_look(struct capture *capture, uint64_t *ret_open);

/* Sums over CPUs, read one after the other: exact when the traced programs are quiet. */
struct capture_counters {
	uint64_t v[REC_NCOUNTERS];
};
void capture_counters(const struct capture *capture, struct capture_counters *ret_counters);
/** capture_lost_by_row - calls of a row that the full ring refused */
uint64_t capture_lost_by_row(const struct capture *capture, unsigned row);
/* Called for each record, in ring order, REC_NAME records of the names ring first; the record is valid during
 * the call. */
typedef void (*capture_record_fn)(void *ctx, const void *record, size_t size);

/**
 * capture_read - one turn of the reader thread
 * @fn: called for every record in the ring
 * @wait: sleep until there is something (or capture_wake()), else only read
 *
 * Sleeps without time-out when the last flush period brought nothing, else
 * for one flush period at most. At most
 * CAPTURE_BATCH records are read in one turn, so that a full-rate producer cannot keep
 * the caller from its other work. Returns the number of records read.
 */
#define CAPTURE_BATCH 8192
size_t capture_read(struct capture *capture, capture_record_fn fn, void *ctx, bool wait);
/** capture_read_names - only names, from within @fn: those that belong to the call at hand may have come
 * since the turn began. @fn is called again, with REC_NAME records. */
void capture_read_names(struct capture *capture);
/** capture_wake - end the reader's sleep, from any thread */
void capture_wake(struct capture *capture);

#endif
