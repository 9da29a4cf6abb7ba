/* The process that answers for cudatap when it cannot: dead, gone, or not answering. */
#ifndef CUDATAP_LAUNCH_WATCHDOG_H
#define CUDATAP_LAUNCH_WATCHDOG_H

#include "board.h"

/**
 * watchdog_start - fork it
 * @listener: stays open in both
 * @board: shared
 * @handover: an eventfd; once it is readable the watchdog answers everything
 * @patience_ms: how long a thread may be held while cudatap lives
 *
 * Its parent is init, so it leaves no zombie. Returns 0 or a negative errno.
 */
int watchdog_start(int listener, struct board *board, int handover, int patience_ms);

#endif
