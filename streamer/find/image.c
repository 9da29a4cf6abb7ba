/*
 * What a file holds: its CUDA functions, as file offsets and table rows.
 *
 * Names decide, since a static libcudart has no other trace: runtime names
 * begin with cuda or __cuda, driver names with cu and a capital, and only
 * names that the table knows count. A file holds a library when its soname
 * says so, or when it defines at least MIN_FUNCTIONS different functions of
 * it: a program's own cuInit() is not the driver, and an LD_PRELOAD wrapper
 * of two functions is seen through the real library underneath.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "names.h"

enum { MIN_FUNCTIONS = 8, FIRST_MAJOR = 11, NMAJORS = 3 };

/* A defined function with a known name. */
struct hit {
	uint64_t offset;
	uint16_t row; /* newest row of its symbol: identifies the symbol */
	uint8_t api;
	uint8_t majors;
};

struct search {
	const struct elf_file *file;
	struct hit *hits;
	size_t nhits, size;
	size_t nunknown[TABLE_NAPIS];
	bool outside; /* a function's bytes are not in the file */
};

/* One symbol table of it. */
struct table_search {
	struct search *search;
	struct find_names names;
};

/* endbr64 would be single-stepped; at the next instruction stack and arguments are the same. */
static uint64_t past_endbr(const struct elf_file *file, uint64_t offset)
{
#ifdef __x86_64__
	static const unsigned char endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
	unsigned char first[sizeof(endbr64)];

	if (elf_file_read(file, offset, first, sizeof(first)) == 0 &&
	    memcmp(first, endbr64, sizeof(first)) == 0 && offset + sizeof(first) < file->size)
		return offset + sizeof(first);
#endif
	return offset;
}

static int take_symbol(void *ctx, const Elf64_Sym *symbol)
{
	const struct table_search *table = ctx;
	const struct find_name *name = find_names_get(&table->names, symbol->st_name);
	struct search *s = table->search;
	Elf64_Shdr section;
	uint64_t offset;

	if (!name)
		return 0;
	/* a separate debug file has the symbols but not the code */
	if (symbol->st_shndx < SHN_LORESERVE &&
	    (elf_file_section(s->file, symbol->st_shndx, &section) || section.sh_type == SHT_NOBITS))
		return 0;
	if (!elf_file_offset(s->file, symbol->st_value, &offset))
		return 0;
	if (offset >= s->file->size) {
		s->outside = true;
		return 0;
	}
	if (!name->majors) {
		s->nunknown[name->api]++;
		return 0;
	}
	if (s->nhits == FIND_NAMES_STORED)
		return FIND_BROKEN;
	if (s->nhits == s->size) {
		size_t size = s->size ? 2 * s->size : 512;
		struct hit *grown = reallocarray(s->hits, size, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		s->hits = grown;
		s->size = size;
	}
	s->hits[s->nhits++] = (struct hit){past_endbr(s->file, offset), name->row, name->api, name->majors};
	return 0;
}

static int search_table(struct search *s, const Elf64_Shdr *table, bool unknown)
{
	struct table_search search = {.search = s};
	Elf64_Shdr strings;
	int err;

	if (table->sh_type == SHT_NULL)
		return 0;
	err = elf_file_section(s->file, table->sh_link, &strings);
	if (!err)
		err = find_names_scan(s->file, &strings, unknown, &search.names);
	if (err)
		return err;
	if (search.names.nknown)
		err = elf_file_functions(s->file, table, take_symbol, &search);
	find_names_free(&search.names);
	return err;
}

static bool starts_with(const char *text, const char *prefix)
{
	return text && strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Does the soname name that library? Copies in wheels are called libcudart-d0da41ae.so.11.0. */
static bool soname_is(const char *soname, enum table_api api)
{
	return starts_with(soname, api == TABLE_RUNTIME ? "libcudart" : "libcuda.so");
}

/* Decides which libraries the file holds and drops the functions of the others. */
static int decide_apis(struct search *s, const char *soname, struct find_image *image)
{
	size_t count[TABLE_NAPIS] = {0}, kept = 0;
	bool *seen = calloc(table_nrows, sizeof(*seen));

	if (!seen)
		return -ENOMEM;
	for (size_t i = 0; i < s->nhits; i++) {
		count[s->hits[i].api] += !seen[s->hits[i].row];
		seen[s->hits[i].row] = true;
	}
	free(seen);
	for (unsigned api = 0; api < TABLE_NAPIS; api++) {
		image->has[api] = count[api] >= (soname_is(soname, api) ? 1 : MIN_FUNCTIONS);
		image->nunknown += image->has[api] ? s->nunknown[api] : 0;
	}
	image->is_static = image->has[TABLE_RUNTIME] && !soname_is(soname, TABLE_RUNTIME);
	for (size_t i = 0; i < s->nhits; i++)
		if (image->has[s->hits[i].api])
			s->hits[kept++] = s->hits[i];
	s->nhits = kept;
	return kept ? 0 : s->outside ? FIND_BROKEN : FIND_NO_CUDA;
}

/* ---- the major ---- */

/* The number after ".so." in "libcudart.so.12" or "libcudart-d0da41ae.so.11.0", or 0. */
static unsigned major_in_name(const char *name)
{
	const char *so = starts_with(name, "libcudart") ? strstr(name, ".so.") : NULL;
	unsigned long major = so ? strtoul(so + strlen(".so."), NULL, 10) : 0;

	return major < 1000 ? (unsigned)major : 0;
}

static int major_in_version(void *ctx, const char *name)
{
	unsigned *major = ctx;

	if (!*major)
		*major = major_in_name(name);
	return 0;
}

/*
 * The major in which most of the names exist, 0 between equals: each major
 * dropped some names of the one before and brought new ones.
 */
static unsigned major_by_names(const struct search *s)
{
	size_t count[NMAJORS] = {0}, most = 0;
	unsigned best = 0;

	for (size_t i = 0; i < s->nhits; i++)
		for (unsigned m = 0; m < NMAJORS; m++)
			count[m] += s->hits[i].api == TABLE_RUNTIME && (s->hits[i].majors & (1u << m));
	for (unsigned m = 0; m < NMAJORS; m++) {
		if (count[m] == most)
			best = 0;
		else if (count[m] > most)
			best = FIRST_MAJOR + m;
		most = count[m] > most ? count[m] : most;
	}
	return best;
}

/* The driver keeps every old name, so its newest names tell. */
static unsigned major_of_driver(const struct search *s)
{
	unsigned newest = 0;

	for (size_t i = 0; i < s->nhits; i++) {
		unsigned first = 0;

		if (s->hits[i].api != TABLE_DRIVER)
			continue;
		while (!(s->hits[i].majors & (1u << first)))
			first++;
		if (first > newest)
			newest = first;
	}
	return FIRST_MAJOR + newest;
}

static int decide_major(const struct search *s, struct find_image *image)
{
	int err;

	image->major_from = "soname";
	image->major = major_in_name(image->soname);
	if (!image->major && image->has[TABLE_RUNTIME]) {
		image->major_from = "symbol version";
		err = elf_file_versions(s->file, major_in_version, &image->major);
		if (err)
			return err;
	}
	if (!image->major) {
		image->major_from = "names";
		image->major = image->has[TABLE_RUNTIME] ? major_by_names(s) : major_of_driver(s);
	}
	if (!image->major)
		image->major_from = NULL;
	return 0;
}

/* ---- functions ---- */

/* Of several names for one function: the public one, then the one without per-thread stream. */
static int rank(const struct hit *hit)
{
	const struct table_row *row = &table_rows[hit->row];

	return (row->symbol[0] == '_') * 2 + !!(row->flags & TABLE_PER_THREAD_STREAM);
}

static int compare_hits(const void *a, const void *b)
{
	const struct hit *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	if (rank(x) != rank(y))
		return rank(x) - rank(y);
	return strcmp(table_rows[x->row].symbol, table_rows[y->row].symbol);
}

/* Is the function that this one jumps into in the file, too? */
static bool tail_is_probed(const struct search *s, const struct hit *hit)
{
	const struct table_row *row = &table_rows[hit->row];

	if (!(row->flags & TABLE_TAIL) || !row->ntwins)
		return false;
	for (size_t i = 0; i < s->nhits; i++)
		if (s->hits[i].api == hit->api &&
		    strcmp(table_rows[s->hits[i].row].symbol, table_twins[row->twin]) == 0)
			return true;
	return false;
}

/* The major nearest to @major among those in which the symbol exists; the newest if undecided. */
static unsigned nearest_major(const struct hit *hit, unsigned major)
{
	unsigned best = 0, best_distance = UINT_MAX;

	for (unsigned m = FIRST_MAJOR + NMAJORS - 1; m >= FIRST_MAJOR; m--) {
		unsigned distance = !major ? 0 : m > major ? m - major : major - m;

		if ((hit->majors & (1u << (m - FIRST_MAJOR))) && distance < best_distance) {
			best = m;
			best_distance = distance;
		}
	}
	return best;
}

/*
 * The row for a symbol in a library of that major. Where the table lacks it
 * for that major, the nearest row still has the name right.
 */
static void choose_row(const struct hit *hit, unsigned major, struct find_function *function)
{
	const char *symbol = table_rows[hit->row].symbol;
	int row = table_find(hit->api, symbol, major);

	function->shape_unknown = row == -ENOTUNIQ;
	if (row < 0)
		row = table_find(hit->api, symbol, nearest_major(hit, major));
	function->row = row < 0 ? hit->row : (uint16_t)row;
}

static int fill_functions(struct search *s, struct find_image *image)
{
	unsigned major[TABLE_NAPIS] = {image->major, image->has[TABLE_DRIVER] ? major_of_driver(s) : 0};
	uint64_t last = UINT64_MAX;

	qsort(s->hits, s->nhits, sizeof(s->hits[0]), compare_hits);
	image->functions = calloc(s->nhits, sizeof(image->functions[0]));
	if (!image->functions)
		return -ENOMEM;
	for (size_t i = 0; i < s->nhits; i++) {
		const struct hit *hit = &s->hits[i];
		struct find_function *function = &image->functions[image->nfunctions];

		if (hit->offset == last || tail_is_probed(s, hit))
			continue;
		last = hit->offset;
		function->offset = hit->offset;
		choose_row(hit, major[hit->api], function);
		image->nfunctions++;
	}
	return 0;
}

static int read_image(const struct elf_file *file, struct find_image *image)
{
	struct search s = {.file = file};
	struct find_image found = {0};
	int err;

	err = search_table(&s, &file->dynsym, true);
	if (!err)
		err = search_table(&s, &file->symtab, false);
	if (!err && !s.nhits)
		err = s.outside ? FIND_BROKEN : FIND_NO_CUDA;
	if (!err)
		err = elf_file_soname(file, &found.soname);
	if (!err)
		err = decide_apis(&s, found.soname, &found);
	if (!err)
		err = decide_major(&s, &found);
	if (!err)
		err = elf_file_build_id(file, &found.build_id);
	if (!err)
		err = fill_functions(&s, &found);
	free(s.hits);
	if (err)
		find_image_free(&found);
	else
		*image = found;
	return err;
}

int find_image_read(int fd, struct find_image *image)
{
	struct elf_file file;
	int err = elf_file_open(&file, fd);

	return err ? err : read_image(&file, image);
}

int find_image_read_bytes(const void *bytes, size_t size, struct find_image *image)
{
	struct elf_file file;
	int err = elf_file_open_bytes(&file, bytes, size);

	return err ? err : read_image(&file, image);
}

void find_image_free(struct find_image *image)
{
	if (!image)
		return;
	free(image->soname);
	free(image->build_id);
	free(image->functions);
	*image = (struct find_image){0};
}

const char *find_error_text(int error)
{
	static const struct {
		int error;
		const char *text;
	} texts[] = {
		{FIND_NOT_ELF, "not an ELF file"},
		{FIND_OTHER_MACHINE, "built for another architecture"},
		{FIND_NO_CUDA,
		 "has no CUDA function (a stripped executable keeps none of its static libcudart)"},
		{FIND_BROKEN, "cut short or damaged: its ELF tables do not fit together"},
		{-ESTALE, "was replaced by another file meanwhile"},
	};
	const char *text;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].error == error)
			return texts[i].text;
	text = error > -4096 && error < 0 ? strerrordesc_np(-error) : NULL;
	return text ? text : "unknown error";
}
