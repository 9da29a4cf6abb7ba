/*
 * Which calls a sink wants: the conditions of a `filter:`, compiled so that a
 * call is judged by a few loads. Used by the reader thread.
 */
#ifndef CUDATAP_FILTER_H
#define CUDATAP_FILTER_H

#include "../decode/decode.h"
#include "../enrich/enrich.h"
#include "../../config/config.h"

struct filter;

/** filter_make - compile; nothing of @config is kept
 * Returns 0 with NULL in @ret_filter when it lets every call through, or -ENOMEM. */
int filter_make(const struct config_filter *config, struct filter **ret_filter);
void filter_free(struct filter *filter);

/** filter_match - do all conditions hold for a call, and for who made it? */
bool filter_match(const struct filter *filter, const struct call *call, const struct thread *thread);

#endif
