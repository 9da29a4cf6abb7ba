/* What capture lost since the last look, as bodies of `loss` events. */
#ifndef CUDATAP_LOSSES_H
#define CUDATAP_LOSSES_H

#include <jansson.h>

#include "../capture/capture.h"

#define LOSSES_NCAUSES 5

/* Causes by which a call that was entered gives no event. */
enum loss_cause { LOSS_RING, LOSS_STORAGE, LOSS_DEPTH, LOSS_UNPAIRED, LOSS_UNDECODABLE };
extern const char *const loss_cause_names[LOSSES_NCAUSES];

struct losses {
	uint64_t told[LOSSES_NCAUSES];
	uint64_t *told_by_row; /* of the full ring; NULL when out of memory */
	int64_t since_ns;      /* wall clock of the last look */
};

void losses_init(struct losses *losses);
void losses_free(struct losses *losses);

/** losses_count - losses so far by cause; returns their sum without `unpaired`, which is no loss
 * of ours: the call never returned */
uint64_t losses_count(const struct capture_counters *counters, uint64_t undecodable,
		      uint64_t ret_counts[LOSSES_NCAUSES]);

/**
 * losses_next - the body of the next loss event, or NULL when all is told
 * One cause each: {source, reason, count, first_ts, last_ts, functions?}
 */
json_t *losses_next(struct losses *losses, const struct capture *capture, uint64_t undecodable);

#endif
