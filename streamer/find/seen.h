/* A set of files by (device, inode), each with a number of the caller's. */
#ifndef CUDATAP_SEEN_H
#define CUDATAP_SEEN_H

#include <stddef.h>
#include <sys/types.h>

struct seen {
	struct seen_file {
		dev_t dev;
		ino_t ino;
		size_t number;
	} * files; /* sorted */
	size_t n, size;
};

/** seen_find - the file in the set, or NULL; good until the next seen_put() */
struct seen_file *seen_find(const struct seen *seen, dev_t dev, ino_t ino);

/** seen_put - put a file into the set, or change its number.
 * Returns 1 when it is new, 0 when it was there, or -ENOMEM. */
int seen_put(struct seen *seen, dev_t dev, ino_t ino, size_t number);
void seen_free(struct seen *seen);

#endif
