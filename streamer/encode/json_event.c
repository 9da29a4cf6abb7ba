/* Events that are no calls, in the format "json": the common keys, the event's own, the constant fields. */
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

/* ---- the line ---- */

int encode_line_of(json_t *event, enum event_type type, uint64_t seq, int64_t ts_ns, char *out,
		   struct line_meta *ret_meta)
{
	size_t len = event ? json_dumpb(event, out, ENCODE_MAX_LINE, JSON_COMPACT) : 0;

	json_decref(event);
	if (!len)
		return -ENOMEM;
	if (len >= ENCODE_MAX_LINE)
		return -E2BIG;
	out[len++] = '\n';
	*ret_meta = (struct line_meta){
		.seq = seq,
		.ts_ns = ts_ns,
		.row = 0xffff,
		.status = CALL_OK,
		.type = (uint8_t)type,
	};
	return (int)len;
}

static void set(json_t *event, const struct encoder *encoder, const char *name, json_t *value)
{
	const struct encoder_options options = {.rename = encoder->rename, .nrename = encoder->nrename};

	json_object_set_new(event, encode_renamed(&options, name), value);
}

int encode_json_event(struct encoder *encoder, enum event_type type, json_t *body, uint64_t seq,
		      int64_t ts_ns, char *out, struct line_meta *ret_meta)
{
	json_t *event = json_object(), *value;
	char ts[TIMESTAMP_LEN + PUT_SLACK];
	const char *name;

	*put_timestamp(ts, &encoder->clock, ts_ns) = '\0';
	set(event, encoder, "type", json_string(event_type_names[type]));
	set(event, encoder, "run", encode_string(encoder->run));
	if (seq)
		set(event, encoder, "seq", json_integer((json_int_t)seq));
	set(event, encoder, "ts", json_string(ts));
	set(event, encoder, "host", encode_string(encoder->host));
	json_object_foreach(body, name, value) set(event, encoder, name, json_incref(value));
	for (size_t i = 0; i < encoder->nstatics; i++) {
		json_t *key = encode_string(encoder->statics[i].name);

		json_object_set_new(event, json_string_value(key), encode_string(encoder->statics[i].value));
		json_decref(key);
	}
	return encode_line_of(event, type, seq, ts_ns, out, ret_meta);
}
