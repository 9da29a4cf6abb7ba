/*
 * Who a process is: the names of its executable's path and of its cgroups,
 * read from the kernel's structures, so that they are right for a process
 * that lives a millisecond and in any mount or cgroup namespace.
 *
 * Names are gathered from the leaf towards the root, each with its NUL: that
 * is the way in which the kernel links them.
 */
#ifndef CUDATAP_IDENTITY_H
#define CUDATAP_IDENTITY_H

#define IDENTITY_NAME  256 /* NAME_MAX and its NUL */
#define IDENTITY_DEPTH 32  /* names and mounts that are climbed */

/* A REC_THREAD record under construction. */
struct identity {
	struct rec_thread rec;
	char text[REC_MAX_TEXT];
};

/* The way from a leaf to its root. */
struct climb {
	struct identity *id;
	void *at;  /* a dentry or a cgroup's node */
	void *mnt; /* of a dentry */
	void *root, *root_mnt;
	u32 len; /* of the text so far */
	bool whole;
};

/* Appends one name; false when it has no room or cannot be read. */
static __always_inline bool climb_name(struct climb *c, const void *name)
{
	u32 len = c->len;
	long n;

	if (len > REC_MAX_TEXT - IDENTITY_NAME)
		return false;
	n = bpf_probe_read_kernel_str(c->id->text + AT_MOST(len, REC_MAX_TEXT - IDENTITY_NAME), IDENTITY_NAME,
				      name);
	if (n <= 0 || n > IDENTITY_NAME)
		return false;
	c->len = len + n;
	return true;
}

/*
 * The steps of a climb. A function that is called for each element of a map is
 * verified once, a loop for each of its turns: 32 are more than Linux 5.15 and
 * 6.1 put up with. bpf_loop() would be the plain way, and came with 5.17.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, IDENTITY_DEPTH);
	__type(key, u32);
	__type(value, u32);
} steps SEC(".maps");

/* A step's arguments; of them only the last is of interest. */
#define STEP(name, type, arg) long name(void *map_, const void *key_, void *value_, type *arg)
#define CLIMB(step, arg)      bpf_for_each_map_elem(&steps, step, arg, 0)

/* 1 ends a climb. */
static STEP(climb_path, struct climb, c)
{
	struct mount *mount = c->mnt - bpf_core_field_offset(struct mount, mnt), *up;
	struct dentry *dentry = c->at, *parent;

	if (dentry == c->root && c->mnt == c->root_mnt)
		goto whole;
	if (dentry == BPF_CORE_READ(mount, mnt.mnt_root)) {
		up = BPF_CORE_READ(mount, mnt_parent);
		if (up == mount || !up)
			goto whole;
		c->at = BPF_CORE_READ(mount, mnt_mountpoint);
		c->mnt = (void *)up + bpf_core_field_offset(struct mount, mnt);
		return 0;
	}
	if (!climb_name(c, BPF_CORE_READ(dentry, d_name.name)))
		return 1;
	parent = BPF_CORE_READ(dentry, d_parent);
	if (parent == dentry || !parent)
		goto whole;
	c->at = parent;
	return 0;
whole:
	c->whole = true;
	return 1;
}

static __always_inline struct kernfs_node *kernfs_parent(struct kernfs_node *kn)
{
	struct kernfs_node___old *old = (void *)kn;

	if (bpf_core_field_exists(old->parent))
		return BPF_CORE_READ(old, parent);
	return BPF_CORE_READ(kn, __parent);
}

static STEP(climb_cgroup, struct climb, c)
{
	struct kernfs_node *kn = c->at, *parent = kernfs_parent(kn);

	c->whole = !parent;
	if (!parent || !climb_name(c, BPF_CORE_READ(kn, name)))
		return 1;
	c->at = parent;
	return 0;
}

/* The path of the current process's executable below its root directory, as the process sees it. */
static __always_inline bool climb_exe_begin(struct climb *c)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct file *file = BPF_CORE_READ(task, mm, exe_file);

	if (!file)
		return false;
	c->root = BPF_CORE_READ(task, fs, root.dentry);
	c->root_mnt = BPF_CORE_READ(task, fs, root.mnt);
	c->at = BPF_CORE_READ(file, f_path.dentry);
	c->mnt = BPF_CORE_READ(file, f_path.mnt);
	return true;
}

static __always_inline void identity_exe(struct climb *c)
{
	if (climb_exe_begin(c))
		CLIMB(climb_path, c);
}

/* The names of a cgroup and those around it, without the root. */
static __always_inline void identity_cgroup(struct climb *c, struct cgroup *cgroup)
{
	c->at = BPF_CORE_READ(cgroup, kn);
	CLIMB(climb_cgroup, c);
}

static __always_inline struct cgroup *cgroup_of_current(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, cgroups, dfl_cgrp);
}

/* In the version 1 hierarchy that accounts for memory, NULL where version 2 does. */
static __always_inline struct cgroup *cgroup1_of_current(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct css_set *set = BPF_CORE_READ(task, cgroups);
	struct cgroup_subsys_state *state = NULL;
	struct cgroup *cgroup;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id))
		return NULL;
	bpf_core_read(&state, sizeof(state),
		      (void *)set + bpf_core_field_offset(struct css_set, subsys) +
			      bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id) * sizeof(void *));
	if (!state)
		return NULL;
	cgroup = BPF_CORE_READ(state, cgroup);
	if (BPF_CORE_READ(cgroup, root) == BPF_CORE_READ(set, dfl_cgrp, root))
		return NULL;
	return cgroup;
}

#endif
