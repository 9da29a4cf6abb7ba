/*
 * Who calls: whether the process is selected, and the thread record that goes
 * ahead of a thread's first call.
 */
#ifndef CUDATAP_THREAD_H
#define CUDATAP_THREAD_H

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
	if (bpf_ringbuf_output(&ring, id, sizeof(id->rec) + AT_MOST(len, REC_MAX_TEXT), BPF_RB_NO_WAKEUP))
		return 0;
	know(t->pid_tgid >> 32, KNOWN_CALLS);
	wake_now(); /* what only /proc tells of it is to be read before it ends */
	t->announced = 1;
	return 1;
}

#endif
