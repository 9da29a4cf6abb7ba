/* From the API table to what each function of this library does: made once, when it is loaded. */
#include <fnmatch.h>
#include <string.h>

#include "fake.h"

/* Out-values by the parameter's name, where 1 (or 0 for enumerations) would be a strange answer. */
static const struct {
	const char *param;
	uint64_t value;
} out_values[] = {
	{"device", 0},        {"dev", 0},
	{"ordinal", 0},       {"driverVersion", 13000},
	{"leastPriority", 0}, {"greatestPriority", 0},
	{"active", 1},        {"flags", 0},
	{"major", 9},         {"minor", 0},
};

/* Functions that hand out memory of the size that they are asked for. */
static const char *const allocators[] = {
	"cudaMalloc*", "cudaHostAlloc", "cuMemAlloc*", "cuMemHostAlloc", "cuMemCreate", "cuMemAddressReserve",
};

static bool allocates(const char *func)
{
	for (size_t i = 0; i < sizeof(allocators) / sizeof(allocators[0]); i++)
		if (fnmatch(allocators[i], func, 0) == 0)
			return true;
	return false;
}

static uint64_t out_value(const struct table_row *row, const struct table_param *param,
			  const struct table_type *type)
{
	if (type->kind == TABLE_HEX)
		return allocates(row->func) ? FAKE_ADDRESS : FAKE_HANDLE;
	if (!strcmp(param->name, "runtimeVersion"))
		return fake_major * 1000;
	if (!strcmp(param->name, "free") || !strcmp(param->name, "total") ||
	    (!strcmp(param->name, "bytes") && type->size == 8))
		return fake_settings.memory;
	for (size_t i = 0; i < sizeof(out_values) / sizeof(out_values[0]); i++)
		if (!strcmp(param->name, out_values[i].param))
			return out_values[i].value;
	return type->kind == TABLE_ENUM ? 0 : 1;
}

/* Room in a text buffer is the parameter beside it that is an integer. */
static uint8_t text_room(const struct table_row *row, unsigned at)
{
	for (unsigned i = 0; i < row->nparams; i++) {
		const struct table_param *param = &table_params[row->param + i];

		if (i != at && (!strcmp(param->name, "len") || !strcmp(param->name, "size") ||
				!strcmp(param->name, "pSize")))
			return (uint8_t)fake_param_word(param);
	}
	return TABLE_NONE;
}

static void plan_out(struct fake_plan *plan, unsigned at)
{
	const struct table_param *params = &table_params[plan->row->param], *param = &params[at];
	const struct table_type *type = &table_types[param->pointee];
	struct fake_out *out = &plan->outs[plan->nouts];

	if (param->deref != TABLE_OUT || plan->nouts == FAKE_MAX_OUTS)
		return;
	*out = (struct fake_out){
		.word = (uint8_t)fake_param_word(param),
		.limit = TABLE_NONE,
		.count_is_pointer = param->count_is_pointer,
		.kind = type->kind,
		.size = type->size,
		.value = out_value(plan->row, param, type),
	};
	if (param->count != TABLE_NONE)
		out->limit = (uint8_t)fake_param_word(&params[param->count]);
	if (type->kind == TABLE_CHARS) {
		out->limit = text_room(plan->row, at);
		if (out->limit == TABLE_NONE)
			return;
	}
	plan->nouts++;
}

static void plan_sizes(struct fake_plan *plan)
{
	static const char *const names[] = {"size", "bytesize", "width", "WidthInBytes", "height", "Height"};

	plan->allocates = allocates(plan->row->func);
	for (unsigned i = 0; i < plan->row->nparams; i++) {
		const struct table_param *param = &table_params[plan->row->param + i];

		for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
			if (!strcmp(param->name, names[n]) && plan->nsizes < 3)
				plan->size[plan->nsizes++] = (uint8_t)fake_param_word(param);
	}
	if (!plan->nsizes)
		plan->allocates = false;
}

static void plan_one(unsigned index)
{
	const struct fake_function *function = &fake_functions[index];
	struct fake_plan *plan = &fake_plans[index];

	plan->copy_kind = TABLE_NONE;
	plan->plain = true;
	if (function->row < 0)
		return;
	plan->row = &table_rows[function->row];
	plan->special = fake_special(plan->row->func);
	plan->nests = fake_api == TABLE_RUNTIME && plan->row->ntwins && !(plan->row->flags & TABLE_TAIL) &&
		      plan->row->ret == TABLE_RET_STATUS;
	plan_sizes(plan);
	for (unsigned i = 0; i < plan->row->nparams; i++) {
		const struct table_param *param = &table_params[plan->row->param + i];

		plan_out(plan, i);
		if (!strcmp(table_types[param->type].name, "cudaMemcpyKind"))
			plan->copy_kind = (uint8_t)fake_param_word(param);
	}
	plan->plain =
		!plan->special && !plan->nouts && !plan->allocates && !(plan->nests && fake_settings.nested);
}

void fake_plan_all(void)
{
	for (unsigned i = 0; i < fake_nfunctions; i++)
		plan_one(i);
}
