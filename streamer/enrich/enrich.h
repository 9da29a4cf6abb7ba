/*
 * What an event says beside its call: the thread and process that made it,
 * and the wall-clock time. Used by the reader thread alone.
 */
#ifndef CUDATAP_ENRICH_H
#define CUDATAP_ENRICH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../bpf/record.h"

#define THREAD_PREFIXES 8     /* encoders that can be at work at once */
#define THREADS_MAX     65536 /* threads that are remembered */

/* Bytes of a line that say who made the call; from malloc(). */
struct thread_prefix {
	char *data; /* NULL: to be made */
	uint32_t len;
};

struct process; /* processes.h */

/* One thread, known from its `thread` record. Owned by the cache. */
struct thread {
	uint64_t pid_tgid; /* key */
	uint64_t start_ns, process_start_ns;
	uint64_t cgroup;
	uint32_t pid, tid;       /* of cudatap's pid namespace */
	uint32_t ns_pid, ns_tid; /* of the task's own, when different; else 0 */
	uint32_t uid;
	uint64_t last_start_ns;  /* of the call that was taken last; the reader's */
	struct process *process; /* with a reference; NULL: not known */
	char comm[REC_COMM_LEN + 1];
	char thread[REC_COMM_LEN + 1];                /* empty when the same as comm */
	struct thread_prefix prefix[THREAD_PREFIXES]; /* made once by each encoder, freed by the cache */
};

/** thread_drop_prefixes - free what encoders made for it; they make it anew */
void thread_drop_prefixes(struct thread *thread);

struct threads; /* the cache */

struct threads *threads_new(void);
void threads_free(struct threads *threads);
/**
 * threads_learn - take a `thread` record: a new thread, or new names of a known one
 * A pid that is invisible in cudatap's pid namespace (0) is replaced by that of the initial one.
 * Returns 0 or -ENOMEM.
 */
int threads_learn(struct threads *threads, const struct rec_thread *rec);
/**
 * threads_find - the thread of a call record
 *
 * When its `thread` record was lost or is late: one made from the key alone
 * (comm empty), until the record comes. Returns NULL only when out of memory.
 * Valid until the next call on the cache: beyond THREADS_MAX the thread that
 * made no call for longest goes, those without a record first.
 */
struct thread *threads_find(struct threads *threads, uint64_t pid_tgid);
/** threads_set_process - whose thread it is; the reference is taken over */
void threads_set_process(struct thread *thread, struct process *process);
/** threads_renew - what is known of a process has changed: its threads' prefixes are to be made anew */
void threads_renew(struct threads *threads, uint32_t tgid);
/** threads_renew_all - the same of all of them: encoders have changed */
void threads_renew_all(struct threads *threads);
/** threads_forget - take an exit record; a leader's takes all threads of its process along */
void threads_forget(struct threads *threads, const struct rec_thread_exit *rec);
size_t threads_count(const struct threads *threads);

/*
 * Wall-clock time from CLOCK_BOOTTIME. Both clocks are slewed alike by NTP,
 * so that their difference changes only when the wall clock is set; what is
 * kept is therefore one pair per difference, not one per second, and a call
 * that began hours ago is still converted with the pair that held then.
 */
struct clock_map;

/** clock_map_new - with the first pair taken. NULL when out of memory. */
struct clock_map *clock_map_new(void);
void clock_map_free(struct clock_map *map);
/** clock_map_tick - take a pair (call it about once a second)
 * Returns the step in ns when the wall clock was set since the last pair (beyond 1 ms), else 0. */
int64_t clock_map_tick(struct clock_map *map);
/** clock_map_pair - same, with a pair that the caller read: the clocks at one moment, in ns.
 * Pairs must be given in order of @boot_ns; others are ignored. */
int64_t clock_map_pair(struct clock_map *map, uint64_t boot_ns, int64_t real_ns);
/** clock_map_real - unix time in ns of a boot time, by the latest pair taken at or before it
 * (the earliest one for times before all of them) */
int64_t clock_map_real(const struct clock_map *map, uint64_t boot_ns);

#endif
