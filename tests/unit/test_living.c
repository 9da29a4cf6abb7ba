/* A process whose main thread has ended while another one goes on is found, opened and read like any other.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "streamer/enrich/alive.h"
#include "streamer/enrich/procfs.h"
#include "streamer/find/find.h"
#include "streamer/find/living.h"

struct child {
	pid_t pid;
	char path[64]; /* of a file that it maps */
	ino_t ino;
	dev_t dev;
};

static void *go_on(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

/* The state in /proc/PID/stat. */
static char state_of(pid_t pid)
{
	char path[64], text[512], *end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	assert_true(n > 0);
	text[n] = 0;
	end = strrchr(text, ')');
	assert_non_null(end);
	return end[2];
}

static void run_child(int fd)
{
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody behind */
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED ||
	    pthread_create(&thread, NULL, go_on, NULL))
		_exit(1);
	syscall(SYS_exit, 0); /* of this thread alone */
}

static int setup(void **state)
{
	static struct child child;
	struct stat st;
	int fd;

	strcpy(child.path, "/tmp/cudatap-living-XXXXXX");
	fd = mkostemp(child.path, O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(fstat(fd, &st), 0);
	child.ino = st.st_ino;
	child.dev = st.st_dev;
	child.pid = fork();
	if (!child.pid)
		run_child(fd);
	close(fd);
	for (int i = 0; i < 10000 && state_of(child.pid) != 'Z'; i++)
		usleep(1000);
	*state = &child;
	return state_of(child.pid) == 'Z' ? 0 : -1;
}

static int teardown(void **state)
{
	struct child *child = *state;

	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
	return unlink(child->path);
}

static void threads_that_live(void **state)
{
	struct child *child = *state;
	pid_t tid = living_thread(child->pid), dead;
	siginfo_t info;

	assert_true(tid > 0);
	assert_int_not_equal(tid, child->pid);
	assert_int_equal(state_of(tid), 'S');
	assert_int_equal(living_thread(getpid()), getpid());
	dead = fork();
	if (!dead)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)dead, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(living_thread(dead), 0);
	assert_int_equal(waitpid(dead, NULL, 0), dead);
	assert_int_equal(living_thread(dead), 0);
}

/* The file as a walk showed it. */
struct sight {
	const struct child *child;
	struct find_file file;
	unsigned n;
};

static int look_for(void *ctx, const struct find_file *file)
{
	struct sight *sight = ctx;

	if (file->pid != sight->child->pid || file->ino != sight->child->ino ||
	    file->dev != sight->child->dev)
		return 0;
	sight->n++;
	assert_string_equal(file->path, sight->child->path);
	sight->file = *file;
	sight->file.path = sight->child->path;
	return 0;
}

static void assert_opens(const struct sight *sight)
{
	int fd = find_open(&sight->file);
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	assert_int_equal(st.st_ino, sight->child->ino);
}

static void its_files_are_found(void **state)
{
	struct sight sight = {.child = *state};

	assert_int_equal(find_in_process(sight.child->pid, look_for, &sight), 0);
	assert_int_equal(sight.n, 1);
	assert_opens(&sight);
	assert_int_equal(find_in_processes(look_for, &sight), 0);
	assert_int_equal(sight.n, 2);
	assert_int_equal(find_mapping(sight.child->pid, sight.file.map_start, look_for, &sight), 0);
	assert_int_equal(sight.n, 3);
	sight.file.map_start = sight.file.map_end = 0; /* by its name */
	assert_opens(&sight);
}

static void its_words_are_read(void **state)
{
	static const char *const names[] = {"PATH"};
	struct child *child = *state;
	uint64_t start = alive_start(child->pid, false);
	char words[PROCFS_MAX_CMDLINE];
	struct environs *environs;

	assert_true(procfs_cmdline(child->pid, start, words) > 0);
	assert_non_null(strstr(words, "test_living"));
	environs = procfs_environs(child->pid, start, names, 1);
	assert_non_null(environs);
	assert_int_equal(environs->n, 1);
	assert_int_equal(environs->value[0].data != NULL, getenv("PATH") != NULL);
	environs_free(environs);
	assert_int_equal(procfs_cmdline(child->pid, start + 1, words), 0);
	assert_null(procfs_environs(child->pid, start + 1, names, 1));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_that_live),
		cmocka_unit_test(its_files_are_found),
		cmocka_unit_test(its_words_are_read),
	};

	return cmocka_run_group_tests_name("living threads", tests, setup, teardown);
}
