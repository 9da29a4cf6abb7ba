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
#include "bound.h"
#include "kernel.h"
#include "identity.h"
#include "selection.h"
#include "rules.h"

char LICENSE[] SEC("license") = "GPL";

#include "state.h"
#include "thread.h"
#include "read.h"
#include "names.h"
#include "device.h"
#include "calls.h"

/* ---- the pairs ---- */

/*
 * Which end of the call is it? At entry the program counter is at the function, on return behind the call
 * instruction. The kernel's own answer, bpf_session_is_return(), has another signature since Linux 7.0.
 */
static __always_inline bool is_return(struct regs *ctx)
{
	return REGS_IP(ctx) != bpf_get_func_ip(ctx);
}

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
		if (is_return(ctx)) {                                             \
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
		if (shared.row_state[INDEX(frame_at(t, i)->rec.cookie, REC_MAX_ROWS)] == REC_ROW_OFF)
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
		turned = turned_on_return(&shared.rules, &shared.desc[INDEX(f->rec.cookie, REC_MAX_ROWS)],
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
	u32 zero = 0;
	u64 len;

	if (!start || now < start + shared.open_after_ns || (f->told_start_ns == start && now < f->tell_ns))
		return;
	o = bpf_map_lookup_elem(&open_record, &zero);
	if (!o)
		return;
	len = AT_MOST(f->len, REC_MAX_DATA);
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
