/*
 * The encoder's event once more, slowly: built with jansson straight from
 * docs/event-schema.md, sharing no code with the encoder. Tests compare both;
 * the benchmark measures against it.
 */
#ifndef CUDATAP_TEST_REFERENCE_H
#define CUDATAP_TEST_REFERENCE_H

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "../../streamer/encode/encode.h"

/* ---- text ---- */

/* Length of the well-formed UTF-8 sequence at s, 0 if there is none; *ret_bad: bytes that one U+FFFD
 * replaces. */
static inline size_t reference_sequence(const unsigned char *s, size_t len, size_t *ret_bad)
{
	/* table 3-7 of the Unicode standard */
	static const struct {
		unsigned char first_low, first_high, n, second_low, second_high;
	} forms[] = {
		{0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
		{0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
		{0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
	};

	*ret_bad = 1;
	for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
		size_t i;

		if (s[0] < forms[f].first_low || s[0] > forms[f].first_high)
			continue;
		for (i = 1; i < forms[f].n && i < len; i++)
			if (i == 1 ? s[i] < forms[f].second_low || s[i] > forms[f].second_high
				   : s[i] < 0x80 || s[i] > 0xbf)
				break;
		if (i == forms[f].n)
			return i;
		*ret_bad = i;
	}
	return 0;
}

static inline json_t *reference_text(const char *text, size_t len, bool cut)
{
	char utf8[4096], *p = utf8;
	const unsigned char *s = (const unsigned char *)text;

	while (len) {
		size_t bad, n = reference_sequence(s, len, &bad);

		if (!n && cut && bad == len && *s >= 0xc2 && *s <= 0xf4)
			break; /* where it was cut */
		if (n)
			memcpy(p, s, n);
		else
			memcpy(p, "\xef\xbf\xbd", 3);
		p += n ? n : 3;
		s += n ? n : bad;
		len -= n ? n : bad;
	}
	return json_stringn(utf8, (size_t)(p - utf8));
}

static inline json_t *reference_string(const char *text)
{
	return reference_text(text, strlen(text), false);
}

/* ---- values ---- */

static inline json_t *reference_hex(uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	return json_string(text);
}

/* jansson has no integers beyond 63 bits */
static inline json_t *reference_unsigned(uint64_t value)
{
	return value > INT64_MAX ? json_real((double)value) : json_integer((json_int_t)value);
}

static inline json_t *reference_enum(const struct table_enum *e, const void *data)
{
	char text[256];
	const char *name = NULL;
	int32_t value;

	memcpy(&value, data, 4);
	for (unsigned i = 0; i < e->count; i++)
		if (table_enumerators[e->first + i].value == value)
			name = table_enumerators[e->first + i].name;
	for (unsigned i = 0; i < e->count && !name; i++)
		if (table_enumerators[e->first + i].value == (uint32_t)value)
			name = table_enumerators[e->first + i].name;
	if (!name) {
		snprintf(text, sizeof(text), "%s(%d)", e->name, value);
		name = text;
	}
	return json_string(name);
}

static inline json_t *reference_bytes(const unsigned char *data, size_t n)
{
	char text[2 * REC_MAX_SLOT + 1] = "";

	for (size_t i = 0; i < n; i++)
		snprintf(text + 2 * i, 3, "%02x", data[i]);
	return json_string(text);
}

static inline json_t *reference_dim3(const void *data)
{
	uint32_t dim[3];

	memcpy(dim, data, sizeof(dim));
	return json_pack("[I,I,I]", (json_int_t)dim[0], (json_int_t)dim[1], (json_int_t)dim[2]);
}

static inline json_t *reference_struct(const struct table_struct *s, const char *data, size_t len, bool *cut);

static inline json_t *reference_number(const struct table_type *type, const char *data)
{
	int64_t number = 0;
	float single;
	double real;

	switch (type->kind) {
	case TABLE_FLOAT:
		memcpy(&single, data, 4);
		real = (double)single;
		if (type->size == 8)
			memcpy(&real, data, 8);
		return isfinite(real) ? json_real(real) : json_null();
	case TABLE_INT:
		number = type->size == 1   ? *(const signed char *)data
			 : type->size == 2 ? *(const int16_t *)data
			 : type->size == 4 ? *(const int32_t *)data
					   : *(const int64_t *)data;
		return json_integer(number);
	default:
		memcpy(&number, data, type->size);
		return type->kind == TABLE_UINT ? reference_unsigned((uint64_t)number)
						: reference_hex((uint64_t)number);
	}
}

/* One value, or NULL when it is none. */
static inline json_t *reference_value(unsigned index, const char *data, size_t len, bool *cut)
{
	const struct table_type *type = &table_types[index];
	_Alignas(8) char copy[REC_MAX_SLOT];

	if (type->kind == TABLE_STRUCT)
		return reference_struct(&table_structs[type->ref], data, len, cut);
	if (len < type->size || type->kind == TABLE_VOID)
		return NULL;
	memcpy(copy, data, type->size);
	switch (type->kind) {
	case TABLE_CHARS:
		return reference_text(data, strnlen(data, len), false);
	case TABLE_BYTES:
		return reference_bytes((const unsigned char *)data, len);
	case TABLE_DIM3:
		return reference_dim3(data);
	case TABLE_ENUM:
		return reference_enum(&table_enums[type->ref], copy);
	default:
		return reference_number(type, copy);
	}
}

static inline json_t *reference_elements(unsigned type, const char *data, size_t n)
{
	json_t *array = json_array();
	bool cut = false;

	for (size_t i = 0; i < n; i++)
		json_array_append_new(array, reference_value(type, data + i * table_types[type].size,
							     table_types[type].size, &cut));
	return array;
}

/* The field itself; of a union the member that its tag names, or NULL. */
static inline const struct table_field *reference_member(const struct table_field *field, const char *data,
							 size_t len)
{
	const struct table_union *u = &table_unions[table_types[field->type].ref];
	int32_t tag;

	if (table_types[field->type].kind != TABLE_UNION)
		return field;
	if (u->tag + sizeof(tag) > len)
		return NULL;
	memcpy(&tag, data + u->tag, sizeof(tag));
	for (unsigned i = 0; i < u->count; i++)
		if (table_variants[u->first + i].value == tag)
			return &table_fields[table_variants[u->first + i].field];
	return NULL;
}

static inline json_t *reference_struct(const struct table_struct *s, const char *data, size_t len, bool *cut)
{
	json_t *object = json_object();

	for (unsigned i = 0; i < s->count; i++) {
		const struct table_field *field = reference_member(&table_fields[s->first + i], data, len);
		const struct table_type *type = field ? &table_types[field->type] : NULL;
		bool run = type && (type->kind == TABLE_CHARS || type->kind == TABLE_BYTES);
		size_t n = field && field->count ? field->count : 1;

		if (!field)
			continue;
		if (field->offset + n * type->size > len) {
			*cut = true;
			continue;
		}
		if (field->count && !run)
			json_object_set_new(object, field->name,
					    reference_elements(field->type, data + field->offset, n));
		else
			json_object_set_new(
				object, field->name,
				reference_value(field->type, data + field->offset, n * type->size, cut));
	}
	return object;
}

static inline void reference_set_read(json_t *object, const char *name, const struct call_value *value,
				      bool array)
{
	const struct table_type *type = &table_types[value->type];
	char cut_name[128];
	bool cut = false;
	json_t *json;

	if (type->kind == TABLE_STRING || type->kind == TABLE_CHARS) {
		cut = value->count;
		json = reference_text(value->data, strnlen(value->data, value->len), cut);
	} else if (array && type->kind != TABLE_VOID) {
		size_t here = value->len / type->size;

		json = reference_elements(value->type, value->data,
					  here < value->count ? here : value->count);
		if (here < value->count)
			json = json_pack("{s:I,s:o}", "count", (json_int_t)value->count, "first", json);
	} else {
		json = reference_value(value->type, value->data, value->len, &cut);
	}
	json_object_set_new(object, name, json);
	if (!cut)
		return;
	snprintf(cut_name, sizeof(cut_name), "%s_cut", name);
	json_object_set_new(object, cut_name, json_true());
}

/* ---- the event ---- */

static inline void reference_keys(json_t *event, const struct call_keys *keys)
{
	static const char *const directions[] = {
		[TABLE_H2H] = "h2h", [TABLE_H2D] = "h2d",         [TABLE_D2H] = "d2h",
		[TABLE_D2D] = "d2d", [TABLE_DEFAULT] = "default", [TABLE_P2P] = "p2p",
	};

	if (keys->present >> TABLE_KEY_BYTES & 1)
		json_object_set_new(event, "bytes", json_integer(keys->bytes));
	if (keys->present >> TABLE_KEY_DIRECTION & 1)
		json_object_set_new(event, "direction", json_string(directions[keys->direction]));
	if (keys->present >> TABLE_KEY_DEVICE & 1)
		json_object_set_new(event, "device", json_integer(keys->device));
	if (keys->present >> TABLE_KEY_STREAM & 1)
		json_object_set_new(event, "stream", reference_hex(keys->stream));
	if (keys->present >> TABLE_KEY_KERNEL_HANDLE & 1 && keys->kernel)
		json_object_set_new(event, "kernel", json_stringn(keys->kernel, keys->kernel_len));
	if (keys->present >> TABLE_KEY_KERNEL_HANDLE & 1)
		json_object_set_new(event, "kernel_handle", reference_hex(keys->kernel_handle));
	if (keys->present >> TABLE_KEY_GRID & 1)
		json_object_set_new(event, "grid", reference_dim3(keys->grid));
	if (keys->present >> TABLE_KEY_BLOCK & 1)
		json_object_set_new(event, "block", reference_dim3(keys->block));
	if (keys->present >> TABLE_KEY_SHARED_BYTES & 1)
		json_object_set_new(event, "shared_bytes",
				    json_integer(keys->shared_bytes > INT64_MAX
							 ? INT64_MAX
							 : (json_int_t)keys->shared_bytes));
	if (keys->present >> TABLE_KEY_PTR & 1)
		json_object_set_new(event, "ptr", reference_hex(keys->ptr));
	if (keys->present >> TABLE_KEY_SRC_PTR & 1)
		json_object_set_new(event, "src_ptr", reference_hex(keys->src_ptr));
}

static inline void reference_values(json_t *event, const struct call *call)
{
	const struct table_row *row = call->row;
	json_t *args = json_object(), *out = json_object();

	for (unsigned i = 0; i < row->nparams && i < DECODE_MAX_PARAMS; i++) {
		const struct table_param *param = &table_params[row->param + i];
		bool array = param->count != TABLE_NONE;

		if (param->deref == TABLE_IN && call->in[i].data)
			reference_set_read(args, param->name, &call->in[i], array);
		else if (call->arg[i].data)
			json_object_set_new(args, param->name,
					    table_types[call->arg[i].type].kind == TABLE_STRING
						    ? reference_hex(*(const uint64_t *)call->arg[i].data)
						    : reference_value(call->arg[i].type, call->arg[i].data,
								      call->arg[i].len, &array));
		if (param->deref == TABLE_OUT && call->out[i].data)
			reference_set_read(out, param->name, &call->out[i], array);
	}
	if (call->ret_string.data)
		reference_set_read(out, "return", &call->ret_string, false);
	else if ((row->ret == TABLE_RET_POINTER || row->ret == TABLE_RET_VALUE) &&
		 call->status != CALL_UNFINISHED && table_types[row->ret_type].kind != TABLE_FLOAT &&
		 table_types[row->ret_type].kind != TABLE_VOID && table_types[row->ret_type].size <= 8)
		json_object_set_new(
			out, "return",
			reference_value(row->ret_type, (const char *)&call->rec->ret, 8, &(bool){0}));
	if (json_object_size(args))
		json_object_set(event, "args", args);
	if (json_object_size(out))
		json_object_set(event, "out", out);
	json_decref(args);
	json_decref(out);
}

static inline json_t *reference_ts(int64_t ts_ns)
{
	int ns = (int)(ts_ns % 1000000000);
	time_t second = ts_ns / 1000000000 - (ns < 0);
	char text[64], all[128];
	struct tm tm;

	gmtime_r(&second, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(all, sizeof(all), "%s.%09dZ", text, ns < 0 ? ns + 1000000000 : ns);
	return json_string(all);
}

static inline void reference_result(json_t *event, const struct call *call)
{
	static const char *const statuses[] = {"ok", "error", "not_ready", "unfinished"};
	const struct rec_call *rec = call->rec;
	char unknown[64];

	json_object_set_new(
		event, "duration_ns",
		json_integer(rec->end_ns < rec->start_ns ? 0 : (json_int_t)(rec->end_ns - rec->start_ns)));
	if (call->row->ret == TABLE_RET_STATUS && call->status != CALL_UNFINISHED)
		json_object_set_new(event, "ret", json_integer(call->ret));
	json_object_set_new(event, "status", json_string(statuses[call->status]));
	if (call->error) {
		json_object_set_new(event, "error", json_string(call->error->name));
		json_object_set_new(event, "error_message", json_string(call->error->message));
	} else if (call->status == CALL_ERROR) {
		snprintf(unknown, sizeof(unknown), "%s(%d)",
			 call->row->api == TABLE_DRIVER ? "CUresult" : "cudaError_t", call->ret);
		json_object_set_new(event, "error", json_string(unknown));
	}
}

static inline json_t *reference_call(const struct encoder_options *options, const struct call *call,
				     const struct thread *thread, uint64_t seq, int64_t ts_ns)
{
	const struct table_row *row = call->row;
	json_t *event = json_pack("{s:s,s:s,s:o,s:o,s:s,s:I}", "type", "call", "run", options->run, "seq",
				  reference_unsigned(seq), "ts", reference_ts(ts_ns), "host", options->host,
				  "pid", (json_int_t)thread->pid);

	if (thread->ns_pid)
		json_object_set_new(event, "ns_pid", json_integer(thread->ns_pid));
	json_object_set_new(event, "tid", json_integer(thread->tid));
	if (thread->comm[0])
		json_object_set_new(event, "comm", reference_string(thread->comm));
	if (thread->thread[0])
		json_object_set_new(event, "thread", reference_string(thread->thread));
	json_object_set_new(event, "api", json_string(row->api == TABLE_RUNTIME ? "runtime" : "driver"));
	json_object_set_new(event, "family", json_string(table_families[row->family].name));
	json_object_set_new(event, "func", json_string(row->func));
	if (strcmp(row->func, row->symbol))
		json_object_set_new(event, "symbol", json_string(row->symbol));
	if (options->nested)
		json_object_set_new(event, "depth", json_integer(call->rec->depth));
	if (options->nested && call->rec->depth)
		json_object_set_new(event, "parent",
				    json_string(table_rows[call->rec->parent_cookie & 0xffff].func));
	if (call->rec->sample_n > 1)
		json_object_set_new(event, "sample_n", json_integer(call->rec->sample_n));
	reference_result(event, call);
	reference_keys(event, &call->keys);
	if (options->args)
		reference_values(event, call);
	for (size_t i = 0; i < options->nstatics; i++)
		json_object_set_new(event, options->statics[i].name,
				    reference_string(options->statics[i].value));
	return event;
}

/* ---- comparing ---- */

/* Whether both say the same, keys in the same order; reals may be floats written short. */
static inline bool reference_same(const json_t *a, const json_t *b)
{
	void *i, *j;

	if (json_is_number(a) && json_is_number(b)) {
		if (json_is_integer(a) && json_is_integer(b))
			return json_integer_value(a) == json_integer_value(b);
		return json_number_value(a) == json_number_value(b) ||
		       (float)json_number_value(a) == (float)json_number_value(b);
	}
	if (json_typeof(a) != json_typeof(b))
		return false;
	if (json_is_array(a)) {
		if (json_array_size(a) != json_array_size(b))
			return false;
		for (size_t k = 0; k < json_array_size(a); k++)
			if (!reference_same(json_array_get(a, k), json_array_get(b, k)))
				return false;
		return true;
	}
	if (!json_is_object(a))
		return json_equal(a, b);
	i = json_object_iter((json_t *)a);
	j = json_object_iter((json_t *)b);
	for (; i && j; i = json_object_iter_next((json_t *)a, i), j = json_object_iter_next((json_t *)b, j))
		if (strcmp(json_object_iter_key(i), json_object_iter_key(j)) ||
		    !reference_same(json_object_iter_value(i), json_object_iter_value(j)))
			return false;
	return !i && !j;
}

/* A line as JSON: one object, one newline at its end, no key twice; NULL (and a message) if it is not that.
 */
static inline json_t *reference_parse(const char *line, size_t len)
{
	json_error_t error;
	json_t *json;

	if (!len || line[len - 1] != '\n' || memchr(line, '\n', len - 1)) {
		fprintf(stderr, "not one line: %.*s\n", (int)len, line);
		return NULL;
	}
	json = json_loadb(line, len, JSON_REJECT_DUPLICATES, &error);
	if (!json && json_error_code(&error) == json_error_numeric_overflow)
		json = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
	if (!json)
		fprintf(stderr, "%s at %d in %.*s\n", error.text, error.position, (int)len, line);
	return json;
}

#endif
