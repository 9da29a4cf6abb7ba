/* Control events in the format "json": the common keys, the event's own, the constant fields. */
#include <errno.h>
#include <stdlib.h>

#include "escape.h"
#include "format.h"
#include "number.h"

json_t *encode_string(const char *text)
{
	char *utf8, *p;
	json_t *string;
	size_t len;

	if (!text)
		return NULL;
	len = strlen(text);
	p = utf8 = malloc(len * 3 + 1);
	if (!utf8)
		return NULL;
	while (len) {
		int n = escape_utf8(text, len);

		p = n > 0 ? put_bytes(p, text, (size_t)n) : PUT_LITERAL(p, "\xef\xbf\xbd");
		text += abs(n);
		len -= (size_t)abs(n);
	}
	string = json_stringn(utf8, (size_t)(p - utf8));
	free(utf8);
	return string;
}

/* Up to `host`. The encoder's constants are known to fit. */
static char *put_event_head(char *p, struct encoder *encoder, enum event_type type, uint64_t seq,
			    int64_t ts_ns)
{
	const struct fragments *f = &encoder->fragments;

	p = PUT_LITERAL(p, "{\"type\":\"");
	p = put_bytes(p, event_type_names[type], strlen(event_type_names[type]));
	p = PUT_LITERAL(p, "\",\"run\":\"");
	p = put_escaped(p, encoder->run, strlen(encoder->run));
	*p++ = '"';
	if (seq) {
		p = PUT_LITERAL(p, ",\"seq\":");
		p = put_u64(p, seq);
	}
	p = PUT_LITERAL(p, ",\"ts\":\"");
	p = put_timestamp(p, &encoder->clock, ts_ns);
	*p++ = '"';
	return put_fragment(p, f->text, f->host);
}

int encode_json_event(struct encoder *encoder, enum event_type type, json_t *body, uint64_t seq,
		      int64_t ts_ns, char *out, struct line_meta *ret_meta)
{
	const struct fragments *f = &encoder->fragments;
	char *p = put_event_head(out, encoder, type, seq, ts_ns);
	size_t room = (size_t)(out + ENCODE_MAX_LINE - p) - f->tail.len - PUT_SLACK;
	size_t len;

	if (json_object_size(body)) {
		len = json_dumpb(body, p, room, JSON_COMPACT);
		if (!len)
			return -ENOMEM;
		if (len > room)
			return -E2BIG;
		/* the body's braces: one becomes the comma, the tail brings the other */
		*p = ',';
		p += len - 1;
	}
	p = put_fragment(p, f->text, f->tail);
	*ret_meta = (struct line_meta){
		.seq = seq,
		.ts_ns = ts_ns,
		.row = 0xffff,
		.status = CALL_OK,
		.type = (uint8_t)type,
	};
	return (int)(p - out);
}
