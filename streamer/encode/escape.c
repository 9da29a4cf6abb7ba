/* Text of any bytes as the inside of a JSON string. */
#include "escape.h"

#include <stdbool.h>

#include "put.h"

#define ONES  0x0101010101010101u
#define HIGHS 0x8080808080808080u

/* what is written for the bytes below 0x20 that have a short form, and for the two above */
static const char short_escape[256] = {
	['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r', ['"'] = '"', ['\\'] = '\\',
};

/* Whether all eight bytes are ASCII that needs no escape. */
static bool is_plain(uint64_t x)
{
	uint64_t quote = x ^ ONES * '"';
	uint64_t backslash = x ^ ONES * '\\';

	/* A byte is below n when subtracting n borrows from its high bit; false alarms are possible
	 * next to a true one only, and all eight take the slow path then. */
	return !((x | (x - ONES * 0x20) | (quote - ONES) | (backslash - ONES)) & HIGHS);
}

int escape_utf8(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	/* the second byte's range depends on the first: no overlong forms, surrogates, or beyond U+10FFFF */
	unsigned char low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
	unsigned char high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
	int want = s[0] < 0x80   ? 1
		   : s[0] < 0xc2 ? 0
		   : s[0] < 0xe0 ? 2
		   : s[0] < 0xf0 ? 3
		   : s[0] < 0xf5 ? 4
				 : 0;

	if (want == 0)
		return -1;
	for (int i = 1; i < want; i++) {
		if ((size_t)i == len || s[i] < low || s[i] > high)
			return -i;
		low = 0x80;
		high = 0xbf;
	}
	return want;
}

static char *put_control(char *p, unsigned char c)
{
	p = PUT_LITERAL(p, "\\u00");
	*p++ = (char)('0' + (c >> 4));
	*p++ = "0123456789abcdef"[c & 15];
	return p;
}

char *put_escaped(char *p, const char *text, size_t len)
{
	const char *end = text + len;
	uint64_t eight;

	while (text < end) {
		unsigned char c = (unsigned char)*text;
		int n = 1;

		if (end - text >= 8) {
			memcpy(&eight, text, 8);
			if (is_plain(eight)) {
				memcpy(p, &eight, 8);
				p += 8;
				text += 8;
				continue;
			}
		}
		if (short_escape[c]) {
			*p++ = '\\';
			*p++ = short_escape[c];
		} else if (c < 0x20) {
			p = put_control(p, c);
		} else if (c < 0x80) {
			*p++ = (char)c;
		} else {
			n = escape_utf8(text, (size_t)(end - text));
			p = n > 0 ? put_bytes(p, text, (size_t)n) : PUT_LITERAL(p, "\xef\xbf\xbd");
		}
		text += n > 0 ? n : -n;
	}
	return p;
}

size_t escape_whole(const char *text, size_t len)
{
	/* a sequence has at most four bytes, so a cut one begins in the last three */
	for (size_t back = 1; back <= 3 && back <= len; back++) {
		unsigned char c = (unsigned char)text[len - back];

		if (c < 0x80)
			break;
		if (c >= 0xc2 && c <= 0xf4)
			return escape_utf8(text + len - back, back) == -(int)back ? len - back : len;
	}
	return len;
}
