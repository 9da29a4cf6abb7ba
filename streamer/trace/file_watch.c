/*
 * Names in directories, by inotify. A file is watched through the directory
 * that it is in, and so is every symbolic link on the way to it: a ConfigMap's
 * files are behind a link to a directory, which is what is replaced.
 */
#include "file_watch.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../log.h"

#define MAX_LINKS 40 /* on the way to one file, as the kernel has it */
#define EVENTS                                                                                               \
	(IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE | IN_ATTRIB | IN_DELETE_SELF | \
	 IN_MOVE_SELF | IN_ONLYDIR)

/* A name in a directory. */
struct place {
	char *dir, *name; /* the name may be a pattern */
	int wd;
};

struct places {
	struct place *list;
	size_t n;
};

struct file_watch {
	int fd;
	struct places places;
};

static void places_free(struct places *places)
{
	for (size_t i = 0; i < places->n; i++) {
		free(places->list[i].dir);
		free(places->list[i].name);
	}
	free(places->list);
	*places = (struct places){0};
}

static bool places_have(const struct places *places, const char *dir, const char *name)
{
	for (size_t i = 0; i < places->n; i++)
		if (!strcmp(places->list[i].dir, dir) && !strcmp(places->list[i].name, name))
			return true;
	return false;
}

static bool places_same(const struct places *a, const struct places *b)
{
	for (size_t i = 0; a->n == b->n && i < a->n; i++)
		if (!places_have(b, a->list[i].dir, a->list[i].name))
			return false;
	return a->n == b->n;
}

static void places_add(struct places *places, const char *dir, const char *name)
{
	struct place *list;

	dir = *dir ? dir : ".";
	if (places_have(places, dir, name))
		return;
	list = reallocarray(places->list, places->n + 1, sizeof(*list));
	if (!list)
		return;
	places->list = list;
	list[places->n] = (struct place){strdup(dir), strdup(name), -1};
	if (list[places->n].dir && list[places->n].name) {
		places->n++;
		return;
	}
	free(list[places->n].dir);
	free(list[places->n].name);
}

/* ---- the way to a file ---- */

/* A path that is taken apart from the left. */
struct way {
	char done[PATH_MAX];     /* directories that are no links, with a "/" at the end; or empty */
	char left[2 * PATH_MAX]; /* what follows */
	unsigned links;
};

/* Cuts the first name off what is left; empty names are passed over. */
static bool next_name(struct way *way, char name[NAME_MAX + 1])
{
	const char *start = way->left + strspn(way->left, "/");
	size_t len = strcspn(start, "/");

	if (!len || len > NAME_MAX)
		return false;
	memcpy(name, start, len);
	name[len] = 0;
	memmove(way->left, start + len, strlen(start + len) + 1);
	return true;
}

/* What is left may begin at the root. */
static void begin_way(struct way *way)
{
	if (*way->left == '/')
		snprintf(way->done, sizeof(way->done), "/");
}

/* What a link says takes its place. */
static bool follow(struct way *way, const char *target)
{
	char left[sizeof(way->left)];

	if (++way->links > MAX_LINKS ||
	    snprintf(left, sizeof(left), "%s/%s", target, way->left) >= (int)sizeof(left))
		return false;
	memcpy(way->left, left, strlen(left) + 1);
	begin_way(way);
	return true;
}

static void add_way(struct places *places, const char *path)
{
	char name[NAME_MAX + 1], full[PATH_MAX + NAME_MAX + 1], target[PATH_MAX];
	struct way way = {.done = ""};
	struct stat st;
	ssize_t n;

	snprintf(way.left, sizeof(way.left), "%s", path);
	begin_way(&way);
	while (next_name(&way, name)) {
		bool last = !way.left[strspn(way.left, "/")], there;

		snprintf(full, sizeof(full), "%s%s", way.done, name);
		there = !lstat(full, &st);
		if (there && S_ISLNK(st.st_mode)) {
			places_add(places, way.done, name);
			n = readlink(full, target, sizeof(target) - 1);
			target[n > 0 ? n : 0] = 0;
			if (n > 0 && follow(&way, target))
				continue;
			return;
		}
		if (last || !there) {
			places_add(places, way.done, name);
			return;
		}
		if (snprintf(way.done, sizeof(way.done), "%s/", full) >= (int)sizeof(way.done))
			return;
	}
}

/* ---- watching ---- */

struct file_watch *file_watch_new(void)
{
	struct file_watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return NULL;
	watch->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (watch->fd >= 0)
		return watch;
	free(watch);
	return NULL;
}

void file_watch_free(struct file_watch *watch)
{
	if (!watch)
		return;
	places_free(&watch->places);
	close(watch->fd);
	free(watch);
}

int file_watch_fd(const struct file_watch *watch)
{
	return watch->fd;
}

bool file_watch_set(struct file_watch *watch, const struct config_strings *paths)
{
	struct places places = {0};

	for (size_t i = 0; i < paths->n; i++)
		add_way(&places, paths->list[i]);
	if (places_same(&places, &watch->places)) {
		places_free(&places);
		return false;
	}
	for (size_t i = 0; i < watch->places.n; i++)
		inotify_rm_watch(watch->fd, watch->places.list[i].wd);
	places_free(&watch->places);
	for (size_t i = 0; i < places.n; i++) {
		places.list[i].wd = inotify_add_watch(watch->fd, places.list[i].dir, EVENTS);
		if (places.list[i].wd < 0)
			log_msg("changes of %s%s%s will not be seen: cannot watch its directory: %s",
				places.list[i].dir, strcmp(places.list[i].dir, "/") ? "/" : "",
				places.list[i].name, strerror(errno));
	}
	watch->places = places;
	return true;
}

static bool concerns(const struct file_watch *watch, const struct inotify_event *event)
{
	if (event->mask & IN_Q_OVERFLOW)
		return true;
	for (size_t i = 0; i < watch->places.n; i++) {
		const struct place *place = &watch->places.list[i];

		if (place->wd != event->wd)
			continue;
		if (!event->len || !strcmp(place->name, event->name) ||
		    !fnmatch(place->name, event->name, FNM_PERIOD))
			return true;
	}
	return false;
}

bool file_watch_read(struct file_watch *watch)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	const struct inotify_event *event;
	bool any = false;
	ssize_t n, at;

	while ((n = read(watch->fd, events, sizeof(events))) > 0)
		for (at = 0; at < n; at += (ssize_t)(sizeof(*event) + event->len)) {
			event = (const void *)(events + at);
			any |= concerns(watch, event);
		}
	return any;
}
