/*
 * Kernels' names by process and handle. Each process has a hash table of
 * handles; a forked process looks into its parent's as well, which lives as
 * long as someone needs it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "names.h"

#define MIN_SLOTS   64
#define MAX_HANDLES (1u << 20) /* over all processes; more are refused */
#define MAX_DEPTH   16         /* generations of forks that are looked through */

enum role {
	NO_ROLE,
	LEARN,  /* `handle` is called `name`, of `module` */
	ALIAS,  /* `handle` is called what `name` (a handle) is */
	UNLOAD, /* everything of `module` is gone */
};

/* Which parameters of which functions bring names; from the CUDA headers. */
static const struct rule_text {
	enum table_api api;
	const char *symbol;
	enum role role;
	const char *handle, *name, *module;
} rule_texts[] = {
	{TABLE_RUNTIME, "__cudaRegisterFunction", LEARN, "hostFun", "deviceName", "fatCubinHandle"},
	{TABLE_RUNTIME, "__cudaGetKernel", ALIAS, "kernelPtr", "entryFuncAddr", NULL},
	{TABLE_RUNTIME, "__cudaUnregisterFatBinary", UNLOAD, NULL, NULL, "fatCubinHandle"},
	{TABLE_RUNTIME, "cudaGetKernel", ALIAS, "kernelPtr", "entryFuncAddr", NULL},
	{TABLE_RUNTIME, "cudaGetFuncBySymbol", ALIAS, "functionPtr", "symbolPtr", NULL},
	{TABLE_RUNTIME, "cudaLibraryGetKernel", LEARN, "pKernel", "name", "library"},
	{TABLE_RUNTIME, "cudaLibraryUnload", UNLOAD, NULL, NULL, "library"},
	{TABLE_DRIVER, "cuLibraryGetKernel", LEARN, "pKernel", "name", "library"},
	{TABLE_DRIVER, "cuModuleGetFunction", LEARN, "hfunc", "name", "hmod"},
	{TABLE_DRIVER, "cuKernelGetFunction", ALIAS, "pFunc", "kernel", NULL},
	{TABLE_DRIVER, "cuModuleUnload", UNLOAD, NULL, NULL, "hmod"},
	{TABLE_DRIVER, "cuLibraryUnload", UNLOAD, NULL, NULL, "library"},
};
#define NRULES (sizeof(rule_texts) / sizeof(rule_texts[0]))

struct rule {
	enum role role;
	uint8_t handle, name, module; /* parameters, TABLE_NONE where there is none */
};

struct entry {
	uint64_t handle; /* 0: free */
	uint64_t module;
	struct name *name;
};

struct process {
	uint32_t tgid;
	bool listed; /* in the process table; otherwise only a child looks into it */
	size_t refs; /* the table and each child */
	uint64_t start_ns;
	struct process *parent;
	struct entry *slots;
	size_t nslots, n;
};

struct queued {
	struct queued *next;
	size_t size;
	uint64_t rec[]; /* a struct rec_call and what follows */
};

struct kernels {
	const struct plan *plans;
	enum kernels_style style;
	struct names names;
	struct rule *rules; /* [table_nrows] */
	struct process **processes;
	size_t nslots, n, nhandles;
	struct process *last; /* of the last look-up */
	struct queued *first, **end;
	struct name *found; /* by the last kernels_find() or kernels_guess(), or NULL */
	kernels_guess_fn guess;
	void *guess_ctx;
};

static size_t hash(uint64_t key)
{
	return (key * 0x9e3779b97f4a7c15u) >> 24;
}

/* ---- rules ---- */

static uint8_t param_index(const struct table_row *row, const char *name)
{
	uint8_t i;

	for (i = 0; name && i < row->nparams; i++)
		if (!strcmp(table_params[row->param + i].name, name))
			return i;
	return TABLE_NONE;
}

/* The rule of a row, or one without a role. */
static struct rule rule_of(const struct table_row *row)
{
	size_t i;

	for (i = 0; i < NRULES; i++) {
		const struct rule_text *text = &rule_texts[i];

		if (text->api == row->api && !strcmp(text->symbol, row->symbol))
			return (struct rule){text->role, param_index(row, text->handle),
					     param_index(row, text->name), param_index(row, text->module)};
	}
	return (struct rule){.role = NO_ROLE};
}

void kernels_select(uint8_t *state)
{
	bool launches = false;
	unsigned i, k;

	for (i = 0; i < table_nrows && !launches; i++)
		for (k = 0; k < table_rows[i].nkeys; k++)
			if (state[i] & REC_ROW_ON &&
			    table_keys[table_rows[i].key + k].key == TABLE_KEY_KERNEL_HANDLE)
				launches = true;
	for (i = 0; i < table_nrows && launches; i++)
		if (rule_of(&table_rows[i]).role != NO_ROLE)
			state[i] |= REC_ROW_NAMES;
}

/* ---- processes ---- */

static struct process **process_slot(const struct kernels *kernels, uint32_t tgid)
{
	size_t i = hash(tgid) & (kernels->nslots - 1);

	while (kernels->processes[i] && kernels->processes[i]->tgid != tgid)
		i = (i + 1) & (kernels->nslots - 1);
	return &kernels->processes[i];
}

static bool grow_processes(struct kernels *kernels)
{
	size_t nold = kernels->nslots, nslots = nold ? nold * 2 : MIN_SLOTS, i;
	struct process **old = kernels->processes, **slots = calloc(nslots, sizeof(*slots));

	if (!slots)
		return false;
	kernels->processes = slots;
	kernels->nslots = nslots;
	for (i = 0; i < nold; i++)
		if (old[i])
			*process_slot(kernels, old[i]->tgid) = old[i];
	free(old);
	return true;
}

static struct process *process_find(struct kernels *kernels, uint32_t tgid)
{
	if (kernels->last && kernels->last->tgid == tgid)
		return kernels->last;
	if (!kernels->nslots)
		return NULL;
	kernels->last = *process_slot(kernels, tgid);
	return kernels->last;
}

static struct process *process_get(struct kernels *kernels, uint32_t tgid)
{
	struct process *process = process_find(kernels, tgid);

	if (process)
		return process;
	if ((kernels->n + 1) * 2 > kernels->nslots && !grow_processes(kernels))
		return NULL;
	process = calloc(1, sizeof(*process));
	if (!process)
		return NULL;
	process->tgid = tgid;
	process->refs = 1;
	process->listed = true;
	*process_slot(kernels, tgid) = process;
	kernels->n++;
	kernels->last = process;
	return process;
}

static void process_put(struct kernels *kernels, struct process *process)
{
	struct process *parent;
	size_t i;

	while (process && --process->refs == 0) {
		for (i = 0; i < process->nslots; i++)
			if (process->slots[i].handle)
				names_put(&kernels->names, process->slots[i].name);
		kernels->nhandles -= process->n;
		free(process->slots);
		parent = process->parent;
		free(process);
		process = parent;
	}
}

void kernels_forget(struct kernels *kernels, uint32_t tgid)
{
	struct process *process = process_find(kernels, tgid);
	size_t mask = kernels->nslots - 1, hole, i, home;

	if (!process)
		return;
	hole = process_slot(kernels, tgid) - kernels->processes;
	for (i = (hole + 1) & mask; kernels->processes[i]; i = (i + 1) & mask) {
		home = hash(kernels->processes[i]->tgid) & mask;
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			kernels->processes[hole] = kernels->processes[i];
			hole = i;
		}
	}
	kernels->processes[hole] = NULL;
	kernels->n--;
	kernels->last = NULL;
	process->listed = false;
	process_put(kernels, process);
}

/* A process that began at @start_ns; @parent_tgid is 0 where it has nothing of its parent. */
static void process_begins(struct kernels *kernels, uint32_t tgid, uint64_t start_ns, uint32_t parent_tgid)
{
	struct process *process = process_find(kernels, tgid), *parent;

	if (process && process->start_ns && process->start_ns != start_ns) {
		kernels_forget(kernels, tgid); /* its exit record was lost, and its number is another's now */
		process = NULL;
	}
	if (process && process->start_ns)
		return;
	parent = parent_tgid ? process_find(kernels, parent_tgid) : NULL;
	while (parent && !parent->n && parent->parent) /* generations without names of their own */
		parent = parent->parent;
	if (!process && !parent)
		return; /* nothing to remember yet */
	process = process_get(kernels, tgid);
	if (!process)
		return;
	process->start_ns = start_ns;
	if (parent && parent != process) {
		process->parent = parent;
		parent->refs++;
	}
}

void kernels_fork(struct kernels *kernels, const struct rec_fork *rec)
{
	process_begins(kernels, rec->tgid, rec->process_start_ns, rec->parent_tgid);
}

void kernels_process(struct kernels *kernels, const struct rec_thread *rec)
{
	process_begins(kernels, rec->pid_tgid >> 32, rec->process_start_ns,
		       rec->forked ? rec->parent_tgid : 0);
}

/* ---- handles ---- */

static struct entry *entry_slot(const struct process *process, uint64_t handle)
{
	size_t i = hash(handle) & (process->nslots - 1);

	while (process->slots[i].handle && process->slots[i].handle != handle)
		i = (i + 1) & (process->nslots - 1);
	return &process->slots[i];
}

static bool grow_entries(struct process *process)
{
	size_t nold = process->nslots, i;
	struct entry *old = process->slots;
	struct entry *slots = calloc(nold ? nold * 2 : MIN_SLOTS, sizeof(*slots));

	if (!slots)
		return false;
	process->slots = slots;
	process->nslots = nold ? nold * 2 : MIN_SLOTS;
	for (i = 0; i < nold; i++)
		if (old[i].handle)
			*entry_slot(process, old[i].handle) = old[i];
	free(old);
	return true;
}

static const struct entry *entry_find(const struct process *process, uint64_t handle)
{
	const struct entry *entry;
	int depth;

	for (depth = 0; process && depth < MAX_DEPTH; process = process->parent, depth++) {
		if (!process->n)
			continue;
		entry = entry_slot(process, handle);
		if (entry->handle)
			return entry;
	}
	return NULL;
}

/* Takes the reference to the name over. */
static void entry_set(struct kernels *kernels, struct process *process, uint64_t handle, uint64_t module,
		      struct name *name)
{
	struct entry *entry;

	if (!handle || !name || kernels->nhandles >= MAX_HANDLES ||
	    ((process->n + 1) * 4 > process->nslots * 3 && !grow_entries(process))) {
		names_put(&kernels->names, name);
		return;
	}
	entry = entry_slot(process, handle);
	if (entry->handle) {
		names_put(&kernels->names, entry->name);
	} else {
		process->n++;
		kernels->nhandles++;
	}
	*entry = (struct entry){handle, module, name};
}

/*
 * A process with children that look into it gets a copy of its own to change:
 * what it unloads, as all do when they exit, they still have. NULL when out
 * of memory.
 */
static struct process *process_own(struct kernels *kernels, struct process *process)
{
	struct process *own;
	size_t i;

	if (process->refs == 1)
		return process;
	own = malloc(sizeof(*own));
	if (!own)
		return NULL;
	*own = *process;
	own->refs = 1;
	own->slots = own->nslots ? malloc(own->nslots * sizeof(*own->slots)) : NULL;
	if (own->nslots && !own->slots) {
		free(own);
		return NULL;
	}
	for (i = 0; i < own->nslots; i++) {
		own->slots[i] = process->slots[i];
		if (own->slots[i].handle)
			own->slots[i].name->refs++;
	}
	kernels->nhandles += own->n;
	if (own->parent)
		own->parent->refs++;
	*process_slot(kernels, own->tgid) = own;
	kernels->last = own;
	process->listed = false;
	process_put(kernels, process);
	return own;
}

/* Everything of one module goes: the table is made anew without it. */
static void entries_unload(struct kernels *kernels, struct process *process, uint64_t module)
{
	size_t nold = process->nslots, i;
	struct entry *old = process->slots;
	struct entry *slots = nold ? calloc(nold, sizeof(*slots)) : NULL;

	if (!slots)
		return;
	process->slots = slots;
	for (i = 0; i < nold; i++) {
		if (!old[i].handle)
			continue;
		if (old[i].module == module) {
			names_put(&kernels->names, old[i].name);
			process->n--;
			kernels->nhandles--;
		} else {
			*entry_slot(process, old[i].handle) = old[i];
		}
	}
	free(old);
}

/* ---- learning ---- */

/* The value of a parameter: what came out through it, else as passed. */
static bool param_value(const struct call *call, uint8_t param, uint64_t *ret_value)
{
	const struct call_value *value;

	if (param == TABLE_NONE)
		return false;
	value = call->out[param].data ? &call->out[param] : &call->arg[param];
	if (!value->data || value->len < sizeof(*ret_value))
		return false;
	memcpy(ret_value, value->data, sizeof(*ret_value));
	return true;
}

static void learn(struct kernels *kernels, struct process *process, const struct rule *rule,
		  const struct call *call)
{
	const struct call_value *text = &call->in[rule->name];
	uint64_t handle, module = 0;

	if (!text->data || !param_value(call, rule->handle, &handle))
		return;
	param_value(call, rule->module, &module);
	entry_set(kernels, process, handle, module, names_get(&kernels->names, text->data, text->len));
}

/* A name without letters: nobody knows what the handle is called, and need not be asked again. */
static const struct entry *entry_guess(struct kernels *kernels, struct process *process, uint64_t handle)
{
	char name[REC_MAX_NAME];
	int len;

	if (!kernels->guess || kernels->nhandles >= MAX_HANDLES)
		return NULL;
	len = kernels->guess(kernels->guess_ctx, process->tgid, handle, name);
	entry_set(kernels, process, handle, 0, names_get(&kernels->names, name, len > 0 ? (size_t)len : 0));
	return entry_find(process, handle);
}

static void learn_alias(struct kernels *kernels, struct process *process, const struct rule *rule,
			const struct call *call)
{
	const struct entry *known;
	uint64_t handle, of;

	if (!param_value(call, rule->handle, &handle) || !param_value(call, rule->name, &of))
		return;
	known = entry_find(process, of);
	if (!known)
		known = entry_guess(kernels, process, of);
	if (!known)
		return;
	known->name->refs++;
	entry_set(kernels, process, handle, known->module, known->name);
}

static void apply(struct kernels *kernels, const struct rec_call *rec, size_t size)
{
	const struct rule *rule;
	struct process *process;
	struct call call;
	uint64_t module;

	if (decode_call(kernels->plans, rec, size, &call))
		return;
	rule = &kernels->rules[call.row_id];
	process = process_get(kernels, rec->pid_tgid >> 32);
	if (!process)
		return;
	if (rule->role == LEARN)
		learn(kernels, process, rule, &call);
	else if (rule->role == ALIAS)
		learn_alias(kernels, process, rule, &call);
	else if (rule->role == UNLOAD && param_value(&call, rule->module, &module) &&
		 (process = process_own(kernels, process)))
		entries_unload(kernels, process, module);
}

int kernels_queue(struct kernels *kernels, const struct rec_call *rec, size_t size)
{
	struct queued *queued = malloc(sizeof(*queued) + size);

	if (!queued)
		return -ENOMEM;
	queued->next = NULL;
	queued->size = size;
	memcpy(queued->rec, rec, size);
	*kernels->end = queued;
	kernels->end = &queued->next;
	return 0;
}

void kernels_settle(struct kernels *kernels, uint64_t end_ns)
{
	struct queued *queued;

	while ((queued = kernels->first)) {
		const struct rec_call *rec = (const void *)queued->rec;

		if (rec->end_ns > end_ns)
			return;
		apply(kernels, rec, queued->size);
		kernels->first = queued->next;
		if (!kernels->first)
			kernels->end = &kernels->first;
		free(queued);
	}
}

static const char *entry_shown(struct kernels *kernels, const struct entry *entry, uint32_t *ret_len)
{
	if (!entry->name->len)
		return NULL;
	kernels->found = entry->name;
	return names_shown(&kernels->names, entry->name, kernels->style != KERNELS_MANGLED, ret_len);
}

const char *kernels_mangled(struct kernels *kernels, uint32_t *ret_len)
{
	struct name *found = kernels->found;
	const char *mangled;

	if (kernels->style != KERNELS_BOTH || !found || strncmp(found->text, "_Z", 2) != 0)
		return NULL;
	mangled = names_plain(&kernels->names, found, ret_len);
	return found->shown_len + *ret_len <= DECODE_MAX_KERNEL ? mangled : NULL;
}

const char *kernels_find(struct kernels *kernels, uint32_t tgid, uint64_t handle, uint32_t *ret_len)
{
	struct process *process = process_find(kernels, tgid);
	const struct entry *entry = process ? entry_find(process, handle) : NULL;

	kernels->found = NULL;
	return entry ? entry_shown(kernels, entry, ret_len) : NULL;
}

const char *kernels_guess(struct kernels *kernels, uint32_t tgid, uint64_t handle, uint32_t *ret_len)
{
	struct process *process = kernels->guess ? process_get(kernels, tgid) : NULL;
	const struct entry *entry = process ? entry_find(process, handle) : NULL;

	kernels->found = NULL;
	if (process && !entry)
		entry = entry_guess(kernels, process, handle);
	return entry ? entry_shown(kernels, entry, ret_len) : NULL;
}

void kernels_guess_by(struct kernels *kernels, kernels_guess_fn fn, void *ctx)
{
	kernels->guess = fn;
	kernels->guess_ctx = ctx;
}

/* ---- life ---- */

struct kernels *kernels_new(const struct plan *plans, enum kernels_style style)
{
	struct kernels *kernels = calloc(1, sizeof(*kernels));
	unsigned i;

	if (!kernels)
		return NULL;
	kernels->plans = plans;
	kernels->style = style;
	kernels->end = &kernels->first;
	kernels->rules = calloc(table_nrows, sizeof(*kernels->rules));
	if (!kernels->rules) {
		free(kernels);
		return NULL;
	}
	for (i = 0; i < table_nrows; i++)
		kernels->rules[i] = rule_of(&table_rows[i]);
	return kernels;
}

void kernels_free(struct kernels *kernels)
{
	struct queued *queued;
	size_t i;

	if (!kernels)
		return;
	while ((queued = kernels->first)) {
		kernels->first = queued->next;
		free(queued);
	}
	for (i = 0; i < kernels->nslots; i++)
		process_put(kernels, kernels->processes[i]);
	free(kernels->processes);
	names_free(&kernels->names);
	free(kernels->rules);
	free(kernels);
}

void kernels_size(const struct kernels *kernels, struct kernels_size *ret_size)
{
	size_t i;

	*ret_size =
		(struct kernels_size){kernels->n, kernels->nhandles, kernels->names.n, kernels->names.bytes};
	ret_size->bytes += kernels->names.nslots * sizeof(void *) + kernels->nslots * sizeof(void *);
	for (i = 0; i < kernels->nslots; i++)
		if (kernels->processes[i])
			ret_size->bytes += kernels->processes[i]->nslots * sizeof(struct entry);
}
