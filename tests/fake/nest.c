/*
 * The driver's calls inside the runtime's: as the real libcudart, the fake
 * one loads libcuda.so.1 at its first call and calls the function there that
 * does the work. Which one, and with which arguments, follows from the API
 * table: a driver's parameter takes the runtime's argument that is most like
 * it, else points to made-up memory, else is 0.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

#define DRIVER_MAJOR 13
#define NKINDS       6 /* of cudaMemcpyKind, and one for functions without */
#define NOT_LOADED   ((void *)-1)

enum source {
	FROM_ZERO,
	FROM_WORD,
	FROM_LOW,  /* the lower half of a word: x of a dim3 */
	FROM_HIGH, /* the upper half: y */
	FROM_SCRATCH,
	FROM_CONFIG, /* a CUlaunchConfig made of a cudaLaunchConfig_t */
};

struct nest {
	void *function; /* NULL: the driver has none */
	unsigned nwords;
	uint32_t done; /* words of the runtime's call whose pointees the driver's writes */
	struct {
		uint8_t source, word;
	} words[FAKE_MAX_WORDS];
};

static _Atomic(struct nest *) *nests; /* [fake_nfunctions * NKINDS], made when first called */
static _Atomic(void *) driver;

void fake_nest_start(void)
{
	nests = calloc((size_t)fake_nfunctions * NKINDS, sizeof(*nests));
}

static void *driver_handle(void)
{
	void *handle = atomic_load(&driver);

	if (!handle) {
		handle = dlopen("libcuda.so.1", RTLD_NOW);
		if (!handle)
			handle = NOT_LOADED;
		atomic_store(&driver, handle);
	}
	return handle;
}

/* ---- which function ---- */

static int score(const struct table_row *row, const struct table_row *twin, unsigned kind)
{
	static const char *const directions[NKINDS] = {"HtoH", "HtoD", "DtoH", "DtoD", "none", "none"};
	int points = 0;

	if (strstr(twin->func, directions[kind]))
		points += 100;
	else if (strstr(twin->func, "toD") || strstr(twin->func, "toH") || strstr(twin->func, "toA"))
		points -= 50;
	if (!strcmp(row->func + strlen("cuda"), twin->func + strlen("cu")))
		points += 50;
	if (!strstr(row->func, "Async") == !strstr(twin->func, "Async"))
		points += 40;
	if ((row->flags & TABLE_PER_THREAD_STREAM) == (twin->flags & TABLE_PER_THREAD_STREAM))
		points += 20;
	if (strstr(twin->func, "D8"))
		points += 10; /* cudaMemset counts bytes */
	if (strstr(twin->symbol, "_v"))
		points += strstr(twin->symbol, "_v")[2] - '0';
	return points;
}

static const struct table_row *choose_twin(const struct table_row *row, unsigned kind, void **ret_address)
{
	const struct table_row *best = NULL;
	int best_points = 0;

	for (unsigned i = 0; i < row->ntwins; i++) {
		int id = table_find(TABLE_DRIVER, table_twins[row->twin + i], DRIVER_MAJOR);
		void *address = id < 0 ? NULL : dlsym(driver_handle(), table_rows[id].symbol);
		int points = address ? score(row, &table_rows[id], kind) : 0;

		if (address && (!best || points > best_points)) {
			best = &table_rows[id];
			best_points = points;
			*ret_address = address;
		}
	}
	return best;
}

/* ---- with which arguments ---- */

static bool is_stream(const struct table_param *param)
{
	return strstr(param->name, "tream") != NULL;
}

static bool alike(const struct table_param *a, const struct table_param *b)
{
	const struct table_type *ta = &table_types[a->type], *tb = &table_types[b->type];
	bool integers = (ta->kind == TABLE_INT || ta->kind == TABLE_UINT) &&
			(tb->kind == TABLE_INT || tb->kind == TABLE_UINT);

	if ((ta->kind != tb->kind && !integers) || ta->size != tb->size || is_stream(a) != is_stream(b))
		return false;
	if (ta->kind == TABLE_STRUCT || ta->kind == TABLE_DIM3 || ta->kind == TABLE_ENUM ||
	    a->deref != b->deref)
		return false;
	if (a->deref == TABLE_NO_DEREF)
		return true;
	ta = &table_types[a->pointee];
	tb = &table_types[b->pointee];
	return ta->kind == tb->kind && ta->size == tb->size && ta->kind != TABLE_STRUCT &&
	       (a->count == TABLE_NONE) == (b->count == TABLE_NONE);
}

/* The parameter of @row that is most like @param, not used so far, or -1. */
static int find_alike(const struct table_row *row, const struct table_param *param, unsigned at,
		      uint32_t used)
{
	const struct table_param *params = &table_params[row->param];

	if (at < row->nparams && !(used >> at & 1) && alike(&params[at], param))
		return (int)at;
	for (unsigned i = 0; i < row->nparams; i++)
		if (!(used >> i & 1) && alike(&params[i], param))
			return (int)i;
	return -1;
}

static void set_word(struct nest *nest, unsigned word, enum source source, unsigned from)
{
	nest->words[word].source = (uint8_t)source;
	nest->words[word].word = (uint8_t)from;
	if (word >= nest->nwords)
		nest->nwords = word + 1;
}

static void map_params(struct nest *nest, const struct table_row *row, const struct table_row *twin)
{
	uint32_t used = 0;

	for (unsigned i = 0; i < twin->nparams; i++) {
		const struct table_param *param = &table_params[twin->param + i];
		unsigned word = fake_param_word(param);
		int like = find_alike(row, param, i, used);

		if (like >= 0) {
			const struct table_param *from = &table_params[row->param + like];

			used |= 1u << like;
			set_word(nest, word, FROM_WORD, fake_param_word(from));
			if (from->deref == TABLE_OUT)
				nest->done |= 1u << fake_param_word(from);
		} else if (strchr(table_types[param->type].name, '*')) {
			set_word(nest, word, FROM_SCRATCH, 0);
		} else {
			for (unsigned w = 0; w < param->place[TABLE_X86_64].words; w++)
				set_word(nest, word + w, FROM_ZERO, 0);
		}
	}
}

/* cudaLaunchKernel: func, grid (2 words), block (2), args, then on the stack shared bytes and stream */
static void map_launch(struct nest *nest)
{
	static const struct {
		uint8_t source, word;
	} words[] = {
		{FROM_WORD, 0}, {FROM_LOW, 1}, {FROM_HIGH, 1}, {FROM_LOW, 2},  {FROM_LOW, 3},  {FROM_HIGH, 3},
		{FROM_LOW, 4},  {FROM_LOW, 6}, {FROM_WORD, 7}, {FROM_WORD, 5}, {FROM_ZERO, 0},
	};

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		set_word(nest, i, words[i].source, words[i].word);
}

/* cudaLaunchKernelExC: config, func, args. cuLaunchKernelEx: config, f, kernelParams, extra. */
static void map_launch_ex(struct nest *nest)
{
	set_word(nest, 0, FROM_CONFIG, 0);
	set_word(nest, 1, FROM_WORD, 1);
	set_word(nest, 2, FROM_WORD, 2);
	set_word(nest, 3, FROM_ZERO, 0);
}

static struct nest *make_nest(const struct table_row *row, unsigned kind)
{
	struct nest *nest = calloc(1, sizeof(*nest));
	const struct table_row *twin;

	if (!nest)
		return NULL;
	if (driver_handle() == NOT_LOADED || !(twin = choose_twin(row, kind, &nest->function)))
		return nest;
	nest->nwords = FAKE_NREGS;
	if (!strcmp(twin->func, "cuLaunchKernel") || !strcmp(twin->func, "cuLaunchCooperativeKernel"))
		map_launch(nest);
	else if (!strcmp(twin->func, "cuLaunchKernelEx"))
		map_launch_ex(nest);
	else
		map_params(nest, row, twin);
	return nest;
}

static struct nest *get_nest(unsigned index, const struct table_row *row, unsigned kind)
{
	_Atomic(struct nest *) *place = &nests[index * NKINDS + kind];
	struct nest *nest = atomic_load(place), *none = NULL;

	if (nest)
		return nest;
	nest = make_nest(row, kind);
	if (nest && !atomic_compare_exchange_strong(place, &none, nest)) {
		free(nest);
		nest = none;
	}
	return nest;
}

/* ---- the call ---- */

/* CUlaunchConfig: seven u32, padding, hStream. cudaLaunchConfig_t: grid, block, size_t shared bytes, stream.
 */
static void make_config(uint8_t *to, const uint8_t *from)
{
	if (!from)
		return;
	memcpy(to, from, 28);
	memcpy(to + 32, from + 32, 8);
}

int fake_nest(const struct fake_call *call, const struct fake_plan *plan, uint32_t *ret_done)
{
	unsigned kind = plan->copy_kind == TABLE_NONE ? NKINDS - 1
						      : (unsigned)(uint32_t)fake_word(call, plan->copy_kind);
	struct nest *nest = get_nest(call->index, plan->row, kind < NKINDS ? kind : NKINDS - 1);
	uint8_t scratch[FAKE_MAX_SCRATCH][FAKE_SCRATCH];
	uint64_t words[FAKE_MAX_WORDS] = {0};
	unsigned nscratch = 0;

	if (!nest || !nest->function)
		return 0;
	for (unsigned i = 0; i < nest->nwords; i++) {
		uint64_t from = fake_word(call, nest->words[i].word);
		void *made_up = NULL;

		if (nest->words[i].source >= FROM_SCRATCH && nscratch < FAKE_MAX_SCRATCH)
			made_up = memset(scratch[nscratch++], 0, FAKE_SCRATCH);
		switch (nest->words[i].source) {
		case FROM_WORD:
			words[i] = from;
			break;
		case FROM_LOW:
			words[i] = (uint32_t)from;
			break;
		case FROM_HIGH:
			words[i] = from >> 32;
			break;
		case FROM_CONFIG:
			make_config(made_up, (const uint8_t *)from);
			words[i] = (uintptr_t)made_up;
			break;
		case FROM_SCRATCH:
			words[i] = (uintptr_t)made_up;
			break;
		}
	}
	*ret_done = nest->done;
	return (int)fake_call_words(nest->function, words, nest->nwords);
}
