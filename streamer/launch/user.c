/* Who the command runs as: `-u`, and the user behind sudo. See launch.h. */
#include "launch.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_SERVICE_BYTES = 64 * 1024 }; /* for getpwnam_r() and its kin */

/* A whole number that is an id: all digits, and not (uid_t)-1, which means "unchanged". */
static bool parse_id(const char *text, uint32_t *ret_id)
{
	unsigned long value;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || value >= UINT32_MAX)
		return false;
	*ret_id = value;
	return true;
}

static int copy(char *to, size_t size, const char *from)
{
	return snprintf(to, size, "%s", from ? from : "") < (int)size ? 0 : -EINVAL;
}

static int from_passwd(const struct passwd *entry, struct launch_user *user)
{
	user->uid = entry->pw_uid;
	user->gid = entry->pw_gid;
	if (copy(user->name, sizeof(user->name), entry->pw_name) ||
	    copy(user->home, sizeof(user->home), entry->pw_dir))
		return -EINVAL;
	return copy(user->shell, sizeof(user->shell),
		    entry->pw_shell && entry->pw_shell[0] ? entry->pw_shell : "/bin/sh");
}

/* By name first, as chown(1) does; then by number, which no database need know. */
static int find_user(const char *name, struct launch_user *user)
{
	char *room = malloc(NAME_SERVICE_BYTES);
	struct passwd entry, *found = NULL;
	uint32_t id;
	int result;

	if (!room)
		return -ENOMEM;
	getpwnam_r(name, &entry, room, NAME_SERVICE_BYTES, &found);
	if (!found && parse_id(name, &id)) {
		user->uid = user->gid = id;
		getpwuid_r(id, &entry, room, NAME_SERVICE_BYTES, &found);
		result = found ? from_passwd(found, user) : 0;
	} else {
		result = found ? from_passwd(found, user) : -ENOENT;
	}
	free(room);
	return result;
}

static int find_group(const char *name, gid_t *ret_gid)
{
	char *room = malloc(NAME_SERVICE_BYTES);
	struct group entry, *found = NULL;
	uint32_t id;
	int result = -ENOENT;

	if (!room)
		return -ENOMEM;
	getgrnam_r(name, &entry, room, NAME_SERVICE_BYTES, &found);
	if (found || parse_id(name, &id)) {
		*ret_gid = found ? entry.gr_gid : id;
		result = 0;
	}
	free(room);
	return result;
}

int launch_user_find(const char *name, struct launch_user *user)
{
	struct launch_user result = {.set = true};
	char text[512], *group;
	int error;

	if (copy(text, sizeof(text), name))
		return -EINVAL;
	group = strchr(text, ':');
	if (group)
		*group++ = '\0';
	if (!text[0] || (group && !group[0]))
		return -EINVAL;
	error = find_user(text, &result);
	if (!error && group)
		error = find_group(group, &result.gid);
	if (!error)
		*user = result;
	return error;
}

int launch_user_sudo(struct launch_user *user)
{
	const char *uid_text = getenv("SUDO_UID"), *gid_text = getenv("SUDO_GID");
	const char *name = getenv("SUDO_USER");
	struct launch_user result = {0};
	uint32_t uid, gid;
	int error;

	if (geteuid() != 0 || !uid_text || !gid_text) {
		*user = result;
		return 0;
	}
	if (!parse_id(uid_text, &uid) || !parse_id(gid_text, &gid))
		return -EINVAL;
	error = find_user(uid_text, &result);
	if (error)
		return error;
	/* sudo's word counts where two names share a number */
	if (name && name[0] && copy(result.name, sizeof(result.name), name))
		return -EINVAL;
	result.uid = uid;
	result.gid = gid;
	result.set = uid != 0; /* root behind sudo is root */
	*user = result;
	return 0;
}
