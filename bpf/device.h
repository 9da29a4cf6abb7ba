/* A thread's current device, followed through the calls that change it. */
#ifndef CUDATAP_DEVICE_H
#define CUDATAP_DEVICE_H

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

/* 0 where that is not known. */
static __always_inline u32 context_device(u64 context)
{
	struct context_key key;
	u32 *device;

	context_key(&key, context);
	device = bpf_map_lookup_elem(&contexts, &key);
	return device ? *device : 0;
}

/* Its address may be another context's soon. */
static __always_inline void context_gone(u64 context)
{
	struct context_key key;

	context_key(&key, context);
	bpf_map_delete_elem(&contexts, &key);
}

/* The runtime makes the context of this device current, at once or at the next call. */
static __always_inline void device_current(struct thread_state *t, u32 device)
{
	t->device = device;
	if (context_device(t->context) != device)
		t->context = 0;
}

/* Inside of a call of the runtime an unknown context says nothing: the runtime makes its own device's
 * current. */
static __always_inline void context_current(struct thread_state *t, u64 context, bool inside)
{
	u32 device = context_device(context);

	if (device)
		t->device = device;
	else if (!inside)
		t->device = REC_DEVICE_UNKNOWN;
	t->context = context;
}

static __always_inline void context_push(struct thread_state *t, u64 context, bool inside)
{
	u32 n = t->npushed++;

	if (n < MAX_PUSHED) {
		struct pushed *pushed = &t->pushed[INDEX(n, MAX_PUSHED)];

		pushed->context = t->context;
		pushed->device = t->device;
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
		struct pushed *pushed = &t->pushed[INDEX(n, MAX_PUSHED)];

		t->device = pushed->device;
		context_current(t, pushed->context, true);
	}
}

/* What the call that has just left the frame at this depth did to its thread's device. */
__noinline int follow(struct thread_state *t, u32 depth, u32 row)
{
	const struct rec_desc *desc = &shared.desc[INDEX(row, REC_MAX_ROWS)];
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
		device_current(t, (u32)arg + 1);
		break;
	case REC_FOLLOW_KEEP:
		device_current(t, f->rec.device);
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
	case REC_FOLLOW_SAME:
		device = context_device(word(f, desc->follow_arg2));
		if (device && !bpf_probe_read_user(&out, 8, (void *)arg))
			context_known(out, device);
		break;
	case REC_FOLLOW_SET:
		context_current(t, arg, inside);
		break;
	case REC_FOLLOW_PUSH:
		context_push(t, arg, inside);
		break;
	case REC_FOLLOW_DESTROY:
		context_gone(arg);
		if (arg != t->context)
			break;
		/* fall through */
	case REC_FOLLOW_POP:
		context_pop(t);
		break;
	}
	return 0;
}

#endif
