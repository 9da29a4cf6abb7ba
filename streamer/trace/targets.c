/*
 * Which files get probes, and the `attach` and `detach` events that say so.
 * A file is looked into once; its functions that are neither wanted nor
 * needed as enclosing calls are left alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../log.h"
#include "internal.h"

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static json_t *attach_body(const struct trace *trace, unsigned id, const char *path,
			   const struct find_image *image, const struct capture_attached *result, pid_t pid,
			   uint64_t duration_ns)
{
	json_t *apis = json_array(), *body;
	int i;

	for (i = 0; i < TABLE_NAPIS; i++)
		if (image->has[i])
			json_array_append_new(apis, json_string(i == TABLE_RUNTIME ? "runtime" : "driver"));
	body = json_pack("{sI so}", "attach_id", (json_int_t)id, "path", encode_string(path));
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
	json_object_set_new(body, "method",
			    json_string(capture_method_names[capture_method(trace->capture)]));
	if (pid)
		json_object_set_new(body, "pid", json_integer(pid));
	json_object_set_new(body, "duration_ns", json_integer(duration_ns));
	return body;
}

static int remember(struct trace *trace, const char *path, unsigned functions)
{
	struct attached *grown = realloc(trace->attached, (trace->nattached + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	trace->attached = grown;
	grown[trace->nattached] = (struct attached){.path = strdup(path), .functions = functions};
	trace->nattached++;
	return 0;
}

/* The functions that are to be probed, in place; returns how many. */
static size_t keep_wanted(const struct trace *trace, struct find_image *image)
{
	size_t i, n = 0;

	for (i = 0; i < image->nfunctions; i++)
		if (trace->row_state[image->functions[i].row] != REC_ROW_OFF)
			image->functions[n++] = image->functions[i];
	return n;
}

/* Probes on all functions, for every selected process or for all. */
static int attach_functions(struct trace *trace, int fd, unsigned id, const struct find_image *image,
			    size_t n, struct capture_attached *ret_result)
{
	size_t npids = trace->launch ? 0 : trace->config->pids.n, i;
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

static void attach_image(struct trace *trace, int fd, const char *path, pid_t pid, struct find_image *image)
{
	unsigned id = trace->nattached + 1;
	struct capture_attached result;
	size_t n = keep_wanted(trace, image);
	uint64_t start = now_ns();
	int err;

	if (!n)
		return;
	err = attach_functions(trace, fd, id, image, n, &result);
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
	if (remember(trace, path, result.functions)) {
		capture_detach(trace->capture, id);
		log_msg("%s: cannot probe: out of memory", path);
		return;
	}
	stream_post(trace->stream, EVENT_ATTACH,
		    attach_body(trace, id, path, image, &result, pid, now_ns() - start));
}

/* Look into an open file once. Returns the result of find_image_read(), or 1 for a file seen before. */
static int look(struct trace *trace, pid_t pid, int fd, const char *path)
{
	struct find_image image;
	struct stat st;
	int err;

	if (fstat(fd, &st))
		return -errno;
	if (!seen_put(&trace->seen, st.st_dev, st.st_ino, 0))
		return 1;
	err = find_image_read(fd, &image);
	if (err)
		return err;
	attach_image(trace, fd, path, pid, &image);
	find_image_free(&image);
	return 0;
}

void targets_show(struct trace *trace, pid_t pid, int fd, const char *path)
{
	int err = look(trace, pid, fd, path);

	if (err < 0 && err != FIND_NO_CUDA && find_looks_like_cuda(path))
		log_msg("%s: not traced: %s", path, find_error_text(err));
}

static int show_file(void *ctx, const struct find_file *file)
{
	struct trace *trace = ctx;
	int fd;

	if (seen_find(&trace->seen, file->dev, file->ino))
		return 0;
	fd = find_open(file);
	if (fd < 0)
		return 0; /* gone meanwhile */
	targets_show(trace, file->pid, fd, file->path);
	close(fd);
	return 0;
}

/* A file that the user named must be right. */
static int show_named(void *ctx, const struct find_file *file)
{
	struct trace *trace = ctx;
	int fd = open(file->path, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0) {
		log_msg("%s: %s", file->path, strerror(errno));
		return EXIT_USAGE;
	}
	err = look(trace, 0, fd, file->path);
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

	if (trace->config->libraries.n)
		return find_configured(trace);
	if (held)
		return 0;      /* each file is shown before it is mapped */
	watch_mappings(trace); /* first, so that nothing slips between it and the walk */
	if (trace->config->pids.n && !trace->launch) {
		err = find_in_pids(trace);
		if (err)
			return err;
	} else if (!trace->launch) {
		find_in_processes(show_file, trace);
	}
	find_in_cache(show_file, trace);
	return 0;
}

void targets_new_mappings(struct trace *trace)
{
	if (find_watch_read(trace->watch, show_file, trace))
		find_in_processes(show_file, trace); /* records were dropped */
}

void targets_detach(struct trace *trace, unsigned attach_id, const char *reason)
{
	struct attached *attached;

	if (!attach_id || attach_id > trace->nattached || trace->attached[attach_id - 1].gone)
		return;
	attached = &trace->attached[attach_id - 1];
	attached->gone = true;
	capture_detach(trace->capture, attach_id);
	stream_post(trace->stream, EVENT_DETACH,
		    json_pack("{sI so sI ss}", "attach_id", (json_int_t)attach_id, "path",
			      encode_string(attached->path), "functions", (json_int_t)attached->functions,
			      "reason", reason));
}

void targets_free(struct trace *trace)
{
	unsigned i;

	for (i = 0; i < trace->nattached; i++)
		free(trace->attached[i].path);
	free(trace->attached);
	find_watch_free(trace->watch);
	seen_free(&trace->seen);
}
