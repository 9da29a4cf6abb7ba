/*
 * The few kernel structures that the program looks into. Only names matter:
 * offsets are relocated against the running kernel's BTF at load (CO-RE), so
 * no generated vmlinux.h is needed.
 */
#ifndef CUDATAP_KERNEL_H
#define CUDATAP_KERNEL_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

struct xol_area {
	unsigned long vaddr;
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	struct path f_path;
};

struct fs_struct {
	struct path root;
};

struct mm_struct {
	struct uprobes_state uprobes_state;
	struct file *exe_file;
};

struct kernfs_node {
	struct kernfs_node *__parent;
	const char *name;
};

/* before 6.15 */
struct kernfs_node___old {
	struct kernfs_node *parent;
};

struct cgroup_root;

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct css_set {
	struct cgroup_subsys_state *subsys[1];
	struct cgroup *dfl_cgrp;
};

enum cgroup_subsys_id { memory_cgrp_id };

struct task_struct {
	int pid;
	int tgid;
	u64 start_boottime;
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	u32 parent_exec_id;
	u64 self_exec_id; /* u32 before 5.7: the low half is read */
	struct pid *thread_pid;
	struct signal_struct *signal;
	struct mm_struct *mm;
	struct fs_struct *fs;
	struct css_set *cgroups;
	int exit_code;
	char comm[REC_COMM_LEN];
};

/* what a program of type iter/task is given */
struct bpf_iter__task {
	void *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

#endif
