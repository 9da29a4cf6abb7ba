// SPDX-License-Identifier: GPL-2.0
/*
 * The BPF program: one generic pair for every CUDA function.
 *
 * At entry the call gets a frame on its thread's stack of open calls (task
 * storage), in which its record is built: registers, stack words and what
 * the row's descriptor wants read at entry. At return the descriptor's
 * return reads are added and the record goes into the ring in one copy.
 *
 * A frame knows the stack pointer of its call. That is what keeps the stack
 * honest after longjmp, exceptions and lost returns: a call that begins at a
 * higher stack pointer than an open frame proves that frame dead.
 *
 * Every pair exists three times (classic, multi, session: what the kernel
 * offers) and in a sleepable form for functions that bring strings, whose
 * pages may not have been touched yet.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;
typedef u8 bool;
#define true 1
#define false 0

#include "record.h"

#define READ_ONCE(x) (*(volatile typeof(x) *)&(x))

/* The only variable in .bss: user space maps it as a whole. */
struct rec_shared shared;

#include "arch.h"
#include "kernel.h"
#include "identity.h"
#include "selection.h"
#include "rules.h"

char LICENSE[] SEC("license") = "GPL";

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

extern bool bpf_session_is_return(void) __ksym __weak;

static __always_inline struct frame *frame_at(struct thread_state *t, u32 i)
{
	return &t->frames[i & (REC_MAX_DEPTH - 1)];
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

/* ---- who ---- */

/* The task's pid in the pid namespace with this inode, 0 where it has none;
 * in its own namespace when inum is 0. */
__noinline u32 pid_in(u64 task_address, u32 inum)
{
	struct task_struct *task = (void *)task_address;
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	u32 level = BPF_CORE_READ(pid, level);
	struct upid upid;
	int i;

	for (i = 0; i < 8; i++) {
		/* from the innermost namespace outwards */
		if (level > 32)
			return 0;
		if (bpf_core_read(&upid, sizeof(upid),
				  (void *)pid + bpf_core_field_offset(struct pid, numbers) +
					  level * bpf_core_type_size(struct upid)))
			return 0;
		if (!inum || BPF_CORE_READ(upid.ns, ns.inum) == inum)
			return upid.nr;
		if (!level)
			return 0;
		level--;
	}
	return 0;
}

static __always_inline bool is_selected(struct task_struct *task, struct verdict *verdict)
{
	u32 pid;

	if (shared.select_pids) {
		pid = pid_in((u64)BPF_CORE_READ(task, group_leader), shared.pidns_ino);
		if (!bpf_map_lookup_elem(&pids, &pid))
			return false;
	}
	choose(task, verdict);
	return verdict->selected;
}

/* Wake the reader where it asked to be. The record is committed by now and
 * the reader looks at the ring after it has set `armed`, so one of both sees
 * the other. */
static __always_inline void wake_now(void)
{
	void *nothing;

	if (__sync_lock_test_and_set(&shared.armed, REC_ARMED_NO) == REC_ARMED_NO)
		return;
	nothing = bpf_ringbuf_reserve(&ring, 8, 0);
	if (nothing)
		bpf_ringbuf_discard(nothing, BPF_RB_FORCE_WAKEUP);
}

static __always_inline void wake_reader(void)
{
	u32 armed = READ_ONCE(shared.armed);

	if (armed == REC_ARMED_NO)
		return;
	if (armed == REC_ARMED_LEVEL && bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) < shared.wake_level &&
	    bpf_ringbuf_query(&names, BPF_RB_AVAIL_DATA) < shared.names_wake_level)
		return;
	wake_now();
}

/* Names of paths are gathered in a frame that is not in use yet. */
static __always_inline struct identity *identity_of(struct thread_state *t)
{
	_Static_assert(sizeof(struct identity) <=
			       sizeof(struct frame) - __builtin_offsetof(struct frame, rec),
		       "a frame is too small");
	return (void *)&frame_at(t, t->depth)->rec;
}

__noinline int add_exe(struct thread_state *t)
{
	struct climb c = {};

	if (!t)
		return 0;
	c.id = identity_of(t);
	identity_exe(&c);
	c.id->rec.exe_len = c.len;
	c.id->rec.flags |= c.whole ? 0 : REC_THREAD_EXE_CUT;
	return 0;
}

__noinline int add_cgroups(struct thread_state *t)
{
	struct cgroup *cgroup = cgroup_of_current(), *cgroup1 = cgroup1_of_current();
	struct climb c = {};
	struct identity *id;

	if (!t)
		return 0;
	id = c.id = identity_of(t);
	c.len = id->rec.exe_len;
	if (cgroup)
		identity_cgroup(&c, cgroup);
	id->rec.cgroup_len = c.len - id->rec.exe_len;
	id->rec.flags |= c.whole ? 0 : REC_THREAD_CGROUP_CUT;
	if (!cgroup1)
		return 0;
	identity_cgroup(&c, cgroup1);
	id->rec.cgroup1_len = c.len - id->rec.exe_len - id->rec.cgroup_len;
	id->rec.flags |= c.whole ? 0 : REC_THREAD_CGROUP1_CUT;
	return 0;
}

/* Its end is to be told whoever of its threads is the last. */
static __always_inline void know(u32 tgid, u32 what)
{
	u32 *known = bpf_map_lookup_elem(&processes, &tgid);

	if (!known)
		bpf_map_update_elem(&processes, &tgid, &what, BPF_ANY);
	else if (!(*known & what))
		__sync_fetch_and_or(known, what);
}

static __always_inline void describe(struct rec_thread *rec)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);

	__builtin_memset(rec, 0, sizeof(*rec));
	rec->kind = REC_THREAD;
	rec->uid = bpf_get_current_uid_gid();
	rec->pid_tgid = bpf_get_current_pid_tgid();
	rec->start_ns = BPF_CORE_READ(task, start_boottime);
	rec->process_start_ns = BPF_CORE_READ(leader, start_boottime);
	rec->cgroup = bpf_get_current_cgroup_id();
	rec->parent_tgid = BPF_CORE_READ(leader, real_parent, tgid);
	rec->forked = BPF_CORE_READ(leader, parent_exec_id) == (u32)BPF_CORE_READ(leader, self_exec_id);
	rec->pid = pid_in((u64)leader, shared.pidns_ino);
	rec->tid = pid_in((u64)task, shared.pidns_ino);
	rec->ns_pid = pid_in((u64)leader, 0);
	rec->ns_tid = pid_in((u64)task, 0);
	BPF_CORE_READ_STR_INTO(&rec->comm, leader, comm);
	bpf_get_current_comm(rec->thread, sizeof(rec->thread));
}

/* Says who the thread is, once and again after a new name. */
__noinline int announce(struct thread_state *t)
{
	struct identity *id;
	u32 len;

	if (!t)
		return 0;
	id = identity_of(t);
	describe(&id->rec);
	add_exe(t);
	add_cgroups(t);
	len = (u32)id->rec.exe_len + id->rec.cgroup_len + id->rec.cgroup1_len;
	if (len > REC_MAX_TEXT)
		return 0;
	if (bpf_ringbuf_output(&ring, id, sizeof(id->rec) + len, BPF_RB_NO_WAKEUP))
		return 0;
	know(t->pid_tgid >> 32, KNOWN_CALLS);
	wake_now(); /* what only /proc tells of it is to be read before it ends */
	t->announced = 1;
	return 1;
}

/* ---- reading through pointers ---- */

static __always_inline long read_user(void *dst, u32 size, const void *src, bool sleepable)
{
	if (sleepable)
		return bpf_copy_from_user(dst, size, src);
	return bpf_probe_read_user(dst, size, src);
}

/* bpf_probe_read_user_str() does not fault pages in; a sleepable program can
 * touch them first. */
static __always_inline long read_string(void *dst, u32 size, const void *src, bool sleepable)
{
	const void *next_page = (const void *)(((u64)src | 4095) + 1);
	u8 byte;

	if (sleepable) {
		if (bpf_copy_from_user(&byte, 1, src))
			return -1;
		if (next_page - src < size)
			bpf_copy_from_user(&byte, 1, next_page);
	}
	return bpf_probe_read_user_str(dst, size, src);
}

static __always_inline u64 word(const struct frame *f, u32 i)
{
	return *(const u64 *)(f->data + (i & 31) * 8);
}

/* Performs one op at the end of the frame's data. Returns whether a pointer led nowhere; NULL, which
 * callers pass for what they do not want, is no failure. */
static __always_inline bool read_op(struct frame *f, const struct rec_op *op, u64 ret, bool sleepable)
{
	u64 count = 1, ptr = op->arg == REC_ARG_RET ? ret : word(f, op->arg);
	u32 off = f->len, size = op->size;
	struct rec_slot *slot;
	long len = -1;

	if (off > REC_MAX_DATA || size > REC_MAX_SLOT)
		return false;
	slot = (void *)f->data + off;
	slot->count = 0;
	switch (op->kind) {
	case REC_OP_STRING_PTR:
		if (read_user(&ptr, sizeof(ptr), (void *)ptr, sleepable))
			break;
		/* fall through */
	case REC_OP_STRING:
		len = read_string(slot + 1, size, (void *)ptr, sleepable);
		if (len == size) {
			/* the last byte before the NUL tells a full buffer from a cut text */
			u8 next = 0;

			read_user(&next, 1, (void *)ptr + size - 1, sleepable);
			slot->count = next != 0;
		}
		if (len > 0)
			len--;
		break;
	case REC_OP_COUNTED:
	case REC_OP_ARRAY:
		count = word(f, op->arg2);
		if (op->kind == REC_OP_COUNTED) {
			u64 passed = count;

			count = 0;
			if (read_user(&count, op->flags & REC_COUNT64 ? 8 : 4, (void *)passed, sleepable))
				break;
		}
		if (!(op->flags & REC_COUNT64))
			count = (u32)count;
		slot->count = count > 0xffffffff ? 0xffffffff : count;
		if (!size)
			break;
		if (count > REC_MAX_SLOT / size)
			count = REC_MAX_SLOT / size;
		size *= count;
		/* fall through */
	case REC_OP_MEM:
		if (size > REC_MAX_SLOT)
			break;
		if (!size)
			len = 0;
		else if (!read_user(slot + 1, size, (void *)ptr, sleepable))
			len = size;
		break;
	}
	if (len < 0 || len > REC_MAX_SLOT)
		len = -1;
	slot->len = len;
	if (len < 0)
		len = 0;
	f->len = off + sizeof(*slot) + ((len + 7) & ~7);
	return slot->len < 0 && ptr;
}

/*
 * The ops [first, end) of a row; returns how many could not read. Functions
 * that are not static are verified by themselves, once, which keeps the time
 * to load short.
 */
static __always_inline int read_ops(struct frame *f, u32 row, u32 first, u32 end, u64 ret, bool sleepable)
{
	const struct rec_desc *desc = &shared.desc[row & (REC_MAX_ROWS - 1)];
	int failed = 0;
	u32 i;

	if (!f)
		return 0;
	for (i = 0; i < REC_MAX_OPS; i++) {
		if (i < first)
			continue;
		if (i >= end)
			break;
		failed += read_op(f, &desc->ops[i], ret, sleepable);
	}
	return failed;
}

__noinline int read_ops_plain(struct frame *f, u32 row, u32 first, u32 end, u64 ret)
{
	return read_ops(f, row, first, end, ret, false);
}

__noinline int read_ops_sleepable(struct frame *f, u32 row, u32 first, u32 end, u64 ret)
{
	return read_ops(f, row, first, end, ret, true);
}

/* ---- names ---- */

/* The slot of one op at the end of a name record. */
static __always_inline void read_name_op(struct name_record *n, const struct rec_op *op, u64 ret,
					 bool sleepable)
{
	u64 ptr = op->arg == REC_ARG_RET ? ret : *(u64 *)(n->data + (op->arg & 31) * 8);
	u32 off = n->len;
	struct rec_slot *slot;
	long len = -1;

	if (off > 512)
		return;
	slot = (void *)n->data + off;
	slot->count = 0;
	if (op->kind == REC_OP_MEM && op->size == 8) {
		if (!read_user(slot + 1, 8, (void *)ptr, sleepable))
			len = 8;
	} else if (op->kind == REC_OP_MEM && op->size == 16) { /* a device's UUID */
		if (!read_user(slot + 1, 16, (void *)ptr, sleepable))
			len = 16;
	} else if (op->kind == REC_OP_STRING || op->kind == REC_OP_STRING_PTR) {
		if (op->kind == REC_OP_STRING || !read_user(&ptr, sizeof(ptr), (void *)ptr, sleepable))
			len = read_string(slot + 1, REC_MAX_NAME, (void *)ptr, sleepable);
		slot->count = len == REC_MAX_NAME;
		if (len > 0)
			len--;
	}
	if (len < 0 || len > REC_MAX_NAME)
		len = -1;
	slot->len = len;
	if (len < 0)
		len = 0;
	n->len = off + sizeof(*slot) + ((len + 7) & ~7);
}

static __always_inline int read_name(struct name_record *n, u32 row, u64 ret, bool sleepable)
{
	const struct rec_desc *desc = &shared.desc[row & (REC_MAX_ROWS - 1)];
	u32 i;

	if (!n)
		return 0;
	for (i = 0; i < REC_MAX_OPS; i++) {
		if (i >= desc->nops)
			break;
		read_name_op(n, &desc->ops[i], ret, sleepable);
	}
	return 0;
}

__noinline int read_name_plain(struct name_record *n, u32 row, u64 ret)
{
	return read_name(n, row, ret, false);
}

__noinline int read_name_sleepable(struct name_record *n, u32 row, u64 ret)
{
	return read_name(n, row, ret, true);
}

/* A successful call of a row that names kernels or unloads them. */
static __always_inline void submit_name(struct frame *f, const struct rec_desc *desc, struct counters *c,
					bool sleepable)
{
	u32 words = (desc->nregs + desc->nstack) * 8, len;
	struct name_record *n;

	n = bpf_task_storage_get(&name_records, bpf_get_current_task_btf(), NULL,
				 BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!n) {
		c->v[REC_LOST_NAMES]++;
		return;
	}
	know(f->rec.pid_tgid >> 32, KNOWN_NAMES);
	n->rec = f->rec;
	n->rec.kind = REC_NAME;
	__builtin_memcpy(n->data, f->data, 256);
	n->len = words > 256 ? 256 : words;
	(sleepable ? read_name_sleepable : read_name_plain)(n, f->rec.cookie, f->rec.ret);
	len = n->len;
	if (len > sizeof(n->data))
		len = sizeof(n->data);
	if (bpf_ringbuf_output(&names, &n->rec, sizeof(n->rec) + len, BPF_RB_NO_WAKEUP))
		c->v[REC_LOST_NAMES]++;
}

/* ---- current devices ---- */

static __always_inline void context_key(struct context_key *key, u64 context)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	key->context = context;
	key->mm = (u64)BPF_CORE_READ(task, mm);
	key->process_start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
}

static __always_inline void context_known(u64 context, u32 device)
{
	struct context_key key;

	context_key(&key, context);
	bpf_map_update_elem(&contexts, &key, &device, BPF_ANY);
}

/* Inside of a call of the runtime an unknown context says nothing: the runtime makes its own device's
 * current. */
static __always_inline void context_current(struct thread_state *t, u64 context, bool inside)
{
	struct context_key key;
	u32 *device;

	context_key(&key, context);
	device = bpf_map_lookup_elem(&contexts, &key);
	if (device)
		t->device = *device;
	else if (!inside)
		t->device = REC_DEVICE_UNKNOWN;
	t->context = context;
}

static __always_inline void context_push(struct thread_state *t, u64 context, bool inside)
{
	u32 n = t->npushed++;

	if (n < MAX_PUSHED) {
		t->pushed[n].context = t->context;
		t->pushed[n].device = t->device;
	}
	context_current(t, context, inside);
}

static __always_inline void context_pop(struct thread_state *t)
{
	u32 n = t->npushed;

	t->context = 0;
	t->device = REC_DEVICE_UNKNOWN;
	if (!n)
		return;
	t->npushed = --n;
	if (n < MAX_PUSHED) {
		t->device = t->pushed[n].device;
		context_current(t, t->pushed[n].context, true);
	}
}

/* What the call that has just left the frame at this depth did to its thread's device. */
__noinline int follow(struct thread_state *t, u32 depth, u32 row)
{
	const struct rec_desc *desc = &shared.desc[row & (REC_MAX_ROWS - 1)];
	struct frame *f;
	u64 arg, out = 0;
	bool inside;
	u32 device;

	if (!t)
		return 0;
	f = frame_at(t, depth);
	inside = f->rec.depth;
	arg = word(f, desc->follow_arg);
	device = (u32)word(f, desc->follow_arg2) + 1;
	switch (desc->follow) {
	case REC_FOLLOW_DEVICE:
		t->device = (u32)arg + 1;
		break;
	case REC_FOLLOW_DEVICE_OUT:
		if (!bpf_probe_read_user(&out, 4, (void *)arg))
			t->device = (u32)out + 1;
		break;
	case REC_FOLLOW_UNKNOWN:
		t->device = REC_DEVICE_UNKNOWN;
		break;
	case REC_FOLLOW_RETAIN:
	case REC_FOLLOW_CREATE:
		if (bpf_probe_read_user(&out, 8, (void *)arg))
			break;
		context_known(out, device);
		if (desc->follow == REC_FOLLOW_CREATE)
			context_push(t, out, inside);
		else if (out == t->context) /* the runtime makes it current first */
			t->device = device;
		break;
	case REC_FOLLOW_SET:
		context_current(t, arg, inside);
		break;
	case REC_FOLLOW_PUSH:
		context_push(t, arg, inside);
		break;
	case REC_FOLLOW_DESTROY:
		if (arg != t->context)
			break;
		/* fall through */
	case REC_FOLLOW_POP:
		context_pop(t);
		break;
	}
	return 0;
}

/* ---- the stack of open calls ---- */

static __always_inline void frame_drop(struct frame *f, struct counters *c)
{
	if (f->muted)
		c->v[REC_MUTED]++;
	else if (f->state & REC_ROW_ON)
		c->v[REC_UNPAIRED]++;
	/* else: inside another call, counted as nested when it was entered */
}

#if defined(__TARGET_ARCH_x86)
/*
 * A second entry at the stack pointer of an open call: did that call jump
 * here (tail call), or was it left by longjmp and its caller calls anew? In
 * the first case its return address has been replaced by the kernel's return
 * trampoline, in the second the new call instruction has pushed its own.
 */
static __always_inline bool is_tail_call(const struct regs *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	u64 trampoline, return_address = 0;

	trampoline = BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
	bpf_probe_read_user(&return_address, sizeof(return_address), (void *)REGS_SP(ctx));
	return trampoline && trampoline == return_address;
}
#else
static __always_inline bool is_tail_call(const struct regs *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return ctx->x[30] == BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
}
#endif

enum entered { ENTER_NEW, ENTER_DUPLICATE };

/* Brings the stack in line with a call that begins at sp; says what the call is. */
static __always_inline enum entered settle(struct thread_state *t, const struct regs *ctx, u64 cookie,
					   struct counters *c)
{
	u64 sp = REGS_SP(ctx);
	u32 depth = t->depth, i;
	struct frame *top;

	if (!depth)
		return ENTER_NEW;
	for (i = 0; i < REC_MAX_DEPTH; i++) {
		if (!depth || frame_at(t, depth - 1)->sp >= sp)
			break;
		frame_drop(frame_at(t, --depth), c);
	}
	t->depth = depth;
	if (!depth)
		return ENTER_NEW;
	top = frame_at(t, depth - 1);
	if (top->sp != sp)
		return ENTER_NEW;
	if (top->rec.cookie != cookie && (u16)top->rec.cookie == (u16)cookie) {
		/* one function, two probes: tell once per thread, user space detaches the second */
		c->v[REC_DUPLICATE_CALLS]++;
		if (!t->duplicate_told) {
			struct rec_duplicate rec = {
				.kind = REC_DUPLICATE, .cookie = cookie, .first_cookie = top->rec.cookie};

			if (!bpf_ringbuf_output(&ring, &rec, sizeof(rec), BPF_RB_NO_WAKEUP))
				t->duplicate_told = 1;
		}
		return ENTER_DUPLICATE;
	}
	if (!is_tail_call(ctx)) {
		frame_drop(top, c);
		t->depth = depth - 1;
	}
	return ENTER_NEW;
}

static __always_inline struct thread_state *thread_get(struct counters *c)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *t = bpf_task_storage_get(&threads, task, NULL, 0);
	u32 gen = READ_ONCE(shared.select_gen); /* before it is decided: a change meanwhile counts later */
	struct verdict verdict;

	if (t && t->select_gen == gen)
		return t->selected ? t : NULL;
	if (!is_selected(task, &verdict)) {
		if (t) {
			t->selected = 0;
			t->select_gen = gen;
		}
		return NULL;
	}
	if (!t) {
		t = bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!t) {
			c->v[REC_ENTRIES]++;
			c->v[REC_LOST_STORAGE]++;
			return NULL;
		}
	}
	t->selected = 1;
	t->rejected = !verdict.accepted;
	t->select_gen = gen;
	t->pid_tgid = bpf_get_current_pid_tgid();
	return t;
}

/* What encloses others: it makes calls inside of it nested, and is their parent. */
#define REC_ROW_SOLID (REC_ROW_ON | REC_ROW_MUTED | REC_ROW_AROUND)

/* Returns true when the call has a frame and wants its return. */
static __always_inline bool enter(struct regs *ctx, bool sleepable)
{
	struct thread_state *t;
	const struct rec_desc *desc;
	struct counters *c;
	struct frame *f, *parent;
	u64 cookie;
	u32 row, depth, solid, nstack, sample_n = 0;
	enum turned turned = TURNED_NOT;
	bool nested;
	u8 state;

	if (!shared.recording)
		return false;
	cookie = bpf_get_attach_cookie(ctx);
	row = cookie & (REC_MAX_ROWS - 1);
	state = shared.row_state[row];
	if (state == REC_ROW_OFF)
		return false;
	c = my_counters();
	if (!c)
		return false;
	t = thread_get(c);
	if (!t)
		return false;
	c->v[REC_ENTRIES]++;
	if (settle(t, ctx, cookie, c) == ENTER_DUPLICATE)
		return false;
	depth = t->depth;
	parent = frame_at(t, depth - 1);
	solid = depth ? parent->solid : 0;
	nested = solid && !shared.nested;
	if (nested) {
		c->v[REC_NESTED]++;
		state &= REC_ROW_NAMES | REC_ROW_FOLLOW;
		if (!state)
			return false;
	} else {
		turned = t->rejected && state & (REC_ROW_ON | REC_ROW_REJECTED)
				 ? TURNED_FILTERED
				 : turned_at_entry(&shared.rules, &shared.desc[row], ctx, row, state,
						   &sample_n);
		if (turned) {
			count_turned(c, turned);
			/* of a process that is turned away, all that is inside is so, too */
			state &= REC_ROW_NAMES | REC_ROW_FOLLOW | (t->rejected ? 0 : REC_ROW_AROUND);
			if (!state)
				return false;
		}
	}
	if (depth >= REC_MAX_DEPTH) {
		if (!nested && !turned)
			c->v[REC_LOST_DEPTH]++;
		return false;
	}
	if (!t->announced && state & (REC_ROW_ON | REC_ROW_NAMES) && !announce(t))
		c->v[REC_LOST_THREADS]++;
	f = frame_at(t, depth);
	f->rec.start_ns = 0; /* on_look: not yet */
	barrier();
	f->sp = REGS_SP(ctx);
	f->muted = !nested && !turned && !(state & REC_ROW_ON);
	f->state = state;
	f->rec.cookie = cookie;
	f->rec.kind = REC_CALL;
	f->rec.flags = 0;
	f->solid = solid + !!(state & REC_ROW_SOLID);
	f->rec.depth = solid;
	f->rec.device = t->device;
	f->rec.pid_tgid = t->pid_tgid;
	f->rec.parent_cookie = 0;
	f->rec.parent_start_ns = 0;
	f->rec.sample_n = sample_n;
	if (solid) {
		bool is_solid = parent->state & REC_ROW_SOLID;

		f->rec.parent_cookie = is_solid ? parent->rec.cookie : parent->rec.parent_cookie;
		f->rec.parent_start_ns = is_solid ? parent->rec.start_ns : parent->rec.parent_start_ns;
	}
	t->depth = depth + 1;
	if (!(state & (REC_ROW_ON | REC_ROW_NAMES | REC_ROW_FOLLOW))) {
		f->rec.start_ns = bpf_ktime_get_boot_ns(); /* its children tell it */
		return true;
	}
	desc = &shared.desc[row];
	regs_args(ctx, (u64 *)f->data);
	f->len = (desc->nregs & 15) * 8;
	nstack = desc->nstack;
	if (nstack) {
		if (nstack > REC_MAX_STACK)
			nstack = REC_MAX_STACK;
		if (bpf_probe_read_user(f->data + f->len, nstack * 8, (void *)REGS_STACK_ARGS(ctx)))
			c->v[REC_READ_FAILED]++;
		f->len += nstack * 8;
	}
	if (desc->nentry && state & REC_ROW_ON)
		c->v[REC_READ_FAILED] +=
			(sleepable ? read_ops_sleepable : read_ops_plain)(f, row, 0, desc->nentry, 0);
	barrier();
	f->rec.start_ns = bpf_ktime_get_boot_ns();
	return true;
}

static __always_inline void submit(struct frame *f, struct counters *c, enum rec_counter as)
{
	u32 len = f->len;

	if (len > REC_MAX_DATA)
		len = REC_MAX_DATA;
	if (bpf_ringbuf_output(&ring, &f->rec, sizeof(f->rec) + len, BPF_RB_NO_WAKEUP)) {
		c->v[REC_LOST_RING]++;
		__sync_fetch_and_add(&shared.lost_by_row[f->rec.cookie & (REC_MAX_ROWS - 1)], 1);
	} else {
		c->v[as]++;
	}
	wake_reader();
}

/* The frame of the call that returns, frames above it dropped and it popped; NULL if it has none. */
static __always_inline struct frame *leave_frame(struct thread_state *t, u64 sp, u64 cookie,
						 struct counters *c)
{
	u32 depth = t->depth, i, top = depth;
	struct frame *f;

	for (i = 0; i < REC_MAX_DEPTH; i++) {
		if (!depth)
			return NULL;
		f = frame_at(t, depth - 1);
		if (f->sp > sp)
			return NULL;
		if (f->sp == sp && f->rec.cookie == cookie)
			break;
		depth--;
	}
	if (!depth || i == REC_MAX_DEPTH)
		return NULL;
	for (i = 0; i < REC_MAX_DEPTH; i++) {
		if (top <= depth)
			break;
		frame_drop(frame_at(t, --top), c);
	}
	t->depth = depth - 1;
	return frame_at(t, depth - 1);
}

/* A return without an entry, unless that was turned away, or its row is OFF and has its probes for a moment
 * yet.
 */
static __always_inline void count_orphan(const struct thread_state *t, u64 cookie)
{
	u32 row = cookie & (REC_MAX_ROWS - 1), state = shared.row_state[row];
	struct verdict verdict;
	struct counters *c;

	if (state == REC_ROW_OFF || (t && t->rejected) || may_be_turned(&shared.rules, row, state))
		return;
	c = my_counters();
	if (c && (t || is_selected(bpf_get_current_task_btf(), &verdict)))
		c->v[REC_ORPHAN_EXITS]++;
}

static __always_inline void leave(struct regs *ctx, bool sleepable)
{
	u64 now, ret = REGS_RET(ctx), cookie;
	bool success;
	const struct rec_desc *desc;
	struct thread_state *t;
	struct counters *c;
	struct frame *f;
	enum turned turned;

	if (!shared.recording)
		return;
	t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL, 0);
	cookie = bpf_get_attach_cookie(ctx);
	if (!t || !t->depth) {
		count_orphan(t, cookie);
		return;
	}
	now = bpf_ktime_get_boot_ns();
	c = my_counters();
	if (!c)
		return;
	f = leave_frame(t, REGS_ENTRY_SP(ctx), cookie, c);
	if (!f)
		return;
	if (f->muted)
		c->v[REC_MUTED]++;
	if (!(f->state & (REC_ROW_ON | REC_ROW_NAMES | REC_ROW_FOLLOW)))
		return;
	desc = &shared.desc[cookie & (REC_MAX_ROWS - 1)];
	f->rec.end_ns = now;
	f->rec.ret = ret;
	success = desc->success == REC_SUCCESS_ALWAYS || !(u32)ret;
	if (f->state & REC_ROW_FOLLOW && success)
		follow(t, t->depth, cookie);
	if (f->state & REC_ROW_NAMES && success)
		submit_name(f, desc, c, sleepable);
	if (!(f->state & REC_ROW_ON)) {
		if (f->state & REC_ROW_NAMES)
			wake_reader();
		return;
	}
	turned = turned_on_return(&shared.rules, desc, &f->rec, status_of(desc, ret), ret);
	if (turned) {
		count_turned(c, turned);
		if (f->state & REC_ROW_NAMES)
			wake_reader();
		return;
	}
	if (success && desc->nops > desc->nentry)
		c->v[REC_READ_FAILED] += (sleepable ? read_ops_sleepable : read_ops_plain)(
			f, cookie, desc->nentry, desc->nops, ret);
	submit(f, c, REC_SUBMITTED);
}

/* ---- the pairs ---- */

#define PAIR(suffix, sleepable)                                                   \
	SEC("uprobe/entry" #suffix)                                               \
	int on_entry##suffix(struct regs *ctx)                                    \
	{                                                                         \
		enter(ctx, sleepable);                                            \
		return 0;                                                         \
	}                                                                         \
	SEC("uprobe/return" #suffix)                                              \
	int on_return##suffix(struct regs *ctx)                                   \
	{                                                                         \
		leave(ctx, sleepable);                                            \
		return 0;                                                         \
	}                                                                         \
	SEC("uprobe/session" #suffix)                                             \
	int on_session##suffix(struct regs *ctx)                                  \
	{                                                                         \
		if (bpf_session_is_return()) {                                    \
			leave(ctx, sleepable);                                    \
			return 0;                                                 \
		}                                                                 \
		return !enter(ctx, sleepable); /* 1: the return is never armed */ \
	}

PAIR(, false)
PAIR(_sleepable, true)

/* ---- lives of threads ---- */

/* The calls of a thread that are under way and have no other end so far. */
static __always_inline u32 open_calls(struct thread_state *t)
{
	u32 depth = t->depth, i, n = 0;

	for (i = 0; i < REC_MAX_DEPTH; i++) {
		struct frame *f = frame_at(t, i);

		if (i >= depth)
			break;
		if (f->muted || f->state & REC_ROW_ON)
			n++;
	}
	return n;
}

/* Calls that still need the probes of rows that are OFF by now. */
static __always_inline u32 leaving_calls(struct thread_state *t)
{
	u32 depth = t->depth, i, n = 0;

	for (i = 0; i < REC_MAX_DEPTH; i++) {
		if (i >= depth)
			break;
		if (shared.row_state[frame_at(t, i)->rec.cookie & (REC_MAX_ROWS - 1)] == REC_ROW_OFF)
			n++;
	}
	return n;
}

/* Once recording has stopped nothing but this and on_look() touches the frames: one of them counts. */
static __always_inline u32 take_open_calls(struct thread_state *t)
{
	return __sync_lock_test_and_set(&t->counted, 1) ? 0 : open_calls(t);
}

/* What a thread leaves open when it ends or execs will not return. */
static __always_inline void close_frames(struct thread_state *t, struct counters *c)
{
	u32 depth = t->depth, i;
	enum turned turned;

	if (!shared.recording) {
		c->v[REC_LEFT_OPEN] += take_open_calls(t);
		return;
	}
	t->depth = 0;
	for (i = 0; i < REC_MAX_DEPTH; i++) {
		struct frame *f = frame_at(t, i);

		if (i >= depth)
			break;
		if (f->muted)
			c->v[REC_MUTED]++;
		if (!(f->state & REC_ROW_ON))
			continue;
		f->rec.flags |= REC_F_UNFINISHED;
		f->rec.end_ns = bpf_ktime_get_boot_ns();
		f->rec.ret = 0;
		turned = turned_on_return(&shared.rules, &shared.desc[f->rec.cookie & (REC_MAX_ROWS - 1)],
					  &f->rec, REC_STATUS_UNFINISHED, 0);
		if (turned)
			count_turned(c, turned);
		else
			submit(f, c, REC_UNFINISHED);
	}
}

/* What is known of a thread or, if @leader, of its process ends. */
static __always_inline void forget(struct rec_thread_exit *rec, bool announced)
{
	u32 tgid = rec->pid_tgid >> 32;
	bool known = rec->leader && !bpf_map_delete_elem(&processes, &tgid);

	rec->kind = REC_THREAD_EXIT;
	if ((announced || known) && !bpf_ringbuf_output(&ring, rec, sizeof(*rec), BPF_RB_NO_WAKEUP))
		wake_reader();
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *unused)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *t = bpf_task_storage_get(&threads, task, NULL, 0);
	bool last = BPF_CORE_READ(task, signal, live.counter) == 0;
	struct rec_thread_exit rec = {};
	struct counters *c = my_counters();

	if (t && c)
		close_frames(t, c);
	rec.leader = last;
	rec.pid_tgid = bpf_get_current_pid_tgid();
	rec.wait_status = BPF_CORE_READ(task, group_leader, exit_code);
	forget(&rec, t && t->announced);
	if (last && shared.select_pids) {
		u32 pid = pid_in((u64)BPF_CORE_READ(task, group_leader), shared.pidns_ino);

		bpf_map_delete_elem(&pids, &pid);
	}
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *unused)
{
	struct thread_state *t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL, 0);
	struct rec_thread_exit rec = {.leader = 1, .exec = 1};
	struct counters *c = my_counters();

	if (t && c)
		close_frames(t, c);
	/* what is known of the old image goes */
	rec.pid_tgid = t ? t->pid_tgid : bpf_get_current_pid_tgid();
	forget(&rec, t && t->announced);
	choose_anew(bpf_get_current_task_btf());
	if (t) {
		t->select_gen = 0;
		t->announced = 0;
		t->device = REC_DEVICE_UNSAID;
		t->context = 0;
		t->npushed = 0;
		t->pid_tgid = bpf_get_current_pid_tgid(); /* a thread that execs becomes the leader */
	}
	return 0;
}

/* A child has its parent's names; by its first call the parent may be gone. */
static __always_inline void tell_fork(struct task_struct *parent, struct task_struct *child)
{
	struct rec_fork rec = {.kind = REC_FORK, .parent_tgid = BPF_CORE_READ(parent, tgid)};
	u32 *known = bpf_map_lookup_elem(&processes, &rec.parent_tgid);

	if (!known || !(*known & KNOWN_NAMES))
		return;
	rec.tgid = BPF_CORE_READ(child, tgid);
	rec.process_start_ns = BPF_CORE_READ(child, start_boottime);
	rec.time_ns = bpf_ktime_get_boot_ns();
	know(rec.tgid, KNOWN_NAMES);
	if (!bpf_ringbuf_output(&ring, &rec, sizeof(rec), BPF_RB_NO_WAKEUP))
		wake_reader();
}

SEC("raw_tp/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 parent_pid, pid;
	u8 yes = 1;

	if (BPF_CORE_READ(child, pid) != BPF_CORE_READ(child, tgid))
		return 0;
	tell_fork(parent, child);
	if (!shared.select_pids || !shared.follow_children)
		return 0;
	parent_pid = pid_in((u64)BPF_CORE_READ(parent, group_leader), shared.pidns_ino);
	if (!bpf_map_lookup_elem(&pids, &parent_pid))
		return 0;
	pid = pid_in((u64)child, shared.pidns_ino);
	bpf_map_update_elem(&pids, &pid, &yes, BPF_ANY);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task)
{
	struct thread_state *t = bpf_task_storage_get(&threads, task, NULL, 0);

	choose_anew(task);
	if (t) {
		t->announced = 0;
		t->select_gen = 0;
	}
	return 0;
}

/* ---- a look at all threads ---- */

/* One open call as it is now. Its thread runs on meanwhile: the copy counts only if the call did not change.
 */
static __always_inline void tell_open(struct thread_state *t, u32 i, u64 now)
{
	struct frame *f = frame_at(t, i);
	u64 start = READ_ONCE(f->rec.start_ns);
	struct open_record *o;
	u32 zero = 0, len;

	if (!start || now < start + shared.open_after_ns || (f->told_start_ns == start && now < f->tell_ns))
		return;
	o = bpf_map_lookup_elem(&open_record, &zero);
	if (!o)
		return;
	len = f->len;
	if (len > REC_MAX_DATA)
		len = REC_MAX_DATA;
	bpf_probe_read_kernel(&o->rec, sizeof(o->rec) + len, &f->rec);
	barrier();
	if (READ_ONCE(f->rec.start_ns) != start || READ_ONCE(t->depth) <= i)
		return;
	o->rec.kind = REC_OPEN;
	o->rec.end_ns = now;
	if (bpf_ringbuf_output(&ring, o, sizeof(o->rec) + len, BPF_RB_NO_WAKEUP))
		return; /* next time */
	f->told_start_ns = start;
	f->tell_ns = now + (now - start);
	wake_reader();
}

SEC("iter/task")
int on_look(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread_state *t;
	u64 now;
	u32 i;

	if (!task)
		return 0;
	t = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!t)
		return 0;
	if (!shared.recording) {
		shared.open_calls += take_open_calls(t);
		return 0;
	}
	shared.open_calls += open_calls(t);
	shared.leaving_calls += leaving_calls(t);
	if (!shared.open_after_ns)
		return 0;
	now = bpf_ktime_get_boot_ns();
	for (i = 0; i < REC_MAX_DEPTH; i++) {
		if (i >= t->depth)
			break;
		if (frame_at(t, i)->state & REC_ROW_ON)
			tell_open(t, i, now);
	}
	return 0;
}
