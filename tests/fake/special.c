/* Functions whose answer is more than a status and a few numbers. */
#include <stdio.h>
#include <string.h>

#include "fake.h"

#define DRIVER_VERSION    13000
#define NOT_READY         600 /* cudaErrorNotReady: an answer, not recorded */
#define PER_THREAD_STREAM 2   /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */

/* initial-exec: a dlopen'ed library must not allocate when a signal handler calls it first */
#define THREAD_LOCAL static __thread __attribute__((tls_model("initial-exec")))

THREAD_LOCAL int last_error;
THREAD_LOCAL uint64_t pushed[6]; /* grid and block (two words each), shared bytes, stream */

void fake_failed(int ret)
{
	if (fake_api == TABLE_RUNTIME && ret != NOT_READY)
		last_error = ret;
}

static uint64_t get_last_error(const struct fake_call *call)
{
	uint64_t ret = (uint64_t)last_error;

	last_error = 0;
	return ret;
}

static uint64_t peek_last_error(const struct fake_call *call)
{
	return (uint64_t)last_error;
}

static const struct table_error *error_of(const struct fake_call *call)
{
	return table_error(fake_api, (int32_t)fake_word(call, 0));
}

static uint64_t runtime_error_name(const struct fake_call *call)
{
	const struct table_error *error = error_of(call);

	return (uintptr_t)(error ? error->name : "unrecognized error code");
}

static uint64_t runtime_error_string(const struct fake_call *call)
{
	const struct table_error *error = error_of(call);

	return (uintptr_t)(error ? error->message : "unrecognized error code");
}

/* CUresult cuGetErrorName(CUresult error, const char **pStr), and cuGetErrorString */
static uint64_t driver_error_text(const struct fake_call *call)
{
	const struct table_error *error = error_of(call);
	const char **to = (const char **)fake_word(call, 1);

	if (!error || !to)
		return 1; /* CUDA_ERROR_INVALID_VALUE */
	*to = strstr(fake_functions[call->index].name, "Name") ? error->name : error->message;
	return 0;
}

/* A struct of 20 bytes through a hidden pointer, which is also what the function returns. */
static uint64_t create_channel_desc(const struct fake_call *call)
{
	int *to = (int *)fake_word(call, 0);

	for (unsigned i = 0; i < 5; i++)
		to[i] = (int)fake_word(call, i + 1);
	return (uintptr_t)to;
}

static uint64_t push_call_configuration(const struct fake_call *call)
{
	for (unsigned i = 0; i < 6; i++)
		pushed[i] = fake_word(call, i);
	return 0;
}

static uint64_t pop_call_configuration(const struct fake_call *call)
{
	memcpy((void *)fake_word(call, 0), &pushed[0], 12);
	memcpy((void *)fake_word(call, 1), &pushed[2], 12);
	memcpy((void *)fake_word(call, 2), &pushed[4], 8);
	memcpy((void *)fake_word(call, 3), &pushed[5], 8);
	return 0;
}

static uint64_t register_fat_binary(const struct fake_call *call)
{
	static void *handles[64];
	static _Atomic unsigned next;

	return (uintptr_t)&handles[atomic_fetch_add(&next, 1) % 64];
}

static uint64_t nothing(const struct fake_call *call)
{
	return 0;
}

static uint64_t write_int(const struct fake_call *call, int value)
{
	int *to = (int *)fake_word(call, 0);

	if (!to)
		return 1; /* invalid value */
	*to = value;
	return 0;
}

static uint64_t driver_version(const struct fake_call *call)
{
	return write_int(call, DRIVER_VERSION);
}

/* cu(da)DeviceGetAttribute(int *value, attribute, device): a GPU of compute capability 9.0 */
static uint64_t device_attribute(const struct fake_call *call)
{
	static const struct {
		unsigned attribute;
		int value;
	} values[] = {
		{1, 1024},  {2, 1024}, {3, 1024},   {4, 64},   {5, 2147483647}, {6, 65535}, {7, 65535},
		{8, 49152}, {10, 32},  {12, 65536}, {16, 132}, {75, 9},         {76, 0},
	};
	unsigned attribute = (unsigned)fake_word(call, 1);

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		if (values[i].attribute == attribute)
			return write_int(call, values[i].value);
	return write_int(call, 1);
}

/* The newest exported form of a function that people know by this name. */
static void *address_of(const char *name, bool per_thread)
{
	void *address = NULL;

	for (unsigned i = 0; i < fake_nfunctions; i++) {
		const struct table_row *row = fake_plans[i].row;

		if (row && !strcmp(row->func, name) && !!(row->flags & TABLE_PER_THREAD_STREAM) == per_thread)
			address = fake_addresses[i]; /* ascending by name: _v3 after _v2 */
	}
	return address || !per_thread ? address : address_of(name, false);
}

/* CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags[, status *]) */
static uint64_t get_proc_address(const struct fake_call *call)
{
	const char *name = (const char *)fake_word(call, 0);
	void **to = (void **)fake_word(call, 1);
	int *status = (int *)fake_arg(call, "symbolStatus");

	/* before CUDA 12 this one had four parameters, and its callers pass no more */
	if (!strcmp(name, "cuGetProcAddress") && (int)fake_word(call, 2) < 12000)
		*to = fake_addresses[fake_index(name)];
	else
		*to = address_of(name, fake_word(call, 3) & PER_THREAD_STREAM);
	if (status)
		*status = *to ? 0 : 1;  /* found, symbol not found */
	return *to || status ? 0 : 500; /* CUDA_ERROR_NOT_FOUND */
}

/*
 * The real one hands out private tables, which nothing here could fill. A real
 * libcudart gets as far as this on a fake libcuda, then gives up with an error.
 */
static uint64_t get_export_table(const struct fake_call *call)
{
	return 1;
}

fake_special_fn fake_special(const char *func)
{
	static const struct {
		const char *func;
		fake_special_fn fn;
	} all[] = {
		{"cudaGetLastError", get_last_error},
		{"cudaPeekAtLastError", peek_last_error},
		{"cudaGetErrorName", runtime_error_name},
		{"cudaGetErrorString", runtime_error_string},
		{"cuGetErrorName", driver_error_text},
		{"cuGetErrorString", driver_error_text},
		{"cudaCreateChannelDesc", create_channel_desc},
		{"__cudaPushCallConfiguration", push_call_configuration},
		{"__cudaPopCallConfiguration", pop_call_configuration},
		{"__cudaRegisterFatBinary", register_fat_binary},
		{"__cudaInitModule", nothing},
		{"cudaDriverGetVersion", driver_version},
		{"cuDriverGetVersion", driver_version},
		{"cuDeviceGetAttribute", device_attribute},
		{"cuGetProcAddress", get_proc_address},
		{"cuGetExportTable", get_export_table},
		{"cudaGetExportTable", get_export_table},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(all[i].func, func))
			return all[i].fn;
	return NULL;
}
