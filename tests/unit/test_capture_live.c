/* What the BPF program is told while it records: other rules, other processes. On a function of this program.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../../config/config.h"
#include "../../streamer/capture/capture.h"

#define CALLS 100

static struct plan *plans;
static const struct capture_processes everybody;

__attribute__((noinline)) int probed(void *p, size_t size);

/* not static: no compiler makes another one of it */
__attribute__((noinline)) int probed(void *p, size_t size)
{
	__asm__ volatile("" ::"r"(p), "r"(size) : "memory");
	return size == 13 ? 2 : 0;
}

/* The function's offset in its file, from the mapping that holds it. */
static uint64_t offset_of(int (*function)(void *, size_t))
{
	unsigned long start, end, offset, at = (unsigned long)function, found = 0;
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[1024];

	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && at >= start && at < end)
			found = at - start + offset;
	if (maps)
		fclose(maps);
	return found;
}

struct live {
	struct capture *capture;
	unsigned row;
	uint64_t records, weight;
};

static void take(void *ctx, const void *record, size_t size)
{
	const struct rec_call *call = record;
	struct live *live = ctx;

	if (call->kind == REC_CALL) {
		live->records++;
		live->weight += call->sample_n;
	}
}

/* So many of CALLS calls, one in ten of which fails, became records; all of @entries were counted. */
static uint64_t records_of(struct live *live, uint64_t entries)
{
	struct capture_counters before, after;
	void *p;

	capture_counters(live->capture, &before);
	for (int i = 0; i < CALLS; i++)
		probed(&p, i % 10 ? 4096 : 13);
	capture_counters(live->capture, &after);
	for (int i = 0; i < REC_NCOUNTERS; i++)
		after.v[i] -= before.v[i];
	live->records = live->weight = 0;
	while (capture_read(live->capture, take, live, false))
		;
	assert_int_equal(after.v[REC_ENTRIES], entries);
	assert_int_equal(after.v[REC_SUBMITTED] + after.v[REC_FILTERED] + after.v[REC_SAMPLED_OUT], entries);
	assert_int_equal(after.v[REC_SUBMITTED], live->records);
	assert_int_equal(after.v[REC_ORPHAN_EXITS] + after.v[REC_UNPAIRED], 0);
	return live->records;
}

/* Without rights, or before the kernel that brought the method; otherwise a program that does not load has
 * failed. */
static bool may_be_refused(enum capture_method method, int err)
{
	static const unsigned since[CAPTURE_NMETHODS] = {[CAPTURE_SESSION] = 613, [CAPTURE_MULTI] = 606};
	unsigned major = 0, minor = 0;
	struct utsname host;

	assert_int_equal(uname(&host), 0);
	assert_int_equal(sscanf(host.release, "%u.%u", &major, &minor), 2);
	return geteuid() || err == -EPERM || (method != CAPTURE_AUTO && major * 100 + minor < since[method]);
}

/* NULL where this may not be done here. */
static struct live *open_live(enum capture_method method, bool processes_change)
{
	struct live *live = calloc(1, sizeof(*live));
	uint8_t *state = calloc(table_nrows, 1);
	struct capture_options options = {.method = method,
					  .ring_size = 1 << 20,
					  .flush_ns = 20000000,
					  .plans = plans,
					  .row_state = state,
					  .processes_change = processes_change};
	struct find_function function = {.offset = offset_of(probed)};
	struct capture_attached attached;
	char error[512];
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), err;

	live->row = function.row = table_find(TABLE_RUNTIME, "cudaMalloc", 13);
	state[live->row] = REC_ROW_ON;
	err = capture_new(&options, &live->capture, error, sizeof(error));
	if (err) {
		print_message("%s\n", error);
		assert_true(may_be_refused(method, err));
		free(live);
		live = NULL;
	} else {
		assert_true(capture_binds(live->capture) || method == CAPTURE_MULTI);
		assert_int_equal(capture_attach(live->capture, fd, 1, &function, 1, 0, &attached), 0);
		capture_record(live->capture, true);
	}
	close(fd);
	free(state);
	return live;
}

static void set_row(struct live *live, uint8_t row_state)
{
	uint8_t *states = calloc(table_nrows, 1);
	struct capture_switch to = {.row_state = states, .flush_ns = 20000000};

	states[live->row] = row_state;
	capture_switch(live->capture, &to);
	free(states);
}

static void close_live(struct live *live)
{
	capture_free(live->capture);
	free(live);
}

static void test_rules(void **state)
{
	bool ran = false;

	for (enum capture_method method = CAPTURE_SESSION; method < CAPTURE_NMETHODS; method++) {
		struct live *live = open_live(method, false);
		static struct rec_rules rules;

		if (!live)
			continue;
		ran = true;
		memset(&rules, 0, sizeof(rules));
		assert_int_equal(records_of(live, CALLS), CALLS);
		assert_int_equal(live->weight, CALLS);
		rules.by_outcome = 1;
		rules.status = 1 << REC_STATUS_ERROR;
		rules.max_duration_ns = UINT64_MAX;
		capture_rules(live->capture, &rules);
		assert_int_equal(records_of(live, CALLS), CALLS / 10);
		rules.by_error = 1;
		capture_rules(live->capture, &rules);
		assert_int_equal(records_of(live, CALLS), 0);
		rules.errors[TABLE_RUNTIME][0] = 1 << 2;
		capture_rules(live->capture, &rules);
		assert_int_equal(records_of(live, CALLS), CALLS / 10);
		rules.by_outcome = 0;
		rules.min_bytes = 4096;
		capture_rules(live->capture, &rules);
		assert_int_equal(records_of(live, CALLS), CALLS - CALLS / 10);
		rules.min_bytes = 0;
		rules.keep_errors = 1;
		rules.sample[live->row] = 1000000000;
		capture_rules(live->capture, &rules);
		assert_int_equal(records_of(live, CALLS), CALLS / 10);
		assert_int_equal(live->weight, CALLS / 10);
		set_row(live, REC_ROW_REJECTED);
		assert_int_equal(records_of(live, CALLS), 0);
		set_row(live, REC_ROW_ON);
		rules.sample[live->row] = 1;
		capture_rules(live->capture, &rules);
		assert_int_equal(records_of(live, CALLS), CALLS);
		close_live(live);
	}
	if (!ran)
		skip();
}

static void test_processes(void **state)
{
	char own[16] = "", *names[] = {own}, *others[] = {(char *)"another", (char *)"an*"}, uid[16],
	     *uids[] = {uid};
	struct capture_processes all = {0}, none = {.comms = {others, 2}}, us = {.comms = {names, 1}};
	struct live *live = open_live(CAPTURE_AUTO, true);

	if (!live)
		skip();
	prctl(PR_GET_NAME, own);
	snprintf(uid, sizeof(uid), "%u", getuid());
	for (int i = 0; i < 2; i++) {
		assert_int_equal(records_of(live, CALLS), CALLS);
		assert_int_equal(capture_select(live->capture, &none, &everybody), 0);
		assert_int_equal(records_of(live, 0), 0);
		assert_int_equal(capture_select(live->capture, &us, &everybody), 0);
		assert_int_equal(records_of(live, CALLS), CALLS);
		us.uids = (struct capture_patterns){uids, 1};
		assert_int_equal(capture_select(live->capture, &us, &everybody), 0);
		assert_int_equal(records_of(live, CALLS), CALLS);
		us.comms = none.comms; /* what was there before is gone */
		assert_int_equal(capture_select(live->capture, &us, &everybody), 0);
		assert_int_equal(records_of(live, 0), 0);
		us = (struct capture_processes){.comms = {names, 1}};
		/* traced, and counted as filtered */
		assert_int_equal(capture_select(live->capture, &us, &none), 0);
		assert_int_equal(records_of(live, CALLS), 0);
		assert_int_equal(capture_select(live->capture, &none, &us), 0);
		assert_int_equal(records_of(live, 0), 0);
		assert_int_equal(capture_select(live->capture, &us, &us), 0);
		assert_int_equal(records_of(live, CALLS), CALLS);
		assert_int_equal(capture_select(live->capture, &all, &everybody), 0);
	}
	close_live(live);
}

/* A program that was loaded without says so, and goes on as it was. */
static void test_not_loaded(void **state)
{
	char *others[] = {(char *)"another"};
	struct capture_processes none = {.comms = {others, 1}}, all = {0};
	struct live *live = open_live(CAPTURE_AUTO, false);

	if (!live)
		skip();
	assert_int_equal(capture_select(live->capture, &none, &everybody), -EOPNOTSUPP);
	assert_int_equal(records_of(live, CALLS), CALLS);
	assert_int_equal(capture_select(live->capture, &all, &everybody), 0);
	assert_int_equal(records_of(live, CALLS), CALLS);
	close_live(live);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_not_loaded),
	};
	int r;

	plans = plan_all(plan_host_abi());
	r = cmocka_run_group_tests(tests, NULL, NULL);
	free(plans);
	return r;
}
