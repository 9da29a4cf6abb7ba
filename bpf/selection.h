/*
 * Which processes are traced: by command name, user, executable, cgroup and
 * container. Decided once per thread, at its first call and again after a
 * new name or an exec, before anything is recorded.
 *
 * Patterns are names from the leaf towards the root, as identity.h gathers
 * them, so that what a path ends in is what its text begins with.
 */
#ifndef CUDATAP_SELECTION_H
#define CUDATAP_SELECTION_H

/* Set before load: what can not be selected by is not even verified. */
volatile const u32 select_kinds SEC(".rodata.select");

/* There are two sets of patterns in the same maps: those of the processes that are traced, and those of the
 * filter, which turns away calls of others, and counts them. @shift: 0 or REC_MATCH_FILTER. */
static __always_inline u32 match_of(const u32 *value, u32 shift)
{
	return value ? *value >> (shift & 7) : 0;
}

struct select_key {
	char text[REC_SELECT_TEXT];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, REC_SELECT_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct select_key);
	__type(value, u32); /* REC_MATCH_* */
} select_exes SEC(".maps"), select_cgroups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, REC_SELECT_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, char[REC_COMM_LEN]);
	__type(value, u32); /* REC_MATCH_* */
} select_comms SEC(".maps"), select_containers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, REC_SELECT_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u32);
} select_uids SEC(".maps");

/* What was decided. Threads that are not selected have nothing else. */
struct verdict {
	u32 gen; /* of shared.select_gen; 0: nothing */
	u8 selected, accepted;
	u16 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct verdict);
} verdicts SEC(".maps");

/* Where names are gathered to be looked up; there only meanwhile, and zero at first. */
struct gathered {
	struct identity id;
	struct select_key beyond; /* zero: a key may begin anywhere in the text */
	struct select_key name;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct gathered);
} gatherings SEC(".maps");

struct selecting {
	struct climb c;
	struct gathered *g;
	u32 at, found, shift;
};

static __always_inline struct gathered *gather(void)
{
	return bpf_task_storage_get(&gatherings, bpf_get_current_task_btf(), NULL,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* The next gathering begins with zeros again. */
static __always_inline void gathered(void)
{
	bpf_task_storage_delete(&gatherings, bpf_get_current_task_btf());
}

/* The path so far ends as a pattern does, or is one as a whole. */
static STEP(match_exe, struct selecting, s)
{
	long end = climb_path(map_, key_, value_, &s->c);
	u32 match = match_of(bpf_map_lookup_elem(&select_exes, s->g->id.text), s->shift);

	if (match & REC_MATCH_NAME || (match & REC_MATCH_WHOLE && s->c.whole)) {
		s->found = 1;
		return 1;
	}
	return end;
}

static __always_inline bool selected_by_exe(u32 shift)
{
	struct selecting s = {.shift = shift};

	s.g = gather();
	if (!s.g)
		return false;
	s.c.id = &s.g->id;
	if (climb_exe_begin(&s.c))
		CLIMB(match_exe, &s);
	gathered();
	return s.found;
}

/* The value of its pattern, 0: none. The last 64 characters of a name without ".scope", alone or behind a
 * runtime's name. */
__noinline int match_container(struct select_key *key_of_name, u32 len)
{
	char key[REC_COMM_LEN] = {}, *name, before;
	u32 start, *value;

	if (!(select_kinds & REC_SELECT_CONTAINERS) || !key_of_name)
		return 0;
	name = key_of_name->text;
	if (len > 6 && name[INDEX(len - 6, REC_SELECT_TEXT)] == '.')
		len -= 6;
	if (len < 64)
		return 0;
	start = INDEX(len - 64, REC_SELECT_TEXT);
	before = name[INDEX(start - 1, REC_SELECT_TEXT)];
	if (start && before != '-' && before != ':')
		return 0;
	if (start > REC_SELECT_TEXT - REC_SELECT_ID)
		return 0;
	__builtin_memcpy(key, name + AT_MOST(start, REC_SELECT_TEXT - REC_SELECT_ID), REC_SELECT_ID);
	value = bpf_map_lookup_elem(&select_containers, key);
	return value ? *value : 0;
}

/* One name of the chain, as such and with those around it. */
static STEP(match_cgroup, struct selecting, s)
{
	u32 at = s->at, match;
	const char *text;
	long n;

	if (at >= s->c.len || at >= REC_MAX_TEXT)
		return 1;
	text = s->g->id.text + AT_MOST(at, REC_MAX_TEXT - 1);
	__builtin_memset(&s->g->name, 0, sizeof(s->g->name));
	n = bpf_probe_read_kernel_str(s->g->name.text, sizeof(s->g->name.text), text);
	if (n <= 0 || n > REC_SELECT_TEXT)
		return 1;
	if (select_kinds & REC_SELECT_CGROUPS) {
		match = match_of(bpf_map_lookup_elem(&select_cgroups, text), s->shift);
		if (match & REC_MATCH_WHOLE && s->c.whole)
			s->found |= REC_SELECT_CGROUPS;
		match = match_of(bpf_map_lookup_elem(&select_cgroups, &s->g->name), s->shift);
		if (match & REC_MATCH_NAME)
			s->found |= REC_SELECT_CGROUPS;
	}
	if (select_kinds & REC_SELECT_CONTAINERS) {
		match = match_container(&s->g->name, n - 1);
		if (match_of(&match, s->shift) & REC_MATCH_WHOLE)
			s->found |= REC_SELECT_CONTAINERS;
	}
	s->at = at + n;
	return 0;
}

/* By which of REC_SELECT_CGROUPS and REC_SELECT_CONTAINERS it is selected. */
__noinline int match_chain(u64 address, u32 shift)
{
	struct cgroup *cgroup = (void *)address;
	struct selecting s = {.shift = shift};

	s.g = cgroup && select_kinds & (REC_SELECT_CGROUPS | REC_SELECT_CONTAINERS) ? gather() : NULL;
	if (!s.g)
		return 0;
	s.c.id = &s.g->id;
	identity_cgroup(&s.c, cgroup);
	CLIMB(match_cgroup, &s);
	gathered();
	return s.found;
}

static __always_inline bool selected_by_cgroup(u32 by, u32 shift)
{
	u32 wanted = by & (REC_SELECT_CGROUPS | REC_SELECT_CONTAINERS);
	u32 found =
		match_chain((u64)cgroup_of_current(), shift) | match_chain((u64)cgroup1_of_current(), shift);

	return (found & wanted) == wanted;
}

static __always_inline bool selected_by_comm(u32 shift)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	char comm[REC_COMM_LEN] = {}, key[REC_COMM_LEN] = {};
	u32 i;

	BPF_CORE_READ_STR_INTO(&comm, task, group_leader, comm);
	/* nothing behind the name */
	for (i = 0; i < REC_COMM_LEN; i++) {
		if (match_of(bpf_map_lookup_elem(&select_comms, key), shift) & REC_MATCH_PREFIX)
			return true;
		if (!comm[i])
			break;
		key[i] = comm[i];
	}
	return match_of(bpf_map_lookup_elem(&select_comms, key), shift) & REC_MATCH_WHOLE;
}

static __always_inline bool selected_by_uid(u32 shift)
{
	u32 uid = bpf_get_current_uid_gid();

	return match_of(bpf_map_lookup_elem(&select_uids, &uid), shift) & REC_MATCH_WHOLE;
}

/* Every way in which processes are selected must agree. @by: REC_SELECT_* */
__noinline int decide(u32 by, u32 shift)
{
	by &= select_kinds;
	if (select_kinds & REC_SELECT_UIDS && by & REC_SELECT_UIDS && !selected_by_uid(shift))
		return 0;
	if (select_kinds & REC_SELECT_COMMS && by & REC_SELECT_COMMS && !selected_by_comm(shift))
		return 0;
	if (select_kinds & REC_SELECT_EXE && by & REC_SELECT_EXE && !selected_by_exe(shift))
		return 0;
	if (select_kinds & (REC_SELECT_CGROUPS | REC_SELECT_CONTAINERS) &&
	    by & (REC_SELECT_CGROUPS | REC_SELECT_CONTAINERS) && !selected_by_cgroup(by, shift))
		return 0;
	return 1;
}

static __always_inline void decide_both(struct verdict *verdict)
{
	verdict->selected = decide(shared.select_by, 0);
	verdict->accepted = verdict->selected && decide(shared.filter_by, REC_MATCH_FILTER);
}

/* Of the current thread: what was decided before, else decided now. */
static __always_inline void choose(struct task_struct *task, struct verdict *ret_verdict)
{
	u32 gen =
		READ_ONCE(shared.select_gen); /* before it is decided: what changes meanwhile counts later */
	struct verdict *verdict;

	ret_verdict->selected = ret_verdict->accepted = 1;
	if (!select_kinds || !(shared.select_by | shared.filter_by))
		return;
	verdict = bpf_task_storage_get(&verdicts, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!verdict) {
		decide_both(ret_verdict);
		return;
	}
	if (verdict->gen != gen) {
		decide_both(verdict);
		verdict->gen = gen;
	}
	*ret_verdict = *verdict;
}

static __always_inline void choose_anew(struct task_struct *task)
{
	struct verdict *verdict = select_kinds ? bpf_task_storage_get(&verdicts, task, NULL, 0) : NULL;

	if (verdict)
		verdict->gen = 0;
}

#endif
