/* Not one call missed: each way to bring code into a process, every call of it counted by a probe. */
#include "test_launch.h"

#include <sched.h>

/* dlopen: five calls from the constructor, then 1000 at once */
static void test_dlopen(void **state)
{
	assert_int_equal(rig_count("%s dlopen %s 1000", RIG("do"), RIG("mark.so")), 1005);
}

static void test_shell_and_relative_path(void **state)
{
	assert_int_equal(rig_count("cd %s && ./do dlopen ./mark.so 10 && (cd / && exec %s dlopen %s 20)",
				   rig_dir, RIG("do"), RIG("mark.so")),
			 40);
}

static void test_programs(void **state)
{
	static const char *const programs[] = {"dynamic", "static",      "static-pie",
					       "musl",    "musl-static", "musl-static-pie"};

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		if (strncmp(programs[i], "musl", 4) == 0 && !rig_have("musl-gcc")) {
			print_message("%s left out: no musl-gcc\n", programs[i]);
			continue;
		}
		assert_int_equal(rig_count("%s", RIG(programs[i])), 1005);
		assert_int_equal(rig_count("cd %s && ./%s && PATH=. %s", rig_dir, programs[i], programs[i]),
				 2010);
	}
}

static void exec_ways(const char *name, int calls)
{
	const char *program = RIG(name), *tool = RIG("do");

	assert_int_equal(rig_count("%s", program), calls);
	assert_int_equal(rig_count("cd %s && ./%s && cd / && PATH=/bin:%s %s", rig_dir, name, rig_dir, name),
			 2 * calls);
	assert_int_equal(rig_count("%s vfork %s", tool, program), calls);
	assert_int_equal(rig_count("%s spawn %s", tool, program), calls);
	assert_int_equal(rig_count("%s fexec %s", tool, program), calls);
	assert_int_equal(rig_count("%s execat %s %s", tool, rig_dir, name), calls);
	assert_int_equal(rig_count("%s nnp %s", tool, program), calls);
	assert_int_equal(rig_count("exec 7<%s; exec /proc/self/fd/7", program), calls);
	assert_int_equal(rig_count("exec 7<%s; exec /dev/fd/7", program), calls);
	assert_int_equal(rig_count("printf '#! %s -x\n' >%s/s1 && printf '#!./s1\n' >%s/s2 && cd %s && chmod "
				   "+x s1 s2 && ./s1 && ./s2",
				   program, rig_dir, rig_dir, rig_dir),
			 2 * calls);
	assert_int_equal(rig_count("mkdir -p %s/top/bin && cp -p %s %s/top/bin/real && ln -sf /bin/real "
				   "%s/top/bin/link && chroot %s/top /bin/link",
				   rig_dir, program, rig_dir, rig_dir, rig_dir),
			 calls);
}

static void test_exec_ways(void **state)
{
	exec_ways("static", 1005);
}

/* no set_tid_address by which a missed exec would be noticed after all */
static void test_exec_ways_without_libc(void **state)
{
	exec_ways("bare", 10);
}

static void test_exec_itself(void **state)
{
	const char *tool = RIG("do");

	assert_int_equal(rig_count("%s self dlopen %s 7", tool, RIG("mark.so")), 12);
}

/* a path that cannot be followed from outside is seen when the program starts */
static void test_program_seen_at_start(void **state)
{
	rig_shell("ln -sf /proc/self/fd/7 %s/through", rig_dir);
	assert_int_equal(rig_count("exec 7<%s; cd %s && exec ./through", RIG("static"), rig_dir), 1005);
	assert_int_equal(rig_count("exec 7<%s; cd %s && exec ./through", RIG("dynamic"), rig_dir), 1005);
}

static void test_data_made_executable(void **state)
{
	int fd = open(RIG("mark.so"), O_RDONLY | O_CLOEXEC);
	uint64_t offset = rig_mark_offset(fd);

	close(fd);
	assert_int_not_equal(offset, 0);
	assert_int_equal(rig_count("%s flip %s %lu 300", RIG("do"), RIG("mark.so"), offset), 300);
}

static void test_python_subprocess(void **state)
{
	if (!rig_have("python3")) {
		print_message("no python3\n");
		skip();
	}
	assert_int_equal(
		rig_count("python3 -c 'import ctypes, subprocess; subprocess.run([\"%s\"], check=True); "
			  "ctypes.CDLL(\"%s\").launch_work(100)'",
			  RIG("static"), RIG("mark.so")),
		1110);
}

static void test_other_mount_namespace(void **state)
{
	const char *way = "unshare -m sh -c 'mount -t tmpfs none /mnt && cp %s /mnt/a.so && cp %s /mnt/p && "
			  "%s dlopen /mnt/a.so 50 && cd /mnt && ./p && /mnt/p'";

	assert_int_equal(rig_count(way, RIG("mark.so"), RIG("static"), RIG("do")), 55 + 2 * 1005);
}

static void test_child_pid_namespace(void **state)
{
	assert_int_equal(rig_count("unshare -fp --mount-proc %s dlopen %s 20", RIG("do"), RIG("mark.so")),
			 25);
	assert_int_equal(rig_count("unshare -fp %s", RIG("static")), 1005);
}

/* written, loaded, deleted, again: the inode number is given away at once */
static void test_deleted_and_reused(void **state)
{
	assert_int_equal(
		rig_count("cd %s && for i in 1 2 3; do cp mark.so gone.so && ./do dlopen ./gone.so 10 && rm "
			  "gone.so; cp /bin/true x && ./x && rm x; done",
			  rig_dir),
		45);
}

static void test_from_32_bit(void **state)
{
	static const char source[] =
		".globl _start\\n_start: pop %%ecx\\n pop %%ebx\\n mov (%%esp),%%ebx\\n mov "
		"%%esp,%%ecx\\n xor %%edx,%%edx\\n mov $11,%%eax\\n int $0x80\\n mov "
		"$1,%%eax\\n int $0x80\\n";

	if (rig_shell("printf '%s' >%s/x.S && gcc -m32 -nostdlib -static -o %s/exec32 %s/x.S 2>/dev/null",
		      source, rig_dir, rig_dir, rig_dir) ||
	    rig_shell("%s/exec32 /bin/true", rig_dir)) {
		print_message("no 32-bit programs here\n");
		skip();
	}
	assert_int_equal(rig_count("%s/exec32 %s", rig_dir, RIG("static")), 1005);
}

/* eight processes bring the same new libraries at once, the tracer being slow */
static void test_storm(void **state)
{
	struct rig_run run = {.options.hold = true, .tracer = {.probing = true, .delay_ms = 20}};
	char *argv[] = {RIG("do"),       "storm",         "8", "100", RIG("mark.so"),
			RIG("mark2.so"), RIG("mark3.so"), NULL};

	assert_int_equal(rig_run(&run, argv), 0);
	assert_int_equal(run.counts.overdue, 0);
	assert_int_equal(rig_calls(&run.tracer), 8 * 3 * 105);
}

static void test_setuid_program(void **state)
{
	struct launch_user nobody;
	struct rig_run run = {.options = {.hold = true, .user = &nobody}, .tracer.probing = true};
	char command[PATH_MAX * 2], *argv[] = {"/bin/sh", "-c", command, NULL}, *text;

	rig_shell(
		"cp %s %s/setuid && chmod 4755 %s/setuid && rm -f %s/ids && touch %s/ids && chmod 666 %s/ids",
		RIG("do"), rig_dir, rig_dir, rig_dir, rig_dir, rig_dir);
	assert_int_equal(launch_user_find("nobody", &nobody), 0);
	snprintf(command, sizeof(command), "%s ids >%s && %s dlopen %s 5", RIG("setuid"), RIG("ids"),
		 RIG("setuid"), RIG("mark.so"));
	assert_int_equal(rig_run(&run, argv), 0);
	assert_int_equal(rig_calls(&run.tracer), 10);
	text = rig_read(RIG("ids"));
	assert_non_null(strstr(text, "euid=0"));
	assert_non_null(strstr(text, "NoNewPrivs:\t0"));
	free(text);
}

static void test_each_file_once(void **state)
{
	struct rig_run run = {.options.hold = true};
	char command[PATH_MAX], *argv[] = {"/bin/sh", "-c", command, NULL};
	unsigned n = 0;

	snprintf(command, sizeof(command), "%s dlopen %s 1; %s dlopen %s 1", RIG("do"), RIG("mark.so"),
		 RIG("do"), RIG("mark.so"));
	assert_int_equal(rig_run(&run, argv), 0);
	for (unsigned i = 0; i < run.tracer.nfiles; i++)
		n += strstr(run.tracer.file[i], "mark.so") != NULL;
	assert_int_equal(n, 1);
	assert_int_equal(run.counts.shown, run.tracer.nfiles);
	assert_int_equal(run.counts.foreign, 0);
	assert_int_equal(run.counts.unopened, 0);
	assert_true(run.counts.held > run.counts.shown);
	rig_calls(&run.tracer);
}

/* devices and fifos mapped or run are left alone */
static void test_no_regular_file(void **state)
{
	struct rig_run run = {.options.hold = true};
	char command[PATH_MAX], *argv[] = {"/bin/sh", "-c", command, NULL};

	rig_shell("rm -f %s/fifo && mkfifo -m 777 %s/fifo", rig_dir, rig_dir);
	snprintf(command, sizeof(command), "%s/fifo 2>/dev/null; %s maps %s /dev/zero 50; exit 0", rig_dir,
		 RIG("do"), RIG("out"));
	assert_int_equal(rig_run(&run, argv), 0);
	assert_false(rig_was_shown(&run.tracer, "/dev/zero"));
	assert_false(rig_was_shown(&run.tracer, "fifo"));
	rig_calls(&run.tracer);
}

static int build_all(void **state)
{
	(void)state;
	return rig_build("cc", "launch_do", "do", "") ||
	       rig_build("cc", "launch_mark", "mark.so", "-shared -fPIC") ||
	       rig_build("cc", "launch_mark", "mark2.so", "-shared -fPIC") ||
	       rig_build("cc", "launch_mark", "mark3.so", "-shared -fPIC") ||
	       rig_build("cc", "launch_bare", "bare", "-nostdlib -static") ||
	       rig_build("cc", "launch_mark", "dynamic", "-DPROGRAM") ||
	       rig_build("cc", "launch_mark", "static", "-DPROGRAM -static") ||
	       rig_build("cc", "launch_mark", "static-pie", "-DPROGRAM -static-pie -fPIE") ||
	       (rig_have("musl-gcc") &&
		(rig_build("musl-gcc", "launch_mark", "musl", "-DPROGRAM") ||
		 rig_build("musl-gcc", "launch_mark", "musl-static", "-DPROGRAM -static") ||
		 rig_build("musl-gcc", "launch_mark", "musl-static-pie", "-DPROGRAM -static-pie -fPIE")));
}

static void test_needs_root(void **state)
{
	print_message("needs root: probes and namespaces\n");
	skip();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest without_root[] = {cmocka_unit_test(test_needs_root)};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dlopen),
		cmocka_unit_test(test_shell_and_relative_path),
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_exec_ways),
		cmocka_unit_test(test_exec_ways_without_libc),
		cmocka_unit_test(test_exec_itself),
		cmocka_unit_test(test_program_seen_at_start),
		cmocka_unit_test(test_data_made_executable),
		cmocka_unit_test(test_python_subprocess),
		cmocka_unit_test(test_other_mount_namespace),
		cmocka_unit_test(test_child_pid_namespace),
		cmocka_unit_test(test_deleted_and_reused),
		cmocka_unit_test(test_from_32_bit),
		cmocka_unit_test(test_storm),
		cmocka_unit_test(test_setuid_program),
		cmocka_unit_test(test_each_file_once),
		cmocka_unit_test(test_no_regular_file),
	};

	if (argc > 1 && strcmp(argv[1], "--tracer") == 0)
		return rig_main(argc, argv);
	if (geteuid() != 0)
		return cmocka_run_group_tests(without_root, NULL, NULL);
	return cmocka_run_group_tests(tests, build_all, rig_cleanup);
}
