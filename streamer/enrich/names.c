/* Interned kernel names: open addressing by hash, deletion by shifting back. */
#include <stdlib.h>
#include <string.h>

#include "../decode/decode.h"
#include "../encode/escape.h"
#include "../encode/put.h"
#include "names.h"

#define MIN_SLOTS 256

/* Of the C++ runtime library, by the Itanium C++ ABI: returns malloc()ed text or NULL. */
extern char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status);

/* FNV-1a. */
static uint64_t hash_text(const char *text, size_t len)
{
	uint64_t hash = 0xcbf29ce484222325;
	size_t i;

	for (i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
	return hash;
}

static size_t slot_of(const struct names *names, uint64_t hash, const char *text, size_t len)
{
	size_t i = hash & (names->nslots - 1);
	struct name *name;

	while ((name = names->slots[i])) {
		if (name->hash == hash && name->len == len && !memcmp(name->text, text, len))
			break;
		i = (i + 1) & (names->nslots - 1);
	}
	return i;
}

static bool grow(struct names *names)
{
	size_t nslots = names->nslots ? names->nslots * 2 : MIN_SLOTS, nold = names->nslots, i;
	struct name **old = names->slots, **slots = calloc(nslots, sizeof(*slots));

	if (!slots)
		return false;
	names->slots = slots;
	names->nslots = nslots;
	for (i = 0; i < nold; i++)
		if (old[i])
			slots[slot_of(names, old[i]->hash, old[i]->text, old[i]->len)] = old[i];
	free(old);
	return true;
}

struct name *names_get(struct names *names, const char *text, size_t len)
{
	uint64_t hash = hash_text(text, len);
	struct name *name;
	size_t i;

	if ((names->n + 1) * 4 > names->nslots * 3 && !grow(names))
		return NULL;
	i = slot_of(names, hash, text, len);
	if (names->slots[i]) {
		names->slots[i]->refs++;
		return names->slots[i];
	}
	name = malloc(sizeof(*name) + len + 1);
	if (!name)
		return NULL;
	*name = (struct name){.refs = 1, .hash = hash, .len = len};
	memcpy(name->text, text, len);
	name->text[len] = 0;
	names->slots[i] = name;
	names->n++;
	names->bytes += sizeof(*name) + len + 1;
	return name;
}

static void free_name(struct names *names, struct name *name)
{
	names->bytes -= sizeof(*name) + name->len + 1 + (name->shown ? name->shown_len + 1 : 0) +
			(name->plain ? name->plain_len + 1 : 0);
	free(name->shown);
	free(name->plain);
	free(name);
}

void names_put(struct names *names, struct name *name)
{
	size_t mask = names->nslots - 1, hole, i, home;

	if (!name || --name->refs)
		return;
	hole = slot_of(names, name->hash, name->text, name->len);
	for (i = (hole + 1) & mask; names->slots[i]; i = (i + 1) & mask) {
		home = names->slots[i]->hash & mask;
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			names->slots[hole] = names->slots[i];
			hole = i;
		}
	}
	names->slots[hole] = NULL;
	names->n--;
	free_name(names, name);
}

/* Escaped; what would be longer than DECODE_MAX_KERNEL then is cut. */
static char *escape(const char *text, size_t len, uint32_t *ret_len)
{
	char *buffer = malloc(len * ESCAPE_GROWTH + PUT_SLACK), *end, *shown;

	if (!buffer)
		return NULL;
	end = put_escaped(buffer, text, len);
	if (end - buffer > DECODE_MAX_KERNEL)
		end = put_escaped(buffer, text, escape_whole(text, DECODE_MAX_KERNEL / ESCAPE_GROWTH));
	*ret_len = end - buffer;
	shown = malloc(*ret_len + 1);
	if (shown)
		memcpy(shown, buffer, *ret_len);
	free(buffer);
	return shown;
}

const char *names_shown(struct names *names, struct name *name, bool demangle, uint32_t *ret_len)
{
	char *plain = NULL;
	int status;

	if (!name->shown) {
		if (demangle && !strncmp(name->text, "_Z", 2))
			plain = __cxa_demangle(name->text, NULL, NULL, &status);
		name->shown = escape(plain ? plain : name->text, plain ? strlen(plain) : name->len,
				     &name->shown_len);
		free(plain);
		if (name->shown)
			names->bytes += name->shown_len + 1;
	}
	*ret_len = name->shown_len;
	return name->shown;
}

const char *names_plain(struct names *names, struct name *name, uint32_t *ret_len)
{
	if (!name->plain) {
		name->plain = escape(name->text, name->len, &name->plain_len);
		if (name->plain)
			names->bytes += name->plain_len + 1;
	}
	*ret_len = name->plain_len;
	return name->plain;
}

void names_free(struct names *names)
{
	size_t i;

	for (i = 0; i < names->nslots; i++)
		if (names->slots[i])
			free_name(names, names->slots[i]);
	free(names->slots);
	*names = (struct names){0};
}
