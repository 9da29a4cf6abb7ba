/* Patterns against what is known of a process. Its texts are the insides of JSON strings, and so are these.
 */
#include "matcher.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../encode/escape.h"
#include "../encode/put.h"
#include "../enrich/processes.h"

struct pattern_text {
	char *data;
	size_t len;
};

struct list {
	struct pattern_text *texts; /* NULL: no condition */
	size_t n;
};

typedef bool (*match_fn)(const struct pattern_text *pattern, const struct thread *thread);

static bool fits_uid(const struct pattern_text *pattern, const struct thread *thread)
{
	return thread->start_ns && strtoul(pattern->data, NULL, 10) == thread->uid;
}

static bool fits_comm(const struct pattern_text *pattern, const struct thread *thread)
{
	bool prefix = pattern->data[pattern->len - 1] == '*';

	return strncmp(thread->comm, pattern->data, pattern->len - prefix) == 0 &&
	       (prefix || !thread->comm[pattern->len]);
}

/* The whole path, or what it ends in. */
static bool fits_exe(const struct pattern_text *pattern, const struct thread *thread)
{
	const struct process_text *exe = &thread->process->exe;
	bool whole = pattern->data[0] == '/';
	const char *end;

	if (!exe->data || exe->len < pattern->len)
		return false;
	end = exe->data + exe->len - pattern->len;
	if (memcmp(end, pattern->data, pattern->len))
		return false;
	return whole ? end == exe->data : end > exe->data && end[-1] == '/';
}

/* The path or its beginning, or a name in it; up to a slash or the end. */
static bool fits_cgroup(const struct pattern_text *pattern, const struct thread *thread)
{
	const struct process_text *path = &thread->process->cgroup;
	bool whole = pattern->data[0] == '/';

	for (size_t at = 0; path->data && at + pattern->len <= path->len; at++) {
		size_t end = at + pattern->len;

		if ((whole ? at == 0 : at && path->data[at - 1] == '/') &&
		    !memcmp(path->data + at, pattern->data, pattern->len) &&
		    (end == path->len || path->data[end] == '/'))
			return true;
	}
	return false;
}

static bool fits_container(const struct pattern_text *pattern, const struct thread *thread)
{
	return !strncmp(thread->process->container_id, pattern->data, REC_SELECT_ID);
}

static const struct {
	size_t offset; /* of the list in struct config_patterns */
	match_fn fits;
	bool of_process; /* needs thread->process */
} kinds[] = {
	{offsetof(struct config_patterns, uids), fits_uid, false},
	{offsetof(struct config_patterns, comms), fits_comm, false},
	{offsetof(struct config_patterns, exe), fits_exe, true},
	{offsetof(struct config_patterns, cgroups), fits_cgroup, true},
	{offsetof(struct config_patterns, containers), fits_container, true},
};
#define NKINDS (sizeof(kinds) / sizeof(kinds[0]))

struct matcher {
	struct list lists[NKINDS];
};

static const struct config_strings *strings_of(const struct config_patterns *patterns, size_t kind)
{
	return (const void *)((const char *)patterns + kinds[kind].offset);
}

bool matcher_is_empty(const struct config_patterns *patterns)
{
	for (size_t i = 0; i < NKINDS; i++)
		if (strings_of(patterns, i)->n)
			return false;
	return true;
}

/* As struct process has its texts. A comm is compared as it is. */
static int make_text(const char *text, bool escaped, struct pattern_text *ret_text)
{
	size_t len = strlen(text);
	char *data = malloc(len * ESCAPE_GROWTH + PUT_SLACK), *end;

	if (!data)
		return -ENOMEM;
	end = escaped ? put_escaped(data, text, len) : put_bytes(data, text, len);
	*end = 0;
	*ret_text = (struct pattern_text){data, (size_t)(end - data)};
	return 0;
}

static int make_list(const struct config_strings *strings, bool escaped, struct list *list)
{
	int err = 0;

	if (!strings->n)
		return 0;
	list->texts = calloc(strings->n, sizeof(*list->texts));
	if (!list->texts)
		return -ENOMEM;
	while (!err && list->n < strings->n) {
		err = make_text(strings->list[list->n], escaped, &list->texts[list->n]);
		list->n += !err;
	}
	return err;
}

int matcher_make(const struct config_patterns *patterns, struct matcher **ret_matcher)
{
	struct matcher *matcher;
	int err = 0;

	*ret_matcher = NULL;
	if (matcher_is_empty(patterns))
		return 0;
	matcher = calloc(1, sizeof(*matcher));
	if (!matcher)
		return -ENOMEM;
	for (size_t i = 0; i < NKINDS && !err; i++)
		err = make_list(strings_of(patterns, i), kinds[i].of_process, &matcher->lists[i]);
	if (err) {
		matcher_free(matcher);
		return err;
	}
	*ret_matcher = matcher;
	return 0;
}

void matcher_free(struct matcher *matcher)
{
	if (!matcher)
		return;
	for (size_t i = 0; i < NKINDS; i++) {
		for (size_t j = 0; j < matcher->lists[i].n; j++)
			free(matcher->lists[i].texts[j].data);
		free(matcher->lists[i].texts);
	}
	free(matcher);
}

bool matcher_match(const struct matcher *matcher, const struct thread *thread)
{
	for (size_t i = 0; i < NKINDS; i++) {
		const struct list *list = &matcher->lists[i];
		bool found = !list->n;

		if (list->n && kinds[i].of_process && !thread->process)
			return false;
		for (size_t j = 0; j < list->n && !found; j++)
			found = kinds[i].fits(&list->texts[j], thread);
		if (!found)
			return false;
	}
	return true;
}
