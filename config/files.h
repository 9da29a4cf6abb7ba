/* The files of a configuration: one that the user names, and those that they include. */
#ifndef CUDATAP_CONFIG_FILES_H
#define CUDATAP_CONFIG_FILES_H

#include <sys/types.h>

#include "config.h"
#include "tree.h"
#include "variables.h"

#define FILES_MAX       64 /* of one configuration */
#define FILES_MAX_DEPTH 8  /* files that include files */

struct file_id {
	dev_t device;
	ino_t inode;
};

/* One reading. */
struct files {
	struct tree *tree;
	struct variables *variables;
	struct errors *errors;
	struct config_strings *names;         /* what was opened is put here, for who wants to watch it */
	struct file_id open[FILES_MAX_DEPTH]; /* from the first file to the one that is read */
	unsigned depth, count;
	size_t bytes; /* of all files */
};

/**
 * files_read - a file and what it includes, as one map
 * @path: "-" is stdin; pipes are read to their end; NULL: @text is the file
 * @mark: the name for messages
 * @ret_root: without the key include_files; NULL: the file is empty
 *
 * A file lies over the files that it includes, and those each over the ones before it: in the order of
 * the list, matches of one pattern by name.
 * Returns 0, or -EINVAL after a message: what could be read is there all the same.
 */
int files_read(struct files *files, const char *path, const char *text, size_t len, const struct mark *mark,
	       const struct node **ret_root);

#endif
