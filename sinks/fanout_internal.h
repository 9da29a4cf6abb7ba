/* The fan-out from inside: lines (fanout.c), and sinks that come and go (fanout_change.c). */
#ifndef CUDATAP_FANOUT_INTERNAL_H
#define CUDATAP_FANOUT_INTERNAL_H

#include "forms.h"
#include "worker.h"

#define FANOUT_PENDING 64 /* runs kept back per sink between two pushes */

/* Lines of one form being written. */
struct stream {
	struct chunk *chunk;
	uint32_t first; /* lines from here on are not in a run yet, all for the same sinks */
	uint64_t mask;  /* these */
};

/* A sink's place: its index is its bit in sets of sinks. */
struct outlet {
	struct worker *worker; /* NULL: the place is free */
	struct config *config; /* a reference to what the worker was made from, or NULL */
	size_t account;        /* FANOUT_NO_ACCOUNT: it never took part */
	uint64_t waits_for;    /* places whose sinks must have ended before it may begin */
	bool leaving;          /* no more lines: it ends when it has written what it has */

	/* what it is due at the next push; the reader's */
	struct queue_run runs[FANOUT_PENDING];
	size_t nruns;
	uint64_t filtered, rate_limited;
};

#define FANOUT_NO_ACCOUNT SIZE_MAX

/* What all sinks of one name did, one after the other. */
struct account {
	char *name;
	struct sink_counters ended; /* of those that have ended */
	uint64_t handed; /* lines that one left in the spool and the next one found there: neither spooled nor
			  * recovered */
};

struct fanout {
	struct workers all;
	struct forms forms;                     /* the reader's, like streams and current */
	struct stream streams[FORMS_MAX_SINKS]; /* by form */
	struct chunk *scratch;                  /* where lines go when there is no memory */
	uint64_t current;                       /* places of the sinks that get lines */
	pthread_mutex_t lock;                   /* guards what is in which place, and the accounts */
	struct outlet outlets[FORMS_MAX_SINKS];
	struct account *accounts;
	size_t naccounts;
	_Atomic uint64_t deadline_ns;
	bool closed, leaked;
};

#define for_each_sink(i, mask)                                                                  \
	for (uint64_t left_ = (mask), i; left_ && (i = (uint64_t)__builtin_ctzll(left_), true); \
	     left_ &= left_ - 1)

#endif
