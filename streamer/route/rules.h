/*
 * Which calls become events, as the configuration's `processes`, `filter`, `sample` and `process_rate_limit`
 * say: what the
 * BPF program decides, and what is left for here.
 */
#ifndef CUDATAP_ROUTE_RULES_H
#define CUDATAP_ROUTE_RULES_H

#include "../capture/capture.h"
#include "../enrich/enrich.h"
#include "../../config/config.h"

/** rules_make - the BPF program's part, beside the states of rows, which config_select() makes */
void rules_make(const struct config *config, struct rec_rules *ret_rules);

/** rules_processes - the same for the BPF program; refers to the lists */
struct capture_processes rules_processes(const struct config_patterns *patterns);

/**
 * rules_send - make the BPF program trace by a configuration: its processes, filter and samples
 * From the next call on; at any time, from any thread but one at a time. The states of rows (config_select())
 * go their own way. Returns 0 or a negative errno with no rule changed: see capture_select().
 */
int rules_send(struct capture *capture, const struct config *config);

/* The rest, which the reader thread decides. */
struct rules;

/** rules_new - 0 with NULL in @ret_rules when nothing is left to decide, or -ENOMEM. Nothing of @config is
 * kept. */
int rules_new(const struct config *config, struct rules **ret_rules);
/** rules_free - NULL is fine */
void rules_free(struct rules *rules);

enum ruling { RULED_EVENT, RULED_FILTERED, RULED_LIMITED };

/** rules_call - what becomes of a call. @rules NULL: an event. Call it once for each call. */
enum ruling rules_call(const struct rules *rules, const struct call *call, const struct thread *thread);

#endif
