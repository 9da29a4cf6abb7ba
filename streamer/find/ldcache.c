/* Reading /etc/ld.so.cache; see ldcache.h. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "ldcache.h"

#define OLD_MAGIC "ld.so-1.7.0"
#define NEW_MAGIC "glibc-ld.so.cache1.1"

/* flags of an entry: a glibc library of this ABI */
#if defined(__x86_64__)
#define FLAGS_WANTED 0x0303
#else
#define FLAGS_WANTED 0x0a03
#endif

struct old_header {
	char magic[sizeof(OLD_MAGIC) - 1];
	uint32_t nlibs;
};

enum { OLD_ENTRY_SIZE = 12, NEW_ALIGN = 8 };

struct new_header {
	char magic[sizeof(NEW_MAGIC) - 1];
	uint32_t nlibs;
	uint32_t strings_size;
	uint32_t reserved[5];
};

struct entry {
	int32_t flags;
	uint32_t name, path; /* from the new header's start */
	uint32_t os_version;
	uint64_t hwcap;
};

_Static_assert(sizeof(struct new_header) == 48 && sizeof(struct entry) == 24, "glibc's layout");

/* Where the new header begins, or @size. */
static size_t find_header(const char *bytes, size_t size)
{
	struct old_header old;
	uint64_t at;

	if (size < sizeof(old) || memcmp(bytes, OLD_MAGIC, sizeof(old.magic)) != 0)
		return 0;
	memcpy(&old, bytes, sizeof(old));
	at = sizeof(old) + (uint64_t)old.nlibs * OLD_ENTRY_SIZE;
	at = (at + NEW_ALIGN - 1) & ~(uint64_t)(NEW_ALIGN - 1);
	return at < size ? (size_t)at : size;
}

static const char *string_at(const char *base, size_t size, uint32_t at)
{
	return at < size && memchr(base + at, '\0', size - at) ? base + at : NULL;
}

int ldcache_walk(const void *bytes, size_t size, ldcache_fn fn, void *ctx)
{
	size_t at = find_header(bytes, size);
	const char *base = (const char *)bytes + at;
	struct new_header header;

	size -= at;
	if (size < sizeof(header))
		return -EINVAL;
	memcpy(&header, base, sizeof(header));
	if (memcmp(header.magic, NEW_MAGIC, sizeof(header.magic)) != 0 ||
	    header.nlibs > (size - sizeof(header)) / sizeof(struct entry))
		return -EINVAL;
	for (uint32_t i = 0; i < header.nlibs; i++) {
		const char *name, *path;
		struct entry entry;
		int result;

		memcpy(&entry, base + sizeof(header) + i * sizeof(entry), sizeof(entry));
		/* the upper half tells of processor levels */
		if ((entry.flags & 0xffff) != FLAGS_WANTED)
			continue;
		name = string_at(base, size, entry.name);
		path = string_at(base, size, entry.path);
		result = name && path ? fn(ctx, name, path) : 0;
		if (result)
			return result;
	}
	return 0;
}
