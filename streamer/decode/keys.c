/*
 * Normalised keys: bytes, direction, device, stream, kernel_handle, grid,
 * block, shared_bytes, ptr, src_ptr. Which parameter or field holds each is
 * a rule of the API table; the modes of the rules are evaluated here.
 */
#include <string.h>

#include "keys.h"

#define PER_THREAD_STREAM 0x2 /* cudaStreamPerThread, CU_STREAM_PER_THREAD */

/* An integer of 1, 2, 4 or 8 bytes; signed ones keep their sign. */
static bool load(const void *data, uint16_t type, uint64_t *ret_value)
{
	const struct table_type *t = &table_types[type];
	bool is_signed = t->kind == TABLE_INT || t->kind == TABLE_ENUM;
	uint64_t value = 0;

	if (t->size == 0 || t->size > 8)
		return false;
	memcpy(&value, data, t->size);
	if (is_signed && t->size < 8 && value >> (8 * t->size - 1) & 1)
		value |= ~0ull << (8 * t->size);
	*ret_value = value;
	return true;
}

/* The bytes that an operand names, and their type; NULL when absent. */
static const void *operand_data(const struct call *call, const struct table_operand *op, uint16_t *ret_type)
{
	const struct call_value *value;

	if (op->source == TABLE_FROM_CONST || op->param >= DECODE_MAX_PARAMS)
		return NULL;
	value = &call->arg[op->param];
	if (op->source == TABLE_FROM_OUT)
		value = &call->out[op->param];
	else if (op->source == TABLE_FROM_FIELD && call->in[op->param].data)
		value = &call->in[op->param];
	else if (op->source == TABLE_FROM_FIELD && table_types[value->type].kind != TABLE_STRUCT)
		return NULL; /* the structure could not be read: only its address is known */
	if (!value->data)
		return NULL;
	if (op->source != TABLE_FROM_FIELD) {
		*ret_type = value->type;
		return value->len >= table_types[value->type].size ? value->data : NULL;
	}
	*ret_type = op->type;
	if (op->offset + table_types[op->type].size > value->len)
		return NULL;
	return (const uint8_t *)value->data + op->offset;
}

static bool operand_value(const struct call *call, const struct table_operand *op, uint64_t *ret_value)
{
	const void *data;
	uint16_t type;

	if (op->source == TABLE_FROM_CONST) {
		*ret_value = op->offset;
		return true;
	}
	data = operand_data(call, op, &type);
	return data && load(data, type, ret_value);
}

/* A product that stays at its limit instead of wrapping. */
static uint64_t multiply(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static bool product(const struct call *call, const struct table_operand *op, unsigned n, uint64_t *ret_value)
{
	uint64_t value, result = 1;
	unsigned i;

	for (i = 0; i < n; i++) {
		if (!operand_value(call, &op[i], &value))
			return false;
		result = multiply(result, value);
	}
	*ret_value = result;
	return n > 0;
}

static bool first_nonzero(const struct call *call, const struct table_operand *op, unsigned n,
			  uint64_t *ret_value)
{
	bool known = false;
	unsigned i;

	for (i = 0; i < n; i++) {
		if (!operand_value(call, &op[i], ret_value))
			continue;
		known = true;
		if (*ret_value)
			return true;
	}
	return known;
}

/* The sum over an array of integers; absent when not all elements were read. */
static bool sum(const struct call *call, const struct table_operand *op, uint64_t *ret_value)
{
	const struct call_value *value =
		op->source == TABLE_FROM_OUT ? &call->out[op->param] : &call->in[op->param];
	uint64_t total = 0, element;
	unsigned size, i;

	if (!value->data)
		return false;
	size = table_types[value->type].size;
	if (!size || value->len / size != value->count)
		return false;
	for (i = 0; i < value->count; i++) {
		if (!load((const uint8_t *)value->data + (size_t)i * size, value->type, &element))
			return false;
		if (__builtin_add_overflow(total, element, &total))
			total = UINT64_MAX;
	}
	*ret_value = total;
	return true;
}

/* Width, height and depth, unless an array takes part: width counts its elements then. */
static bool pitched(const struct call *call, const struct table_operand *op, unsigned n, uint64_t *ret_value)
{
	uint64_t array;
	unsigned i;

	for (i = 3; i < n; i++)
		if (!operand_value(call, &op[i], &array) || array)
			return false;
	return n > 3 && product(call, op, 3, ret_value);
}

static bool location(const struct call *call, const struct table_operand *op, uint64_t *ret_value)
{
	uint64_t type;

	return operand_value(call, &op[0], &type) && type == TABLE_LOCATION_DEVICE &&
	       operand_value(call, &op[1], ret_value);
}

/* CUmemorytype: 1 host, 2 device, 3 array, 4 unified. */
static bool memtypes(const struct call *call, const struct table_operand *op, uint64_t *ret_value)
{
	uint64_t src, dst;

	if (!operand_value(call, &op[0], &src) || !operand_value(call, &op[1], &dst))
		return false;
	if (src < 1 || src > 3 || dst < 1 || dst > 3)
		*ret_value = TABLE_DEFAULT;
	else
		*ret_value = (src == 1 ? 0 : 2) + (dst == 1 ? 0 : 1);
	return true;
}

/* Which of host, device and array address counts: what the others hold means nothing. */
static bool place(const struct call *call, const struct table_operand *op, uint64_t *ret_value)
{
	static const uint8_t operand_of[] = {0, 1, 2, 3, 2}; /* by CUmemorytype */
	uint64_t type;

	return operand_value(call, &op[0], &type) && type >= 1 && type < sizeof(operand_of) &&
	       operand_value(call, &op[operand_of[type]], ret_value);
}

/* Does the member of a union hold that the keys behind this one are of? */
static bool when(const struct call *call, const struct table_key *key)
{
	const struct table_operand *op = &table_operands[key->operand];
	uint64_t tag, value;

	return key->noperands == 2 && operand_value(call, &op[0], &tag) &&
	       operand_value(call, &op[1], &value) && tag == value;
}

static bool evaluate(const struct call *call, const struct table_key *key, uint64_t *ret_value)
{
	const struct table_operand *op = &table_operands[key->operand];

	switch ((enum table_mode)key->mode) {
	case TABLE_VALUE:
	case TABLE_KIND:
	case TABLE_FIXED:
		return key->noperands && operand_value(call, op, ret_value);
	case TABLE_PRODUCT:
		return product(call, op, key->noperands, ret_value);
	case TABLE_FIRST_NONZERO:
		return first_nonzero(call, op, key->noperands, ret_value);
	case TABLE_MEMTYPES:
		return key->noperands == 2 && memtypes(call, op, ret_value);
	case TABLE_SUM:
		return key->noperands && sum(call, op, ret_value);
	case TABLE_PITCHED:
		return pitched(call, op, key->noperands, ret_value);
	case TABLE_LOCATION:
		return key->noperands == 2 && location(call, op, ret_value);
	case TABLE_PLACE:
		return key->noperands == 4 && place(call, op, ret_value);
	case TABLE_DIM:
	case TABLE_EQUAL:
		break;
	}
	return false;
}

static bool dim(const struct call *call, const struct table_key *key, uint32_t *ret_dim)
{
	const struct table_operand *op = &table_operands[key->operand];
	uint64_t value;
	uint16_t type;
	const void *data;
	unsigned i;

	if (key->noperands == 1) {
		data = operand_data(call, op, &type);
		if (!data || table_types[type].kind != TABLE_DIM3)
			return false;
		memcpy(ret_dim, data, 3 * sizeof(*ret_dim));
		return true;
	}
	for (i = 0; i < 3; i++) {
		if (i >= key->noperands || !operand_value(call, &op[i], &value))
			return false;
		ret_dim[i] = value;
	}
	return true;
}

static bool make_one(struct call *call, const struct table_key *key)
{
	struct call_keys *keys = &call->keys;
	uint64_t value;

	if (key->key == TABLE_KEY_GRID)
		return dim(call, key, keys->grid);
	if (key->key == TABLE_KEY_BLOCK)
		return dim(call, key, keys->block);
	if (!evaluate(call, key, &value))
		return false;
	switch ((enum table_key_id)key->key) {
	case TABLE_KEY_BYTES:
		keys->bytes = value > INT64_MAX ? INT64_MAX : (int64_t)value;
		return true;
	case TABLE_KEY_DIRECTION:
		keys->direction = value;
		return value <= TABLE_P2P;
	case TABLE_KEY_DEVICE:
		keys->device = (int32_t)value;
		return keys->device >= 0; /* cudaCpuDeviceId, cudaInvalidDeviceId and the like name none */
	case TABLE_KEY_STREAM:
		keys->stream =
			!value && call->row->flags & TABLE_PER_THREAD_STREAM ? PER_THREAD_STREAM : value;
		return true;
	case TABLE_KEY_KERNEL_HANDLE:
		keys->kernel_handle = value;
		return true;
	case TABLE_KEY_SHARED_BYTES:
		keys->shared_bytes = value;
		return true;
	case TABLE_KEY_PTR:
		keys->ptr = value;
		return true;
	case TABLE_KEY_SRC_PTR:
		keys->src_ptr = value;
		return true;
	default:
		return false;
	}
}

void keys_make(struct call *call)
{
	const struct table_key *key = &table_keys[call->row->key];
	bool holds = true;
	unsigned i;

	for (i = 0; i < call->row->nkeys; i++)
		if (key[i].key == TABLE_KEY_WHEN)
			holds = when(call, &key[i]);
		else if (holds && make_one(call, &key[i]))
			call->keys.present |= 1u << key[i].key;
}
