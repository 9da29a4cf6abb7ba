/*
 * Losses at the source: the counters of the BPF program against what has been
 * told already. A cause with news becomes one `loss` event with the time
 * range in which it happened and, for the full ring, the functions it hit.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../encode/timestamp.h"
#include "losses.h"

const char *const loss_cause_names[LOSSES_NCAUSES] = {"ring", "storage", "depth", "unpaired", "undecodable"};

static int64_t real_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

void losses_init(struct losses *losses)
{
	memset(losses, 0, sizeof(*losses));
	losses->told_by_row = calloc(table_nrows, sizeof(*losses->told_by_row));
	losses->since_ns = real_ns();
}

void losses_free(struct losses *losses)
{
	free(losses->told_by_row);
	losses->told_by_row = NULL;
}

uint64_t losses_count(const struct capture_counters *counters, uint64_t undecodable,
		      uint64_t ret_counts[LOSSES_NCAUSES])
{
	ret_counts[LOSS_RING] = counters->v[REC_LOST_RING];
	ret_counts[LOSS_STORAGE] = counters->v[REC_LOST_STORAGE];
	ret_counts[LOSS_DEPTH] = counters->v[REC_LOST_DEPTH];
	ret_counts[LOSS_UNPAIRED] = counters->v[REC_UNPAIRED];
	ret_counts[LOSS_UNDECODABLE] = undecodable;
	return ret_counts[LOSS_RING] + ret_counts[LOSS_STORAGE] + ret_counts[LOSS_DEPTH] + undecodable;
}

static void time_text(int64_t ts_ns, char text[TIMESTAMP_LEN + 1])
{
	struct timestamp_cache cache = {0};

	*put_timestamp(text, &cache, ts_ns) = 0;
}

/* The functions that the full ring cost calls since the last look. */
static json_t *functions_hit(struct losses *losses, const struct capture *capture)
{
	json_t *functions = json_array();
	unsigned row;

	for (row = 0; losses->told_by_row && row < table_nrows; row++) {
		uint64_t lost = capture_lost_by_row(capture, row), news = lost - losses->told_by_row[row];

		if (!news)
			continue;
		losses->told_by_row[row] = lost;
		json_array_append_new(functions, json_pack("{ss sI}", "func", table_rows[row].symbol, "count",
							   (json_int_t)news));
	}
	return functions;
}

static json_t *make_body(struct losses *losses, const struct capture *capture, int cause, uint64_t news,
			 int64_t now)
{
	char first[TIMESTAMP_LEN + 1], last[TIMESTAMP_LEN + 1];
	json_t *body;

	time_text(losses->since_ns, first);
	time_text(now, last);
	body = json_pack("{ss ss sI ss ss}", "source", "capture", "reason", loss_cause_names[cause], "count",
			 (json_int_t)news, "first_ts", first, "last_ts", last);
	if (body && cause == LOSS_RING)
		json_object_set_new(body, "by_function", functions_hit(losses, capture));
	return body;
}

json_t *losses_next(struct losses *losses, const struct capture *capture, uint64_t undecodable)
{
	struct capture_counters counters;
	uint64_t counts[LOSSES_NCAUSES], news;
	int64_t now = real_ns();
	int cause;

	capture_counters(capture, &counters);
	losses_count(&counters, undecodable, counts);
	for (cause = 0; cause < LOSSES_NCAUSES; cause++) {
		news = counts[cause] - losses->told[cause];
		if (!news)
			continue;
		losses->told[cause] = counts[cause];
		return make_body(losses, capture, cause, news, now);
	}
	losses->since_ns = now;
	return NULL;
}
