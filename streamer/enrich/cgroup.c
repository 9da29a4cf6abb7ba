/* Container and pod from the names of a cgroup's path. */
#include "cgroup.h"

#include <ctype.h>
#include <string.h>

#define STATIC_POD_UID 32 /* hex digits, no dashes */

static bool ends_with(const char *name, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && !memcmp(name + len - n, end, n);
}

static bool is_hex(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isdigit((unsigned char)text[i]) && (text[i] < 'a' || text[i] > 'f'))
			return false;
	return true;
}

bool cgroup_container(const char *name, size_t len, char ret_id[CGROUP_CONTAINER_ID + 1])
{
	/* beside the container, not in it: its monitor */
	static const char monitor[] = "conmon-";
	size_t before;

	if (ends_with(name, len, ".scope"))
		len -= strlen(".scope");
	if (len < CGROUP_CONTAINER_ID || !is_hex(name + len - CGROUP_CONTAINER_ID, CGROUP_CONTAINER_ID))
		return false;
	before = len - CGROUP_CONTAINER_ID;
	/* whole, or behind its runtime's name (":" with containerd's own way) */
	if (before && name[before - 1] != '-' && name[before - 1] != ':')
		return false;
	if (ends_with(name, before, monitor))
		return false;
	memcpy(ret_id, name + before, CGROUP_CONTAINER_ID);
	ret_id[CGROUP_CONTAINER_ID] = 0;
	return true;
}

/* 8-4-4-4-12 hex digits; a slice's name has underscores, as a dash means a slice inside another. */
static bool is_uid(const char *text)
{
	for (size_t i = 0; i < CGROUP_POD_UID; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? text[i] != '-' && text[i] != '_' : !is_hex(text + i, 1))
			return false;
	}
	return true;
}

static bool is_behind_pod(const char *name, size_t len)
{
	return ends_with(name, len, "pod") && (len == 3 || name[len - 4] == '-');
}

bool cgroup_pod(const char *name, size_t len, char ret_uid[CGROUP_POD_UID + 1])
{
	size_t n = 0;

	if (ends_with(name, len, ".slice"))
		len -= strlen(".slice");
	if (len > CGROUP_POD_UID && is_uid(name + len - CGROUP_POD_UID))
		n = CGROUP_POD_UID;
	else if (len > STATIC_POD_UID && is_hex(name + len - STATIC_POD_UID, STATIC_POD_UID))
		n = STATIC_POD_UID;
	if (!n || !is_behind_pod(name, len - n))
		return false;
	for (size_t i = 0; i < n; i++)
		ret_uid[i] = name[len - n + i] == '_' ? '-' : name[len - n + i];
	ret_uid[n] = 0;
	return true;
}
