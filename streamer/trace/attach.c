/* A file gets its probes, and the `attach` event that says so. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

#include "../log.h"
#include "../route/known.h"
#include "attach.h"

static json_t *attach_body(const struct trace *trace, unsigned id, const struct candidate *candidate,
			   const struct capture_attached *result, uint64_t start_ns)
{
	const struct target *target = &trace->targets[id - 1];
	const struct find_image *image = &target->image;
	uint64_t now = control_now_ns();
	json_t *apis = json_array(), *body;
	int i;

	for (i = 0; i < TABLE_NAPIS; i++)
		if (image->has[i])
			json_array_append_new(apis, json_string(i == TABLE_RUNTIME ? "runtime" : "driver"));
	body = json_pack("{sI so}", "attach_id", (json_int_t)id, "path", encode_string(target->path));
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
	if (target->pid)
		json_object_set_new(body, "pid", json_integer(target->pid));
	json_object_set_new(body, "duration_ns", json_integer((json_int_t)(now - start_ns)));
	if (candidate && candidate->mapped_ns && now > candidate->mapped_ns)
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

void attach_say_unknown(const struct target *target, const uint8_t *state)
{
	size_t i, unknown = 0;

	for (i = 0; i < target->image.nfunctions; i++)
		unknown += target->image.functions[i].shape_unknown &&
			   state[target->image.functions[i].row] != REC_ROW_OFF;
	/* arguments read by another major's prototype would be wrong */
	if (unknown)
		log_msg("%s: %zu functions are not traced: their parameters changed between CUDA versions, "
			"and "
			"nothing in the file tells its version",
			target->path, unknown);
}

bool attach_is_wanted(const struct find_function *function, const uint8_t *state)
{
	return state[function->row] != REC_ROW_OFF && !function->shape_unknown;
}

/* The functions that want a probe and have none; to be freed. */
static struct find_function *list_missing(const struct trace *trace, unsigned id, const uint8_t *state,
					  size_t *ret_n)
{
	const struct find_image *image = &trace->targets[id - 1].image;
	struct find_function *list = calloc(image->nfunctions + 1, sizeof(*list));
	size_t i;

	*ret_n = 0;
	for (i = 0; list && i < image->nfunctions; i++)
		if (attach_is_wanted(&image->functions[i], state) &&
		    !capture_is_probed(trace->capture, id, image->functions[i].row))
			list[(*ret_n)++] = image->functions[i];
	return list;
}

/* Of several processes: what the best and the worst of them have. */
static void add_result(struct capture_attached *sum, const struct capture_attached *one)
{
	if (one->functions > sum->functions)
		sum->functions = one->functions;
	if (one->failed > sum->failed) {
		sum->failed = one->failed;
		sum->error = one->error;
	}
}

/* Probes on these functions, for every selected process or for all. */
static int attach_functions(struct trace *trace, unsigned id, const struct find_function *list, size_t n,
			    struct capture_attached *ret_result)
{
	/* probes that are bound to a process do not fire in its children */
	bool bound = !trace->launch && !trace->config->processes.children && capture_binds(trace->capture);
	size_t npids = bound ? trace->config->pids.n : 0, i;
	int fd = trace->targets[id - 1].fd, err = -ESRCH, one_err;

	if (!npids)
		return capture_attach(trace->capture, fd, id, list, n, 0, ret_result);
	memset(ret_result, 0, sizeof(*ret_result));
	for (i = 0; i < npids; i++) {
		struct capture_attached one;

		one_err = capture_attach(trace->capture, fd, id, list, n, trace->config->pids.list[i], &one);
		if (one_err == -ESRCH)
			continue;
		if (one_err)
			one = (struct capture_attached){.failed = (unsigned)n, .error = -one_err};
		add_result(ret_result, &one);
		if (!one_err || err == -ESRCH)
			err = one_err;
	}
	return err;
}

static void say_attach(struct trace *trace, const char *path, size_t n, int err,
		       const struct capture_attached *result)
{
	if (err == -ESRCH)
		return; /* the process has ended */
	trace->incomplete |= err || result->failed;
	if (err) {
		trace->refused++;
		log_msg("%s: cannot probe: %s; see `cudatap doctor`", path, strerror(-err));
	} else if (result->failed) {
		log_msg("%s: %u of %zu functions cannot be probed%s: %s", path, result->failed, n,
			!trace->launch && trace->config->pids.n > 1 ? " in some of the processes" : "",
			strerror(result->error));
	}
}

void attach_missing(struct trace *trace, unsigned id, const struct candidate *candidate, const uint8_t *state)
{
	struct target *target = &trace->targets[id - 1];
	struct capture_attached result;
	uint64_t start = control_now_ns();
	bool first = !target->functions;
	size_t n;
	struct find_function *list = list_missing(trace, id, state, &n);
	int err = n ? attach_functions(trace, id, list, n, &result) : 0;

	free(list);
	if (!n)
		return;
	say_attach(trace, target->path, n, err, &result);
	if (err)
		return;
	target->functions += result.functions;
	if (!first)
		return;
	if (target->change < 0)
		target->change = watch_changes(trace, target->fd);
	trace->nattached += !target->was_probed;
	target->was_probed = true;
	known_attached(stream_known(trace->stream), id);
	stream_post(trace->stream, EVENT_ATTACH, attach_body(trace, id, candidate, &result, start));
}
