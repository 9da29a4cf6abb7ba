/* Opening a log, or making it: complete with mode and owner before anyone sees it. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"

#define APPEND (O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/* ---- owner ---- */

static bool parse_id(const char *text, unsigned *ret_id)
{
	char *end;
	unsigned long id = strtoul(text, &end, 10);

	*ret_id = (unsigned)id;
	return *text >= '0' && *text <= '9' && !*end && id < UINT_MAX;
}

static bool find_user(const char *name, uid_t *ret_uid)
{
	const struct passwd *user;

	if (parse_id(name, ret_uid))
		return true;
	user = getpwnam(name);
	if (user)
		*ret_uid = user->pw_uid;
	return user;
}

static bool find_group(const char *name, gid_t *ret_gid)
{
	const struct group *group;

	if (parse_id(name, ret_gid))
		return true;
	group = getgrnam(name);
	if (group)
		*ret_gid = group->gr_gid;
	return group;
}

int file_owner_parse(const char *text, struct file_owner *ret_owner, char *error, size_t error_size)
{
	const char *colon = strchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : strlen(text);
	char user[64];

	*ret_owner = (struct file_owner){(uid_t)-1, (gid_t)-1};
	if (len >= sizeof(user) || (!len && !(colon && colon[1]))) {
		snprintf(error, error_size, "owner wants `user:group`, `user` or `:group`");
		return -EINVAL;
	}
	memcpy(user, text, len);
	user[len] = 0;
	if (len && !find_user(user, &ret_owner->uid)) {
		snprintf(error, error_size, "owner: there is no user `%s` here", user);
		return -EINVAL;
	}
	if (colon && colon[1] && !find_group(colon + 1, &ret_owner->gid)) {
		snprintf(error, error_size, "owner: there is no group `%.64s` here", colon + 1);
		return -EINVAL;
	}
	return 0;
}

/* ---- a new file ---- */

/* The umask belongs to the whole process and cannot be set aside in a thread. */
static int dress(int fd, mode_t mode, const struct file_owner *owner)
{
	bool owned = owner->uid != (uid_t)-1 || owner->gid != (gid_t)-1;

	/* the owner first: a change of it may take mode bits away */
	if (owned && fchown(fd, owner->uid, owner->gid))
		return -errno;
	if (fchmod(fd, mode) && errno != EPERM && errno != EINVAL && errno != EOPNOTSUPP)
		return -errno;
	return 0;
}

static int make_named(int dir, const char *name, char temporary[NAME_MAX + 1])
{
	int fd, r = file_name_temporary(name, temporary);

	if (r)
		return r;
	unlinkat(dir, temporary, 0); /* of a crash */
	fd = openat(dir, temporary, APPEND | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	return fd < 0 ? -errno : fd;
}

int file_make(int dir, const char *name, mode_t mode, const struct file_owner *owner,
	      struct file_fresh *ret_fresh)
{
	int r;

	*ret_fresh = (struct file_fresh){.dir = dir};
	ret_fresh->fd = openat(dir, ".", APPEND | O_TMPFILE, 0600);
	if (ret_fresh->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
		ret_fresh->fd = make_named(dir, name, ret_fresh->temporary);
	else if (ret_fresh->fd < 0)
		ret_fresh->fd = -errno;
	if (ret_fresh->fd < 0)
		return ret_fresh->fd;
	r = dress(ret_fresh->fd, mode, owner);
	if (r)
		file_discard(ret_fresh);
	return r;
}

int file_show(struct file_fresh *fresh, const char *name)
{
	char self[32];

	if (*fresh->temporary) {
		if (linkat(fresh->dir, fresh->temporary, fresh->dir, name, 0))
			return -errno;
		unlinkat(fresh->dir, fresh->temporary, 0);
		return 0;
	}
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fresh->fd);
	return linkat(AT_FDCWD, self, fresh->dir, name, AT_SYMLINK_FOLLOW) ? -errno : 0;
}

void file_discard(struct file_fresh *fresh)
{
	if (*fresh->temporary)
		unlinkat(fresh->dir, fresh->temporary, 0);
	close(fresh->fd);
	fresh->fd = -1;
}

/* ---- what is there, else a new one ---- */

static int make_and_show(const char *dir_path, const char *name, mode_t mode, const struct file_owner *owner)
{
	int dir = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	struct file_fresh fresh;

	if (dir < 0)
		return -errno;
	r = file_make(dir, name, mode, owner, &fresh);
	if (!r) {
		r = file_show(&fresh, name);
		if (r)
			file_discard(&fresh);
	}
	close(dir);
	return r ? r : fresh.fd;
}

/* Where a new file cannot be hidden: through a symbolic link that leads to nothing, without /proc. */
static int make_in_place(const char *path, mode_t mode, const struct file_owner *owner)
{
	int fd = open(path, APPEND | O_CREAT, 0600), r;

	if (fd < 0)
		return -errno;
	r = dress(fd, mode, owner);
	if (r)
		close(fd);
	return r ? r : fd;
}

int file_open_or_make(const char *dir, const char *name, mode_t mode, const struct file_owner *owner)
{
	char path[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, APPEND);
	if (fd >= 0 || errno != ENOENT)
		return fd < 0 ? -errno : fd;
	fd = make_and_show(dir, name, mode, owner);
	if (fd != -EEXIST && fd != -ENOENT)
		return fd;
	fd = open(path, APPEND); /* somebody was faster */
	return fd < 0 ? make_in_place(path, mode, owner) : fd;
}
