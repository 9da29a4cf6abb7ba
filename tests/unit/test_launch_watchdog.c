/* A held process goes on whatever happens to the tracer: killed, gone, stopped, slow, in another namespace.
 */
#include "test_launch.h"

#include <dirent.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "../../streamer/launch/mappings.h"

enum { MAPS_MS = 700 };

static char self[PATH_MAX];

static void sleep_ms(int ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Other tracers may run on this host; ours has this run's folder in its command line. */
static bool is_ours(pid_t pid)
{
	char path[64], line[4096];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, line, sizeof(line));
	if (fd >= 0)
		close(fd);
	return n > 0 && memmem(line, n, rig_dir, strlen(rig_dir));
}

/* The pid of our watchdog, 0: none. Zombies do not count. */
static pid_t find_watchdog(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	pid_t found = 0;

	while (!found && (entry = readdir(proc))) {
		pid_t pid = atoi(entry->d_name);
		char path[300], *stat;

		if (pid <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		stat = rig_read(path);
		if (strstr(stat, "(cudatap-hold) ") && !strstr(stat, "(cudatap-hold) Z") && is_ours(pid))
			found = pid;
		free(stat);
	}
	closedir(proc);
	return found;
}

static bool watchdog_gone_within(int ms)
{
	for (; ms > 0 && find_watchdog(); ms -= 20)
		sleep_ms(20);
	return !find_watchdog();
}

/* Starts TEST --tracer with OPTIONS... in a process of its own. */
static pid_t start_tracer(const char *format, ...)
{
	char command[4 * PATH_MAX], options[PATH_MAX];
	va_list args;
	pid_t pid;

	va_start(args, format);
	vsnprintf(options, sizeof(options), format, args);
	va_end(args);
	snprintf(command, sizeof(command), "exec %s --tracer %s 2>%s", self, options, RIG("err"));
	unlink(RIG("out"));
	pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	return pid;
}

/* So many ms after the command was let go. */
static void wait_begun(int ms)
{
	bool begun = false;

	for (int i = 0; i < 1000 && !begun; i++) {
		char *text = rig_read(RIG("err"));

		begun = strstr(text, "held\n");
		free(text);
		if (!begun)
			sleep_ms(10);
	}
	assert_true(begun);
	sleep_ms(ms);
}

static int end_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The report of `do maps`, waited for: mappings made, and none failed. Returns the longest that one took, in
 * ms. */
static unsigned assert_mapped_without_failure(int within_ms)
{
	unsigned mapped = 0, failed = 1, longest = 0;
	char *text = NULL;

	for (; within_ms > 0; within_ms -= 20) {
		free(text);
		text = rig_read(RIG("out"));
		if (strchr(text, '\n'))
			break;
		sleep_ms(20);
	}
	assert_int_equal(sscanf(text, "%u %u %u", &mapped, &failed, &longest), 3);
	free(text);
	assert_true(mapped > 0);
	assert_int_equal(failed, 0);
	return longest;
}

/* killed inside the callback: the notification is open */
static void test_killed_while_holding(void **state)
{
	pid_t pid =
		start_tracer("-d 60000 -- %s maps %s %s %d", RIG("do"), RIG("out"), RIG("mark.so"), MAPS_MS);

	sleep_ms(300);
	assert_int_not_equal(find_watchdog(), 0);
	kill(pid, SIGKILL);
	assert_int_equal(end_of(pid), 128 + SIGKILL);
	assert_mapped_without_failure(20000);
	assert_true(watchdog_gone_within(10000));
}

static void test_killed_at_any_moment(void **state)
{
	for (int i = 0; i < 12; i++) {
		pid_t pid = start_tracer("-- %s maps %s %s 150", RIG("do"), RIG("out"), RIG("mark.so"));
		char *text;

		sleep_ms(30 + 7 * i);
		kill(pid, SIGKILL);
		end_of(pid);
		/* killed before it let the child go: then nothing ran, which is right too */
		text = rig_read(RIG("err"));
		if (strstr(text, "held"))
			assert_mapped_without_failure(20000);
		free(text);
	}
	assert_true(watchdog_gone_within(10000));
}

/* the command ends at once, its daemon lives on and maps: pipes end, nothing fails */
static void test_descendants_outlive(void **state)
{
	double start = now_s();
	char *text;

	unlink(RIG("out"));
	assert_int_equal(rig_shell("%s --tracer -- %s daemon maps %s %s 4000 2>/dev/null | cat >%s", self,
				   RIG("do"), RIG("out"), RIG("mark.so"), RIG("piped")),
			 0);
	assert_true(now_s() - start < 3);
	assert_int_equal(access(RIG("out"), F_OK), -1);
	assert_int_not_equal(find_watchdog(), 0);
	assert_mapped_without_failure(20000);
	assert_true(watchdog_gone_within(10000));
	text = rig_read(RIG("piped"));
	assert_string_equal(text, "");
	free(text);
}

static unsigned count_entries(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	unsigned n = 0;

	while (dir && (entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return n;
}

static int count_mapping(void *ctx, const struct mapping *mapping)
{
	++*(unsigned *)ctx;
	return 0;
}

static void test_watchdog_keeps_nothing(void **state)
{
	int big = memfd_create("ring", 0); /* stands for a BPF ring: leaked, and mapped shared */
	void *ring = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, big, 0);
	struct launch_options options = {.argv = (char *[]){"true", NULL}, .hold = true};
	struct launch *launch;
	unsigned shared = 0;
	char error[256], path[64], *status;
	pid_t dog;

	assert_int_equal(launch_start(&options, &launch, error, sizeof(error)), 0);
	assert_null(launch_held(launch));
	for (int i = 0; i < 100 && !find_watchdog(); i++)
		sleep_ms(10);
	sleep_ms(100);
	dog = find_watchdog();
	assert_int_not_equal(dog, 0);
	snprintf(path, sizeof(path), "/proc/%d/fd", dog);
	assert_int_equal(count_entries(path), 4);
	assert_int_equal(getsid(dog), dog);
	assert_int_equal(mapping_each(dog, 0, UINT64_MAX, MAPPING_SHARED, count_mapping, &shared), 0);
	assert_int_equal(shared, 1);
	snprintf(path, sizeof(path), "/proc/%d/status", dog);
	status = rig_read(path);
	assert_non_null(strstr(status, "SigBlk:\tfffffffe7ffbdeff"));
	free(status);
	kill(dog, SIGTERM);
	kill(dog, SIGINT);
	sleep_ms(50);
	assert_int_equal(find_watchdog(), dog);
	launch_free(launch);
	assert_true(watchdog_gone_within(10000));
	munmap(ring, 1 << 20);
	close(big);
}

/* a tracer that lives but does not answer: the callback hangs; then, the whole process is stopped */
static void test_hung_tracer(void **state)
{
	char *text;
	pid_t pid =
		start_tracer("-p 300 -d 60000 -- %s maps %s %s 1000", RIG("do"), RIG("out"), RIG("mark.so"));

	assert_mapped_without_failure(20000);
	kill(pid, SIGKILL);
	end_of(pid);
	pid = start_tracer("-p 300 -- %s maps %s %s 3000", RIG("do"), RIG("out"), RIG("mark.so"));
	wait_begun(300);
	kill(pid, SIGSTOP);
	assert_mapped_without_failure(20000);
	kill(pid, SIGCONT);
	assert_int_equal(end_of(pid), 0);
	/* and one that was stopped for a while holds again */
	pid = start_tracer("-p 200 -f %s -- sh -c '%s maps %s %s 1500 && %s dlopen %s 1'", RIG("files"),
			   RIG("do"), RIG("out"), RIG("mark.so"), RIG("do"), RIG("mark2.so"));
	wait_begun(200);
	kill(pid, SIGSTOP);
	sleep_ms(700);
	kill(pid, SIGCONT);
	assert_int_equal(end_of(pid), 0);
	assert_mapped_without_failure(100);
	text = rig_read(RIG("files"));
	assert_non_null(strstr(text, "mark2.so"));
	free(text);
	assert_true(watchdog_gone_within(10000));
}

/* nobody waits for a tracer that is stopped: neither who is held at that moment nor who would be */
static void test_stopped_tracer(void **state)
{
	pid_t pid = start_tracer("-- %s maps %s %s 1500", RIG("do"), RIG("out"), RIG("mark.so"));
	double begun = now_s();

	wait_begun(300);
	kill(pid, SIGSTOP);
	assert_mapped_without_failure(20000);
	assert_true(now_s() - begun < LAUNCH_PATIENCE_MS / 1000.0);
	kill(pid, SIGCONT);
	assert_int_equal(end_of(pid), 0);
	assert_true(watchdog_gone_within(10000));
}

/* wherever the stop meets it: waiting, receiving, with a call in its hands */
static void test_stopped_at_any_moment(void **state)
{
	enum { STOPS = 10, STOPPED_MS = 1000, RUNNING_MS = 40 };
	pid_t pid = start_tracer("-- %s maps %s %s %d", RIG("do"), RIG("out"), RIG("mark.so"),
				 500 + STOPS * (STOPPED_MS + RUNNING_MS));

	wait_begun(200);
	for (int i = 0; i < STOPS; i++) {
		sleep_ms(RUNNING_MS + i);
		kill(pid, SIGSTOP);
		sleep_ms(STOPPED_MS);
		kill(pid, SIGCONT);
	}
	assert_in_range(assert_mapped_without_failure(20000), 0, STOPPED_MS * 3 / 5);
	assert_int_equal(end_of(pid), 0);
	assert_true(watchdog_gone_within(10000));
}

/* The thread of the tracer that receives; 0: none. */
static pid_t find_hold_thread(pid_t pid)
{
	char path[300], *comm;
	struct dirent *entry;
	pid_t found = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", pid, entry->d_name);
		comm = rig_read(path);
		if (strcmp(comm, "hold\n") == 0)
			found = atoi(entry->d_name);
		free(comm);
	}
	if (tasks)
		closedir(tasks);
	return found;
}

/* Pauses the thread as it is about to receive: it has the right to, and the kernel has not begun. */
static pid_t pause_receiver(pid_t pid)
{
	pid_t tid = find_hold_thread(pid);
	struct __ptrace_syscall_info info;
	int status;

	assert_int_not_equal(tid, 0);
	assert_int_equal(ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD), 0);
	ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	for (;;) {
		assert_int_equal(waitpid(tid, &status, __WALL), tid);
		if (WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80) &&
		    ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) > 0 &&
		    info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == SYS_ioctl &&
		    info.entry.args[1] == SECCOMP_IOCTL_NOTIF_RECV)
			return tid;
		ptrace(PTRACE_SYSCALL, tid, 0, 0);
	}
}

/* a tracer that does not run, though no job control stopped it: nobody waits longer than the patience */
static void test_frozen_receiver(void **state)
{
	pid_t pid = start_tracer("-p 300 -- %s maps %s %s 1500", RIG("do"), RIG("out"), RIG("mark.so")), tid;

	wait_begun(300);
	tid = pause_receiver(pid);
	assert_in_range(assert_mapped_without_failure(20000), 250, 3000);
	ptrace(PTRACE_DETACH, tid, 0, 0);
	assert_int_equal(end_of(pid), 0);
	assert_true(watchdog_gone_within(10000));
}

/* what it was about to receive was answered while it was stopped: it sleeps in the kernel until the next
 * call, which is held like any other */
static void test_late_receiver(void **state)
{
	pid_t pid =
		start_tracer("-p 400 -f %s -- sh -c '%s quiet 3000 dlopen %s 1 & %s maps %s %s 1200; wait'",
			     RIG("files"), RIG("do"), RIG("mark2.so"), RIG("do"), RIG("out"), RIG("mark.so"));
	pid_t tid;
	char *text;

	wait_begun(200);
	tid = pause_receiver(pid);
	kill(pid, SIGSTOP);
	assert_in_range(assert_mapped_without_failure(20000), 0, 350);
	kill(pid, SIGCONT);
	ptrace(PTRACE_DETACH, tid, 0, 0);
	assert_int_equal(end_of(pid), 0);
	text = rig_read(RIG("files"));
	assert_non_null(strstr(text, "mark2.so"));
	free(text);
	assert_true(watchdog_gone_within(10000));
}

/* the watchdog does not meddle with a tracer that is only slow */
static void test_slow_callback(void **state)
{
	struct rig_run run = {.options = {.hold = true, .patience_ms = 2000}, .tracer.delay_ms = 100};
	char *argv[] = {RIG("do"), "dlopen", RIG("mark.so"), "5", NULL};

	assert_int_equal(rig_run(&run, argv), 0);
	assert_true(rig_was_shown(&run.tracer, "mark.so"));
	assert_int_equal(run.counts.overdue, 0);
	rig_calls(&run.tracer);
}

/* nor with one that takes longer than its patience but gets on */
static void test_slow_but_getting_on(void **state)
{
	struct rig_run run = {.options = {.hold = true, .patience_ms = 400},
			      .tracer = {.delay_ms = 20, .steps = 50, .probing = true}};
	char *argv[] = {RIG("do"), "dlopen", RIG("mark.so"), "5", NULL};

	assert_int_equal(rig_run(&run, argv), 0);
	assert_true(rig_was_shown(&run.tracer, "mark.so"));
	assert_int_equal(run.counts.overdue, 0);
	assert_int_equal(rig_calls(&run.tracer), 10); /* half of them from its constructor */
}

static void test_killed_while_held(void **state)
{
	struct rig_run run = {.options.hold = true, .tracer.delay_ms = 200};
	char command[PATH_MAX], *argv[] = {"/bin/sh", "-c", command, NULL};

	snprintf(command, sizeof(command), "%s dlopen %s 5 & sleep 0.1; kill -9 $!; wait; %s dlopen %s 5",
		 RIG("do"), RIG("mark.so"), RIG("do"), RIG("mark.so"));
	assert_int_equal(rig_run(&run, argv), 0);
	assert_true(rig_was_shown(&run.tracer, "mark.so"));
	rig_calls(&run.tracer);
}

/* the tracer is PID 1 of its namespace: ids in notifications are its own, orphans are its children */
static void test_pid_one(void **state)
{
	assert_int_equal(
		rig_shell(
			"unshare -fp --mount-proc %s --tracer -w -- sh -c '%s daemon maps %s %s 300; exit 5' "
			"2>%s",
			self, RIG("do"), RIG("out"), RIG("mark.so"), RIG("err")),
		5);
	assert_mapped_without_failure(100);
	assert_true(watchdog_gone_within(10000));
}

static void test_text_of_maps(void **state)
{
	unsigned by_query = 0, by_text = 0;

	assert_int_equal(mapping_each(getpid(), 0, UINT64_MAX, MAPPING_EXEC, count_mapping, &by_query), 0);
	assert_int_equal(mapping_each_text(getpid(), 0, UINT64_MAX, MAPPING_EXEC, count_mapping, &by_text),
			 0);
	assert_true(by_query > 2);
	assert_int_equal(by_query, by_text);
	by_text = 0;
	mapping_each_text(getpid(), (uintptr_t)test_text_of_maps, (uintptr_t)test_text_of_maps + 1, 0,
			  count_mapping, &by_text);
	assert_int_equal(by_text, 1);
	assert_int_equal(mapping_each(999999999, 0, 1, 0, count_mapping, &by_text), -ENOENT);
}

static int build_all(void **state)
{
	(void)state;
	return rig_build("cc", "launch_do", "do", "") ||
	       rig_build("cc", "launch_mark", "mark.so", "-shared -fPIC") ||
	       rig_build("cc", "launch_mark", "mark2.so", "-shared -fPIC");
}

static void test_needs_root(void **state)
{
	print_message("needs root: namespaces and other processes\n");
	skip();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest without_root[] = {cmocka_unit_test(test_needs_root)};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed_while_holding),
		cmocka_unit_test(test_killed_at_any_moment),
		cmocka_unit_test(test_descendants_outlive),
		cmocka_unit_test(test_watchdog_keeps_nothing),
		cmocka_unit_test(test_hung_tracer),
		cmocka_unit_test(test_stopped_tracer),
		cmocka_unit_test(test_stopped_at_any_moment),
		cmocka_unit_test(test_frozen_receiver),
		cmocka_unit_test(test_late_receiver),
		cmocka_unit_test(test_slow_callback),
		cmocka_unit_test(test_slow_but_getting_on),
		cmocka_unit_test(test_killed_while_held),
		cmocka_unit_test(test_pid_one),
		cmocka_unit_test(test_text_of_maps),
	};

	if (argc > 1 && strcmp(argv[1], "--tracer") == 0)
		return rig_main(argc, argv);
	if (geteuid() != 0)
		return cmocka_run_group_tests(without_root, NULL, NULL);
	if (!realpath("/proc/self/exe", self) || rig_make_dir())
		return 1;
	if (argc == 1) /* for is_ours() */
		return execl(self, self, rig_dir, (char *)NULL);
	rmdir(rig_dir);
	snprintf(rig_dir, sizeof(rig_dir), "%s", argv[1]);
	return cmocka_run_group_tests(tests, build_all, rig_cleanup);
}
