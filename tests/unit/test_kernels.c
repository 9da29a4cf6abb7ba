/* Kernels' names: learned, aliased, unloaded, inherited and forgotten, in the order of time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "streamer/enrich/kernels.h"

#define TGID 4242

static struct plan *plans;

/* A REC_NAME record, made as the BPF program makes it. */
struct maker {
	union {
		struct rec_call rec;
		uint8_t bytes[sizeof(struct rec_call) + 512 + REC_MAX_NAME];
	};
	size_t size;
};

static void begin(struct maker *m, enum table_api api, const char *symbol, uint32_t tgid, uint64_t end_ns,
		  const uint64_t *words)
{
	int row = table_find(api, symbol, 13);
	size_t n;

	assert_true(row >= 0);
	n = plans[row].desc.nregs + plans[row].desc.nstack;
	memset(m, 0, sizeof(*m));
	m->rec.kind = REC_NAME;
	m->rec.cookie = 1 << 16 | (unsigned)row;
	m->rec.pid_tgid = (uint64_t)tgid << 32 | tgid;
	m->rec.start_ns = end_ns - 1;
	m->rec.end_ns = end_ns;
	memcpy(m->bytes + sizeof(m->rec), words, 8 * n);
	m->size = sizeof(m->rec) + 8 * n;
}

static void slot(struct maker *m, const void *data, size_t len)
{
	struct rec_slot head = {.len = (int32_t)len};

	memcpy(m->bytes + m->size, &head, sizeof(head));
	memcpy(m->bytes + m->size + sizeof(head), data, len);
	m->size += sizeof(head) + (len + 7) / 8 * 8;
}

static void queue(struct kernels *kernels, const struct maker *m)
{
	assert_int_equal(kernels_queue(kernels, &m->rec, m->size), 0);
}

/* __cudaRegisterFunction(module, host, deviceFun, name, ...) */
static void register_function(struct kernels *k, uint32_t tgid, uint64_t end_ns, uint64_t module,
			      uint64_t host, const char *name)
{
	uint64_t words[16] = {module, host, 0x10, 0x11};
	int row = table_find(TABLE_RUNTIME, "__cudaRegisterFunction", 13);
	struct maker m;
	unsigned i;

	begin(&m, TABLE_RUNTIME, "__cudaRegisterFunction", tgid, end_ns, words);
	for (i = 0; i < plans[row].desc.nops; i++) {
		const struct table_param *p = &table_params[table_rows[row].param + plans[row].op_param[i]];

		if (!strcmp(p->name, "deviceName"))
			slot(&m, name, strlen(name));
		else
			slot(&m, "", 0);
	}
	queue(k, &m);
}

/* cuLibraryGetKernel(&out, library, name) */
static void get_kernel(struct kernels *k, uint64_t end_ns, uint64_t library, uint64_t handle,
		       const char *name)
{
	uint64_t words[3] = {0x1000, library, 0x2000};
	struct maker m;

	begin(&m, TABLE_DRIVER, "cuLibraryGetKernel", TGID, end_ns, words);
	slot(&m, name, strlen(name)); /* read at entry in a call, first in any case */
	slot(&m, &handle, 8);
	queue(k, &m);
}

static void unload(struct kernels *k, uint64_t end_ns, uint64_t library)
{
	struct maker m;

	begin(&m, TABLE_DRIVER, "cuLibraryUnload", TGID, end_ns, &library);
	queue(k, &m);
}

static void assert_name(struct kernels *k, uint32_t tgid, uint64_t handle, const char *wanted)
{
	uint32_t len = 0;
	const char *name = kernels_find(k, tgid, handle, &len);

	if (!wanted) {
		assert_null(name);
		return;
	}
	assert_non_null(name);
	assert_int_equal(len, strlen(wanted));
	assert_memory_equal(name, wanted, len);
}

static struct kernels *make(enum kernels_style style)
{
	struct kernels *kernels = kernels_new(plans, style);

	assert_non_null(kernels);
	return kernels;
}

static void every_rule_finds_its_parameters(void **state)
{
	uint8_t *rows = calloc(table_nrows, 1);
	unsigned i, named = 0;
	int launch = table_find(TABLE_RUNTIME, "cudaLaunchKernel", 13);

	kernels_select(rows);
	for (i = 0; i < table_nrows; i++)
		assert_int_equal(rows[i], REC_ROW_OFF); /* nothing launches: no names are needed */
	rows[launch] = REC_ROW_ON;
	kernels_select(rows);
	for (i = 0; i < table_nrows; i++)
		named += !!(rows[i] & REC_ROW_NAMES);
	assert_int_equal(rows[launch], REC_ROW_ON);
	assert_true(named >= 12);
	free(rows);
}

static void a_registered_kernel_is_named(void **state)
{
	struct kernels *k = make(KERNELS_DEMANGLED), *mangled = make(KERNELS_MANGLED);

	register_function(k, TGID, 10, 0x99, 0xf00, "_Z5scalePffi");
	register_function(mangled, TGID, 10, 0x99, 0xf00, "_Z5scalePffi");
	register_function(k, TGID, 11, 0x99, 0xf08, "plain_c_name");
	kernels_settle(k, UINT64_MAX);
	kernels_settle(mangled, UINT64_MAX);
	assert_name(k, TGID, 0xf00, "scale(float*, float, int)");
	assert_name(k, TGID, 0xf08, "plain_c_name");
	assert_name(mangled, TGID, 0xf00, "_Z5scalePffi");
	assert_name(k, TGID, 0xf01, NULL);
	assert_name(k, TGID + 1, 0xf00, NULL);
	kernels_free(k);
	kernels_free(mangled);
}

static void names_take_effect_in_time_order(void **state)
{
	struct kernels *k = make(KERNELS_DEMANGLED);

	get_kernel(k, 100, 1, 0xabc, "first");
	unload(k, 200, 1);
	get_kernel(k, 300, 2, 0xabc, "second");
	kernels_settle(k, 99);
	assert_name(k, TGID, 0xabc, NULL);
	kernels_settle(k, 100);
	assert_name(k, TGID, 0xabc, "first");
	kernels_settle(k, 250); /* unloaded: the old name is never shown again */
	assert_name(k, TGID, 0xabc, NULL);
	kernels_settle(k, 300);
	assert_name(k, TGID, 0xabc, "second");
	unload(k, 400, 1); /* another module's end changes nothing */
	kernels_settle(k, UINT64_MAX);
	assert_name(k, TGID, 0xabc, "second");
	kernels_free(k);
}

static void an_alias_has_the_name_and_the_module(void **state)
{
	struct kernels *k = make(KERNELS_DEMANGLED);
	uint64_t words[2] = {0x1000, 0xabc}, function = 0xdef;
	struct maker m;

	get_kernel(k, 10, 1, 0xabc, "kernel");
	begin(&m, TABLE_DRIVER, "cuKernelGetFunction", TGID, 20, words);
	slot(&m, &function, 8);
	queue(k, &m);
	kernels_settle(k, UINT64_MAX);
	assert_name(k, TGID, 0xdef, "kernel");
	unload(k, 30, 1);
	kernels_settle(k, UINT64_MAX);
	assert_name(k, TGID, 0xdef, NULL);
	assert_name(k, TGID, 0xabc, NULL);
	kernels_free(k);
}

static struct rec_thread thread_of(uint32_t tgid, uint32_t parent, uint32_t forked, uint64_t start_ns)
{
	return (struct rec_thread){.kind = REC_THREAD,
				   .pid_tgid = (uint64_t)tgid << 32 | tgid,
				   .parent_tgid = parent,
				   .forked = forked,
				   .process_start_ns = start_ns};
}

static void a_forked_process_has_its_parents_names(void **state)
{
	struct kernels *k = make(KERNELS_DEMANGLED);
	struct rec_thread forked = thread_of(5000, TGID, 1, 7), execed = thread_of(5001, TGID, 0, 8);
	struct rec_thread grandchild = thread_of(5002, 5000, 1, 9);

	register_function(k, TGID, 10, 0x99, 0xf00, "kernel");
	register_function(k, 5001, 11, 0x99, 0xe00, "own");
	kernels_settle(k, UINT64_MAX);
	kernels_process(k, &forked);
	kernels_process(k, &execed);
	kernels_process(k, &grandchild);
	assert_name(k, 5000, 0xf00, "kernel");
	assert_name(k, 5001, 0xf00, NULL);
	assert_name(k, 5001, 0xe00, "own");
	kernels_forget(k, TGID); /* the parent ends, its children go on */
	assert_name(k, TGID, 0xf00, NULL);
	assert_name(k, 5000, 0xf00, "kernel");
	kernels_forget(k, 5000);
	assert_name(k, 5002, 0xf00, "kernel");
	kernels_free(k);
}

static void forked(struct kernels *k, uint32_t parent, uint32_t tgid, uint64_t start_ns)
{
	struct rec_fork rec = {
		.kind = REC_FORK, .tgid = tgid, .parent_tgid = parent, .process_start_ns = start_ns};

	kernels_fork(k, &rec);
}

/* A daemon: its parents say nothing of themselves and end, cleaning up, before it launches. */
static void a_daemon_keeps_the_names_of_parents_that_ended(void **state)
{
	struct kernels *k = make(KERNELS_DEMANGLED);
	struct rec_thread daemon = thread_of(5001, 1, 1, 8);
	struct kernels_size size;

	get_kernel(k, 10, 0x99, 0xf00, "kernel");
	get_kernel(k, 11, 0x98, 0xe00, "other");
	kernels_settle(k, UINT64_MAX);
	forked(k, TGID, 5000, 7);
	forked(k, 5000, 5001, 8);
	unload(k, 20, 0x99);
	kernels_settle(k, UINT64_MAX);
	assert_name(k, TGID, 0xf00, NULL);
	assert_name(k, TGID, 0xe00, "other");
	kernels_forget(k, 5000);
	kernels_forget(k, TGID);
	kernels_process(k, &daemon);
	assert_name(k, 5001, 0xf00, "kernel");
	assert_name(k, 5001, 0xe00, "other");
	kernels_forget(k, 5001);
	kernels_size(k, &size);
	assert_int_equal(size.processes + size.handles + size.names, 0);
	kernels_free(k);
}

/* Each generation forks the next and ends: what is kept does not grow. */
static void generations_keep_the_names_of_the_first(void **state)
{
	struct kernels *k = make(KERNELS_DEMANGLED);
	struct kernels_size size;
	uint32_t i;

	get_kernel(k, 10, 0x99, 0xf00, "kernel");
	kernels_settle(k, UINT64_MAX);
	for (i = 0; i < 100; i++) {
		forked(k, TGID + i, TGID + i + 1, 7 + i);
		kernels_forget(k, TGID + i);
	}
	assert_name(k, TGID + 100, 0xf00, "kernel");
	kernels_size(k, &size);
	assert_int_equal(size.processes, 1);
	assert_int_equal(size.handles, 1);
	kernels_free(k);
}

static void a_reused_process_number_has_nothing_of_the_old(void **state)
{
	struct kernels *k = make(KERNELS_DEMANGLED);
	struct rec_thread first = thread_of(TGID, 1, 0, 7), second = thread_of(TGID, 1, 0, 8);

	register_function(k, TGID, 10, 0x99, 0xf00, "kernel");
	kernels_settle(k, UINT64_MAX);
	kernels_process(k, &first);
	assert_name(k, TGID, 0xf00, "kernel");
	kernels_process(k, &second); /* the exit record was lost */
	assert_name(k, TGID, 0xf00, NULL);
	kernels_free(k);
}

static void long_and_strange_names_stay_in_bounds(void **state)
{
	struct kernels *k = make(KERNELS_DEMANGLED);
	char name[REC_MAX_NAME + 1] = "";
	uint32_t len;

	memset(name, 'x', REC_MAX_NAME - 1);
	register_function(k, TGID, 10, 1, 0x100, name);
	memset(name, 1, REC_MAX_NAME - 1); /* each byte becomes six */
	register_function(k, TGID, 11, 1, 0x200, name);
	register_function(k, TGID, 12, 1, 0x300, "quote\" \\ \n\xff");
	kernels_settle(k, UINT64_MAX);
	assert_non_null(kernels_find(k, TGID, 0x100, &len));
	assert_int_equal(len, REC_MAX_NAME - 1);
	assert_non_null(kernels_find(k, TGID, 0x200, &len));
	assert_true(len <= DECODE_MAX_KERNEL);
	assert_name(k, TGID, 0x300, "quote\\\" \\\\ \\n\xef\xbf\xbd");
	kernels_free(k);
}

/* 100 000 kernels of one process: in bounded memory, and all gone with it. */
static void many_kernels(void **state)
{
	struct kernels *k = make(KERNELS_DEMANGLED);
	struct kernels_size size;
	char name[256];
	unsigned i;

	for (i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "%0200u_kernel", i);
		register_function(k, TGID, i + 1, i / 1000, 0x10000 + 16 * i, name);
		if (i % 1000 == 0)
			kernels_settle(k, UINT64_MAX);
	}
	kernels_settle(k, UINT64_MAX);
	kernels_size(k, &size);
	assert_int_equal(size.handles, 100000);
	assert_int_equal(size.names, 100000);
	assert_true(size.bytes < 64u << 20);
	snprintf(name, sizeof(name), "%0200u_kernel", 77777);
	assert_name(k, TGID, 0x10000 + 16 * 77777, name);
	kernels_forget(k, TGID);
	kernels_size(k, &size);
	assert_int_equal(size.handles + size.names + size.processes, 0);
	kernels_free(k);
}

/* Random learning, unloading and forgetting against a plain array. */
static void random_against_an_array(void **state)
{
	enum { HANDLES = 64, MODULES = 8 };
	struct kernels *k = make(KERNELS_MANGLED);
	struct {
		int module, name;
	} truth[HANDLES] = {{0, 0}};
	char name[32];
	int round, i;

	srand(7);
	for (round = 1; round < 20000; round++) {
		int handle = rand() % HANDLES, module = 1 + rand() % MODULES, text = 1 + rand() % 100;

		if (rand() % 10) {
			snprintf(name, sizeof(name), "k%d", text);
			get_kernel(k, round, module, 0x1000 + handle, name);
			truth[handle].module = module;
			truth[handle].name = text;
		} else {
			unload(k, round, module);
			for (i = 0; i < HANDLES; i++)
				if (truth[i].module == module)
					truth[i].name = truth[i].module = 0;
		}
		kernels_settle(k, round);
		snprintf(name, sizeof(name), "k%d", truth[handle].name);
		assert_name(k, TGID, 0x1000 + handle, truth[handle].name ? name : NULL);
	}
	kernels_free(k);
}

static int setup(void **state)
{
	plans = plan_all(TABLE_X86_64);
	return plans ? 0 : -1;
}

static void assert_mangled(struct kernels *k, uint64_t handle, const char *wanted)
{
	uint32_t len = 0;
	const char *name;

	kernels_find(k, TGID, handle, &len);
	name = kernels_mangled(k, &len);
	assert_int_equal(name ? len : 0, wanted ? strlen(wanted) : 0);
	if (wanted)
		assert_memory_equal(name, wanted, len);
}

static void both_names(void **state)
{
	static const enum kernels_style styles[] = {KERNELS_DEMANGLED, KERNELS_MANGLED, KERNELS_BOTH};

	for (unsigned i = 0; i < 3; i++) {
		struct kernels *k = make(styles[i]);
		bool both = styles[i] == KERNELS_BOTH;

		register_function(k, TGID, 1, 0xa, 0x10, "_Z4workv");
		register_function(k, TGID, 2, 0xa, 0x20, "plain");
		kernels_settle(k, UINT64_MAX);
		for (int again = 0; again < 2; again++) {
			assert_name(k, TGID, 0x10, styles[i] == KERNELS_MANGLED ? "_Z4workv" : "work()");
			assert_mangled(k, 0x10, both ? "_Z4workv" : NULL);
			assert_name(k, TGID, 0x20, "plain");
			assert_mangled(k, 0x20, NULL);
			assert_mangled(k, 0x30, NULL);
		}
		kernels_free(k);
	}
}

/* Knows what is called "guessed", and counts how often it is asked. */
static int guess(void *ctx, uint32_t tgid, uint64_t handle, char *name)
{
	(*(unsigned *)ctx)++;
	if (tgid != TGID || handle < 0x5000 || handle >= 0x6000)
		return -1;
	return sprintf(name, "_Z7guessedv");
}

static void assert_guess(struct kernels *k, uint32_t tgid, uint64_t handle, const char *wanted)
{
	uint32_t len = 0;
	const char *name = kernels_guess(k, tgid, handle, &len);

	assert_int_equal(name ? len : 0, wanted ? strlen(wanted) : 0);
	if (wanted)
		assert_memory_equal(name, wanted, len);
}

static void what_is_not_known_is_guessed_once(void **state)
{
	struct kernels *k = make(KERNELS_DEMANGLED);
	struct kernels_size size;
	unsigned asked = 0;

	assert_guess(k, TGID, 0x5000, NULL); /* nobody to ask */
	kernels_guess_by(k, guess, &asked);
	for (int i = 0; i < 3; i++) {
		assert_guess(k, TGID, 0x5000, "guessed()");
		assert_name(k, TGID, 0x5000, "guessed()");
		assert_guess(k, TGID, 0x4000, NULL);
		assert_name(k, TGID, 0x4000, NULL);
		assert_guess(k, TGID + 1, 0x5000, NULL);
	}
	assert_int_equal(asked, 3);
	/* what is learned counts more than a guess, and than that there was none */
	register_function(k, TGID, 10, 0xa, 0x4000, "_Z4workv");
	register_function(k, TGID, 11, 0xa, 0x5000, "_Z4restv");
	kernels_settle(k, UINT64_MAX);
	assert_name(k, TGID, 0x4000, "work()");
	assert_guess(k, TGID, 0x5000, "rest()");
	assert_int_equal(asked, 3);
	kernels_forget(k, TGID);
	kernels_forget(k, TGID + 1);
	kernels_size(k, &size);
	assert_int_equal(size.processes + size.handles + size.names, 0);
	assert_guess(k, TGID, 0x4000, NULL); /* another process of that number */
	assert_int_equal(asked, 4);
	kernels_free(k);
}

static void an_alias_of_what_is_not_known_is_guessed(void **state)
{
	struct kernels *k = make(KERNELS_MANGLED);
	uint64_t words[2] = {0x1000, 0x5010}, handle = 0xbeef0;
	unsigned asked = 0;
	struct maker m;

	kernels_guess_by(k, guess, &asked);
	begin(&m, TABLE_RUNTIME, "__cudaGetKernel", TGID, 5, words);
	slot(&m, &handle, 8);
	queue(k, &m);
	kernels_settle(k, UINT64_MAX);
	assert_name(k, TGID, handle, "_Z7guessedv");
	kernels_free(k);
}

static int teardown(void **state)
{
	free(plans);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_rule_finds_its_parameters),
		cmocka_unit_test(a_registered_kernel_is_named),
		cmocka_unit_test(names_take_effect_in_time_order),
		cmocka_unit_test(an_alias_has_the_name_and_the_module),
		cmocka_unit_test(a_forked_process_has_its_parents_names),
		cmocka_unit_test(a_daemon_keeps_the_names_of_parents_that_ended),
		cmocka_unit_test(generations_keep_the_names_of_the_first),
		cmocka_unit_test(a_reused_process_number_has_nothing_of_the_old),
		cmocka_unit_test(long_and_strange_names_stay_in_bounds),
		cmocka_unit_test(many_kernels),
		cmocka_unit_test(random_against_an_array),
		cmocka_unit_test(both_names),
		cmocka_unit_test(what_is_not_known_is_guessed_once),
		cmocka_unit_test(an_alias_of_what_is_not_known_is_guessed),
	};

	return cmocka_run_group_tests_name("kernels", tests, setup, teardown);
}
