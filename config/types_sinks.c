/* Key types of sinks: their map by name, and the word that says of what kind one is. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "internal.h"
#include "types_list.h"

#include "../sinks/fanout.h"
#include "../sinks/sink.h"

#define MAX_KINDS     32
#define MAX_SINK_NAME 64

static struct hint hint_kind(const char *word)
{
	const char *names[MAX_KINDS];
	size_t n = 0;

	for (; n < MAX_KINDS && sink_kinds[n]; n++)
		names[n] = sink_kinds[n]->type;
	return hint_word(word, names, n);
}

static json_t *kinds_schema(const struct key *key)
{
	json_t *list = json_array();

	for (size_t i = 0; sink_kinds[i]; i++)
		json_array_append_new(list, json_string(sink_kinds[i]->type));
	return json_pack("{s:o}", "enum", list);
}

/* ---- sink kind ---- */

static void kind_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	const struct sink_ops *ops = sink_kind(node->text);

	if (ops)
		*(const struct sink_ops **)key_value(key, base) = ops;
	else
		errors_add(errors, &node->mark, "unknown sink type %s%s", QUOTE(node->text),
			   hint_kind(node->text).text);
}

static void kind_print(const struct key *key, const void *base, struct emit *emit)
{
	emit_word(emit, (*(const struct sink_ops *const *)key_const_value(key, base))->type);
}

const struct key_type_ops type_sink_kind = {
	.wants = "the name of a kind",
	.shapes = SHAPE(NODE_SCALAR),
	.read = kind_read,
	.print = kind_print,
	.schema = kinds_schema,
};

/* ---- sinks ---- */

static bool name_check(const struct node *name, struct errors *errors)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

	if (*name->text && strlen(name->text) <= MAX_SINK_NAME && !name->text[strspn(name->text, letters)])
		return true;
	errors_add(errors, &name->mark, "%s cannot name a sink: 1 to %d letters, digits, \"_\", \".\", \"-\"",
		   QUOTE(name->text), MAX_SINK_NAME);
	return false;
}

/* Said without a kind: another file or profile brings it, or a variable that is not set here. */
static bool kind_is_elsewhere(const struct node *node, const struct errors *errors)
{
	const struct node *type = node_get(node, "type");

	if (node->kind != NODE_MAP)
		return false;
	return type && !node_is_null(type) ? type->unset : errors->partial;
}

static struct hint hint_sink(const struct node *map, const char *name)
{
	const char *names[FANOUT_MAX_SINKS];
	size_t n = 0;

	for (size_t i = 0; i < map->n && n < FANOUT_MAX_SINKS; i++)
		if (!node_is_null(map->entries[i].value))
			names[n++] = map->entries[i].key->text;
	return hint_word(name, names, n);
}

static const struct sink_ops *kind_of(const struct node *node)
{
	const struct node *type = node_get(node, "type");

	return type && type->kind == NODE_SCALAR ? sink_kind(type->text) : NULL;
}

/* Without a kind nobody knows its keys: only what is wrong with the kind itself is told. */
static void no_kind(const struct node *name, const struct node *node, struct errors *errors)
{
	const struct node *type = node_get(node, "type");
	struct config_sink scratch = {0};

	if (kind_is_elsewhere(node, errors))
		return;
	if (node->kind != NODE_MAP)
		errors_add(errors, &node->mark, "sink %s wants a map such as {type: stdout}, not %s",
			   QUOTE(name->text), node_what(node));
	else if (!type || node_is_null(type))
		errors_add(errors, &node->mark, "sink %s has no \"type\"%s", QUOTE(name->text),
			   hint_kind("").text);
	else
		key_read(&config_sink_keys[0], type, &scratch, errors);
}

/* Bounds of a spool that is not there: its path was forgotten. `cudatap check` prints the default one. */
static void check_spool(const struct config_sink *sink, const struct node *node, struct errors *errors)
{
	const struct node *spool = node_get(node, "spool");

	if (spool && !sink->spool.path && sink->spool.max_bytes != CONFIG_SPOOL_BYTES)
		errors_add(errors, &spool->mark, "sink %s: a spool needs a \"path\"", QUOTE(sink->name));
}

/* Has it what it must have? A mistake that was told of another profile is not counted again in this one, so
 * that no news does not mean no mistakes. */
static bool has_required(const struct config_sink *sink)
{
	for (const struct key *key = sink->ops->keys; key && key->name; key++)
		if (key->required && key->type == KEY_STRING &&
		    !*(char *const *)((const char *)sink->options + key->offset))
			return false;
	return true;
}

static void sink_read(struct config *config, const struct node *name, const struct node *node,
		      struct errors *errors)
{
	const struct sink_ops *ops = kind_of(node);
	struct config_sink *sink;
	struct key_set sets[SINK_KEY_SETS];
	size_t before = errors->total;
	char why[256] = "";

	if (!ops) {
		no_kind(name, node, errors);
		return;
	}
	sink = sinks_add(config, ops, errors);
	if (sink)
		sink->name = strdup(name->text);
	if (!sink || !sink->name) {
		errors_add(errors, &node->mark, "%s", strerror(ENOMEM));
		return;
	}
	keys_read(sets, sink_key_sets(sink, sets), node, errors);
	if (errors->total == before && !errors->partial && !node->unset)
		check_spool(sink, node, errors);
	/* the kind's own check may rely on each value being right */
	if (errors->total == before && !errors->partial && !node->unset && has_required(sink) && ops->check &&
	    ops->check(sink->options, why, sizeof(why)))
		errors_add(errors, &node->mark, "sink %s: %s", QUOTE(name->text), why);
}

/* A sink that stalls the reader stalls all the others. */
static void check_stalls(const struct config *config, const struct node *map, struct errors *errors)
{
	for (size_t i = 0; config->nsinks > 1 && i < config->nsinks; i++) {
		const struct config_sink *sink = &config->sinks[i];
		const struct node *node = node_get(node_get(node_get(map, sink->name), "queue"), "when_full");

		if (sink->queue.when_full == SINK_BLOCK && !sink->allow_stall)
			errors_add(errors, node ? &node->mark : &map->mark,
				   "sink %s: \"when_full: block\" would hold up the other sinks; if you want "
				   "that, add \"allow_stall: true\"",
				   QUOTE(sink->name));
	}
}

static void sinks_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	if (!node->n)
		errors_add(errors, &node->mark, "\"%s\" is empty: events would go nowhere", key->name);
	if (node->n > FANOUT_MAX_SINKS)
		errors_add(errors, &node->mark, "\"%s\" has at most %d sinks", key->name, FANOUT_MAX_SINKS);
	for (size_t i = 0; i < node->n && i < FANOUT_MAX_SINKS; i++) {
		const struct node_entry *e = &node->entries[i];

		/* merging has found nothing of that name */
		if (node_is_null(e->value))
			errors_add(errors, &e->key->mark,
				   "sink %s is nothing, and there is none of that name to remove%s",
				   QUOTE(e->key->text), hint_sink(node, e->key->text).text);
		else if (name_check(e->key, errors))
			sink_read(base, e->key, e->value, errors);
	}
	check_stalls(base, node, errors);
}

static void sinks_print(const struct key *key, const void *base, struct emit *emit)
{
	const struct config *config = base;

	emit_map(emit);
	for (size_t i = 0; i < config->nsinks; i++) {
		struct config_sink *sink = &config->sinks[i];
		struct key_set sets[SINK_KEY_SETS];
		size_t nsets = sink_key_sets(sink, sets);

		emit_text(emit, sink->name);
		emit_map(emit);
		keys_print(sets, nsets, emit);
		emit_map_end(emit);
	}
	emit_map_end(emit);
}

static void type_sinks_free(const struct key *key, void *base)
{
	sinks_free(base);
}

/* Which keys a sink has depends on its type: one schema for each kind. */
static json_t *sinks_schema(const struct key *key)
{
	json_t *kinds = json_array();

	for (size_t i = 0; sink_kinds[i]; i++) {
		const struct key *tables[] = {config_sink_keys, sink_kinds[i]->keys, config_spool_keys};
		json_t *kind = keys_schema(tables, sink_kinds[i]->spools ? 3 : 2);
		json_t *properties = json_object_get(kind, "properties");

		json_object_set_new(properties, "type", json_pack("{s:s}", "const", sink_kinds[i]->type));
		json_object_set_new(kind, "description", json_string(sink_kinds[i]->about));
		json_array_append_new(kinds, kind);
	}
	return json_pack("{s:s, s:{s:s}, s:{s:o}, s:i, s:i}", "type", "object", "propertyNames", "pattern",
			 "^[A-Za-z0-9_.-]{1,64}$", "additionalProperties", "anyOf", kinds, "minProperties", 1,
			 "maxProperties", FANOUT_MAX_SINKS);
}

const struct key_type_ops type_sinks = {
	.wants = "a map of sinks by name",
	.shapes = SHAPE(NODE_MAP),
	.read = sinks_read,
	.print = sinks_print,
	.free = type_sinks_free,
	.schema = sinks_schema,
};
