/* From what people write to keys that the BPF program looks up. */
#include "patterns.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CONTAINER_ID 64 /* hex digits of a whole one */

const char *patterns_uid_wrong(const char *text)
{
	unsigned long long uid;
	char *end;

	errno = 0;
	uid = strtoull(text, &end, 10);
	return isdigit((unsigned char)text[0]) && !*end && !errno && uid < UINT32_MAX
		       ? NULL
		       : "the number of a user";
}

const char *patterns_comm_wrong(const char *text)
{
	size_t len = strlen(text);
	bool prefix = len && text[len - 1] == '*';

	if (len && !memchr(text, '*', len - 1) && len - prefix < REC_COMM_LEN)
		return NULL;
	return "a command name of at most 15 bytes, or the beginning of one and \"*\"";
}

/* Slashes divide names; none is empty but what is in front of the first. */
static bool is_path(const char *text)
{
	size_t len = strlen(text);

	return len && len < REC_SELECT_TEXT - 1 && text[len - 1] != '/' && !strstr(text, "//") &&
	       !strchr(text, '*');
}

const char *patterns_exe_wrong(const char *text)
{
	return is_path(text) ? NULL
			     : "an absolute path or the end of one, of at most 254 bytes and without \"*\"";
}

const char *patterns_cgroup_wrong(const char *text)
{
	if (is_path(text) && (text[0] == '/' || !strchr(text, '/')))
		return NULL;
	return "the absolute path or the name of a cgroup, of at most 254 bytes and without \"*\"";
}

const char *patterns_container_wrong(const char *text)
{
	size_t len = strspn(text, "0123456789abcdef");

	return !text[len] && len >= REC_SELECT_ID && len <= CONTAINER_ID
		       ? NULL
		       : "the id of a container: 12 to 64 lower-case hex digits";
}

void patterns_make_uid(const char *text, struct pattern *pattern)
{
	uint32_t uid = (uint32_t)strtoul(text, NULL, 10);

	*pattern = (struct pattern){.match = REC_MATCH_WHOLE};
	memcpy(pattern->key, &uid, sizeof(uid));
}

void patterns_make_comm(const char *text, struct pattern *pattern)
{
	size_t len = strlen(text);
	bool prefix = text[len - 1] == '*';

	*pattern = (struct pattern){.match = prefix ? REC_MATCH_PREFIX : REC_MATCH_WHOLE};
	memcpy(pattern->key, text, len - prefix);
}

/* Names from the last to the first, each with its NUL. */
void patterns_make_path(const char *text, struct pattern *pattern)
{
	const char *end = text + strlen(text), *name;
	char *p = pattern->key;

	*pattern = (struct pattern){.match = text[0] == '/' ? REC_MATCH_WHOLE : REC_MATCH_NAME};
	for (; end > text; end = name - 1) {
		for (name = end; name > text && name[-1] != '/';)
			name--;
		memcpy(p, name, (size_t)(end - name));
		p += end - name + 1;
		if (name == text)
			break;
	}
}

void patterns_make_container(const char *text, struct pattern *pattern)
{
	*pattern = (struct pattern){.match = REC_MATCH_WHOLE};
	memcpy(pattern->key, text, REC_SELECT_ID);
}
