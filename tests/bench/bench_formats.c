/*
 * What an event costs to encode in each format, side by side in one run:
 * events/s, ns and bytes per event, and the rate against that of "json".
 *
 * With --min-ratio N the exit status says whether every format reached N.
 */
#include <time.h>

#include "../../streamer/encode/encode.h"
#include "samples.h"

#define ROUNDS      15
#define EVENTS      100000
#define MAX_FORMATS 8

struct bench {
	struct encoder *encoder;
	struct thread thread;
	double rates[ROUNDS];
	uint64_t seq, bytes;
	int64_t ts_ns;
};

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double rate(struct bench *b)
{
	static char out[ENCODE_MAX_LINE];
	struct line_meta meta;
	double start = now();

	b->bytes = 0;
	for (unsigned i = 0; i < EVENTS; i++)
		b->bytes += encode_call(b->encoder, &calls[i % NSAMPLES], &b->thread, ++b->seq,
					b->ts_ns += 1234, out, &meta);
	return EVENTS / (now() - start);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(struct bench *b)
{
	qsort(b->rates, ROUNDS, sizeof(*b->rates), by_value);
	return b->rates[ROUNDS / 2];
}

static size_t make(struct bench *benches)
{
	size_t n = 0;

	for (; encode_format_names[n] && n < MAX_FORMATS; n++) {
		const struct encoder_options options = {.format = encode_format_names[n],
							.run = "k3v9q2m7x0ab",
							.host = "gpu07",
							.args = true};

		benches[n] = (struct bench){
			.encoder = encoder_new(&options),
			.thread = {.pid = 4242, .tid = 4243, .comm = "python3", .thread = "pt_autograd_0"},
			.ts_ns = 1790000000123456789};
		if (!benches[n].encoder) {
			perror(options.format);
			exit(1);
		}
	}
	return n;
}

int main(int argc, char **argv)
{
	double min_ratio = argc == 3 && !strcmp(argv[1], "--min-ratio") ? atof(argv[2]) : 0;
	struct plan *plans = plan_all(plan_host_abi());
	static struct bench benches[MAX_FORMATS];
	size_t n = make(benches);
	int failed = 0;

	if (!plans)
		return 1;
	make_calls(plans);
	/* by turns, so that what else the machine does is shared alike */
	for (int round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < n; i++)
			benches[i].rates[round] = rate(&benches[i]);
	for (size_t i = 0; i < n; i++) {
		double middle = median(&benches[i]), ratio = middle / median(&benches[0]);

		printf("%-12s %10.0f events/s %8.1f ns/event %6.1f bytes/event %6.2f of json's rate\n",
		       encode_format_names[i], middle, 1e9 / middle, (double)benches[i].bytes / EVENTS,
		       ratio);
		failed |= ratio < min_ratio;
		for (int slot = 0; slot < THREAD_PREFIXES; slot++)
			free(benches[i].thread.prefix[slot].data);
		encoder_free(benches[i].encoder);
	}
	free(plans);
	return failed;
}
