/*
 * From file and command line to a checked configuration.
 *
 * Three layers, each read by the same pass over the key table: the defaults,
 * the files, the command line. A file is text (text.h), then a tree (tree.h);
 * trees of several files (files.h) and of profiles (profiles.h) are merged into
 * one; variables are put in (variables.h); then it is read as values (types.h).
 * Profiles that are not chosen are read as well, for their mistakes alone.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "internal.h"
#include "profiles.h"
#include "tree.h"
#include "types.h"
#include "variables.h"

#include "../bpf/record.h"

#define MAX_WEIGHT (5u * TREE_MAX_WEIGHT)

static void out_of_memory(struct errors *errors, const struct mark *mark)
{
	errors_add(errors, mark, "%s", strerror(ENOMEM));
}

/* ---- files and profiles ---- */

/* From the files to the configuration. */
struct loading {
	struct config *config;
	const struct config_overrides *overrides;
	struct errors *errors;
	struct tree *tree;
	struct variables variables;
	struct profiles profiles;
	unsigned weight;  /* of all that was read, what profiles are merged over as often as it is */
	struct mark mark; /* of the file, as the user named it */
};

/* Profiles multiply what they are merged over. */
static bool spend(struct loading *l, const struct node *map)
{
	if (map->weight <= MAX_WEIGHT - l->weight) {
		l->weight += map->weight;
		return true;
	}
	errors_add(l->errors, &map->mark,
		   "more than %u values, each profile's with all that it is merged over: too large",
		   MAX_WEIGHT);
	l->weight = MAX_WEIGHT;
	return false;
}

static void read_values(struct loading *l, const struct node *map, struct config *config)
{
	size_t before = l->errors->total;

	keys_read(&(struct key_set){config_keys, config}, 1, map, l->errors);
	if (l->errors->total == before && !l->errors->partial)
		cross_check(config, map, l->errors);
}

/* Reads a map with its variables into @config, which holds the defaults. */
static void read_map(struct loading *l, const struct node *map, struct config *config)
{
	struct tree *scratch;
	const struct node *expanded;

	if (!spend(l, map))
		return;
	scratch = tree_new();
	expanded = scratch ? variables_expand(&l->variables, scratch, map, l->errors) : NULL;
	if (expanded)
		read_values(l, expanded, config);
	else
		out_of_memory(l->errors, &l->mark);
	tree_free(scratch);
}

/* Reads what does not take effect here, for the sake of its mistakes. */
static void read_elsewhere(struct loading *l, const struct node *map, bool partial)
{
	struct config *scratch = calloc(1, sizeof(*scratch));
	bool was_partial = l->errors->partial;

	if (!scratch) {
		out_of_memory(l->errors, &l->mark);
		return;
	}
	l->errors->elsewhere = true;
	l->errors->partial |= partial;
	read_map(l, map, scratch);
	l->errors->elsewhere = false;
	l->errors->partial = was_partial;
	config_free(scratch);
}

static const char *option_name(const struct config_overrides *overrides)
{
	return overrides->option ? overrides->option : "--profile";
}

/* Who chooses a profile: the command line, the environment, the file. Returns its index; -1: nobody does,
 * or -ENOENT after a message. */
static int choose(struct loading *l)
{
	const char *option = l->overrides ? l->overrides->profile : NULL;
	const char *environment = getenv("CUDATAP_PROFILE");
	const struct node *wish = l->profiles.wish;

	if (option)
		return *option ? profiles_find(&l->profiles, option,
					       &(struct mark){.file = option_name(l->overrides)}, l->errors)
			       : -1;
	if (environment && *environment)
		return profiles_find(&l->profiles, environment, &(struct mark){.file = "CUDATAP_PROFILE"},
				     l->errors);
	if (wish && wish->kind != NODE_SCALAR) {
		errors_add(l->errors, &wish->mark, "\"profile\" wants the name of one profile, not %s",
			   node_what(wish));
		return -ENOENT;
	}
	wish = wish ? variables_expand(&l->variables, l->tree, wish, l->errors) : NULL;
	if (!wish || wish->unset)
		return wish ? -ENOENT : -1;
	return profiles_find(&l->profiles, wish->text, &wish->mark, l->errors);
}

/* What it extends comes first, so that each mistake is told of the profile that makes it. */
static void read_profile(struct loading *l, int index, int chosen)
{
	struct profile *profile = &l->profiles.list[index];

	if (profile->read || !profile->whole)
		return;
	profile->read = true;
	if (profile->parent >= 0)
		read_profile(l, profile->parent, chosen);
	l->errors->profile = profile->name->text;
	if (index == chosen)
		read_map(l, profile->whole, l->config);
	else
		read_elsewhere(l, profile->whole, profile->extended);
	l->errors->profile = NULL;
}

/* Mistakes of the base come first and are those of no profile. */
static void read_profiles(struct loading *l, const struct node *root)
{
	struct profiles *p = &l->profiles;
	int chosen = -1;

	if (profiles_read(p, l->tree, root, l->errors)) {
		out_of_memory(l->errors, &l->mark);
		return;
	}
	chosen = choose(l);
	if (chosen == -1)
		read_map(l, p->base, l->config);
	else
		read_elsewhere(l, p->base, true);
	if (chosen >= 0)
		l->config->profile = strdup(p->list[chosen].name->text);
	for (size_t i = 0; i < p->n; i++)
		read_profile(l, i, chosen);
}

static void read_file(struct loading *l, const char *path, const char *text, size_t len)
{
	struct files files = {
		.tree = l->tree,
		.variables = &l->variables,
		.errors = l->errors,
		.names = &l->config->files,
	};
	const struct node *root = NULL;

	/* where a file is missing, what others lack may well be in it */
	l->errors->partial = files_read(&files, path, text, len, &l->mark, &root) != 0;
	if (!root && !l->errors->partial)
		root = tree_map(l->tree, NULL, 0, &l->mark);
	if (root)
		read_profiles(l, root);
	l->errors->partial = false;
}

/* ---- what no single key can tell ---- */

static char *host_name(void)
{
	char name[256] = "";

	if (gethostname(name, sizeof(name) - 1) || !*name)
		return strdup("localhost");
	return strdup(name);
}

static bool selects_something(const struct config *config)
{
	uint8_t *state = malloc(table_nrows ? table_nrows : 1);
	bool found = !state;

	if (state)
		config_select(config, state);
	for (unsigned row = 0; state && row < table_nrows && !found; row++)
		found = state[row] == REC_ROW_ON;
	free(state);
	return found;
}

static void complete(struct config *config, const struct mark *mark, struct errors *errors)
{
	if (!config->host)
		config->host = host_name();
	if (!config->host)
		out_of_memory(errors, mark);
	/* after other errors it would only repeat them */
	if (!errors->total && !selects_something(config))
		errors_add(errors, mark,
			   "api, families, include, exclude and filter leave no function to trace");
}

/* ---- all of it ---- */

/* Prints the errors; returns whether there were any. */
static bool conclude(struct errors *errors, FILE *out)
{
	bool failed = errors->total;

	errors_print(errors, out);
	errors_clear(errors);
	return failed;
}

/* @text NULL: read from @path; both NULL: no file. */
static void load_into(struct loading *l, const char *path, const char *text, size_t len)
{
	l->tree = tree_new();
	if (!l->config || !l->tree) {
		out_of_memory(l->errors, &l->mark);
		return;
	}
	keys_defaults(&(struct key_set){config_keys, l->config}, 1, l->errors);
	if (path || text)
		read_file(l, path, text, len);
	else if (l->overrides && l->overrides->profile && *l->overrides->profile)
		errors_add(l->errors, &(struct mark){.file = option_name(l->overrides)},
			   "profiles are in a file: give one with -c FILE");
	overrides_apply(l->config, l->overrides, l->errors);
	complete(l->config, &l->mark, l->errors);
}

static int load(const char *path, const char *text, size_t len, const struct config_overrides *overrides,
		FILE *out, struct config_strings *paths, struct config **ret_config)
{
	struct errors errors = {.paths = paths};
	struct loading l = {
		.config = calloc(1, sizeof(*l.config)),
		.overrides = overrides,
		.errors = &errors,
		.mark = {.file = path ? path : "configuration"},
	};
	bool failed;

	if (!strcmp(l.mark.file, "-"))
		l.mark.file = "stdin";
	load_into(&l, path, text, len);
	failed = conclude(&errors, out);
	/* messages have borrowed the names of files from it */
	tree_free(l.tree);
	if (failed) {
		config_free(l.config);
		return -EINVAL;
	}
	*ret_config = l.config;
	return 0;
}

int config_load(const char *path, const struct config_overrides *overrides, FILE *errors,
		struct config **ret_config)
{
	return load(path, NULL, 0, overrides, errors, NULL, ret_config);
}

int config_load_watched(const char *path, const struct config_overrides *overrides, FILE *errors,
			struct config_strings *ret_paths, struct config **ret_config)
{
	*ret_paths = (struct config_strings){0};
	return load(path, NULL, 0, overrides, errors, ret_paths, ret_config);
}

int config_load_text(const char *name, const char *text, size_t len, const struct config_overrides *overrides,
		     FILE *out, struct config **ret_config)
{
	return load(name, text, len, overrides, out, NULL, ret_config);
}

void config_strings_free(struct config_strings *strings)
{
	for (size_t i = 0; i < strings->n; i++)
		free(strings->list[i]);
	free(strings->list);
	*strings = (struct config_strings){0};
}

struct config *config_ref(struct config *config)
{
	config->more_refs++;
	return config;
}

void config_free(struct config *config)
{
	if (!config)
		return;
	if (config->more_refs) {
		config->more_refs--;
		return;
	}
	keys_free(&(struct key_set){config_keys, config}, 1);
	config_strings_free(&config->files);
	free(config->profile);
	free(config);
}

int config_emit(const struct config *config, bool reveal, FILE *out)
{
	struct emit *emit = emit_new(out);

	if (!emit)
		return -ENOMEM;
	if (reveal)
		emit_reveal(emit);
	emit_map(emit);
	keys_print(&(struct key_set){config_keys, (void *)config}, 1, emit);
	emit_map_end(emit);
	return emit_free(emit);
}

int config_print(const struct config *config, FILE *out)
{
	if (config->profile)
		fprintf(out, "# profile %s\n", config->profile);
	return config_emit(config, false, out);
}
