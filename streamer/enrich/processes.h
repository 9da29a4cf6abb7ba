/*
 * Processes: who they are, and what their calls add up to. Filled from their
 * threads' records, once each; used by the reader thread alone.
 *
 * A process is identified by its number in the initial pid namespace and its
 * start time: another one under a used number is another process. One that
 * execs is another from then on, too.
 */
#ifndef CUDATAP_PROCESSES_H
#define CUDATAP_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../decode/decode.h"
#include "../route/rate.h"
#include "environs.h"

#define PROCESSES_MAX        65536
#define PROCESS_MAX_EXE      512 /* bytes of the shown texts, escaped */
#define PROCESS_MAX_CGROUP   512
#define PROCESS_MAX_CMDLINE  1024
#define PROCESS_MAX_DEVICES  64
#define PROCESS_CONTAINER_ID 64
#define PROCESS_POD_UID      36
#define PROCESS_UUID         16

struct process_device {
	int32_t ordinal;
	bool told; /* in a `device` event */
	uint8_t uuid[PROCESS_UUID];
};

struct process {
	uint32_t tgid;        /* key */
	bool known;           /* its record has come */
	bool inherits;        /* forked by a process that had called CUDA before */
	uint64_t start_ns;    /* boot time */
	uint32_t pid, ns_pid; /* as in struct thread */
	uint32_t uid;         /* of the thread whose record came first */
	char comm[REC_COMM_LEN + 1];
	struct process_text exe, cgroup, cmdline;
	struct environs *environs;                   /* NULL: not known, or not wanted */
	char container_id[PROCESS_CONTAINER_ID + 1]; /* empty: in none that is known */
	char pod_uid[PROCESS_POD_UID + 1];
	struct {
		uint64_t calls, errors;
		uint64_t bytes[TABLE_P2P + 1]; /* by enum table_direction */
	} total;
	struct rate rate; /* of its events; the router's */
	struct process_device *devices;
	unsigned ndevices;
	size_t refs;
	struct process *older, *newer; /* in order of their coming */
};

struct processes;

struct processes *processes_new(void);
void processes_free(struct processes *processes);

/**
 * processes_learn - take a `thread` record with the text behind it
 * @size: of the whole; a record that is shorter than it says brings no text
 * @ret_new: whether it is the first of its process
 * Returns the process with a reference for the caller, or NULL when out of memory.
 */
struct process *processes_learn(struct processes *processes, const struct rec_thread *rec, size_t size,
				bool *ret_new);

/** processes_get - the process of this number, made if there is none. NULL when out of memory. */
struct process *processes_get(struct processes *processes, uint32_t tgid);

/** processes_find - the process of this number, or NULL */
struct process *processes_find(struct processes *processes, uint32_t tgid);

/** processes_forget - it has ended, or another program runs in it; references that are held stay good */
void processes_forget(struct processes *processes, uint32_t tgid);

size_t processes_count(const struct processes *processes);

/** processes_each - call a function for each of them */
void processes_each(struct processes *processes, void (*fn)(void *ctx, struct process *process), void *ctx);

struct process *process_ref(struct process *process);
/** process_put - give a reference back. NULL is fine. */
void process_put(struct process *process);

/** process_count - add a call to the totals */
static inline void process_count(struct process *process, const struct call *call)
{
	const uint32_t moves = 1u << TABLE_KEY_BYTES | 1u << TABLE_KEY_DIRECTION;

	process->total.calls++;
	process->total.errors += call->status == CALL_ERROR;
	if ((call->keys.present & moves) == moves && call->status == CALL_OK &&
	    !(call->row->flags & TABLE_OF_GRAPH))
		process->total.bytes[call->keys.direction] += (uint64_t)call->keys.bytes;
}

/** process_set_cmdline - the words of a command line, each with its NUL, are shown with spaces between */
void process_set_cmdline(struct process *process, const char *words, size_t len);

/** process_set_device - the UUID of one of its devices. Returns 0 or -ENOMEM. */
int process_set_device(struct process *process, int32_t ordinal, const uint8_t uuid[PROCESS_UUID]);

#endif
