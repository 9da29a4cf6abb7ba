/*
 * What the hold thread and the watchdog share: a page that outlives cudatap.
 *
 * A notification is received right into the page, by the kernel. So there is
 * no moment at which its id is known to cudatap alone, whenever it is killed.
 */
#ifndef CUDATAP_LAUNCH_BOARD_H
#define CUDATAP_LAUNCH_BOARD_H

#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { BOARD_SLOTS = 64 };

/* One held thread. Owned by whoever took it; the watchdog only answers it. */
struct board_slot {
	_Atomic uint64_t since_ms; /* CLOCK_BOOTTIME of the receiving, 0: free */
	union {
		struct seccomp_notif notif;
		char room[256]; /* newer kernels may write more */
	};
};

struct board {
	/* Who may receive now: two receivers could leave one of them asleep in the kernel. */
	_Atomic int receiver;
	_Atomic uint64_t alive;       /* rises whenever the hold thread looks up */
	_Atomic uint64_t received;    /* by the hold thread */
	_Atomic uint64_t taken;       /* by the watchdog, in its place */
	_Atomic uint64_t overdue;     /* answered by the watchdog, cudatap being alive, */
	_Atomic uint64_t stopped;     /* ... or being stopped */
	_Atomic uint64_t progress_ms; /* CLOCK_BOOTTIME, when the control thread last got on */
	struct board_slot slot[BOARD_SLOTS];
};

enum { BOARD_NOBODY, BOARD_HOLDER, BOARD_WATCHDOG };

/** board_new - NULL when out of memory; board_free() takes NULL */
struct board *board_new(void);
void board_free(struct board *board);

/** board_lock - become the receiver; false while the other side is */
static inline bool board_lock(struct board *board, int who)
{
	int nobody = BOARD_NOBODY;

	return atomic_compare_exchange_strong(&board->receiver, &nobody, who);
}

/**
 * board_seize - become the receiver although the other side may be
 * That is for one that cannot go on. Should it do so all the same, both may receive, and one of them sleeps
 * in the kernel: the watchdog is woken by a timer, the hold thread by the next call, or by a signal at its
 * end.
 */
static inline void board_seize(struct board *board, int who)
{
	atomic_store(&board->receiver, who);
}

/** board_unlock - be it no more, unless the other side has seized it meanwhile */
static inline void board_unlock(struct board *board, int who)
{
	atomic_compare_exchange_strong(&board->receiver, &who, BOARD_NOBODY);
}

/** board_wake_by - let the signal do nothing but interrupt: a receiver that came too late sleeps in the
 * kernel */
void board_wake_by(int signal);

/** board_now_ms - the clock of since_ms */
uint64_t board_now_ms(void);

/** board_receive - take one notification into a free slot; 0 or a negative errno (-ENOENT:
 * its thread is gone) */
int board_receive(int listener, struct board_slot *slot);
/** board_answer - let the held thread go on and free the slot. A thread that is gone is fine. */
void board_answer(int listener, struct board_slot *slot);
/** board_is_valid - the notification's thread still waits, so its id means what it meant */
bool board_is_valid(int listener, const struct board_slot *slot);

#endif
