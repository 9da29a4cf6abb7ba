/*
 * What several keys must obey together: names of fields and the room that a
 * line has for them. A run would refuse it as well, after it has begun.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "tree.h"
#include "types.h"

#include "../sinks/forms.h"
#include "../streamer/encode/encode.h"

#define SURE_TO_FIT 1024 /* bytes of constant texts, before they are escaped */

/* The place of a key inside of a sink; of what is around it where it is not there itself. */
static const struct mark *mark_of(const struct node *map, const struct config_sink *sink, const char *a,
				  const char *b)
{
	const char *const path[] = {"sinks", sink->name, a, b};
	const struct node *at;

	for (size_t i = 0; i < sizeof(path) / sizeof(path[0]); i++) {
		at = path[i] && map->kind == NODE_MAP ? node_get(map, path[i]) : NULL;
		if (!at)
			break;
		map = at;
	}
	return &map->mark;
}

/* ---- new names ---- */

static bool is_constant(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->fields.constant.n; i++)
		if (!strcmp(config->fields.constant.list[i].name, name))
			return true;
	return false;
}

static void check_name(const struct config *config, const struct config_sink *sink, size_t index,
		       const struct node *map, struct errors *errors)
{
	const struct config_field *renamed = sink->fields.rename.list;
	const struct mark *mark = mark_of(map, sink, "fields", "rename");

	if (is_constant(config, renamed[index].value))
		errors_add(errors, mark, "sink %s: %s cannot be renamed to %s: that is a constant field",
			   QUOTE(sink->name), QUOTE(renamed[index].name), QUOTE(renamed[index].value));
	for (size_t i = 0; i < index; i++)
		if (!strcmp(renamed[i].value, renamed[index].value))
			errors_add(errors, mark, "sink %s: %s and %s cannot both be renamed to %s",
				   QUOTE(sink->name), QUOTE(renamed[i].name), QUOTE(renamed[index].name),
				   QUOTE(renamed[i].value));
}

static void check_rename(const struct config *config, const struct config_sink *sink, const struct node *map,
			 struct errors *errors)
{
	if (sink->fields.rename.n && !encode_renames(sink->format)) {
		errors_add(
			errors, mark_of(map, sink, "fields", "rename"),
			"sink %s: the format \"%s\" has fixed names: only with \"json\" can keys be renamed",
			QUOTE(sink->name), sink->format);
		return;
	}
	for (size_t i = 0; i < sink->fields.rename.n; i++)
		check_name(config, sink, i, map, errors);
}

/* ---- forms of lines ---- */

static bool is_new_form(const struct config *config, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (config->sinks[i].format && forms_same(&config->sinks[i], &config->sinks[index]))
			return false;
	return true;
}

static size_t constant_bytes(const struct config *config)
{
	const struct config_fields *constant = &config->fields.constant;
	size_t bytes = config->host ? strlen(config->host) : 0;

	for (size_t i = 0; i < constant->n; i++)
		bytes += strlen(constant->list[i].name) + strlen(constant->list[i].value);
	for (size_t i = 0; i < config->fields.env.n; i++)
		bytes += strlen(config->fields.env.list[i]);
	return bytes;
}

/* How much a line can hold depends on all that it holds: making the encoder tells. */
static void check_room(const struct config *config, const struct config_sink *sink, const struct node *map,
		       struct errors *errors)
{
	const struct config_fields *constant = &config->fields.constant;
	struct encode_static statics[constant->n + 1];
	struct encoder *encoder;

	for (size_t i = 0; i < constant->n; i++)
		statics[i] = (struct encode_static){constant->list[i].name, constant->list[i].value};
	encoder = encoder_new(&(struct encoder_options){
		.format = sink->format,
		.run = "000000000000",
		.host = config->host ? config->host : "",
		.args = true,
		.nested = true,
		.statics = statics,
		.nstatics = constant->n,
		.env = (const char *const *)config->fields.env.list,
		.nenv = config->fields.env.n,
	});
	if (!encoder && errno == E2BIG)
		errors_add(errors, mark_of(map, sink, "format", NULL),
			   "sink %s: a line has no room for all of \"host\", \"fields.static\" and "
			   "\"fields.env\": "
			   "shorten them",
			   QUOTE(sink->name));
	encoder_free(encoder);
}

void cross_check(const struct config *config, const struct node *map, struct errors *errors)
{
	bool sure = constant_bytes(config) <= SURE_TO_FIT;
	size_t forms = 0;

	for (size_t i = 0; i < config->nsinks; i++) {
		const struct config_sink *sink = &config->sinks[i];

		/* a mistake that was told of another profile is not counted again in this one */
		if (!sink->format)
			continue;
		check_rename(config, sink, map, errors);
		if (!is_new_form(config, i))
			continue;
		if (++forms == FORMS_MAX + 1)
			errors_add(errors, mark_of(map, sink, "fields", NULL),
				   "sink %s: sinks can have events in %d combinations of \"format\" and "
				   "\"fields\", and this is one more",
				   QUOTE(sink->name), FORMS_MAX);
		if (!sure)
			check_room(config, sink, map, errors);
	}
}
