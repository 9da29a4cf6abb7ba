/* Look-ups of the API table, and spot checks of rows that are easy to get wrong. */
#include "streamer/table/glob.h"
#include "streamer/table/table.h"

#include <errno.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct table_row *row_of(enum table_api api, const char *symbol, unsigned major)
{
	int row = table_find(api, symbol, major);

	if (row < 0)
		fail_msg("%s: %d", symbol, row);
	assert_string_equal(table_rows[row].symbol, symbol);
	assert_int_equal(table_rows[row].api, api);
	return &table_rows[row];
}

static const struct table_param *param_of(const struct table_row *row, const char *name)
{
	for (unsigned i = 0; i < row->nparams; i++) {
		if (strcmp(table_params[row->param + i].name, name) == 0)
			return &table_params[row->param + i];
	}
	fail_msg("%s has no parameter %s", row->symbol, name);
	return NULL;
}

static const struct table_key *key_of(const struct table_row *row, enum table_key_id id)
{
	for (unsigned i = 0; i < row->nkeys; i++) {
		if (table_keys[row->key + i].key == id)
			return &table_keys[row->key + i];
	}
	return NULL;
}

static const struct table_operand *operand_of(const struct table_key *key, unsigned i)
{
	assert_non_null(key);
	assert_true(i < key->noperands);
	return &table_operands[key->operand + i];
}

static void place_is(const struct table_row *row, const char *name, enum table_abi abi,
		     enum table_where where, unsigned index, unsigned words)
{
	struct table_place place = param_of(row, name)->place[abi];

	if (place.where != where || place.index != index || place.words != words)
		fail_msg("%s %s: %u %u %u", row->symbol, name, place.where, place.index, place.words);
}

static void key_is_param(const struct table_row *row, enum table_key_id id, enum table_source source,
			 const char *name)
{
	const struct table_operand *operand = operand_of(key_of(row, id), 0);

	assert_int_equal(operand->source, source);
	assert_string_equal(table_params[row->param + operand->param].name, name);
}

/* ---- places ---- */

static void test_runtime_launch(void **state)
{
	const struct table_row *row = row_of(TABLE_RUNTIME, "cudaLaunchKernel", 13);

	place_is(row, "func", TABLE_X86_64, TABLE_REG, 0, 1);
	place_is(row, "gridDim", TABLE_X86_64, TABLE_REG, 1, 2);
	place_is(row, "blockDim", TABLE_X86_64, TABLE_REG, 3, 2);
	place_is(row, "args", TABLE_X86_64, TABLE_REG, 5, 1);
	place_is(row, "sharedMem", TABLE_X86_64, TABLE_STACK, 0, 1);
	place_is(row, "stream", TABLE_X86_64, TABLE_STACK, 1, 1);
	place_is(row, "blockDim", TABLE_AARCH64, TABLE_REG, 3, 2);
	place_is(row, "sharedMem", TABLE_AARCH64, TABLE_REG, 6, 1);
	place_is(row, "stream", TABLE_AARCH64, TABLE_REG, 7, 1);
	assert_int_equal(table_types[param_of(row, "gridDim")->type].kind, TABLE_DIM3);
	assert_int_equal(param_of(row, "func")->deref, TABLE_NO_DEREF);
	assert_int_equal(key_of(row, TABLE_KEY_GRID)->mode, TABLE_DIM);
	key_is_param(row, TABLE_KEY_GRID, TABLE_FROM_ARG, "gridDim");
	key_is_param(row, TABLE_KEY_STREAM, TABLE_FROM_ARG, "stream");
	key_is_param(row, TABLE_KEY_KERNEL_HANDLE, TABLE_FROM_ARG, "func");
	assert_int_equal(row->flags, 0);
	assert_int_equal(row_of(TABLE_RUNTIME, "cudaLaunchKernel_ptsz", 13)->flags, TABLE_PER_THREAD_STREAM);
}

static void test_driver_launch(void **state)
{
	const struct table_row *row = row_of(TABLE_DRIVER, "cuLaunchKernel", 13);
	const struct table_key *block = key_of(row, TABLE_KEY_BLOCK);

	assert_int_equal(row->nparams, 11);
	place_is(row, "blockDimY", TABLE_X86_64, TABLE_REG, 5, 1);
	place_is(row, "blockDimZ", TABLE_X86_64, TABLE_STACK, 0, 1);
	place_is(row, "sharedMemBytes", TABLE_X86_64, TABLE_STACK, 1, 1);
	place_is(row, "hStream", TABLE_X86_64, TABLE_STACK, 2, 1);
	place_is(row, "sharedMemBytes", TABLE_AARCH64, TABLE_REG, 7, 1);
	place_is(row, "hStream", TABLE_AARCH64, TABLE_STACK, 0, 1);
	assert_int_equal(block->noperands, 3);
	assert_string_equal(table_params[row->param + operand_of(block, 2)->param].name, "blockDimZ");
	assert_int_equal(param_of(row, "kernelParams")->deref, TABLE_NO_DEREF);
}

static void test_launch_configurations(void **state)
{
	const struct table_row *runtime = row_of(TABLE_RUNTIME, "cudaLaunchKernelExC", 12);
	const struct table_row *driver = row_of(TABLE_DRIVER, "cuLaunchKernelEx", 12);

	assert_int_equal(param_of(runtime, "config")->deref, TABLE_IN);
	assert_int_equal(operand_of(key_of(runtime, TABLE_KEY_GRID), 0)->offset, 0);
	assert_int_equal(operand_of(key_of(runtime, TABLE_KEY_BLOCK), 0)->offset, 12);
	assert_int_equal(operand_of(key_of(runtime, TABLE_KEY_SHARED_BYTES), 0)->offset, 24);
	assert_int_equal(operand_of(key_of(runtime, TABLE_KEY_STREAM), 0)->offset, 32);
	assert_int_equal(operand_of(key_of(runtime, TABLE_KEY_STREAM), 0)->source, TABLE_FROM_FIELD);
	assert_int_equal(param_of(driver, "config")->deref, TABLE_IN);
	assert_int_equal(operand_of(key_of(driver, TABLE_KEY_BLOCK), 2)->offset, 20);
	assert_int_equal(operand_of(key_of(driver, TABLE_KEY_STREAM), 0)->offset, 32);
}

static void test_sret(void **state)
{
	const struct table_row *row = row_of(TABLE_RUNTIME, "cudaCreateChannelDesc", 0);

	assert_int_equal(row->ret, TABLE_RET_SRET);
	place_is(row, "x", TABLE_X86_64, TABLE_REG, 1, 1);
	place_is(row, "f", TABLE_X86_64, TABLE_REG, 5, 1);
	place_is(row, "x", TABLE_AARCH64, TABLE_REG, 0, 1);
	assert_int_equal(table_types[param_of(row, "f")->type].kind, TABLE_ENUM);
}

static void test_structs_by_value(void **state)
{
	const struct table_row *ipc = row_of(TABLE_DRIVER, "cuIpcOpenMemHandle_v2", 13);
	const struct table_row *extent = row_of(TABLE_RUNTIME, "cudaMalloc3D", 13);

	/* 64 bytes by value: on the stack, and the next argument still has a register */
	place_is(ipc, "handle", TABLE_X86_64, TABLE_STACK, 0, 8);
	place_is(ipc, "Flags", TABLE_X86_64, TABLE_REG, 1, 1);
	place_is(ipc, "handle", TABLE_AARCH64, TABLE_REF, 1, 1);
	assert_int_equal(table_types[param_of(ipc, "handle")->type].kind, TABLE_BYTES);
	assert_int_equal(table_types[param_of(ipc, "handle")->type].size, 64);
	place_is(extent, "extent", TABLE_X86_64, TABLE_STACK, 0, 3);
	place_is(extent, "extent", TABLE_AARCH64, TABLE_REF, 1, 1);
	assert_int_equal(key_of(extent, TABLE_KEY_BYTES)->mode, TABLE_PRODUCT);
	assert_int_equal(operand_of(key_of(extent, TABLE_KEY_BYTES), 2)->offset, 16);
	assert_int_equal(operand_of(key_of(extent, TABLE_KEY_PTR), 0)->source, TABLE_FROM_OUT);
}

static void test_many_params(void **state)
{
	const struct table_row *row = row_of(TABLE_DRIVER, "cuTensorMapEncodeIm2colWide", 13);

	assert_int_equal(row->nparams, 16);
	place_is(row, "oobFill", TABLE_X86_64, TABLE_STACK, 9, 1);
	place_is(row, "oobFill", TABLE_AARCH64, TABLE_STACK, 7, 1);
}

static void test_float_by_value(void **state)
{
	const struct table_row *row = row_of(TABLE_DRIVER, "cuParamSetf", 0);

	place_is(row, "value", TABLE_X86_64, TABLE_UNREADABLE, 0, 0);
	place_is(row, "offset", TABLE_X86_64, TABLE_REG, 1, 1);
}

/* ---- majors ---- */

static void test_changed_shapes(void **state)
{
	static const struct {
		const char *symbol;
		unsigned old_params, new_params;
	} changed[] = {
		{"cudaMemPrefetchAsync", 4, 5},     {"cudaMemPrefetchAsync_ptsz", 4, 5},
		{"cudaStreamGetCaptureInfo", 3, 7}, {"cudaGraphAddDependencies", 4, 5},
		{"cudaGraphGetEdges", 4, 5},        {"cudaGraphAddNode", 5, 6},
		{"cudaMemcpyBatchAsync", 9, 8},
	};

	for (size_t i = 0; i < sizeof(changed) / sizeof(changed[0]); i++) {
		const char *symbol = changed[i].symbol;

		assert_int_equal(row_of(TABLE_RUNTIME, symbol, 12)->nparams, changed[i].old_params);
		assert_int_equal(row_of(TABLE_RUNTIME, symbol, 13)->nparams, changed[i].new_params);
		assert_int_equal(table_find(TABLE_RUNTIME, symbol, 0), -ENOTUNIQ);
		assert_int_equal(table_find(TABLE_RUNTIME, symbol, 14),
				 table_find(TABLE_RUNTIME, symbol, 13));
	}
	/* same number, another type */
	assert_int_equal(table_find(TABLE_RUNTIME, "cudaMemAdvise", 0), -ENOTUNIQ);
	assert_int_equal(
		table_types[param_of(row_of(TABLE_RUNTIME, "cudaMemAdvise", 13), "location")->type].kind,
		TABLE_STRUCT);
	/* changed with 12 already */
	assert_int_equal(row_of(TABLE_RUNTIME, "cudaGraphInstantiate", 11)->nparams, 5);
	assert_int_equal(row_of(TABLE_RUNTIME, "cudaGraphInstantiate", 12)->nparams, 3);
}

static void test_major_undecided(void **state)
{
	const struct table_row *grown = row_of(TABLE_RUNTIME, "cudaCreateTextureObject", 0);

	assert_int_equal(row_of(TABLE_RUNTIME, "cudaMalloc", 0)->majors, TABLE_CUDA_ANY);
	/* only a structure grew: the oldest, whose bytes every major has */
	assert_true(grown->majors & TABLE_CUDA11);
	assert_true(table_types[param_of(grown, "pTexDesc")->pointee].size <
		    table_types[param_of(row_of(TABLE_RUNTIME, "cudaCreateTextureObject", 13), "pTexDesc")
					->pointee]
			    .size);
}

static void test_removed_and_unknown(void **state)
{
	/* gone with 13: the last shape is still found */
	assert_int_equal(table_find(TABLE_RUNTIME, "cudaThreadExit", 13),
			 table_find(TABLE_RUNTIME, "cudaThreadExit", 11));
	assert_int_equal(table_find(TABLE_RUNTIME, "cuMemAlloc_v2", 13), -ENOENT);
	assert_int_equal(table_find(TABLE_DRIVER, "cudaMalloc", 13), -ENOENT);
	assert_int_equal(table_find(TABLE_RUNTIME, "", 13), -ENOENT);
	assert_int_equal(table_find(TABLE_RUNTIME, "cudaMallo", 13), -ENOENT);
	assert_int_equal(table_find(TABLE_RUNTIME, "cudaMallocX", 13), -ENOENT);
}

static void test_every_row_is_found(void **state)
{
	for (unsigned i = 0; i < table_nrows; i++) {
		for (unsigned major = 11; major <= 13; major++) {
			if (table_rows[i].majors & (1 << (major - 11)))
				assert_int_equal(table_find(table_rows[i].api, table_rows[i].symbol, major),
						 i);
		}
		assert_true(table_rows[i].family < table_nfamilies);
	}
}

/* ---- keys ---- */

static void test_copy_keys(void **state)
{
	static const struct {
		const char *symbol;
		enum table_direction direction;
	} fixed[] = {
		{"cuMemcpyHtoD_v2", TABLE_H2D},      {"cuMemcpyDtoH_v2", TABLE_D2H},
		{"cuMemcpyDtoDAsync_v2", TABLE_D2D}, {"cuMemcpyAtoH_v2", TABLE_D2H},
		{"cuMemcpyPeerAsync", TABLE_P2P},    {"cuMemcpy", TABLE_DEFAULT},
		{"cuMemcpyHtoD_v2_ptds", TABLE_H2D},
	};

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
		const struct table_row *row = row_of(TABLE_DRIVER, fixed[i].symbol, 13);
		const struct table_key *direction = key_of(row, TABLE_KEY_DIRECTION);

		assert_int_equal(operand_of(direction, 0)->source, TABLE_FROM_CONST);
		assert_int_equal(operand_of(direction, 0)->offset, fixed[i].direction);
		key_is_param(row, TABLE_KEY_BYTES, TABLE_FROM_ARG, "ByteCount");
	}
	key_is_param(row_of(TABLE_RUNTIME, "cudaMemcpy", 13), TABLE_KEY_DIRECTION, TABLE_FROM_ARG, "kind");
	assert_int_equal(key_of(row_of(TABLE_DRIVER, "cuMemcpy2D_v2", 13), TABLE_KEY_DIRECTION)->mode,
			 TABLE_MEMTYPES);
	assert_int_equal(key_of(row_of(TABLE_DRIVER, "cuMemcpy3D_v2", 13), TABLE_KEY_SRC_PTR)->mode,
			 TABLE_PLACE);
	assert_int_equal(key_of(row_of(TABLE_RUNTIME, "cudaMemcpy3D", 13), TABLE_KEY_BYTES)->mode,
			 TABLE_PITCHED);
	assert_int_equal(key_of(row_of(TABLE_RUNTIME, "cudaMemcpyBatchAsync", 13), TABLE_KEY_BYTES)->mode,
			 TABLE_SUM);
	assert_int_equal(
		operand_of(key_of(row_of(TABLE_DRIVER, "cuMemsetD32_v2", 13), TABLE_KEY_BYTES), 1)->offset,
		4);
}

/* Keys say the same for every variant of a function that has the same parameters. */
static void test_variants_have_equal_keys(void **state)
{
	for (unsigned i = 0; i < table_nrows; i++) {
		for (unsigned j = i + 1; j < table_nrows; j++) {
			const struct table_row *a = &table_rows[i], *b = &table_rows[j];

			if (a->param != b->param || a->nparams != b->nparams || strcmp(a->func, b->func) != 0)
				continue;
			assert_int_equal(a->nkeys, b->nkeys);
			assert_int_equal(a->key, b->key);
			assert_int_equal(a->family, b->family);
		}
	}
}

static void test_memory_keys(void **state)
{
	key_is_param(row_of(TABLE_RUNTIME, "cudaMalloc", 13), TABLE_KEY_PTR, TABLE_FROM_OUT, "devPtr");
	key_is_param(row_of(TABLE_RUNTIME, "cudaFree", 13), TABLE_KEY_PTR, TABLE_FROM_ARG, "devPtr");
	key_is_param(row_of(TABLE_DRIVER, "cuMemAlloc_v2", 13), TABLE_KEY_BYTES, TABLE_FROM_ARG, "bytesize");
	key_is_param(row_of(TABLE_DRIVER, "cuMemAllocAsync_ptsz", 13), TABLE_KEY_STREAM, TABLE_FROM_ARG,
		     "hStream");
	key_is_param(row_of(TABLE_RUNTIME, "cudaStreamCreate", 13), TABLE_KEY_STREAM, TABLE_FROM_OUT,
		     "pStream");
	key_is_param(row_of(TABLE_RUNTIME, "cudaSetDevice", 13), TABLE_KEY_DEVICE, TABLE_FROM_ARG, "device");
	assert_int_equal(key_of(row_of(TABLE_RUNTIME, "cudaMemPrefetchAsync", 13), TABLE_KEY_DEVICE)->mode,
			 TABLE_LOCATION);
}

/* ---- names, families, flags ---- */

static void test_func(void **state)
{
	assert_string_equal(row_of(TABLE_DRIVER, "cuMemcpyHtoD_v2_ptds", 13)->func, "cuMemcpyHtoD");
	assert_string_equal(row_of(TABLE_DRIVER, "cuCtxCreate_v4", 13)->func, "cuCtxCreate");
	assert_string_equal(row_of(TABLE_RUNTIME, "cudaLaunchKernel_ptsz", 13)->func, "cudaLaunchKernel");
	assert_string_equal(row_of(TABLE_RUNTIME, "__cudaRegisterFunction", 13)->func,
			    "__cudaRegisterFunction");
}

static const char *family_of(enum table_api api, const char *symbol)
{
	return table_families[row_of(api, symbol, 13)->family].name;
}

static void test_families(void **state)
{
	assert_string_equal(family_of(TABLE_RUNTIME, "cudaGetDevice"), "query");
	assert_string_equal(family_of(TABLE_RUNTIME, "cudaGetLastError"), "error");
	assert_string_equal(family_of(TABLE_RUNTIME, "cudaStreamQuery"), "query");
	assert_string_equal(family_of(TABLE_DRIVER, "cuStreamQuery_ptsz"), "query");
	assert_string_equal(family_of(TABLE_RUNTIME, "cudaStreamSynchronize"), "sync");
	assert_string_equal(family_of(TABLE_RUNTIME, "__cudaRegisterFunction"), "other");
	assert_string_equal(family_of(TABLE_RUNTIME, "__cudaLaunchKernel"), "launch");
	assert_string_equal(family_of(TABLE_RUNTIME, "cudaMemset2D_ptds"), "transfer");
	assert_string_equal(family_of(TABLE_RUNTIME, "cudaMallocAsync"), "memory");
	assert_string_equal(family_of(TABLE_DRIVER, "cuMemAllocFromPoolAsync"), "pool");
	assert_string_equal(family_of(TABLE_DRIVER, "cuArray3DCreate_v2"), "array");
	assert_string_equal(family_of(TABLE_DRIVER, "cuMemcpyHtoA_v2"), "transfer");
	assert_string_equal(family_of(TABLE_RUNTIME, "cudaGraphLaunch"), "graph");
	assert_string_equal(family_of(TABLE_RUNTIME, "cudaGraphicsMapResources"), "interop");
	assert_int_equal(table_family("nonsense"), -ENOENT);
	assert_true(table_families[table_family("memory")].in_default);
	assert_false(table_families[table_family("query")].in_default);
	assert_int_equal(table_nfamilies, 18);
}

static void test_flags(void **state)
{
	const struct table_row *tail = row_of(TABLE_RUNTIME, "__cudaLaunchKernel_ptsz", 13);

	assert_true(tail->flags & TABLE_TAIL);
	assert_int_equal(tail->ntwins, 1);
	assert_string_equal(table_twins[tail->twin], "cudaLaunchKernel_ptsz");
	assert_true(row_of(TABLE_RUNTIME, "cudaPeekAtLastError", 13)->flags & TABLE_REPORTS_ERROR);
	assert_true(row_of(TABLE_DRIVER, "cuModuleGetFunction", 13)->flags & TABLE_BRINGS_NAMES);
	assert_true(row_of(TABLE_RUNTIME, "cudaGetErrorString", 13)->flags & TABLE_BRINGS_NAMES);
	assert_int_equal(row_of(TABLE_RUNTIME, "cudaGetErrorString", 13)->ret, TABLE_RET_STRING);
	assert_int_equal(row_of(TABLE_RUNTIME, "__cudaRegisterFatBinary", 13)->ret, TABLE_RET_POINTER);
	assert_int_equal(row_of(TABLE_RUNTIME, "__cudaRegisterFunction", 13)->ret, TABLE_RET_VOID);
}

static void test_twins(void **state)
{
	const struct table_row *row = row_of(TABLE_RUNTIME, "cudaMemset", 13);
	bool found = false;

	for (unsigned i = 0; i < row->ntwins; i++)
		found |= strcmp(table_twins[row->twin + i], "cuMemsetD8_v2") == 0;
	assert_true(found);
	assert_int_equal(row_of(TABLE_DRIVER, "cuMemAlloc_v2", 13)->ntwins, 0);
}

static void test_next(void **state)
{
	int row = -1, n = 0;

	while (table_next("cudaMemset*", &row)) {
		assert_int_equal(strncmp(table_rows[row].symbol, "cudaMemset", 10), 0);
		n++;
	}
	assert_int_equal(n, 12); /* three shapes, async or not, with and without per-thread stream */
	row = -1;
	/* a plain name matches func and so every variant */
	for (n = 0; table_next("cuMemAlloc", &row); n++)
		assert_string_equal(table_rows[row].func, "cuMemAlloc");
	assert_int_equal(n, 2);
	row = -1;
	assert_false(table_next("nonsense*", &row));
	row = (int)table_nrows - 1;
	assert_false(table_next("*", &row));
}

/* ---- derefs ---- */

static void test_strings(void **state)
{
	const struct table_param *in = param_of(row_of(TABLE_DRIVER, "cuModuleGetFunction", 13), "name");
	const struct table_param *out = param_of(row_of(TABLE_DRIVER, "cuGetErrorString", 13), "pStr");
	const struct table_param *buffer = param_of(row_of(TABLE_DRIVER, "cuDeviceGetName", 13), "name");
	const struct table_row *registers = row_of(TABLE_RUNTIME, "__cudaRegisterFunction", 13);

	assert_int_equal(in->deref, TABLE_IN);
	assert_int_equal(table_types[in->pointee].kind, TABLE_STRING);
	assert_int_equal(out->deref, TABLE_OUT);
	assert_int_equal(table_types[out->pointee].kind, TABLE_STRING);
	assert_int_equal(buffer->deref, TABLE_OUT);
	assert_int_equal(table_types[buffer->pointee].kind, TABLE_CHARS);
	/* an address of code, not text */
	assert_int_equal(param_of(registers, "hostFun")->deref, TABLE_NO_DEREF);
	assert_int_equal(param_of(registers, "deviceName")->deref, TABLE_IN);
}

static void test_arrays(void **state)
{
	const struct table_row *add = row_of(TABLE_RUNTIME, "cudaGraphAddKernelNode", 13);
	const struct table_row *get = row_of(TABLE_RUNTIME, "cudaGraphGetNodes", 13);
	const struct table_param *nodes = param_of(get, "nodes");
	const struct table_param *dependencies = param_of(add, "pDependencies");

	assert_int_equal(dependencies->deref, TABLE_IN);
	assert_string_equal(table_params[add->param + dependencies->count].name, "numDependencies");
	assert_false(dependencies->count_is_pointer);
	assert_int_equal(nodes->deref, TABLE_OUT);
	assert_true(nodes->count_is_pointer);
	assert_string_equal(table_params[get->param + nodes->count].name, "numNodes");
	assert_int_equal(param_of(row_of(TABLE_RUNTIME, "cudaMemcpy", 13), "dst")->deref, TABLE_NO_DEREF);
	assert_int_equal(param_of(row_of(TABLE_RUNTIME, "cudaStreamAddCallback", 13), "userData")->deref,
			 TABLE_NO_DEREF);
}

static void test_kinds(void **state)
{
	const struct table_row *row = row_of(TABLE_RUNTIME, "cudaMemcpyAsync", 13);
	const struct table_type *kind = &table_types[param_of(row, "kind")->type];

	assert_int_equal(table_types[param_of(row, "dst")->type].kind, TABLE_HEX);
	assert_int_equal(table_types[param_of(row, "count")->type].kind, TABLE_UINT);
	assert_int_equal(table_types[param_of(row, "count")->type].size, 8);
	assert_int_equal(table_types[param_of(row, "stream")->type].kind, TABLE_HEX);
	assert_int_equal(kind->kind, TABLE_ENUM);
	assert_string_equal(kind->name, "cudaMemcpyKind");
	assert_string_equal(table_enumerator(&table_enums[kind->ref], 1), "cudaMemcpyHostToDevice");
	assert_null(table_enumerator(&table_enums[kind->ref], 9));
	row = row_of(TABLE_DRIVER, "cuMemAlloc", 13);
	assert_int_equal(table_types[param_of(row, "bytesize")->type].size, 4);
	assert_int_equal(table_types[param_of(row, "dptr")->pointee].size, 4);
}

/* ---- errors ---- */

static void error_is(enum table_api api, int code, const char *name, const char *message)
{
	const struct table_error *error = table_error(api, code);

	assert_non_null(error);
	assert_int_equal(error->code, code);
	assert_string_equal(error->name, name);
	assert_string_equal(error->message, message);
}

static void test_errors(void **state)
{
	error_is(TABLE_RUNTIME, 2, "cudaErrorMemoryAllocation", "out of memory");
	error_is(TABLE_DRIVER, 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory");
	error_is(TABLE_RUNTIME, 100, "cudaErrorNoDevice", "no CUDA-capable device is detected");
	error_is(TABLE_DRIVER, 100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected");
	error_is(TABLE_RUNTIME, 101, "cudaErrorInvalidDevice", "invalid device ordinal");
	error_is(TABLE_DRIVER, 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal");
	error_is(TABLE_RUNTIME, 35, "cudaErrorInsufficientDriver",
		 "CUDA driver version is insufficient for CUDA runtime version");
	assert_null(table_error(TABLE_DRIVER, 35));
	error_is(TABLE_RUNTIME, 0, "cudaSuccess", "no error");
	error_is(TABLE_DRIVER, 500, "CUDA_ERROR_NOT_FOUND", "named symbol not found");
	assert_null(table_error(TABLE_RUNTIME, -1));
	assert_null(table_error(TABLE_RUNTIME, 12345));
	assert_true(table_nerrors[TABLE_RUNTIME] >= 134);
	assert_true(table_nerrors[TABLE_DRIVER] >= 101);
}

/* ---- nearest ---- */

static void test_nearest(void **state)
{
	static const char *const words[] = {"memory", "transfer", "launch", "stream"};

	assert_string_equal(table_nearest("memroy", words, 4), "memory");
	assert_string_equal(table_nearest("lanch", words, 4), "launch");
	assert_string_equal(table_nearest("stream", words, 4), "stream");
	assert_null(table_nearest("occupancy", words, 4));
	assert_null(table_nearest("", words, 4));
	assert_null(table_nearest("memory", words, 0));
	assert_string_equal(table_nearest_function("cudaMaloc"), "cudaMalloc");
	assert_string_equal(table_nearest_function("cuMemAllocAsynch"), "cuMemAllocAsync");
	assert_null(table_nearest_function("x"));
	assert_null(table_nearest_function(
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

/* Each name and each of its globs finds what a comparison with every row finds. */
static void compare_all(const char *pattern)
{
	int row = -1;

	for (int i = 0; i < (int)table_nrows; i++) {
		if (fnmatch(pattern, table_rows[i].symbol, 0) && fnmatch(pattern, table_rows[i].func, 0))
			continue;
		if (!table_next(pattern, &row) || row != i)
			fail_msg("%s: row %d instead of %d, %s", pattern, row, i, table_rows[i].symbol);
	}
	assert_false(table_next(pattern, &row));
}

static void test_next_finds_all(void **state)
{
	char pattern[128];

	for (unsigned i = 0; i < table_nrows; i++) {
		const struct table_row *row = &table_rows[i];

		assert_int_equal(strncmp(row->symbol, row->func, strlen(row->func)), 0);
		compare_all(row->symbol);
		compare_all(row->func);
		snprintf(pattern, sizeof(pattern), "%.*s*", (int)(i % 12), row->symbol);
		compare_all(pattern);
	}
}

/* Pseudo-random globs over a small alphabet, so that they match now and then. */
static void test_glob(void **state)
{
	static const char *const parts[] = {"a",     "b",    "_",      "*",    "?",   "[ab]", "[!a]",
					    "[a-b]", "[]a]", "[^]]",   "\\*",  "\\a", "[",    "]",
					    "[a",    "-",    "[a\\]]", "[b-]", "**"};
	unsigned seed = 1, matches = 0;

	for (int round = 0; round < 200000; round++) {
		char pattern[64] = "", text[16] = "";
		int expected;

		for (int i = 0; i < 6; i++) {
			seed = seed * 1103515245 + 12345;
			if ((seed >> 16) % 3)
				strcat(pattern, parts[(seed >> 18) % (sizeof(parts) / sizeof(parts[0]))]);
			seed = seed * 1103515245 + 12345;
			if ((seed >> 16) % 3)
				strncat(text, &"aab_*]["[(seed >> 18) % 7], 1);
		}
		expected = !fnmatch(pattern, text, 0);
		matches += expected;
		if (table_glob_match(pattern, text) != expected)
			fail_msg("%s, %s: not %d", pattern, text, expected);
	}
	assert_true(matches > 1000);
}

/* Each star could stand for anything: that must not be tried in every combination. */
static void test_glob_is_quick(void **state)
{
	char pattern[700] = "", text[300] = "";

	for (int i = 0; i < 100; i++)
		strcat(pattern, "*[a-z]");
	strcat(pattern, "Z");
	memset(text, 'q', sizeof(text) - 1);
	assert_false(table_glob_match(pattern, text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runtime_launch),
		cmocka_unit_test(test_driver_launch),
		cmocka_unit_test(test_launch_configurations),
		cmocka_unit_test(test_sret),
		cmocka_unit_test(test_structs_by_value),
		cmocka_unit_test(test_many_params),
		cmocka_unit_test(test_float_by_value),
		cmocka_unit_test(test_changed_shapes),
		cmocka_unit_test(test_major_undecided),
		cmocka_unit_test(test_removed_and_unknown),
		cmocka_unit_test(test_every_row_is_found),
		cmocka_unit_test(test_copy_keys),
		cmocka_unit_test(test_variants_have_equal_keys),
		cmocka_unit_test(test_memory_keys),
		cmocka_unit_test(test_func),
		cmocka_unit_test(test_families),
		cmocka_unit_test(test_flags),
		cmocka_unit_test(test_twins),
		cmocka_unit_test(test_next),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_arrays),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_nearest),
		cmocka_unit_test(test_next_finds_all),
		cmocka_unit_test(test_glob),
		cmocka_unit_test(test_glob_is_quick),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
