/* Signals before the control thread reads them. */
#include "signals.h"

#include <stddef.h>
#include <unistd.h>

static const int requests[] = {SIGHUP, SIGUSR1, SIGUSR2};
static const int ends[] = {SIGINT, SIGTERM, SIGQUIT};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static void add(sigset_t *set, const int *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sigaddset(set, list[i]);
}

void signals_take(sigset_t *ret_set)
{
	sigemptyset(ret_set);
	add(ret_set, requests, COUNT(requests));
	add(ret_set, ends, COUNT(ends));
	sigprocmask(SIG_BLOCK, ret_set, NULL);
}

void signals_hold(sigset_t *ret_mask)
{
	sigset_t set;

	sigprocmask(SIG_BLOCK, NULL, ret_mask);
	signals_take(&set);
}

void signals_release(const sigset_t *mask)
{
	sigprocmask(SIG_SETMASK, mask, NULL);
}

/* What the kernel does at our end is all there is to do. */
static void end_as_asked(int number)
{
	_exit(0);
}

static void end_for_command(int number)
{
	_exit(128 + number);
}

void signals_may_end(bool command)
{
	const struct sigaction action = {.sa_handler = command ? end_for_command : end_as_asked};
	struct sigaction before;
	sigset_t set;

	sigemptyset(&set);
	add(&set, ends, COUNT(ends));
	for (size_t i = 0; i < COUNT(ends); i++)
		if (!sigaction(ends[i], NULL, &before) && before.sa_handler != SIG_IGN)
			sigaction(ends[i], &action, NULL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}
