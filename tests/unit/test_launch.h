/*
 * What the launch tests share: building the helper programs, a tracer that
 * probes `launch_mark` in every file it is shown and so counts its calls, and
 * running a command under it.
 *
 * The test program is itself a tracer when called with --tracer: for the
 * tests that kill one, or run one elsewhere.
 */
#ifndef TEST_LAUNCH_H
#define TEST_LAUNCH_H

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libgen.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../streamer/launch/launch.h"

enum { RIG_MAX_PROBES = 512, RIG_MAX_FILES = 512 };

static char rig_dir[64]; /* where the programs are built */

#define RIG(name) (rig_path((char[PATH_MAX]){0}, (name)))

__attribute__((unused)) static char *rig_path(char *buffer, const char *name)
{
	snprintf(buffer, PATH_MAX, "%s/%s", rig_dir, name);
	return buffer;
}

/* ---- building ---- */

__attribute__((unused, format(printf, 1, 2))) static int rig_shell(const char *format, ...)
{
	char command[2 * PATH_MAX];
	va_list args;
	int status;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	status = system(command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

__attribute__((unused)) static int rig_make_dir(void)
{
	snprintf(rig_dir, sizeof(rig_dir), "/tmp/test_launch.XXXXXX");
	return mkdtemp(rig_dir) ? chmod(rig_dir, 0755) : -1;
}

/* Makes the folder and builds SOURCE.c into it as NAME. Returns 0 when it could. */
__attribute__((unused)) static int rig_build(const char *compiler, const char *source, const char *name,
					     const char *flags)
{
	char here[PATH_MAX] = __FILE__;

	if (!rig_dir[0] && rig_make_dir())
		return -1;
	return rig_shell("%s -O2 %s -o %s/%s %s/../programs/%s.c -ldl 2>%s/build.log || { cat %s/build.log "
			 ">&2; exit 1; }",
			 compiler, flags, rig_dir, name, dirname(here), source, rig_dir, rig_dir);
}

__attribute__((unused)) static int rig_cleanup(void **state)
{
	(void)state;
	return rig_dir[0] ? rig_shell("rm -rf %s", rig_dir) : 0;
}

__attribute__((unused)) static bool rig_have(const char *program)
{
	return rig_shell("command -v %s >/dev/null 2>&1", program) == 0;
}

/* A text file's contents, freed by the caller; "" when there is none. */
__attribute__((unused)) static char *rig_read(const char *path)
{
	char *text = calloc(1, 65536);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		ssize_t n = read(fd, text, 65535);

		text[n < 0 ? 0 : n] = '\0';
		close(fd);
	}
	return text;
}

/* ---- a tracer that counts ---- */

struct rig_tracer {
	int probe[RIG_MAX_PROBES];
	unsigned nprobes;
	char *file[RIG_MAX_FILES]; /* paths, in the order they were shown */
	unsigned nfiles;
	int delay_ms; /* the callback is slow */
	int steps;    /* but gets on: so often it is that slow, with progress in between */
	struct launch *launch;
	bool probing;
};

/* File offset of launch_mark, or 0. */
__attribute__((unused)) static uint64_t rig_mark_offset(int fd)
{
	uint64_t offset = 0;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!elf)
		return 0;
	for (Elf_Scn *scn = NULL; !offset && (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr table, code;
		Elf_Data *data;
		GElf_Sym sym;

		if (!gelf_getshdr(scn, &table) ||
		    (table.sh_type != SHT_SYMTAB && table.sh_type != SHT_DYNSYM))
			continue;
		data = elf_getdata(scn, NULL);
		for (int i = 0; data && gelf_getsym(data, i, &sym); i++) {
			const char *name = elf_strptr(elf, table.sh_link, sym.st_name);

			if (!name || strcmp(name, "launch_mark") != 0 || sym.st_shndx == SHN_UNDEF)
				continue;
			if (gelf_getshdr(elf_getscn(elf, sym.st_shndx), &code))
				offset = sym.st_value - code.sh_addr + code.sh_offset;
			break;
		}
	}
	elf_end(elf);
	return offset;
}

__attribute__((unused)) static void rig_probe(struct rig_tracer *t, int fd)
{
	struct perf_event_attr attr = {.size = sizeof(attr)};
	uint64_t offset = rig_mark_offset(fd);
	char path[64];
	FILE *type;

	if (!offset)
		return;
	type = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	assert_non_null(type);
	assert_int_equal(fscanf(type, "%u", &attr.type), 1);
	fclose(type);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	attr.uprobe_path = (uintptr_t)path;
	attr.probe_offset = offset;
	for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF) && t->nprobes < RIG_MAX_PROBES; cpu++) {
		int probe = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

		if (probe >= 0)
			t->probe[t->nprobes++] = probe;
	}
}

__attribute__((unused)) static void rig_show(void *ctx, pid_t pid, int fd, const char *path)
{
	struct rig_tracer *t = ctx;
	struct timespec delay = {t->delay_ms / 1000, t->delay_ms % 1000 * 1000000};

	assert_true(pid > 0);
	if (t->nfiles < RIG_MAX_FILES)
		t->file[t->nfiles++] = strdup(path);
	if (t->delay_ms)
		nanosleep(&delay, NULL);
	for (int i = 1; i < t->steps; i++) {
		launch_progress(t->launch);
		nanosleep(&delay, NULL);
	}
	if (t->probing)
		rig_probe(t, fd);
}

__attribute__((unused)) static bool rig_was_shown(const struct rig_tracer *t, const char *part)
{
	for (unsigned i = 0; i < t->nfiles; i++)
		if (strstr(t->file[i], part))
			return true;
	return false;
}

/* Calls counted so far; the probes go. */
__attribute__((unused)) static uint64_t rig_calls(struct rig_tracer *t)
{
	uint64_t calls = 0, n;

	for (unsigned i = 0; i < t->nprobes; i++) {
		if (read(t->probe[i], &n, sizeof(n)) == sizeof(n))
			calls += n;
		close(t->probe[i]);
	}
	for (unsigned i = 0; i < t->nfiles; i++)
		free(t->file[i]);
	t->nprobes = t->nfiles = 0;
	return calls;
}

/* ---- running ---- */

/* Serves the launch until the command has ended and, if @tree, its descendants too. Its exit code. */
__attribute__((unused)) static int rig_serve(struct launch *launch, struct rig_tracer *t, bool tree)
{
	struct pollfd fd[] = {
		{.fd = launch_wait_fd(launch), .events = POLLIN},
		{.fd = launch_notify_fd(launch), .events = POLLIN},
	};
	bool ended = fd[1].fd < 0;
	int code = -EAGAIN;

	while (code == -EAGAIN || (tree && !ended)) {
		if (poll(fd, 2, 30000) <= 0)
			return -ETIMEDOUT;
		if (fd[1].revents && launch_handle(launch, rig_show, t) == -ENOENT) {
			ended = true;
			fd[1].fd = -1;
		}
		if (fd[0].revents) {
			code = launch_reap(launch);
			fd[0].fd = -1;
		}
	}
	return code;
}

struct rig_run {
	struct launch_options options;
	struct rig_tracer tracer;
	struct launch_counts counts;
	bool held;
};

/* Runs a command to the end of its tree. Its exit code, or a negative errno. */
__attribute__((unused)) static int rig_run(struct rig_run *run, char *const *argv)
{
	struct launch *launch = NULL;
	char error[256] = "";
	int result;

	run->options.argv = argv;
	result = launch_start(&run->options, &launch, error, sizeof(error));
	if (result) {
		print_message("launch_start: %s\n", error);
		return result;
	}
	run->held = launch_held(launch) == NULL;
	run->tracer.launch = launch;
	result = launch_go(launch);
	if (!result)
		result = rig_serve(launch, &run->tracer, true);
	launch_counts(launch, &run->counts);
	launch_free(launch);
	return result;
}

/* Runs a shell command held and probed; the calls that were counted, or a negative exit code. */
__attribute__((unused, format(printf, 1, 2))) static int64_t rig_count(const char *format, ...)
{
	struct rig_run run = {.options.hold = true, .tracer.probing = true};
	char command[2 * PATH_MAX];
	char *argv[] = {"/bin/sh", "-c", command, NULL};
	va_list args;
	int code;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	code = rig_run(&run, argv);
	assert_true(run.held);
	if (code) {
		rig_calls(&run.tracer);
		return code > 0 ? -code : code;
	}
	return rig_calls(&run.tracer);
}

/* ---- as a program ---- */

/*
 * TEST --tracer OPTIONS -- COMMAND. Options: -u USER, -n (no hold), -e (stdout to
 * stderr), -d MS (slow callback), -p MS (patience), -w (wait for the tree too), -f FILE (write the paths
 * shown into it). Says "held" or "not held: WHY", and "note: ..." in stderr's first lines.
 */
__attribute__((unused)) static int rig_main(int argc, char **argv)
{
	struct rig_tracer tracer = {0};
	struct launch_user user = {0};
	struct launch_options options = {.hold = true, .user = &user};
	struct launch_origin origin;
	struct launch *launch;
	char error[256];
	bool tree = false;
	FILE *files = NULL;
	int option, code;

	launch_origin_take(&origin);
	options.origin = &origin;
	optind = 2;
	while ((option = getopt(argc, argv, "+u:ned:p:wf:")) != -1) {
		if (option == 'u' && launch_user_find(optarg, &user))
			return 2;
		options.hold = options.hold && option != 'n';
		options.stdout_to_stderr = options.stdout_to_stderr || option == 'e';
		tracer.delay_ms = option == 'd' ? atoi(optarg) : tracer.delay_ms;
		options.patience_ms = option == 'p' ? atoi(optarg) : options.patience_ms;
		tree = tree || option == 'w';
		files = option == 'f' ? fopen(optarg, "we") : files;
	}
	options.argv = argv + optind;
	if (launch_start(&options, &launch, error, sizeof(error))) {
		fprintf(stderr, "%s\n", error);
		return 125;
	}
	launch_go(launch); /* said once it is done: tests wait for it */
	fprintf(stderr, launch_held(launch) ? "not held: %s\n" : "held\n", launch_held(launch));
	if (launch_note(launch))
		fprintf(stderr, "note: %s\n", launch_note(launch));
	code = rig_serve(launch, &tracer, tree);
	launch_free(launch);
	for (unsigned i = 0; files && i < tracer.nfiles; i++)
		fprintf(files, "%s\n", tracer.file[i]);
	if (files)
		fclose(files);
	rig_calls(&tracer);
	return code;
}

#endif
