/*
 * Which files get probes, and the `attach` and `detach` events that say so.
 * A file is looked into once; its functions that are neither wanted nor
 * needed as enclosing calls are left alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "../log.h"
#include "../route/known.h"
#include "internal.h"

/* An open file that may get probes. */
struct candidate {
	int fd;
	pid_t pid;          /* that maps it, or 0 */
	uint64_t mapped_ns; /* when it did, CLOCK_MONOTONIC, or 0 */
	const char *path;
};

static json_t *attach_body(const struct trace *trace, unsigned id, const struct candidate *candidate,
			   const struct find_image *image, const struct capture_attached *result,
			   uint64_t start_ns)
{
	uint64_t now = control_now_ns();
	json_t *apis = json_array(), *body;
	int i;

	for (i = 0; i < TABLE_NAPIS; i++)
		if (image->has[i])
			json_array_append_new(apis, json_string(i == TABLE_RUNTIME ? "runtime" : "driver"));
	body = json_pack("{sI so}", "attach_id", (json_int_t)id, "path", encode_string(candidate->path));
	if (image->build_id)
		json_object_set_new(body, "build_id", json_string(image->build_id));
	if (image->soname)
		json_object_set_new(body, "soname", encode_string(image->soname));
	json_object_set_new(body, "apis", apis);
	json_object_set_new(body, "static", json_boolean(image->is_static));
	if (image->major)
		json_object_set_new(body, "major", json_integer(image->major));
	json_object_set_new(body, "functions", json_integer(result->functions));
	json_object_set_new(body, "failed", json_integer(result->failed));
	if (result->failed)
		json_object_set_new(body, "failed_error", json_string(strerror(result->error)));
	json_object_set_new(body, "method",
			    json_string(capture_method_names[capture_method(trace->capture)]));
	if (candidate->pid)
		json_object_set_new(body, "pid", json_integer(candidate->pid));
	json_object_set_new(body, "duration_ns", json_integer((json_int_t)(now - start_ns)));
	if (candidate->mapped_ns && now > candidate->mapped_ns)
		json_object_set_new(body, "since_mapping_ns",
				    json_integer((json_int_t)(now - candidate->mapped_ns)));
	return body;
}

/* Watches an open file for writes. Returns -1 where that is not possible. */
static int watch_changes(const struct trace *trace, int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return inotify_add_watch(trace->changes_fd, path, IN_MODIFY);
}

static int remember(struct trace *trace, int fd, const struct shown_key *key, const char *path,
		    unsigned functions)
{
	struct attached *grown = realloc(trace->attached, (trace->nattached + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	trace->attached = grown;
	grown[trace->nattached] = (struct attached){.path = strdup(path),
						    .functions = functions,
						    .key = *key,
						    .change = watch_changes(trace, fd)};
	trace->nattached++;
	release_later(trace);
	return 0;
}

/* The functions that are to be probed, in place; returns how many. */
static size_t keep_wanted(const struct trace *trace, const char *path, struct find_image *image)
{
	size_t i, n = 0, unknown = 0;

	for (i = 0; i < image->nfunctions; i++) {
		if (trace->row_state[image->functions[i].row] == REC_ROW_OFF)
			continue;
		if (image->functions[i].shape_unknown)
			unknown++; /* arguments read by another major's prototype would be wrong */
		else
			image->functions[n++] = image->functions[i];
	}
	if (unknown)
		log_msg("%s: %zu functions are not traced: their parameters changed between CUDA versions, "
			"and "
			"nothing in the file tells its version",
			path, unknown);
	return n;
}

/* Probes on all functions, for every selected process or for all. */
static int attach_functions(struct trace *trace, int fd, unsigned id, const struct find_image *image,
			    size_t n, struct capture_attached *ret_result)
{
	/* probes that are bound to a process do not fire in its children */
	bool bound = !trace->launch && !trace->config->processes.children;
	size_t npids = bound ? trace->config->pids.n : 0, i;
	struct capture_attached one;
	int err = -ESRCH, one_err;

	if (!npids)
		return capture_attach(trace->capture, fd, id, image->functions, n, 0, ret_result);
	memset(ret_result, 0, sizeof(*ret_result));
	for (i = 0; i < npids; i++) {
		one_err = capture_attach(trace->capture, fd, id, image->functions, n,
					 trace->config->pids.list[i], &one);
		if (!one_err || err == -ESRCH) {
			err = err ? one_err : 0;
			*ret_result = one;
		}
	}
	return err;
}

static void attach_image(struct trace *trace, const struct candidate *candidate, const struct shown_key *key,
			 struct find_image *image)
{
	const char *path = candidate->path;
	unsigned id = trace->nattached + 1;
	struct capture_attached result;
	size_t n = keep_wanted(trace, path, image);
	uint64_t start = control_now_ns();
	int err;

	if (!n)
		return;
	err = attach_functions(trace, candidate->fd, id, image, n, &result);
	if (err == -ESRCH)
		return; /* the process has ended */
	if (err) {
		trace->refused++;
		log_msg("%s: cannot probe: %s; see `cudatap doctor`", path, strerror(-err));
		return;
	}
	if (result.failed)
		log_msg("%s: %u of %zu functions cannot be probed: %s", path, result.failed, n,
			strerror(result.error));
	if (remember(trace, candidate->fd, key, path, result.functions)) {
		capture_detach(trace->capture, id);
		log_msg("%s: cannot probe: out of memory", path);
		return;
	}
	known_attached(stream_known(trace->stream), id);
	stream_post(trace->stream, EVENT_ATTACH, attach_body(trace, id, candidate, image, &result, start));
}

struct attached *targets_find_attached(struct trace *trace, const struct shown_key *key)
{
	unsigned i;

	for (i = 0; i < trace->nattached; i++) {
		struct attached *attached = &trace->attached[i];

		if (!shown_same(&attached->key, key))
			continue;
		if (attached->gone && attached->same_as)
			attached = &trace->attached[attached->same_as - 1];
		if (!attached->gone)
			return attached;
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

	for (i = 0; i < trace->nattached; i++)
		if (is_inode(&trace->attached[i].key, key))
			targets_detach(trace, i + 1, "changed");
}

/* Look into an open file once. Returns the result of find_image_read(), or 1 for a file seen before. */
static int look(struct trace *trace, const struct candidate *candidate)
{
	struct attached *attached;
	struct find_image image;
	struct shown_key key;
	int err;

	err = shown_key(candidate->fd, "", AT_EMPTY_PATH, &key);
	if (err != 1)
		return err ? err : -EINVAL;
	if (shown_has(trace->looked, &key))
		return 1;
	shown_add(trace->looked, &key);
	attached = targets_find_attached(trace, &key);
	if (attached) {
		release_keep(trace, attached);
		return 1;
	}
	targets_changes(trace); /* of the past; what comes later concerns the new probes */
	detach_outdated(trace, &key);
	err = find_image_read(candidate->fd, &image);
	if (err)
		return err;
	attach_image(trace, candidate, &key, &image);
	find_image_free(&image);
	return 0;
}

static void show(struct trace *trace, const struct candidate *candidate)
{
	int err = look(trace, candidate);

	if (err < 0 && err != FIND_NO_CUDA && find_looks_like_cuda(candidate->path))
		log_msg("%s: not traced: %s", candidate->path, find_error_text(err));
}

void targets_show(struct trace *trace, pid_t pid, int fd, const char *path)
{
	struct candidate candidate = {.fd = fd, .pid = pid, .path = path};

	show(trace, &candidate);
}

/* Whether a file was looked into, without opening it. Inode numbers are given away again, and a file
 * can be written over: only its times tell. */
static bool is_known(const struct trace *trace, const struct find_file *file)
{
	struct shown_key key;
	char path[96];

	if (file->pid)
		snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)file->pid,
			 (unsigned long long)file->map_start, (unsigned long long)file->map_end);
	return shown_key(AT_FDCWD, file->pid ? path : file->path, 0, &key) == 1 &&
	       shown_has(trace->looked, &key);
}

static int show_file(void *ctx, const struct find_file *file)
{
	struct trace *trace = ctx;
	struct candidate candidate;
	int fd;

	if (is_known(trace, file))
		return 0;
	fd = find_open(file);
	if (fd < 0) {
		if (fd == -EACCES || fd == -EPERM)
			release_never(trace, file);
		return 0; /* gone meanwhile */
	}
	candidate = (struct candidate){fd, file->pid, file->mapped_ns, file->path};
	show(trace, &candidate);
	close(fd);
	return 0;
}

/* A file of the linker's cache: who loads it by its name shall find the probes there. */
static int show_cached(void *ctx, const struct find_file *file)
{
	struct trace *trace = ctx;
	struct attached *attached;
	struct shown_key key;

	show_file(ctx, file);
	if (shown_key(AT_FDCWD, file->path, 0, &key) != 1)
		return 0;
	attached = targets_find_attached(trace, &key);
	if (attached)
		attached->pinned = true;
	return 0;
}

/* A file that the user named must be right. */
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

static int find_configured(struct trace *trace)
{
	const struct config_strings *libraries = &trace->config->libraries;
	size_t i;
	int err;

	for (i = 0; i < libraries->n; i++) {
		err = find_by_glob(libraries->list[i], show_named, trace);
		if (err > 0)
			return err;
		if (err) {
			log_msg("libraries: %s: %s", libraries->list[i], strerror(-err));
			return EXIT_USAGE;
		}
	}
	return 0;
}

static int find_in_pids(struct trace *trace)
{
	size_t i;
	int err;

	for (i = 0; i < trace->config->pids.n; i++) {
		err = find_in_process(trace->config->pids.list[i], show_file, trace);
		if (err == -EACCES || err == -EPERM) {
			log_msg("process %d: not allowed to read its mappings: CAP_SYS_PTRACE is missing; "
				"see "
				"`cudatap doctor`",
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
	return 0;
}

void targets_new_mappings(struct trace *trace)
{
	if (find_watch_read(trace->watch, show_file, trace))
		find_in_processes(show_file, trace); /* records were dropped */
}

/* Forgets a file that has probes; false when it has none. */
static bool take_off(struct trace *trace, unsigned attach_id, const char *reason)
{
	struct attached *attached;

	if (!attach_id || attach_id > trace->nattached || trace->attached[attach_id - 1].gone)
		return false;
	attached = &trace->attached[attach_id - 1];
	attached->gone = true;
	if (attached->change >= 0)
		inotify_rm_watch(trace->changes_fd, attached->change);
	stream_post(trace->stream, EVENT_DETACH,
		    json_pack("{sI so sI ss}", "attach_id", (json_int_t)attach_id, "path",
			      encode_string(attached->path), "functions", (json_int_t)attached->functions,
			      "reason", reason));
	return true;
}

void targets_detach(struct trace *trace, unsigned attach_id, const char *reason)
{
	if (take_off(trace, attach_id, reason))
		capture_detach(trace->capture, attach_id);
}

void targets_release(struct trace *trace, unsigned attach_id)
{
	if (take_off(trace, attach_id, "unmapped"))
		capture_detach_later(trace->capture, attach_id);
}

void targets_double(struct trace *trace, unsigned second, unsigned first)
{
	struct attached *go, *keep;
	unsigned i;

	if (!second || !first || second > trace->nattached || first > trace->nattached)
		return;
	go = &trace->attached[second - 1];
	keep = &trace->attached[first - 1];
	if (go->gone || keep->gone) /* told by several threads; the next call tells what is left */
		return;
	go->same_as = first;
	keep->pinned |= go->pinned;
	for (i = 0; i < trace->nattached; i++) /* the doubles of a double */
		if (trace->attached[i].same_as == second)
			trace->attached[i].same_as = first;
	targets_detach(trace, second, "duplicate");
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
			for (i = 0; i < trace->nattached && event->mask & IN_MODIFY; i++)
				if (trace->attached[i].change == event->wd)
					targets_detach(trace, i + 1, "changed");
		}
}

void targets_free(struct trace *trace)
{
	unsigned i;

	for (i = 0; i < trace->nattached; i++)
		free(trace->attached[i].path);
	free(trace->attached);
	find_watch_free(trace->watch);
	shown_free(trace->looked);
}
