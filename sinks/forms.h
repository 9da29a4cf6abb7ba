/* Forms of lines: sinks whose events look alike are given the same lines, which are encoded once. */
#ifndef CUDATAP_FORMS_H
#define CUDATAP_FORMS_H

#include "../config/config.h"

#define FORMS_MAX       8  /* of lines; each is encoded once */
#define FORMS_MAX_SINKS 64 /* a set of sinks is a bit mask */

/* One form: a format with a choice of fields. */
struct form {
	const struct config_sink *config; /* of its first sink: its format and fields are those of all */
	uint64_t sinks;
};

struct forms {
	size_t n;
	struct form list[FORMS_MAX_SINKS]; /* in the order of their first sink */
};

/** forms_same - whether two sinks share their lines */
bool forms_same(const struct config_sink *a, const struct config_sink *b);

/** forms_make - the forms of @n sinks; the bit of each in a set of sinks is its index */
void forms_make(struct forms *forms, const struct config_sink *sinks, size_t n);

#endif
