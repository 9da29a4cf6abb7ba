/* A sorted array of files; see seen.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "seen.h"

/* The first place whose file is not below (dev, ino). */
static size_t place_of(const struct seen *seen, dev_t dev, ino_t ino)
{
	size_t low = 0, high = seen->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct seen_file *file = &seen->files[middle];

		if (file->ino < ino || (file->ino == ino && file->dev < dev))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct seen_file *seen_find(const struct seen *seen, dev_t dev, ino_t ino)
{
	size_t at = place_of(seen, dev, ino);

	if (at == seen->n || seen->files[at].ino != ino || seen->files[at].dev != dev)
		return NULL;
	return &seen->files[at];
}

int seen_put(struct seen *seen, dev_t dev, ino_t ino, size_t number)
{
	struct seen_file *known = seen_find(seen, dev, ino);
	size_t at = place_of(seen, dev, ino);

	if (known) {
		known->number = number;
		return 0;
	}
	if (seen->n == seen->size) {
		size_t size = seen->size ? 2 * seen->size : 64;
		struct seen_file *grown = reallocarray(seen->files, size, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		seen->files = grown;
		seen->size = size;
	}
	memmove(seen->files + at + 1, seen->files + at, (seen->n - at) * sizeof(*seen->files));
	seen->files[at] = (struct seen_file){dev, ino, number};
	seen->n++;
	return 1;
}

void seen_free(struct seen *seen)
{
	free(seen->files);
	*seen = (struct seen){0};
}
