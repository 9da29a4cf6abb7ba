/* Reads the bytes of a configuration and checks that they are text. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text.h"

static int read_all(int fd, char *text, size_t room, size_t *ret_len)
{
	size_t len = 0;

	while (len < room) {
		ssize_t n = read(fd, text + len, room - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		len += n;
	}
	*ret_len = len;
	return 0;
}

int text_read(int fd, size_t max, char **ret_text, size_t *ret_len)
{
	char *text = malloc(max + 2);
	size_t len = 0;
	int err = text ? read_all(fd, text, max + 1, &len) : -ENOMEM;

	if (err) {
		free(text);
		return err;
	}
	text[len] = '\0';
	*ret_text = text;
	*ret_len = len;
	return 0;
}

char *text_beside(const char *file, const char *path)
{
	const char *slash = strrchr(file, '/');
	char *whole;

	if (*path == '/' || !slash)
		return strdup(path);
	return asprintf(&whole, "%.*s/%s", (int)(slash - file), file, path) < 0 ? NULL : whole;
}

/* Length by the first byte, and the least code point that needs it (RFC 3629). */
static const struct utf8_lead {
	uint8_t mask, lead, len;
	uint32_t least;
} leads[] = {
	{0x80, 0x00, 1, 0},
	{0xe0, 0xc0, 2, 0x80},
	{0xf0, 0xe0, 3, 0x800},
	{0xf8, 0xf0, 4, 0x10000},
};

/* Returns the character's length, or 0. */
static size_t decode(const unsigned char *s, size_t len, uint32_t *ret_code)
{
	for (size_t i = 0; i < sizeof(leads) / sizeof(leads[0]); i++) {
		const struct utf8_lead *l = &leads[i];
		uint32_t code;

		if ((s[0] & l->mask) != l->lead)
			continue;
		if (l->len > len)
			return 0;
		code = s[0] & (uint8_t)~l->mask;
		for (size_t k = 1; k < l->len; k++) {
			if ((s[k] & 0xc0) != 0x80)
				return 0;
			code = code << 6 | (s[k] & 0x3f);
		}
		if (code < l->least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
			return 0;
		*ret_code = code;
		return l->len;
	}
	return 0;
}

size_t text_character(const char *text, size_t len)
{
	uint32_t code;

	return len ? decode((const unsigned char *)text, len, &code) : 0;
}

/* What YAML allows in a stream (YAML 1.2, 5.1). */
static bool is_printable(uint32_t c)
{
	if (c < ' ')
		return c == '\t' || c == '\n' || c == '\r';
	return c != 0x7f && (c < 0x80 || c > 0x9f || c == 0x85) && c != 0xfffe && c != 0xffff;
}

static int wrong_byte(struct errors *errors, const struct mark *at, unsigned char byte, bool is_utf8)
{
	if (!byte)
		errors_add(errors, at, "a NUL byte: this is not a text file");
	else if (is_utf8)
		errors_add(errors, at, "a control character (byte 0x%02x): remove it", byte);
	else
		errors_add(errors, at, "byte 0x%02x is not UTF-8%s", byte,
			   at->line ? ": save the file as UTF-8" : "");
	return -EINVAL;
}

int text_check(const char *text, size_t len, const struct mark *mark, struct errors *errors)
{
	const unsigned char *s = (const unsigned char *)text;
	struct mark at = {.file = mark->file, .line = mark->line, .column = 1};
	size_t n;

	if (len > TEXT_MAX) {
		errors_add(errors, &(struct mark){.file = mark->file},
			   "larger than %u KiB: this is not a configuration", TEXT_MAX >> 10);
		return -EINVAL;
	}
	for (size_t i = 0; i < len; i += n) {
		uint32_t code = 0;

		n = decode(s + i, len - i, &code);
		if (!n || !is_printable(code))
			return wrong_byte(errors, &at, s[i], n);
		if (code == '\n')
			at = (struct mark){.file = at.file, .line = at.line ? at.line + 1 : 0, .column = 1};
		else if (code != 0xfeff || i)
			at.column++;
	}
	return 0;
}

bool text_is_clean(const char *text, size_t len)
{
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		uint32_t code = 0;

		n = decode((const unsigned char *)text + i, len - i, &code);
		if (!n || !is_printable(code))
			return false;
	}
	return true;
}
