/*
 * Processes by what is known of them, with the patterns of streamer/capture/patterns.h: what a filter says of
 * who made a call. The BPF program has its own look at the same for those that are traced at all.
 */
#ifndef CUDATAP_MATCHER_H
#define CUDATAP_MATCHER_H

#include "../enrich/enrich.h"
#include "../../config/config.h"

struct matcher;

bool matcher_is_empty(const struct config_patterns *patterns);

/** matcher_make - compile; nothing of @patterns is kept. 0 with NULL in @ret_matcher when all processes
 * match, or -ENOMEM. */
int matcher_make(const struct config_patterns *patterns, struct matcher **ret_matcher);
/** matcher_free - NULL is fine */
void matcher_free(struct matcher *matcher);

/** matcher_match - does every list have one that fits? What is not known of the thread fits none. */
bool matcher_match(const struct matcher *matcher, const struct thread *thread);

#endif
