/*
 * Letting files go that no process maps any more: a library that was built,
 * loaded, unloaded and deleted, the image of a container that has ended.
 *
 * The kernel tells of mappings, not of their end. So every few seconds each
 * file is looked for in the process that mapped it last; only when it is not
 * there any more, in all processes. A file that no process maps is suspected
 * first and forgotten by whoever skips known files: from then on a process
 * that maps it clears it of the suspicion, also one that is held until its
 * library has been looked at. If no process maps it at the next look either,
 * its probes go. Who maps it after that finds it treated as a new one.
 *
 * Files that the configuration names and those of the linker's cache keep
 * their probes, and files that a process maps whose mappings are closed even to
 * a tracer with all rights. So do all files where not every process can be
 * seen, and with classic probes, whose removal costs more than they do.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "../rights.h"
#include "internal.h"

#define PERIOD_NS 3000000000ull
#define SHARE     100 /* looks at all processes take this part of a core at most */

static void set_timer(struct trace *trace, uint64_t ns)
{
	struct itimerspec at = {.it_value = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)}};

	trace->releasing = timerfd_settime(trace->release_fd, 0, &at, NULL) == 0;
}

int release_open(struct trace *trace)
{
	if (!capture_sees_all(trace->capture) || !rights_have(CAP_SYS_PTRACE) ||
	    !rights_have(CAP_CHECKPOINT_RESTORE) || capture_method(trace->capture) == CAPTURE_CLASSIC ||
	    trace->config->libraries.n)
		return 0;
	trace->release_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return trace->release_fd < 0 ? -errno : 0;
}

void release_later(struct trace *trace)
{
	if (trace->release_fd >= 0 && !trace->releasing)
		set_timer(trace, PERIOD_NS);
}

void release_keep(struct trace *trace, struct target *target)
{
	target->suspect = false;
}

/* Through the mapping: the file may have no name any more, or another one for us. */
static bool maps(pid_t pid, uint64_t start, uint64_t end, const struct shown_key *key)
{
	struct shown_key now;
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, start, end);
	return shown_key(AT_FDCWD, path, AT_STATX_DONT_SYNC, &now) == 1 && shown_same(&now, key);
}

static const char *name_in(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

void release_never(struct trace *trace, const struct find_file *file)
{
	unsigned i;

	for (i = 0; i < trace->ntargets; i++)
		if (trace->targets[i].key.ino == file->ino ||
		    !strcmp(name_in(trace->targets[i].path), name_in(file->path)))
			trace->targets[i].pinned = true;
}

/* The files that are looked for, under each of their names. */
struct look {
	struct trace *trace;
	unsigned n;
	struct {
		const struct target *name;
		struct target *probes;
	} missing[];
};

/* One mapping of a process. Device and inode of overlays are not the same everywhere: the number or the name
 * make a file worth a closer look. */
static int see_mapping(void *ctx, const struct find_file *file)
{
	const char *name = name_in(file->path);
	struct look *look = ctx;
	unsigned i;

	for (i = 0; i < look->n; i++) {
		const struct target *one = look->missing[i].name;
		struct target *probes = look->missing[i].probes;

		if (!probes->unmapped ||
		    (one->key.ino != file->ino && strcmp(name_in(one->path), name) != 0) ||
		    !maps(file->pid, file->map_start, file->map_end, &one->key))
			continue;
		probes->unmapped = false;
		probes->mapper = file->pid;
		probes->map_start = file->map_start;
		probes->map_end = file->map_end;
		probes->mapped_as = one->key;
		release_keep(look->trace, probes);
	}
	return 0;
}

static struct look *look_new(struct trace *trace)
{
	struct look *look = malloc(sizeof(*look) + trace->ntargets * sizeof(look->missing[0]));
	unsigned i;

	if (!look)
		return NULL;
	look->trace = trace;
	look->n = 0;
	for (i = 0; i < trace->ntargets; i++) {
		struct target *one = &trace->targets[i], *probes = one;

		if (one->gone && one->same_as)
			probes = &trace->targets[one->same_as - 1];
		if (!probes->unmapped)
			continue;
		look->missing[look->n].name = one;
		look->missing[look->n++].probes = probes;
	}
	return look;
}

/* Whoever skips files that are known skips this one no more, under none of its names. */
static void forget(struct trace *trace, unsigned id)
{
	unsigned i;

	for (i = 0; i < trace->ntargets; i++) {
		const struct target *one = &trace->targets[i];

		if (i != id - 1 && one->same_as != id)
			continue;
		shown_remove(trace->looked, &one->key);
		if (trace->launch)
			launch_forget(trace->launch, &one->key);
	}
}

/* Marks the files that are not where they were; returns how many. */
static unsigned mark_missing(struct trace *trace)
{
	unsigned missing = 0, i;

	for (i = 0; i < trace->ntargets; i++) {
		struct target *one = &trace->targets[i];

		one->unmapped =
			!one->gone && !one->pinned &&
			!(one->mapper && maps(one->mapper, one->map_start, one->map_end, &one->mapped_as));
		missing += one->unmapped;
	}
	return missing;
}

/* Of this thread: on a busy machine time passes without it. */
static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* Returns what it cost, nanoseconds. */
static uint64_t look_everywhere(struct trace *trace)
{
	uint64_t begun = cpu_ns();
	struct look *look = look_new(trace);
	int err = look ? find_in_processes(see_mapping, look) : -ENOMEM;
	unsigned i;

	free(look);
	if (err)
		return cpu_ns() - begun; /* nobody can tell */
	for (i = 0; i < trace->ntargets; i++) {
		struct target *one = &trace->targets[i];

		if (one->unmapped && one->suspect)
			targets_release(trace, i + 1);
		else if (one->unmapped)
			forget(trace, i + 1);
		one->suspect = one->unmapped;
	}
	return cpu_ns() - begun;
}

static bool has_releasable(const struct trace *trace)
{
	unsigned i;

	for (i = 0; i < trace->ntargets; i++)
		if (!trace->targets[i].gone && !trace->targets[i].pinned)
			return true;
	return false;
}

void release_look(struct trace *trace)
{
	uint64_t times, took = 0;

	if (read(trace->release_fd, &times, sizeof(times)) != sizeof(times))
		return;
	trace->releasing = false;
	if (mark_missing(trace))
		took = look_everywhere(trace);
	if (has_releasable(trace))
		set_timer(trace, took * SHARE > PERIOD_NS ? took * SHARE : PERIOD_NS);
}
