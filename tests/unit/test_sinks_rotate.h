/* A directory for the generations of one file, and reading them, whatever they are compressed with. */
#ifndef CUDATAP_TEST_SINKS_ROTATE_H
#define CUDATAP_TEST_SINKS_ROTATE_H

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "test_sinks.h"

static char dir[64];
static char path[128];

static inline int setup(void **state)
{
	strcpy(dir, "/tmp/cudatap-rotate-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/out.jsonl", dir);
	return 0;
}

static inline int teardown(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static inline struct file_options *options(struct config_sink *sink)
{
	return sink->options;
}

/* "out.jsonl.3.zst" and so on; in one of a few buffers. */
static inline const char *old_path(const char *suffix)
{
	static char paths[8][192];
	static int next;

	next = (next + 1) % 8;
	snprintf(paths[next], sizeof(paths[0]), "%s%s", path, suffix);
	return paths[next];
}

static inline bool there(const char *suffix)
{
	return !access(old_path(suffix), F_OK);
}

static inline unsigned files_in_dir(void)
{
	DIR *stream = opendir(dir);
	unsigned n = 0;

	while (readdir(stream))
		n++;
	closedir(stream);
	return n - 2;
}

/* Any generation, whatever it is compressed with; @r goes on counting. */
static inline void read_old(struct reading *r, const char *name)
{
	char command[256];
	FILE *pipe;

	snprintf(command, sizeof(command), "%s < %s",
		 strstr(name, ".zst")  ? "zstd -dc"
		 : strstr(name, ".gz") ? "gzip -dc"
				       : "cat",
		 name);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	read_all(r, fileno(pipe));
	assert_int_equal(pclose(pipe), 0);
}

/* The name of generation @i, whatever it is compressed with, or NULL. */
static inline const char *generation(unsigned i)
{
	static const char *const suffixes[] = {"", ".gz", ".zst"};
	const char *found = NULL;

	for (int s = 0; s < 3; s++) {
		char suffix[24];

		snprintf(suffix, sizeof(suffix), ".%u%s", i, suffixes[s]);
		if (!there(suffix))
			continue;
		assert_null(found); /* never two of one */
		found = old_path(suffix);
	}
	return found;
}

/* All of them, from the oldest to the current file. Returns how many old ones there are. */
static inline unsigned read_generations(struct reading *r)
{
	unsigned n = 0;

	memset(r, 0, sizeof(*r));
	while (generation(n + 1))
		n++;
	for (unsigned i = n; i; i--)
		read_old(r, generation(i));
	read_old(r, path);
	return n;
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
