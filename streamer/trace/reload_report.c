/* The `reload` event: what has changed, or why nothing has. */
#include <string.h>

#include "internal.h"

#define MAX_TEXT 8192 /* bytes of JSON of all changes: a line has to hold them */

/* A list that takes what there is room for. */
struct room {
	size_t left;
	bool cut;
};

/* The reference is taken over. */
static void append(json_t *list, json_t *value, struct room *room)
{
	size_t size = value ? json_dumpb(value, NULL, 0, JSON_ENCODE_ANY) + 1 : 0;

	if (!value || size > room->left) {
		room->cut = true;
		json_decref(value);
		return;
	}
	room->left -= size;
	json_array_append_new(list, value);
}

/* A list that is empty is not there. */
static void set_list(json_t *body, const char *key, json_t *list)
{
	if (json_array_size(list))
		json_object_set_new(body, key, list);
	else
		json_decref(list);
}

static json_t *begin(const struct reload *reload, const char *status)
{
	return json_pack("{ss ss}", "status", status, "reason", reload->reason);
}

static void end(json_t *body, const struct reload *reload)
{
	uint64_t duration_ns = control_now_ns() - reload->start_ns;

	json_object_set_new(body, "duration_ns", json_integer((json_int_t)duration_ns));
}

static json_t *change_object(const struct config_change *change)
{
	json_t *object = json_pack("{so}", "key", encode_string(change->path));

	if (change->from)
		json_object_set_new(object, "from", encode_string(change->from));
	if (change->to)
		json_object_set_new(object, "to", encode_string(change->to));
	return object;
}

/* What was there before and is now, before alone, now alone. */
static void add_changes(json_t *body, const struct config_changes *changes, struct room *room)
{
	static const struct {
		const char *name;
		bool from, to;
	} lists[] = {{"changed", true, true}, {"added", false, true}, {"removed", true, false}};
	json_t *at_start = json_array();

	for (size_t l = 0; l < sizeof(lists) / sizeof(lists[0]); l++) {
		json_t *list = json_array();

		for (size_t i = 0; i < changes->n; i++) {
			const struct config_change *change = &changes->list[i];

			if (!change->at_start && !!change->from == lists[l].from &&
			    !!change->to == lists[l].to)
				append(list, change_object(change), room);
		}
		set_list(body, lists[l].name, list);
	}
	for (size_t i = 0; i < changes->n; i++)
		if (changes->list[i].at_start)
			append(at_start, change_object(&changes->list[i]), room);
	set_list(body, "at_start", at_start);
}

static bool has_sink(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->nsinks; i++)
		if (!strcmp(config->sinks[i].name, name))
			return true;
	return false;
}

static void add_sinks(json_t *body, const struct reload *reload, struct room *room)
{
	const struct config *old = reload->trace->config, *new = reload->config;
	json_t *added = json_array(), *removed = json_array(), *replaced = json_array();

	for (size_t i = 0; i < new->nsinks; i++) {
		if (reload->changes.same_sink[i])
			continue;
		append(has_sink(old, new->sinks[i].name) ? replaced : added,
		       encode_string(new->sinks[i].name), room);
	}
	for (size_t i = 0; i < old->nsinks; i++)
		if (!has_sink(new, old->sinks[i].name))
			append(removed, encode_string(old->sinks[i].name), room);
	set_list(body, "sinks_added", added);
	set_list(body, "sinks_removed", removed);
	set_list(body, "sinks_replaced", replaced);
}

json_t *report_reload(const struct reload *reload)
{
	json_t *body = begin(reload, "ok"), *changes = json_object();
	struct room room = {.left = MAX_TEXT};

	if (reload->config->profile)
		json_object_set_new(changes, "profile", encode_string(reload->config->profile));
	add_changes(changes, &reload->changes, &room);
	add_sinks(changes, reload, &room);
	json_object_set_new(changes, "attached", json_integer(reload->difference.attached));
	json_object_set_new(changes, "detached", json_integer(reload->difference.detached));
	if (room.cut)
		json_object_set_new(changes, "cut", json_true());
	json_object_set_new(body, "changes", changes);
	end(body, reload);
	return body;
}

json_t *report_refused(const struct reload *reload, const char *messages)
{
	json_t *body = begin(reload, "error"), *errors = json_array();
	struct room room = {.left = MAX_TEXT};
	char line[1024];

	for (; *messages; messages += strcspn(messages, "\n"), messages += *messages == '\n') {
		snprintf(line, sizeof(line), "%.*s", (int)strcspn(messages, "\n"), messages);
		append(errors, encode_string(line), &room);
	}
	if (room.cut)
		json_array_append_new(errors, json_string("..."));
	json_object_set_new(body, "errors", errors);
	end(body, reload);
	return body;
}
