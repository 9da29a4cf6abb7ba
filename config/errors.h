/*
 * The mistakes of one configuration, gathered so that all of them are told at
 * once, in the order of the text.
 */
#ifndef CUDATAP_CONFIG_ERRORS_H
#define CUDATAP_CONFIG_ERRORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct config_strings;

#define ERRORS_SHOWN   50   /* more are only counted */
#define ERRORS_COUNTED 1000 /* and so many at most */

/* A place in a text. The name is borrowed and outlives the errors. */
struct mark {
	const char *file; /* file name, or an option such as "-f" */
	unsigned line;    /* from 1; 0: the place has no lines */
	unsigned column;  /* in characters, from 1 */
};

struct error {
	struct mark mark;
	char *message;
	size_t order; /* how many were told before it */
};

/*
 * The same values are read several times: alone, and as each profile has them.
 * A mistake is told the first time only.
 */
struct errors {
	struct error list[ERRORS_SHOWN];
	size_t n;                          /* in the list */
	size_t total;                      /* mistakes found */
	uint64_t seen[4 * ERRORS_COUNTED]; /* hashes of what was told: an open table */

	/* What is read at present. */
	const char *profile; /* the profile that is merged over it; NULL: none */
	bool partial;        /* something else is to complete it: what is missing is no mistake */
	bool elsewhere;      /* it takes effect elsewhere: its variables need not be set here */
	unsigned globs;      /* that were compared with the functions so far */

	struct config_strings *paths; /* what was opened or looked for goes in here; NULL: nobody asks */
};

/** errors_path - the configuration depends on this file, or on what a pattern matches */
void errors_path(struct errors *errors, const char *path);

/** errors_add - one mistake: what is wrong; what to do. Without a newline. */
__attribute__((format(printf, 3, 4))) void errors_add(struct errors *errors, const struct mark *mark,
						      const char *format, ...);

/*
 * For checks that are dear: what was found right is right when it is read again. ERRORS_COUNTED different
 * words at most.
 */
bool errors_known_right(const struct errors *errors, const char *word);
void errors_found_right(struct errors *errors, const char *word);

/** errors_full - whether a further mistake would only be counted: its explanation can be spared */
static inline bool errors_full(const struct errors *errors)
{
	return errors->n == ERRORS_SHOWN;
}

/** errors_print - one line each, "FILE:LINE:COLUMN: message", and how many more there are */
void errors_print(struct errors *errors, FILE *out);

void errors_clear(struct errors *errors);

/* What someone wrote, made fit for a message: in quotes, cut, without control characters. */
struct quoted {
	char text[96];
};
struct quoted quote(const char *word);
#define QUOTE(word) (quote(word).text)

/* What to write instead: "; did you mean ...?", "; known: ...", or "". */
struct hint {
	char text[512];
};

/** hint_word - the nearest of @n words, else all of them when they are few */
struct hint hint_word(const char *word, const char *const *words, size_t n);

#endif
