/* Takes profiles out of a configuration and merges each over what it extends. */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "profiles.h"
#include "types_list.h"

#define MAX_NAME 64

enum { NEW, OPEN, DONE };

static const char *const layer_keys[] = {"profiles", "profile", NULL};
static const char *const extends_keys[] = {"extends", NULL};

static struct hint hint_profile(const struct profiles *p, const char *name)
{
	const char *names[PROFILES_MAX];

	for (size_t i = 0; i < p->n; i++)
		names[i] = p->list[i].name->text;
	return hint_word(name, names, p->n);
}

int profiles_find(const struct profiles *p, const char *name, const struct mark *mark, struct errors *errors)
{
	for (size_t i = 0; i < p->n; i++)
		if (!strcmp(p->list[i].name->text, name))
			return i;
	errors_add(errors, mark, "unknown profile %s%s", QUOTE(name),
		   p->n ? hint_profile(p, name).text : "; the configuration has no profiles");
	return -ENOENT;
}

/* ---- one profile's own map ---- */

static bool name_check(const struct node *name, struct errors *errors)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

	if (*name->text && strlen(name->text) <= MAX_NAME && !name->text[strspn(name->text, letters)])
		return true;
	errors_add(errors, &name->mark,
		   "%s cannot name a profile: 1 to %d letters, digits, \"_\", \".\", \"-\"",
		   QUOTE(name->text), MAX_NAME);
	return false;
}

/* Returns what it extends, or NULL. */
static const struct node *extends_of(const struct node *map, struct errors *errors)
{
	const struct node *word = node_get(map, extends_keys[0]);

	if (!word || node_is_null(word))
		return NULL;
	if (word->kind == NODE_SCALAR)
		return word;
	errors_add(errors, &word->mark, "\"extends\" wants the name of one profile, not %s", node_what(word));
	return NULL;
}

/* What says which maps are merged stands outside of them. */
static void refuse_layers(const struct node *map, struct errors *errors)
{
	for (size_t i = 0; i < map->n; i++) {
		const struct node *word = map->entries[i].key;
		const struct key *key = config_key(word->text);

		if (key && (key->flags & KEY_LAYER))
			errors_add(errors, &word->mark, "%s cannot be in a profile; put it outside",
				   QUOTE(word->text));
	}
}

static int add(struct profiles *p, struct tree *tree, const struct node_entry *e, struct errors *errors)
{
	static const char *const outside[] = {"extends", "profiles", "profile", "include_files", NULL};
	struct profile *profile = &p->list[p->n];
	const struct node *map = e->value;

	if (!name_check(e->key, errors))
		return 0;
	if (node_is_null(map)) {
		map = tree_map(tree, NULL, 0, &map->mark);
		if (!map)
			return -ENOMEM;
	}
	if (map->kind != NODE_MAP) {
		errors_add(errors, &map->mark, "profile %s wants a map of keys, not %s", QUOTE(e->key->text),
			   node_what(map));
		return 0;
	}
	refuse_layers(map, errors);
	*profile = (struct profile){.name = e->key, .parent = -1, .extends = extends_of(map, errors)};
	profile->own = tree_without(tree, map, outside);
	p->n++;
	return profile->own ? 0 : -ENOMEM;
}

/* ---- what extends what ---- */

static void link_parents(struct profiles *p, struct errors *errors)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct node *extends = p->list[i].extends;
		int parent = extends ? profiles_find(p, extends->text, &extends->mark, errors) : -1;

		p->list[i].parent = parent < 0 ? -1 : parent;
	}
}

static void tell_circle(const struct profile *profile, const struct profile *parent, struct errors *errors)
{
	if (profile == parent)
		errors_add(errors, &profile->extends->mark, "profile %s extends itself",
			   QUOTE(profile->name->text));
	else
		errors_add(errors, &profile->extends->mark, "profile %s extends %s, which extends %s in turn",
			   QUOTE(profile->name->text), QUOTE(parent->name->text), QUOTE(profile->name->text));
}

/* Cuts each circle at the profile where it is found. */
static void cut_circles(struct profiles *p, struct errors *errors)
{
	for (size_t i = 0; i < p->n; i++) {
		struct profile *at = &p->list[i];

		while (at->state == NEW) {
			at->state = OPEN;
			if (at->parent < 0)
				break;
			if (p->list[at->parent].state == OPEN) {
				tell_circle(at, &p->list[at->parent], errors);
				at->parent = -1;
				break;
			}
			at = &p->list[at->parent];
		}
		for (at = &p->list[i]; at->state == OPEN; at = &p->list[at->parent]) {
			at->state = DONE;
			if (at->parent < 0)
				break;
		}
	}
}

/* No circles, PROFILES_MAX deep at most. */
static const struct node *merge_whole(struct profiles *p, struct tree *tree, struct profile *profile,
				      struct errors *errors)
{
	const struct node *under = p->base;

	if (profile->whole)
		return profile->whole;
	if (profile->parent >= 0) {
		p->list[profile->parent].extended = true;
		under = merge_whole(p, tree, &p->list[profile->parent], errors);
	}
	profile->whole = under ? tree_merge(tree, under, profile->own, errors) : NULL;
	return profile->whole;
}

/* ---- all of them ---- */

static int read_map(struct profiles *p, struct tree *tree, struct errors *errors)
{
	if (p->map->kind != NODE_MAP) {
		errors_add(errors, &p->map->mark, "\"profiles\" wants %s, not %s", type_profiles.wants,
			   node_what(p->map));
		p->map = NULL;
		return 0;
	}
	if (p->map->n > PROFILES_MAX)
		errors_add(errors, &p->map->mark, "\"profiles\" has at most %d profiles", PROFILES_MAX);
	for (size_t i = 0; i < p->map->n && i < PROFILES_MAX; i++) {
		int err = add(p, tree, &p->map->entries[i], errors);

		if (err)
			return err;
	}
	link_parents(p, errors);
	cut_circles(p, errors);
	for (size_t i = 0; i < p->n; i++)
		if (!merge_whole(p, tree, &p->list[i], errors))
			break; /* each further one would only say so again */
	return 0;
}

int profiles_read(struct profiles *p, struct tree *tree, const struct node *root, struct errors *errors)
{
	const struct node *map = node_get(root, "profiles"), *wish = node_get(root, "profile");

	*p = (struct profiles){.base = tree_without(tree, root, layer_keys)};
	if (!p->base)
		return -ENOMEM;
	p->wish = wish && !node_is_null(wish) ? wish : NULL;
	p->map = map && !node_is_null(map) ? map : NULL;
	return p->map ? read_map(p, tree, errors) : 0;
}

/* ---- KEY_PROFILES: what can be said of it before ---- */

static void profiles_type_read(const struct key *key, const struct node *node, void *base,
			       struct errors *errors)
{
}

static void profiles_print(const struct key *key, const void *base, struct emit *emit)
{
}

static json_t *profiles_schema(const struct key *key)
{
	return json_pack("{s:s, s:{s:s}, s:{s:[{s:s}, {s:s}]}, s:i}", "type", "object", "propertyNames",
			 "pattern", "^[A-Za-z0-9_.-]{1,64}$", "additionalProperties", "anyOf", "$ref",
			 "#/$defs/profile", "type", "null", "maxProperties", PROFILES_MAX);
}

const struct key_type_ops type_profiles = {
	.wants = "a map of profiles by name",
	.shapes = SHAPE(NODE_MAP),
	.read = profiles_type_read,
	.print = profiles_print,
	.schema = profiles_schema,
};
