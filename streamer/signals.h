/*
 * The signals that cudatap obeys, until the control thread reads them. None of
 * them may find it unprepared: whoever rotates files, reloads a service or
 * stops it does not know how far the start has got.
 *
 * - HUP, USR1 and USR2 wait until there is something to reload or to rotate.
 * - INT, TERM and QUIT end a start at once, as long as nothing is there that
 *   others would have to clear away: no probes, no command.
 */
#ifndef CUDATAP_SIGNALS_H
#define CUDATAP_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/** signals_hold - the first thing in main(): all of them wait
 * @ret_mask: what was blocked before */
void signals_hold(sigset_t *ret_mask);

/** signals_release - they do what the caller wanted them to do */
void signals_release(const sigset_t *mask);

/** signals_may_end - INT, TERM and QUIT end cudatap from now on; those that the caller ignored do not
 * @command: one was to be run: the exit code is then 128 + the signal, otherwise 0, as later */
void signals_may_end(bool command);

/** signals_take - all of them wait from now on, to be read
 * @ret_set: these, for signalfd(2) */
void signals_take(sigset_t *ret_set);

#endif
