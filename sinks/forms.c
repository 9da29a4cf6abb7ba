/* Which sinks share their lines. */
#include "forms.h"

#include <string.h>

static bool same_fields(const struct config_fields *a, const struct config_fields *b)
{
	for (size_t i = 0; a->n == b->n && i < a->n; i++)
		if (strcmp(a->list[i].name, b->list[i].name) || strcmp(a->list[i].value, b->list[i].value))
			return false;
	return a->n == b->n;
}

static bool same_strings(const struct config_strings *a, const struct config_strings *b)
{
	for (size_t i = 0; a->n == b->n && i < a->n; i++)
		if (strcmp(a->list[i], b->list[i]))
			return false;
	return a->n == b->n;
}

bool forms_same(const struct config_sink *a, const struct config_sink *b)
{
	return !strcmp(a->format, b->format) && a->fields.args == b->fields.args &&
	       a->fields.only == b->fields.only && a->fields.drop == b->fields.drop &&
	       same_fields(&a->fields.rename, &b->fields.rename) &&
	       same_strings(&a->fields.redact, &b->fields.redact);
}

static struct form *form_of(struct forms *forms, const struct config_sink *sink)
{
	for (size_t i = 0; i < forms->n; i++)
		if (forms_same(forms->list[i].config, sink))
			return &forms->list[i];
	forms->list[forms->n] = (struct form){.config = sink};
	return &forms->list[forms->n++];
}

void forms_make(struct forms *forms, const struct config_sink *sinks, size_t n)
{
	forms->n = 0;
	for (size_t i = 0; i < n; i++)
		form_of(forms, &sinks[i])->sinks |= 1ull << i;
}
