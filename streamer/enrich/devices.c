/* The calls that change a thread's current device, and the device of a call. */
#include "devices.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ATTACHED 4096 /* attach ids whose time is kept */

struct devices {
	atomic_bool followed;
	bool only_one; /* the host has one device: there is no other to be current */
	_Atomic uint64_t attached_ns[MAX_ATTACHED];
};

/* From the CUDA headers; the parameters are those of every signature of the name. */
static const struct rule {
	enum table_api api;
	const char *func;
	enum rec_follow follow;
	const char *arg, *arg2;
} rules[] = {
	{TABLE_RUNTIME, "cudaSetDevice", REC_FOLLOW_DEVICE, "device", NULL},
	{TABLE_RUNTIME, "cudaGLSetGLDevice", REC_FOLLOW_DEVICE, "device", NULL},
	{TABLE_RUNTIME, "cudaVDPAUSetVDPAUDevice", REC_FOLLOW_DEVICE, "device", NULL},
	{TABLE_RUNTIME, "cudaSetValidDevices", REC_FOLLOW_UNKNOWN, NULL, NULL},
	{TABLE_RUNTIME, "cudaInitDevice", REC_FOLLOW_KEEP, NULL, NULL},
	{TABLE_RUNTIME, "cudaDeviceReset", REC_FOLLOW_KEEP, NULL, NULL},
	{TABLE_RUNTIME, "cudaThreadExit", REC_FOLLOW_KEEP, NULL, NULL},
	{TABLE_RUNTIME, "cudaGetDevice", REC_FOLLOW_DEVICE_OUT, "device", NULL},
	{TABLE_DRIVER, "cuCtxGetDevice", REC_FOLLOW_DEVICE_OUT, "device", NULL},
	{TABLE_DRIVER, "cuDevicePrimaryCtxRetain", REC_FOLLOW_RETAIN, "pctx", "dev"},
	{TABLE_DRIVER, "cuCtxCreate", REC_FOLLOW_CREATE, "pctx", "dev"},
	{TABLE_DRIVER, "cuGLCtxCreate", REC_FOLLOW_CREATE, "pCtx", "device"},
	{TABLE_DRIVER, "cuVDPAUCtxCreate", REC_FOLLOW_CREATE, "pCtx", "device"},
	{TABLE_DRIVER, "cuGreenCtxCreate", REC_FOLLOW_RETAIN, "phCtx", "dev"},
	{TABLE_DRIVER, "cuGreenCtxDestroy", REC_FOLLOW_DESTROY, "hCtx", NULL},
	{TABLE_DRIVER, "cuCtxFromGreenCtx", REC_FOLLOW_SAME, "pContext", "hCtx"},
	{TABLE_DRIVER, "cuCtxSetCurrent", REC_FOLLOW_SET, "ctx", NULL},
	{TABLE_DRIVER, "cuCtxPushCurrent", REC_FOLLOW_PUSH, "ctx", NULL},
	{TABLE_DRIVER, "cuCtxPopCurrent", REC_FOLLOW_POP, NULL, NULL},
	{TABLE_DRIVER, "cuCtxDestroy", REC_FOLLOW_DESTROY, "ctx", NULL},
	{TABLE_DRIVER, "cuCtxDetach", REC_FOLLOW_UNKNOWN, NULL, NULL},
};
#define NRULES (sizeof(rules) / sizeof(rules[0]))

static uint8_t param_word(const struct table_row *row, const struct plan *plan, const char *name)
{
	for (unsigned i = 0; name && i < row->nparams && i < DECODE_MAX_PARAMS; i++)
		if (!strcmp(table_params[row->param + i].name, name))
			return plan->word[i];
	return TABLE_NONE;
}

static const struct rule *rule_of(const struct table_row *row)
{
	for (size_t i = 0; i < NRULES; i++)
		if (rules[i].api == row->api && !strcmp(rules[i].func, row->func))
			return &rules[i];
	return NULL;
}

/* Those that only ask are too many and too fast to be probed for this alone: they help where they are traced.
 */
static bool is_question(const struct rule *rule)
{
	return rule->follow == REC_FOLLOW_DEVICE_OUT;
}

static void select_row(unsigned index, uint8_t *state, struct plan *plan)
{
	const struct table_row *row = &table_rows[index];
	const struct rule *rule = rule_of(row);
	uint8_t arg, arg2;

	if (devices_tells_uuid(index))
		*state |= REC_ROW_NAMES;
	if (!rule || (is_question(rule) && !(*state & REC_ROW_ON)))
		return;
	arg = param_word(row, plan, rule->arg);
	arg2 = param_word(row, plan, rule->arg2);
	if ((rule->arg && arg == TABLE_NONE) || (rule->arg2 && arg2 == TABLE_NONE))
		return; /* another signature: cuCtxGetDevice_v2 asks for any context's */
	plan->desc.follow = (uint8_t)rule->follow;
	plan->desc.follow_arg = rule->arg ? arg : 0;
	plan->desc.follow_arg2 = rule->arg2 ? arg2 : 0;
	*state |= REC_ROW_FOLLOW;
}

void devices_select(uint8_t *state, struct plan *plans)
{
	bool any = false;

	for (unsigned i = 0; i < table_nrows; i++)
		any |= state[i] & REC_ROW_ON;
	for (unsigned i = 0; i < table_nrows && any; i++)
		select_row(i, &state[i], &plans[i]);
}

/* ---- UUIDs ---- */

bool devices_tells_uuid(unsigned row)
{
	return !strcmp(table_rows[row].func, "cuDeviceGetUuid");
}

/* cuDeviceGetUuid(CUuuid *uuid, CUdevice dev): a CUdevice is the ordinal. */
struct process *devices_learn(struct processes *processes, const struct plan *plans,
			      const struct rec_call *rec, size_t size)
{
	struct process *process;
	struct call call;
	int32_t ordinal;

	if (decode_call(plans, rec, size, &call) || call.row->nparams < 2)
		return NULL;
	if (!call.out[0].data || call.out[0].len != PROCESS_UUID || !call.arg[1].data)
		return NULL;
	memcpy(&ordinal, call.arg[1].data, sizeof(ordinal));
	process = processes_get(processes, rec->pid_tgid >> 32);
	if (!process || process_set_device(process, ordinal, call.out[0].data))
		return NULL;
	return process;
}

/* ---- the device of a call ---- */

void devices_followed(struct devices *devices)
{
	atomic_store(&devices->followed, true);
}

void devices_attached(struct devices *devices, unsigned attach_id, uint64_t boot_ns)
{
	if (attach_id < MAX_ATTACHED)
		atomic_store(&devices->attached_ns[attach_id], boot_ns);
}

static bool was_there(const struct devices *devices, unsigned attach_id, uint64_t start_ns)
{
	uint64_t attached_ns = attach_id < MAX_ATTACHED ? atomic_load(&devices->attached_ns[attach_id]) : 0;

	return attached_ns && start_ns >= attached_ns;
}

/* A host thread begins with the first device. The driver's functions have none before a context is made
 * current. */
static bool has_first(const struct devices *devices, const struct call *call, const struct thread *thread)
{
	if (call->row->api != TABLE_RUNTIME || !thread->start_ns)
		return false;
	if (devices->only_one)
		return true;
	if (thread->process && thread->process->inherits)
		return false;
	return atomic_load(&devices->followed) || was_there(devices, call->attach_id, thread->start_ns);
}

void devices_name(const struct devices *devices, struct call *call, const struct thread *thread)
{
	uint32_t device = call->rec->device;

	if (call->keys.present & 1u << TABLE_KEY_DEVICE || device == REC_DEVICE_UNKNOWN)
		return;
	if (device == REC_DEVICE_UNSAID) {
		if (!has_first(devices, call, thread))
			return;
		device = 1;
	}
	call->keys.device = (int32_t)(device - 1);
	call->keys.present |= 1u << TABLE_KEY_DEVICE;
}

/* ---- life ---- */

unsigned devices_of_host(void)
{
	DIR *dir = opendir("/proc/driver/nvidia/gpus");
	struct dirent *entry;
	unsigned n = 0;

	while (dir && (entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return n;
}

struct devices *devices_new(unsigned host_devices)
{
	struct devices *devices = calloc(1, sizeof(*devices));

	if (devices)
		devices->only_one = host_devices == 1;
	return devices;
}

void devices_free(struct devices *devices)
{
	free(devices);
}
