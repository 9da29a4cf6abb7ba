/*
 * Variables of a process's environment that events show. The environment is
 * the one that the process's program was started with, environ(7): what it
 * sets for itself later is not in it.
 */
#ifndef CUDATAP_ENVIRONS_H
#define CUDATAP_ENVIRONS_H

#include <stddef.h>

#include "text.h"

#define ENVIRONS_MAX_NAMES 16
#define ENVIRONS_MAX_VALUE 512  /* bytes of one value as it is shown, escaped; what is longer is cut */
#define ENVIRONS_MAX       2048 /* of all values of a process */
#define ENVIRONS_BUFFER    65536

/* In the order of the names that were asked for. */
struct environs {
	size_t n;
	struct process_text value[]; /* data NULL: not set */
};

/** environs_new - nothing set. NULL when out of memory. */
struct environs *environs_new(size_t n);
/** environs_free - NULL is fine */
void environs_free(struct environs *environs);

/**
 * environs_read - take what is wanted out of an environment
 * @fd: gives entries NAME=VALUE, each with a NUL behind it, of any length and number (/proc/PID/environ)
 * @names: environs->n of them
 * Of two entries with one name the first counts, as for getenv(3). Returns whether there was anything at
 * all, wanted or not, or a negative errno.
 */
int environs_read(struct environs *environs, int fd, const char *const *names);

#endif
