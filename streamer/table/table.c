/*
 * Look-ups in the API table. Rows are generated in ascending order of
 * (api, symbol), and rows of one symbol newest first; everything here leans
 * on that.
 */
#include "table.h"

#include "glob.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_MAJOR  11
#define MAX_WORD     64 /* longer words are not corrected */
#define KNOWN_MAJORS 3

static int compare(const struct table_row *row, enum table_api api, const char *symbol)
{
	if (row->api != api)
		return row->api < api ? -1 : 1;
	return strcmp(row->symbol, symbol);
}

/* The first row of a symbol; table_nrows when there is none. */
static unsigned first_row(enum table_api api, const char *symbol)
{
	unsigned low = 0, high = table_nrows;

	while (low < high) {
		unsigned middle = low + (high - low) / 2;

		if (compare(&table_rows[middle], api, symbol) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < table_nrows && compare(&table_rows[low], api, symbol) == 0)
		return low;
	return table_nrows;
}

/*
 * Among the rows of one symbol, the one whose shape holds for a major. A
 * major that no row names (a newer one, or one whose library was not at hand
 * when the table was made) gets the shape of the nearest older major, else
 * the oldest there is.
 */
static int row_of_major(unsigned first, unsigned end, unsigned major)
{
	for (unsigned m = major; m >= FIRST_MAJOR; m--) {
		if (m - FIRST_MAJOR >= KNOWN_MAJORS)
			continue;
		for (unsigned row = first; row < end; row++) {
			if (table_rows[row].majors & (1 << (m - FIRST_MAJOR)))
				return (int)row;
		}
	}
	return (int)end - 1;
}

static const char *type_name(unsigned type)
{
	return table_types[type].name;
}

/* Do two rows have parameters of the same names and types, whatever the size of what they point to? */
static bool same_params(const struct table_row *a, const struct table_row *b)
{
	if (a->nparams != b->nparams)
		return false;
	for (unsigned i = 0; i < a->nparams; i++) {
		const struct table_param *p = &table_params[a->param + i], *q = &table_params[b->param + i];

		if (strcmp(p->name, q->name) != 0 || strcmp(type_name(p->type), type_name(q->type)) != 0)
			return false;
	}
	return true;
}

/* The oldest row of a symbol, if its parameters are those of all the others. */
static int row_of_every_major(unsigned first, unsigned end)
{
	for (unsigned row = first; row < end - 1; row++) {
		if (!same_params(&table_rows[row], &table_rows[end - 1]))
			return -ENOTUNIQ;
	}
	return (int)end - 1;
}

int table_find(enum table_api api, const char *symbol, unsigned major)
{
	unsigned first = first_row(api, symbol);
	unsigned end = first;

	if (first == table_nrows)
		return -ENOENT;
	while (end < table_nrows && compare(&table_rows[end], api, symbol) == 0)
		end++;
	if (end - first == 1)
		return (int)first;
	if (major == 0)
		return row_of_every_major(first, end);
	if (major > FIRST_MAJOR + KNOWN_MAJORS - 1)
		major = FIRST_MAJOR + KNOWN_MAJORS - 1;
	return row_of_major(first, end, major);
}

/* The first row of a library that does not come before a prefix. */
static unsigned first_with(unsigned api, const char *prefix, size_t len)
{
	unsigned low = 0, high = table_nrows;

	while (low < high) {
		unsigned middle = low + (high - low) / 2;
		const struct table_row *row = &table_rows[middle];

		if (row->api < api || (row->api == api && strncmp(row->symbol, prefix, len) < 0))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A symbol begins with its func: what begins a pattern begins the symbols of all matches. */
bool table_next(const char *pattern, int *row)
{
	size_t len = glob_prefix(pattern);
	unsigned i = (unsigned)(*row + 1);

	while (i < table_nrows) {
		const struct table_row *r = &table_rows[i];
		int order = strncmp(r->symbol, pattern, len);

		if (order < 0) {
			i = first_with(r->api, pattern, len);
		} else if (order > 0) {
			i = first_with(r->api + 1u, "", 0);
		} else if (table_glob_match(pattern, r->symbol) || table_glob_match(pattern, r->func)) {
			*row = (int)i;
			return true;
		} else {
			i++;
		}
	}
	return false;
}

int table_family(const char *name)
{
	for (unsigned i = 0; i < table_nfamilies; i++) {
		if (strcmp(table_families[i].name, name) == 0)
			return (int)i;
	}
	return -ENOENT;
}

static int compare_error(const void *key, const void *element)
{
	int32_t code = *(const int32_t *)key;
	const struct table_error *error = element;

	return (code > error->code) - (code < error->code);
}

const struct table_error *table_error(enum table_api api, int32_t code)
{
	return bsearch(&code, table_errors[api], table_nerrors[api], sizeof(struct table_error),
		       compare_error);
}

static int compare_enumerator(const void *key, const void *element)
{
	int64_t value = *(const int64_t *)key;
	const struct table_enumerator *enumerator = element;

	return (value > enumerator->value) - (value < enumerator->value);
}

const char *table_enumerator(const struct table_enum *e, int64_t value)
{
	const struct table_enumerator *found = bsearch(&value, table_enumerators + e->first, e->count,
						       sizeof(struct table_enumerator), compare_enumerator);

	return found ? found->name : NULL;
}

static int compare_variant(const void *key, const void *element)
{
	int32_t value = *(const int32_t *)key;
	const struct table_variant *variant = element;

	return (value > variant->value) - (value < variant->value);
}

const struct table_field *table_member(const struct table_union *u, const void *data, size_t len)
{
	const struct table_variant *found;
	int32_t tag;

	if (u->tag + sizeof(tag) > len)
		return NULL;
	memcpy(&tag, (const char *)data + u->tag, sizeof(tag));
	found = bsearch(&tag, table_variants + u->first, u->count, sizeof(struct table_variant),
			compare_variant);
	return found ? &table_fields[found->field] : NULL;
}

/* Edit distance (Levenshtein) of two words of at most MAX_WORD letters, or `limit` + 1 if it is larger. */
static unsigned distance(const char *a, size_t na, const char *b, size_t nb, unsigned limit)
{
	unsigned row[MAX_WORD + 1];

	if ((na > nb ? na - nb : nb - na) > limit)
		return limit + 1;
	for (size_t j = 0; j <= nb; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned diagonal = row[0], least = row[0] = (unsigned)i;

		for (size_t j = 1; j <= nb; j++) {
			unsigned replaced = diagonal + (a[i - 1] != b[j - 1]);
			unsigned either = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;

			diagonal = row[j];
			row[j] = replaced < either ? replaced : either;
			if (row[j] < least)
				least = row[j];
		}
		if (least > limit)
			return limit + 1;
	}
	return row[nb];
}

/* The nearest word so far, and how far it is. */
struct nearest {
	const char *word;
	size_t len;
	const char *found;
	unsigned distance; /* only nearer words are taken */
};

static struct nearest nearest_start(const char *word)
{
	size_t len = strnlen(word, MAX_WORD + 1);
	size_t limit = len / 3 ? len / 3 : 1;

	return (struct nearest){.word = word, .len = len, .distance = (unsigned)limit + 1};
}

static void nearest_try(struct nearest *best, const char *candidate)
{
	size_t len = strnlen(candidate, MAX_WORD + 1);
	unsigned found;

	if (best->len > MAX_WORD || len > MAX_WORD || best->distance == 0)
		return;
	found = distance(best->word, best->len, candidate, len, best->distance - 1);
	if (found < best->distance) {
		best->distance = found;
		best->found = candidate;
	}
}

const char *table_nearest(const char *word, const char *const *words, size_t n)
{
	struct nearest best = nearest_start(word);

	for (size_t i = 0; i < n; i++)
		nearest_try(&best, words[i]);
	return best.found;
}

const char *table_nearest_function(const char *word)
{
	struct nearest best = nearest_start(word);

	for (unsigned i = 0; i < table_nrows; i++) {
		nearest_try(&best, table_rows[i].func);
		nearest_try(&best, table_rows[i].symbol);
	}
	return best.found;
}
