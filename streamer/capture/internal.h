/* What the files of this room share. */
#ifndef CUDATAP_CAPTURE_INTERNAL_H
#define CUDATAP_CAPTURE_INTERNAL_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <pthread.h>

#include "capture.h"

enum { SIDE_ENTRY, SIDE_RETURN, SIDE_SESSION, NSIDES };

/* One set of descriptors that hold probes of one attach id, of functions that belong together. */
struct probe_set {
	unsigned attach_id;
	unsigned functions;
	uint64_t rows[REC_MAX_ROWS / 64]; /* those of the functions, as bits */
	int *fds;                         /* links, those of the return side first */
	size_t nfds, nreturn;
};

/* Sets on their way out: closing a link waits for others in the kernel, so several are closed at a time. */
struct closing {
	pthread_mutex_t lock;
	pthread_cond_t done;
	struct probe_set *sets;
	size_t nsets;
	unsigned threads;
};

struct capture {
	struct bpf_object *object;
	struct ring_buffer *ring, *names;
	enum capture_method method;
	bool binds;
	bool sleepable; /* the programs of functions that bring names are */
	const struct plan *plans;
	uint64_t flush_ns;
	struct rec_shared *shared;
	size_t shared_size;
	int prog_fd[2][NSIDES]; /* [sleepable] */
	int pids_fd, counters_fd, ring_fd, names_fd;
	int ncpus; /* of the counters; to ask takes a descriptor, and later there may be none */
	int epoll_fd, wake_fd;
	struct bpf_link *tracepoints[4];
	struct bpf_link *look; /* the program that walks over all threads */
	struct probe_set *sets;
	size_t nsets;
	struct closing closing;
	bool busy;           /* the last turn of the reader brought something, be it names */
	size_t taken, named; /* records of this turn: of calls, of names */
	uint32_t selections; /* of processes, so far */
	void (*progress)(void *ctx);
	void *progress_ctx;
	capture_record_fn fn;
	void *fn_ctx;
};

/* attach.c */

/* enum bpf_attach_type of the kernel, by method */
extern const uint32_t capture_attach_types[CAPTURE_NMETHODS];

/**
 * capture_try_method - whether the kernel has the method's links
 *
 * Older kernels load programs for them all the same. Returns 0 or a negative errno: EPERM without the rights,
 * EOPNOTSUPP.
 * @ret_binds: see capture_binds(). Before Linux 6.10 a link of uprobe_multi that is bound to a process fires
 * in its first thread alone.
 */
int capture_try_method(enum capture_method method, bool *ret_binds);

/** capture_need_files - raise the limit of open files as far as @more probes beside those there are, and
 * all else, need; what does not fit fails later, by itself */
void capture_need_files(const struct capture *capture, size_t more);

/* detach.c */

/** probe_set_close - entry sides were added last and go first */
void probe_set_close(struct probe_set *set);
/**
 * closers_stop - hold the processes that close classic probes, of other runs too, until closers_go_on()
 *
 * Waits for the one that is closing a probe, 0.1 s. @fds: two descriptors.
 */
void closers_stop(int fds[2]);
/** closers_go_on - @fds: of closers_stop(), or -1 */
void closers_go_on(const int fds[2]);

/* closing.c */

void closing_init(struct closing *closing);
/** closing_add - the set is taken over; without memory or threads it is closed here and now */
void closing_add(struct closing *closing, const struct probe_set *set);
/** closing_wait - until all are closed */
void closing_wait(struct closing *closing);

/* select.c */
/** select_prepare - before the program is loaded: what it is to be able to select by */
int select_prepare(struct bpf_object *object, const struct capture_options *options);

/* ring.c */
int ring_open(struct capture *capture);
void ring_close(struct capture *capture);

#endif
