/* What the tests of the spool share: a directory, lines with a seq in them, reading them back. */
#ifndef CUDATAP_TEST_SPOOL_H
#define CUDATAP_TEST_SPOOL_H

#include <dirent.h>
#include <sys/stat.h>

#include "test_sinks.h"

#include "../../sinks/spool.h"
#include "../../sinks/spool_format.h"

static const struct sink_origin run_a = {.host = "gpu07", .run = "aaaaaaaaaaaa"};
static const struct sink_origin run_b = {.host = "gpu08", .run = "bbbbbbbbbbbb"};

static inline void remove_spool(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(path);
}

static inline char *new_spool(char path[64])
{
	strcpy(path, "/tmp/spool-test-XXXXXX");
	assert_non_null(mkdtemp(path));
	return path;
}

/* Segments that are there, sorted; returns their number. */
static inline int count_segments(const char *path, char last[NAME_MAX + 1], uint64_t *ret_bytes)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	struct stat st;
	int n = 0;

	*last = 0;
	*ret_bytes = 0;
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (!strstr(entry->d_name, ".seg"))
			continue;
		assert_int_equal(fstatat(dirfd(dir), entry->d_name, &st, 0), 0);
		*ret_bytes += (uint64_t)st.st_size;
		if (strcmp(entry->d_name, last) > 0)
			strcpy(last, entry->d_name);
		n++;
	}
	closedir(dir);
	return n;
}

static inline struct spool *open_spool(const char *path, uint64_t max_bytes, struct chunk_pool *pool,
				       const struct sink_origin *origin)
{
	struct spool *spool = NULL;
	char error[512] = "";
	int r = spool_open(path, max_bytes, pool, origin, &spool, error, sizeof(error));

	if (r)
		print_error("spool_open: %s\n", error);
	assert_int_equal(r, 0);
	return spool;
}

/* The line of a seq, always the same, of 60 to 700 bytes. */
static inline size_t seq_len(uint64_t seq)
{
	return 60 + seq * 2654435761u % 640;
}

static inline struct line seq_line(char *room, uint64_t seq)
{
	size_t len = make_line(room, seq, seq_len(seq));

	return (struct line){.data = room,
			     .len = (uint32_t)len,
			     .meta = {.seq = seq,
				      .ts_ns = (int64_t)seq * 1000,
				      .pid = (uint32_t)(seq % 100 + 1),
				      .tid = (uint32_t)(seq % 1000),
				      .row = (uint16_t)(seq % 500),
				      .status = seq % 4,
				      .args_off = 1,
				      .args_len = (uint32_t)(seq % 7)}};
}

static inline size_t append_seqs(struct spool *spool, uint64_t first, size_t n, int *ret_error)
{
	char *room = malloc(n * 700);
	struct line *lines = calloc(n, sizeof(*lines));
	size_t done;

	for (size_t i = 0; i < n; i++)
		lines[i] = seq_line(room + i * 700, first + i);
	done = spool_append(spool, lines, n, ret_error);
	free(lines);
	free(room);
	return done;
}

static inline void must_append(struct spool *spool, uint64_t first, size_t n)
{
	int error;

	assert_int_equal(append_seqs(spool, first, n, &error), n);
	assert_int_equal(error, 0);
}

/* Is it exactly the line of its seq? The row is not known when the segment's header is damaged. */
static inline bool is_seq_line(const struct line *line)
{
	char room[700];
	struct line want = seq_line(room, line->meta.seq);

	return line->len == want.len && !memcmp(line->data, want.data, want.len) &&
	       line->meta.ts_ns == want.meta.ts_ns && line->meta.pid == want.meta.pid &&
	       line->meta.tid == want.meta.tid &&
	       (line->meta.row == want.meta.row || line->meta.row == UINT16_MAX) &&
	       line->meta.status == want.meta.status && line->meta.args_len == want.meta.args_len;
}

/* Take up to @max lines, in order and right; releases them. Returns how many; @ret_last: the last seq. */
static inline uint64_t drain(struct spool *spool, uint64_t max, uint64_t *ret_last)
{
	const struct sink_origin *origin;
	const struct line *lines;
	uint64_t n = 0;
	size_t count;

	while (n < max && (count = spool_peek(spool, &lines, &origin))) {
		count = count < max - n ? count : max - n;
		for (size_t i = 0; i < count; i++) {
			assert_true(is_seq_line(&lines[i]));
			assert_true(!n || lines[i].meta.seq > *ret_last);
			*ret_last = lines[i].meta.seq;
			n++;
		}
		spool_take(spool, count);
		for (size_t i = 0; i < count; i++)
			spool_release(spool, lines[i].meta.spool);
	}
	return n;
}

#endif
