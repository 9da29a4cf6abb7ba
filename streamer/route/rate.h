/*
 * A token bucket in the time of the calls themselves: no clock is read, and
 * what passes does not depend on when the reader gets to it. Reader thread.
 */
#ifndef CUDATAP_RATE_H
#define CUDATAP_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define RATE_SECOND 1000000000ull

struct rate {
	uint64_t per_second; /* 0: no limit */
	uint64_t full;       /* of the bucket, in tokens / RATE_SECOND */
	uint64_t level;
	uint64_t at_ns; /* when the level was right */
};

/** rate_init - a full bucket; @burst 0: a second's worth. Both at most 10^9. */
static inline void rate_init(struct rate *rate, uint64_t per_second, uint64_t burst)
{
	*rate = (struct rate){.per_second = per_second};
	rate->full = (burst ? burst : per_second) * RATE_SECOND;
	rate->level = rate->full;
}

/** rate_take - may one more pass at @now_ns? Times that go back count as no time. */
static inline bool rate_take(struct rate *rate, uint64_t now_ns)
{
	uint64_t elapsed = now_ns > rate->at_ns ? now_ns - rate->at_ns : 0;

	if (elapsed) {
		uint64_t missing = rate->full - rate->level;

		/* compared by division: the product may be beyond 64 bits */
		rate->level = elapsed > missing / rate->per_second ? rate->full
								   : rate->level + elapsed * rate->per_second;
		rate->at_ns = now_ns;
	}
	if (rate->level < RATE_SECOND)
		return false;
	rate->level -= RATE_SECOND;
	return true;
}

#endif
