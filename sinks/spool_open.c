/* Opening a spool: the directory, its lock, what an earlier run left, and closing. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spool_internal.h"

/* ---- what is there ---- */

struct names {
	uint64_t *list;
	size_t n, capacity;
};

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int names_add(struct names *names, uint64_t first)
{
	if (names->n == names->capacity) {
		size_t capacity = names->capacity ? names->capacity * 2 : SPOOL_PARTS * 2;
		uint64_t *list = reallocarray(names->list, capacity, sizeof(*list));

		if (!list)
			return -ENOMEM;
		names->list = list;
		names->capacity = capacity;
	}
	names->list[names->n++] = first;
	return 0;
}

static int list_segments(const struct spool *spool, struct names *names)
{
	int fd = openat(spool->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (!r && (entry = readdir(dir))) {
		char name[SPOOL_NAME];
		uint64_t first = strtoull(entry->d_name, NULL, 16);

		segment_name(first, name);
		if (!strcmp(name, entry->d_name) && first && first < SPOOL_MAX_NUMBER)
			r = names_add(names, first);
	}
	closedir(dir);
	if (names->n)
		qsort(names->list, names->n, sizeof(*names->list), by_number);
	return r;
}

/* Where the lines of the last segment end: nothing but reading it tells. What follows the last whole
 * record is one that the writer's death cut off. */
static uint64_t find_end(struct spool *spool, uint64_t first, uint64_t bytes)
{
	uint64_t end = first, right = sizeof(struct spool_header);
	struct spool_record record;
	char name[SPOOL_NAME];
	int fd;

	segment_name(first, name);
	fd = openat(spool->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return first;
	reader_set(&spool->reader, fd, right);
	while (reader_next(&spool->reader, bytes, &record)) {
		if (record.number < end || record.number - first >= SPOOL_SEGMENT_LINES)
			continue;
		end = record.number + 1;
		right = spool->reader.offset - (spool->reader.n - spool->reader.pos);
	}
	close(fd);
	return end + (right < bytes);
}

/* One past the last line that the segment can have had. @next: first line of the one after it, or 0. */
static uint64_t segment_end(struct spool *spool, uint64_t first, uint64_t next, uint64_t bytes)
{
	uint64_t end = next ? next : find_end(spool, first, bytes);

	if (!next && spool->saved.end > end && spool->saved.end - first <= SPOOL_SEGMENT_LINES)
		end = spool->saved.end;
	/* with the files in between missing, by what it can hold */
	if (end - first > SPOOL_SEGMENT_LINES)
		end = first + bytes / SPOOL_RECORD_BYTES(SPOOL_MIN_LINE);
	return end;
}

static void drop_file(const struct spool *spool, uint64_t first)
{
	char name[SPOOL_NAME];

	segment_name(first, name);
	unlinkat(spool->dir, name, 0);
}

static int take_segment(struct spool *spool, uint64_t first, uint64_t next)
{
	uint64_t released = spool->saved.released, bytes, end;
	struct segment *segment;
	char name[SPOOL_NAME];
	struct stat st;

	segment_name(first, name);
	bytes = fstatat(spool->dir, name, &st, AT_SYMLINK_NOFOLLOW) || st.st_size < 0 ? 0
										      : (uint64_t)st.st_size;
	end = segment_end(spool, first, next, bytes);
	if (end <= released || end == first) {
		drop_file(spool, first);
		spool->end = end > spool->end ? end : spool->end;
		return 0;
	}
	/* lines that no file has */
	if (spool->end && first > spool->end && first > released)
		spool_lost(&spool->corrupt, first - (spool->end > released ? spool->end : released), 0, 0);
	segment = segment_add(spool, first, end, bytes, true);
	if (!segment)
		return -ENOMEM;
	if (released > first) {
		segment->passed = released;
		segment->left = end - released;
	}
	spool->recovered += segment->left;
	spool->end = end;
	return 0;
}

int spool_find(struct spool *spool)
{
	struct spool_state state;
	struct names names = {0};
	uint64_t limit;
	int r;

	if (pread(spool->state, &state, sizeof(state), 0) == sizeof(state) && spool_state_ok(&state))
		spool->saved = state;
	limit = spool->saved.end;
	/* Without a state nobody knows what was before the first file. */
	spool->end = spool->saved.released;
	r = list_segments(spool, &names);
	for (size_t i = 0; i < names.n && !r; i++)
		r = take_segment(spool, names.list[i], i + 1 < names.n ? names.list[i + 1] : 0);
	free(names.list);
	if (limit > spool->end) {
		spool_lost(&spool->corrupt, limit - spool->end, 0, 0);
		spool->end = limit;
	}
	spool->recovered += spool->corrupt.n;
	if (!spool->end)
		spool->end = 1;
	spool->own_first = spool->end;
	spool->next = spool->nsegments ? spool->segments[0]->first : spool->end;
	return r;
}

/* ---- life ---- */

/* The directory and those above it. */
static int make_directory(const char *path)
{
	char *copy = strdup(path);
	int r = 0;

	if (!copy)
		return -ENOMEM;
	for (char *p = copy + 1; *copy && *p && !r; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		if (mkdir(copy, 0755) && errno != EEXIST)
			r = -errno;
		*p = '/';
	}
	if (!r && mkdir(path, 0700) && errno != EEXIST)
		r = -errno;
	free(copy);
	return r;
}

static int lock_spool(struct spool *spool, const char *path, char *error, size_t size)
{
	char text[16] = "";
	ssize_t n;

	spool->lock = openat(spool->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (spool->lock < 0)
		return -errno;
	if (!flock(spool->lock, LOCK_EX | LOCK_NB)) {
		n = snprintf(text, sizeof(text), "%d\n", (int)getpid());
		/* For the message of others only: cut to nothing if it cannot be written. */
		if (ftruncate(spool->lock, 0) || pwrite(spool->lock, text, (size_t)n, 0) == n)
			return 0;
		return ftruncate(spool->lock, 0) ? -errno : 0;
	}
	if (errno != EWOULDBLOCK)
		return -errno;
	n = pread(spool->lock, text, sizeof(text) - 1, 0);
	text[n > 0 ? strspn(text, "0123456789") : 0] = 0;
	snprintf(error, size, "spool %s is in use%s%s: give each sink and each cudatap its own", path,
		 *text ? ", by process " : "", text);
	return -EBUSY;
}

static int open_files(struct spool *spool, const char *path, char *error, size_t size)
{
	int r = make_directory(path);

	if (r)
		return r;
	spool->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (spool->dir < 0)
		return -errno;
	r = lock_spool(spool, path, error, size);
	if (r)
		return r;
	spool->state = openat(spool->dir, "state", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return spool->state < 0 ? -errno : spool_find(spool);
}

static struct spool *spool_new(uint64_t max_bytes, struct chunk_pool *pool, const struct sink_origin *origin)
{
	struct spool *spool = calloc(1, sizeof(*spool));

	if (!spool)
		return NULL;
	spool->dir = spool->lock = spool->state = spool->read_fd = spool->write_fd = -1;
	spool->max_bytes = max_bytes < SPOOL_MIN_BYTES ? SPOOL_MIN_BYTES : max_bytes;
	spool->segment_bytes = spool->max_bytes / SPOOL_PARTS;
	if (spool->segment_bytes > SPOOL_MAX_SEGMENT)
		spool->segment_bytes = SPOOL_MAX_SEGMENT;
	spool->pool = pool;
	spool->own = origin;
	spool->table = spool_table_mark();
	return spool;
}

static void spool_free(struct spool *spool)
{
	const int fds[] = {spool->read_fd, spool->write_fd, spool->state, spool->dir, spool->lock};

	for (size_t i = 0; i < spool->nsegments; i++) {
		free(spool->segments[i]->done);
		free(spool->segments[i]);
	}
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	chunk_unref(spool->batch);
	free(spool->segments);
	free(spool);
}

bool spool_same(const char *a, const char *b)
{
	struct stat one, other;

	if (!strcmp(a, b))
		return true;
	return !stat(a, &one) && !stat(b, &other) && one.st_ino == other.st_ino && one.st_dev == other.st_dev;
}

int spool_open(const char *path, uint64_t max_bytes, struct chunk_pool *pool,
	       const struct sink_origin *origin, struct spool **ret_spool, char *error, size_t error_size)
{
	struct spool *spool = spool_new(max_bytes, pool, origin);
	int r;

	*error = 0;
	r = spool ? open_files(spool, path, error, error_size) : -ENOMEM;
	if (r) {
		if (!*error)
			snprintf(error, error_size, "cannot open spool %s: %s", path, strerror(-r));
		if (spool)
			spool_free(spool);
		return r;
	}
	*ret_spool = spool;
	return 0;
}

void spool_close(struct spool *spool)
{
	if (!spool)
		return;
	segments_trim(spool, true);
	spool_save(spool, 0);
	spool_free(spool);
}
