/* Starting a command: exit codes, descriptors, users, rights, signals, and running without the filter. */
#include "test_launch.h"

#include <signal.h>

#define SYSTEM_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static char self[PATH_MAX];

/* Runs a shell command by launch; its output is in a file that the command names. */
static int run_shell(struct rig_run *run, const char *format, ...)
{
	char command[2 * PATH_MAX], *argv[] = {"/bin/sh", "-c", command, NULL};
	va_list args;
	int code;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	code = rig_run(run, argv);
	rig_calls(&run->tracer);
	return code;
}

static void assert_file_has(const char *name, const char *text)
{
	char *have = rig_read(RIG(name));

	if (!strstr(have, text))
		print_message("%s is not in: %s\n", text, have);
	assert_non_null(strstr(have, text));
	free(have);
}

/* The signals 1 to 31 that the command ignores; 32 and 33 are glibc's own, and posix_spawn() of whoever
 * runs the tests may have left them ignored. */
static void assert_ignored(const char *name, unsigned long wanted)
{
	char *have = rig_read(RIG(name)), *at = strstr(have, "SigIgn:");

	assert_non_null(at);
	assert_int_equal(strtoul(at + strlen("SigIgn:"), NULL, 16) & 0x7fffffff, wanted);
	free(have);
}

/* ---- exit codes ---- */

static void check_exit_codes(bool hold)
{
	static const struct {
		const char *command[4];
		int code;
	} cases[] = {
		{{"true"}, 0},
		{{"do", "exit", "7"}, 7},
		{{"do", "raise", "15"}, 128 + 15},
		{{"do", "raise", "9"}, 128 + 9},
		{{"/"}, 126},
		{{"/etc/passwd"}, 126},
		{{"/no/such/program"}, 127},
		{{"no-such-program"}, 127},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rig_run run = {.options.hold = hold};
		char *argv[4] = {NULL};

		for (int a = 0; cases[i].command[a]; a++)
			argv[a] = (char *)cases[i].command[a];
		assert_int_equal(rig_run(&run, argv), cases[i].code);
		assert_int_equal(run.held, hold);
		rig_calls(&run.tracer);
	}
}

static void test_exit_codes(void **state)
{
	check_exit_codes(false);
}

static void test_exit_codes_held(void **state)
{
	if (geteuid() != 0)
		skip();
	check_exit_codes(true);
}

/* however few descriptors there are, a start ends, and what has begun can be dropped */
static void test_files_run_out(void **state)
{
	struct launch_options options = {.argv = (char *[]){"touch", RIG("touched"), NULL},
					 .hold = geteuid() == 0};
	int first = dup(0), started = 0, refused = 0;
	struct rlimit old, few;
	struct launch *launch;
	char error[256];

	close(first);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	alarm(60); /* instead of hanging */
	for (int more = 0; more < 24; more++) {
		few = (struct rlimit){first + more, old.rlim_max};
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		error[0] = 0;
		if (launch_start(&options, &launch, error, sizeof(error)) == 0) {
			started++;
			launch_free(launch);
		} else {
			refused++;
			assert_true(error[0] != 0);
		}
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	}
	while (waitpid(-1, NULL, 0) > 0)
		; /* no child lives on */
	alarm(0);
	assert_true(started && refused);
	assert_int_equal(access(RIG("touched"), F_OK), -1);
}

/* nor does anything stay of one that dies as it has begun: who lives has a copy of the pipe */
static void test_dies_short_of_files(void **state)
{
	struct launch_options options = {.argv = (char *[]){"touch", RIG("touched"), NULL},
					 .hold = geteuid() == 0};
	unsigned started = 0;

	for (int more = 0; more < 24; more++) {
		struct pollfd end = {.events = POLLIN};
		int pipes[2], status;

		assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
		if (fork() == 0) {
			struct rlimit few = {pipes[1] + 1 + more, pipes[1] + 1 + more};
			struct launch *launch;
			char error[256];

			_exit(setrlimit(RLIMIT_NOFILE, &few) ||
			      launch_start(&options, &launch, error, sizeof(error)));
		}
		close(pipes[1]);
		assert_true(wait(&status) > 0);
		started += WIFEXITED(status) && WEXITSTATUS(status) == 0;
		end.fd = pipes[0];
		assert_int_equal(poll(&end, 1, 10000), 1);
		close(pipes[0]);
	}
	assert_in_range(started, 1, 23);
	assert_int_equal(access(RIG("touched"), F_OK), -1);
}

/* serves until the exec status is known */
static int exec_status(const char *program, int *ret_errno)
{
	struct launch_options options = {.argv = (char *[]){(char *)program, NULL}, .hold = geteuid() == 0};
	struct rig_tracer t = {0};
	struct launch *launch;
	char error[256];
	int status;

	assert_int_equal(launch_start(&options, &launch, error, sizeof(error)), 0);
	assert_int_equal(launch_exec_status(launch, ret_errno), 0);
	assert_true(launch_pid(launch) > 0);
	assert_int_equal(launch_go(launch), 0);
	for (;;) {
		struct pollfd fd[] = {{.fd = launch_exec_fd(launch), .events = POLLIN},
				      {.fd = launch_notify_fd(launch), .events = POLLIN}};

		assert_true(poll(fd, 2, 5000) > 0);
		if (fd[0].revents)
			break;
		launch_handle(launch, rig_show, &t);
	}
	status = launch_exec_status(launch, ret_errno);
	assert_int_equal(launch_exec_status(launch, ret_errno), status); /* still so */
	launch_free(launch);
	rig_calls(&t);
	return status;
}

static void test_exec_status(void **state)
{
	int error = 0;

	assert_int_equal(exec_status("true", &error), 0);
	assert_int_equal(exec_status("no-such-program", &error), 127);
	assert_int_equal(error, ENOENT);
	assert_int_equal(exec_status("/", &error), 126);
	assert_int_equal(error, EACCES);
}

/* a child that was never let go ends with the launch, and runs nothing */
static void test_never_let_go(void **state)
{
	struct launch_options options = {.argv = (char *[]){"touch", RIG("touched"), NULL},
					 .hold = geteuid() == 0};
	struct launch *launch;
	char error[256];
	pid_t pid;

	assert_int_equal(launch_start(&options, &launch, error, sizeof(error)), 0);
	assert_int_equal(launch_reap(launch), -EAGAIN);
	pid = launch_pid(launch);
	launch_free(launch);
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(access(RIG("touched"), F_OK), -1);
	launch_free(NULL);
}

/* ---- what the command inherits ---- */

/* "0 1 2 \n" and whatever this test was itself given, as `do fds` prints it */
static void given_descriptors(char *text, size_t size)
{
	size_t n = 0;

	for (int fd = 0; fd < 1024; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags >= 0 && !(flags & FD_CLOEXEC))
			n += snprintf(text + n, size - n, "%d ", fd);
	}
	snprintf(text + n, size - n, "\n");
}

static void check_descriptors(void)
{
	struct launch_origin origin;
	struct rig_run run = {.options = {.hold = geteuid() == 0, .origin = &origin}};
	char given[1024], *have;
	int pipes[2];

	given_descriptors(given, sizeof(given));
	launch_origin_take(&origin);
	assert_int_equal(pipe(pipes), 0); /* as a library may open them, without O_CLOEXEC */
	/* the shell opens nothing before it runs the last command */
	assert_int_equal(run_shell(&run, "exec %s fds >%s", RIG("do"), RIG("fds")), 0);
	have = rig_read(RIG("fds"));
	assert_string_equal(have, given);
	free(have);
	close(pipes[0]);
	close(pipes[1]);
}

static void test_descriptors(void **state)
{
	int mine = open("/dev/null", O_RDONLY | O_CLOEXEC), given;

	check_descriptors();
	/* what cudatap was given, the command gets: `cmd <(...)`, a make jobserver */
	given = dup2(mine, 77);
	check_descriptors();
	close(given);
	close(mine);
}

static void test_signals(void **state)
{
	struct launch_origin origin;
	struct rig_run run = {.options = {.hold = geteuid() == 0, .origin = &origin}};
	sigset_t all, old;

	signal(SIGHUP, SIG_IGN);
	launch_origin_take(&origin);
	signal(SIGPIPE, SIG_IGN); /* cudatap's own wish */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	assert_int_equal(run_shell(&run, "exec %s ids >%s", RIG("do"), RIG("ids")), 0);
	assert_file_has("ids", "SigBlk:\t0000000000000000");
	assert_ignored("ids", 1u << (SIGHUP - 1));
	run.options.origin = NULL;
	assert_int_equal(run_shell(&run, "exec %s ids >%s", RIG("do"), RIG("ids")), 0);
	assert_ignored("ids", 0);
	sigprocmask(SIG_SETMASK, &old, NULL);
	signal(SIGHUP, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
}

static void test_limits(void **state)
{
	struct launch_origin origin;
	struct rig_run run = {.options = {.hold = geteuid() == 0, .origin = &origin}};
	struct rlimit limit;
	char *text;

	launch_origin_take(&origin);
	limit = origin.nofile;
	limit.rlim_cur = 333;
	setrlimit(RLIMIT_NOFILE, &limit);
	assert_int_equal(run_shell(&run, "%s limits >%s", RIG("do"), RIG("limits")), 0);
	setrlimit(RLIMIT_NOFILE, &origin.nofile);
	text = rig_read(RIG("limits"));
	assert_int_equal(atol(text), origin.nofile.rlim_cur);
	free(text);
}

static void test_stdout_to_stderr(void **state)
{
	char *text;

	assert_int_equal(rig_shell("%s --tracer -n -e -- echo there >%s 2>%s", self, RIG("out"), RIG("err")),
			 0);
	assert_file_has("err", "there");
	text = rig_read(RIG("out"));
	assert_string_equal(text, "");
	free(text);
	assert_int_equal(rig_shell("%s --tracer -n -- echo there >%s 2>%s", self, RIG("out"), RIG("err")), 0);
	assert_file_has("out", "there");
}

/* ---- users ---- */

static void test_find_user(void **state)
{
	struct launch_user user = {.uid = 77};

	assert_int_equal(launch_user_find("no-such-user", &user), -ENOENT);
	assert_int_equal(launch_user_find("root:no-such-group", &user), -ENOENT);
	assert_int_equal(launch_user_find("", &user), -EINVAL);
	assert_int_equal(launch_user_find("root:", &user), -EINVAL);
	assert_int_equal(launch_user_find("4294967295", &user), -ENOENT);
	assert_int_equal(user.uid, 77); /* untouched so far */
	assert_int_equal(launch_user_find("root", &user), 0);
	assert_true(user.set);
	assert_string_equal(user.name, "root");
	assert_int_equal(user.uid, 0);
	assert_int_equal(launch_user_find("0", &user), 0);
	assert_string_equal(user.name, "root");
	assert_int_equal(launch_user_find("3999999", &user), 0);
	assert_int_equal(user.uid, 3999999);
	assert_int_equal(user.gid, 3999999);
	assert_string_equal(user.name, "");
	assert_int_equal(launch_user_find("root:55", &user), 0);
	assert_int_equal(user.gid, 55);
}

static void test_find_sudo_user(void **state)
{
	struct launch_user user, nobody;

	if (geteuid() != 0)
		skip();
	unsetenv("SUDO_UID");
	assert_int_equal(launch_user_sudo(&user), 0);
	assert_false(user.set);
	assert_int_equal(launch_user_find("nobody", &nobody), 0);
	setenv("SUDO_UID", "65534", 1);
	setenv("SUDO_GID", "65534", 1);
	setenv("SUDO_USER", "nobody", 1);
	assert_int_equal(launch_user_sudo(&user), 0);
	assert_true(user.set);
	assert_int_equal(user.uid, 65534);
	assert_string_equal(user.name, "nobody");
	assert_string_equal(user.home, nobody.home);
	setenv("SUDO_UID", "0", 1);
	assert_int_equal(launch_user_sudo(&user), 0);
	assert_false(user.set);
	setenv("SUDO_UID", "-3", 1);
	assert_int_equal(launch_user_sudo(&user), -EINVAL);
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
	unsetenv("SUDO_USER");
}

static void test_other_user(void **state)
{
	struct launch_user nobody;
	struct rig_run run = {.options = {.hold = true, .user = &nobody}};

	if (geteuid() != 0)
		skip();
	assert_int_equal(launch_user_find("nobody", &nobody), 0);
	rig_shell("touch %s && chmod 666 %s", RIG("user"), RIG("user"));
	assert_int_equal(run_shell(&run, "%s ids >%s", RIG("do"), RIG("user")), 0);
	assert_true(run.held);
	assert_file_has("user", "uid=65534 euid=65534 gid=65534");
	assert_file_has("user", "USER=nobody\nLOGNAME=nobody\n");
	assert_file_has("user", nobody.home);
	assert_file_has("user", "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000");
	/* PATH is searched with that user's rights */
	rig_shell("mkdir -p %s/closed && cp %s %s/closed/only_here && chmod 700 %s/closed", rig_dir,
		  RIG("do"), rig_dir, rig_dir);
	setenv("PATH", RIG("closed"), 1);
	assert_int_equal(rig_run(&run, (char *[]){"only_here", "exit", "0", NULL}), 126);
	setenv("PATH", SYSTEM_PATH, 1);
	rig_calls(&run.tracer);
}

static void test_user_refused(void **state)
{
	if (geteuid() != 0 || !rig_have("setpriv"))
		skip();
	assert_int_equal(
		rig_shell(
			"setpriv --reuid 65534 --regid 65534 --clear-groups %s --tracer -u root -- true 2>%s",
			RIG("tracer"), RIG("err")),
		125);
	assert_file_has("err", "cannot run the command as uid 0, gid 0: Operation not permitted");
}

/* ---- rights ---- */

static void test_without_rights(void **state)
{
	if (geteuid() != 0 || !rig_have("setpriv"))
		skip();
	assert_int_equal(
		rig_shell("setpriv --reuid 65534 --regid 65534 --clear-groups %s --tracer -- %s ids >%s 2>%s",
			  RIG("tracer"), RIG("do"), RIG("ids"), RIG("err")),
		0);
	assert_file_has("err", "held\nnote: setuid programs");
	assert_file_has("ids", "NoNewPrivs:\t1");
}

/* file capabilities: not passed on, and the loader's censorship is undone */
static void test_file_capabilities(void **state)
{
	if (geteuid() != 0 || !rig_have("setpriv") ||
	    rig_shell(
		    "cp %s %s/capable && setcap cap_sys_ptrace,cap_dac_read_search,cap_checkpoint_restore=ep "
		    "%s/capable",
		    self, rig_dir, rig_dir))
		skip();
	assert_int_equal(
		rig_shell(
			"LD_LIBRARY_PATH=/some/where setpriv --reuid 65534 --regid 65534 --clear-groups "
			"--inh-caps +net_raw --ambient-caps +net_raw %s/capable --tracer -- %s ids >%s 2>%s",
			rig_dir, RIG("do"), RIG("ids"), RIG("err")),
		0);
	assert_file_has("ids", "LD_LIBRARY_PATH=/some/where\n");
	assert_file_has("ids",
			"CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000");
	assert_file_has("ids", "CapAmb:\t0000000000000000");
}

/* ---- without the filter ---- */

static void test_not_held(void **state)
{
	struct launch_options options = {.argv = (char *[]){"true", NULL}};
	struct launch_counts counts;
	struct launch *launch;
	char error[256];

	assert_int_equal(launch_start(&options, &launch, error, sizeof(error)), 0);
	assert_string_equal(launch_held(launch), "holding is switched off");
	assert_null(launch_note(launch));
	assert_int_equal(launch_notify_fd(launch), -1);
	assert_int_equal(launch_handle(launch, rig_show, NULL), -ENOENT);
	launch_counts(launch, &counts);
	assert_int_equal(counts.held, 0);
	launch_free(launch);
}

/* a tracer in a held tree: its own filter is refused, and its command runs all the same */
static void test_second_listener(void **state)
{
	struct rig_run run = {.options.hold = true};

	if (geteuid() != 0)
		skip();
	assert_int_equal(run_shell(&run, "%s --tracer -- %s exit 7 2>%s", self, RIG("do"), RIG("err")), 7);
	assert_file_has("err", "not held: another seccomp listener is in force");
}

static int build_all(void **state)
{
	int result = rig_build("cc", "launch_do", "do", "");

	(void)state;
	if (!result) /* where other users can run it */
		result = rig_shell("cp %s %s/tracer", self, rig_dir);
	if (!result) { /* folders that any user may search: another would turn 127 into 126 */
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s:" SYSTEM_PATH, rig_dir);
		setenv("PATH", path, 1);
	}
	return result;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exit_codes),     cmocka_unit_test(test_exit_codes_held),
		cmocka_unit_test(test_exec_status),    cmocka_unit_test(test_never_let_go),
		cmocka_unit_test(test_files_run_out),  cmocka_unit_test(test_dies_short_of_files),
		cmocka_unit_test(test_descriptors),    cmocka_unit_test(test_signals),
		cmocka_unit_test(test_limits),         cmocka_unit_test(test_stdout_to_stderr),
		cmocka_unit_test(test_find_user),      cmocka_unit_test(test_find_sudo_user),
		cmocka_unit_test(test_other_user),     cmocka_unit_test(test_user_refused),
		cmocka_unit_test(test_without_rights), cmocka_unit_test(test_file_capabilities),
		cmocka_unit_test(test_not_held),       cmocka_unit_test(test_second_listener),
	};

	if (argc > 1 && strcmp(argv[1], "--tracer") == 0)
		return rig_main(argc, argv);
	if (!realpath("/proc/self/exe", self))
		return 1;
	if (geteuid() != 0)
		puts("test_launch: tests of users and of holding are skipped, they need root");
	return cmocka_run_group_tests(tests, build_all, rig_cleanup);
}
