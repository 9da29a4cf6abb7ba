/*
 * Which processes are recorded, as bpf/selection.h looks them up: the patterns go into its maps, and can be
 * replaced while calls come. What is being decided meanwhile is decided anew afterwards.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "patterns.h"

/* The kinds of patterns: the bit that switches each on, its map, how one becomes a key. */
static const struct selection {
	uint32_t bit;
	const char *map;
	size_t offset; /* of the list in struct capture_processes */
	void (*make)(const char *text, struct pattern *pattern);
} selections[] = {
	{REC_SELECT_UIDS, "select_uids", offsetof(struct capture_processes, uids), patterns_make_uid},
	{REC_SELECT_COMMS, "select_comms", offsetof(struct capture_processes, comms), patterns_make_comm},
	{REC_SELECT_EXE, "select_exes", offsetof(struct capture_processes, exe), patterns_make_path},
	{REC_SELECT_CGROUPS, "select_cgroups", offsetof(struct capture_processes, cgroups),
	 patterns_make_path},
	{REC_SELECT_CONTAINERS, "select_containers", offsetof(struct capture_processes, containers),
	 patterns_make_container},
};
#define NSELECTIONS (sizeof(selections) / sizeof(selections[0]))

static const struct capture_patterns *patterns_of(const struct capture_processes *processes, size_t selection)
{
	return (const void *)((const char *)processes + selections[selection].offset);
}

static uint32_t kinds_of(const struct capture_processes *processes)
{
	uint32_t kinds = 0;

	for (size_t i = 0; i < NSELECTIONS; i++)
		kinds |= patterns_of(processes, i)->n ? selections[i].bit : 0;
	return kinds;
}

/* What it can not select by costs the program nothing. */
int select_prepare(struct bpf_object *object, const struct capture_options *options)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata.select");
	uint32_t kinds = options->processes_change
				 ? REC_SELECT_ALL
				 : kinds_of(&options->processes) | kinds_of(&options->accepted);

	return map ? bpf_map__set_initial_value(map, &kinds, sizeof(kinds)) : -EINVAL;
}

/* Values of the maps: REC_MATCH_*, and above them which selection they belong to. */
#define STAMP(gen) ((uint32_t)(gen) << 8)

static int fill(int fd, const struct selection *selection, const struct capture_patterns *patterns,
		unsigned shift, uint32_t stamp)
{
	struct pattern pattern;
	uint32_t value, known;
	int err = 0;

	for (size_t i = 0; i < patterns->n && !err; i++) {
		selection->make(patterns->list[i], &pattern);
		value = stamp | pattern.match << shift;
		if (!bpf_map_lookup_elem(fd, pattern.key, &known) && known >> 8 == stamp >> 8)
			value |= known;
		if (bpf_map_update_elem(fd, pattern.key, &value, BPF_ANY))
			err = -errno;
	}
	return err;
}

static void drop_others(int fd, uint32_t stamp)
{
	char keys[2][REC_SELECT_TEXT], *at = keys[0], *next = keys[1], *swap;
	int end = bpf_map_get_next_key(fd, NULL, at);
	uint32_t value;

	while (!end) {
		end = bpf_map_get_next_key(fd, at, next);
		if (!bpf_map_lookup_elem(fd, at, &value) && value >> 8 != stamp >> 8)
			bpf_map_delete_elem(fd, at);
		swap = at;
		at = next;
		next = swap;
	}
}

/* Who is selected before and after is so meanwhile: new patterns come before old ones go. */
int capture_select(struct capture *capture, const struct capture_processes *processes,
		   const struct capture_processes *accepted)
{
	struct bpf_map *map = bpf_object__find_map_by_name(capture->object, ".rodata.select");
	uint32_t kinds = kinds_of(processes), filter = kinds_of(accepted),
		 stamp = STAMP(++capture->selections);
	int err = 0, fds[NSELECTIONS];
	size_t i, size;
	const uint32_t *loaded = map ? bpf_map__initial_value(map, &size) : NULL;

	if (!loaded || (kinds | filter) & ~*loaded)
		return -EOPNOTSUPP;
	for (i = 0; i < NSELECTIONS && !err; i++) {
		fds[i] = bpf_object__find_map_fd_by_name(capture->object, selections[i].map);
		err = fill(fds[i], &selections[i], patterns_of(processes, i), 0, stamp);
		if (!err)
			err = fill(fds[i], &selections[i], patterns_of(accepted, i), REC_MATCH_FILTER, stamp);
	}
	if (err)
		return err;
	__atomic_store_n(&capture->shared->select_by, kinds, __ATOMIC_SEQ_CST);
	__atomic_store_n(&capture->shared->filter_by, filter, __ATOMIC_SEQ_CST);
	for (i = 0; i < NSELECTIONS; i++)
		drop_others(fds[i], stamp);
	/* threads decide anew at their next call */
	__atomic_fetch_add(&capture->shared->select_gen, 1, __ATOMIC_SEQ_CST);
	return 0;
}
