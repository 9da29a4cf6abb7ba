/* Key type: how much of what is recorded, by family or function. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "types_list.h"
#include "units.h"

#define MAX_RATES   256
#define MAX_RATE    1000000000
#define MAX_PATTERN 256

static bool names_something(const char *what)
{
	int row = -1;

	return table_family(what) >= 0 || table_next(what, &row);
}

/* A whole number from 1 on, or 0. */
static int64_t rate_number(const struct node *node)
{
	char *end;
	long long n;

	if (node->kind != NODE_SCALAR || !node->plain || !node->text[0] ||
	    node->text[strspn(node->text, "0123456789")])
		return 0;
	errno = 0;
	n = strtoll(node->text, &end, 10);
	return errno || n > MAX_RATE ? 0 : n;
}

static void rate_add(struct config_rates *rates, const struct node_entry *e, struct errors *errors)
{
	const char *nearest = table_nearest_function(e->key->text);
	struct config_rate *list;
	struct config_rate rate = {.n = rate_number(e->value)};

	if (strlen(e->key->text) > MAX_PATTERN || !names_something(e->key->text)) {
		errors_add(errors, &e->key->mark, "%s is no family and matches no function%s%s%s",
			   QUOTE(e->key->text), nearest ? "; did you mean \"" : "", nearest ? nearest : "",
			   nearest ? "\"?" : "");
		return;
	}
	if (!rate.n) {
		errors_add(errors, &e->value->mark, "%s wants a whole number, 1 to %d: one of so many calls",
			   QUOTE(e->key->text), MAX_RATE);
		return;
	}
	rate.what = strdup(e->key->text);
	list = rate.what ? reallocarray(rates->list, rates->n + 1, sizeof(*list)) : NULL;
	if (!list) {
		free(rate.what);
		errors_add(errors, &e->key->mark, "%s", strerror(ENOMEM));
		return;
	}
	rates->list = list;
	list[rates->n++] = rate;
}

static void rates_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	struct config_rates *rates = key_value(key, base);

	if (node->n > MAX_RATES)
		errors_add(errors, &node->mark, "\"%s\" has at most %d lines", key->name, MAX_RATES);
	for (size_t i = 0; i < node->n && i < MAX_RATES; i++)
		if (!node->entries[i].value->unset && !node_is_null(node->entries[i].value))
			rate_add(rates, &node->entries[i], errors);
}

static void rates_print(const struct key *key, const void *base, struct emit *emit)
{
	const struct config_rates *rates = key_const_value(key, base);
	char number[24];

	emit_flow_map(emit);
	for (size_t i = 0; i < rates->n; i++) {
		snprintf(number, sizeof(number), "%lld", (long long)rates->list[i].n);
		emit_text(emit, rates->list[i].what);
		emit_word(emit, number);
	}
	emit_map_end(emit);
}

static void rates_free(const struct key *key, void *base)
{
	struct config_rates *rates = key_value(key, base);

	for (size_t i = 0; i < rates->n; i++)
		free(rates->list[i].what);
	free(rates->list);
	*rates = (struct config_rates){0};
}

static json_t *rates_schema(const struct key *key)
{
	return json_pack("{s:s, s:{s:s, s:i, s:i}, s:i}", "type", "object", "additionalProperties", "type",
			 "integer", "minimum", 1, "maximum", MAX_RATE, "maxProperties", MAX_RATES);
}

const struct key_type_ops type_rates = {
	.wants = "a map of families and functions to numbers",
	.shapes = SHAPE(NODE_MAP),
	.read = rates_read,
	.print = rates_print,
	.free = rates_free,
	.schema = rates_schema,
};
