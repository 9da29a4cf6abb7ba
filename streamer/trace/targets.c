/*
 * Which files get probes and which lose them, and the `detach` events that say so.
 * A file is looked into once; its functions that are neither wanted nor
 * needed as enclosing calls are left alone, until another selection wants
 * them.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "../find/living.h"
#include "../log.h"
#include "attach.h"
#include "opened.h"

/* Looks at new mappings before all is said to be ready, where new files come all the time. */
#define CATCH_UP 20

/* The file by its place alone, which is enough for probes. Some file systems have a say in the end of a
 * descriptor that could read, and may not answer then. */
static int open_place(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_PATH | O_CLOEXEC);
}

/* Takes the image over. Returns the attach id, or 0 after a message. */
static unsigned remember(struct trace *trace, const struct candidate *candidate, const struct shown_key *key,
			 struct find_image *image)
{
	struct target *grown = reallocarray(trace->targets, trace->ntargets + 1, sizeof(*grown));
	struct target target = {.path = strdup(candidate->path),
				.fd = open_place(candidate->fd),
				.image = *image,
				.pid = candidate->pid,
				.key = *key,
				.change = -1};

	if (grown)
		trace->targets = grown;
	if (!grown || !target.path || target.fd < 0) {
		log_msg("%s: cannot probe: %s", candidate->path, strerror(errno));
		trace->refused++;
		trace->incomplete = true;
		free(target.path);
		if (target.fd >= 0)
			close(target.fd);
		return 0;
	}
	memset(image, 0, sizeof(*image));
	trace->targets[trace->ntargets] = target;
	release_later(trace);
	return ++trace->ntargets;
}

struct target *targets_find_probed(struct trace *trace, const struct shown_key *key)
{
	unsigned i;

	for (i = 0; i < trace->ntargets; i++) {
		struct target *target = &trace->targets[i];

		if (!shown_same(&target->key, key))
			continue;
		if (target->gone && target->same_as)
			target = &trace->targets[target->same_as - 1];
		if (!target->gone)
			return target;
	}
	return NULL;
}

static bool is_inode(const struct shown_key *a, const struct shown_key *b)
{
	return a->ino == b->ino && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

/*
 * A file that was written over has its old contents' probes, which would break
 * instructions of the new ones. They go before the file is mapped, or at the
 * latest when it was.
 */
static void detach_outdated(struct trace *trace, const struct shown_key *key)
{
	unsigned i;

	for (i = 0; i < trace->ntargets; i++)
		if (is_inode(&trace->targets[i].key, key))
			targets_detach(trace, i + 1, "changed");
}

/*
 * What is bound to a process is put on the memory of its main thread, which has none when it has ended while
 * others go on. From then on the BPF program alone tells who is selected.
 */
static void unbind_without_leader(struct trace *trace)
{
	size_t i;

	for (i = 0; i < trace->config->pids.n && capture_binds(trace->capture); i++)
		if (living_other(trace->config->pids.list[i]))
			capture_unbind(trace->capture);
}

/* The main thread may end while a file is probed: what is bound to it is there in part then, and is made
 * anew. */
static void attach(struct trace *trace, unsigned id, const struct candidate *candidate, const uint8_t *state)
{
	struct target *target = &trace->targets[id - 1];
	unsigned functions;
	bool bound;

	unbind_without_leader(trace);
	bound = capture_binds(trace->capture);
	attach_missing(trace, id, candidate, state);
	unbind_without_leader(trace);
	if (!target->functions || bound == capture_binds(trace->capture))
		return;
	functions = target->functions;
	capture_detach(trace->capture, id);
	attach_missing(trace, id, candidate, state);
	target->functions -= functions;
}

/* What was read when it was opened, if the file is still the same. */
static int read_image(const struct candidate *candidate, const struct shown_key *key,
		      struct find_image *image)
{
	struct opened *opened = candidate->opened;

	if (!opened || !opened->has_key || !shown_same(&opened->key, key))
		return find_image_read(candidate->fd, image);
	*image = opened->image;
	memset(&opened->image, 0, sizeof(opened->image));
	return opened->err;
}

/* Look into an open file once. Returns the result of find_image_read(), or 1 for a file seen before. */
static int look(struct trace *trace, const struct candidate *candidate)
{
	struct target *target;
	struct find_image image;
	struct shown_key key;
	unsigned id;
	int err;

	err = shown_key(candidate->fd, "", AT_EMPTY_PATH, &key);
	if (err != 1)
		return err ? err : -EINVAL;
	if (shown_has(trace->looked, &key))
		return 1;
	shown_add(trace->looked, &key);
	target = targets_find_probed(trace, &key);
	if (target) {
		release_keep(trace, target);
		return 1;
	}
	targets_changes(trace); /* of the past; what comes later concerns the new probes */
	detach_outdated(trace, &key);
	err = read_image(candidate, &key, &image);
	if (err)
		return err;
	id = remember(trace, candidate, &key, &image);
	if (id) {
		attach_say_unknown(&trace->targets[id - 1], trace->row_state);
		attach(trace, id, candidate, trace->row_state);
	} else {
		find_image_free(&image);
	}
	return 0;
}

/* Between a file's being found and its being opened, another one may have taken its place. */
static void show(struct trace *trace, const struct candidate *found)
{
	struct candidate candidate = *found;
	char name[PATH_MAX + 16];
	int err;

	if (found->pid) {
		find_name(found->fd, found->pid, found->path, name, sizeof(name));
		candidate.path = name;
	}
	err = look(trace, &candidate);
	if (err < 0 && err != FIND_NO_CUDA && find_looks_like_cuda(candidate.path)) {
		log_msg("%s: not traced: %s", candidate.path, find_error_text(err));
		trace->incomplete = true;
	}
}

void targets_show(struct trace *trace, pid_t pid, int fd, const char *path)
{
	struct candidate candidate = {.fd = fd, .pid = pid, .path = path};

	show(trace, &candidate);
}

/* Through the mapping: the file may have no name any more, or another one for us. */
static int mapped_key(pid_t tid, uint64_t start, uint64_t end, struct shown_key *ret_key)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)tid, start, end);
	return shown_key(AT_FDCWD, path, AT_STATX_DONT_SYNC, ret_key);
}

bool targets_mapped_key(pid_t pid, uint64_t start, uint64_t end, struct shown_key *ret_key)
{
	int result = mapped_key(pid, start, end, ret_key);
	pid_t other = living_may_help(result) ? living_other(pid) : 0;

	if (other)
		result = mapped_key(other, start, end, ret_key);
	return result == 1;
}

/* Whether a file was looked into, without opening it. Inode numbers are given away again, and a file
 * can be written over: only its times tell. */
static bool is_known(const struct trace *trace, const struct find_file *file)
{
	struct shown_key key;
	bool is_there = file->pid ? targets_mapped_key(file->pid, file->map_start, file->map_end, &key)
				  : shown_key(AT_FDCWD, file->path, AT_STATX_DONT_SYNC, &key) == 1;

	return is_there && shown_has(trace->looked, &key);
}

static int show_file(void *ctx, const struct find_file *file)
{
	struct trace *trace = ctx;
	struct opened *opened = NULL;
	struct candidate candidate;
	int fd;

	if (is_known(trace, file))
		return 0;
	if (major(file->dev))
		fd = find_open(file);
	else if (opened_read(trace, file, &opened))
		return 0;
	else
		fd = opened->fd;
	if (fd >= 0) {
		candidate = (struct candidate){fd, file->pid, file->mapped_ns, file->path, opened};
		show(trace, &candidate);
	} else if (fd == -EACCES || fd == -EPERM) {
		release_never(trace, file);
	} /* else it is gone meanwhile */
	if (opened)
		opened_free(opened);
	else if (fd >= 0)
		close(fd);
	return 0;
}

void targets_answered(struct trace *trace)
{
	eventfd_t times;

	if (!eventfd_read(patience_fd(trace->patience), &times))
		find_in_processes(show_file, trace);
}

/* A file of the linker's cache: who loads it by its name shall find the probes there. */
static int show_cached(void *ctx, const struct find_file *file)
{
	struct trace *trace = ctx;
	struct target *target;
	struct shown_key key;

	show_file(ctx, file);
	if (shown_key(AT_FDCWD, file->path, 0, &key) != 1)
		return 0;
	target = targets_find_probed(trace, &key);
	if (target)
		target->pinned = true;
	return 0;
}

/* A file that the user named must be right, when tracing begins. Returns EXIT_USAGE after a message. */
static int show_named(void *ctx, const struct find_file *file)
{
	struct trace *trace = ctx;
	struct candidate candidate;
	int fd = open(file->path, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0) {
		log_msg("%s: %s", file->path, strerror(errno));
		return EXIT_USAGE;
	}
	candidate = (struct candidate){.fd = fd, .path = file->path};
	err = look(trace, &candidate);
	close(fd);
	if (err < 0) {
		log_msg("%s: %s", file->path, find_error_text(err));
		return EXIT_USAGE;
	}
	return 0;
}

/* Later it is one of others, which shall have their probes. */
static int show_named_again(void *ctx, const struct find_file *file)
{
	struct trace *trace = ctx;

	trace->incomplete |= show_named(ctx, file) != 0;
	return 0;
}

/* Returns EXIT_USAGE after a message where a name has no file, or @fn's result. */
static int find_named(struct trace *trace, const char *name, find_fn fn)
{
	int err = find_by_glob(name, fn, trace);

	if (err < 0)
		log_msg("libraries: %s: %s", name, strerror(-err));
	return err < 0 ? EXIT_USAGE : err;
}

static int find_configured(struct trace *trace)
{
	const struct config_strings *libraries = &trace->config->libraries;
	int code = 0;

	for (size_t i = 0; i < libraries->n && !code; i++)
		code = find_named(trace, libraries->list[i], show_named);
	return code;
}

void targets_find_again(struct trace *trace)
{
	const struct config_strings *libraries = &trace->config->libraries;

	for (size_t i = 0; i < libraries->n; i++)
		find_named(trace, libraries->list[i], show_named_again);
}

static int find_in_pids(struct trace *trace)
{
	size_t i;
	int err;

	for (i = 0; i < trace->config->pids.n; i++) {
		err = find_in_process(trace->config->pids.list[i], show_file, trace);
		if (err == -EACCES || err == -EPERM) {
			log_msg("process %d: not allowed to read its mappings: CAP_SYS_PTRACE is missing, or "
				"not enough for it; see `cudatap doctor`",
				trace->config->pids.list[i]);
			return 1;
		}
	}
	return 0;
}

/* What will be mapped later; without it only what is there now is traced. */
static void watch_mappings(struct trace *trace)
{
	int err = find_watch_new(0, &trace->watch);

	if (err)
		log_msg("libraries that programs load from now on are not traced: cannot watch new mappings: "
			"%s",
			strerror(-err));
}

/* What processes mapped during the walk, when it had passed them; and what they mapped while that got its
 * probes. */
static void catch_up(struct trace *trace)
{
	unsigned times = CATCH_UP, before;

	do {
		before = trace->ntargets;
		if (trace->watch)
			targets_new_mappings(trace);
	} while (trace->ntargets != before && --times);
}

int targets_find(struct trace *trace)
{
	bool held = trace->launch && !launch_held(trace->launch);
	int err;

	trace->looked = shown_new();
	if (!trace->looked) {
		log_msg("out of memory");
		return 1;
	}
	if (trace->config->libraries.n)
		return find_configured(trace);
	if (held)
		return 0;      /* each file is shown before it is mapped */
	watch_mappings(trace); /* first, so that nothing slips between it and the walk */
	if (trace->config->pids.n && !trace->launch && !trace->config->processes.children) {
		err = find_in_pids(trace);
		if (err)
			return err;
	} else if (!trace->launch) {
		find_in_processes(show_file, trace);
	}
	find_in_cache(show_cached, trace);
	catch_up(trace);
	return 0;
}

void targets_new_mappings(struct trace *trace)
{
	if (find_watch_read(trace->watch, show_file, trace))
		find_in_processes(show_file, trace); /* records were dropped */
}

static void post_detach(struct trace *trace, unsigned id, unsigned functions, const char *reason)
{
	stream_post(trace->stream, EVENT_DETACH,
		    json_pack("{sI so sI ss}", "attach_id", (json_int_t)id, "path",
			      encode_string(trace->targets[id - 1].path), "functions", (json_int_t)functions,
			      "reason", reason));
}

static bool is_there(const struct trace *trace, unsigned attach_id)
{
	return attach_id && attach_id <= trace->ntargets && !trace->targets[attach_id - 1].gone;
}

/* A file has lost its probes for good. */
static void forget(struct trace *trace, unsigned attach_id, const char *reason)
{
	struct target *target = &trace->targets[attach_id - 1];

	target->gone = true;
	if (target->change >= 0)
		inotify_rm_watch(trace->changes_fd, target->change);
	close(target->fd);
	target->fd = -1;
	find_image_free(&target->image);
	memset(&target->image, 0, sizeof(target->image));
	if (target->functions)
		post_detach(trace, attach_id, target->functions, reason);
	target->functions = 0;
}

/* The event tells that they are gone, not that they are going. */
void targets_detach(struct trace *trace, unsigned attach_id, const char *reason)
{
	if (!is_there(trace, attach_id))
		return;
	capture_detach(trace->capture, attach_id);
	forget(trace, attach_id, reason);
}

void targets_release(struct trace *trace, unsigned attach_id)
{
	if (!is_there(trace, attach_id))
		return;
	capture_detach_later(trace->capture, attach_id);
	forget(trace, attach_id, "unmapped");
}

void targets_double(struct trace *trace, unsigned second, unsigned first)
{
	struct target *go, *keep;
	unsigned i;

	if (!second || !first || second > trace->ntargets || first > trace->ntargets)
		return;
	go = &trace->targets[second - 1];
	keep = &trace->targets[first - 1];
	if (go->gone || keep->gone) /* told by several threads; the next call tells what is left */
		return;
	go->same_as = first;
	keep->pinned |= go->pinned;
	for (i = 0; i < trace->ntargets; i++) /* the doubles of a double */
		if (trace->targets[i].same_as == second)
			trace->targets[i].same_as = first;
	targets_detach(trace, second, "duplicate");
}

/* ---- another selection ---- */

void targets_extend(struct trace *trace, const uint8_t *state)
{
	unsigned id;

	for (id = 1; id <= trace->ntargets; id++)
		if (!trace->targets[id - 1].gone)
			attach(trace, id, NULL, state);
}

struct targets_difference targets_compare(const struct trace *trace, const uint8_t *from, const uint8_t *to)
{
	struct targets_difference difference = {0};
	unsigned i;
	size_t j;

	for (i = 0; i < trace->ntargets; i++)
		for (j = 0; j < trace->targets[i].image.nfunctions && !trace->targets[i].gone; j++) {
			const struct find_function *function = &trace->targets[i].image.functions[j];
			bool was = attach_is_wanted(function, from), is = attach_is_wanted(function, to);

			difference.attached += is && !was;
			difference.detached += was && !is;
		}
	return difference;
}

static unsigned count_probed(const struct trace *trace, unsigned id)
{
	const struct find_image *image = &trace->targets[id - 1].image;
	unsigned n = 0;
	size_t i;

	for (i = 0; i < image->nfunctions; i++)
		n += attach_is_wanted(&image->functions[i], trace->row_state) &&
		     capture_is_probed(trace->capture, id, image->functions[i].row);
	return n;
}

void targets_settle(struct trace *trace)
{
	unsigned id, had;

	for (id = 1; id <= trace->ntargets; id++) {
		struct target *target = &trace->targets[id - 1];

		if (target->gone)
			continue;
		had = target->functions;
		target->functions = count_probed(trace, id);
		if (had && !target->functions)
			post_detach(trace, id, had, "reload");
	}
}

void targets_changes(struct trace *trace)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	const struct inotify_event *event;
	ssize_t n, at;
	unsigned i;

	while ((n = read(trace->changes_fd, events, sizeof(events))) > 0)
		for (at = 0; at < n; at += sizeof(*event) + event->len) {
			event = (const void *)(events + at);
			for (i = 0; i < trace->ntargets && event->mask & IN_MODIFY; i++)
				if (trace->targets[i].change == event->wd)
					targets_detach(trace, i + 1, "changed");
		}
}

void targets_free(struct trace *trace)
{
	unsigned i;

	for (i = 0; i < trace->ntargets; i++) {
		free(trace->targets[i].path);
		find_image_free(&trace->targets[i].image);
		if (trace->targets[i].fd >= 0)
			close(trace->targets[i].fd);
	}
	free(trace->targets);
	find_watch_free(trace->watch);
	shown_free(trace->looked);
	patience_free(trace->patience);
}
