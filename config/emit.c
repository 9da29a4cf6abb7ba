/* Writes YAML, value by value. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "emit.h"
#include "text.h"

struct emit {
	yaml_emitter_t yaml;
	int err;
	bool reveal;
};

/* @made: what the event's initialiser returned */
static void put(struct emit *emit, int made, yaml_event_t *event)
{
	if (!made) {
		emit->err = emit->err ? emit->err : -ENOMEM;
		return;
	}
	if (emit->err)
		yaml_event_delete(event);
	else if (!yaml_emitter_emit(&emit->yaml, event))
		emit->err = emit->yaml.error == YAML_MEMORY_ERROR ? -ENOMEM : -EIO;
}

struct emit *emit_new(FILE *out)
{
	struct emit *emit = calloc(1, sizeof(*emit));
	yaml_event_t event;

	if (!emit)
		return NULL;
	if (!yaml_emitter_initialize(&emit->yaml)) {
		free(emit);
		return NULL;
	}
	yaml_emitter_set_output_file(&emit->yaml, out);
	yaml_emitter_set_unicode(&emit->yaml, 1);
	yaml_emitter_set_width(&emit->yaml, -1);
	put(emit, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING), &event);
	put(emit, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1), &event);
	return emit;
}

int emit_free(struct emit *emit)
{
	yaml_event_t event;
	int err;

	if (!emit)
		return 0;
	put(emit, yaml_document_end_event_initialize(&event, 1), &event);
	put(emit, yaml_stream_end_event_initialize(&event), &event);
	err = emit->err;
	yaml_emitter_delete(&emit->yaml);
	free(emit);
	return err;
}

static void begin_map(struct emit *emit, yaml_mapping_style_t style)
{
	yaml_event_t event;

	put(emit, yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, style), &event);
}

void emit_map(struct emit *emit)
{
	begin_map(emit, YAML_BLOCK_MAPPING_STYLE);
}

void emit_flow_map(struct emit *emit)
{
	begin_map(emit, YAML_FLOW_MAPPING_STYLE);
}

void emit_map_end(struct emit *emit)
{
	yaml_event_t event;

	put(emit, yaml_mapping_end_event_initialize(&event), &event);
}

void emit_list(struct emit *emit)
{
	yaml_event_t event;

	put(emit, yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_FLOW_SEQUENCE_STYLE),
	    &event);
}

void emit_list_end(struct emit *emit)
{
	yaml_event_t event;

	put(emit, yaml_sequence_end_event_initialize(&event), &event);
}

static void scalar(struct emit *emit, const char *text, size_t len, yaml_scalar_style_t style)
{
	yaml_event_t event;

	put(emit,
	    yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text, len, 1, 1, style),
	    &event);
}

void emit_word(struct emit *emit, const char *word)
{
	scalar(emit, word, strlen(word), YAML_PLAIN_SCALAR_STYLE);
}

/* Words that YAML 1.1 or 1.2 readers take for something else than text. */
static bool is_special(const char *text)
{
	static const char *const words[] = {"null", "true", "false", "yes", "no",
					    "on",   "off",  "y",     "n",   "<<"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcasecmp(words[i], text))
			return true;
	return false;
}

/* Letters first, so that it is no number, and no character that means something in YAML. */
static bool is_plain(const char *text)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/_";
	static const char rest[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/_0123456789.-+@";

	return *text && strchr(first, *text) && !text[strspn(text, rest)] && !is_special(text);
}

/* Returns a copy to be freed, or NULL: fit for YAML, and without variables (variables.h). */
static char *as_written(const char *text, size_t *len)
{
	static const char replacement[] = "\xef\xbf\xbd";
	char *copy = malloc(*len * 3 + 1);
	size_t n = 0, step;

	for (size_t i = 0; copy && i < *len; i += step ? step : 1) {
		step = text_character(text + i, *len - i);
		if (text[i] == '$' && text[i + 1] == '{')
			copy[n++] = '$';
		memcpy(copy + n, step ? text + i : replacement, step ? step : 3);
		n += step ? step : 3;
	}
	*len = n;
	return copy;
}

void emit_text(struct emit *emit, const char *text)
{
	size_t len = strlen(text);
	char *copy = as_written(text, &len);

	if (!copy) {
		emit->err = -ENOMEM;
		return;
	}
	scalar(emit, copy, len, is_plain(text) ? YAML_PLAIN_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE);
	free(copy);
}

void emit_reveal(struct emit *emit)
{
	emit->reveal = true;
}

void emit_secret(struct emit *emit, const char *text)
{
	char *marked;

	if (!emit->reveal) {
		emit_text(emit, EMIT_SECRET);
	} else if (asprintf(&marked, "%c%s", EMIT_REVEALED, text) < 0) {
		emit->err = -ENOMEM;
	} else {
		emit_text(emit, marked);
		explicit_bzero(marked, strlen(marked));
		free(marked);
	}
}
