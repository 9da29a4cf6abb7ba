/* Globs over names. */
#include "glob.h"

#include <string.h>

/* A set such as "[a-z_]" behind its "[". Returns its end, behind the "]", or NULL when it has none. */
static const char *match_set(const char *set, unsigned char c, bool *ret_matches)
{
	bool inverted = *set == '!' || *set == '^', found = false;
	const char *start = set + inverted;

	for (const char *s = start; *s; s++) {
		unsigned char low, high;

		/* a "]" that comes first is one of the set */
		if (*s == ']' && s > start) {
			*ret_matches = found != inverted;
			return s + 1;
		}
		if (*s == '\\' && s[1])
			s++;
		low = high = (unsigned char)*s;
		if (s[1] == '-' && s[2] && s[2] != ']') {
			s += 2;
			if (*s == '\\' && s[1])
				s++;
			high = (unsigned char)*s;
		}
		found |= low <= c && c <= high;
	}
	return NULL;
}

/* One character of the text against what the pattern has for it. Returns what follows, or NULL. */
static const char *match_one(const char *pattern, unsigned char c)
{
	bool matches = false;
	const char *next;

	if (*pattern == '?')
		return pattern + 1;
	if (*pattern == '[') {
		next = match_set(pattern + 1, c, &matches);
		if (next)
			return matches ? next : NULL;
	} else if (*pattern == '\\' && pattern[1]) {
		pattern++;
	}
	return (unsigned char)*pattern == c ? pattern + 1 : NULL;
}

bool table_glob_match(const char *pattern, const char *text)
{
	const char *star = NULL, *resume = NULL;

	while (*text) {
		const char *next = *pattern == '*' ? NULL : match_one(pattern, (unsigned char)*text);

		if (*pattern == '*') {
			/* what an earlier one swallowed is no longer of interest */
			star = ++pattern;
			resume = text;
		} else if (next) {
			pattern = next;
			text++;
		} else if (star) {
			pattern = star;
			text = ++resume;
		} else {
			return false;
		}
	}
	return !pattern[strspn(pattern, "*")];
}

size_t glob_prefix(const char *pattern)
{
	return strcspn(pattern, "*?[\\");
}
