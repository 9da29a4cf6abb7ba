/* CUDA names in a string table; see names.h. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"

enum { CHUNK = 1 << 16, LEAD = 2 /* the "__" before "cuda" */ };

void find_names_free(struct find_names *names)
{
	free(names->names);
	*names = (struct find_names){0};
}

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Copies the name at @text, without its version; false if it is none or goes on past @max bytes. */
static bool copy_name(const char *text, size_t max, char name[FIND_NAME_LENGTH])
{
	size_t n = 0;

	while (n < max && n < FIND_NAME_LENGTH && is_name_char(text[n]))
		n++;
	if (n == max || n == FIND_NAME_LENGTH || (text[n] != '\0' && text[n] != '@'))
		return false;
	memcpy(name, text, n);
	name[n] = '\0';
	return true;
}

/* Fills in what the table knows of a name. */
static void look_up(const char *symbol, struct find_name *name)
{
	for (unsigned i = 0; i < 3; i++) {
		int row = table_find(name->api, symbol, 11 + i);

		/* table_find() may answer with a neighbouring major's row */
		if (row < 0 || !(table_rows[row].majors & (1u << i)))
			continue;
		name->majors |= (uint8_t)(1u << i);
		name->row = (uint16_t)row;
	}
}

static int add(struct find_names *names, const struct find_name *name)
{
	if (names->n == FIND_NAMES_STORED)
		return FIND_BROKEN;
	if (names->n == names->size) {
		size_t size = names->size ? 2 * names->size : 1024;
		struct find_name *grown = reallocarray(names->names, size, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		names->names = grown;
		names->size = size;
	}
	names->names[names->n++] = *name;
	names->nknown += name->majors != 0;
	return 0;
}

/* Adds the name that begins at @text, if it is one; @room bytes of the table are in the buffer. */
static int try_name(struct find_names *names, enum table_api api, const char *text, uint64_t at, size_t room,
		    bool unknown)
{
	struct find_name name = {.at = (uint32_t)at, .api = (uint8_t)api};
	char symbol[FIND_NAME_LENGTH];

	if (!copy_name(text, room, symbol))
		return 0;
	if (++names->nlookups > FIND_NAMES_LOOKUPS)
		return FIND_BROKEN;
	look_up(symbol, &name);
	if (name.majors || (unknown && names->n < FIND_NAMES_STORED / 2))
		return add(names, &name);
	return 0;
}

/* @text holds "cu"; @before bytes precede it in the buffer. */
static int consider(struct find_names *names, const char *text, uint64_t at, size_t before, size_t room,
		    bool unknown)
{
	int err = 0;

	if (room > 2 && isupper((unsigned char)text[2]))
		return try_name(names, TABLE_DRIVER, text, at, room, unknown);
	if (room <= 4 || memcmp(text, "cuda", 4) != 0 || !isupper((unsigned char)text[4]))
		return 0;
	if (before >= LEAD && text[-1] == '_' && text[-2] == '_')
		err = try_name(names, TABLE_RUNTIME, text - LEAD, at - LEAD, room + LEAD, unknown);
	return err ? err : try_name(names, TABLE_RUNTIME, text, at, room, unknown);
}

/* The next "cu". C++ libraries have string tables of 80 MB, and memmem() goes through them at a third of this
 * pace. */
static const char *next_cu(const char *text, const char *end)
{
	const char *u = text;

	while (u < end && (u = memchr(u + 1, 'u', (size_t)(end - u - 1))))
		if (u[-1] == 'c')
			return u - 1;
	return NULL;
}

/* Names whose "cu" stands in [start, start + CHUNK) of the string table. */
static int scan_chunk(const struct elf_file *file, const Elf64_Shdr *strings, uint64_t start, char *buf,
		      bool unknown, struct find_names *names)
{
	size_t lead = start ? LEAD : 0, n = lead + CHUNK + FIND_NAME_LENGTH;
	const char *end, *text;
	int err;

	if (strings->sh_size - (start - lead) < n)
		n = strings->sh_size - (start - lead);
	err = elf_file_read(file, strings->sh_offset + start - lead, buf, n);
	end = buf + n;
	text = buf + lead;
	while (!err && (text = next_cu(text, end))) {
		size_t at = (size_t)(text - buf);

		if (at >= lead + CHUNK)
			break;
		err = consider(names, text, start - lead + at, at, n - at, unknown);
		text += 2;
	}
	return err;
}

int find_names_scan(const struct elf_file *file, const Elf64_Shdr *strings, bool unknown,
		    struct find_names *names)
{
	char *buf;
	int err = 0;

	*names = (struct find_names){0};
	if (strings->sh_type != SHT_STRTAB)
		return FIND_BROKEN;
	buf = malloc(LEAD + CHUNK + FIND_NAME_LENGTH);
	if (!buf)
		return -ENOMEM;
	/* st_name has 32 bits: what lies beyond has no symbol */
	for (uint64_t at = 0; at < strings->sh_size && at <= UINT32_MAX && !err; at += CHUNK)
		err = scan_chunk(file, strings, at, buf, unknown, names);
	free(buf);
	if (err)
		find_names_free(names);
	return err;
}

static int compare_at(const void *key, const void *name)
{
	uint32_t at = *(const uint32_t *)key, other = ((const struct find_name *)name)->at;

	return at < other ? -1 : at > other;
}

const struct find_name *find_names_get(const struct find_names *names, uint32_t at)
{
	if (!names->n)
		return NULL;
	return bsearch(&at, names->names, names->n, sizeof(names->names[0]), compare_at);
}
