/* Scalars in each dialect, and the dialects. */
#include <float.h>
#include <math.h>

#include "dialect.h"
#include "fragments.h"
#include "number.h"

/* ---- what lies in memory ---- */

static uint64_t load_unsigned(const void *data, size_t size)
{
	uint64_t value = 0;

	memcpy(&value, data, size <= 8 ? size : 8);
	return value;
}

static int64_t load_signed(const void *data, size_t size)
{
	unsigned unused = size < 8 ? 64 - 8 * (unsigned)size : 0;

	return (int64_t)(load_unsigned(data, size) << unused) >> unused;
}

static double load_float(const void *data, size_t size)
{
	float single;
	double value;

	if (size == sizeof(single)) {
		memcpy(&single, data, sizeof(single));
		return (double)single;
	}
	memcpy(&value, data, sizeof(value));
	return value;
}

/* ---- plain JSON ---- */

static char *put_hex_value(char *p, const struct fragments *f, const struct table_type *type,
			   const void *data)
{
	return put_hex(p, load_unsigned(data, type->size));
}

static char *put_int_value(char *p, const struct fragments *f, const struct table_type *type,
			   const void *data)
{
	return put_i64(p, load_signed(data, type->size));
}

static char *put_uint_value(char *p, const struct fragments *f, const struct table_type *type,
			    const void *data)
{
	return put_u64(p, load_unsigned(data, type->size));
}

static char *put_float_value(char *p, const struct fragments *f, const struct table_type *type,
			     const void *data)
{
	return put_float(p, load_float(data, type->size),
			 type->size == sizeof(float) ? FLT_DECIMAL_DIG : DBL_DECIMAL_DIG);
}

/* The enumerator, or its type and number, without quotes. */
static char *put_enumerator(char *p, const struct table_enum *e, uint32_t value)
{
	/* enumerations are int or unsigned, as their values need */
	const char *name = table_enumerator(e, (int32_t)value);

	if (!name)
		name = table_enumerator(e, value);
	if (name)
		return put_bytes(p, name, strlen(name));
	p = put_bytes(p, e->name, strlen(e->name));
	*p++ = '(';
	p = put_i64(p, (int32_t)value);
	*p++ = ')';
	return p;
}

static char *put_enum_value(char *p, const struct fragments *f, const struct table_type *type,
			    const void *data)
{
	const struct enclosure *text = &f->dialect->text;
	uint32_t value = (uint32_t)load_unsigned(data, type->size);

	if (value < FRAGMENTS_SMALL_ENUM)
		return put_fragment(p, f->text, f->enums[type->ref].small[value]);
	p = put_bytes(p, text->open, text->open_len);
	p = put_enumerator(p, &table_enums[type->ref], value);
	return put_bytes(p, text->close, text->close_len);
}

static char *put_dim(char *p, const unsigned dim[3])
{
	*p++ = '[';
	p = put_u64(p, dim[0]);
	*p++ = ',';
	p = put_u64(p, dim[1]);
	*p++ = ',';
	p = put_u64(p, dim[2]);
	*p++ = ']';
	return p;
}

static char *put_dim3_value(char *p, const struct fragments *f, const struct table_type *type,
			    const void *data)
{
	unsigned dim[3];

	memcpy(dim, data, sizeof(dim));
	return put_dim(p, dim);
}

const struct dialect dialect_json = {
	.scalars =
		{
			[TABLE_HEX] = {put_hex_value, NUMBER_MAX_HEX},
			[TABLE_INT] = {put_int_value, NUMBER_MAX_I64},
			[TABLE_UINT] = {put_uint_value, NUMBER_MAX_U64},
			[TABLE_FLOAT] = {put_float_value, NUMBER_MAX_FLOAT},
			[TABLE_ENUM] = {put_enum_value, 0},
			[TABLE_DIM3] = {put_dim3_value, sizeof("[4294967295,4294967295,4294967295]")},
			[TABLE_STRING] = {put_hex_value, NUMBER_MAX_HEX}, /* unread: its address */
		},
	.text = ENCLOSURE("\"", 0, "\""),
	.array = ENCLOSURE("", '[', "]"),
	.object = ENCLOSURE("", '{', "}"),
	.key_open = ",\"",
	.key_close = "\":",
	.yes = "true",
	.redacted = "\"redacted\"",
	.count_open = "{\"count\":",
	.count_first = ",\"first\":",
	.count_close = "}",
	.nested_args = true,
	.put_dim = put_dim,
};

/* ---- JSON with strings as leaves ---- */

static char *put_int_text(char *p, const struct fragments *f, const struct table_type *type, const void *data)
{
	*p++ = '"';
	p = put_i64(p, load_signed(data, type->size));
	*p++ = '"';
	return p;
}

static char *put_uint_text(char *p, const struct fragments *f, const struct table_type *type,
			   const void *data)
{
	*p++ = '"';
	p = put_u64(p, load_unsigned(data, type->size));
	*p++ = '"';
	return p;
}

/* As protocol buffers' JSON has them. */
static char *put_not_finite(char *p, double value)
{
	if (isnan(value))
		return PUT_LITERAL(p, "\"NaN\"");
	return value > 0 ? PUT_LITERAL(p, "\"Infinity\"") : PUT_LITERAL(p, "\"-Infinity\"");
}

static char *put_float_text(char *p, const struct fragments *f, const struct table_type *type,
			    const void *data)
{
	double value = load_float(data, type->size);

	if (!isfinite(value))
		return put_not_finite(p, value);
	*p++ = '"';
	p = put_float_value(p, f, type, data);
	*p++ = '"';
	return p;
}

static char *put_dim3_text(char *p, const struct fragments *f, const struct table_type *type,
			   const void *data)
{
	unsigned dim[3];

	memcpy(dim, data, sizeof(dim));
	p = PUT_LITERAL(p, "[\"");
	p = put_u64(p, dim[0]);
	p = PUT_LITERAL(p, "\",\"");
	p = put_u64(p, dim[1]);
	p = PUT_LITERAL(p, "\",\"");
	p = put_u64(p, dim[2]);
	return PUT_LITERAL(p, "\"]");
}

/* An index keeps arrays as sets: the dimensions have names. */
static char *put_dim_object(char *p, const unsigned dim[3])
{
	p = PUT_LITERAL(p, "{\"x\":");
	p = put_u64(p, dim[0]);
	p = PUT_LITERAL(p, ",\"y\":");
	p = put_u64(p, dim[1]);
	p = PUT_LITERAL(p, ",\"z\":");
	p = put_u64(p, dim[2]);
	*p++ = '}';
	return p;
}

const struct dialect dialect_text = {
	.scalars =
		{
			[TABLE_HEX] = {put_hex_value, NUMBER_MAX_HEX},
			[TABLE_INT] = {put_int_text, NUMBER_MAX_I64 + 2},
			[TABLE_UINT] = {put_uint_text, NUMBER_MAX_U64 + 2},
			[TABLE_FLOAT] = {put_float_text, NUMBER_MAX_FLOAT + 2},
			[TABLE_ENUM] = {put_enum_value, 0},
			[TABLE_DIM3] = {put_dim3_text,
					sizeof("[\"4294967295\",\"4294967295\",\"4294967295\"]")},
			[TABLE_STRING] = {put_hex_value, NUMBER_MAX_HEX},
		},
	.text = ENCLOSURE("\"", 0, "\""),
	.array = ENCLOSURE("", '[', "]"),
	.object = ENCLOSURE("", '{', "}"),
	.key_open = ",\"",
	.key_close = "\":",
	.yes = "\"true\"",
	.redacted = "\"redacted\"",
	.count_open = "{\"count\":\"",
	.count_first = "\",\"first\":",
	.count_close = "}",
	.nested_args = true,
	.put_dim = put_dim_object,
};

/* ---- OTLP's AnyValue (opentelemetry.proto.common.v1, as JSON: 64-bit integers are strings) ---- */

static char *put_hex_any(char *p, const struct fragments *f, const struct table_type *type, const void *data)
{
	p = PUT_LITERAL(p, "{\"stringValue\":");
	p = put_hex(p, load_unsigned(data, type->size));
	*p++ = '}';
	return p;
}

static char *put_any_int(char *p, int64_t value)
{
	p = PUT_LITERAL(p, "{\"intValue\":\"");
	p = put_i64(p, value);
	return PUT_LITERAL(p, "\"}");
}

static char *put_int_any(char *p, const struct fragments *f, const struct table_type *type, const void *data)
{
	return put_any_int(p, load_signed(data, type->size));
}

/* AnyValue has signed integers alone. */
static char *put_uint_any(char *p, const struct fragments *f, const struct table_type *type, const void *data)
{
	uint64_t value = load_unsigned(data, type->size);

	return put_any_int(p, value <= INT64_MAX ? (int64_t)value : INT64_MAX);
}

static char *put_float_any(char *p, const struct fragments *f, const struct table_type *type,
			   const void *data)
{
	double value = load_float(data, type->size);

	p = PUT_LITERAL(p, "{\"doubleValue\":");
	p = isfinite(value) ? put_float_value(p, f, type, data) : put_not_finite(p, value);
	*p++ = '}';
	return p;
}

static char *put_dim_any(char *p, const unsigned dim[3])
{
	p = PUT_LITERAL(p, "{\"arrayValue\":{\"values\":[");
	p = put_any_int(p, dim[0]);
	*p++ = ',';
	p = put_any_int(p, dim[1]);
	*p++ = ',';
	p = put_any_int(p, dim[2]);
	return PUT_LITERAL(p, "]}}");
}

static char *put_dim3_any(char *p, const struct fragments *f, const struct table_type *type, const void *data)
{
	unsigned dim[3];

	memcpy(dim, data, sizeof(dim));
	return put_dim_any(p, dim);
}

#define MAX_ANY_HEX (sizeof("{\"stringValue\":}") + NUMBER_MAX_HEX)
#define MAX_ANY_INT (sizeof("{\"intValue\":\"\"}") + NUMBER_MAX_I64)

const struct dialect dialect_otlp = {
	.scalars =
		{
			[TABLE_HEX] = {put_hex_any, MAX_ANY_HEX},
			[TABLE_INT] = {put_int_any, MAX_ANY_INT},
			[TABLE_UINT] = {put_uint_any, MAX_ANY_INT},
			[TABLE_FLOAT] = {put_float_any, sizeof("{\"doubleValue\":}") + NUMBER_MAX_FLOAT},
			[TABLE_ENUM] = {put_enum_value, 0},
			[TABLE_DIM3] = {put_dim3_any,
					sizeof("{\"arrayValue\":{\"values\":[,,]}}") + 3 * MAX_ANY_INT},
			[TABLE_STRING] = {put_hex_any, MAX_ANY_HEX},
		},
	.text = ENCLOSURE("{\"stringValue\":\"", 0, "\"}"),
	.array = ENCLOSURE("{\"arrayValue\":{\"values\":", '[', "]}}"),
	.object = ENCLOSURE("{\"kvlistValue\":{\"values\":", '[', "]}}"),
	.key_open = ",{\"key\":\"",
	.key_close = "\",\"value\":",
	.member_close = "}",
	.member_close_len = 1,
	.yes = "{\"boolValue\":true}",
	.redacted = "{\"stringValue\":\"redacted\"}",
	.count_open = "{\"kvlistValue\":{\"values\":[{\"key\":\"count\",\"value\":{\"intValue\":\"",
	.count_first = "\"}},{\"key\":\"first\",\"value\":",
	.count_close = "}]}}",
	.put_dim = put_dim_any,
};
