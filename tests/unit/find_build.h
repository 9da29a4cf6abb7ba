/* Builds small ELF files with the C compiler, for the tests of streamer/find. */
#ifndef CUDATAP_TEST_FIND_BUILD_H
#define CUDATAP_TEST_FIND_BUILD_H

#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "streamer/find/find.h"
#include "streamer/find/image.h"

static char build_dir[64];

static int build_setup(void **state)
{
	(void)state;
	strcpy(build_dir, "/tmp/cudatap-find-XXXXXX");
	return mkdtemp(build_dir) ? 0 : -1;
}

static int build_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static int build_teardown(void **state)
{
	(void)state;
	return nftw(build_dir, build_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* Runs a shell command in the directory of this test; returns its status. */
__attribute__((format(printf, 1, 2))) static inline int build_run(const char *format, ...)
{
	char command[4096], whole[4096 + 128];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	snprintf(whole, sizeof(whole), "cd %s && { %s; }", build_dir, command);
	return system(whole);
}

static inline const char *build_path(const char *name)
{
	static char paths[8][256];
	static unsigned next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", build_dir, name);
	return path;
}

static inline void build_write(const char *name, const void *bytes, size_t n)
{
	FILE *f = fopen(build_path(name), "w");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

/* Compiles C text into build_dir/@name with cc and @flags. */
static inline void build_c(const char *name, const char *flags, const char *text)
{
	build_write("source.c", text, strlen(text));
	assert_int_equal(build_run("cc -w -O0 -fcf-protection=none %s -o '%s' source.c", flags, name), 0);
}

/* What find_image_read() says of build_dir/@name (or of an absolute path). */
static inline int build_read(const char *name, struct find_image *image)
{
	int fd = open(name[0] == '/' ? name : build_path(name), O_RDONLY | O_CLOEXEC), result;

	assert_true(fd >= 0);
	*image = (struct find_image){0};
	result = find_image_read(fd, image);
	close(fd);
	return result;
}

static inline char *build_bytes(const char *name, size_t *ret_size)
{
	FILE *f = fopen(name[0] == '/' ? name : build_path(name), "r");
	char *bytes;
	long n;

	assert_non_null(f);
	fseek(f, 0, SEEK_END);
	n = ftell(f);
	rewind(f);
	bytes = malloc((size_t)n);
	assert_non_null(bytes);
	assert_int_equal(fread(bytes, 1, (size_t)n, f), n);
	fclose(f);
	*ret_size = (size_t)n;
	return bytes;
}

/* The function of that symbol in an image, or NULL. */
static inline const struct find_function *build_function(const struct find_image *image, const char *symbol)
{
	for (size_t i = 0; i < image->nfunctions; i++)
		if (strcmp(table_rows[image->functions[i].row].symbol, symbol) == 0)
			return &image->functions[i];
	return NULL;
}

/* Eight functions, the fewest that make a library without a soname. */
#define BUILD_EIGHT                                                                                    \
	"#define F(n) int n(void) { return 0; }\n"                                                     \
	"F(cudaMalloc) F(cudaFree) F(cudaMemcpy) F(cudaMemset) F(cudaLaunchKernel) F(cudaGetDevice)\n" \
	"F(cudaStreamCreate) F(cudaEventCreate)\n"

#endif
