/* Between events and sinks: which sinks a call is for, by their filters and rate limits. Reader thread. */
#ifndef CUDATAP_GATE_H
#define CUDATAP_GATE_H

#include "../../sinks/fanout.h"
#include "filter.h"

struct gate;

/**
 * gate_new - of these sinks, which are kept
 * Returns 0 with NULL in @ret_gate when every call is for all of them, or -ENOMEM.
 */
int gate_new(const struct config_sink *sinks, size_t n, struct gate **ret_gate);
/** gate_continue - sinks of the same name and rate limit do not get a full bucket anew; NULL is fine for
 * both */
void gate_continue(struct gate *gate, const struct gate *before);
/** gate_free - NULL is fine */
void gate_free(struct gate *gate);

/**
 * gate_call - the sinks that a call is for, as a mask
 * The others are told: fanout_withhold(). Call it once for each call. @gate NULL: all.
 * Events that are no calls are for every sink and do not come here.
 */
uint64_t gate_call(struct gate *gate, struct fanout *fanout, const struct call *call,
		   const struct thread *thread);

#endif
