/*
 * The real libcudart of every major in the cache: offsets against those that
 * the run-time linker uses, the same library linked statically, and stripped.
 *
 * The files are looked for under ${CUDATAP_CACHE:-~/.cache/cudatap}.
 */
#include <dlfcn.h>
#include <link.h>

#include "find_build.h"

enum { MAX_FILES = 16 };

static char *shared[MAX_FILES], *archives[MAX_FILES];
static unsigned nshared, narchives;

static int note_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	const char *name = path + ftw->base;

	if (type != FTW_F)
		return 0;
	if (strncmp(name, "libcudart.so.", 13) == 0 && nshared < MAX_FILES)
		shared[nshared++] = strdup(path);
	if (strcmp(name, "libcudart_static.a") == 0 && narchives < MAX_FILES)
		archives[narchives++] = strdup(path);
	return 0;
}

static int setup(void **state)
{
	const char *cache = getenv("CUDATAP_CACHE"), *home = getenv("HOME");
	char path[4096];

	if (cache)
		snprintf(path, sizeof(path), "%s", cache);
	else
		snprintf(path, sizeof(path), "%s/.cache/cudatap", home ? home : "");
	nftw(path, note_file, 16, FTW_PHYS);
	if (!nshared)
		print_message("skipping: no libcudart.so.* under %s (CUDATAP_CACHE)\n", path);
	return build_setup(state);
}

static int teardown(void **state)
{
	while (nshared)
		free(shared[--nshared]);
	while (narchives)
		free(archives[--narchives]);
	return build_teardown(state);
}

/* ---- where the run-time linker put a function ---- */

struct address {
	uintptr_t address;
	uint64_t offset; /* out */
	bool found;
};

static int offset_of_address(struct dl_phdr_info *info, size_t size, void *data)
{
	struct address *a = data;

	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD || a->address < start || a->address >= start + p->p_filesz)
			continue;
		a->offset = p->p_offset + (a->address - start);
		a->found = true;
		return 1;
	}
	return 0;
}

/* The file offset of a loaded function's first probed instruction. */
static uint64_t linker_offset(void *library, const char *symbol)
{
	struct address a = {.address = (uintptr_t)dlsym(library, symbol)};

	assert_true(a.address != 0);
	dl_iterate_phdr(offset_of_address, &a);
	assert_true(a.found);
#ifdef __x86_64__
	if (memcmp((void *)a.address, "\xf3\x0f\x1e\xfa", 4) == 0)
		a.offset += 4;
#endif
	return a.offset;
}

static bool has_offset(const struct find_image *image, uint64_t offset)
{
	for (size_t i = 0; i < image->nfunctions; i++)
		if (image->functions[i].offset == offset)
			return true;
	return false;
}

/* Every function that nm lists and the table knows is in the image; returns their number. */
static size_t check_exports(const char *path, void *library, const struct find_image *image)
{
	char command[4096], symbol[256], type, *line = NULL;
	size_t n = 0, size = 0;
	FILE *nm;

	snprintf(command, sizeof(command), "nm -D --defined-only --format=posix '%s'", path);
	nm = popen(command, "r");
	assert_non_null(nm);
	while (getline(&line, &size, nm) > 0) {
		int row;

		if (sscanf(line, "%255s %c", symbol, &type) != 2 || !strchr("TtWi", type))
			continue;
		symbol[strcspn(symbol, "@")] = '\0';
		row = table_find(TABLE_RUNTIME, symbol, image->major);
		if (row < 0 || (table_rows[row].flags & TABLE_TAIL))
			continue;
		if (!has_offset(image, linker_offset(library, symbol)))
			fail_msg("%s: %s is not found", path, symbol);
		n++;
	}
	free(line);
	pclose(nm);
	return n;
}

static void offsets_equal_the_linkers(void **state)
{
	if (!nshared)
		skip();
	for (unsigned i = 0; i < nshared; i++) {
		void *library = dlopen(shared[i], RTLD_NOW | RTLD_LOCAL);
		struct find_image image;
		char soname[32];

		assert_non_null(library);
		assert_int_equal(build_read(shared[i], &image), 0);
		assert_int_equal(image.major, atoi(strstr(shared[i], ".so.") + 4));
		assert_string_equal(image.major_from, "soname");
		snprintf(soname, sizeof(soname), "libcudart.so.%u", image.major);
		assert_memory_equal(image.soname, soname, strlen(soname));
		assert_false(image.is_static);
		assert_non_null(image.build_id);
		assert_int_equal(strlen(image.build_id), 40);
		for (size_t k = 0; k < image.nfunctions; k++) {
			const struct table_row *row = &table_rows[image.functions[k].row];

			assert_int_equal(image.functions[k].offset, linker_offset(library, row->symbol));
			assert_true(row->majors & (1u << (image.major - 11)));
		}
		assert_int_equal(check_exports(shared[i], library, &image), image.nfunctions);
		print_message("%s: %zu functions, %zu without a row\n", soname, image.nfunctions,
			      image.nunknown);
		find_image_free(&image);
		dlclose(library);
	}
}

/* The shared library beside an archive. */
static const char *sibling(const char *archive)
{
	size_t n = (size_t)(strrchr(archive, '/') + 1 - archive);

	for (unsigned i = 0; i < nshared; i++)
		if (strncmp(shared[i], archive, n) == 0)
			return shared[i];
	return NULL;
}

static void static_copies_are_found(void **state)
{
	if (!narchives)
		skip();
	build_c("main.o", "-c",
		"int cudaMalloc(void **, unsigned long); int main(void) { void *p; return cudaMalloc(&p, 1); "
		"}");
	for (unsigned i = 0; i < narchives; i++) {
		struct find_image image, beside;

		assert_int_equal(build_run("cc -o program main.o '%s' -ldl -lrt -lpthread", archives[i]), 0);
		assert_int_equal(build_read("program", &image), 0);
		assert_true(image.is_static);
		assert_true(image.has[TABLE_RUNTIME]);
		assert_false(image.has[TABLE_DRIVER]);
		assert_string_equal(image.major_from, "names");
		if (sibling(archives[i])) {
			assert_int_equal(build_read(sibling(archives[i]), &beside), 0);
			assert_int_equal(image.major, beside.major);
			assert_int_equal(image.nfunctions, beside.nfunctions);
			find_image_free(&beside);
		}
		find_image_free(&image);
		assert_int_equal(build_run("strip program"), 0);
		assert_int_equal(build_read("program", &image), FIND_NO_CUDA);
	}
}

/* A copy whose soname and section of versions are gone still tells its major by its names. */
static void names_agree_with_sonames(void **state)
{
	if (!nshared)
		skip();
	for (unsigned i = 0; i < nshared; i++) {
		struct find_image image, renamed;
		char *bytes, *at;
		size_t n;

		assert_int_equal(build_read(shared[i], &image), 0);
		bytes = build_bytes(shared[i], &n);
		/* soname and version share one string or have two */
		while ((at = memmem(bytes, n, image.soname, strlen(image.soname))))
			memcpy(at, "libsomeother", 12);
		assert_int_equal(find_image_read_bytes(bytes, n, &renamed), 0);
		assert_string_equal(renamed.major_from, "names");
		assert_int_equal(renamed.major, image.major);
		assert_true(renamed.is_static);
		assert_int_equal(renamed.nfunctions, image.nfunctions);
		assert_memory_equal(renamed.functions, image.functions,
				    image.nfunctions * sizeof(image.functions[0]));
		find_image_free(&renamed);
		find_image_free(&image);
		free(bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offsets_equal_the_linkers),
		cmocka_unit_test(static_copies_are_found),
		cmocka_unit_test(names_agree_with_sonames),
	};

	return cmocka_run_group_tests_name("find: real libraries", tests, setup, teardown);
}
