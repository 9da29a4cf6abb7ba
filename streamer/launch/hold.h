/* The holding side of a launch: the thread that receives, and the queue to the control thread. */
#ifndef CUDATAP_LAUNCH_HOLD_H
#define CUDATAP_LAUNCH_HOLD_H

#include "launch.h"
#include "shown.h"

struct hold;

/**
 * hold_start - begin to receive; starts the watchdog and the thread
 * @listener: taken over, closed in any case; @options: patience and on_program
 * Returns 0 or a negative errno.
 */
int hold_start(int listener, const struct launch_options *options, struct hold **ret_hold);

/** hold_stop - answers whoever is held and hands over to the watchdog. NULL is fine. */
void hold_stop(struct hold *hold);

int hold_fd(const struct hold *hold);
/** hold_handle - as launch_handle() */
int hold_handle(struct hold *hold, launch_file_fn fn, void *ctx);
/** hold_forget - as launch_forget() */
void hold_forget(struct hold *hold, const struct shown_key *key);
/** hold_progress - as launch_progress() */
void hold_progress(struct hold *hold);
void hold_counts(const struct hold *hold, struct launch_counts *ret_counts);

#endif
