/* An environment, read in pieces: it may have any size, and the buffer has one. */
#include "environs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../encode/escape.h"

#define MAX_BYTES (16u << 20) /* of an environment that are looked at: more than execve(2) takes */

struct reading {
	struct environs *environs;
	const char *const *names;
	size_t room; /* for further values */
	bool skip;   /* the entry has been taken, its end is still to come */
	size_t len;  /* in the buffer */
	char buffer[ENVIRONS_BUFFER];
};

static void take_entry(struct reading *r, const char *entry, size_t len)
{
	struct environs *environs = r->environs;
	const char *equals = memchr(entry, '=', len);
	size_t name = equals ? (size_t)(equals - entry) : 0, max;

	for (size_t i = 0; name && i < environs->n; i++) {
		struct process_text *value = &environs->value[i];

		if (value->data || strncmp(r->names[i], entry, name) || r->names[i][name])
			continue;
		max = r->room < ENVIRONS_MAX_VALUE ? r->room : ENVIRONS_MAX_VALUE;
		len -= name + 1;
		/* no character is shorter when it is escaped */
		process_text_set(value, equals + 1, len > max ? escape_whole(equals + 1, max) : len, max);
		r->room -= value->len;
		return;
	}
}

/* Takes the whole entries out of the buffer; what is left is the beginning of one. */
static void take_entries(struct reading *r)
{
	char *at = r->buffer, *end = r->buffer + r->len, *nul;

	while ((nul = memchr(at, 0, (size_t)(end - at)))) {
		if (!r->skip)
			take_entry(r, at, (size_t)(nul - at));
		r->skip = false;
		at = nul + 1;
	}
	r->len = (size_t)(end - at);
	memmove(r->buffer, at, r->len);
	if (r->len < sizeof(r->buffer))
		return;
	/* a value that is longer than the buffer is shown cut anyway */
	if (!r->skip)
		take_entry(r, r->buffer, r->len);
	r->skip = true;
	r->len = 0;
}

int environs_read(struct environs *environs, int fd, const char *const *names)
{
	struct reading *r = malloc(sizeof(*r));
	size_t total = 0;
	ssize_t n;
	int err;

	if (!r)
		return -ENOMEM;
	r->environs = environs;
	r->names = names;
	r->room = ENVIRONS_MAX;
	r->skip = false;
	r->len = 0;
	do {
		n = read(fd, r->buffer + r->len, sizeof(r->buffer) - r->len);
		if (n <= 0)
			break;
		total += (size_t)n;
		r->len += (size_t)n;
		take_entries(r);
	} while (total < MAX_BYTES);
	err = n < 0 ? -errno : 0;
	/* a program may have written over its environment: the last entry need not end with a NUL */
	if (!err && r->len && !r->skip)
		take_entry(r, r->buffer, r->len);
	free(r);
	return err ? err : total != 0;
}

struct environs *environs_new(size_t n)
{
	struct environs *environs = calloc(1, sizeof(*environs) + n * sizeof(environs->value[0]));

	if (environs)
		environs->n = n;
	return environs;
}

void environs_free(struct environs *environs)
{
	for (size_t i = 0; environs && i < environs->n; i++)
		free(environs->value[i].data);
	free(environs);
}
