/*
 * Loading the BPF program: the method is tried from the best to the oldest
 * until the kernel takes one, then the shared page is mapped.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

extern const char capture_object[], capture_object_end[];

const char *const capture_method_names[CAPTURE_NMETHODS] = {"session", "multi", "classic"};

#define PAIRED (1 << CAPTURE_MULTI | 1 << CAPTURE_CLASSIC)

static const struct program {
	const char *name;
	bool sleepable;
	int side;
	unsigned methods; /* bit per enum capture_method */
} programs[] = {
	{"on_entry", false, SIDE_ENTRY, PAIRED},
	{"on_return", false, SIDE_RETURN, PAIRED},
	{"on_session", false, SIDE_SESSION, 1 << CAPTURE_SESSION},
	{"on_entry_sleepable", true, SIDE_ENTRY, PAIRED},
	{"on_return_sleepable", true, SIDE_RETURN, PAIRED},
	{"on_session_sleepable", true, SIDE_SESSION, 1 << CAPTURE_SESSION},
};
#define NPROGRAMS (sizeof(programs) / sizeof(programs[0]))

/* What is tried, from the best to the oldest. Sleepable programs on classic probes came with Linux 6.0. */
static const struct attempt {
	enum capture_method method;
	bool sleepable;
} attempts[] = {
	{CAPTURE_SESSION, true},
	{CAPTURE_MULTI, true},
	{CAPTURE_CLASSIC, true},
	{CAPTURE_CLASSIC, false},
};
#define NATTEMPTS (sizeof(attempts) / sizeof(attempts[0]))

static const char *const tracepoints[] = {"on_exit", "on_exec", "on_fork", "on_rename"};
#define NTRACEPOINTS (sizeof(tracepoints) / sizeof(tracepoints[0]))

/* libbpf's own words are of no use to users; CUDATAP_DEBUG=1 shows them to developers. */
static int print_libbpf(enum libbpf_print_level level, const char *format, va_list args)
{
	return vfprintf(stderr, format, args);
}

static int print_nothing(enum libbpf_print_level level, const char *format, va_list args)
{
	return 0;
}

/* PROC_PID_INIT_INO of the kernel's linux/proc_ns.h */
#define INITIAL_PIDNS 0xeffffffcu

static uint32_t pidns_ino(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : (uint32_t)st.st_ino;
}

static bool is_used(const struct program *program, const struct attempt *attempt)
{
	return program->methods & 1u << attempt->method && (!program->sleepable || attempt->sleepable);
}

static void prepare_programs(struct bpf_object *object, const struct attempt *attempt)
{
	struct bpf_program *prog;
	size_t i;

	for (i = 0; i < NPROGRAMS; i++) {
		prog = bpf_object__find_program_by_name(object, programs[i].name);
		bpf_program__set_autoload(prog, is_used(&programs[i], attempt));
		bpf_program__set_expected_attach_type(prog, capture_attach_types[attempt->method]);
		if (programs[i].sleepable)
			bpf_program__set_flags(prog, BPF_F_SLEEPABLE);
	}
}

static int map_shared(struct capture *capture, const struct capture_options *options)
{
	struct bpf_map *map = bpf_object__find_map_by_name(capture->object, ".bss");
	long page = sysconf(_SC_PAGESIZE);
	struct rec_shared *shared;
	unsigned i;

	if (!map || bpf_map__value_size(map) < sizeof(*shared))
		return -EINVAL;
	capture->shared_size = (sizeof(*shared) + page - 1) / page * page;
	shared = mmap(NULL, capture->shared_size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
	if (shared == MAP_FAILED)
		return -errno;
	capture->shared = shared;
	shared->nested = options->nested;
	shared->select_pids = options->select_pids;
	shared->follow_children = options->follow_children;
	shared->select_gen = 1;
	shared->pidns_ino = pidns_ino();
	shared->open_after_ns = options->open_after_ns;
	shared->wake_level = options->ring_size / 4;
	shared->names_wake_level =
		bpf_map__max_entries(bpf_object__find_map_by_name(capture->object, "names")) / 4;
	for (i = 0; i < table_nrows; i++) {
		shared->desc[i] = options->plans[i].desc;
		shared->row_state[i] = options->row_state[i];
	}
	return 0;
}

static int attach_tracepoints(struct capture *capture)
{
	size_t i;

	for (i = 0; i < NTRACEPOINTS; i++) {
		struct bpf_program *prog = bpf_object__find_program_by_name(capture->object, tracepoints[i]);

		capture->tracepoints[i] = bpf_program__attach(prog);
		if (!capture->tracepoints[i])
			return -errno;
	}
	capture->look =
		bpf_program__attach_iter(bpf_object__find_program_by_name(capture->object, "on_look"), NULL);
	return capture->look ? 0 : -errno;
}

static void unload(struct capture *capture)
{
	size_t i;

	for (i = 0; i < NTRACEPOINTS; i++) {
		bpf_link__destroy(capture->tracepoints[i]);
		capture->tracepoints[i] = NULL;
	}
	bpf_link__destroy(capture->look);
	capture->look = NULL;
	ring_close(capture);
	if (capture->shared)
		munmap(capture->shared, capture->shared_size);
	capture->shared = NULL;
	bpf_object__close(capture->object);
	capture->object = NULL;
}

static int load_with(struct capture *capture, const struct capture_options *options,
		     const struct attempt *attempt)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "cudatap");
	struct bpf_object *object;
	size_t i;
	int err;

	err = capture_try_method(attempt->method, &capture->binds);
	if (err)
		return err;
	capture->ncpus = libbpf_num_possible_cpus();
	if (capture->ncpus < 0)
		return capture->ncpus;
	object = bpf_object__open_mem(capture_object, capture_object_end - capture_object, &opts);
	if (!object)
		return -errno;
	capture->object = object;
	capture->method = attempt->method;
	capture->sleepable = attempt->sleepable;
	prepare_programs(object, attempt);
	bpf_map__set_max_entries(bpf_object__find_map_by_name(object, "ring"), options->ring_size);
	err = select_prepare(object, options);
	if (err)
		return err;
	err = bpf_object__load(object);
	if (err)
		return err;
	for (i = 0; i < NPROGRAMS; i++)
		if (is_used(&programs[i], attempt))
			capture->prog_fd[programs[i].sleepable][programs[i].side] =
				bpf_program__fd(bpf_object__find_program_by_name(object, programs[i].name));
	capture->pids_fd = bpf_object__find_map_fd_by_name(object, "pids");
	capture->counters_fd = bpf_object__find_map_fd_by_name(object, "counters");
	capture->ring_fd = bpf_object__find_map_fd_by_name(object, "ring");
	capture->names_fd = bpf_object__find_map_fd_by_name(object, "names");
	err = map_shared(capture, options);
	if (!err)
		err = capture_select(capture, &options->processes, &options->accepted);
	if (!err)
		err = ring_open(capture);
	if (!err)
		err = attach_tracepoints(capture);
	return err;
}

static void explain(int err, const struct capture_options *options, char *error, size_t size)
{
	if (err == -EPERM)
		snprintf(error, size,
			 "not allowed to load the BPF program: give the executable its capabilities "
			 "(`make install` shows how) or run as root; "
			 "the row `rights` of `cudatap doctor` says what is missing");
	else if (access("/sys/kernel/btf/vmlinux", R_OK))
		snprintf(error, size,
			 "this kernel has no BTF (/sys/kernel/btf/vmlinux): a kernel built with "
			 "CONFIG_DEBUG_INFO_BTF is needed, as distributions ship since 5.15");
	else if (err == -EMFILE || err == -ENFILE)
		snprintf(error, size, "%s: raise the limit (`ulimit -n`)", strerror(-err));
	else if (err == -ENOMEM)
		snprintf(error, size, "no memory for a ring of %llu bytes: make ring.size smaller",
			 (unsigned long long)options->ring_size);
	else
		snprintf(error, size,
			 "cannot load the BPF program (%s): Linux 5.15 or newer and enough memory (`ulimit "
			 "-v`) are needed; `cudatap doctor` says more",
			 strerror(-err));
}

/* Without enough to begin with libraries could not be read, and their calls would be lost without a word. */
static int too_few_files(char *error, size_t size)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= CAPTURE_OTHER_FILES)
		return 0;
	snprintf(error, size,
		 "%llu open files are allowed, %d are needed at least: raise the limit (`ulimit -n`)",
		 (unsigned long long)limit.rlim_cur, CAPTURE_OTHER_FILES);
	return -EMFILE;
}

int capture_new(const struct capture_options *options, struct capture **ret_capture, char *error,
		size_t error_size)
{
	struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	struct capture *capture = calloc(1, sizeof(*capture));
	int err = -ENOMEM;
	size_t i;

	if (!capture)
		return -ENOMEM;
	capture->plans = options->plans;
	capture->flush_ns = options->flush_ns;
	capture->progress = options->progress;
	capture->progress_ctx = options->progress_ctx;
	capture->epoll_fd = capture->wake_fd = -1;
	closing_init(&capture->closing);
	libbpf_set_print(getenv("CUDATAP_DEBUG") ? print_libbpf : print_nothing);
	setrlimit(RLIMIT_MEMLOCK, &unlimited); /* what maps are charged to before kernel 5.11 */
	capture_need_files(capture, 0);
	err = too_few_files(error, error_size);
	if (err) {
		free(capture);
		return err;
	}
	for (i = 0; i < NATTEMPTS; i++) {
		if (options->method != CAPTURE_AUTO && options->method != attempts[i].method)
			continue;
		err = load_with(capture, options, &attempts[i]);
		if (!err) {
			*ret_capture = capture;
			return 0;
		}
		unload(capture);
		if (err == -EPERM || err == -ENOMEM)
			break;
	}
	explain(err, options, error, error_size);
	free(capture);
	return err;
}

void capture_free(struct capture *capture)
{
	if (!capture)
		return;
	if (capture->shared)
		capture_record(capture, false);
	capture_detach_all(capture);
	unload(capture);
	free(capture);
}

enum capture_method capture_method(const struct capture *capture)
{
	return capture->method;
}

bool capture_binds(const struct capture *capture)
{
	return capture->binds;
}

void capture_unbind(struct capture *capture)
{
	capture->binds = false;
}

void capture_record(struct capture *capture, bool on)
{
	__atomic_store_n(&capture->shared->recording, on, __ATOMIC_SEQ_CST);
}

int capture_select_pid(struct capture *capture, pid_t pid, bool selected)
{
	uint32_t key = pid;
	uint8_t yes = 1;
	int err;

	if (selected)
		err = bpf_map_update_elem(capture->pids_fd, &key, &yes, BPF_ANY);
	else
		err = bpf_map_delete_elem(capture->pids_fd, &key);
	/* threads decide anew at their next call */
	__atomic_fetch_add(&capture->shared->select_gen, 1, __ATOMIC_SEQ_CST);
	return err ? -errno : 0;
}

size_t capture_selected_pids(const struct capture *capture)
{
	uint32_t key = 0, next;
	size_t n = 0;

	for (; !bpf_map_get_next_key(capture->pids_fd, n ? &key : NULL, &next); key = next)
		n++;
	return n;
}

void capture_switch(struct capture *capture, const struct capture_switch *to)
{
	struct rec_shared *shared = capture->shared;
	unsigned i;

	capture->flush_ns = to->flush_ns;
	__atomic_store_n(&shared->nested, to->nested, __ATOMIC_RELAXED);
	__atomic_store_n(&shared->open_after_ns, to->open_after_ns, __ATOMIC_RELAXED);
	for (i = 0; i < table_nrows; i++) {
		const struct rec_desc *desc = &capture->plans[i].desc;

		/* what a row is followed for is said when it is selected */
		shared->desc[i].follow_arg = desc->follow_arg;
		shared->desc[i].follow_arg2 = desc->follow_arg2;
		shared->desc[i].follow = desc->follow;
		__atomic_store_n(&shared->row_state[i], to->row_state[i], __ATOMIC_RELEASE);
	}
}

void capture_rules(struct capture *capture, const struct rec_rules *rules)
{
	capture->shared->rules = *rules;
}

bool capture_sees_all(const struct capture *capture)
{
	return capture->shared->pidns_ino == INITIAL_PIDNS;
}

int capture_look(struct capture *capture, uint64_t *ret_open)
{
	struct rec_shared *shared = capture->shared;
	int fd = bpf_iter_create(bpf_link__fd(capture->look));
	char nothing[64];
	ssize_t n;

	if (fd < 0)
		return -errno;
	shared->open_calls = shared->leaving_calls = 0;
	do
		n = read(fd, nothing, sizeof(nothing));
	while (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)));
	close(fd);
	*ret_open = shared->open_calls;
	/* tasks of other pid namespaces have not been visited */
	return capture_sees_all(capture) ? 0 : -EXDEV;
}

void capture_counters(const struct capture *capture, struct capture_counters *ret_counters)
{
	int cpu, i;
	uint32_t zero = 0;
	uint64_t *values;

	memset(ret_counters, 0, sizeof(*ret_counters));
	values = calloc(capture->ncpus, REC_NCOUNTERS * sizeof(*values));
	if (!values)
		return;
	if (!bpf_map_lookup_elem(capture->counters_fd, &zero, values))
		for (cpu = 0; cpu < capture->ncpus; cpu++)
			for (i = 0; i < REC_NCOUNTERS; i++)
				ret_counters->v[i] += values[cpu * REC_NCOUNTERS + i];
	free(values);
}

uint64_t capture_lost_by_row(const struct capture *capture, unsigned row)
{
	return __atomic_load_n(&capture->shared->lost_by_row[row], __ATOMIC_RELAXED);
}
