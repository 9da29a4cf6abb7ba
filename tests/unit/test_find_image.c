/* The ELF reader: which functions of a file are found, at which offsets, and what it is called. */
#include <elf.h>
#include <errno.h>

#include "find_build.h"
#include "streamer/find/elf_file.h"

#define LIBRARY "-shared -fPIC -nostdlib "

static void eight_functions_make_a_library(void **state)
{
	struct find_image image;

	build_c("eight.so", LIBRARY, BUILD_EIGHT);
	assert_int_equal(build_read("eight.so", &image), 0);
	assert_int_equal(image.nfunctions, 8);
	assert_true(image.has[TABLE_RUNTIME]);
	assert_false(image.has[TABLE_DRIVER]);
	assert_true(image.is_static);
	assert_null(image.soname);
	for (size_t i = 1; i < image.nfunctions; i++)
		assert_true(image.functions[i - 1].offset < image.functions[i].offset);
	find_image_free(&image);
	find_image_free(&image);
	find_image_free(NULL);
}

static void seven_are_a_programs_own(void **state)
{
	struct find_image image;

	build_c("seven.so", LIBRARY, "#define cudaEventCreate other\n" BUILD_EIGHT);
	assert_int_equal(build_read("seven.so", &image), FIND_NO_CUDA);
	build_c("init.so", LIBRARY, "int cuInit(void) { return 0; }");
	assert_int_equal(build_read("init.so", &image), FIND_NO_CUDA);
}

static void one_is_enough_with_the_soname(void **state)
{
	struct find_image image;

	build_c("one.so", LIBRARY "-Wl,-soname,libcudart-d0da41ae.so.11.0",
		"int cudaMalloc(void) { return 0; }");
	assert_int_equal(build_read("one.so", &image), 0);
	assert_int_equal(image.nfunctions, 1);
	assert_int_equal(image.major, 11);
	assert_string_equal(image.major_from, "soname");
	assert_string_equal(image.soname, "libcudart-d0da41ae.so.11.0");
	assert_false(image.is_static);
	find_image_free(&image);

	build_c("one.so", LIBRARY "-Wl,-soname,libcuda.so.1", "int cuInit(void) { return 0; }");
	assert_int_equal(build_read("one.so", &image), 0);
	assert_true(image.has[TABLE_DRIVER]);
	assert_false(image.has[TABLE_RUNTIME]);
	assert_false(image.is_static);
	find_image_free(&image);
}

static void both_libraries_in_one_file(void **state)
{
	struct find_image image;

	build_c("both.so", LIBRARY,
		BUILD_EIGHT "F(cuInit) F(cuDeviceGet) F(cuMemAlloc_v2) F(cuMemFree_v2) F(cuLaunchKernel)\n"
			    "F(cuCtxGetCurrent) F(cuStreamCreate) F(cuEventCreate)");
	assert_int_equal(build_read("both.so", &image), 0);
	assert_true(image.has[TABLE_RUNTIME] && image.has[TABLE_DRIVER]);
	assert_int_equal(image.nfunctions, 16);
	find_image_free(&image);
}

/* A static libcudart: local symbols, in .symtab alone, of a position-dependent executable too. */
static void symtab_of_executables(void **state)
{
	static const char *const flags[] = {"-fvisibility=hidden", "-fvisibility=hidden -static -no-pie"};
	const char *text = BUILD_EIGHT "int main(void) { return cudaMalloc(); }";
	struct find_image image;

	for (unsigned i = 0; i < 2; i++) {
		build_c("program", flags[i], text);
		assert_int_equal(build_read("program", &image), 0);
		assert_int_equal(image.nfunctions, 8);
		assert_true(image.is_static);
		assert_null(image.soname);
		find_image_free(&image);
		assert_int_equal(build_run("strip program"), 0);
		assert_int_equal(build_read("program", &image), FIND_NO_CUDA);
	}
}

static void imports_are_not_functions(void **state)
{
	struct find_image image;

	build_c("libeight.so", LIBRARY "-Wl,-soname,libcudart.so.12", BUILD_EIGHT);
	build_c("main.o", "-c",
		"int cudaMalloc(), cudaFree(), cudaMemcpy(), cudaMemset(), cudaGetDevice(), "
		"cudaLaunchKernel(), cudaStreamCreate(), cudaEventCreate();\n"
		"int main(void) { return cudaMalloc() + cudaFree() + cudaMemcpy() + cudaMemset() + "
		"cudaGetDevice() + cudaLaunchKernel() + cudaStreamCreate() + cudaEventCreate(); }");
	assert_int_equal(build_run("cc -o user main.o ./libeight.so"), 0);
	assert_int_equal(build_read("user", &image), FIND_NO_CUDA);
}

static void only_exact_names_of_functions(void **state)
{
	struct find_image image;

	/* wrappers, longer and shorter names, suffixes of compilers, data, ifuncs */
	build_c("names.so", LIBRARY "-Wl,-soname,libcudart.so.12",
		"#define N(n, as) int n(void) __asm__(as); int n(void) { return 0; }\n"
		"N(a, \"_Z10cudaMallocIfE9cudaErrorPPT_m\") N(b, \"cudaMallocX\") N(c, \"cudaMallo\")\n"
		"N(d, \"my_cudaMalloc\") N(e, \"cudaFree.cold\") N(f, \"cudaFree.part.0\")\n"
		"N(g, \"_cudaFree\") N(i, \"cudafree\")\n"
		"int cudaMemcpy = 3;\n"
		"static int real(void) { return 0; }\n"
		"static void *resolve(void) { return real; }\n"
		"int cudaMemset(void) __attribute__((ifunc(\"resolve\")));\n"
		"int cudaGetDevice(void) { return 0; }\n");
	assert_int_equal(build_read("names.so", &image), 0);
	assert_int_equal(image.nfunctions, 1);
	assert_non_null(build_function(&image, "cudaGetDevice"));
	/* cudaMallocX and cudaMallo look like functions of a newer CUDA */
	assert_int_equal(image.nunknown, 2);
	find_image_free(&image);
}

static void names_may_share_their_tails(void **state)
{
	struct find_image image;

	build_c("tails.so", LIBRARY "-Wl,-O2 -Wl,-soname,libcudart.so.12",
		"int x(void) __asm__(\"zzz_cudaMalloc\"); int x(void) { return 0; }\n"
		"int cudaMalloc(void) { return 0; }\n"
		"int __cudaPushCallConfiguration(void) { return 0; }\n");
	assert_int_equal(build_read("tails.so", &image), 0);
	assert_int_equal(image.nfunctions, 2);
	assert_non_null(build_function(&image, "cudaMalloc"));
	assert_non_null(build_function(&image, "__cudaPushCallConfiguration"));
	find_image_free(&image);
}

static void aliases_count_once(void **state)
{
	struct find_image image;

	build_c("alias.so", LIBRARY "-Wl,-soname,libcudart.so.12",
		"#define ALIAS(n, of) int n(void) __attribute__((alias(#of)));\n"
		"int cudaMemcpyAsync_ptsz(void) { return 0; }\n"
		"ALIAS(cudaMemcpyAsync, cudaMemcpyAsync_ptsz) ALIAS(__cudaInitModule, cudaMemcpyAsync_ptsz)\n"
		"int __cudaUnregisterFatBinary(void) { return 0; }\n"
		"ALIAS(cudaStreamQuery_ptsz, __cudaUnregisterFatBinary)\n");
	assert_int_equal(build_read("alias.so", &image), 0);
	assert_int_equal(image.nfunctions, 2);
	assert_non_null(build_function(&image, "cudaMemcpyAsync"));
	assert_non_null(build_function(&image, "cudaStreamQuery_ptsz"));
	find_image_free(&image);
}

static void jumping_functions_are_left_to_their_targets(void **state)
{
	struct find_image image;

	build_c("tail.so", LIBRARY "-Wl,-soname,libcudart.so.13",
		"int __cudaLaunchKernel(void) { return 0; } int cudaLaunchKernel(void) { return 0; }\n");
	assert_int_equal(build_read("tail.so", &image), 0);
	assert_int_equal(image.nfunctions, 1);
	assert_non_null(build_function(&image, "cudaLaunchKernel"));
	find_image_free(&image);

	build_c("tail.so", LIBRARY "-Wl,-soname,libcudart.so.13",
		"int __cudaLaunchKernel(void) { return 0; }\n");
	assert_int_equal(build_read("tail.so", &image), 0);
	assert_int_equal(image.nfunctions, 1);
	assert_non_null(build_function(&image, "__cudaLaunchKernel"));
	find_image_free(&image);
}

static void endbr64_is_passed(void **state)
{
#ifndef __x86_64__
	skip();
#else
	struct find_image image;
	const unsigned char *code;
	char *bytes;
	size_t n;

	static const char text[] =
		".globl cudaMalloc, cudaFree\n.type cudaMalloc, @function\n.type cudaFree, @function\n"
		"cudaMalloc: endbr64\n push %rbp\n pop %rbp\n ret\n"
		"cudaFree: push %rbx\n pop %rbx\n ret\n";

	build_write("source.s", text, sizeof(text) - 1);
	assert_int_equal(build_run("cc -shared -nostdlib -Wl,-soname,libcudart.so.12 -o endbr.so source.s"),
			 0);
	assert_int_equal(build_read("endbr.so", &image), 0);
	assert_int_equal(image.nfunctions, 2);
	bytes = build_bytes("endbr.so", &n);
	code = (unsigned char *)bytes + build_function(&image, "cudaMalloc")->offset;
	assert_int_equal(code[0], 0x55);
	assert_memory_equal(code - 4, "\xf3\x0f\x1e\xfa", 4);
	code = (unsigned char *)bytes + build_function(&image, "cudaFree")->offset;
	assert_int_equal(code[0], 0x53);
	free(bytes);
	find_image_free(&image);
#endif
}

static void version_definitions_tell_the_major(void **state)
{
	static const char script[] = "libcudart.so.12 { global: *; };\n";
	struct find_image image;

	build_write("versions", script, sizeof(script) - 1);
	build_c("versions.so", LIBRARY "-Wl,--version-script=versions", BUILD_EIGHT);
	assert_int_equal(build_read("versions.so", &image), 0);
	assert_int_equal(image.major, 12);
	assert_string_equal(image.major_from, "symbol version");
	assert_int_equal(image.nfunctions, 8);
	find_image_free(&image);
}

static void build_id_and_soname(void **state)
{
	struct find_image image;

	build_c("id.so",
		LIBRARY "-Wl,-soname,libcudart.so.13 -Wl,--build-id=0x00112233445566778899aabbccddeeff",
		BUILD_EIGHT);
	assert_int_equal(build_read("id.so", &image), 0);
	assert_string_equal(image.soname, "libcudart.so.13");
	assert_string_equal(image.build_id, "00112233445566778899aabbccddeeff");
	assert_int_equal(image.major, 13);
	find_image_free(&image);

	build_c("id.so", LIBRARY "-Wl,--build-id=none", BUILD_EIGHT);
	assert_int_equal(build_read("id.so", &image), 0);
	assert_null(image.build_id);
	find_image_free(&image);
}

/* A debug file has the symbols, but its code is elsewhere. */
static void debug_files_have_no_code(void **state)
{
	struct find_image image;

	build_c("debug.so", LIBRARY, BUILD_EIGHT);
	assert_int_equal(build_run("objcopy --only-keep-debug debug.so debug.debug"), 0);
	assert_int_equal(build_read("debug.debug", &image), FIND_NO_CUDA);
}

/* ---- majors by names ---- */

static bool first_of_its_symbol(unsigned row)
{
	return row == 0 || table_rows[row - 1].api != table_rows[row].api ||
	       strcmp(table_rows[row - 1].symbol, table_rows[row].symbol) != 0;
}

static unsigned majors_of(unsigned row)
{
	unsigned majors = 0;

	for (unsigned i = 0; i < table_nrows; i++)
		if (table_rows[i].api == table_rows[row].api &&
		    strcmp(table_rows[i].symbol, table_rows[row].symbol) == 0)
			majors |= table_rows[i].majors;
	return majors;
}

/* A library without soname that defines every symbol for which majors_of() & mask; returns their number. */
static size_t build_api(enum table_api api, unsigned mask)
{
	FILE *f = fopen(build_path("source.s"), "w");
	size_t n = 0;

	assert_non_null(f);
	for (unsigned i = 0; i < table_nrows; i++) {
		const char *s = table_rows[i].symbol;

		if (table_rows[i].api != api || !first_of_its_symbol(i) || !(majors_of(i) & mask))
			continue;
		fprintf(f, ".globl %s\n.type %s, %%function\n%s: .byte 0x55, 0xc3, 0, 0\n", s, s, s);
		n += !(table_rows[i].flags & TABLE_TAIL);
	}
	fclose(f);
	assert_int_equal(build_run("cc -shared -nostdlib -o api.so source.s"), 0);
	return n;
}

static void names_tell_the_major(void **state)
{
	struct find_image image;

	for (unsigned i = 0; i < 3; i++) {
		size_t n = build_api(TABLE_RUNTIME, 1u << i);

		assert_true(n > 380);
		assert_int_equal(build_read("api.so", &image), 0);
		assert_int_equal(image.major, 11 + i);
		assert_string_equal(image.major_from, "names");
		assert_int_equal(image.nfunctions, n);
		for (size_t k = 0; k < n; k++) {
			assert_true(table_rows[image.functions[k].row].majors & (1u << i));
			assert_false(image.functions[k].shape_unknown);
		}
		find_image_free(&image);
	}
}

static void newest_name_tells_the_drivers_major(void **state)
{
	struct find_image image;
	size_t n = build_api(TABLE_DRIVER, TABLE_CUDA_ANY);

	assert_true(n > 600);
	assert_int_equal(build_read("api.so", &image), 0);
	assert_true(image.has[TABLE_DRIVER]);
	assert_false(image.is_static);
	assert_int_equal(image.nfunctions, n);
	assert_true(image.major >= 11 && image.major <= 13);
	find_image_free(&image);

	build_api(TABLE_DRIVER, TABLE_CUDA11);
	assert_int_equal(build_read("api.so", &image), 0);
	assert_int_equal(image.major, 11);
	find_image_free(&image);
}

static void undecided_majors_are_said(void **state)
{
	struct find_image image;

	/* all of these are in every major; cudaMemAdvise changed its parameters */
	build_c("undecided.so", LIBRARY, BUILD_EIGHT "F(cudaMemAdvise)");
	assert_int_equal(build_read("undecided.so", &image), 0);
	assert_int_equal(image.major, 0);
	assert_null(image.major_from);
	assert_int_equal(image.nfunctions, 9);
	assert_true(build_function(&image, "cudaMemAdvise")->shape_unknown);
	assert_false(build_function(&image, "cudaMalloc")->shape_unknown);
	find_image_free(&image);
}

/* ---- what is no library ---- */

static void other_files_are_refused(void **state)
{
	static const unsigned char script[] = "#!/bin/sh\nexit 0\n";
	struct find_image image;
	size_t n;
	char *bytes;

	build_write("script", script, sizeof(script));
	build_write("empty", "", 0);
	build_write("short", ELFMAG, SELFMAG);
	assert_int_equal(build_read("script", &image), FIND_NOT_ELF);
	assert_int_equal(build_read("empty", &image), FIND_NOT_ELF);
	assert_int_equal(build_read("short", &image), FIND_BROKEN);
	assert_int_equal(build_read("/tmp", &image), FIND_NOT_ELF);
	assert_int_equal(build_read("/dev/null", &image), FIND_NOT_ELF);
	assert_int_equal(find_image_read(-1, &image), -EBADF);
	assert_int_equal(build_read("/proc/self/exe", &image), FIND_NO_CUDA);

	build_c("elf.so", LIBRARY, BUILD_EIGHT);
	bytes = build_bytes("elf.so", &n);
	bytes[EI_CLASS] = ELFCLASS32;
	assert_int_equal(find_image_read_bytes(bytes, n, &image), FIND_OTHER_MACHINE);
	bytes[EI_CLASS] = ELFCLASS64;
	bytes[EI_DATA] ^= 3;
	assert_int_equal(find_image_read_bytes(bytes, n, &image), FIND_OTHER_MACHINE);
	bytes[EI_DATA] ^= 3;
	((Elf64_Ehdr *)bytes)->e_machine = EM_RISCV;
	assert_int_equal(find_image_read_bytes(bytes, n, &image), FIND_OTHER_MACHINE);
	free(bytes);
	assert_int_equal(build_run("cc -c -o elf.o source.c"), 0);
	assert_int_equal(build_read("elf.o", &image), FIND_NO_CUDA);
}

static void other_architectures_are_refused(void **state)
{
	struct find_image image;
	const char *cross = "aarch64-linux-gnu-gcc";

#ifdef __aarch64__
	cross = "x86_64-linux-gnu-gcc";
#endif
	if (build_run("command -v %s >/dev/null", cross) != 0) {
		print_message("no %s here\n", cross);
		skip();
	}
	build_write("source.c", BUILD_EIGHT, strlen(BUILD_EIGHT));
	assert_int_equal(build_run("%s -w -shared -fPIC -nostdlib -o other.so source.c", cross), 0);
	assert_int_equal(build_read("other.so", &image), FIND_OTHER_MACHINE);
	if (build_run("cc -w -m32 -shared -nostdlib -o small.so source.c 2>/dev/null") == 0)
		assert_int_equal(build_read("small.so", &image), FIND_OTHER_MACHINE);
}

static void errors_have_texts(void **state)
{
	const int errors[] = {FIND_NOT_ELF, FIND_OTHER_MACHINE, FIND_NO_CUDA, FIND_BROKEN, -ENOENT, -ESTALE};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		assert_string_not_equal(find_error_text(errors[i]), "unknown error");
	assert_string_equal(find_error_text(-ENOENT), "No such file or directory");
	assert_string_equal(find_error_text(7), "unknown error");
	assert_string_equal(find_error_text(-123456), "unknown error");
}

/* ---- damage ---- */

static void every_cut_is_an_error(void **state)
{
	struct find_image image;
	size_t n, whole;
	char *bytes, *copy;

	build_c("cut.so", LIBRARY "-Wl,-soname,libcudart.so.12", BUILD_EIGHT);
	bytes = build_bytes("cut.so", &whole);
	for (n = 0; n < whole; n++) {
		int result;

		copy = malloc(n ? n : 1); /* exact, so that a sanitizer sees one byte too many */
		memcpy(copy, bytes, n);
		result = find_image_read_bytes(copy, n, &image);
		assert_int_equal(result, n < SELFMAG ? FIND_NOT_ELF : FIND_BROKEN);
		free(copy);
	}
	assert_int_equal(find_image_read_bytes(bytes, whole, &image), 0);
	find_image_free(&image);
	free(bytes);
}

static void every_flipped_byte_is_survived(void **state)
{
	static const unsigned char values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
	size_t n, found = 0;
	char *bytes;

	build_c("flip.so", LIBRARY "-Wl,-soname,libcudart.so.12", BUILD_EIGHT);
	assert_int_equal(build_run("strip flip.so"), 0);
	bytes = build_bytes("flip.so", &n);
	for (size_t i = 0; i < n; i++) {
		char kept = bytes[i];

		for (size_t k = 0; k < sizeof(values); k++) {
			struct find_image image = {0};

			bytes[i] = (char)values[k];
			if (find_image_read_bytes(bytes, n, &image) == 0) {
				found++;
				for (size_t f = 0; f < image.nfunctions; f++)
					assert_true(image.functions[f].offset < n);
			}
			find_image_free(&image);
		}
		bytes[i] = kept;
	}
	assert_true(found > 0);
	free(bytes);
}

/* A file that shrinks between the look at its size and the read. */
static void shrinking_files_are_broken(void **state)
{
	struct elf_file file;
	char buf[64];
	int fd;

	build_c("shrink.so", LIBRARY, BUILD_EIGHT);
	fd = open(build_path("shrink.so"), O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(elf_file_open(&file, fd), 0);
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_int_equal(elf_file_read(&file, 60, buf, sizeof(buf)), FIND_BROKEN);
	assert_int_equal(elf_file_read(&file, 36, buf, sizeof(buf)), 0);
	assert_int_equal(elf_file_read(&file, file.size, buf, 1), FIND_BROKEN);
	assert_int_equal(elf_file_read(&file, UINT64_MAX, buf, 2), FIND_BROKEN);
	close(fd);
}

static void position_stays(void **state)
{
	struct find_image image;
	int fd;

	build_c("position.so", LIBRARY, BUILD_EIGHT);
	fd = open(build_path("position.so"), O_RDONLY | O_CLOEXEC);
	assert_int_equal(lseek(fd, 123, SEEK_SET), 123);
	assert_int_equal(find_image_read(fd, &image), 0);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 123);
	find_image_free(&image);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eight_functions_make_a_library),
		cmocka_unit_test(seven_are_a_programs_own),
		cmocka_unit_test(one_is_enough_with_the_soname),
		cmocka_unit_test(both_libraries_in_one_file),
		cmocka_unit_test(symtab_of_executables),
		cmocka_unit_test(imports_are_not_functions),
		cmocka_unit_test(only_exact_names_of_functions),
		cmocka_unit_test(names_may_share_their_tails),
		cmocka_unit_test(aliases_count_once),
		cmocka_unit_test(jumping_functions_are_left_to_their_targets),
		cmocka_unit_test(endbr64_is_passed),
		cmocka_unit_test(version_definitions_tell_the_major),
		cmocka_unit_test(build_id_and_soname),
		cmocka_unit_test(debug_files_have_no_code),
		cmocka_unit_test(names_tell_the_major),
		cmocka_unit_test(newest_name_tells_the_drivers_major),
		cmocka_unit_test(undecided_majors_are_said),
		cmocka_unit_test(other_files_are_refused),
		cmocka_unit_test(other_architectures_are_refused),
		cmocka_unit_test(errors_have_texts),
		cmocka_unit_test(every_cut_is_an_error),
		cmocka_unit_test(every_flipped_byte_is_survived),
		cmocka_unit_test(shrinking_files_are_broken),
		cmocka_unit_test(position_stays),
	};

	return cmocka_run_group_tests_name("find: images", tests, build_setup, build_teardown);
}
