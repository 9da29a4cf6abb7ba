/* Gathers the mistakes of a configuration and words them. */
#include <errno.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "errors.h"

#include "../streamer/table/table.h"

#define HINT_WORDS 20 /* more words than this are not listed */

static uint64_t hash(uint64_t h, const char *text)
{
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3;
	return h;
}

/* The place of a hash in the table: there already, or to be put there. */
static size_t place(const struct errors *errors, uint64_t h)
{
	const size_t room = sizeof(errors->seen) / sizeof(errors->seen[0]);
	size_t at = h % room;

	while (errors->seen[at] && errors->seen[at] != h)
		at = (at + 1) % room;
	return at;
}

/* Returns whether it has been told already; remembers it otherwise. */
static bool told(struct errors *errors, const struct mark *mark, const char *message)
{
	uint64_t h = hash(0xcbf29ce484222325, mark->file);
	size_t at;

	h = (h ^ mark->line) * 0x100000001b3;
	h = (h ^ mark->column) * 0x100000001b3;
	h = hash(h, message) | 1; /* 0 is an empty place */
	at = place(errors, h);
	if (errors->seen[at])
		return true;
	errors->seen[at] = h;
	return false;
}

static uint64_t hash_word(const char *word)
{
	return hash(0x9e3779b97f4a7c15, word) | 1;
}

bool errors_known_right(const struct errors *errors, const char *word)
{
	return errors->seen[place(errors, hash_word(word))];
}

void errors_found_right(struct errors *errors, const char *word)
{
	uint64_t h = hash_word(word);

	errors->seen[place(errors, h)] = h;
}

static char *with_profile(const char *message, const char *profile)
{
	char *whole;

	if (!profile)
		return strdup(message);
	return asprintf(&whole, "%s (profile %s)", message, QUOTE(profile)) < 0 ? NULL : whole;
}

void errors_add(struct errors *errors, const struct mark *mark, const char *format, ...)
{
	char message[1024];
	va_list args;

	/* more would fill the table of what was told */
	if (errors->total == ERRORS_COUNTED)
		return;
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	if (told(errors, mark, message))
		return;
	errors->total++;
	if (!errors_full(errors))
		errors->list[errors->n++] = (struct error){*mark, with_profile(message, errors->profile), 0};
}

/* The first mistake of the same file. */
static size_t file_rank(const struct errors *errors, const struct error *e)
{
	size_t i = 0;

	while (strcmp(errors->list[i].mark.file, e->mark.file))
		i++;
	return i;
}

/* In the order of the text; each file stays together, in the order of their first mistakes. */
static bool comes_before(const struct error *a, const struct error *b, const size_t *ranks)
{
	if (ranks[a->order] != ranks[b->order])
		return ranks[a->order] < ranks[b->order];
	if (a->mark.line != b->mark.line)
		return a->mark.line < b->mark.line;
	if (a->mark.column != b->mark.column)
		return a->mark.column < b->mark.column;
	return a->order < b->order;
}

/* Short enough at ERRORS_SHOWN entries. */
static void sort(struct errors *errors)
{
	size_t ranks[ERRORS_SHOWN];

	for (size_t i = 0; i < errors->n; i++) {
		errors->list[i].order = i;
		ranks[i] = file_rank(errors, &errors->list[i]);
	}
	for (size_t i = 1; i < errors->n; i++) {
		struct error moving = errors->list[i];
		size_t at = i;

		for (; at && comes_before(&moving, &errors->list[at - 1], ranks); at--)
			errors->list[at] = errors->list[at - 1];
		errors->list[at] = moving;
	}
}

void errors_print(struct errors *errors, FILE *out)
{
	sort(errors);
	for (size_t i = 0; i < errors->n; i++) {
		const struct error *e = &errors->list[i];

		fputs(e->mark.file, out);
		if (e->mark.line)
			fprintf(out, ":%u:%u", e->mark.line, e->mark.column);
		fprintf(out, ": %s\n", e->message ? e->message : strerror(ENOMEM));
	}
	if (errors->total > errors->n)
		fprintf(out, "... and %s%zu more\n", errors->total == ERRORS_COUNTED ? "at least " : "",
			errors->total - errors->n);
}

void errors_clear(struct errors *errors)
{
	for (size_t i = 0; i < errors->n; i++)
		free(errors->list[i].message);
	*errors = (struct errors){0};
}

struct quoted quote(const char *word)
{
	struct quoted q;
	size_t n = 0, room = sizeof(q.text) - sizeof("...\"");

	q.text[n++] = '"';
	while (*word && n < room) {
		unsigned char c = *word++;

		q.text[n++] = c < ' ' || c == 0x7f ? '?' : c;
	}
	if (*word) {
		/* not in the middle of a character */
		while (n > 1 && ((unsigned char)*word & 0xc0) == 0x80) {
			n--;
			word--;
		}
		memcpy(q.text + n, "...", 3);
		n += 3;
	}
	q.text[n++] = '"';
	q.text[n] = '\0';
	return q;
}

struct hint hint_word(const char *word, const char *const *words, size_t n)
{
	const char *nearest = table_nearest(word, words, n);
	struct hint hint = {""};
	size_t used;

	if (nearest) {
		snprintf(hint.text, sizeof(hint.text), "; did you mean %s?", QUOTE(nearest));
		return hint;
	}
	if (!n || n > HINT_WORDS)
		return hint;
	used = snprintf(hint.text, sizeof(hint.text), "; known:");
	for (size_t i = 0; i < n && used < sizeof(hint.text); i++)
		used += snprintf(hint.text + used, sizeof(hint.text) - used, "%s %s", i ? "," : "", words[i]);
	return hint;
}

void errors_path(struct errors *errors, const char *path)
{
	struct config_strings *paths = errors->paths;
	char **list;

	for (size_t i = 0; paths && i < paths->n; i++)
		if (!strcmp(paths->list[i], path))
			return;
	list = paths ? reallocarray(paths->list, paths->n + 1, sizeof(*list)) : NULL;
	if (!list)
		return;
	paths->list = list;
	/* a name that is missing here is no reason to give up */
	if ((list[paths->n] = strdup(path)))
		paths->n++;
}
