/*
 * YAML text to a tree, from libyaml's events.
 *
 * libyaml's own document loader is not used: it hides where keys are, accepts
 * duplicates, and does not bound what aliases expand to. Every node costs its
 * weight when it is read and again each time an alias or a merge key brings it
 * in; the reading ends where TREE_MAX_WEIGHT is spent.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "text.h"
#include "tree_internal.h"

struct anchor {
	const char *name;
	const struct node *node;
};

/* A list or map whose end has not been read yet. */
struct frame {
	struct node *node;
	const struct node **items; /* of a map: key, value, key, value ... */
	size_t n, room;
};

struct reader {
	struct tree *tree;
	struct errors *errors;
	const char *file;
	struct frame frames[TREE_MAX_DEPTH];
	unsigned depth;
	unsigned documents;
	const struct node *root;
	struct anchor *anchors; /* [TREE_MAX_ANCHORS] */
	size_t nanchors;
};

static struct mark mark_of(const struct reader *r, const yaml_mark_t *m)
{
	return (struct mark){.file = r->file, .line = m->line + 1, .column = m->column + 1};
}

/* ---- limits ---- */

static int spend(struct reader *r, const struct mark *mark, unsigned weight)
{
	unsigned *spent = tree_spent(r->tree);

	if (weight > TREE_MAX_WEIGHT - *spent) {
		errors_add(r->errors, mark,
			   "more than %u values up to here, aliases and merges written out: too large",
			   TREE_MAX_WEIGHT);
		return -EINVAL;
	}
	*spent += weight;
	return 0;
}

static int check_depth(struct reader *r, const struct mark *mark, unsigned height)
{
	if (r->depth + height < TREE_MAX_DEPTH)
		return 0;
	errors_add(r->errors, mark, "nested more than %u levels deep", TREE_MAX_DEPTH);
	return -EINVAL;
}

/* ---- putting nodes where they belong ---- */

static int frame_push(struct reader *r, struct frame *f, const struct node *node)
{
	bool is_map = f->node->kind == NODE_MAP;

	if (f->n == (is_map ? 2 * TREE_MAX_KEYS : TREE_MAX_ITEMS)) {
		errors_add(r->errors, &node->mark, "more than %u %s", is_map ? TREE_MAX_KEYS : TREE_MAX_ITEMS,
			   is_map ? "keys in one map" : "items in one list");
		return -EINVAL;
	}
	if (f->n == f->room) {
		size_t room = f->room ? f->room * 2 : 16;
		const struct node **items = reallocarray(f->items, room, sizeof(const struct node *));

		if (!items)
			return -ENOMEM;
		f->items = items;
		f->room = room;
	}
	f->items[f->n++] = node;
	return 0;
}

static int place(struct reader *r, const struct node *node)
{
	if (r->depth)
		return frame_push(r, &r->frames[r->depth - 1], node);
	r->root = node;
	return 0;
}

static int open_frame(struct reader *r, struct node *node)
{
	int err = check_depth(r, &node->mark, 0);

	if (err)
		return err;
	r->frames[r->depth++] = (struct frame){.node = node};
	return 0;
}

/* ---- anchors ---- */

/* The name can be given anew: the last one counts. */
static struct anchor *anchor_find(struct reader *r, const char *name)
{
	for (size_t i = 0; i < r->nanchors; i++)
		if (!strcmp(r->anchors[i].name, name))
			return &r->anchors[i];
	return NULL;
}

static int anchor_set(struct reader *r, const yaml_char_t *name, const struct node *node)
{
	struct anchor *a;

	if (!name)
		return 0;
	a = anchor_find(r, (const char *)name);
	if (a) {
		a->node = node;
		return 0;
	}
	if (r->nanchors == TREE_MAX_ANCHORS) {
		errors_add(r->errors, &node->mark, "more than %u anchors", TREE_MAX_ANCHORS);
		return -EINVAL;
	}
	a = &r->anchors[r->nanchors];
	a->name = tree_text(r->tree, (const char *)name, strlen((const char *)name));
	if (!a->name)
		return -ENOMEM;
	a->node = node;
	r->nanchors++;
	return 0;
}

/* ---- maps ---- */

static bool is_merge(const struct node *key)
{
	return key->plain && !strcmp(key->text, "<<");
}

static const struct node_entry *entry_find(const struct node_entry *entries, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(entries[i].key->text, key))
			return &entries[i];
	return NULL;
}

/* The keys that the map itself has; merged ones come after them. */
static size_t own_entries(struct reader *r, const struct frame *f, struct node_entry *entries)
{
	size_t n = 0;

	for (size_t i = 0; i + 1 < f->n; i += 2) {
		const struct node *key = f->items[i];
		const struct node_entry *first;

		if (key->kind != NODE_SCALAR) {
			errors_add(r->errors, &key->mark, "a key must be a word, not %s", node_what(key));
			continue;
		}
		if (is_merge(key))
			continue;
		first = entry_find(entries, n, key->text);
		if (first) {
			errors_add(r->errors, &key->mark, "duplicate key %s; it is in line %u already",
				   QUOTE(key->text), first->key->mark.line);
			continue;
		}
		entries[n++] = (struct node_entry){.key = key, .value = f->items[i + 1]};
	}
	return n;
}

/* A map, or a list of maps of which the earlier ones win (YAML's merge key, yaml.org/type/merge.html). */
static const struct node *merge_source(const struct node *value, size_t i)
{
	const struct node *source = NULL;

	if (value->kind == NODE_MAP && i == 0)
		source = value;
	else if (value->kind == NODE_LIST && i < value->n)
		source = value->items[i];
	return source && source->kind == NODE_MAP ? source : NULL;
}

/* How many maps a merge key brings, or -EINVAL. */
static int merge_count(struct reader *r, const struct node *value)
{
	size_t n = value->kind == NODE_LIST ? value->n : 1;

	for (size_t i = 0; i < n; i++)
		if (!merge_source(value, i)) {
			errors_add(r->errors, &value->mark,
				   "<< wants a map or a list of maps, mostly as an alias");
			return -EINVAL;
		}
	return n;
}

static int merge(struct reader *r, const struct node *source, struct node_entry *entries, size_t *n)
{
	for (size_t i = 0; i < source->n; i++) {
		const struct node_entry *e = &source->entries[i];
		int err;

		if (entry_find(entries, *n, e->key->text))
			continue;
		err = spend(r, &e->key->mark, e->value->weight + 1);
		if (err)
			return err;
		if (*n == TREE_MAX_KEYS) {
			errors_add(r->errors, &source->mark, "more than %u keys in one map", TREE_MAX_KEYS);
			return -EINVAL;
		}
		entries[(*n)++] = *e;
	}
	return 0;
}

static int merged_entries(struct reader *r, const struct frame *f, struct node_entry *entries, size_t *n)
{
	for (size_t i = 0; i + 1 < f->n; i += 2) {
		const struct node *value = f->items[i + 1];
		int sources;

		if (f->items[i]->kind != NODE_SCALAR || !is_merge(f->items[i]))
			continue;
		sources = merge_count(r, value);
		for (int k = 0; k < sources; k++) {
			int err = merge(r, merge_source(value, k), entries, n);

			if (err)
				return err;
		}
	}
	return 0;
}

static int close_map(struct reader *r, const struct frame *f)
{
	struct node_entry entries[TREE_MAX_KEYS];
	struct node_entry *kept;
	size_t n;
	int err;

	n = own_entries(r, f, entries);
	err = merged_entries(r, f, entries, &n);
	kept = err ? NULL : tree_alloc(r->tree, n * sizeof(*kept));
	if (!err && !kept)
		err = -ENOMEM;
	for (size_t i = 0; !err && i < n; i++) {
		kept[i] = entries[i];
		node_adopt(f->node, entries[i].key);
		node_adopt(f->node, entries[i].value);
	}
	f->node->entries = kept;
	f->node->n = n;
	return err;
}

static int close_list(struct reader *r, const struct frame *f)
{
	const struct node **items = tree_alloc(r->tree, f->n * sizeof(const struct node *));

	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < f->n; i++) {
		items[i] = f->items[i];
		node_adopt(f->node, items[i]);
	}
	f->node->items = items;
	f->node->n = f->n;
	return 0;
}

/* ---- events ---- */

static int check_tag(struct reader *r, const struct mark *mark, const yaml_char_t *tag)
{
	if (tag)
		errors_add(r->errors, mark, "tags such as %s are not supported; leave it out",
			   QUOTE((const char *)tag));
	return 0;
}

static int on_document(struct reader *r, const yaml_event_t *event)
{
	struct mark mark = mark_of(r, &event->start_mark);

	if (!r->documents++)
		return 0;
	errors_add(r->errors, &mark, "a second document begins here; a configuration is one document");
	return -EINVAL;
}

static int on_scalar(struct reader *r, const yaml_event_t *event)
{
	const char *text = (const char *)event->data.scalar.value;
	size_t len = event->data.scalar.length;
	struct mark mark = mark_of(r, &event->start_mark);
	struct node *node;
	int err;

	check_tag(r, &mark, event->data.scalar.tag);
	node = tree_node(r->tree, NODE_SCALAR, &mark);
	if (!node)
		return -ENOMEM;
	node->weight += len / TREE_NODE_BYTES;
	err = spend(r, &mark, node->weight);
	if (err)
		return err;
	/* an escape in double quotes can make one */
	if (memchr(text, '\0', len))
		errors_add(r->errors, &mark, "\\0 cannot be part of a value");
	node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	node->text = tree_text(r->tree, text, len);
	if (!node->text)
		return -ENOMEM;
	err = anchor_set(r, event->data.scalar.anchor, node);
	return err ? err : place(r, node);
}

static int on_start(struct reader *r, enum node_kind kind, const yaml_event_t *event,
		    const yaml_char_t *anchor, const yaml_char_t *tag)
{
	struct mark mark = mark_of(r, &event->start_mark);
	struct node *node;
	int err;

	check_tag(r, &mark, tag);
	err = spend(r, &mark, 1);
	if (err)
		return err;
	node = tree_node(r->tree, kind, &mark);
	if (!node)
		return -ENOMEM;
	node->open = true;
	err = anchor_set(r, anchor, node);
	if (!err)
		err = place(r, node);
	return err ? err : open_frame(r, node);
}

static int on_list(struct reader *r, const yaml_event_t *event)
{
	return on_start(r, NODE_LIST, event, event->data.sequence_start.anchor,
			event->data.sequence_start.tag);
}

static int on_map(struct reader *r, const yaml_event_t *event)
{
	return on_start(r, NODE_MAP, event, event->data.mapping_start.anchor, event->data.mapping_start.tag);
}

static int on_end(struct reader *r, const yaml_event_t *event)
{
	struct frame *f = &r->frames[--r->depth];
	int err = f->node->kind == NODE_MAP ? close_map(r, f) : close_list(r, f);

	f->node->open = false;
	free(f->items);
	f->items = NULL;
	return err;
}

static int on_alias(struct reader *r, const yaml_event_t *event)
{
	const char *name = (const char *)event->data.alias.anchor;
	struct mark mark = mark_of(r, &event->start_mark);
	const struct anchor *a = anchor_find(r, name);
	int err;

	if (!a) {
		errors_add(r->errors, &mark, "alias %s has no anchor of that name before it", QUOTE(name));
		return -EINVAL;
	}
	if (a->node->open) {
		errors_add(r->errors, &mark, "alias %s lies inside of what it stands for", QUOTE(name));
		return -EINVAL;
	}
	err = spend(r, &mark, a->node->weight);
	if (!err)
		err = check_depth(r, &mark, a->node->height);
	return err ? err : place(r, a->node);
}

static int (*const handlers[])(struct reader *, const yaml_event_t *) = {
	[YAML_DOCUMENT_START_EVENT] = on_document, [YAML_ALIAS_EVENT] = on_alias,
	[YAML_SCALAR_EVENT] = on_scalar,           [YAML_SEQUENCE_START_EVENT] = on_list,
	[YAML_SEQUENCE_END_EVENT] = on_end,        [YAML_MAPPING_START_EVENT] = on_map,
	[YAML_MAPPING_END_EVENT] = on_end,
};

#define NHANDLERS (sizeof(handlers) / sizeof(handlers[0]))

/* ---- the reading ---- */

/* libyaml's marks count characters. */
static char character_at(const char *text, size_t len, const yaml_mark_t *mark)
{
	const char *end = text + len, *at = text;

	for (size_t line = 0; at && line < mark->line; line++) {
		at = memchr(at, '\n', end - at);
		at = at ? at + 1 : NULL;
	}
	for (size_t column = 0; at && at < end && column < mark->column; column++)
		at += text_character(at, end - at);
	return at && at < end ? *at : '\0';
}

static int not_yaml(struct reader *r, const yaml_parser_t *parser, const char *text, size_t len)
{
	struct mark mark = mark_of(r, &parser->problem_mark);
	const char *problem = parser->problem ? parser->problem : "out of memory";

	if (parser->error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	if (character_at(text, len, &parser->problem_mark) == '\t')
		errors_add(r->errors, &mark, "not YAML: a tab cannot indent; use spaces");
	else if (parser->context)
		errors_add(r->errors, &mark, "not YAML: %s (%s, from line %zu on)", problem, parser->context,
			   parser->context_mark.line + 1);
	else
		errors_add(r->errors, &mark, "not YAML: %s", problem);
	return -EINVAL;
}

static int read_events(struct reader *r, yaml_parser_t *parser, const char *text, size_t len)
{
	bool done = false;
	int err = 0;

	while (!err && !done) {
		yaml_event_t event;

		if (!yaml_parser_parse(parser, &event))
			return not_yaml(r, parser, text, len);
		if (event.type < NHANDLERS && handlers[event.type])
			err = handlers[event.type](r, &event);
		done = event.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&event);
	}
	return err;
}

int tree_read(struct tree *tree, const char *text, size_t len, const struct mark *mark, struct errors *errors,
	      const struct node **ret_root)
{
	struct reader r = {.tree = tree, .errors = errors, .file = mark->file};
	yaml_parser_t parser;
	int err;

	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	r.anchors = calloc(TREE_MAX_ANCHORS, sizeof(*r.anchors));
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	err = r.anchors ? read_events(&r, &parser, text, len) : -ENOMEM;
	while (r.depth)
		free(r.frames[--r.depth].items);
	free(r.anchors);
	yaml_parser_delete(&parser);
	if (err)
		return err;
	*ret_root = r.root && node_is_null(r.root) ? NULL : r.root;
	return 0;
}
