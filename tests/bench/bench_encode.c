/*
 * What an event costs to encode: the encoder against jansson on the same
 * calls, typical ones of a training loop. Both must say the same before
 * anything is measured.
 *
 * Prints one line per encoder (events/s, ns and bytes per event) and their
 * ratio. With --min-ratio N the exit status says whether it was reached.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/encode_reference.h"
#include "samples.h"

#define ROUNDS         9
#define EVENTS_FAST    400000
#define EVENTS_JANSSON 20000

static const struct encoder_options options = {.run = "k3v9q2m7x0ab", .host = "gpu07", .args = true};

/* ---- the two ---- */

struct bench {
	struct encoder *encoder;
	struct thread thread;
	int64_t ts_ns;
	uint64_t seq, bytes;
	char out[ENCODE_MAX_LINE];
};

static size_t run_fast(struct bench *b, const struct call *call)
{
	struct line_meta meta;

	return encode_call(b->encoder, call, &b->thread, b->seq, b->ts_ns, b->out, &meta);
}

static size_t run_jansson(struct bench *b, const struct call *call)
{
	json_t *event = reference_call(&options, call, &b->thread, b->seq, b->ts_ns);
	size_t len = json_dumpb(event, b->out, sizeof(b->out), JSON_COMPACT);

	json_decref(event);
	b->out[len++] = '\n';
	return len;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double rate(struct bench *b, size_t (*encode)(struct bench *b, const struct call *call),
		   unsigned events)
{
	double start = now();

	b->bytes = 0;
	for (unsigned i = 0; i < events; i++) {
		b->seq++;
		b->ts_ns += 1234;
		b->bytes += encode(b, &calls[i % NSAMPLES]);
	}
	return events / (now() - start);
}

static void check_same(struct bench *b)
{
	for (size_t i = 0; i < NSAMPLES; i++) {
		json_t *fast = reference_parse(b->out, run_fast(b, &calls[i]));
		json_t *jansson = reference_parse(b->out, run_jansson(b, &calls[i]));

		if (!fast || !jansson || !reference_same(fast, jansson)) {
			fprintf(stderr, "%s: the two differ\n", samples[i].symbol);
			exit(1);
		}
		json_decref(fast);
		json_decref(jansson);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double print_median(const char *name, double rates[ROUNDS], double bytes)
{
	double median;

	qsort(rates, ROUNDS, sizeof(*rates), by_value);
	median = rates[ROUNDS / 2];
	printf("%-12s %10.0f events/s %8.1f ns/event %6.1f bytes/event\n", name, median, 1e9 / median, bytes);
	return median;
}

int main(int argc, char **argv)
{
	static struct bench b = {
		.thread = {.pid = 4242, .tid = 4243, .comm = "python3", .thread = "pt_autograd_0"},
		.ts_ns = 1790000000123456789};
	double fast[ROUNDS], jansson[ROUNDS], fast_bytes = 0, jansson_bytes = 0, ratio;
	double min_ratio = argc == 3 && !strcmp(argv[1], "--min-ratio") ? atof(argv[2]) : 0;
	struct plan *plans = plan_all(plan_host_abi());

	b.encoder = encoder_new(&options);
	if (!plans || !b.encoder) {
		perror("encoder");
		return 1;
	}
	make_calls(plans);
	check_same(&b);
	for (int i = 0; i < ROUNDS; i++) {
		fast[i] = rate(&b, run_fast, EVENTS_FAST);
		fast_bytes = (double)b.bytes / EVENTS_FAST;
		jansson[i] = rate(&b, run_jansson, EVENTS_JANSSON);
		jansson_bytes = (double)b.bytes / EVENTS_JANSSON;
	}
	ratio = print_median("cudatap", fast, fast_bytes) / print_median("jansson", jansson, jansson_bytes);
	printf("ratio        %10.1f\n", ratio);
	for (int i = 0; i < THREAD_PREFIXES; i++)
		free(b.thread.prefix[i].data);
	encoder_free(b.encoder);
	free(plans);
	return ratio >= min_ratio ? 0 : 1;
}
