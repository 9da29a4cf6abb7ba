/* Normalised keys of a call: one writer each. */
#include "keys.h"

#include "escape.h"

char *put_name(char *p, const struct fragments *f, enum encode_field field, const char *name)
{
	if (!name[0] || !f->open[field].len)
		return p;
	p = put_fragment(p, f->text, f->open[field]);
	p = put_escaped(p, name, strlen(name));
	return put_fragment(p, f->text, f->close[field]);
}

char *put_environ(char *p, const struct fragments *f, const struct process *process)
{
	const struct environs *environs = process ? process->environs : NULL;

	for (size_t i = 0; environs && i < f->nenv && i < environs->n; i++) {
		if (!environs->value[i].data || !f->env[i].len)
			continue;
		p = put_fragment(p, f->text, f->env[i]);
		p = put_bytes(p, environs->value[i].data, environs->value[i].len);
		p = put_fragment(p, f->text, f->env_close);
	}
	return p;
}

char *put_unknown_error(char *p, const struct call *call)
{
	p = call->row->api == TABLE_RUNTIME ? PUT_LITERAL(p, "cudaError_t(") : PUT_LITERAL(p, "CUresult(");
	p = put_i64(p, call->ret);
	*p++ = ')';
	return p;
}

static char *put_hex_key(char *p, const struct fragments *f, enum encode_field field, uint64_t value)
{
	p = put_fragment(p, f->text, f->open[field]);
	p = put_hex(p, value);
	return put_fragment(p, f->text, f->close[field]);
}

static char *put_dim_key(char *p, const struct fragments *f, enum encode_field field, const unsigned dim[3])
{
	p = put_fragment(p, f->text, f->open[field]);
	p = f->dialect->put_dim(p, dim);
	return put_fragment(p, f->text, f->close[field]);
}

static char *put_bytes_key(char *p, const struct fragments *f, const struct call_keys *keys)
{
	return put_signed(p, f, FIELD_BYTES, keys->bytes);
}

static char *put_direction(char *p, const struct fragments *f, const struct call_keys *keys)
{
	static const char names[][8] = {
		[TABLE_H2H] = "h2h", [TABLE_H2D] = "h2d",         [TABLE_D2H] = "d2h",
		[TABLE_D2D] = "d2d", [TABLE_DEFAULT] = "default", [TABLE_P2P] = "p2p",
	};

	p = put_fragment(p, f->text, f->open[FIELD_DIRECTION]);
	memcpy(p, names[keys->direction], 8);
	p += keys->direction == TABLE_DEFAULT ? 7 : 3;
	return put_fragment(p, f->text, f->close[FIELD_DIRECTION]);
}

static char *put_device(char *p, const struct fragments *f, const struct call_keys *keys)
{
	return put_signed(p, f, FIELD_DEVICE, keys->device);
}

static char *put_stream(char *p, const struct fragments *f, const struct call_keys *keys)
{
	return put_hex_key(p, f, FIELD_STREAM, keys->stream);
}

static char *put_kernel_name(char *p, const struct fragments *f, enum encode_field field, const char *name,
			     uint32_t len)
{
	if (!name || !f->open[field].len)
		return p;
	p = put_fragment(p, f->text, f->open[field]);
	p = put_bytes(p, name, len);
	return put_fragment(p, f->text, f->close[field]);
}

/* Any of them may be unwanted. */
static char *put_kernel(char *p, const struct fragments *f, const struct call_keys *keys)
{
	p = put_kernel_name(p, f, FIELD_KERNEL, keys->kernel, keys->kernel_len);
	p = put_kernel_name(p, f, FIELD_KERNEL_MANGLED, keys->kernel_mangled, keys->kernel_mangled_len);
	if (f->open[FIELD_KERNEL_HANDLE].len)
		p = put_hex_key(p, f, FIELD_KERNEL_HANDLE, keys->kernel_handle);
	return p;
}

static char *put_grid(char *p, const struct fragments *f, const struct call_keys *keys)
{
	return put_dim_key(p, f, FIELD_GRID, keys->grid);
}

static char *put_block(char *p, const struct fragments *f, const struct call_keys *keys)
{
	return put_dim_key(p, f, FIELD_BLOCK, keys->block);
}

static char *put_shared_bytes(char *p, const struct fragments *f, const struct call_keys *keys)
{
	return put_number(p, f, FIELD_SHARED_BYTES,
			  keys->shared_bytes <= INT64_MAX ? keys->shared_bytes : INT64_MAX);
}

static char *put_ptr(char *p, const struct fragments *f, const struct call_keys *keys)
{
	return put_hex_key(p, f, FIELD_PTR, keys->ptr);
}

static char *put_src_ptr(char *p, const struct fragments *f, const struct call_keys *keys)
{
	return put_hex_key(p, f, FIELD_SRC_PTR, keys->src_ptr);
}

/* in the order of the line, which is that of the table's ids */
static char *(*const key_writers[TABLE_NKEYS])(char *p, const struct fragments *f,
					       const struct call_keys *keys) = {
	[TABLE_KEY_BYTES] = put_bytes_key,
	[TABLE_KEY_DIRECTION] = put_direction,
	[TABLE_KEY_DEVICE] = put_device,
	[TABLE_KEY_STREAM] = put_stream,
	[TABLE_KEY_KERNEL_HANDLE] = put_kernel,
	[TABLE_KEY_GRID] = put_grid,
	[TABLE_KEY_BLOCK] = put_block,
	[TABLE_KEY_SHARED_BYTES] = put_shared_bytes,
	[TABLE_KEY_PTR] = put_ptr,
	[TABLE_KEY_SRC_PTR] = put_src_ptr,
};

char *put_keys(char *p, const struct fragments *f, const struct call *call)
{
	uint32_t present = call->keys.present & f->rows[call->row_id].keys;

	for (; present; present &= present - 1)
		p = key_writers[__builtin_ctz(present)](p, f, &call->keys);
	return p;
}
