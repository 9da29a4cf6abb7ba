/*
 * How long it takes to begin and to end: attaching all functions of one
 * library, detaching them, and from the start of `cudatap -- COMMAND` to its
 * first call event on stdout. Medians.
 *
 * usage: bench_start LIBRARY CUDATAP COMMAND [ROUNDS]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "streamer/capture/capture.h"

#define MAX_ROUNDS 64

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *values, int n)
{
	qsort(values, n, sizeof(*values), by_value);
	return values[n / 2];
}

/* Attach and detach all functions; returns how many there are, 0 on failure. */
static unsigned attach_once(const struct plan *plans, enum capture_method method, const char *library,
			    double *ret_load, double *ret_attach, double *ret_detach)
{
	uint8_t *state = malloc(table_nrows);
	struct capture_options options = {.method = method,
					  .ring_size = 1 << 20,
					  .flush_ns = 20000000,
					  .plans = plans,
					  .row_state = state};
	struct capture_attached attached = {0};
	struct capture *capture = NULL;
	struct find_image image = {0};
	char error[256];
	int fd = open(library, O_RDONLY | O_CLOEXEC);
	double start = now_s();

	memset(state, REC_ROW_ON, table_nrows);
	if (fd < 0 || find_image_read(fd, &image) || capture_new(&options, &capture, error, sizeof(error)))
		goto out;
	*ret_load = now_s() - start;
	start = now_s();
	if (capture_attach(capture, fd, 1, image.functions, image.nfunctions, 0, &attached))
		goto out;
	*ret_attach = now_s() - start;
	start = now_s();
	capture_detach_all(capture);
	*ret_detach = now_s() - start;
out:
	capture_free(capture);
	find_image_free(&image);
	close(fd);
	free(state);
	return attached.functions;
}

/* Seconds from the start to the first call on stdout, negative on failure. */
static double first_event(const char *cudatap, const char *command)
{
	double start = now_s(), first = -1;
	char line[65536], text[1024];
	FILE *out;

	snprintf(text, sizeof(text), "%s -q -- %s 2>/dev/null", cudatap, command);
	out = popen(text, "re");
	while (out && fgets(line, sizeof(line), out))
		if (first < 0 && strstr(line, "\"type\":\"call\""))
			first = now_s() - start;
	if (out)
		pclose(out);
	return first;
}

int main(int argc, char **argv)
{
	int rounds = argc > 4 ? atoi(argv[4]) : 9, method, r;
	double load[MAX_ROUNDS], attach[MAX_ROUNDS], detach[MAX_ROUNDS], first[MAX_ROUNDS];
	struct plan *plans = plan_all(plan_host_abi());
	unsigned functions = 0;

	if (argc < 4 || rounds < 1 || rounds > MAX_ROUNDS || !plans) {
		fprintf(stderr, "usage: bench_start LIBRARY CUDATAP COMMAND [ROUNDS]\n");
		return 2;
	}
	printf("%-10s %10s %12s %12s %12s\n", "probes", "functions", "load s", "attach s", "detach s");
	for (method = CAPTURE_SESSION; method <= CAPTURE_MULTI; method++) {
		for (r = 0; r < rounds; r++) {
			functions = attach_once(plans, method, argv[1], &load[r], &attach[r], &detach[r]);
			if (!functions) {
				fprintf(stderr, "bench_start: %s: cannot attach by %s\n", argv[1],
					capture_method_names[method]);
				return 1;
			}
		}
		printf("%-10s %10u %12.3f %12.3f %12.3f\n", capture_method_names[method], functions,
		       median(load, rounds), median(attach, rounds), median(detach, rounds));
	}
	for (r = 0; r < rounds; r++)
		first[r] = first_event(argv[2], argv[3]);
	printf("first call event of `cudatap -- COMMAND` after its start: %.3f s\n", median(first, rounds));
	free(plans);
	return 0;
}
