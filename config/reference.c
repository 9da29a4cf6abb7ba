/* The reference page of the configuration, from the key table. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "config.h"
#include "internal.h"
#include "types.h"
#include "units.h"

#include "../sinks/sink.h"

static const char intro[] =
	"# Configuration\n"
	"\n"
	"<!-- Made by `make docs` from the key table in config/keys.c and those of the sinks. Do not edit. "
	"-->\n"
	"\n"
	"`cudatap -c FILE` reads one YAML document; `-c -` reads it from stdin. Every key can be left out, "
	"and\n"
	"without a file every key has its default. `cudatap check -c FILE` shows what is wrong with a file, "
	"all\n"
	"of it at once, or else the configuration in effect with every default written out.\n"
	"\n"
	"```yaml\n"
	"version: 1\n"
	"families: [default, query]\n"
	"exclude: [\"cudaMemset*\"]\n"
	"fields:\n"
	"  static: {cluster: a}\n"
	"sinks:\n"
	"  console: {type: stdout}\n"
	"  disk:\n"
	"    type: file\n"
	"    path: /var/log/cudatap/cuda.jsonl\n"
	"```\n"
	"\n"
	"The command line goes over the file: `-f FAMILY,...` replaces `families`, `-p PID` replaces\n"
	"`processes.pids`, and `-o SINK` replaces all `sinks` (`-`, a path or a sink's URL:\n"
	"[sinks.md](sinks.md)).\n"
	"\n"
	"Profiles, included files, `${VARIABLES}` and secrets are described in "
	"[profiles.md](profiles.md).\n"
	"\n"
	"Sizes are bytes, or have a unit: `KiB`, `MiB`, `GiB`, `TiB` are powers of 1024, `kB`, `MB`, `GB`, "
	"`TB`\n"
	"powers of 1000. Durations always have one: `ns`, `us`, `ms`, `s`, `m`, `h`, `d`. Both take a "
	"decimal\n"
	"point, as in `1.5s`. Where a list is expected, a single word stands for a list of one. A key "
	"without a\n"
	"value has its default. Globs of functions have `*`, `?` and `[...]` as in a shell. Anchors, aliases "
	"and\n"
	"merge keys (`<<`) of YAML work; tags do not.\n"
	"\n"
	"A configuration has at most 1 MiB in all its files. Unknown and duplicate keys are errors, and so "
	"is a\n"
	"name that matches no function: nothing is traced then, and cudatap ends with 2.\n"
	"\n"
	"A running cudatap reads it again at SIGHUP, and with `reload: on_change` whenever one of its files "
	"has\n"
	"changed; [reload.md](reload.md) says what happens then.\n"
	"\n"
	"Editors complete and check keys by [config.schema.json](config.schema.json), which\n"
	"`cudatap config schema` prints: begin a file with `# yaml-language-server: $schema=PATH`.\n";

/* Rows say it as a phrase; a table's cell begins and ends as a sentence does. */
static void sentence(FILE *out, const char *text)
{
	size_t len = strlen(text);

	if (len)
		fprintf(out, "%c%s%s", toupper((unsigned char)*text), text + 1,
			text[len - 1] == '.' ? "" : ".");
}

/* ---- one key ---- */

static void bounds(FILE *out, const struct key *key)
{
	if (!key->max)
		return;
	if (key->type == KEY_SIZE)
		fprintf(out, ", %s to %s", units_print(units_size, key->min).text,
			units_print(units_size, key->max).text);
	else if (key->type == KEY_DURATION)
		fprintf(out, ", %s to %s", units_print(units_time, key->min).text,
			units_print(units_time, key->max).text);
	else if (key->type == KEY_INT)
		fprintf(out, ", %lld to %lld", (long long)key->min, (long long)key->max);
	else if (key->type == KEY_STRING)
		fprintf(out, " of at most %lld bytes", (long long)key->max);
}

static void value(FILE *out, const struct key *key)
{
	if (key->type == KEY_LITERAL) {
		fprintf(out, "`%s`", key->fallback);
		return;
	}
	if (key->words && key->type != KEY_STRINGS) {
		fputs(key->type == KEY_WORDS ? "a list of " : "", out);
		for (size_t i = 0; key->words[i]; i++)
			fprintf(out, "%s`%s`", i ? ", " : "", key->words[i]);
		return;
	}
	fputs((key->flags & KEY_PATHS) ? "a list of paths or globs" : key_types[key->type]->wants, out);
	for (size_t i = 0; key->words && key->words[i]; i++)
		fprintf(out, ", or `%s`", key->words[i]);
	if (key->flags & KEY_POWER_OF_TWO)
		fputs(", a power of two", out);
	bounds(out, key);
}

static void default_value(FILE *out, const struct key *key)
{
	if (key->fallback)
		fprintf(out, "`%s`", key->fallback);
	else if (key->computed)
		fputs(key->computed, out);
	else if (key->required)
		fputs("required", out);
	else
		fputs("none", out);
}

/* ---- tables ---- */

/* Maps are written as the dotted names of their keys. */
static void rows(FILE *out, const struct key *keys, const char *prefix)
{
	for (const struct key *k = keys; k && k->name; k++) {
		char name[128];

		snprintf(name, sizeof(name), "%s%s", prefix, k->name);
		if (k->children) {
			char inner[130];

			snprintf(inner, sizeof(inner), "%s.", name);
			rows(out, k->children, inner);
			continue;
		}
		fprintf(out, "| `%s` | ", name);
		value(out, k);
		fputs(" | ", out);
		default_value(out, k);
		fputs(" | ", out);
		sentence(out, k->about);
		fputs((k->flags & KEY_AT_START) ? " Takes effect at the next start. |\n" : " |\n", out);
	}
}

static void table(FILE *out, const struct key *keys)
{
	fputs("\n| key | value | default | |\n|---|---|---|---|\n", out);
	rows(out, keys, "");
}

static void families(FILE *out)
{
	fputs("\n## Families\n\n`default` stands for those so marked, `all` for every one.\n\n"
	      "| family | in `default` | |\n|---|---|---|\n",
	      out);
	for (unsigned i = 0; i < table_nfamilies; i++) {
		fprintf(out, "| `%s` | %s | ", table_families[i].name,
			table_families[i].in_default ? "yes" : "");
		sentence(out, table_families[i].about);
		fputs(" |\n", out);
	}
}

static void sinks(FILE *out)
{
	fputs("\n## Sinks\n\n`sinks` maps names of your choice to sinks; every sink has these keys, and "
	      "those of "
	      "its type.\n",
	      out);
	table(out, config_sink_keys);
	for (size_t i = 0; sink_kinds[i]; i++) {
		fprintf(out, "\n### `type: %s`\n\n", sink_kinds[i]->type);
		sentence(out, sink_kinds[i]->about);
		fputc('\n', out);
		if (sink_kinds[i]->keys && sink_kinds[i]->keys->name)
			table(out, sink_kinds[i]->keys);
		if (sink_kinds[i]->spools)
			rows(out, config_spool_keys, "");
	}
}

int config_reference(FILE *out)
{
	fputs(intro, out);
	fputs("\n## Keys\n", out);
	table(out, config_keys);
	families(out);
	sinks(out);
	return ferror(out) ? -EIO : 0;
}
