/*
 * What an event says beside its call: the thread and process that made it,
 * and the wall-clock time. Used by the reader thread alone.
 */
#ifndef CUDATAP_ENRICH_H
#define CUDATAP_ENRICH_H

#include <stdbool.h>
#include <stdint.h>

#include "../../bpf/record.h"

/* One thread, known from its `thread` record. Owned by the cache. */
struct thread {
	uint64_t pid_tgid;		/* key */
	uint64_t start_ns, process_start_ns;
	uint64_t cgroup;
	uint32_t pid, tid;		/* of cudatap's pid namespace */
	uint32_t ns_pid, ns_tid;	/* of the task's own, when different; else 0 */
	uint32_t uid;
	char comm[REC_COMM_LEN + 1];
	char thread[REC_COMM_LEN + 1];	/* empty when the same as comm */
	/* bytes of the JSON line that say all of this, made once by the encoder */
	char *prefix;
	uint32_t prefix_len;
};

struct threads;			/* the cache */

struct threads *threads_new(void);
void threads_free(struct threads *threads);
/** threads_learn - take a `thread` record. Returns 0 or -ENOMEM. */
int threads_learn(struct threads *threads, const struct rec_thread *rec);
/** threads_find - the thread of a call record; when its `thread` record was lost, one made from
 * the key alone (comm empty). NULL only when out of memory. Valid until the thread is forgotten. */
struct thread *threads_find(struct threads *threads, uint64_t pid_tgid);
void threads_forget(struct threads *threads, const struct rec_thread_exit *rec);
size_t threads_count(const struct threads *threads);

/*
 * Wall-clock time from CLOCK_BOOTTIME: pairs of both clocks are kept for as
 * long as records older than them can turn up; each call is converted with
 * the pair that held at its start.
 */
struct clock_map;

struct clock_map *clock_map_new(void);
void clock_map_free(struct clock_map *map);
/** clock_map_tick - take a pair (call it about once a second)
 * Returns the step in ns when the wall clock was set since the last pair (beyond 1 ms), else 0. */
int64_t clock_map_tick(struct clock_map *map);
/** clock_map_real - unix time in ns of a boot time */
int64_t clock_map_real(const struct clock_map *map, uint64_t boot_ns);

#endif
