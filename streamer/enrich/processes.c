/*
 * The cache of processes, by number: open addressing with deletion by
 * shifting back, and a list in the order of their coming. When it is full,
 * which needs lost exit records, the one that came first goes.
 */
#include "processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../encode/put.h"
#include "cgroup.h"

_Static_assert(PROCESS_CONTAINER_ID == CGROUP_CONTAINER_ID && PROCESS_POD_UID == CGROUP_POD_UID,
	       "as it fills them");

#define MIN_SLOTS 64

struct processes {
	struct process **slots;
	size_t nslots, n;
	struct process *last; /* found by the last look-up */
	struct process *oldest, *newest;
};

/* ---- texts ---- */

/* From names with their NULs, the leaf first, to a path. Returns its length; @path has room for @len + 4. */
static size_t join(const char *names, size_t len, bool cut, char *path)
{
	char *p = path;
	size_t end = len, start;

	if (cut)
		p = PUT_LITERAL(p, "...");
	while (end) {
		/* names[end - 1] is the NUL of the outermost name that is left */
		start = end - 1;
		while (start && names[start - 1])
			start--;
		*p++ = '/';
		p = put_bytes(p, names + start, end - 1 - start);
		end = start;
	}
	if (p == path)
		*p++ = '/';
	return (size_t)(p - path);
}

static void set_path(struct process_text *text, const char *names, size_t len, bool cut, size_t max)
{
	char path[REC_MAX_TEXT + 4];

	if (len > REC_MAX_TEXT || (len && names[len - 1]))
		return;
	process_text_set(text, path, join(names, len, cut, path), max);
}

/* The innermost container and pod. */
static void find_container(struct process *process, const char *names, size_t len)
{
	for (size_t at = 0, n; at < len; at += n + 1) {
		n = strnlen(names + at, len - at);
		if (!process->container_id[0])
			cgroup_container(names + at, n, process->container_id);
		if (!process->pod_uid[0])
			cgroup_pod(names + at, n, process->pod_uid);
	}
}

static void learn_texts(struct process *process, const struct rec_thread *rec, size_t size)
{
	const char *exe = (const char *)(rec + 1), *cgroup, *cgroup1;

	if (size < sizeof(*rec) + rec->exe_len + rec->cgroup_len + rec->cgroup1_len)
		return;
	cgroup = exe + rec->exe_len;
	cgroup1 = cgroup + rec->cgroup_len;
	if (rec->exe_len)
		set_path(&process->exe, exe, rec->exe_len, rec->flags & REC_THREAD_EXE_CUT, PROCESS_MAX_EXE);
	/* where version 2 only exists beside version 1, everything may be in its root */
	if (rec->cgroup_len || !rec->cgroup1_len)
		set_path(&process->cgroup, cgroup, rec->cgroup_len, rec->flags & REC_THREAD_CGROUP_CUT,
			 PROCESS_MAX_CGROUP);
	else
		set_path(&process->cgroup, cgroup1, rec->cgroup1_len, rec->flags & REC_THREAD_CGROUP1_CUT,
			 PROCESS_MAX_CGROUP);
	process->container_id[0] = process->pod_uid[0] = 0;
	find_container(process, cgroup, rec->cgroup_len);
	find_container(process, cgroup1, rec->cgroup1_len);
}

void process_set_cmdline(struct process *process, const char *words, size_t len)
{
	char text[4096];

	if (len > sizeof(text))
		len = sizeof(text);
	while (len && !words[len - 1])
		len--;
	for (size_t i = 0; i < len; i++)
		text[i] = words[i] ? words[i] : ' ';
	if (len)
		process_text_set(&process->cmdline, text, len, PROCESS_MAX_CMDLINE);
}

/* ---- the table ---- */

static size_t hash(uint32_t tgid)
{
	return (tgid * 0x9e3779b97f4a7c15u) >> 32;
}

static struct process **slot_of(const struct processes *processes, uint32_t tgid)
{
	size_t i = hash(tgid) & (processes->nslots - 1);

	while (processes->slots[i] && processes->slots[i]->tgid != tgid)
		i = (i + 1) & (processes->nslots - 1);
	return &processes->slots[i];
}

static bool grow(struct processes *processes)
{
	size_t nold = processes->nslots, nslots = nold ? nold * 2 : MIN_SLOTS;
	struct process **old = processes->slots, **slots = calloc(nslots, sizeof(*slots));

	if (!slots)
		return false;
	processes->slots = slots;
	processes->nslots = nslots;
	for (size_t i = 0; i < nold; i++)
		if (old[i])
			*slot_of(processes, old[i]->tgid) = old[i];
	free(old);
	return true;
}

struct process *process_ref(struct process *process)
{
	process->refs++;
	return process;
}

void process_put(struct process *process)
{
	if (!process || --process->refs)
		return;
	free(process->exe.data);
	free(process->cgroup.data);
	free(process->cmdline.data);
	environs_free(process->environs);
	free(process->devices);
	free(process);
}

static void list_append(struct processes *processes, struct process *process)
{
	process->older = processes->newest;
	if (processes->newest)
		processes->newest->newer = process;
	else
		processes->oldest = process;
	processes->newest = process;
}

static void list_remove(struct processes *processes, struct process *process)
{
	if (process->older)
		process->older->newer = process->newer;
	else
		processes->oldest = process->newer;
	if (process->newer)
		process->newer->older = process->older;
	else
		processes->newest = process->older;
}

void processes_forget(struct processes *processes, uint32_t tgid)
{
	struct process *process = processes_find(processes, tgid);
	size_t mask = processes->nslots - 1, hole, i, home;

	if (!process)
		return;
	hole = (size_t)(slot_of(processes, tgid) - processes->slots);
	for (i = (hole + 1) & mask; processes->slots[i]; i = (i + 1) & mask) {
		home = hash(processes->slots[i]->tgid) & mask;
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			processes->slots[hole] = processes->slots[i];
			hole = i;
		}
	}
	processes->slots[hole] = NULL;
	processes->n--;
	processes->last = NULL;
	list_remove(processes, process);
	process_put(process);
}

struct process *processes_find(struct processes *processes, uint32_t tgid)
{
	if (processes->last && processes->last->tgid == tgid)
		return processes->last;
	if (!processes->nslots)
		return NULL;
	processes->last = *slot_of(processes, tgid);
	return processes->last;
}

struct process *processes_get(struct processes *processes, uint32_t tgid)
{
	struct process *process = processes_find(processes, tgid);

	if (process)
		return process;
	if (processes->n == PROCESSES_MAX)
		processes_forget(processes, processes->oldest->tgid);
	if ((processes->n + 1) * 2 > processes->nslots && !grow(processes))
		return NULL;
	process = calloc(1, sizeof(*process));
	if (!process)
		return NULL;
	process->tgid = tgid;
	process->pid = tgid;
	process->refs = 1;
	*slot_of(processes, tgid) = process;
	processes->n++;
	processes->last = process;
	list_append(processes, process);
	return process;
}

struct process *processes_learn(struct processes *processes, const struct rec_thread *rec, size_t size,
				bool *ret_new)
{
	uint32_t tgid = rec->pid_tgid >> 32;
	struct process *process = processes_find(processes, tgid), *parent;

	*ret_new = false;
	if (process && process->known && process->start_ns != rec->process_start_ns)
		processes_forget(processes,
				 tgid); /* its exit record was lost, and its number is another's now */
	process = processes_get(processes, tgid);
	if (!process)
		return NULL;
	if (!process->known) {
		*ret_new = true;
		process->known = true;
		process->start_ns = rec->process_start_ns;
		process->pid = rec->pid ? rec->pid : tgid;
		process->ns_pid = rec->ns_pid != process->pid ? rec->ns_pid : 0;
		process->uid = rec->uid;
		parent = rec->forked ? processes_find(processes, rec->parent_tgid) : NULL;
		process->inherits = parent && parent != process && (parent->total.calls || parent->inherits);
		learn_texts(process, rec, size);
	}
	memset(process->comm, 0, sizeof(process->comm));
	memcpy(process->comm, rec->comm, strnlen(rec->comm, REC_COMM_LEN));
	return process_ref(process);
}

size_t processes_count(const struct processes *processes)
{
	return processes->n;
}

void processes_each(struct processes *processes, void (*fn)(void *ctx, struct process *process), void *ctx)
{
	for (size_t i = 0; i < processes->nslots; i++)
		if (processes->slots[i])
			fn(ctx, processes->slots[i]);
}

/* ---- devices ---- */

int process_set_device(struct process *process, int32_t ordinal, const uint8_t uuid[PROCESS_UUID])
{
	struct process_device *device = NULL, *grown;

	for (unsigned i = 0; i < process->ndevices; i++)
		if (process->devices[i].ordinal == ordinal)
			device = &process->devices[i];
	if (!device) {
		if (process->ndevices == PROCESS_MAX_DEVICES)
			return 0;
		grown = realloc(process->devices, (process->ndevices + 1) * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		process->devices = grown;
		device = &grown[process->ndevices++];
		*device = (struct process_device){.ordinal = ordinal};
	} else if (!memcmp(device->uuid, uuid, PROCESS_UUID)) {
		return 0;
	}
	memcpy(device->uuid, uuid, PROCESS_UUID);
	device->told = false;
	return 0;
}

/* ---- life ---- */

struct processes *processes_new(void)
{
	return calloc(1, sizeof(struct processes));
}

void processes_free(struct processes *processes)
{
	if (!processes)
		return;
	while (processes->oldest)
		processes_forget(processes, processes->oldest->tgid);
	free(processes->slots);
	free(processes);
}
