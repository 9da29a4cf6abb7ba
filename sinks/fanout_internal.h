/* The fan-out from inside: lines (fanout.c), sinks that come and go (fanout_change.c), and what sinks of one
 * name did (fanout_account.c). */
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

/* One sink. */
struct outlet {
	struct outlet *next; /* that came later */
	struct worker *worker;
	struct config *config; /* a reference to what the worker was made from, or NULL */
	size_t account;        /* FANOUT_NO_ACCOUNT: it never took part */
	bool waits;            /* until earlier ones that are in its way have ended */
	bool leaving;          /* no more lines: it ends when it has written what it has */
	bool inherited;        /* it is known what it found in its spool, ... */
	bool from_other;       /* ... that a sink of another name left it there, ... */
	uint64_t found;        /* ... and how many lines of sinks of this run it was */

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
};

/* Lines that a sink has left in its spool. */
struct leftover {
	char *path;
	size_t account;
	uint64_t n;
};

struct fanout {
	struct workers all;
	struct forms forms;                      /* the reader's, like streams and current */
	struct stream streams[FORMS_MAX_SINKS];  /* by form */
	struct chunk *scratch;                   /* where lines go when there is no memory */
	struct outlet *current[FORMS_MAX_SINKS]; /* the sinks that get lines, by their bits */
	size_t ncurrent;
	pthread_mutex_t lock; /* guards which outlets and accounts there are, and the leftovers */
	struct outlet *outlets;
	struct account *accounts;
	size_t naccounts;
	struct leftover *leftovers;
	size_t nleftovers;
	_Atomic uint64_t deadline_ns;
	bool closed, leaked;
};

#define for_each_bit(i, mask)                                                                   \
	for (uint64_t left_ = (mask), i; left_ && (i = (uint64_t)__builtin_ctzll(left_), true); \
	     left_ &= left_ - 1)

#define for_each_outlet(it, fanout) for (struct outlet *it = (fanout)->outlets; it; it = it->next)

/* fanout_account.c, under the lock */

/** account_room - for so many more names, so that account_of() cannot fail for want of it; 0 or -ENOMEM */
int account_room(struct fanout *fanout, size_t more);
/** account_of - of that name; without memory for a new one, the first */
size_t account_of(struct fanout *fanout, const char *name);
/** account_end - the outlet has ended: what it did goes into its account */
void account_end(struct fanout *fanout, struct outlet *outlet);
void accounts_free(struct fanout *fanout);

/* fanout_change.c */

/** outlet_free - NULL is fine */
void outlet_free(struct outlet *outlet);

#endif
