/*
 * What the program keeps: a thread's stack of open calls, the counters, and
 * the maps that hold them.
 */
#ifndef CUDATAP_STATE_H
#define CUDATAP_STATE_H

/* A call under way. rec and data lie together: they are the record. */
struct frame {
	u64 sp;
	u64 told_start_ns; /* on_look's: the call that it has told of, and when it does again */
	u64 tell_ns;
	u32 len;   /* of data */
	u8 muted;  /* not emitted, but counted as muted at its end; what is turned away is counted at once */
	u8 solid;  /* calls that enclose others, this one included: what is only followed encloses none */
	u16 state; /* enum rec_row_state; ON only where it is to be emitted */
	struct rec_call rec;
	u8 data[REC_MAX_DATA + sizeof(struct rec_slot) + REC_MAX_SLOT];
};

#define MAX_PUSHED 8 /* contexts below the current one */

struct pushed {
	u64 context;
	u32 device;
	u32 reserved;
};

struct thread_state {
	u32 depth;
	u32 select_gen; /* of the decision below; 0: none yet */
	u64 pid_tgid;
	u8 selected;
	u8 rejected; /* the filter turns all its calls away */
	u8 announced;
	u8 duplicate_told;
	u32 device;  /* + 1, or REC_DEVICE_* */
	u32 npushed; /* may be more than are kept */
	u64 context; /* the current one, 0 where that is not known */
	struct pushed pushed[MAX_PUSHED];
	u32 counted; /* its open calls, after recording has stopped */
	struct frame frames[REC_MAX_DEPTH];
};

/* Since Linux 6.19 task storage comes from an allocator that gives 8 KiB at most, its own head included. */
_Static_assert(sizeof(struct thread_state) <= 8000, "task storage of this size is not to be had");

struct counters {
	u64 v[REC_NCOUNTERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} ring SEC(".maps");

/* Kernels' names have a ring of their own, so that the thousands that an import registers cost no call
 * its place. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_state);
} threads SEC(".maps");

/* Where a REC_NAME record is built: only threads that bring names have one. */
struct name_record {
	struct rec_call rec;
	u8 data[512 + sizeof(struct rec_slot) + REC_MAX_NAME];
	u32 len;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct name_record);
} name_records SEC(".maps");

/* Where on_look builds a record; user space runs one at a time. */
struct open_record {
	struct rec_call rec;
	u8 data[REC_MAX_DATA];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct open_record);
} open_record SEC(".maps");

/* Processes of which something is known, by their number in the initial pid namespace: their ends are told.
 */
enum known {
	KNOWN_CALLS = 1, /* a thread of it was told of */
	KNOWN_NAMES = 2, /* it has kernels' names, its own or its parents': its forks are told */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, u32);
} processes SEC(".maps");

/* Contexts of the driver and the device that each belongs to. */
struct context_key {
	u64 context;
	u64 mm; /* tells images of one process from each other, and processes */
	u64 process_start_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct context_key);
	__type(value, u32);
} contexts SEC(".maps");

/* Selected processes, by their pid in cudatap's own pid namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, u8);
} pids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counters);
} counters SEC(".maps");

static __always_inline struct frame *frame_at(struct thread_state *t, u32 i)
{
	return &t->frames[AT_MOST(i, REC_MAX_DEPTH - 1)];
}

static __always_inline struct counters *my_counters(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&counters, &zero);
}

static __always_inline void count_turned(struct counters *c, enum turned turned)
{
	if (turned == TURNED_FILTERED)
		c->v[REC_FILTERED]++;
	else
		c->v[REC_SAMPLED_OUT]++;
}

#endif
