/* The template of message keys: compiled once, filled in per line. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../streamer/decode/decode.h"
#include "../streamer/encode/encode.h"
#include "kafka.h"

static const char *const status_names[] = {
	[CALL_OK] = "ok",
	[CALL_ERROR] = "error",
	[CALL_NOT_READY] = "not_ready",
	[CALL_UNFINISHED] = "unfinished",
};
static const char *const api_names[TABLE_NAPIS] = {
	[TABLE_RUNTIME] = "runtime",
	[TABLE_DRIVER] = "driver",
};

/* ---- fields ---- */

static size_t put_number(char *out, uint64_t value)
{
	char digits[20];
	size_t n = 0;

	do {
		digits[n++] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	for (size_t i = 0; i < n; i++)
		out[i] = digits[n - 1 - i];
	return n;
}

static size_t put_text(char *out, const char *text)
{
	size_t len = strlen(text);

	memcpy(out, text, len);
	return len;
}

static size_t put_pid(const struct line_meta *meta, char *out)
{
	return put_number(out, meta->pid);
}

static size_t put_tid(const struct line_meta *meta, char *out)
{
	return put_number(out, meta->tid);
}

static size_t put_seq(const struct line_meta *meta, char *out)
{
	return put_number(out, meta->seq);
}

static const struct table_row *row_of(const struct line_meta *meta)
{
	return meta->type == EVENT_CALL && meta->row < table_nrows ? &table_rows[meta->row] : NULL;
}

static size_t put_func(const struct line_meta *meta, char *out)
{
	return put_text(out, row_of(meta) ? row_of(meta)->func : "-");
}

static size_t put_api(const struct line_meta *meta, char *out)
{
	return put_text(out, row_of(meta) ? api_names[row_of(meta)->api] : "-");
}

static size_t put_family(const struct line_meta *meta, char *out)
{
	return put_text(out, row_of(meta) ? table_families[row_of(meta)->family].name : "-");
}

static size_t put_status(const struct line_meta *meta, char *out)
{
	bool known = row_of(meta) && meta->status < sizeof(status_names) / sizeof(status_names[0]);

	return put_text(out, known ? status_names[meta->status] : "-");
}

static size_t put_type(const struct line_meta *meta, char *out)
{
	return put_text(out, meta->type < EVENT_NTYPES ? event_type_names[meta->type] : "-");
}

enum { FIELD_TEXT = -1, FIELD_HOST = 0, FIELD_RUN = 1, FIELD_SEQ = 2 };

static const struct {
	const char *name;
	size_t max; /* bytes */
	size_t (*put)(const struct line_meta *meta, char *out);
} fields[] = {
	[FIELD_HOST] = {"host", 255, NULL}, /* the same in every line: part of the text */
	[FIELD_RUN] = {"run", 16, NULL},
	[FIELD_SEQ] = {"seq", 20, put_seq},
	{"pid", 10, put_pid},
	{"tid", 10, put_tid},
	{"func", 80, put_func},
	{"api", 10, put_api},
	{"family", 20, put_family},
	{"status", 12, put_status},
	{"type", 12, put_type},
};
#define NFIELDS (sizeof(fields) / sizeof(fields[0]))

/* ---- templates ---- */

static int find_field(const char *name, size_t len)
{
	for (size_t i = 0; i < NFIELDS; i++)
		if (strlen(fields[i].name) == len && !memcmp(fields[i].name, name, len))
			return (int)i;
	return -ENOENT;
}

static int unknown_field(const char *name, size_t len, char *error, size_t size)
{
	int n = snprintf(error, size, "key: unknown field \"%%{%.*s}\"; known:", (int)(len < 40 ? len : 40),
			 name);

	for (size_t i = 0; i < NFIELDS && n > 0 && (size_t)n < size; i++)
		n += snprintf(error + n, size - (size_t)n, " %%{%s}", fields[i].name);
	return -EINVAL;
}

/* The part that @text begins with; returns how much of @text it is, or -EINVAL. */
static int parse_part(const char *text, const struct sink_origin *origin, struct kafka_key_part *part,
		      char *error, size_t size)
{
	size_t len = strcspn(text, "%");
	const char *end;

	*part = (struct kafka_key_part){FIELD_TEXT, text, len};
	if (len)
		return (int)len;
	if (text[1] == '%') {
		part->len = 1;
		return 2;
	}
	end = text[1] == '{' ? strchr(text, '}') : NULL;
	if (!end) {
		snprintf(error, size, "key: \"%.40s\" is no field: write %%{pid}, or %%%% for a percent sign",
			 text);
		return -EINVAL;
	}
	part->field = find_field(text + 2, (size_t)(end - text) - 2);
	if (part->field < 0)
		return unknown_field(text + 2, (size_t)(end - text) - 2, error, size);
	if (part->field == FIELD_HOST || part->field == FIELD_RUN) {
		part->text = !origin ? "-" : part->field == FIELD_HOST ? origin->host : origin->run;
		part->len = strlen(part->text);
	}
	return (int)(end + 1 - text);
}

int kafka_key_parse(const char *template, const struct sink_origin *origin, struct kafka_key *ret_key,
		    char *error, size_t error_size)
{
	struct kafka_key key = {0};
	size_t longest = 0;

	while (*template) {
		struct kafka_key_part *part = &key.parts[key.nparts];
		int n;

		if (key.nparts == KAFKA_KEY_PARTS) {
			snprintf(error, error_size, "key: a template has at most %d parts", KAFKA_KEY_PARTS);
			return -EINVAL;
		}
		n = parse_part(template, origin, part, error, error_size);
		if (n < 0)
			return n;
		key.nparts++;
		key.seq |= part->field == FIELD_SEQ;
		longest += part->field == FIELD_TEXT ? part->len : fields[part->field].max;
		template += n;
	}
	if (longest > KAFKA_KEY_MAX) {
		snprintf(error, error_size, "key: keys could have %zu bytes; the most is %d", longest,
			 KAFKA_KEY_MAX);
		return -EINVAL;
	}
	*ret_key = key;
	return 0;
}

size_t kafka_key_format(const struct kafka_key *key, const struct line_meta *meta, char *out)
{
	size_t len = 0;

	for (size_t i = 0; i < key->nparts; i++) {
		const struct kafka_key_part *part = &key->parts[i];

		if (part->field >= 0 && fields[part->field].put) {
			len += fields[part->field].put(meta, out + len);
		} else {
			size_t max = part->field < 0 ? part->len : fields[part->field].max;
			size_t n = part->len < max ? part->len : max;

			memcpy(out + len, part->text, n);
			len += n;
		}
	}
	return len;
}
