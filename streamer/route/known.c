/* Records that are no calls, and the caches that they fill. */
#include "known.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../enrich/devices.h"
#include "../enrich/early.h"
#include "../enrich/enrich.h"
#include "../enrich/kernels.h"
#include "../enrich/processes.h"
#include "../enrich/procfs.h"
#include "../enrich/stubs.h"
#include "../log.h"
#include "bodies.h"

#define KNOWN_CMDLINE (1ull << 2) /* of config.fields.process */
#define PATIENCE_NS   20000000ull /* the first calls of a process wait so long for its environment */

/* On its way from the thread that read /proc. */
struct answer {
	struct answer *next;
	struct procfs_answer said;
	char words[];
};

struct known {
	struct known_options options;
	struct threads *threads;
	struct processes *processes;
	struct devices *devices;
	struct kernels *kernels; /* NULL: names are off */
	struct symbols *symbols; /* of files with kernels, with them */
	struct procfs *procfs;   /* NULL: nothing of it is wanted */
	bool cmdlines;           /* command lines are */
	struct early *early;     /* NULL: no variables are wanted */
	pthread_mutex_t lock;
	struct answer *answers;
	_Atomic uint64_t processes_seen, environs_known;
};

/* ---- records ---- */

static void tell_devices(struct known *known, struct process *process)
{
	for (unsigned i = 0; process->known && i < process->ndevices; i++) {
		if (process->devices[i].told)
			continue;
		process->devices[i].told = true;
		known->options.event(known->options.ctx, EVENT_DEVICE,
				     body_device(process, &process->devices[i]));
	}
}

static void set_environs(struct known *known, struct process *process, struct environs *environs)
{
	if (!environs)
		return;
	process->environs = environs;
	atomic_fetch_add_explicit(&known->environs_known, 1, memory_order_relaxed);
}

/* What its first calls already tell of it is worth a moment. */
static void ask_procfs(struct known *known, struct process *process, pid_t pid)
{
	if (!pid)
		return; /* invisible in our pid namespace */
	if (known->early)
		set_environs(known, process, early_take(known->early, pid, process->start_ns));
	procfs_ask(known->procfs, process->tgid, pid, process->start_ns);
	if (!known->early || process->environs)
		return;
	procfs_wait(known->procfs, PATIENCE_NS);
	known_turn(known);
}

static void take_thread(struct known *known, const struct rec_thread *rec, size_t size)
{
	struct process *process;
	struct thread *thread;
	bool is_new;

	if (size < sizeof(*rec) || threads_learn(known->threads, rec))
		return;
	if (known->kernels)
		kernels_process(known->kernels, rec);
	process = processes_learn(known->processes, rec, size, &is_new);
	if (!process)
		return;
	thread = threads_find(known->threads, rec->pid_tgid);
	if (thread)
		threads_set_process(thread, process_ref(process));
	if (is_new)
		atomic_fetch_add_explicit(&known->processes_seen, 1, memory_order_relaxed);
	if (is_new && known->procfs)
		ask_procfs(known, process, (pid_t)rec->pid);
	if (is_new)
		known->options.event(known->options.ctx, EVENT_PROCESS,
				     body_process_start(process, &known->options.config->fields.env));
	tell_devices(known, process);
	process_put(process);
}

static void take_thread_exit(struct known *known, const struct rec_thread_exit *rec)
{
	uint32_t tgid = rec->pid_tgid >> 32;
	struct process *process;

	threads_forget(known->threads, rec);
	if (!rec->leader)
		return;
	if (known->kernels)
		kernels_forget(known->kernels, tgid);
	process = processes_find(known->processes, tgid);
	if (process && (process->known || process->total.calls))
		known->options.event(known->options.ctx, EVENT_PROCESS,
				     body_process_exit(process, rec, &known->options.config->fields.env));
	processes_forget(known->processes, tgid);
}

static void take_fork(struct known *known, const struct rec_fork *rec)
{
	if (!known->kernels)
		return;
	/* what the parent had named until then may still be in its ring */
	capture_read_names(known->options.capture);
	kernels_settle(known->kernels, rec->time_ns);
	kernels_fork(known->kernels, rec);
}

static void take_name(struct known *known, const struct rec_call *rec, size_t size)
{
	struct process *process;

	if ((rec->cookie & 0xffff) < table_nrows && devices_tells_uuid(rec->cookie & 0xffff)) {
		process = devices_learn(known->processes, known->options.plans, rec, size);
		if (process)
			tell_devices(known, process);
	} else if (known->kernels) {
		kernels_queue(known->kernels, rec, size);
	}
}

void known_record(struct known *known, const void *record, size_t size)
{
	switch (*(const uint16_t *)record) {
	case REC_THREAD:
		take_thread(known, record, size);
		break;
	case REC_THREAD_EXIT:
		take_thread_exit(known, record);
		break;
	case REC_NAME:
		take_name(known, record, size);
		break;
	case REC_FORK:
		take_fork(known, record);
		break;
	}
}

/* ---- what /proc says ---- */

/* Runs in its thread. */
static void take_said(void *ctx, const struct procfs_answer *said)
{
	struct answer *answer = malloc(sizeof(*answer) + said->len);
	struct known *known = ctx;

	if (!answer) {
		environs_free(said->environs);
		return;
	}
	answer->said = *said;
	memcpy(answer->words, said->words, said->len);
	pthread_mutex_lock(&known->lock);
	answer->next = known->answers;
	known->answers = answer;
	pthread_mutex_unlock(&known->lock);
}

static struct answer *take_answers(struct known *known)
{
	struct answer *answers;

	pthread_mutex_lock(&known->lock);
	answers = known->answers;
	known->answers = NULL;
	pthread_mutex_unlock(&known->lock);
	return answers;
}

static void answer_free(struct answer *answer)
{
	environs_free(answer->said.environs);
	free(answer);
}

static void learn_said(struct known *known, struct answer *answer)
{
	struct procfs_answer *said = &answer->said;
	struct process *process = processes_find(known->processes, said->tgid);

	if (!process || process->start_ns != said->start_ns)
		return;
	if (said->len)
		process_set_cmdline(process, answer->words, said->len);
	if (said->environs && !process->environs) {
		set_environs(known, process, said->environs);
		said->environs = NULL;
	}
	threads_renew(known->threads, said->tgid);
}

void known_turn(struct known *known)
{
	struct answer *answer, *next;

	for (answer = known->procfs ? take_answers(known) : NULL; answer; answer = next) {
		next = answer->next;
		learn_said(known, answer);
		answer_free(answer);
	}
}

void known_program(struct known *known, pid_t pid, bool starts)
{
	if (!known->early)
		return;
	if (starts)
		early_read(known->early, pid);
	else
		early_forget(known->early, pid);
}

uint64_t known_environs_missed(const struct known *known)
{
	if (!known->early)
		return 0;
	return atomic_load(&known->processes_seen) - atomic_load(&known->environs_known);
}

/* ---- calls ---- */

/* Of a kernel that was registered before its library had probes. */
static int guess_kernel(void *ctx, uint32_t tgid, uint64_t handle, char *name)
{
	struct known *known = ctx;
	const struct process *process = processes_find(known->processes, tgid);

	if (!process || !process->pid)
		return -ESRCH;
	return stubs_name(known->symbols, (pid_t)process->pid, process->start_ns, handle, name, REC_MAX_NAME);
}

/* The name of the kernel that a call launches. It may have come into its ring since the turn began. */
static void find_kernel(struct known *known, struct call *call)
{
	uint32_t tgid = call->rec->pid_tgid >> 32;
	struct call_keys *keys = &call->keys;

	kernels_settle(known->kernels, call->rec->end_ns);
	keys->kernel = kernels_find(known->kernels, tgid, keys->kernel_handle, &keys->kernel_len);
	if (keys->kernel)
		return;
	capture_read_names(known->options.capture);
	kernels_settle(known->kernels, call->rec->end_ns);
	keys->kernel = kernels_find(known->kernels, tgid, keys->kernel_handle, &keys->kernel_len);
	if (!keys->kernel)
		keys->kernel = kernels_guess(known->kernels, tgid, keys->kernel_handle, &keys->kernel_len);
}

static void name_kernel(struct known *known, struct call *call)
{
	struct call_keys *keys = &call->keys;

	if (!known->kernels || !(keys->present & 1u << TABLE_KEY_KERNEL_HANDLE))
		return;
	find_kernel(known, call);
	if (keys->kernel)
		keys->kernel_mangled = kernels_mangled(known->kernels, &keys->kernel_mangled_len);
}

struct thread *known_call(struct known *known, struct call *call)
{
	struct process *process;
	struct thread *thread;

	name_kernel(known, call);
	thread = threads_find(known->threads, call->rec->pid_tgid);
	if (!thread)
		return NULL;
	if (!thread->process) { /* its record was lost or is late */
		process = processes_get(known->processes, call->rec->pid_tgid >> 32);
		if (process)
			threads_set_process(thread, process_ref(process));
	}
	devices_name(known->devices, call, thread);
	return thread;
}

void known_count(struct thread *thread, const struct call *call)
{
	thread->last_start_ns = call->rec->start_ns;
	if (thread->process)
		process_count(thread->process, call);
}

void known_settle(struct known *known)
{
	/* no launch from before these names is still to come */
	if (known->kernels)
		kernels_settle(known->kernels, UINT64_MAX);
}

/* ---- devices ---- */

void known_followed(struct known *known)
{
	devices_followed(known->devices);
}

void known_attached(struct known *known, unsigned attach_id)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	devices_attached(known->devices, attach_id, ts.tv_sec * 1000000000ull + ts.tv_nsec);
}

/* ---- another configuration ---- */

static void ask_again(void *ctx, struct process *process)
{
	struct known *known = ctx;

	if (process->known && process->pid)
		procfs_ask(known->procfs, process->tgid, (pid_t)process->pid, process->start_ns);
}

void known_configure(struct known *known, const struct config *config)
{
	const struct procfs_options procfs = {.cmdline = true, .fn = take_said, .ctx = known};

	threads_renew_all(known->threads);
	if (known->cmdlines || !(config->fields.process & KNOWN_CMDLINE))
		return;
	known->cmdlines = true;
	if (known->procfs)
		procfs_want_cmdline(known->procfs);
	else
		known->procfs = procfs_new(&procfs);
	if (known->procfs)
		processes_each(known->processes, ask_again, known);
	else
		log_msg("cannot start a thread: command lines of processes stay unknown");
}

/* ---- life ---- */

struct known *known_new(const struct known_options *options)
{
	const struct config_strings *env = &options->config->fields.env;
	struct procfs_options procfs = {
		.cmdline = options->config->fields.process & KNOWN_CMDLINE,
		.env = (const char *const *)env->list,
		.nenv = env->n,
		.fn = take_said,
	};
	bool asks = procfs.cmdline || procfs.nenv;
	bool names = options->config->names != KERNELS_OFF;
	struct known *known = calloc(1, sizeof(*known));

	if (!known)
		return NULL;
	known->options = *options;
	known->threads = threads_new();
	known->processes = processes_new();
	known->devices = devices_new(devices_of_host());
	pthread_mutex_init(&known->lock, NULL);
	procfs.ctx = known;
	known->cmdlines = procfs.cmdline;
	known->options.config = config_ref(options->config);
	if (asks)
		known->procfs = procfs_new(&procfs);
	if (procfs.nenv)
		known->early = early_new(procfs.env, procfs.nenv);
	if (names) {
		known->symbols = symbols_new();
		known->kernels = kernels_new(options->plans, options->config->names);
	}
	if (known->threads && known->processes && known->devices &&
	    (!names || (known->kernels && known->symbols)) && (!asks || known->procfs) &&
	    (!procfs.nenv || known->early)) {
		if (names)
			kernels_guess_by(known->kernels, guess_kernel, known);
		return known;
	}
	known_free(known);
	return NULL;
}

void known_free(struct known *known)
{
	struct answer *answer, *next;

	if (!known)
		return;
	procfs_free(known->procfs);
	early_free(known->early);
	for (answer = known->answers; answer; answer = next) {
		next = answer->next;
		answer_free(answer);
	}
	threads_free(known->threads);
	processes_free(known->processes);
	devices_free(known->devices);
	kernels_free(known->kernels);
	symbols_free(known->symbols);
	config_free(known->options.config);
	free(known);
}
