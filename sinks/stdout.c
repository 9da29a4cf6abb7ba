/* The sink `stdout`: lines on standard output, as soon as they are there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kinds.h"
#include "out.h"

struct stdout_options {
	char none; /* it has no options */
};

static const struct key stdout_keys[] = {{0}};

static int stdout_from_url(const char *url, void *options, char *error, size_t error_size)
{
	return strcmp(url, "-") && strcmp(url, "stdout:") ? -ENOENT : 0;
}

static int stdout_open(struct sink *sink, char *error, size_t error_size)
{
	struct out *out = malloc(sizeof(*out));
	int r = out ? out_adopt(out, STDOUT_FILENO) : -ENOMEM;

	if (r) {
		snprintf(error, error_size, "sink %s: cannot write to stdout: %s%s", sink->name, strerror(-r),
			 r == -EBADF ? "; is it closed (>&-)? `-o FILE` writes to a file" : "");
		free(out);
		return r;
	}
	sink->priv = out;
	sink->target = "stdout";
	sink->idle_fd = out_watch(out);
	return 0;
}

static struct sink_result stdout_write(struct sink *sink, const struct line *lines, size_t n)
{
	return out_write(sink->priv, sink, lines, n);
}

static struct sink_result stdout_tick(struct sink *sink)
{
	return out_check(sink->priv);
}

static void stdout_close(struct sink *sink, uint64_t deadline_ns)
{
	out_close(sink->priv);
	free(sink->priv);
}

/* There is one. */
static bool stdout_same_outside(const void *options, const void *others)
{
	return true;
}

const struct sink_ops sink_stdout = {
	.type = "stdout",
	.about = "standard output; ends quietly when its reader has gone",
	.keys = stdout_keys,
	.options_size = sizeof(struct stdout_options),
	.batch_bytes = 64 << 10, /* what a pipe holds (pipe(7)) */
	.from_url = stdout_from_url,
	.urls = "-, stdout:",
	.same_outside = stdout_same_outside,
	.open = stdout_open,
	.write = stdout_write,
	.tick = stdout_tick,
	.close = stdout_close,
};
