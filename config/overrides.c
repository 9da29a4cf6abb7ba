/* What the command line says, over what the file says. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "text.h"
#include "tree.h"
#include "types.h"

#include "../sinks/fanout.h"
#include "../sinks/sink.h"

#define MAX_WORDS 256 /* of one option */

static void out_of_memory(const struct mark *mark, struct errors *errors)
{
	errors_add(errors, mark, "%s", strerror(ENOMEM));
}

/* Reads a top-level key, or one of a top-level map, as if the file had it. */
static void apply(struct config *config, const char *map, const char *name, const struct node *value,
		  struct errors *errors)
{
	for (const struct key *k = config_keys; k->name; k++) {
		if (strcmp(k->name, map ? map : name))
			continue;
		for (const struct key *child = k->children; map && child->name; child++)
			if (!strcmp(child->name, name))
				key_read(child, value, config, errors);
		if (!map)
			key_read(k, value, config, errors);
	}
}

/* ---- -f ---- */

/* "memory,launch" as a list; an empty word is a mistake that the key's type tells. */
static const struct node *split(struct tree *tree, const char *words, const struct mark *mark)
{
	const struct node *items[MAX_WORDS];
	char *copy = strdup(words), *rest = copy, *word;
	bool whole = copy;
	size_t n = 0;

	while (whole && n < MAX_WORDS && (word = strsep(&rest, ","))) {
		items[n] = tree_scalar(tree, word, mark);
		whole = items[n++];
	}
	free(copy);
	return whole ? tree_list(tree, items, n, mark) : NULL;
}

static void apply_families(struct config *config, struct tree *tree, const char *words, struct errors *errors)
{
	static const struct mark mark = {.file = "-f"};
	const struct node *list;

	if (!words)
		return;
	list = split(tree, words, &mark);
	if (list)
		apply(config, NULL, "families", list, errors);
	else
		out_of_memory(&mark, errors);
}

/* ---- -p ---- */

static void apply_pids(struct config *config, struct tree *tree, const pid_t *pids, size_t n,
		       struct errors *errors)
{
	static const struct mark mark = {.file = "-p"};
	const struct node **items;
	const struct node *list = NULL;
	size_t made = 0;
	char text[16];

	if (!n)
		return;
	items = calloc(n, sizeof(const struct node *));
	for (; items && made < n; made++) {
		snprintf(text, sizeof(text), "%d", pids[made]);
		items[made] = tree_scalar(tree, text, &mark);
		if (!items[made])
			break;
	}
	if (items && made == n)
		list = tree_list(tree, items, n, &mark);
	free(items);
	if (list)
		apply(config, "processes", "pids", list, errors);
	else
		out_of_memory(&mark, errors);
}

/* ---- -o ---- */

static void unknown_url(const char *url, const struct mark *mark, struct errors *errors)
{
	char known[256] = "";
	size_t used = 0;

	for (size_t i = 0; sink_kinds[i] && used < sizeof(known); i++)
		if (sink_kinds[i]->from_url)
			used += snprintf(known + used, sizeof(known) - used, "%s%s", used ? ", " : "",
					 sink_kinds[i]->urls);
	errors_add(errors, mark, "unknown kind of sink %s; known: %s; for a file of that name, write ./%.80s",
		   QUOTE(url), known, url);
}

/* stdout, stdout2, ... */
static char *sink_name(const struct config *config)
{
	const char *type = config->sinks[config->nsinks - 1].ops->type;
	unsigned nth = 0;
	char *name;

	for (size_t i = 0; i < config->nsinks; i++)
		nth += config->sinks[i].ops == config->sinks[config->nsinks - 1].ops;
	if (nth == 1)
		return strdup(type);
	return asprintf(&name, "%s%u", type, nth) < 0 ? NULL : name;
}

/* Returns 0 when the kind took the URL, -ENOENT when it is not its kind, another error after a message. */
static int try_kind(struct config *config, const struct sink_ops *ops, const char *url,
		    const struct mark *mark, struct errors *errors)
{
	struct config_sink *sink;
	char why[256] = "";
	int err;

	if (!ops->from_url)
		return -ENOENT;
	sink = sinks_add(config, ops, errors);
	if (!sink) {
		out_of_memory(mark, errors);
		return -ENOMEM;
	}
	err = ops->from_url(url, sink->options, why, sizeof(why));
	if (!err && ops->check)
		err = ops->check(sink->options, why, sizeof(why));
	if (err == -ENOENT) {
		sinks_drop_last(config);
		return err;
	}
	sink->name = sink_name(config);
	if (err)
		errors_add(errors, mark, "%s: %s", QUOTE(url), *why ? why : strerror(-err));
	else if (!sink->name)
		out_of_memory(mark, errors);
	return err;
}

static void apply_sink(struct config *config, const char *url, const struct mark *mark, struct errors *errors)
{
	int err = -ENOENT;

	if (text_check(url, strlen(url), mark, errors))
		return;
	for (size_t i = 0; sink_kinds[i] && err == -ENOENT; i++)
		err = try_kind(config, sink_kinds[i], url, mark, errors);
	if (err == -ENOENT)
		unknown_url(url, mark, errors);
}

static void apply_sinks(struct config *config, const char *const *urls, size_t n, struct errors *errors)
{
	static const struct mark mark = {.file = "-o"};

	if (!n)
		return;
	sinks_free(config);
	if (n > FANOUT_MAX_SINKS)
		errors_add(errors, &mark, "at most %d sinks", FANOUT_MAX_SINKS);
	for (size_t i = 0; i < n && i < FANOUT_MAX_SINKS; i++)
		apply_sink(config, urls[i], &mark, errors);
}

void overrides_apply(struct config *config, const struct config_overrides *overrides, struct errors *errors)
{
	static const struct mark mark = {.file = "command line"};
	struct tree *tree;

	if (!overrides)
		return;
	tree = tree_new();
	if (!tree) {
		out_of_memory(&mark, errors);
		return;
	}
	apply_families(config, tree, overrides->families, errors);
	apply_pids(config, tree, overrides->pids, overrides->npids, errors);
	apply_sinks(config, overrides->sinks, overrides->nsinks, errors);
	tree_free(tree);
}
