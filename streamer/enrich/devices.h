/*
 * Devices: which one a call is for, and what its UUID is.
 *
 * The BPF program follows each thread's current device through the calls that
 * change it (rec_call.device); what those calls are is said here. A device is
 * told only where it is known: a thread of which nothing was seen to set a
 * device has the first one if all that it did was seen.
 *
 * Ordinals are the process's own: CUDA_VISIBLE_DEVICES changes what they
 * mean, and the UUID does not depend on it.
 */
#ifndef CUDATAP_DEVICES_H
#define CUDATAP_DEVICES_H

#include "enrich.h"
#include "processes.h"

struct devices;

/** devices_of_host - how many NVIDIA devices the host has, 0 where that is not known */
unsigned devices_of_host(void);

/**
 * devices_new - NULL when out of memory
 * @host_devices: devices_of_host(); with one there is no other to be current
 */
struct devices *devices_new(unsigned host_devices);
void devices_free(struct devices *devices);

/**
 * devices_select - mark the rows that change the current device, or tell of a device, when any row is
 * selected
 * @state: [table_nrows], from config_select()
 * @plans: plan_all(); their descriptors are completed
 */
void devices_select(uint8_t *state, struct plan *plans);

/** devices_tells_uuid - whether REC_NAME records of this row are for devices_learn() */
bool devices_tells_uuid(unsigned row);

/**
 * devices_learn - take a record of such a row
 * Returns the process, which has something to tell, or NULL.
 */
struct process *devices_learn(struct processes *processes, const struct plan *plans,
			      const struct rec_call *rec, size_t size);

/** devices_followed - from now on all calls of all processes that are traced are seen. Any thread. */
void devices_followed(struct devices *devices);
/** devices_attached - the probes of an attach id were there at this boot time. Any thread. */
void devices_attached(struct devices *devices, unsigned attach_id, uint64_t boot_ns);

/** devices_name - give a call without a device of its own the thread's, where that is known */
void devices_name(const struct devices *devices, struct call *call, const struct thread *thread);

#endif
