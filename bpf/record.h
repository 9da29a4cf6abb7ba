/*
 * What the BPF program and user space share: the records in the ring, the
 * descriptor that says what one function's record holds, and the page of
 * switches and counters that both sides map.
 *
 * A record is built in the thread's own frame while the call is open and put
 * into the ring in one copy when it returns. It holds, in this order:
 *
 *	struct rec_call
 *	u64 words[desc.nregs + desc.nstack]	argument registers, stack words
 *	one slot per op of the descriptor, in op order: struct rec_slot and
 *	max(len, 0) bytes, padded to 8
 *
 * Entry ops come before return ops, and ops that read on return have a slot
 * only when the call succeeded, so the decoder stops at the record's end.
 *
 * All integers are in host order. Times are CLOCK_BOOTTIME nanoseconds.
 */
#ifndef CUDATAP_RECORD_H
#define CUDATAP_RECORD_H

#ifndef __bpf__
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
#endif

#define REC_MAX_ROWS  2048 /* a power of two: rows are masked with it */
#define REC_MAX_REGS  8    /* integer argument registers (6 x86-64, 8 aarch64) */
#define REC_MAX_STACK 24   /* stack words of arguments */
#define REC_MAX_OPS   8    /* reads through pointers, per function */
#define REC_MAX_SLOT  256  /* bytes of one such read */
#define REC_MAX_DATA  896  /* words and slots of one record */
#define REC_MAX_DEPTH 6    /* open calls per thread that are followed */
#define REC_MAX_NAME  4096 /* bytes of a kernel name, in a REC_NAME record alone */
#define REC_COMM_LEN  16
#define REC_MAX_TEXT  1024 /* bytes behind a REC_THREAD record */
#define REC_MAX_CODE  1024 /* status codes that a filter by errors knows in BPF */

enum rec_kind {
	REC_CALL = 1,
	REC_THREAD, /* the thread's first record, or its names changed */
	REC_THREAD_EXIT,
	REC_DUPLICATE, /* two probes sit on one function */
	REC_NAME,      /* in the names ring: a struct rec_call that named a kernel or unloaded a module; all
			* its slots are read on return, strings up to REC_MAX_NAME */
	REC_OPEN,      /* a struct rec_call and what it has so far: it was under way at end_ns */
	REC_FORK,      /* a process that has kernels' names, or whose parent had, forked */
};

/* flags of rec_call */
#define REC_F_UNFINISHED (1 << 0) /* the thread ended inside the call */

struct rec_call {
	u16 kind;
	u8 flags;
	u8 depth;     /* open API calls around this one */
	u32 device;   /* the thread's current one when the call began + 1, or REC_DEVICE_* */
	u64 cookie;   /* attach id << 16 | row */
	u64 pid_tgid; /* of the initial pid namespace: key of the thread */
	u64 start_ns;
	u64 end_ns;
	u64 ret;           /* the return register */
	u64 parent_cookie; /* of the enclosing call, 0 at depth 0 */
	u64 parent_start_ns;
	u32 sample_n; /* it stands for so many calls of its row; 0 in a REC_OPEN record: not decided yet */
	u32 reserved;
};

/* rec_call.device */
#define REC_DEVICE_UNSAID  0u    /* nothing seen has set it: the first, if all was seen */
#define REC_DEVICE_UNKNOWN (~0u) /* set to one that is not known */

/* What one read through a pointer brought. */
struct rec_slot {
	s32 len;   /* bytes that follow (before padding), or -1: the read failed */
	u32 count; /* arrays: elements the program passed; strings: 1 if cut */
};

/*
 * Behind it lies text: names from a leaf towards its root, each with its NUL, as "python3\0bin\0usr\0"; first
 * those of the executable's path, then those of the process's cgroup (version 2), then those of its cgroup in
 * version 1's hierarchy of memory, where there is one.
 */
struct rec_thread {
	u16 kind;
	u16 flags; /* REC_THREAD_* */
	u32 uid;
	u64 pid_tgid;
	u64 start_ns;         /* of the thread */
	u64 process_start_ns; /* of its group leader: (pid, this) identifies the process */
	u64 cgroup;
	u32 parent_tgid;    /* of the process, in the initial pid namespace */
	u32 forked;         /* 1: the process has not exec()ed since its fork: it has what its parent had */
	u32 pid, tid;       /* in cudatap's pid namespace, 0 where invisible */
	u32 ns_pid, ns_tid; /* in the task's own */
	char comm[REC_COMM_LEN];   /* the group leader's */
	char thread[REC_COMM_LEN]; /* the thread's */
	u16 exe_len, cgroup_len, cgroup1_len;
	u16 reserved;
};

/* flags of rec_thread: the names of a path are not all there */
#define REC_THREAD_EXE_CUT     (1 << 0)
#define REC_THREAD_CGROUP_CUT  (1 << 1)
#define REC_THREAD_CGROUP1_CUT (1 << 2)

struct rec_thread_exit {
	u16 kind;
	u16 leader; /* 1: the process as a whole has ended */
	u16 exec;   /* 1: it has not, another program runs in it */
	u16 reserved;
	u32 wait_status; /* of the process, as wait(2) has it */
	u32 reserved2;
	u64 pid_tgid;
};

struct rec_fork {
	u16 kind;
	u16 reserved;
	u32 tgid, parent_tgid; /* in the initial pid namespace */
	u32 reserved2;
	u64 process_start_ns; /* as in struct rec_thread, of the new process */
	u64 time_ns;
};

struct rec_duplicate {
	u16 kind;
	u16 reserved[3];
	u64 cookie;       /* of the probe that fired second: no call has a frame of it */
	u64 first_cookie; /* of the probe that stays */
};

/* ---- descriptors ---- */

enum rec_op_kind {
	REC_OP_MEM = 1,    /* size bytes at *arg */
	REC_OP_STRING,     /* NUL-terminated, at most size bytes */
	REC_OP_ARRAY,      /* count(arg2) elements of size bytes, at most REC_MAX_SLOT */
	REC_OP_COUNTED,    /* same, but arg2 points to the u32 or size_t count (read on return) */
	REC_OP_STRING_PTR, /* *arg is a pointer to a string */
};

#define REC_ON_RETURN (1 << 0) /* read after success; otherwise at entry */
#define REC_COUNT64   (1 << 1) /* the count is 8 bytes wide, not 4 */

#define REC_ARG_RET 0xff /* op.arg: the return value is the pointer */

struct rec_op {
	u8 kind;
	u8 flags;
	u8 arg;  /* index into words[] of the pointer */
	u8 arg2; /* index into words[] of the count */
	u16 size;
	u16 reserved;
};

/* success: what lets ops with REC_ON_RETURN read */
enum rec_success {
	REC_SUCCESS_ALWAYS, /* void, pointer and value functions */
	REC_SUCCESS_ZERO,   /* status functions: (u32)ret == 0 */
};

/* What a successful call does to its thread's current device. Contexts' devices are remembered per process.
 */
enum rec_follow {
	REC_FOLLOW_NONE,
	REC_FOLLOW_DEVICE,     /* arg: it becomes current */
	REC_FOLLOW_DEVICE_OUT, /* *arg: it is current */
	REC_FOLLOW_KEEP,       /* the one that was current before it still is, whatever it calls inside */
	REC_FOLLOW_UNKNOWN,    /* another may have become current */
	REC_FOLLOW_RETAIN,     /* *arg: a context of device arg2 */
	REC_FOLLOW_CREATE,     /* the same, and pushed */
	REC_FOLLOW_SAME,       /* *arg: a context of the device of context arg2 */
	REC_FOLLOW_SET,        /* arg: this context replaces the current one */
	REC_FOLLOW_PUSH,       /* arg: this context goes on top of it */
	REC_FOLLOW_POP,
	REC_FOLLOW_DESTROY, /* arg: this context goes, popped if it is current */
};

struct rec_desc {
	u8 nregs;
	u8 nstack;
	u8 nops;
	u8 nentry; /* the first nentry ops read at entry */
	u8 success;
	u8 follow;                  /* enum rec_follow */
	u8 follow_arg, follow_arg2; /* indices into words[] */
	u8 api;                     /* whose status codes it returns: enum table_api */
	u8 reports;                 /* 1: the status that it returns is an older call's */
	u8 bytes_word,
		bytes_size; /* argument that is the call's payload, and its size, 4 or 8; 0: not so simple */
	struct rec_op ops[REC_MAX_OPS];
};

/* ---- selection of processes ---- */

#define REC_SELECT_MAX  4096 /* patterns of a kind */
#define REC_SELECT_TEXT 256  /* bytes of one, zero behind the last NUL */
#define REC_SELECT_ID   12   /* characters of a container's id that decide */

/* what processes are selected by; all that are there must agree */
#define REC_SELECT_UIDS       (1 << 0)
#define REC_SELECT_COMMS      (1 << 1)
#define REC_SELECT_EXE        (1 << 2)
#define REC_SELECT_CGROUPS    (1 << 3)
#define REC_SELECT_CONTAINERS (1 << 4)
#define REC_SELECT_ALL        0x1f

/* what a pattern is to match */
#define REC_MATCH_WHOLE (1 << 0) /* the whole comm; a path from its root on, a cgroup's or one around it */
#define REC_MATCH_NAME \
	(1 << 1) /* the end of an executable's path, the name of a cgroup or of one around it */
#define REC_MATCH_PREFIX (1 << 2) /* the beginning of a comm */
#define REC_MATCH_FILTER 4        /* shifted by so much: the same of a pattern of the filter */

/* ---- rules: which calls become records ---- */

/* how a call ended, as enum call_status */
enum rec_status { REC_STATUS_OK, REC_STATUS_ERROR, REC_STATUS_NOT_READY, REC_STATUS_UNFINISHED };

/*
 * The conditions of the top-level filter that BPF decides; a call must meet all. What the row alone decides
 * is in its state, REC_ROW_REJECTED. Written at any time: each call is judged by what holds then.
 */
struct rec_rules {
	u32 by_outcome; /* 1: the conditions on how a call ended are looked at */
	u32 status;     /* bit per enum rec_status */
	u64 min_duration_ns, max_duration_ns;
	u64 min_bytes;   /* of rows whose descriptor tells the argument */
	u32 by_error;    /* 1: by the codes in errors[]; those beyond are let through */
	u32 keep_errors; /* 1: samples are drawn on return, among calls that did not fail; 0: at entry */
	u64 errors[2][REC_MAX_CODE / 64]; /* [enum table_api], bit per code */
	u32 sample[REC_MAX_ROWS];         /* one of so many calls is recorded; 0, 1: all */
};

/* ---- the shared page ---- */

/* row_state[]: what to do with calls of a row; ON and MUTED exclude each other */
enum rec_row_state {
	REC_ROW_OFF = 0,           /* attached but not wanted: not even counted */
	REC_ROW_ON = 1 << 0,       /* emitted */
	REC_ROW_MUTED = 1 << 1,    /* followed as an enclosing call, never emitted */
	REC_ROW_NAMES = 1 << 2,    /* goes into the names ring too, nested or not */
	REC_ROW_FOLLOW = 1 << 3,   /* its descriptor's `follow` is done, nested or not */
	REC_ROW_REJECTED = 1 << 4, /* turned away by the filter, whatever its calls are like; instead of ON */
	REC_ROW_AROUND = 1 << 5,   /* calls of ON rows may be inside of its calls: one that is turned away
				    * encloses   them all the same */
};

/* armed: when the reader wants to be woken */
enum rec_armed {
	REC_ARMED_NO,    /* it is consuming */
	REC_ARMED_ANY,   /* it sleeps without time-out: any record wakes it */
	REC_ARMED_LEVEL, /* it sleeps one flush period: the fill level wakes it */
};

/* One counter set per CPU; user space adds them up. See docs/architecture.md
 * for the equation that they satisfy. */
enum rec_counter {
	REC_ENTRIES,         /* calls of selected rows in selected processes */
	REC_SUBMITTED,       /* finished calls put into the ring */
	REC_UNFINISHED,      /* calls put into the ring when their thread ended */
	REC_NESTED,          /* inner calls, not emitted */
	REC_MUTED,           /* enclosing calls of unselected rows */
	REC_FILTERED,        /* turned away by the rules */
	REC_SAMPLED_OUT,     /* not drawn */
	REC_DUPLICATE_CALLS, /* second probe on one call */
	REC_UNPAIRED,        /* left by longjmp, exception or a lost return */
	REC_LOST_RING,       /* the ring was full */
	REC_LOST_STORAGE,    /* no task storage to be had */
	REC_LOST_DEPTH,      /* deeper than REC_MAX_DEPTH */
	REC_LOST_THREADS,    /* thread records deferred by a full ring (retried) */
	REC_LOST_NAMES,      /* the names ring was full: kernels without a name */
	REC_READ_FAILED,     /* slots that could not be read */
	REC_ORPHAN_EXITS,    /* returns without an entry: fork inside a call, attach inside a call */
	REC_LEFT_OPEN,       /* calls under way whose thread ended after recording had stopped */
	REC_NCOUNTERS
};

struct rec_shared {
	/* written by user space before load or at run time */
	u32 recording; /* 0: every program returns at once */
	u32 nested;
	u32 select_pids;      /* 1: only processes in the pids map */
	u32 follow_children;  /* 1: a selected process's children are selected too */
	u32 select_gen;       /* raised when the selection of processes changes */
	u32 select_by;        /* REC_SELECT_*: what they are selected by beside that */
	u32 filter_by;        /* likewise: what the filter lets them through by */
	u32 pidns_ino;        /* of cudatap's pid namespace */
	u64 wake_level;       /* bytes in the ring that wake a REC_ARMED_LEVEL reader */
	u64 names_wake_level; /* the same of the names ring */
	u32 armed;            /* enum rec_armed, both sides */
	u32 reserved;
	u64 open_after_ns; /* calls that last longer are told of by on_look; 0: none are */
	u64 open_calls;    /* what the last run of on_look found under way; set to 0 before it */
	u64 leaving_calls; /* of these, the ones of rows that are OFF by now; likewise */
	u8 row_state[REC_MAX_ROWS];
	struct rec_rules rules;
	/* written by BPF */
	u64 lost_by_row[REC_MAX_ROWS];
	/* written by user space before load */
	struct rec_desc desc[REC_MAX_ROWS];
};

#endif
