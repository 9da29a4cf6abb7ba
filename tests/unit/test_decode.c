/* Plans and decoding: records made by hand, as the BPF program makes them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "streamer/decode/decode.h"

static struct plan *plans;

struct maker {
	union {
		struct rec_call rec;
		uint8_t bytes[sizeof(struct rec_call) + REC_MAX_DATA];
	};
	size_t size;
};

static unsigned row_of(enum table_api api, const char *symbol, unsigned major)
{
	int row = table_find(api, symbol, major);

	assert_true(row >= 0);
	return row;
}

static void make(struct maker *m, unsigned row, int32_t ret, const uint64_t *words)
{
	size_t n = plans[row].desc.nregs + plans[row].desc.nstack;

	memset(m, 0, sizeof(*m));
	m->rec.kind = REC_CALL;
	m->rec.cookie = 7ull << 16 | row;
	m->rec.ret = 0xdead00000000ull | (uint32_t)ret;
	memcpy(m->bytes + sizeof(m->rec), words, 8 * n);
	m->size = sizeof(m->rec) + 8 * n;
}

static void slot(struct maker *m, const void *data, int32_t len, uint32_t count)
{
	struct rec_slot head = {.len = len, .count = count};

	memcpy(m->bytes + m->size, &head, sizeof(head));
	m->size += sizeof(head);
	if (len > 0) {
		memcpy(m->bytes + m->size, data, len);
		m->size += (len + 7) / 8 * 8;
	}
}

static bool has(const struct call *call, enum table_key_id key)
{
	return call->keys.present & 1u << key;
}

/* Descriptors of copies are filled by hand: only the address that the memory type names means something. */
static void copies_show_the_address_of_their_kind(void **state)
{
	/* CUDA_MEMCPY2D: x, y, type, host, device, array, pitch of the source and of the destination; width,
	 * height */
	static const struct {
		uint64_t src_type, dst_type, src, dst;
	} cases[] = {
		{1, 2, 0x1111, 0x5555},
		{2, 1, 0x2222, 0x4444},
		{3, 3, 0x3333, 0x6666},
		{4, 4, 0x2222, 0x5555},
	};
	unsigned row = row_of(TABLE_DRIVER, "cuMemcpy2D_v2", 13);
	uint64_t words[1] = {0x7000};
	struct maker m;
	struct call call;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		/* the upper half of a type's word is padding */
		uint64_t copy[] = {0, 0, cases[i].src_type | 0xabcdull << 32, 0x1111, 0x2222, 0x3333, 9,
				   0, 0, cases[i].dst_type | 0xabcdull << 32, 0x4444, 0x5555, 0x6666, 9,
				   8, 4};

		make(&m, row, 0, words);
		slot(&m, copy, sizeof(copy), 0);
		assert_int_equal(decode_call(plans, &m.rec, m.size, &call), 0);
		assert_int_equal(call.keys.src_ptr, cases[i].src);
		assert_int_equal(call.keys.ptr, cases[i].dst);
		assert_int_equal(call.keys.bytes, 32);
		/* no type at all: no address */
		copy[2] = copy[9] = 0;
		make(&m, row, 0, words);
		slot(&m, copy, sizeof(copy), 0);
		assert_int_equal(decode_call(plans, &m.rec, m.size, &call), 0);
		assert_false(has(&call, TABLE_KEY_SRC_PTR) || has(&call, TABLE_KEY_PTR));
	}
}

static void malloc_gives_bytes_and_ptr(void **state)
{
	uint64_t words[2] = {0x7ffd01a2b3c8, 1048576}, ptr = 0x7f12a4000000;
	unsigned row = row_of(TABLE_RUNTIME, "cudaMalloc", 13);
	struct maker m;
	struct call call;

	make(&m, row, 0, words);
	slot(&m, &ptr, 8, 0);
	assert_int_equal(decode_call(plans, &m.rec, m.size, &call), 0);
	assert_int_equal(call.status, CALL_OK);
	assert_int_equal(call.attach_id, 7);
	assert_true(has(&call, TABLE_KEY_BYTES) && has(&call, TABLE_KEY_PTR));
	assert_int_equal(call.keys.bytes, 1048576);
	assert_int_equal(call.keys.ptr, ptr);
	assert_memory_equal(call.out[0].data, &ptr, 8);
	assert_memory_equal(call.arg[0].data, &words[0], 8);
}

static void a_failed_call_has_no_out(void **state)
{
	uint64_t words[2] = {0x7ffd01a2b3c8, 1ull << 50};
	unsigned row = row_of(TABLE_RUNTIME, "cudaMalloc", 12);
	struct maker m;
	struct call call;

	make(&m, row, 2, words);
	assert_int_equal(decode_call(plans, &m.rec, m.size, &call), 0);
	assert_int_equal(call.status, CALL_ERROR);
	assert_int_equal(call.ret, 2);
	assert_string_equal(call.error->name, "cudaErrorMemoryAllocation");
	assert_null(call.out[0].data);
	assert_false(has(&call, TABLE_KEY_PTR));
	assert_true(has(&call, TABLE_KEY_BYTES));
}

static void statuses(void **state)
{
	static const struct {
		const char *symbol;
		int32_t ret;
		enum call_status status;
	} cases[] = {
		{"cudaStreamQuery", 600, CALL_NOT_READY}, {"cudaStreamQuery", 700, CALL_ERROR},
		{"cudaStreamQuery", 0, CALL_OK},          {"cudaGetLastError", 2, CALL_OK},
		{"cudaPeekAtLastError", 700, CALL_OK},
	};
	uint64_t words[8] = {0};
	struct maker m;
	struct call call;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make(&m, row_of(TABLE_RUNTIME, cases[i].symbol, 13), cases[i].ret, words);
		assert_int_equal(decode_call(plans, &m.rec, m.size, &call), 0);
		assert_int_equal(call.status, cases[i].status);
	}
	make(&m, row_of(TABLE_RUNTIME, "cudaFree", 13), 0, words);
	m.rec.flags = REC_F_UNFINISHED;
	assert_int_equal(decode_call(plans, &m.rec, m.size, &call), 0);
	assert_int_equal(call.status, CALL_UNFINISHED);
	assert_null(call.error);
}

static void driver_launch_reads_the_stack(void **state)
{
	/* f, gridX Y Z, blockX Y | blockZ, shared, stream, params, extra */
	uint64_t words[11] = {0xf00, 1 | 0xffffffff00000000ull, 2, 3, 4, 5, 6, 7, 0x8, 0x9, 0xa};
	unsigned row = row_of(TABLE_DRIVER, "cuLaunchKernel", 13);
	struct maker m;
	struct call call;

	assert_int_equal(plans[row].desc.nregs, 6);
	assert_int_equal(plans[row].desc.nstack, 5);
	make(&m, row, 0, words);
	assert_int_equal(decode_call(plans, &m.rec, m.size, &call), 0);
	assert_true(has(&call, TABLE_KEY_GRID) && has(&call, TABLE_KEY_BLOCK));
	assert_memory_equal(call.keys.grid, ((uint32_t[]){1, 2, 3}), 12);
	assert_memory_equal(call.keys.block, ((uint32_t[]){4, 5, 6}), 12);
	assert_int_equal(call.keys.shared_bytes, 7);
	assert_int_equal(call.keys.stream, 8);
	assert_int_equal(call.keys.kernel_handle, 0xf00);
}

static void runtime_launch_has_dim3_in_registers(void **state)
{
	uint64_t words[8] = {0xf00, 64 | 2ull << 32, 3, 256 | 5ull << 32, 6, 0x99, 1024, 0};
	unsigned row = row_of(TABLE_RUNTIME, "cudaLaunchKernel_ptsz", 13);
	struct maker m;
	struct call call;

	make(&m, row, 0, words);
	/* by the ABI: func, grid (2), args?, ... : cudaLaunchKernel(func, grid, block, args, shared, stream)
	 */
	assert_int_equal(decode_call(plans, &m.rec, m.size, &call), 0);
	assert_memory_equal(call.keys.grid, ((uint32_t[]){64, 2, 3}), 12);
	assert_memory_equal(call.keys.block, ((uint32_t[]){256, 5, 6}), 12);
	assert_int_equal(call.keys.shared_bytes, 1024);
	/* stream 0 of a per-thread variant */
	assert_int_equal(call.keys.stream, 2);
}

static void directions(void **state)
{
	static const struct {
		enum table_api api;
		const char *symbol;
		uint64_t words[4];
		enum table_direction direction;
	} cases[] = {
		{TABLE_RUNTIME, "cudaMemcpy", {1, 2, 3, 1}, TABLE_H2D},
		{TABLE_RUNTIME, "cudaMemcpy", {1, 2, 3, 2 | 0xabcd00000000ull}, TABLE_D2H},
		{TABLE_RUNTIME, "cudaMemcpy", {1, 2, 3, 4}, TABLE_DEFAULT},
		{TABLE_DRIVER, "cuMemcpyHtoD_v2", {1, 2, 3}, TABLE_H2D},
		{TABLE_DRIVER, "cuMemcpyDtoH_v2", {1, 2, 3}, TABLE_D2H},
		{TABLE_DRIVER, "cuMemcpyDtoD_v2_ptds", {1, 2, 3}, TABLE_D2D},
	};
	struct maker m;
	struct call call;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make(&m, row_of(cases[i].api, cases[i].symbol, 13), 0, cases[i].words);
		assert_int_equal(decode_call(plans, &m.rec, m.size, &call), 0);
		assert_true(has(&call, TABLE_KEY_DIRECTION));
		assert_int_equal(call.keys.direction, cases[i].direction);
		assert_int_equal(call.keys.bytes, 3);
		assert_int_equal(call.keys.ptr, 1);
		assert_int_equal(call.keys.src_ptr, 2);
	}
	/* a kind that CUDA does not have is no direction */
	make(&m, row_of(TABLE_RUNTIME, "cudaMemcpy", 13), 0, (uint64_t[]){1, 2, 3, 9});
	assert_int_equal(decode_call(plans, &m.rec, m.size, &call), 0);
	assert_false(has(&call, TABLE_KEY_DIRECTION));
}

/* cudaCpuDeviceId is -1, and was never a device. */
static void negative_numbers_name_no_device(void **state)
{
	static const int32_t numbers[] = {0, 1, 63, INT32_MAX, -1, -2, INT32_MIN};
	unsigned row = row_of(TABLE_RUNTIME, "cudaMemPrefetchAsync", 12);
	struct maker m;
	struct call call;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		make(&m, row, 0, (uint64_t[]){0x1000, 64, 0xabcd00000000ull | (uint32_t)numbers[i], 0});
		assert_int_equal(decode_call(plans, &m.rec, m.size, &call), 0);
		assert_int_equal(has(&call, TABLE_KEY_DEVICE), numbers[i] >= 0);
		if (numbers[i] >= 0)
			assert_int_equal(call.keys.device, numbers[i]);
	}
}

static void bytes_never_wrap(void **state)
{
	uint64_t words[6] = {0x1000, 0, 0, UINT64_MAX, UINT64_MAX, 0};
	struct maker m;
	struct call call;

	/* cudaMemset2D(devPtr, pitch, value, width, height) */
	make(&m, row_of(TABLE_RUNTIME, "cudaMemset2D", 13), 0, words);
	assert_int_equal(decode_call(plans, &m.rec, m.size, &call), 0);
	assert_true(has(&call, TABLE_KEY_BYTES));
	assert_true(call.keys.bytes == INT64_MAX);
}

static void contradicting_records_are_refused(void **state)
{
	static const uint8_t too_long[REC_MAX_SLOT + 1];
	uint64_t words[8] = {1, 2, 3, 4}, ptr = 5;
	unsigned row = row_of(TABLE_RUNTIME, "cudaMalloc", 13);
	struct maker m;
	struct call call;

	make(&m, row, 0, words);
	slot(&m, &ptr, 8, 0);
	assert_int_equal(decode_call(plans, &m.rec, m.size - 8, &call), -EBADMSG); /* cut in a slot */
	assert_int_equal(decode_call(plans, &m.rec, sizeof(m.rec) + 8, &call),
			 -EBADMSG); /* cut in the words */
	assert_int_equal(decode_call(plans, &m.rec, sizeof(m.rec) - 1, &call),
			 -EBADMSG); /* cut in the head */
	slot(&m, &ptr, 8, 0);
	assert_int_equal(decode_call(plans, &m.rec, m.size, &call), -EBADMSG); /* a slot too many */
	make(&m, row, 0, words);
	slot(&m, too_long, REC_MAX_SLOT + 1, 0);
	assert_int_equal(decode_call(plans, &m.rec, sizeof(m.bytes), &call), -EBADMSG);
	m.rec.cookie = table_nrows;
	assert_int_equal(decode_call(plans, &m.rec, m.size, &call), -EBADMSG);
}

static void a_failed_read_is_absent(void **state)
{
	uint64_t words[8] = {1, 2};
	struct maker m;
	struct call call;

	make(&m, row_of(TABLE_RUNTIME, "cudaMalloc", 13), 0, words);
	slot(&m, NULL, -1, 0);
	assert_int_equal(decode_call(plans, &m.rec, m.size, &call), 0);
	assert_null(call.out[0].data);
	assert_false(has(&call, TABLE_KEY_PTR));
}

/* For every row and ABI: the plan's worst case fits a record, ops are in order, words are in range. */
static void every_plan_fits(void **state)
{
	unsigned row, abi, i, room;
	struct plan plan;

	for (abi = 0; abi < TABLE_NABIS; abi++) {
		for (row = 0; row < table_nrows; row++) {
			plan_make(row, abi, &plan);
			room = 8u * (plan.desc.nregs + plan.desc.nstack);
			assert_true(plan.desc.nregs <= (abi == TABLE_X86_64 ? 6 : 8));
			assert_true(plan.desc.nstack <= REC_MAX_STACK);
			assert_true(plan.desc.nregs + plan.desc.nstack <= 32);
			assert_true(plan.desc.nentry <= plan.desc.nops && plan.desc.nops <= REC_MAX_OPS);
			for (i = 0; i < plan.desc.nops; i++) {
				const struct rec_op *op = &plan.desc.ops[i];
				bool array = op->kind == REC_OP_ARRAY || op->kind == REC_OP_COUNTED;

				assert_int_equal(!!(op->flags & REC_ON_RETURN), i >= plan.desc.nentry);
				assert_true(op->size > 0 && op->size <= REC_MAX_SLOT);
				assert_true(op->arg == REC_ARG_RET ||
					    op->arg < plan.desc.nregs + plan.desc.nstack);
				room += sizeof(struct rec_slot) +
					(array ? REC_MAX_SLOT : (op->size + 7u) / 8 * 8);
			}
			assert_true(room <= REC_MAX_DATA);
		}
	}
}

/* No function loses a parameter to a limit, but those that floating-point registers hide and one
 * structure of 35 words by value (cudaEglFrame). */
static void every_readable_parameter_has_its_word(void **state)
{
	unsigned row, i;

	for (row = 0; row < table_nrows; row++) {
		for (i = 0; i < table_rows[row].nparams; i++) {
			struct table_place place =
				table_params[table_rows[row].param + i].place[TABLE_X86_64];

			if (place.where != TABLE_UNREADABLE && place.words <= REC_MAX_STACK)
				assert_int_not_equal(plans[row].word[i], TABLE_NONE);
		}
	}
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
		cmocka_unit_test(malloc_gives_bytes_and_ptr),
		cmocka_unit_test(a_failed_call_has_no_out),
		cmocka_unit_test(statuses),
		cmocka_unit_test(driver_launch_reads_the_stack),
		cmocka_unit_test(runtime_launch_has_dim3_in_registers),
		cmocka_unit_test(directions),
		cmocka_unit_test(copies_show_the_address_of_their_kind),
		cmocka_unit_test(bytes_never_wrap),
		cmocka_unit_test(negative_numbers_name_no_device),
		cmocka_unit_test(contradicting_records_are_refused),
		cmocka_unit_test(a_failed_read_is_absent),
		cmocka_unit_test(every_plan_fits),
		cmocka_unit_test(every_readable_parameter_has_its_word),
	};

	return cmocka_run_group_tests_name("decode", tests, setup, teardown);
}
