/* The stack of open calls: entering, leaving, and what was left behind. */
#ifndef CUDATAP_CALLS_H
#define CUDATAP_CALLS_H

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
	u64 cookie, nregs, nstack;
	u32 row, depth, solid, sample_n = 0;
	enum turned turned = TURNED_NOT;
	bool nested;
	u8 state;

	if (!shared.recording)
		return false;
	cookie = bpf_get_attach_cookie(ctx);
	row = INDEX(cookie, REC_MAX_ROWS);
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
	nregs = AT_MOST(desc->nregs, REC_MAX_REGS);
	nstack = AT_MOST(desc->nstack, REC_MAX_STACK);
	if (nstack && bpf_probe_read_user(f->data + nregs * 8, nstack * 8, (void *)REGS_STACK_ARGS(ctx)))
		c->v[REC_READ_FAILED]++;
	f->len = (nregs + nstack) * 8;
	if (desc->nentry && state & REC_ROW_ON)
		c->v[REC_READ_FAILED] +=
			(sleepable ? read_ops_sleepable : read_ops_plain)(f, row, 0, desc->nentry, 0);
	barrier();
	f->rec.start_ns = bpf_ktime_get_boot_ns();
	return true;
}

static __always_inline void submit(struct frame *f, struct counters *c, enum rec_counter as)
{
	if (bpf_ringbuf_output(&ring, &f->rec, sizeof(f->rec) + AT_MOST(f->len, REC_MAX_DATA),
			       BPF_RB_NO_WAKEUP)) {
		c->v[REC_LOST_RING]++;
		__sync_fetch_and_add(&shared.lost_by_row[INDEX(f->rec.cookie, REC_MAX_ROWS)], 1);
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
	u32 row = INDEX(cookie, REC_MAX_ROWS), state = shared.row_state[row];
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
	desc = &shared.desc[INDEX(cookie, REC_MAX_ROWS)];
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

#endif
