/*
 * What a sink lost and has not yet told its readers, by reason. No lock: the
 * owner has one.
 */
#ifndef CUDATAP_ACCOUNT_H
#define CUDATAP_ACCOUNT_H

#include "sink.h"

struct losses {
	struct {
		uint64_t count, seq_first, seq_last;
	} by_reason[SINK_NREASONS];
	unsigned next; /* reasons take turns */
};

/** losses_add - @n lost lines with seqs from @seq_first to @seq_last (0: unknown) */
void losses_add(struct losses *losses, enum sink_reason reason, uint64_t n, uint64_t seq_first,
		uint64_t seq_last);
/** losses_take - take the loss whose turn it is; false when there is none. Sets all but @ret_loss->sink. */
bool losses_take(struct losses *losses, struct sink_loss *ret_loss);
bool losses_any(const struct losses *losses);

#endif
