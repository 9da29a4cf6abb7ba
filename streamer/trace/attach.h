/* Probes on the functions of a file that has been looked into. */
#ifndef CUDATAP_TRACE_ATTACH_H
#define CUDATAP_TRACE_ATTACH_H

#include "internal.h"

struct opened;

/* An open file that may get probes. */
struct candidate {
	int fd;
	pid_t pid;          /* that maps it, or 0 */
	uint64_t mapped_ns; /* when it did, CLOCK_MONOTONIC, or 0 */
	const char *path;
	struct opened *opened; /* what is known of it already, or NULL */
};

/** attach_is_wanted - does this selection want a probe on the function? */
bool attach_is_wanted(const struct find_function *function, const uint8_t *state);

/** attach_say_unknown - tell of functions that cannot be traced, because nothing says which prototype they
 * have */
void attach_say_unknown(const struct target *target, const uint8_t *state);

/**
 * attach_missing - probes on what a selection wants and has none; what goes wrong is said and counted
 * @id: of the target
 * @candidate: as it was found just now, or NULL
 */
void attach_missing(struct trace *trace, unsigned id, const struct candidate *candidate,
		    const uint8_t *state);

#endif
