/* The cache of processes, what a cgroup's path tells, and the rules of devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "../../streamer/enrich/cgroup.h"
#include "../../streamer/enrich/devices.h"

#define ID  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define POD "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
#define DIR "1b4e28ba_2fa1_11d2_883f_0016d3cca427"
#define OLD "1b4e28ba2fa111d2883f0016d3cca427"

/* ---- names of cgroups ---- */

static void test_container(void **state)
{
	static const struct {
		const char *name;
		bool is;
	} cases[] = {
		{ID, true},
		{"docker-" ID ".scope", true},
		{"cri-containerd-" ID ".scope", true},
		{"crio-" ID ".scope", true},
		{"crio-" ID, true},
		{"libpod-" ID ".scope", true},
		{"kubepods-pod" DIR ".slice:cri-containerd:" ID, true},
		{"crio-conmon-" ID ".scope", false},
		{"libpod-conmon-" ID ".scope", false},
		{"x" ID, false},
		{ID "0", false},
		{"docker-0123.scope", false},
		{"docker-" ID ".service", false},
		{"0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef", false},
		{"", false},
		{".scope", false},
	};
	char id[CGROUP_CONTAINER_ID + 1];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		strcpy(id, "untouched");
		assert_int_equal(cgroup_container(cases[i].name, strlen(cases[i].name), id), cases[i].is);
		assert_string_equal(id, cases[i].is ? ID : "untouched");
	}
}

static void test_pod(void **state)
{
	static const struct {
		const char *name, *uid;
	} cases[] = {
		{"pod" POD, POD},
		{"kubepods-burstable-pod" DIR ".slice", POD},
		{"kubepods-pod" DIR ".slice", POD},
		{"kubelet-kubepods-besteffort-pod" DIR ".slice", POD},
		{"pod" OLD, OLD},
		{"kubepods-pod" OLD ".slice", OLD},
		{POD, NULL},
		{"tripod" POD, NULL},
		{"pod" POD "0", NULL},
		{"pod", NULL},
		{"", NULL},
		{"kubepods.slice", NULL},
	};
	char uid[CGROUP_POD_UID + 1];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		strcpy(uid, "untouched");
		assert_int_equal(cgroup_pod(cases[i].name, strlen(cases[i].name), uid), cases[i].uid != NULL);
		assert_string_equal(uid, cases[i].uid ? cases[i].uid : "untouched");
	}
}

/* ---- processes ---- */

/* A record with its text. */
struct record {
	struct rec_thread rec;
	char text[REC_MAX_TEXT];
};

static size_t add_names(char *text, const char *const *names)
{
	size_t len = 0;

	for (; names && *names; names++) {
		strcpy(text + len, *names);
		len += strlen(*names) + 1;
	}
	return len;
}

static size_t make(struct record *r, uint32_t pid, uint64_t start_ns, const char *const *exe,
		   const char *const *cgroup, const char *const *cgroup1)
{
	memset(r, 0, sizeof(*r));
	r->rec.kind = REC_THREAD;
	r->rec.pid_tgid = (uint64_t)pid << 32 | pid;
	r->rec.process_start_ns = r->rec.start_ns = start_ns;
	r->rec.uid = 1000;
	r->rec.pid = r->rec.ns_pid = pid;
	strcpy(r->rec.comm, "python3");
	r->rec.exe_len = (uint16_t)add_names(r->text, exe);
	r->rec.cgroup_len = (uint16_t)add_names(r->text + r->rec.exe_len, cgroup);
	r->rec.cgroup1_len = (uint16_t)add_names(r->text + r->rec.exe_len + r->rec.cgroup_len, cgroup1);
	return sizeof(r->rec) + r->rec.exe_len + r->rec.cgroup_len + r->rec.cgroup1_len;
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void assert_text(const struct process_text *text, const char *expected)
{
	assert_non_null(text->data);
	assert_int_equal(text->len, strlen(expected));
	assert_memory_equal(text->data, expected, text->len);
}

static void test_learn(void **state)
{
	struct processes *processes = processes_new();
	struct process *process, *again;
	struct record r;
	size_t size;
	bool is_new;

	size = make(&r, 42, 7, NAMES("python3.11", "bin", "usr"),
		    NAMES("docker-" ID ".scope", "system.slice"), NULL);
	process = processes_learn(processes, &r.rec, size, &is_new);
	assert_non_null(process);
	assert_true(is_new);
	assert_text(&process->exe, "/usr/bin/python3.11");
	assert_text(&process->cgroup, "/system.slice/docker-" ID ".scope");
	assert_string_equal(process->container_id, ID);
	assert_string_equal(process->pod_uid, "");
	assert_int_equal(process->uid, 1000);
	again = processes_learn(processes, &r.rec, size, &is_new);
	assert_ptr_equal(again, process);
	assert_false(is_new);
	process_put(again);
	/* its number is another process's now */
	size = make(&r, 42, 8, NAMES("a\"b\n", "\xff"), NULL, NULL);
	again = processes_learn(processes, &r.rec, size, &is_new);
	assert_true(is_new);
	assert_text(&again->exe, "/\xef\xbf\xbd/a\\\"b\\n");
	assert_text(&again->cgroup, "/");
	assert_string_equal(again->container_id, "");
	assert_int_equal(processes_count(processes), 1);
	assert_text(&process->exe, "/usr/bin/python3.11"); /* whoever has it keeps it */
	process_put(process);
	process_put(again);
	processes_free(processes);
}

/* Docker with version 1 beside an empty version 2; a process in the root of both; text that is not there. */
static void test_versions(void **state)
{
	struct processes *processes = processes_new();
	struct process *process;
	struct record r;
	size_t size;
	bool is_new;

	size = make(&r, 1, 1, NULL, NULL, NAMES(ID, "pod" POD, "kubepods"));
	process = processes_learn(processes, &r.rec, size, &is_new);
	assert_null(process->exe.data);
	assert_text(&process->cgroup, "/kubepods/pod" POD "/" ID);
	assert_string_equal(process->container_id, ID);
	assert_string_equal(process->pod_uid, POD);
	process_put(process);
	size = make(&r, 2, 1, NAMES("a"), NAMES("b"), NULL);
	r.rec.flags = REC_THREAD_EXE_CUT;
	process = processes_learn(processes, &r.rec, size, &is_new);
	assert_text(&process->exe, ".../a");
	process_put(process);
	size = make(&r, 3, 1, NAMES("a"), NAMES("b"), NULL);
	process = processes_learn(processes, &r.rec, size - 1, &is_new);
	assert_null(process->exe.data);
	process_put(process);
	processes_free(processes);
}

/* Escaping may make a text six times as long: it is cut between characters. */
static void test_long(void **state)
{
	struct processes *processes = processes_new();
	char words[3000];
	struct process *process = processes_get(processes, 9);

	memset(words, 1, sizeof(words));
	process_set_cmdline(process, words, sizeof(words));
	assert_int_equal(process->cmdline.len, PROCESS_MAX_CMDLINE / 6 * 6);
	memset(words, 'x', sizeof(words));
	words[4] = 0;
	process_set_cmdline(process, words, sizeof(words));
	assert_int_equal(process->cmdline.len, PROCESS_MAX_CMDLINE);
	assert_memory_equal(process->cmdline.data, "xxxx xx", 7);
	for (size_t i = 0; i + 1 < sizeof(words); i += 2)
		memcpy(words + i, "\xc3\xa4", 2);
	words[0] = 'x';
	words[1] = 'x';
	process_set_cmdline(process, words + 1, sizeof(words) - 2);
	assert_int_equal(process->cmdline.len, PROCESS_MAX_CMDLINE - 1);
	assert_memory_equal(process->cmdline.data + process->cmdline.len - 2, "\xc3\xa4", 2);
	process_set_cmdline(process, "a\0b\0", 4);
	assert_text(&process->cmdline, "a b");
	processes_free(processes);
}

static void test_inherits(void **state)
{
	struct processes *processes = processes_new();
	struct process *parent, *child;
	struct record r;
	size_t size = make(&r, 10, 1, NULL, NULL, NULL);
	bool is_new;

	parent = processes_learn(processes, &r.rec, size, &is_new);
	size = make(&r, 11, 2, NULL, NULL, NULL);
	r.rec.forked = 1;
	r.rec.parent_tgid = 10;
	child = processes_learn(processes, &r.rec, size, &is_new);
	assert_false(child->inherits);
	process_put(child);
	processes_forget(processes, 11);
	parent->total.calls = 1;
	child = processes_learn(processes, &r.rec, size, &is_new);
	assert_true(child->inherits);
	process_put(child);
	process_put(parent);
	processes_free(processes);
}

/* More processes than are kept: the first go; and all of them can be found until then. */
static void test_many(void **state)
{
	struct processes *processes = processes_new();

	for (uint32_t i = 1; i <= PROCESSES_MAX + 100; i++)
		assert_non_null(processes_get(processes, i));
	assert_int_equal(processes_count(processes), PROCESSES_MAX);
	assert_null(processes_find(processes, 100));
	for (uint32_t i = 101; i <= PROCESSES_MAX + 100; i++)
		assert_int_equal(processes_find(processes, i)->tgid, i);
	for (uint32_t i = 101; i <= PROCESSES_MAX + 100; i += 2)
		processes_forget(processes, i);
	for (uint32_t i = 101; i <= PROCESSES_MAX + 100; i++)
		assert_int_equal(processes_find(processes, i) != NULL, i % 2 == 0);
	processes_free(processes);
}

/* ---- devices ---- */

static void test_uuids(void **state)
{
	struct processes *processes = processes_new();
	struct process *process = processes_get(processes, 5);
	uint8_t uuid[PROCESS_UUID] = {1, 2, 3};

	assert_int_equal(process_set_device(process, 3, uuid), 0);
	process->devices[0].told = true;
	assert_int_equal(process_set_device(process, 3, uuid), 0);
	assert_int_equal(process->ndevices, 1);
	assert_true(process->devices[0].told);
	uuid[0] = 9;
	assert_int_equal(process_set_device(process, 3, uuid), 0);
	assert_false(process->devices[0].told);
	for (int i = 0; i < 100; i++)
		assert_int_equal(process_set_device(process, i, uuid), 0);
	assert_int_equal(process->ndevices, PROCESS_MAX_DEVICES);
	processes_free(processes);
}

/* Every rule finds its parameters in every signature; nothing is followed when nothing is selected. */
static void test_rules(void **state)
{
	struct plan *plans = plan_all(plan_host_abi());
	uint8_t *rows = calloc(table_nrows, 1);
	unsigned followed[REC_FOLLOW_DESTROY + 1] = {0}, uuids = 0, i;

	devices_select(rows, plans);
	for (i = 0; i < table_nrows; i++)
		assert_int_equal(rows[i], REC_ROW_OFF);
	memset(rows, REC_ROW_ON, table_nrows);
	devices_select(rows, plans);
	for (i = 0; i < table_nrows; i++) {
		followed[plans[i].desc.follow]++;
		uuids += !!(rows[i] & REC_ROW_NAMES);
		assert_int_equal(!!(rows[i] & REC_ROW_FOLLOW), plans[i].desc.follow != REC_FOLLOW_NONE);
	}
	for (i = REC_FOLLOW_DEVICE; i <= REC_FOLLOW_DESTROY; i++)
		assert_true(followed[i] > 0);
	assert_int_equal(followed[REC_FOLLOW_CREATE], 8); /* cuCtxCreate to _v4, GL and VDPAU twice each */
	assert_int_equal(followed[REC_FOLLOW_PUSH], 2);
	assert_int_equal(uuids, 2);
	free(rows);
	free(plans);
}

static unsigned row_named(const char *symbol)
{
	unsigned i = 0;

	while (strcmp(table_rows[i].symbol, symbol))
		i++;
	return i;
}

static int device_of(const struct devices *devices, struct thread *thread, const char *symbol,
		     uint32_t device)
{
	struct rec_call rec = {.kind = REC_CALL, .device = device};
	unsigned row = row_named(symbol);
	struct call call = {.row = &table_rows[row], .rec = &rec, .row_id = row, .attach_id = 1};

	devices_name(devices, &call, thread);
	return call.keys.present & 1u << TABLE_KEY_DEVICE ? call.keys.device : -1;
}

/* A device is told where it is known, and only there. */
static void test_known(void **state)
{
	struct devices *devices = devices_new(2);
	struct processes *processes = processes_new();
	struct thread thread = {.start_ns = 1000, .process = processes_get(processes, 1)};

	assert_int_equal(device_of(devices, &thread, "cudaMalloc", 3 + 1), 3);
	assert_int_equal(device_of(devices, &thread, "cuMemAlloc_v2", 3 + 1), 3);
	assert_int_equal(device_of(devices, &thread, "cudaMalloc", REC_DEVICE_UNKNOWN), -1);
	assert_int_equal(device_of(devices, &thread, "cudaMalloc", REC_DEVICE_UNSAID), -1);
	devices_attached(devices, 1, 1001);
	assert_int_equal(device_of(devices, &thread, "cudaMalloc", REC_DEVICE_UNSAID), -1);
	devices_attached(devices, 1, 1000);
	assert_int_equal(device_of(devices, &thread, "cudaMalloc", REC_DEVICE_UNSAID), 0);
	assert_int_equal(device_of(devices, &thread, "cuMemAlloc_v2", REC_DEVICE_UNSAID), -1);
	thread.process->inherits = true;
	assert_int_equal(device_of(devices, &thread, "cudaMalloc", REC_DEVICE_UNSAID), -1);
	thread.process->inherits = false;
	devices_attached(devices, 1, 2000);
	devices_followed(devices);
	assert_int_equal(device_of(devices, &thread, "cudaMalloc", REC_DEVICE_UNSAID), 0);
	devices_free(devices);
	devices = devices_new(1);
	assert_int_equal(device_of(devices, &thread, "cudaMalloc", REC_DEVICE_UNSAID), 0);
	thread.start_ns = 0; /* its record is late */
	assert_int_equal(device_of(devices, &thread, "cudaMalloc", REC_DEVICE_UNSAID), -1);
	processes_free(processes);
	devices_free(devices);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_container), cmocka_unit_test(test_pod),
		cmocka_unit_test(test_learn),     cmocka_unit_test(test_versions),
		cmocka_unit_test(test_long),      cmocka_unit_test(test_inherits),
		cmocka_unit_test(test_many),      cmocka_unit_test(test_uuids),
		cmocka_unit_test(test_rules),     cmocka_unit_test(test_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
