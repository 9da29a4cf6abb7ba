/*
 * Prints the parts of a fake CUDA library that differ from library to
 * library, from the list of the real one's exports and the API table.
 *
 * usage: fake-gen stubs|names|version cudart|cuda MAJOR SONAME < EXPORTS
 *
 * The stubs begin with `push %rbp`, as the real functions do: the kernel
 * emulates that instruction under a probe, so that a probe costs what it
 * costs on the real ones.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streamer/table/table.h"

#define MAX_EXPORTS 1024
#define MAX_NAME    128

struct library {
	enum table_api api;
	unsigned major;
	const char *soname;
	unsigned n;
	char names[MAX_EXPORTS][MAX_NAME];
	int rows[MAX_EXPORTS];
};

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int read_exports(struct library *library)
{
	char line[MAX_NAME];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!*line || *line == '#')
			continue;
		if (library->n == MAX_EXPORTS)
			return -E2BIG;
		strcpy(library->names[library->n++], line);
	}
	qsort(library->names, library->n, sizeof(library->names[0]), compare);
	for (unsigned i = 0; i < library->n; i++) {
		int row = table_find(library->api, library->names[i], library->major);

		library->rows[i] = row < 0 ? -1 : row;
	}
	return 0;
}

/* Where a function of the runtime is a mere jump into another one, or NULL. */
static const char *tail_target(const struct library *library, unsigned i)
{
	const struct table_row *row = library->rows[i] < 0 ? NULL : &table_rows[library->rows[i]];

	return row && row->flags & TABLE_TAIL && row->ntwins ? table_twins[row->twin] : NULL;
}

static void print_stubs(const struct library *library)
{
	printf("\t.text\n");
	for (unsigned i = 0; i < library->n; i++) {
		const char *name = library->names[i], *tail = tail_target(library, i);

		printf("\n\t.globl\t%s\n\t.type\t%s, @function\n\t.balign\t16\n%s:\n.L%s:\n", name, name,
		       name, name);
		printf("\t.cfi_startproc\n\tpush\t%%rbp\n\t.cfi_def_cfa_offset 16\n\t.cfi_offset 6, -16\n");
		printf("\tmov\t%%rsp, %%rbp\n");
		if (tail)
			printf("\tpop\t%%rbp\n\t.cfi_def_cfa_offset 8\n\tjmp\t.L%s\n", tail);
		else
			printf("\tmov\t$%u, %%eax\n\tjmp\tfake_thunk\n", i);
		printf("\t.cfi_endproc\n\t.size\t%s, .-%s\n", name, name);
	}
	printf("\n\t.section\t.data.rel.ro, \"aw\"\n\t.globl\tfake_addresses\n\t.hidden\tfake_addresses\n"
	       "\t.balign\t8\nfake_addresses:\n");
	for (unsigned i = 0; i < library->n; i++)
		printf("\t.quad\t.L%s\n", library->names[i]);
	printf("\n\t.section\t.note.GNU-stack,\"\",@progbits\n");
}

static void print_names(const struct library *library)
{
	printf("#include \"tests/fake/fake.h\"\n\n");
	printf("const char fake_soname[] = \"%s\";\n", library->soname);
	printf("const unsigned fake_major = %u;\n", library->major);
	printf("const enum table_api fake_api = %s;\n",
	       library->api == TABLE_RUNTIME ? "TABLE_RUNTIME" : "TABLE_DRIVER");
	printf("const unsigned fake_nfunctions = %u;\n", library->n);
	printf("struct fake_plan fake_plans[%u];\n", library->n);
	printf("struct fake_behaviour fake_behaviours[%u];\n", library->n);
	printf("const struct fake_function fake_functions[] = {\n");
	for (unsigned i = 0; i < library->n; i++)
		printf("\t{\"%s\", %d},\n", library->names[i], library->rows[i]);
	printf("};\n");
}

/* The real libcudart's symbols carry its soname as version, libcuda's carry none. */
static void print_version(const struct library *library)
{
	if (library->api == TABLE_RUNTIME)
		printf("%s ", library->soname);
	printf("{\nglobal:\n\tfake_cuda_set;\n\tfake_cuda_on;\n\tfake_cuda_calls;\n\tfake_cuda_own;\n");
	for (unsigned i = 0; i < library->n; i++)
		printf("\t%s;\n", library->names[i]);
	printf("local:\n\t*;\n};\n");
}

int main(int argc, char **argv)
{
	static struct library library;

	if (argc != 5)
		return 2;
	library.api = !strcmp(argv[2], "cudart") ? TABLE_RUNTIME : TABLE_DRIVER;
	library.major = (unsigned)atoi(argv[3]);
	library.soname = argv[4];
	if (read_exports(&library))
		return 1;
	if (!strcmp(argv[1], "stubs"))
		print_stubs(&library);
	else if (!strcmp(argv[1], "names"))
		print_names(&library);
	else
		print_version(&library);
	return 0;
}
