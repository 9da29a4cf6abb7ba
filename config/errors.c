/* Gathers the mistakes of a configuration and words them. */
#include <errno.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"

#include "../streamer/table/table.h"

#define HINT_WORDS 20 /* more words than this are not listed */

void errors_add(struct errors *errors, const struct mark *mark, const char *format, ...)
{
	va_list args;
	char *message;

	errors->total++;
	if (errors_full(errors))
		return;

	va_start(args, format);
	if (vasprintf(&message, format, args) < 0)
		message = NULL;
	va_end(args);
	errors->list[errors->n++] = (struct error){.mark = *mark, .message = message};
}

/* In the order of the text; what has no lines (the command line) comes last. Each file stays together. */
static bool comes_before(const struct error *a, const struct error *b)
{
	if (a->mark.file != b->mark.file || !a->mark.line || !b->mark.line)
		return false;
	if (a->mark.line != b->mark.line)
		return a->mark.line < b->mark.line;
	return a->mark.column < b->mark.column;
}

/* Stable, and short enough at ERRORS_SHOWN entries. */
static void sort(struct errors *errors)
{
	for (size_t i = 1; i < errors->n; i++) {
		struct error moving = errors->list[i];
		size_t at = i;

		for (; at && comes_before(&moving, &errors->list[at - 1]); at--)
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
		fprintf(out, "... and %zu more\n", errors->total - errors->n);
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
