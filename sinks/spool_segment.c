/* Segments of a spool: their files and which of their lines are done with. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spool_internal.h"

#define WORD 64

void segment_name(uint64_t first, char name[SPOOL_NAME])
{
	snprintf(name, SPOOL_NAME, "%016llx.seg", (unsigned long long)first);
}

void spool_lost(struct spool_loss *loss, uint64_t n, uint64_t seq_first, uint64_t seq_last)
{
	if (!n)
		return;
	loss->n += n;
	if (seq_first && (!loss->seq_first || seq_first < loss->seq_first))
		loss->seq_first = seq_first;
	if (seq_last > loss->seq_last)
		loss->seq_last = seq_last;
}

/* ---- the list ---- */

struct segment *segment_add(struct spool *spool, uint64_t first, uint64_t end, uint64_t bytes, bool foreign)
{
	struct segment *segment;

	if (spool->nsegments == spool->capacity) {
		size_t capacity = spool->capacity ? spool->capacity * 2 : SPOOL_PARTS * 2;
		struct segment **list = reallocarray(spool->segments, capacity, sizeof(struct segment *));

		if (!list)
			return NULL;
		spool->segments = list;
		spool->capacity = capacity;
	}
	segment = calloc(1, sizeof(*segment));
	if (!segment)
		return NULL;
	segment->first = segment->passed = first;
	segment->end = end;
	segment->left = end - first;
	segment->bytes = bytes;
	segment->foreign = foreign;
	spool->bytes += bytes;
	spool->segments[spool->nsegments++] = segment;
	return segment;
}

struct segment *segment_find(const struct spool *spool, uint64_t number)
{
	size_t low = 0, high = spool->nsegments;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		struct segment *segment = spool->segments[middle];

		if (number < segment->first)
			high = middle;
		else if (number >= segment->end)
			low = middle + 1;
		else
			return segment;
	}
	return NULL;
}

/* ---- what is done with ---- */

bool segment_is_done(const struct segment *segment, uint64_t number)
{
	uint64_t i = number - segment->first;

	return number < segment->passed || (segment->done && (segment->done[i / WORD] >> (i % WORD) & 1));
}

bool segment_done(struct segment *segment, uint64_t number)
{
	uint64_t i = number - segment->first;

	if (segment_is_done(segment, number))
		return false;
	if (number == segment->passed) {
		/* in order, as most sinks are: no marks needed */
		do
			segment->passed++;
		while (segment->passed < segment->end && segment->done &&
		       segment_is_done(segment, segment->passed));
	} else {
		if (!segment->done)
			segment->done = calloc(SPOOL_SEGMENT_LINES / WORD + 1, sizeof(*segment->done));
		if (!segment->done)
			return false;
		segment->done[i / WORD] |= 1ull << (i % WORD);
	}
	segment->left--;
	return true;
}

/* ---- files ---- */

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int segment_new(struct spool *spool)
{
	struct spool_header header;
	char name[SPOOL_NAME];
	ssize_t n;
	int fd, r = 0;

	segment_name(spool->end, name);
	fd = openat(spool->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	spool_header_make(&header, spool->end, spool->own);
	n = pwrite(fd, &header, sizeof(header), 0);
	if (n != sizeof(header))
		r = n < 0 ? -errno : -ENOSPC;
	if (!r && !segment_add(spool, spool->end, spool->end, sizeof(header), false))
		r = -ENOMEM;
	if (r) {
		close(fd);
		unlinkat(spool->dir, name, 0);
		return r;
	}
	close_fd(&spool->write_fd);
	spool->write_fd = fd;
	spool->current = spool->segments[spool->nsegments - 1];
	segments_trim(spool, false);
	return 0;
}

void segment_drop_first(struct spool *spool)
{
	struct segment *segment = spool->segments[0];
	char name[SPOOL_NAME];

	if (spool->reading == segment) {
		close_fd(&spool->read_fd);
		spool->reading = NULL;
	}
	if (spool->next < segment->end)
		spool->next = segment->end;
	if (spool->high < spool->next)
		spool->high = spool->next;
	if (spool->current == segment) {
		close_fd(&spool->write_fd);
		spool->current = NULL;
	}
	spool->bytes -= segment->bytes;
	spool->nsegments--;
	memmove(spool->segments, spool->segments + 1, spool->nsegments * sizeof(struct segment *));
	/* The state first: a file that is missing without it would count as damage. */
	spool_save(spool, 0);
	segment_name(segment->first, name);
	unlinkat(spool->dir, name, 0);
	free(segment->done);
	free(segment);
}

void segments_trim(struct spool *spool, bool all)
{
	while (spool->nsegments && !spool->segments[0]->left && !spool->segments[0]->out &&
	       (all || spool->segments[0] != spool->current))
		segment_drop_first(spool);
}

/* Who wrote it: without a good header nobody knows. */
static void read_header(struct spool *spool)
{
	struct spool_author *author = &spool->authors[spool->author];
	const char *host = spool->own ? spool->own->host : "-";
	struct spool_header header;
	ssize_t n = pread(spool->read_fd, &header, sizeof(header), 0);

	if (n != sizeof(header) || !spool_header_ok(&header))
		memset(&header, 0, sizeof(header));
	spool->same_table = header.table == spool->table;
	if (!*header.run)
		memcpy(header.run, "-", 2);
	if (!*header.host)
		snprintf(header.host, sizeof(header.host), "%s", host);
	if (!strcmp(header.run, author->run) && !strcmp(header.host, author->host))
		return;
	/* Whoever still uses the one before tells them apart by their address. */
	spool->author = !spool->author;
	author = &spool->authors[spool->author];
	memcpy(author->run, header.run, sizeof(author->run));
	memcpy(author->host, header.host, sizeof(author->host));
	author->origin = (struct sink_origin){.host = author->host, .run = author->run};
}

int segment_read_begin(struct spool *spool, struct segment *segment)
{
	char name[SPOOL_NAME];
	int fd;

	segment_name(segment->first, name);
	fd = openat(spool->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	close_fd(&spool->read_fd);
	spool->read_fd = fd;
	spool->reading = segment;
	if (spool->next < segment->first)
		spool->next = segment->first;
	reader_set(&spool->reader, fd, sizeof(struct spool_header));
	if (segment->foreign)
		read_header(spool);
	return 0;
}
