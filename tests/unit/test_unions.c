/* Unions whose member a tag tells: the nodes of graphs, in both libraries and in every major. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "encode_record.h"
#include "encode_reference.h"
#include "streamer/enrich/processes.h"

static const struct encoder_options options = {.run = "k3v9q2m7x0ab", .host = "gpu07", .args = true};
static struct plan *plans;

/* Every function that takes a node's parameters in one structure. */
static const struct {
	enum table_api api;
	const char *symbol;
	unsigned major;
} functions[] = {
	{TABLE_RUNTIME, "cudaGraphAddNode", 12},           {TABLE_RUNTIME, "cudaGraphAddNode_v2", 12},
	{TABLE_RUNTIME, "cudaGraphNodeSetParams", 12},     {TABLE_RUNTIME, "cudaGraphExecNodeSetParams", 12},
	{TABLE_RUNTIME, "cudaGraphAddNode", 13},           {TABLE_RUNTIME, "cudaGraphNodeSetParams", 13},
	{TABLE_RUNTIME, "cudaGraphExecNodeSetParams", 13}, {TABLE_DRIVER, "cuGraphAddNode", 13},
	{TABLE_DRIVER, "cuGraphAddNode_v2", 13},           {TABLE_DRIVER, "cuGraphNodeSetParams", 13},
	{TABLE_DRIVER, "cuGraphExecNodeSetParams", 13},
};
#define NFUNCTIONS (sizeof(functions) / sizeof(functions[0]))

struct node {
	_Alignas(8) unsigned char bytes[256];
};

static void put32(struct node *node, size_t offset, uint32_t value)
{
	memcpy(node->bytes + offset, &value, sizeof(value));
}

static void put64(struct node *node, size_t offset, uint64_t value)
{
	memcpy(node->bytes + offset, &value, sizeof(value));
}

static unsigned function_row(size_t i)
{
	int row = table_find(functions[i].api, functions[i].symbol, functions[i].major);

	assert_true(row >= 0);
	return (unsigned)row;
}

/* The call; @node NULL: its memory could not be read. */
static void call_with(struct record *record, unsigned row, const struct node *node, struct call *call)
{
	record_begin(record, plans, row);
	record_call(record)->ret = 2; /* nothing is read on return */
	record_param(record, "nodeParams", 0x7ffd12345678);
	while (record->op < record->plan->desc.nentry) {
		unsigned param = record->plan->op_param[record->op];

		if (node && !strcmp(table_params[table_rows[row].param + param].name, "nodeParams"))
			record_slot(record, node->bytes, sizeof(node->bytes), 0);
		else
			record_slot(record, NULL, -1, 0);
	}
	assert_int_equal(decode_call(plans, record_call(record), record->size, call), 0);
}

/* What the line shows of the node. */
static json_t *shown(const struct call *call)
{
	static char line[ENCODE_MAX_LINE];
	struct encoder *encoder = encoder_new(&options);
	struct thread thread = {.pid = 1, .tid = 1};
	struct line_meta meta;
	json_t *event, *value;

	event = reference_parse(line, encode_call(encoder, call, &thread, 1, 0, line, &meta));
	assert_non_null(event);
	value = json_incref(json_object_get(json_object_get(event, "args"), "nodeParams"));
	json_decref(event);
	thread_drop_prefixes(&thread);
	encoder_free(encoder);
	return value;
}

static bool has(const struct call *call, enum table_key_id key)
{
	return call->keys.present & 1u << key;
}

static const struct table_union *union_of(unsigned row)
{
	for (unsigned i = 0; i < table_rows[row].nparams; i++) {
		const struct table_param *param = &table_params[table_rows[row].param + i];
		const struct table_struct *s = &table_structs[table_types[param->pointee].ref];

		if (strcmp(param->name, "nodeParams"))
			continue;
		assert_int_equal(table_types[param->pointee].kind, TABLE_STRUCT);
		for (unsigned f = 0; f < s->count; f++) {
			const struct table_type *type = &table_types[table_fields[s->first + f].type];

			if (type->kind == TABLE_UNION)
				return &table_unions[type->ref];
		}
	}
	fail_msg("%s has no union", table_rows[row].symbol);
	return NULL;
}

/* ---- what is shown ---- */

/* Each enumerator of the tag brings its member and no other one; those without a member bring none. */
static void every_enumerator(void **state)
{
	struct node node = {0};
	struct record record;
	struct call call;

	for (size_t i = 0; i < NFUNCTIONS; i++) {
		unsigned row = function_row(i), with = 0;
		const struct table_union *u = union_of(row);

		for (uint32_t tag = 0; tag < 32; tag++) {
			const struct table_field *member;
			json_t *object;

			put32(&node, 0, tag);
			member = table_member(u, node.bytes, sizeof(node.bytes));
			call_with(&record, row, &node, &call);
			object = shown(&call);
			assert_true(json_is_object(object));
			assert_true(json_is_string(json_object_get(object, "type")));
			assert_int_equal(json_object_size(object), member ? 2 : 1);
			if (member)
				assert_true(json_is_object(json_object_get(object, member->name)));
			with += member != NULL;
			json_decref(object);
		}
		assert_int_equal(with, functions[i].api == TABLE_DRIVER ? 15 : functions[i].major);
	}
}

static void same_text(json_t *json, const char *expected)
{
	char *text = json_dumps(json, JSON_COMPACT | JSON_PRESERVE_ORDER);

	assert_string_equal(text, expected);
	free(text);
	json_decref(json);
}

static void unknown_tags(void **state)
{
	struct node node = {0};
	struct record record;
	struct call call;

	put32(&node, 0, 99);
	call_with(&record, function_row(4), &node, &call);
	same_text(shown(&call), "{\"type\":\"cudaGraphNodeType(99)\"}");
	assert_int_equal(call.keys.present, 0);
	put32(&node, 0, UINT32_MAX);
	call_with(&record, function_row(8), &node, &call);
	same_text(shown(&call), "{\"type\":\"CUgraphNodeType_enum(-1)\"}");
	assert_int_equal(call.keys.present, 0);
}

static void unreadable_memory(void **state)
{
	struct record record;
	struct call call;

	for (size_t i = 0; i < NFUNCTIONS; i++) {
		call_with(&record, function_row(i), NULL, &call);
		same_text(json_pack("{s:o}", "nodeParams", shown(&call)),
			  "{\"nodeParams\":\"0x7ffd12345678\"}");
		assert_int_equal(call.keys.present, 0);
	}
}

/* A structure of which only the first part is known, as a member's or the tag's is not. */
static void cut_structures(void **state)
{
	const struct table_union *u = union_of(function_row(4));
	struct node node = {0};

	assert_non_null(table_member(u, node.bytes, 4));
	assert_null(table_member(u, node.bytes, 3));
	assert_null(table_member(u, NULL, 0));
}

/* ---- kernels ---- */

/* cudaKernelNodeParamsV2: func, grid, block, shared bytes, two pointers; 13: a context and what func is */
static struct node runtime_kernel(void)
{
	struct node node = {0};

	put64(&node, 16, 0x5561234);
	for (uint32_t i = 0; i < 6; i++)
		put32(&node, 24 + 4 * i, 10 + i);
	put32(&node, 48, 4096);
	put64(&node, 56, 0xa0);
	put64(&node, 64, 0xb0);
	put64(&node, 72, 0xc0);
	put32(&node, 80, 2);
	return node;
}

static void check_kernel(const struct call *call, uint64_t handle)
{
	assert_true(has(call, TABLE_KEY_KERNEL_HANDLE) && has(call, TABLE_KEY_SHARED_BYTES));
	assert_int_equal(call->keys.kernel_handle, handle);
	assert_memory_equal(call->keys.grid, ((uint32_t[]){10, 11, 12}), 12);
	assert_memory_equal(call->keys.block, ((uint32_t[]){13, 14, 15}), 12);
	assert_int_equal(call->keys.shared_bytes, 4096);
	assert_false(has(call, TABLE_KEY_BYTES) || has(call, TABLE_KEY_PTR) ||
		     has(call, TABLE_KEY_DIRECTION));
}

static void runtime_kernels(void **state)
{
	struct node node = runtime_kernel();
	struct record record;
	struct call call;

	call_with(&record, function_row(0), &node, &call);
	check_kernel(&call, 0x5561234);
	same_text(shown(&call), "{\"type\":\"cudaGraphNodeTypeKernel\",\"kernel\":{\"func\":\"0x5561234\","
				"\"gridDim\":[10,11,12],\"blockDim\":[13,14,15],\"sharedMemBytes\":4096,"
				"\"kernelParams\":\"0xa0\",\"extra\":\"0xb0\"}}");
	call_with(&record, function_row(4), &node, &call);
	check_kernel(&call, 0x5561234);
	same_text(shown(&call), "{\"type\":\"cudaGraphNodeTypeKernel\",\"kernel\":{\"func\":\"0x5561234\","
				"\"gridDim\":[10,11,12],\"blockDim\":[13,14,15],\"sharedMemBytes\":4096,"
				"\"kernelParams\":\"0xa0\",\"extra\":\"0xb0\",\"ctx\":\"0xc0\","
				"\"functionType\":\"cudaKernelFunctionTypeKernel\"}}");
}

/* CUDA_KERNEL_NODE_PARAMS_v3: one of func and kern is not 0 */
static void driver_kernels(void **state)
{
	struct node node = {0};
	struct record record;
	struct call call;

	put64(&node, 16, 0xf00);
	for (uint32_t i = 0; i < 6; i++)
		put32(&node, 24 + 4 * i, 10 + i);
	put32(&node, 48, 4096);
	call_with(&record, function_row(7), &node, &call);
	check_kernel(&call, 0xf00);
	put64(&node, 16, 0);
	put64(&node, 72, 0xf11);
	call_with(&record, function_row(8), &node, &call);
	check_kernel(&call, 0xf11);
}

/* ---- copies, fills, memory ---- */

static void runtime_copies(void **state)
{
	struct node node = {0};
	struct record record;
	struct call call;
	/* flags, reserved, then cudaMemcpy3DParms at 32: arrays, positions, pitched pointers, extent, kind */
	const size_t copy = 32;

	put32(&node, 0, 1);
	put64(&node, copy + 32, 0x1111);
	put64(&node, copy + 96, 0x2222);
	put64(&node, copy + 128, 100);
	put64(&node, copy + 136, 20);
	put64(&node, copy + 144, 3);
	put32(&node, copy + 152, 2);
	for (size_t i = 0; i < 7; i++) {
		call_with(&record, function_row(i), &node, &call);
		assert_true(has(&call, TABLE_KEY_BYTES) && has(&call, TABLE_KEY_DIRECTION));
		assert_int_equal(call.keys.bytes, 6000);
		assert_int_equal(call.keys.direction, TABLE_D2H);
		assert_int_equal(call.keys.src_ptr, 0x1111);
		assert_int_equal(call.keys.ptr, 0x2222);
		assert_false(has(&call, TABLE_KEY_KERNEL_HANDLE) || has(&call, TABLE_KEY_GRID));
	}
	put64(&node, copy, 0x3333); /* of an array the width counts elements */
	call_with(&record, function_row(4), &node, &call);
	assert_false(has(&call, TABLE_KEY_BYTES));
}

static void driver_copies(void **state)
{
	struct node node = {0};
	struct record record;
	struct call call;
	const size_t copy = 32; /* CUDA_MEMCPY3D behind flags and a context */

	put32(&node, 0, 1);
	put32(&node, copy + 32, 1); /* srcMemoryType: host */
	put64(&node, copy + 40, 0x1111);
	put32(&node, copy + 120, 2); /* dstMemoryType: device */
	put64(&node, copy + 136, 0x2222);
	put64(&node, copy + 176, 64);
	put64(&node, copy + 184, 2);
	put64(&node, copy + 192, 5);
	for (size_t i = 7; i < NFUNCTIONS; i++) {
		call_with(&record, function_row(i), &node, &call);
		assert_int_equal(call.keys.bytes, 640);
		assert_int_equal(call.keys.direction, TABLE_H2D);
		assert_int_equal(call.keys.src_ptr, 0x1111);
		assert_int_equal(call.keys.ptr, 0x2222);
	}
}

/* dst, pitch, value, element size, width, height: the same in both libraries */
static void fills(void **state)
{
	struct node node = {0};
	struct record record;
	struct call call;

	put32(&node, 0, 2);
	put64(&node, 16, 0x7f00);
	put64(&node, 24, 512);
	put32(&node, 32, 7);
	put32(&node, 36, 4);
	put64(&node, 40, 100);
	put64(&node, 48, 3);
	for (size_t i = 0; i < NFUNCTIONS; i++) {
		call_with(&record, function_row(i), &node, &call);
		assert_int_equal(call.keys.bytes, 1200);
		assert_int_equal(call.keys.ptr, 0x7f00);
		assert_false(has(&call, TABLE_KEY_DIRECTION) || has(&call, TABLE_KEY_SRC_PTR));
	}
	call_with(&record, function_row(0), &node, &call);
	same_text(shown(&call),
		  "{\"type\":\"cudaGraphNodeTypeMemset\",\"memset\":{\"dst\":\"0x7f00\",\"pitch\":512,"
		  "\"value\":7,\"elementSize\":4,\"width\":100,\"height\":3}}");
}

static void memory(void **state)
{
	struct node node = {0};
	struct record record;
	struct call call;

	put32(&node, 0, 10);
	put32(&node, 24, 1);        /* poolProps.location.type: a device */
	put32(&node, 28, 3);        /* and which */
	put64(&node, 120, 1 << 20); /* bytesize: behind the pool's 88 bytes and two words */
	for (size_t i = 0; i < NFUNCTIONS; i++) {
		call_with(&record, function_row(i), &node, &call);
		assert_int_equal(call.keys.bytes, 1 << 20);
		assert_true(has(&call, TABLE_KEY_DEVICE));
		assert_int_equal(call.keys.device, 3);
		assert_false(has(&call, TABLE_KEY_PTR));
	}
	memset(&node, 0, sizeof(node));
	put32(&node, 0, 11);
	put64(&node, 16, 0x7f12);
	for (size_t i = 0; i < NFUNCTIONS; i++) {
		call_with(&record, function_row(i), &node, &call);
		assert_int_equal(call.keys.present, 1u << TABLE_KEY_PTR);
		assert_int_equal(call.keys.ptr, 0x7f12);
	}
}

/* ---- the table ---- */

static void every_union(void **state)
{
	for (unsigned i = 0; i < table_nunions; i++) {
		const struct table_union *u = &table_unions[i];

		assert_true(u->count > 0);
		for (unsigned j = 0; j < u->count; j++) {
			const struct table_variant *v = &table_variants[u->first + j];

			assert_true(!j || v[-1].value < v->value);
			assert_true(v->field < table_nfields);
			assert_int_not_equal(table_types[table_fields[v->field].type].kind, TABLE_UNION);
		}
	}
	/* nothing but fields is one */
	for (unsigned r = 0; r < table_nrows; r++)
		for (unsigned i = 0; i < table_rows[r].nparams; i++) {
			const struct table_param *param = &table_params[table_rows[r].param + i];

			assert_int_not_equal(table_types[param->type].kind, TABLE_UNION);
			assert_int_not_equal(table_types[param->pointee].kind, TABLE_UNION);
		}
}

/* The whole structure is read at entry, wherever the ABI passes its address. */
static void read_on_every_machine(void **state)
{
	for (unsigned abi = 0; abi < TABLE_NABIS; abi++)
		for (size_t i = 0; i < NFUNCTIONS; i++) {
			const struct table_row *row = &table_rows[function_row(i)];
			unsigned found = 0;
			struct plan plan;

			plan_make(function_row(i), abi, &plan);
			for (unsigned op = 0; op < plan.desc.nentry; op++)
				found += plan.desc.ops[op].size == sizeof(struct node) &&
					 !strcmp(table_params[row->param + plan.op_param[op]].name,
						 "nodeParams");
			assert_int_equal(found, 1);
		}
}

/* A node's bytes are moved when the graph runs, if ever: a process has not moved them by adding it. */
static void payloads_do_not_count_as_moved(void **state)
{
	struct process process = {0};
	struct node node = {0};
	struct record record;
	struct call call;

	put32(&node, 0, 1);
	put64(&node, 32 + 128, 100);
	put64(&node, 32 + 136, 1);
	put64(&node, 32 + 144, 1);
	put32(&node, 32 + 152, 1);
	call_with(&record, function_row(4), &node, &call);
	assert_int_equal(call.keys.bytes, 100);
	assert_int_equal(call.keys.direction, TABLE_H2D);
	call.status = CALL_OK;
	process_count(&process, &call);
	assert_int_equal(process.total.calls, 1);
	assert_int_equal(process.total.bytes[TABLE_H2D], 0);
}

static int setup(void **state)
{
	plans = plan_all(TABLE_X86_64);
	return plans ? 0 : -1;
}

static int teardown(void **state)
{
	free(plans);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_enumerator),
		cmocka_unit_test(unknown_tags),
		cmocka_unit_test(unreadable_memory),
		cmocka_unit_test(cut_structures),
		cmocka_unit_test(runtime_kernels),
		cmocka_unit_test(driver_kernels),
		cmocka_unit_test(runtime_copies),
		cmocka_unit_test(driver_copies),
		cmocka_unit_test(fills),
		cmocka_unit_test(memory),
		cmocka_unit_test(every_union),
		cmocka_unit_test(read_on_every_machine),
		cmocka_unit_test(payloads_do_not_count_as_moved),
	};

	return cmocka_run_group_tests_name("unions", tests, setup, teardown);
}
