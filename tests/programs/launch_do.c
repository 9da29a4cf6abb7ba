/* What a traced program may do: one verb per way to load or run code, and a few that report on themselves. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int die(const char *what)
{
	fprintf(stderr, "launch_do: %s: %s\n", what, strerror(errno));
	return 99;
}

static int wait_for(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) < 0)
		return die("waitpid");
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int load(const char *lib, int calls)
{
	void *handle = dlopen(lib, RTLD_NOW);
	void (*work)(int) = handle ? (void (*)(int))dlsym(handle, "launch_work") : NULL;

	if (!work) {
		fprintf(stderr, "launch_do: %s\n", dlerror());
		return 99;
	}
	work(calls);
	return 0;
}

/* dlopen LIB CALLS */
static int do_dlopen(char **arg)
{
	return load(arg[0], atoi(arg[1]));
}

/* storm PROCESSES CALLS LIB...: all processes load all libraries at once */
static int do_storm(char **arg)
{
	int n = atoi(arg[0]), calls = atoi(arg[1]), bad = 0;

	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			for (char **lib = arg + 2; *lib; lib++)
				bad |= load(*lib, calls);
			_exit(bad);
		}
	}
	for (int i = 0; i < n; i++)
		bad |= wait_for(-1) != 0;
	return bad;
}

/* flip LIB OFFSET CALLS: map a file as data, then make it executable, and call what lies at OFFSET */
static int do_flip(char **arg)
{
	long offset = strtol(arg[1], NULL, 0);
	int fd = open(arg[0], O_RDONLY), calls = atoi(arg[2]);
	size_t size = lseek(fd, 0, SEEK_END);
	char *base = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	void (*mark)(void);

	close(fd);
	if (base == MAP_FAILED)
		return die("mmap");
	if (mprotect(base, size, PROT_READ | PROT_EXEC))
		return die("mprotect");
	mark = (void (*)(void))(base + offset);
	for (int i = 0; i < calls; i++)
		mark();
	return 0;
}

/* jit FLIPS: prints the price of a write-to-execute flip in ns */
static int do_jit(char **arg)
{
	int flips = atoi(arg[0]);
	char *page = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct timespec a, b;

	memset(page, 0xc3, 4096);
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < flips; i++)
		if (mprotect(page, 65536, PROT_READ | PROT_EXEC) ||
		    mprotect(page, 65536, PROT_READ | PROT_WRITE))
			return die("mprotect");
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%.0f\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / flips);
	return 0;
}

/* vfork PROGRAM */
static int do_vfork(char **arg)
{
	pid_t pid = vfork();

	if (pid == 0) {
		execv(arg[0], arg);
		_exit(98);
	}
	return wait_for(pid);
}

/* spawn PROGRAM ARG...: by posix_spawn, which clones without copying */
static int do_spawn(char **arg)
{
	pid_t pid;

	errno = posix_spawnp(&pid, arg[0], NULL, NULL, arg, environ);
	return errno ? die("posix_spawnp") : wait_for(pid);
}

/* fexec PROGRAM ARG...: by descriptor */
static int do_fexec(char **arg)
{
	int fd = open(arg[0], O_RDONLY | O_CLOEXEC);

	syscall(SYS_execveat, fd, "", arg, environ, AT_EMPTY_PATH);
	return die("execveat");
}

/* execat DIR NAME: relative to a descriptor, the working directory being another */
static int do_execat(char **arg)
{
	int fd = open(arg[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (chdir("/"))
		return die("chdir");
	syscall(SYS_execveat, fd, arg[1], arg + 1, environ, 0);
	return die("execveat");
}

/* self PROGRAM-AS-ARG0...: runs itself again through /proc/self/exe */
static int do_self(char **arg)
{
	char *again[16] = {"launch_do"};

	for (int i = 0; arg[i] && i < 14; i++)
		again[i + 1] = arg[i];
	execv("/proc/self/exe", again);
	return die("execv");
}

/* nnp PROGRAM ARG...: after giving up privileges */
static int do_nnp(char **arg)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	execvp(arg[0], arg);
	return die("execvp");
}

/* fds: prints the open descriptors */
static int do_fds(char **arg)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;

	(void)arg;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir))
			printf("%s ", entry->d_name);
	printf("\n");
	closedir(dir);
	return 0;
}

/* ids: prints who runs */
static int do_ids(char **arg)
{
	static const char *const vars[] = {"HOME", "USER", "LOGNAME", "SHELL", "LD_LIBRARY_PATH"};
	char line[256];
	FILE *status = fopen("/proc/self/status", "r");

	(void)arg;
	printf("uid=%d euid=%d gid=%d groups=%d\n", getuid(), geteuid(), getgid(), getgroups(0, NULL));
	for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++)
		printf("%s=%s\n", vars[i], getenv(vars[i]) ? getenv(vars[i]) : "(unset)");
	while (status && fgets(line, sizeof(line), status))
		if (!strncmp(line, "Cap", 3) || !strncmp(line, "NoNew", 5) || !strncmp(line, "Sig", 3))
			fputs(line, stdout);
	return status ? fclose(status) : 1;
}

/* limits: prints the soft limit of descriptors */
static int do_limits(char **arg)
{
	struct rlimit limit;

	(void)arg;
	getrlimit(RLIMIT_NOFILE, &limit);
	printf("%llu\n", (unsigned long long)limit.rlim_cur);
	return 0;
}

/* raise SIGNAL, exit CODE */
static int do_raise(char **arg)
{
	raise(atoi(arg[0]));
	return 0;
}

static int do_exit(char **arg)
{
	return atoi(arg[0]);
}

/* Maps a file executable, counts what fails; EINTR apart. */
static void map_once(int fd, unsigned *failed, unsigned *interrupted)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	if (p != MAP_FAILED)
		munmap(p, 4096);
	else if (errno == EINTR)
		(*interrupted)++;
	else
		(*failed)++;
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/*
 * maps FILE LIB MILLISECONDS: maps LIB for so long and runs programs, then writes to FILE how many it mapped,
 * how many failed, and the longest time in ms that one took.
 */
static int do_maps(char **arg)
{
	int fd = open(arg[1], O_RDONLY), bad = 0;
	unsigned n = 0, failed = 0, interrupted = 0;
	long begun = now_ms(), before, now = begun, longest = 0;
	FILE *out;

	do {
		char *child[] = {"/proc/self/exe", "exit", "7", NULL};

		before = now;
		map_once(fd, &failed, &interrupted);
		bad += n++ % 64 == 0 && do_spawn(child) != 7;
		now = now_ms();
		longest = now - before > longest ? now - before : longest;
	} while (now - begun < atol(arg[2]));
	out = fopen(arg[0], "w");
	if (!out)
		return die(arg[0]);
	fprintf(out, "%u %u %ld\n", n, failed + interrupted + bad, longest);
	return fclose(out);
}

/* daemon VERB...: does it in the background, in a session of its own, without the standard descriptors */
static int do_verb(char **arg);

static int do_daemon(char **arg)
{
	if (fork())
		return 0;
	setsid();
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	open("/dev/null", O_RDWR);
	if (dup(0) != 1 || dup(0) != 2)
		return 1;
	return do_verb(arg);
}

/* quiet MILLISECONDS VERB...: does it after so long */
static int do_quiet(char **arg)
{
	struct timespec t = {atol(arg[0]) / 1000, atol(arg[0]) % 1000 * 1000000};

	nanosleep(&t, NULL);
	return do_verb(arg + 1);
}

static void on_alarm(int sig)
{
	(void)sig;
}

/* alarms HZ MAPPINGS LIB: maps while a timer's signal, without SA_RESTART, interrupts; prints EINTRs */
static int do_alarms(char **arg)
{
	struct itimerval timer = {{0, 1000000 / atoi(arg[0])}, {0, 1000000 / atoi(arg[0])}};
	struct sigaction action = {.sa_handler = on_alarm};
	unsigned failed = 0, interrupted = 0;
	int fd = open(arg[2], O_RDONLY);

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	for (int i = 0; i < atoi(arg[1]); i++)
		map_once(fd, &failed, &interrupted);
	printf("%u %u\n", interrupted, failed);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(char **arg);
} verbs[] = {
	{"dlopen", do_dlopen}, {"storm", do_storm},   {"flip", do_flip},     {"jit", do_jit},
	{"vfork", do_vfork},   {"spawn", do_spawn},   {"fexec", do_fexec},   {"execat", do_execat},
	{"self", do_self},     {"nnp", do_nnp},       {"fds", do_fds},       {"ids", do_ids},
	{"limits", do_limits}, {"raise", do_raise},   {"exit", do_exit},     {"maps", do_maps},
	{"quiet", do_quiet},   {"daemon", do_daemon}, {"alarms", do_alarms},
};

static int do_verb(char **arg)
{
	for (size_t i = 0; arg[0] && i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(arg[0], verbs[i].name) == 0)
			return verbs[i].run(arg + 1);
	fprintf(stderr, "launch_do: no such verb\n");
	return 97;
}

int main(int argc, char **argv)
{
	return argc < 2 ? 97 : do_verb(argv + 1);
}
