/*
 * Probes on files. uprobe_multi and session links hold any number of
 * functions each and take all or nothing: on refusal the set is halved until
 * the bad function stands alone. Classic probes are one perf event and one
 * link per function and side.
 *
 * Functions of one family have links of their own (and apart those that want
 * sleepable programs), so that a family can go while others stay. The return
 * side is attached before the entry side and closed after it (detach.c), so
 * that a recorded entry always has its return.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

/* BPF_LINK_CREATE's attributes for uprobe_multi; the headers of older distributions lack them. */
struct link_create_attr {
	uint32_t prog_fd, target_fd, attach_type, flags;
	union {
		struct {
			uint64_t path, offsets, ref_ctr_offsets, cookies;
			uint32_t cnt, flags, pid;
		} multi;
		struct {
			uint64_t cookie;
		} perf;
	};
};

/* What one call of capture_attach() works on. */
struct job {
	struct capture *capture;
	char path[64]; /* /proc/self/fd/N */
	unsigned attach_id;
	pid_t pid;
	bool sleepable;
	unsigned family;
	struct probe_set *set;
	struct capture_attached *result;
	/* functions of this family and sleepable class */
	uint64_t *offsets, *cookies;
	unsigned char *refused;
};

static int link_create(struct link_create_attr *attr)
{
	int fd = syscall(SYS_bpf, BPF_LINK_CREATE, attr, sizeof(*attr));

	return fd < 0 ? -errno : fd;
}

static int set_add(struct probe_set *set, int fd)
{
	int *fds = realloc(set->fds, (set->nfds + 1) * sizeof(*fds));

	if (!fds) {
		close(fd);
		return -ENOMEM;
	}
	set->fds = fds;
	fds[set->nfds++] = fd;
	return 0;
}

/* BPF_TRACE_UPROBE_SESSION and BPF_TRACE_UPROBE_MULTI of newer headers; classic probes have none. */
const uint32_t capture_attach_types[CAPTURE_NMETHODS] = {57, 48, 0};

static int multi_link(const struct job *job, int side, size_t first, size_t n)
{
	struct link_create_attr attr = {
		.prog_fd = job->capture->prog_fd[job->sleepable][side],
		.attach_type = capture_attach_types[job->capture->method],
		.multi =
			{
				.path = (uintptr_t)job->path,
				.offsets = (uintptr_t)(job->offsets + first),
				.cookies = (uintptr_t)(job->cookies + first),
				.cnt = n,
				.flags = side == SIDE_RETURN, /* BPF_F_UPROBE_MULTI_RETURN */
				.pid = job->pid,
			},
	};

	return link_create(&attr);
}

/* A link of this process, if any, on a file without functions, which fails. Returns how. */
static int try_link(int prog, enum capture_method method, pid_t pid)
{
	uint64_t offset = 0;
	struct link_create_attr attr = {
		.prog_fd = prog,
		.attach_type = capture_attach_types[method],
		.multi = {.path = (uintptr_t) "/", .offsets = (uintptr_t)&offset, .cnt = 1, .pid = pid},
	};
	int link = link_create(&attr);

	if (link >= 0)
		close(link);
	return link;
}

int capture_try_method(enum capture_method method, bool *ret_binds)
{
	static const struct bpf_insn nothing[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K},
						  {.code = BPF_JMP | BPF_EXIT}};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = capture_attach_types[method]);
	int prog, result;

	*ret_binds = true;
	if (method == CAPTURE_CLASSIC)
		return 0;
	prog = bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", nothing, 2, &opts);
	if (prog < 0)
		return prog;
	/* a directory has no functions, say the kernels that know the link; others do not look at it */
	result = try_link(prog, method, 0) == -EBADF ? 0 : -EOPNOTSUPP;
	/* those that took the process for a thread did not know yet that none has this number */
	*ret_binds = try_link(prog, method, -1) == -EINVAL;
	close(prog);
	return result;
}

/* A number from the uprobe PMU's sysfs files, such as "6" or "config:0". */
static int pmu_number(const char *file)
{
	char path[128], text[32] = "", *digits;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/uprobe/%s", file);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	if (!fgets(text, sizeof(text), f))
		text[0] = 0;
	fclose(f);
	digits = strpbrk(text, "0123456789");
	return digits ? atoi(digits) : -EINVAL;
}

static int classic_link(const struct job *job, int side, size_t i)
{
	struct link_create_attr link = {.attach_type = BPF_PERF_EVENT, .perf.cookie = job->cookies[i]};
	int type = pmu_number("type"), retprobe = pmu_number("format/retprobe");
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = type,
		.config1 = (uintptr_t)job->path,
		.config2 = job->offsets[i],
		/* The probe is there all the same and runs its program. An event that counts is scheduled
		 * anew with all others of its CPU whenever one comes: thousands then take minutes. */
		.disabled = 1,
	};
	int event, fd;

	if (side == SIDE_RETURN && retprobe >= 0)
		attr.config = 1ull << retprobe;
	if (type < 0 || retprobe < 0 || retprobe > 63)
		return type < 0 ? type : -EINVAL; /* a kernel without uprobe events */
	event = syscall(SYS_perf_event_open, &attr, job->pid ? job->pid : -1, job->pid ? -1 : 0, -1,
			PERF_FLAG_FD_CLOEXEC);
	if (event < 0)
		return -errno;
	link.prog_fd = job->capture->prog_fd[job->sleepable][side];
	link.target_fd = event;
	fd = link_create(&link);
	close(event); /* the link keeps the event */
	return fd;
}

static void refuse(struct job *job, size_t i, int err)
{
	if (!job->result->error)
		job->result->error = -err;
	job->result->failed++;
	job->refused[i] = 1;
}

/* One side of functions [first, first + n); a set that is refused is halved. */
static void attach_side(struct job *job, int side, size_t first, size_t n)
{
	bool classic = job->capture->method == CAPTURE_CLASSIC;
	size_t half = n / 2;
	int fd;

	if (!n || (n == 1 && job->refused[first]))
		return;
	fd = classic && n > 1 ? -E2BIG
	     : classic        ? classic_link(job, side, first)
			      : multi_link(job, side, first, n);
	if (job->capture->progress)
		job->capture->progress(job->capture->progress_ctx);
	if (fd >= 0) {
		fd = set_add(job->set, fd);
		if (fd < 0)
			refuse(job, first, fd);
		return;
	}
	if (n == 1) {
		refuse(job, first, fd);
		return;
	}
	if (fd == -EPERM || fd == -EACCES || fd == -ESRCH || fd == -EMFILE || fd == -ENFILE) {
		/* no smaller set will do better */
		refuse(job, first, fd);
		job->result->failed += n - 1;
		memset(job->refused + first, 1, n);
		return;
	}
	attach_side(job, side, first, half);
	attach_side(job, side, first + half, n - half);
}

static size_t choose(struct job *job, const struct find_function *functions, size_t n)
{
	size_t i, chosen = 0;

	for (i = 0; i < n; i++) {
		const struct table_row *row = &table_rows[functions[i].row];
		bool names = row->flags & TABLE_BRINGS_NAMES;

		if (row->family != job->family || (names && job->capture->sleepable) != job->sleepable)
			continue;
		job->offsets[chosen] = functions[i].offset;
		job->cookies[chosen++] = (uint64_t)job->attach_id << 16 | functions[i].row;
	}
	return chosen;
}

static struct probe_set *set_new(struct capture *capture, unsigned attach_id)
{
	struct probe_set *sets = realloc(capture->sets, (capture->nsets + 1) * sizeof(*sets));

	if (!sets)
		return NULL;
	capture->sets = sets;
	memset(&sets[capture->nsets], 0, sizeof(*sets));
	sets[capture->nsets].attach_id = attach_id;
	return &sets[capture->nsets++];
}

static void attach_sides(struct job *job, size_t n)
{
	if (job->capture->method == CAPTURE_SESSION) {
		attach_side(job, SIDE_SESSION, 0, n);
		return;
	}
	attach_side(job, SIDE_RETURN, 0, n);
	job->set->nreturn = job->set->nfds;
	attach_side(job, SIDE_ENTRY, 0, n);
}

/* The functions of one family and class. Returns 0 or -ENOMEM. */
static int attach_class(struct job *job, const struct find_function *functions, size_t n)
{
	size_t chosen = choose(job, functions, n), i;

	if (!chosen)
		return 0;
	job->set = set_new(job->capture, job->attach_id);
	if (!job->set)
		return -ENOMEM;
	memset(job->refused, 0, n);
	attach_sides(job, chosen);
	for (i = 0; i < chosen; i++) {
		unsigned row = job->cookies[i] & 0xffff;

		if (job->refused[i])
			continue;
		job->set->functions++;
		job->set->rows[row / 64] |= 1ull << row % 64;
	}
	job->result->functions += job->set->functions;
	if (!job->set->nfds)
		job->capture->nsets--;
	return 0;
}

void capture_need_files(const struct capture *capture, size_t more)
{
	struct rlimit limit;
	size_t i;

	more += CAPTURE_OTHER_FILES;
	for (i = 0; i < capture->nsets; i++)
		more += capture->sets[i].nfds + 1; /* and the file's own */
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= more)
		return;
	if (limit.rlim_max < more)
		limit.rlim_max = more; /* needs CAP_SYS_RESOURCE */
	limit.rlim_cur = more;
	if (setrlimit(RLIMIT_NOFILE, &limit) && !getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit); /* as far as it goes: what does not fit is reported */
	}
}

int capture_attach(struct capture *capture, int fd, unsigned attach_id, const struct find_function *functions,
		   size_t n, pid_t pid, struct capture_attached *ret_attached)
{
	struct job job = {.capture = capture, .attach_id = attach_id, .pid = pid, .result = ret_attached};
	int err = -ENOMEM, sleepable, stopped[2] = {-1, -1};

	if (capture->method == CAPTURE_CLASSIC)
		closers_stop(stopped);
	memset(ret_attached, 0, sizeof(*ret_attached));
	snprintf(job.path, sizeof(job.path), "/proc/self/fd/%d", fd);
	job.offsets = calloc(n + 1, sizeof(*job.offsets));
	job.cookies = calloc(n + 1, sizeof(*job.cookies));
	job.refused = calloc(n + 1, 1);
	if (job.offsets && job.cookies && job.refused) {
		capture_need_files(capture, capture->method == CAPTURE_CLASSIC ? 2 * n : 4 * table_nfamilies);
		err = 0;
		for (sleepable = 0; sleepable < 2; sleepable++) {
			job.sleepable = sleepable;
			for (job.family = 0; job.family < table_nfamilies && !err; job.family++)
				err = attach_class(&job, functions, n);
		}
	}
	if (!err && !ret_attached->functions)
		err = -(ret_attached->error ? ret_attached->error : ENOENT);
	free(job.offsets);
	free(job.cookies);
	free(job.refused);
	closers_go_on(stopped);
	return err;
}
