/*
 * The differences of two configurations, key by key.
 *
 * Both are written as YAML and read again as trees: what is printed is what is
 * compared, whatever types the keys have.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emit.h"
#include "internal.h"
#include "tree.h"
#include "types.h"

#include "../sinks/sink.h"

#define MAX_PATH 512
#define ABSENT   "(none)"

static int to_tree(struct tree *tree, const struct config *config, const struct node **ret_root)
{
	const struct mark mark = {.file = "configuration"};
	struct errors errors = {0};
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	int err;

	if (!out)
		return -ENOMEM;
	err = config_emit(config, true, out);
	if (fclose(out) && !err)
		err = -ENOMEM;
	if (!err && tree_read(tree, text, len, &mark, &errors, ret_root))
		err = -EIO;
	errors_clear(&errors);
	if (text)
		explicit_bzero(text, len);
	free(text);
	return err;
}

/* ---- values ---- */

static void write_text(const char *text, FILE *out)
{
	static const char special[] = " ,:{}[]\"'#&*!|>%@`\\";

	if (*text == EMIT_REVEALED) {
		fputs(EMIT_SECRET, out);
		return;
	}
	if (*text && !strpbrk(text, special)) {
		for (const char *s = text; *s; s++)
			fputc((unsigned char)*s < ' ' ? '?' : *s, out);
		return;
	}
	fputc('"', out);
	for (const char *s = text; *s; s++) {
		if (*s == '"' || *s == '\\')
			fputc('\\', out);
		fputc((unsigned char)*s < ' ' ? '?' : *s, out);
	}
	fputc('"', out);
}

static void write_value(const struct node *node, FILE *out);

/* Of what has a type, such as a sink, nobody wants to read every default. */
static void write_map(const struct node *map, FILE *out)
{
	const struct node *type = node_get(map, "type");

	if (type) {
		fputs("{type: ", out);
		write_value(type, out);
		fputs(", ...}", out);
		return;
	}
	fputc('{', out);
	for (size_t i = 0; i < map->n; i++) {
		fprintf(out, "%s%s: ", i ? ", " : "", map->entries[i].key->text);
		write_value(map->entries[i].value, out);
	}
	fputc('}', out);
}

static void write_value(const struct node *node, FILE *out)
{
	if (!node) {
		fputs(ABSENT, out);
	} else if (node->kind == NODE_SCALAR) {
		write_text(node->text, out);
	} else if (node->kind == NODE_MAP) {
		write_map(node, out);
	} else {
		fputc('[', out);
		for (size_t i = 0; i < node->n; i++) {
			fputs(i ? ", " : "", out);
			write_value(node->items[i], out);
		}
		fputc(']', out);
	}
}

/* ---- comparing ---- */

static bool same_list(const struct node *a, const struct node *b)
{
	for (size_t i = 0; i < a->n && i < b->n; i++)
		if (strcmp(a->items[i]->text, b->items[i]->text))
			return false;
	return a->n == b->n;
}

/* Lists that config_print() writes have texts as items. */
static bool same(const struct node *a, const struct node *b)
{
	if (!a || !b || a->kind != b->kind)
		return false;
	return a->kind == NODE_SCALAR ? !strcmp(a->text, b->text) : a->kind == NODE_LIST && same_list(a, b);
}

/* Called for each key that differs; a value that is not there is NULL. */
typedef void (*differ_fn)(void *ctx, const char *path, const struct node *a, const struct node *b);

struct comparing {
	differ_fn fn;
	void *ctx;
};

static void compare(const struct comparing *how, const char *path, const struct node *a,
		    const struct node *b);

static void compare_entry(const struct comparing *how, const char *path, const char *key,
			  const struct node *a, const struct node *b)
{
	char inner[MAX_PATH];

	snprintf(inner, sizeof(inner), "%s%s%s", path, *path ? "." : "", key);
	compare(how, inner, a, b);
}

/* In the order of the first, then what only the second has. */
static void compare_maps(const struct comparing *how, const char *path, const struct node *a,
			 const struct node *b)
{
	for (size_t i = 0; i < a->n; i++) {
		const char *key = a->entries[i].key->text;

		compare_entry(how, path, key, a->entries[i].value, node_get(b, key));
	}
	for (size_t i = 0; i < b->n; i++) {
		const char *key = b->entries[i].key->text;

		if (!node_get(a, key))
			compare_entry(how, path, key, NULL, b->entries[i].value);
	}
}

static bool same_kind(const struct node *a, const struct node *b)
{
	const struct node *t = node_get(a, "type"), *u = node_get(b, "type");

	return a && b && a->kind == NODE_MAP && b->kind == NODE_MAP && (!t || !u || same(t, u));
}

static void compare(const struct comparing *how, const char *path, const struct node *a, const struct node *b)
{
	if (same_kind(a, b))
		compare_maps(how, path, a, b);
	else if (!same(a, b))
		how->fn(how->ctx, path, a, b);
}

/* ---- for people ---- */

static void print_change(void *ctx, const char *path, const struct node *a, const struct node *b)
{
	FILE *out = ctx;

	fprintf(out, "%s: ", path);
	write_value(a, out);
	fputs(" -> ", out);
	write_value(b, out);
	fputc('\n', out);
}

int config_diff(const struct config *a, const struct config *b, FILE *out)
{
	struct tree *tree = tree_new();
	const struct node *first = NULL, *second = NULL;
	int err = tree ? to_tree(tree, a, &first) : -ENOMEM;

	if (!err)
		err = to_tree(tree, b, &second);
	if (!err)
		compare(&(struct comparing){print_change, out}, "", first, second);
	tree_free(tree);
	return err ? err : ferror(out) ? -EIO : 0;
}

/* ---- for a running cudatap ---- */

/* One configuration on its way into the place of another. */
struct advancing {
	const struct config *old;
	struct config *config;
	const struct node *old_root, *root;
	struct config_changes *changes;
	int err;
};

/* NULL for nothing, and when out of memory. */
static char *value_text(const struct node *node)
{
	char *text = NULL;
	size_t len;
	FILE *out = node ? open_memstream(&text, &len) : NULL;

	if (!out)
		return NULL;
	write_value(node, out);
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}

/* The key that a path leads to; maps of free names, such as sinks, are keys themselves. */
static const struct key *key_at(const char *path)
{
	const struct key *keys = config_keys, *key = NULL;
	size_t len;

	for (; keys; path += len + (path[len] == '.')) {
		len = strcspn(path, ".");
		for (key = keys; key->name; key++)
			if (strlen(key->name) == len && !strncmp(key->name, path, len))
				break;
		keys = key->name ? key->children : NULL;
	}
	return key && key->name ? key : NULL;
}

/* The old value takes the place of the new one. */
static void keep_old(struct advancing *a, const struct key *key, const struct node *old)
{
	struct errors errors = {0};
	struct tree *tree = tree_new();
	const struct mark mark = {.file = "configuration"};

	if (tree && !old)
		old = tree_scalar(tree, key->fallback ? key->fallback : "", &mark);
	if (tree && old)
		key_read(key, old, a->config, &errors);
	if (!tree || !old || errors.total)
		a->err = -ENOMEM;
	errors_clear(&errors);
	tree_free(tree);
}

static void note_change(void *ctx, const char *path, const struct node *old, const struct node *new)
{
	struct advancing *a = ctx;
	struct config_changes *changes = a->changes;
	struct config_change *list = reallocarray(changes->list, changes->n + 1, sizeof(*list)), *change;
	const struct key *key = key_at(path);

	if (!list) {
		a->err = -ENOMEM;
		return;
	}
	changes->list = list;
	change = &list[changes->n++];
	*change = (struct config_change){strdup(path), value_text(old), value_text(new),
					 key && key->flags & KEY_AT_START};
	if (!change->path || (old && !change->from) || (new && !change->to))
		a->err = -ENOMEM;
	if (change->at_start)
		keep_old(a, key, old);
}

static void note_other(void *ctx, const char *path, const struct node *old, const struct node *new)
{
	/* which lines a sink gets is none of its own business */
	static const char *const others[] = {"filter", "fields", "rate_limit", "allow_stall"};
	bool *same = ctx;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		size_t len = strlen(others[i]);

		if (!strncmp(path, others[i], len) && (!path[len] || path[len] == '.'))
			return;
	}
	*same = false;
}

static bool same_sink(const struct advancing *a, const struct config_sink *sink)
{
	const struct node *old = node_get(node_get(a->old_root, "sinks"), sink->name);
	const struct node *new = node_get(node_get(a->root, "sinks"), sink->name);
	bool same = old != NULL;

	/* what it says of the host it has from the beginning */
	if (sink->ops->origin && strcmp(a->old->host, a->config->host) != 0)
		return false;
	if (old)
		compare(&(struct comparing){note_other, &same}, "", old, new);
	return same;
}

int config_advance(const struct config *old, struct config *config, struct config_changes *ret_changes)
{
	struct advancing a = {.old = old, .config = config, .changes = ret_changes};
	struct tree *tree = tree_new();

	*ret_changes = (struct config_changes){.same_sink = calloc(config->nsinks + 1, sizeof(bool))};
	a.err = tree && ret_changes->same_sink ? to_tree(tree, old, &a.old_root) : -ENOMEM;
	if (!a.err)
		a.err = to_tree(tree, config, &a.root);
	if (!a.err) {
		compare(&(struct comparing){note_change, &a}, "", a.old_root, a.root);
		for (size_t i = 0; i < config->nsinks; i++)
			ret_changes->same_sink[i] = same_sink(&a, &config->sinks[i]);
	}
	tree_free(tree);
	if (a.err)
		config_changes_free(ret_changes);
	return a.err;
}

void config_changes_free(struct config_changes *changes)
{
	for (size_t i = 0; i < changes->n; i++) {
		free(changes->list[i].path);
		free(changes->list[i].from);
		free(changes->list[i].to);
	}
	free(changes->list);
	free(changes->same_sink);
	*changes = (struct config_changes){0};
}
