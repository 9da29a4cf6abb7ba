/* Puts environment variables into the scalars of a tree. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "tree_internal.h"
#include "variables.h"

#define MAX_NAME 128

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

/* One scalar in the making. */
struct expansion {
	struct variables *variables;
	const struct node *node;
	struct errors *errors;
	char *text;
	size_t len, room;
	bool unset, failed;
	int err; /* -ENOMEM */
};

static void fail(struct expansion *x)
{
	x->failed = true;
}

static void append(struct expansion *x, const char *text, size_t len)
{
	if (!x->text || x->len + len + 1 > x->room) {
		size_t room = (x->len + len + 1) * 2;
		char *larger = realloc(x->text, room);

		if (!larger) {
			x->err = -ENOMEM;
			return;
		}
		x->text = larger;
		x->room = room;
	}
	if (len)
		memcpy(x->text + x->len, text, len);
	x->len += len;
	x->text[x->len] = '\0';
}

/* A little would be enough for any value; a lot is an accident or an attack. */
static bool spend(struct expansion *x, size_t len)
{
	struct variables *v = x->variables;

	if (len <= VARIABLES_MAX_BYTES - v->bytes) {
		v->bytes += len;
		return true;
	}
	if (!v->too_many)
		errors_add(x->errors, &x->node->mark, "more than %u KiB from variables up to here: too large",
			   VARIABLES_MAX_BYTES >> 10);
	v->too_many = true;
	return false;
}

/* @fallback: what stands behind ":-", or NULL */
static void put_variable(struct expansion *x, const char *name, const char *fallback, size_t fallback_len)
{
	const char *value = getenv(name);
	size_t len = value ? strlen(value) : 0;

	if (fallback && !len) {
		append(x, fallback, fallback_len);
	} else if (!value) {
		x->unset = true;
		if (!x->errors->elsewhere)
			errors_add(x->errors, &x->node->mark,
				   "variable %s is not set; set it, or give a default: ${%.80s:-DEFAULT}",
				   QUOTE(name), name);
	} else if (!spend(x, len)) {
		fail(x);
	} else if (!text_is_clean(value, len)) {
		errors_add(x->errors, &x->node->mark, "the value of variable %s is not text (UTF-8)",
			   QUOTE(name));
		fail(x);
	} else {
		append(x, value, len);
	}
}

static void wrong(struct expansion *x, const char *what, const char *at)
{
	errors_add(x->errors, &x->node->mark, "%s in %s; write ${NAME}, ${NAME:-DEFAULT}, or $${ for \"${\"",
		   what, QUOTE(at));
	fail(x);
}

/* @at: behind "${". Returns what comes behind the "}", or NULL after a message. */
static const char *reference(struct expansion *x, const char *at)
{
	const char *end = strchr(at, '}'), *fallback = NULL;
	size_t len = strspn(at, letters);
	char name[MAX_NAME + 1];

	if (!end)
		wrong(x, "\"}\" is missing", at - 2);
	else if (!len || len > MAX_NAME || strchr("0123456789", *at))
		wrong(x, "no name of a variable", at - 2);
	else if (at[len] == ':' && at[len + 1] == '-')
		fallback = at + len + 2;
	else if (at + len != end)
		wrong(x, "more than a name", at - 2);
	if (!x->failed && fallback && memmem(fallback, end - fallback, "${", 2))
		wrong(x, "a variable inside of a default", at - 2);
	if (x->failed)
		return NULL;
	memcpy(name, at, len);
	name[len] = '\0';
	put_variable(x, name, fallback, fallback ? end - fallback : 0);
	return end + 1;
}

static void expand(struct expansion *x)
{
	const char *at = x->node->text;

	while (at && !x->failed && !x->err) {
		const char *next = strstr(at, "${");

		append(x, at, next ? (size_t)(next - at) : strlen(at));
		if (!next)
			break;
		if (next > at && next[-1] == '$') {
			/* of "$${" the first "$" is in already */
			append(x, "{", 1);
			at = next + 2;
		} else {
			at = reference(x, next + 2);
		}
	}
}

static const struct node *expand_scalar(struct variables *variables, struct tree *tree,
					const struct node *node, struct errors *errors)
{
	struct expansion x = {.variables = variables, .node = node, .errors = errors};
	struct node *made = NULL;

	if (!strstr(node->text, "${"))
		return node;
	expand(&x);
	if (!x.err)
		made = tree_node(tree, NODE_SCALAR, &node->mark);
	if (made) {
		made->plain = true;
		made->variable = true;
		/* after a message nobody needs a second one about the value */
		made->unset = x.unset || x.failed;
		made->text = made->unset ? node->text : tree_text(tree, x.text, x.len);
	}
	free(x.text);
	return made && made->text ? made : NULL;
}

static const struct node *expand_list(struct variables *variables, struct tree *tree, const struct node *node,
				      struct errors *errors)
{
	const struct node **items = calloc(node->n ? node->n : 1, sizeof(const struct node *));
	const struct node *made = node;
	bool changed = false, whole = items;

	for (size_t i = 0; whole && i < node->n; i++) {
		items[i] = variables_expand(variables, tree, node->items[i], errors);
		changed |= items[i] != node->items[i];
		whole = items[i];
	}
	if (whole && changed)
		made = tree_list(tree, items, node->n, &node->mark);
	free(items);
	return whole ? made : NULL;
}

static const struct node *expand_map(struct variables *variables, struct tree *tree, const struct node *node,
				     struct errors *errors)
{
	struct node_entry *entries = calloc(node->n ? node->n : 1, sizeof(*entries));
	const struct node *made = node;
	bool changed = false, whole = entries;

	for (size_t i = 0; whole && i < node->n; i++) {
		const struct node *value = variables_expand(variables, tree, node->entries[i].value, errors);

		entries[i] = (struct node_entry){node->entries[i].key, value};
		changed |= value != node->entries[i].value;
		whole = value;
	}
	if (whole && changed)
		made = tree_map(tree, entries, node->n, &node->mark);
	free(entries);
	return whole ? made : NULL;
}

const struct node *variables_expand(struct variables *variables, struct tree *tree, const struct node *node,
				    struct errors *errors)
{
	static const struct node *(*const expands[])(struct variables *, struct tree *, const struct node *,
						     struct errors *) = {
		[NODE_SCALAR] = expand_scalar,
		[NODE_LIST] = expand_list,
		[NODE_MAP] = expand_map,
	};

	return expands[node->kind](variables, tree, node, errors);
}
