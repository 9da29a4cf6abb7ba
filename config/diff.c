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

static void compare(const char *path, const struct node *a, const struct node *b, FILE *out);

static void compare_entry(const char *path, const char *key, const struct node *a, const struct node *b,
			  FILE *out)
{
	char inner[MAX_PATH];

	snprintf(inner, sizeof(inner), "%s%s%s", path, *path ? "." : "", key);
	compare(inner, a, b, out);
}

/* In the order of the first, then what only the second has. */
static void compare_maps(const char *path, const struct node *a, const struct node *b, FILE *out)
{
	for (size_t i = 0; i < a->n; i++) {
		const char *key = a->entries[i].key->text;

		compare_entry(path, key, a->entries[i].value, node_get(b, key), out);
	}
	for (size_t i = 0; i < b->n; i++) {
		const char *key = b->entries[i].key->text;

		if (!node_get(a, key))
			compare_entry(path, key, NULL, b->entries[i].value, out);
	}
}

static bool same_kind(const struct node *a, const struct node *b)
{
	const struct node *t = node_get(a, "type"), *u = node_get(b, "type");

	return a && b && a->kind == NODE_MAP && b->kind == NODE_MAP && (!t || !u || same(t, u));
}

static void compare(const char *path, const struct node *a, const struct node *b, FILE *out)
{
	if (same_kind(a, b)) {
		compare_maps(path, a, b, out);
	} else if (!same(a, b)) {
		fprintf(out, "%s: ", path);
		write_value(a, out);
		fputs(" -> ", out);
		write_value(b, out);
		fputc('\n', out);
	}
}

int config_diff(const struct config *a, const struct config *b, FILE *out)
{
	struct tree *tree = tree_new();
	const struct node *first = NULL, *second = NULL;
	int err = tree ? to_tree(tree, a, &first) : -ENOMEM;

	if (!err)
		err = to_tree(tree, b, &second);
	if (!err)
		compare("", first, second, out);
	tree_free(tree);
	return err ? err : ferror(out) ? -EIO : 0;
}
