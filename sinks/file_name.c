/* Names of a file's generations, and dates in them. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "file.h"

#define MAX_PATTERN 200 /* leaves room for dates, numbers and suffixes in NAME_MAX */
#define MAX_NUMBER  6   /* digits */

const char *const file_suffixes[FILE_NCOMPRESS] = {"", ".gz", ".zst"};

/* Conversions of strftime(3) of a fixed width, so that a name says what it was made from. */
static const struct conversion {
	char letter;
	const char *shape; /* 0 is any digit */
} conversions[] = {
	{'Y', "0000"}, {'y', "00"}, {'m', "00"},  {'d', "00"},   {'F', "0000-00-00"}, {'H', "00"},
	{'M', "00"},   {'S', "00"}, {'j', "000"}, {'G', "0000"}, {'V', "00"},         {'%', "%"},
};

static const struct conversion *find_conversion(char letter)
{
	for (size_t i = 0; i < sizeof(conversions) / sizeof(conversions[0]); i++)
		if (conversions[i].letter == letter)
			return &conversions[i];
	return NULL;
}

int file_name_check(const char *pattern, char *error, size_t error_size)
{
	size_t len = strlen(pattern);

	if (!len || !strcmp(pattern, ".") || !strcmp(pattern, "..")) {
		snprintf(error, error_size, "path names a directory: name a file in it");
		return -EINVAL;
	}
	if (len > MAX_PATTERN) {
		snprintf(error, error_size, "the file's name has %zu bytes; %d can be", len, MAX_PATTERN);
		return -EINVAL;
	}
	for (const char *p = pattern; (p = strchr(p, '%')); p += 2)
		if (!find_conversion(p[1])) {
			snprintf(error, error_size,
				 "%%%c in path is no part of a date: there are %%Y %%y %%m %%d %%F %%H %%M "
				 "%%S "
				 "%%j %%G %%V, and %%%% for a %%",
				 isprint((unsigned char)p[1]) ? p[1] : ' ');
			return -EINVAL;
		}
	return 0;
}

bool file_name_is_dated(const char *pattern)
{
	for (const char *p = pattern; (p = strchr(p, '%')); p += 2)
		if (p[1] != '%')
			return true;
	return false;
}

void file_name_make(const char *pattern, time_t at, char ret_name[NAME_MAX + 1])
{
	struct tm tm;

	gmtime_r(&at, &tm);
	/* a checked pattern has only numbers in it, which no locale changes */
	if (!strftime(ret_name, NAME_MAX + 1, pattern, &tm))
		snprintf(ret_name, NAME_MAX + 1, "%.*s", NAME_MAX, pattern);
}

static const char *match_shape(const char *shape, const char *name)
{
	for (; *shape; shape++, name++)
		if (*shape == '0' ? !isdigit((unsigned char)*name) : *name != *shape)
			return NULL;
	return name;
}

/* Where the pattern's part of the name ends, or NULL. */
static const char *match(const char *pattern, const char *name)
{
	for (; *pattern && name; pattern++) {
		if (*pattern == '%')
			name = match_shape(find_conversion(*++pattern)->shape, name);
		else
			name = *name == *pattern ? name + 1 : NULL;
	}
	return name;
}

static bool parse_number(const char **text, unsigned *ret_number)
{
	const char *p = *text + 1;
	unsigned n = 0, digits = 0;

	*ret_number = 0;
	if (**text != '.' || *p < '1' || *p > '9')
		return false;
	for (; isdigit((unsigned char)*p) && digits < MAX_NUMBER; digits++)
		n = n * 10 + (unsigned)(*p++ - '0');
	*ret_number = n;
	*text = p;
	return true;
}

bool file_name_parse(const char *pattern, const char *name, struct file_generation *ret_generation)
{
	const char *rest = match(pattern, name);

	if (!rest)
		return false;
	ret_generation->base_len = (size_t)(rest - name);
	/* NAME.gz without a number is somebody else's, but for names with a date */
	if (!parse_number(&rest, &ret_generation->number) && *rest && !file_name_is_dated(pattern))
		return false;
	for (int i = 0; i < FILE_NCOMPRESS; i++)
		if (!strcmp(rest, file_suffixes[i])) {
			ret_generation->compress = (enum file_compress)i;
			return true;
		}
	return false;
}

/* Hidden, so that no shipper's glob takes it for a log. */
int file_name_temporary(const char *name, char ret_name[NAME_MAX + 1])
{
	int n = snprintf(ret_name, NAME_MAX + 1, ".%s.tmp", name);

	return n <= NAME_MAX ? 0 : -ENAMETOOLONG;
}

bool file_name_is_temporary(const char *pattern, const char *name)
{
	struct file_generation generation;
	char inner[NAME_MAX + 1];
	size_t len = strlen(name);

	if (len < 6 || len > NAME_MAX || name[0] != '.' || strcmp(name + len - 4, ".tmp") != 0)
		return false;
	memcpy(inner, name + 1, len - 5);
	inner[len - 5] = 0;
	return file_name_parse(pattern, inner, &generation);
}
