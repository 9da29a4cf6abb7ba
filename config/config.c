/*
 * From file and command line to a checked configuration.
 *
 * Three layers, each read by the same pass over the key table: the defaults,
 * the file, the command line. A file is text (text.h), then a tree (tree.h),
 * then values (types.h); what combines files works on the trees.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "text.h"
#include "tree.h"
#include "types.h"

#include "../bpf/record.h"

static void out_of_memory(struct errors *errors, const struct mark *mark)
{
	errors_add(errors, mark, "%s", strerror(ENOMEM));
}

/* ---- the file ---- */

static void read_text(struct config *config, const char *text, size_t len, const struct mark *mark,
		      struct errors *errors)
{
	const struct mark start = {.file = mark->file, .line = 1, .column = 1};
	const struct node *root = NULL;
	struct tree *tree;
	int err;

	if (text_check(text, len, &start, errors))
		return;
	tree = tree_new();
	err = tree ? tree_read(tree, text, len, mark, errors, &root) : -ENOMEM;
	if (err == -ENOMEM)
		out_of_memory(errors, mark);
	else if (!err && root && root->kind != NODE_MAP)
		errors_add(errors, &root->mark,
			   "a configuration is a map of keys, such as \"families: all\", not %s",
			   node_what(root));
	else if (!err && root)
		keys_read(&(struct key_set){config_keys, config}, 1, root, errors);
	tree_free(tree);
}

static void read_file(struct config *config, const char *path, const struct mark *mark, struct errors *errors)
{
	char *text;
	size_t len;

	if (text_read(path, mark, errors, &text, &len))
		return;
	read_text(config, text, len, mark, errors);
	free(text);
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
		errors_add(errors, mark, "api, families, include and exclude leave no function to trace");
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
static int load(const char *path, const char *text, size_t len, const struct config_overrides *overrides,
		FILE *out, struct config **ret_config)
{
	struct mark mark = {.file = path ? path : "configuration"};
	struct config *config = calloc(1, sizeof(*config));
	struct errors errors = {0};

	if (!strcmp(mark.file, "-"))
		mark.file = "stdin";
	if (config) {
		keys_defaults(&(struct key_set){config_keys, config}, 1, &errors);
		if (text)
			read_text(config, text, len, &mark, &errors);
		else if (path)
			read_file(config, path, &mark, &errors);
		overrides_apply(config, overrides, &errors);
		complete(config, &mark, &errors);
	} else {
		out_of_memory(&errors, &mark);
	}
	if (conclude(&errors, out)) {
		config_free(config);
		return -EINVAL;
	}
	*ret_config = config;
	return 0;
}

int config_load(const char *path, const struct config_overrides *overrides, FILE *errors,
		struct config **ret_config)
{
	return load(path, NULL, 0, overrides, errors, ret_config);
}

int config_load_text(const char *name, const char *text, size_t len, const struct config_overrides *overrides,
		     FILE *out, struct config **ret_config)
{
	return load(name, text, len, overrides, out, ret_config);
}

void config_free(struct config *config)
{
	if (!config)
		return;
	keys_free(&(struct key_set){config_keys, config}, 1);
	free(config);
}

int config_print(const struct config *config, FILE *out)
{
	struct emit *emit = emit_new(out);

	if (!emit)
		return -ENOMEM;
	emit_map(emit);
	keys_print(&(struct key_set){config_keys, (void *)config}, 1, emit);
	emit_map_end(emit);
	return emit_free(emit);
}
