/* The bodies of events that the reader makes of records beside calls. */
#ifndef CUDATAP_BODIES_H
#define CUDATAP_BODIES_H

#include <jansson.h>

#include "../../config/config.h"
#include "../decode/decode.h"
#include "../enrich/enrich.h"
#include "../enrich/processes.h"

/**
 * body_open - an `open` event: a call that has not returned
 * @call: made of a REC_OPEN record; @thread: whose it is
 * @start_ns: unix time of its start, the `ts` of its call event to come
 * NULL when out of memory.
 */
json_t *body_open(const struct call *call, const struct thread *thread, int64_t start_ns);

/** body_process_start - a `process` event: its first call is about to come. @env: names of its variables */
json_t *body_process_start(const struct process *process, const struct config_strings *env);

/** body_process_exit - a `process` event: it has ended, or another program runs in it */
json_t *body_process_exit(const struct process *process, const struct rec_thread_exit *rec,
			  const struct config_strings *env);

/** body_device - a `device` event */
json_t *body_device(const struct process *process, const struct process_device *device);

#endif
