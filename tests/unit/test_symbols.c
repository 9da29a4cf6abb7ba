/* Names of functions by address in a process, and of kernels by their host stubs. */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "find_build.h"
#include "streamer/enrich/stubs.h"

/* Says where its functions are, then sleeps until its end. */
#define PROGRAM                                                                               \
	"#include <stdio.h>\n#include <unistd.h>\n"                                           \
	"void _Z5scalePffi(void) { asm volatile(\"nop\"); }\n"                                \
	"static void hidden(void) { asm volatile(\"nop\"); }\n"                               \
	"static void inner(void) __asm__(\"_Z26__device_stub__Z5scalePffiPffi\");\n"          \
	"static void __attribute__((used)) inner(void) { asm volatile(\"nop\"); }\n"          \
	"int main(void) { printf(\"%p %p %p %p\\n\", (void *)_Z5scalePffi, (void *)hidden,\n" \
	"(void *)inner, (void *)main); fflush(stdout); pause(); return 0; }\n"

struct running {
	pid_t pid;
	void *kernel, *hidden, *inner, *main;
};

static struct running start(const char *name)
{
	struct running running;
	char line[256] = "";
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	running.pid = fork();
	if (running.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ends[1], STDOUT_FILENO);
		execl(build_path(name), name, NULL);
		_exit(127);
	}
	close(ends[1]);
	for (size_t n = 0; n < sizeof(line) - 1 && read(ends[0], line + n, 1) == 1 && line[n] != '\n'; n++)
		;
	close(ends[0]);
	assert_int_equal(
		sscanf(line, "%p %p %p %p", &running.kernel, &running.hidden, &running.inner, &running.main),
		4);
	return running;
}

static void finish(const struct running *running)
{
	kill(running->pid, SIGKILL);
	waitpid(running->pid, NULL, 0);
}

static void assert_found(struct symbols *symbols, pid_t pid, const void *address, const char *wanted)
{
	char name[256] = "";
	int len = symbols_find(symbols, pid, (uintptr_t)address, name, sizeof(name));

	if (!wanted) {
		assert_true(len < 0);
		return;
	}
	assert_int_equal(len, strlen(wanted));
	assert_string_equal(name, wanted);
}

static void check_kind(const char *flags, const char *strip, bool exported, bool hidden)
{
	struct symbols *symbols = symbols_new();
	struct running running;
	char name[8];
	int local = 0;

	build_c("program", flags, PROGRAM);
	if (strip)
		assert_int_equal(build_run("%s program", strip), 0);
	running = start("program");
	for (int again = 0; again < 2; again++) {
		assert_found(symbols, running.pid, running.kernel, exported ? "_Z5scalePffi" : NULL);
		assert_found(symbols, running.pid, running.hidden, hidden ? "hidden" : NULL);
	}
	assert_found(symbols, running.pid, (char *)running.kernel + 1, NULL);
	assert_found(symbols, running.pid, &local, NULL);
	assert_found(symbols, running.pid, NULL, NULL);
	if (exported) {
		assert_int_equal(
			symbols_find(symbols, running.pid, (uintptr_t)running.kernel, name, sizeof(name)),
			sizeof(name) - 1);
		assert_string_equal(name, "_Z5scal");
	}
	/* the file is gone, its mapping is not */
	assert_int_equal(build_run("rm program"), 0);
	assert_found(symbols, running.pid, running.kernel, exported ? "_Z5scalePffi" : NULL);
	finish(&running);
	assert_found(symbols, running.pid, running.kernel, NULL);
	symbols_free(symbols);
}

static void programs_of_all_kinds(void **state)
{
	check_kind("-pie -fPIE", NULL, true, true);
	check_kind("-no-pie", NULL, true, true);
	check_kind("-static", NULL, true, true);
	check_kind("-static-pie -fPIE", NULL, true, true);
	check_kind("-pie -fPIE -rdynamic", "strip", true, false);
	check_kind("-static", "strip", false, false);
	/* code in the first segment, behind the headers */
	check_kind("-no-pie -Wl,-z,noseparate-code", NULL, true, true);
}

/* More files than are remembered, one after the other and again. */
static void many_files(void **state)
{
	struct symbols *symbols = symbols_new();
	struct running running[12];
	char name[32];

	for (int i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "program%d", i);
		build_c(name, i % 2 ? "-no-pie" : "-pie -fPIE", PROGRAM);
		running[i] = start(name);
	}
	for (int i = 0; i < 36; i++)
		assert_found(symbols, running[i % 12].pid, running[i % 12].kernel, "_Z5scalePffi");
	for (int i = 0; i < 12; i++)
		finish(&running[i]);
	symbols_free(symbols);
}

static uint64_t boot_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static void stubs_of_a_process(void **state)
{
	struct symbols *symbols = symbols_new();
	uint64_t before = boot_ns(), start_ns = 0;
	struct running running;
	char name[256];

	build_c("program", "-no-pie", PROGRAM);
	running = start("program");
	/* to the clock tick of 10 ms at least, which is all that the kernel tells */
	for (uint64_t ns = before; ns < boot_ns() + 10000000 && !start_ns; ns += 1000000)
		if (stubs_name(symbols, running.pid, ns, (uintptr_t)running.kernel, name, sizeof(name)) > 0)
			start_ns = ns;
	assert_true(start_ns);
	assert_string_equal(name, "_Z5scalePffi");
	assert_int_equal(
		stubs_name(symbols, running.pid, start_ns, (uintptr_t)running.inner, name, sizeof(name)),
		strlen("_Z5scalePffi"));
	assert_string_equal(name, "_Z5scalePffi");
	/* another process of that number */
	assert_true(stubs_name(symbols, running.pid, start_ns - 1000000000, (uintptr_t)running.kernel, name,
			       sizeof(name)) < 0);
	finish(&running);
	symbols_free(symbols);
}

static void kernels_of_stubs(void **state)
{
	static const struct {
		const char *symbol, *kernel;
	} cases[] = {
		{"_Z26__device_stub__Z5scalePffiPffi", "_Z5scalePffi"},
		{"_Z5scalePffi", "_Z5scalePffi"},
		{"_ZL5scalePffi", "_ZL5scalePffi"},
		{"_ZL26__device_stub__Z5scalePffiPffi", "_Z5scalePffi"},
		{"_ZN12_GLOBAL__N_15scaleEv", "_ZN12_GLOBAL__N_15scaleEv"},
		{"_Z29__device_stub__ZN2ns5scaleEPfPf", "_ZN2ns5scaleEPf"},
		{"_Z99__device_stub__Z5scalePffiPffi", "_Z99__device_stub__Z5scalePffiPffi"},
		{"_Z14__device_stub_", "_Z14__device_stub_"},
		{"_Z99999999999999999999999__device_stub_x", "_Z99999999999999999999999__device_stub_x"},
		{"_Z-1__device_stub_x", "_Z-1__device_stub_x"},
		{"count_up", "count_up"},
		{"_Z", "_Z"},
		{"", ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char name[128];

		strcpy(name, cases[i].symbol);
		assert_int_equal(stubs_kernel(name), strlen(cases[i].kernel));
		assert_string_equal(name, cases[i].kernel);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs_of_all_kinds),
		cmocka_unit_test(many_files),
		cmocka_unit_test(stubs_of_a_process),
		cmocka_unit_test(kernels_of_stubs),
	};

	return cmocka_run_group_tests_name("symbols", tests, build_setup, build_teardown);
}
