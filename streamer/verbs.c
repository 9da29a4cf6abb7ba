/* `check`, `list` and `config`: what can be said without tracing. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../bpf/record.h"
#include "encode/encode.h"
#include "find/list.h"
#include "log.h"
#include "verbs.h"

static const char *const api_names[TABLE_NAPIS] = {"runtime", "driver"};

static int load_profile(const struct cli *cli, const char *profile, const char *option,
			struct config **ret_config)
{
	struct config_overrides overrides = cli_overrides(cli);

	overrides.profile = profile;
	overrides.option = option;
	return config_load(cli->config_path, &overrides, stderr, ret_config) ? EXIT_USAGE : 0;
}

static int load(const struct cli *cli, struct config **ret_config)
{
	return load_profile(cli, cli->profile, NULL, ret_config);
}

static int print_diff(const struct cli *cli, const struct config *config)
{
	struct config *other;
	int code = load_profile(cli, cli->diff, "--diff", &other);

	if (code)
		return code;
	printf("# %s -> %s\n", config->profile ? config->profile : "no profile",
	       other->profile ? other->profile : "no profile");
	code = config_diff(config, other, stdout) ? 1 : 0;
	config_free(other);
	return code;
}

int verb_check(const struct cli *cli)
{
	struct config *config;
	int code = load(cli, &config);

	if (code)
		return code;
	if (cli->diff)
		code = print_diff(cli, config);
	else
		code = config_print(config, stdout) ? 1 : 0;
	config_free(config);
	return code;
}

int verb_config(const struct cli *cli)
{
	static const struct {
		const char *name;
		int (*print)(FILE *out);
	} pages[] = {{"reference", config_reference}, {"schema", config_schema}};
	const char *what = cli->verb_args[0];

	for (size_t i = 0; what && i < sizeof(pages) / sizeof(pages[0]); i++)
		if (!strcmp(what, pages[i].name))
			return pages[i].print(stdout) ? 1 : 0;
	log_msg("config %s: choose reference or schema", what ? what : "(nothing)");
	return EXIT_USAGE;
}

/* ---- list ---- */

/* What becomes of a function's calls, by the first bit that its state has. */
static const char *state_word(uint8_t state)
{
	static const struct {
		uint8_t bit;
		const char *word;
	} words[] = {{REC_ROW_ON, "on"}, {REC_ROW_REJECTED, "filtered"}, {REC_ROW_MUTED, "muted"}};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (state & words[i].bit)
			return words[i].word;
	return "off";
}

static void majors_text(unsigned majors, char text[16])
{
	unsigned i, n = 0;

	text[0] = 0;
	for (i = 0; i < 3; i++)
		if (majors & 1u << i)
			n += snprintf(text + n, 16 - n, "%s%u", n ? "," : "", 11 + i);
}

static json_t *parameters(const struct table_row *row)
{
	json_t *list = json_array();
	unsigned i;

	for (i = 0; i < row->nparams; i++) {
		const struct table_param *p = &table_params[row->param + i];

		json_array_append_new(
			list, json_pack("{ss ss}", "name", p->name, "type", table_types[p->type].name));
	}
	return list;
}

static int list_functions(const struct cli *cli, const struct config *config)
{
	uint8_t *state = calloc(table_nrows, 1);
	json_t *all = json_array();
	char majors[16];
	unsigned i;

	if (!state || !all) {
		free(state);
		json_decref(all);
		return 1;
	}
	config_select(config, state);
	if (!cli->json)
		printf("%-8s %-11s %-8s %-8s %s\n", "API", "FAMILY", "CUDA", "STATE", "SYMBOL");
	for (i = 0; i < table_nrows; i++) {
		const struct table_row *row = &table_rows[i];
		const char *family = table_families[row->family].name;

		majors_text(row->majors, majors);
		if (cli->json)
			json_array_append_new(all,
					      json_pack("{ss ss ss ss ss ss so}", "symbol", row->symbol,
							"func", row->func, "api", api_names[row->api],
							"family", family, "cuda", majors, "state",
							state_word(state[i]), "parameters", parameters(row)));
		else
			printf("%-8s %-11s %-8s %-8s %s\n", api_names[row->api], family, majors,
			       state_word(state[i]), row->symbol);
	}
	if (cli->json)
		json_dumpf(all, stdout, JSON_INDENT(1));
	json_decref(all);
	free(state);
	return 0;
}

static int list_families(const struct cli *cli, const struct config *config)
{
	json_t *all = json_array();
	unsigned i;

	if (!cli->json)
		printf("%-11s %-8s %s\n", "FAMILY", "DEFAULT", "ABOUT");
	for (i = 0; i < table_nfamilies; i++) {
		const struct table_family *f = &table_families[i];

		if (cli->json)
			json_array_append_new(all, json_pack("{ss sb ss}", "family", f->name, "default",
							     f->in_default, "about", f->about));
		else
			printf("%-11s %-8s %s\n", f->name, f->in_default ? "yes" : "no", f->about);
	}
	if (cli->json)
		json_dumpf(all, stdout, JSON_INDENT(1));
	json_decref(all);
	return 0;
}

static json_t *library_json(const struct find_library *library)
{
	const struct find_image *image = &library->image;
	json_t *pids = json_array(), *apis = json_array(), *one;
	size_t i;

	for (i = 0; i < library->npids; i++)
		json_array_append_new(pids, json_integer(library->pids[i]));
	one = json_object();
	json_object_set_new(one, "path", encode_string(library->file.path));
	json_object_set_new(one, "pids", pids);
	if (library->error) {
		json_object_set_new(one, "error", json_string(find_error_text(library->error)));
		json_decref(apis);
		return one;
	}
	for (i = 0; i < TABLE_NAPIS; i++)
		if (image->has[i])
			json_array_append_new(apis, json_string(api_names[i]));
	json_object_set_new(one, "api", apis);
	json_object_set_new(one, "static", json_boolean(image->is_static));
	json_object_set_new(one, "major", json_integer(image->major));
	json_object_set_new(one, "functions", json_integer(image->nfunctions));
	json_object_set_new(one, "unknown", json_integer(image->nunknown));
	if (image->build_id)
		json_object_set_new(one, "build_id", json_string(image->build_id));
	return one;
}

static void library_line(const struct find_library *library)
{
	const struct find_image *image = &library->image;
	const char *what = image->has[TABLE_RUNTIME] && image->has[TABLE_DRIVER] ? "both"
			   : image->has[TABLE_RUNTIME]                           ? "runtime"
										 : "driver";

	if (library->error)
		printf("%-8s %-6s %-9s %-9s %s (%s)\n", "-", "-", "-", "-", library->file.path,
		       find_error_text(library->error));
	else
		printf("%-8s %-6u %-9zu %-9zu %s%s\n", what, image->major, image->nfunctions, library->npids,
		       library->file.path, image->is_static ? " (static)" : "");
}

static int named_libraries(const struct config *config, struct find_list *list)
{
	size_t i;

	for (i = 0; i < config->libraries.n; i++)
		if (find_by_glob(config->libraries.list[i], find_list_add_named, list) == -ENOENT)
			log_msg("libraries: %s: no such file", config->libraries.list[i]);
	return config->libraries.n ? 0 : find_host(list);
}

static int list_libraries(const struct cli *cli, const struct config *config)
{
	struct find_list list = {0};
	json_t *all = json_array();
	size_t i;

	if (named_libraries(config, &list))
		return 1;
	if (!cli->json)
		printf("%-8s %-6s %-9s %-9s %s\n", "API", "CUDA", "FUNCTIONS", "PROCESSES", "PATH");
	for (i = 0; i < list.n; i++) {
		if (cli->json)
			json_array_append_new(all, library_json(&list.libraries[i]));
		else
			library_line(&list.libraries[i]);
	}
	if (cli->json)
		json_dumpf(all, stdout, JSON_INDENT(1));
	else if (!list.n)
		log_msg("no CUDA library found on this host");
	json_decref(all);
	find_list_free(&list);
	return 0;
}

int verb_list(const struct cli *cli)
{
	static const struct {
		const char *name;
		int (*run)(const struct cli *, const struct config *);
	} lists[] = {
		{"functions", list_functions},
		{"families", list_families},
		{"libraries", list_libraries},
	};
	const char *what = cli->verb_args[0];
	struct config *config;
	size_t i;
	int code;

	for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (!what || strcmp(what, lists[i].name))
			continue;
		code = load(cli, &config);
		if (code)
			return code;
		code = lists[i].run(cli, config);
		config_free(config);
		if (cli->json)
			putchar('\n');
		return code;
	}
	log_msg("list %s: choose functions, families or libraries", what ? what : "(nothing)");
	return EXIT_USAGE;
}
