/*
 * Files that no process need have mapped yet: the linker's cache, the
 * directories that toolkits and drivers install to, and what the user names;
 * see find.h.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "find.h"
#include "ldcache.h"
#include "seen.h"

#define LD_SO_CACHE "/etc/ld.so.cache"

enum { CACHE_MAX = 16 << 20, PATH_SIZE = 4096 };

/* Where libcudart and libcuda are found beside the cache; globs. */
static const char *const directories[] = {
	"/lib",
	"/usr/lib",
	"/lib64",
	"/usr/lib64", /* ld.so's own */
	"/lib/x86_64-linux-gnu",
	"/usr/lib/x86_64-linux-gnu",
	"/lib/aarch64-linux-gnu",
	"/usr/lib/aarch64-linux-gnu",
	"/usr/local/cuda*/lib64",
	"/usr/local/cuda*/targets/*/lib",
	"/opt/cuda/lib64", /* toolkits */
	"/usr/local/nvidia/lib64",
	"/usr/local/nvidia/lib",
	"/home/kubernetes/bin/nvidia/lib64",
	"/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
	"/run/opengl-driver/lib", /* drivers */
	"/usr/lib/wsl/lib",
	"/usr/lib/x86_64-linux-gnu/nvidia/current",
	"/opt/*conda*/lib",
	"/opt/*conda*/envs/*/lib", /* conda */
};

/* Pythons whose packages may bring copies. Nothing below home directories: those may be other machines'. */
static const char *const pythons[] = {
	"/usr/lib", "/usr/local/lib", "/opt/*/lib", "/opt/*/{.venv,venv}/lib", "/opt/*/envs/*/lib",
};

/* The wheels' own directories, and those of PyTorch's older wheels. */
#define WHEELS "/python3*/{site,dist}-packages/{nvidia/*/lib,torch/lib}"

bool find_looks_like_cuda(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	return (strncmp(name, "libcudart", 9) == 0 && strstr(name, ".so")) ||
	       strncmp(name, "libcuda.so", 10) == 0;
}

/* ---- one candidate after the other, each file once ---- */

struct places {
	find_fn fn;
	void *ctx;
	struct seen seen;
};

/* Offers a path if it is a file not yet offered; *ret_why says why a path is none. */
static int offer(struct places *places, const char *path, int *ret_why)
{
	struct find_file file = {.path = path};
	struct stat st;
	int is_new;

	*ret_why = stat(path, &st) < 0   ? -errno
		   : S_ISDIR(st.st_mode) ? -EISDIR
		   : S_ISREG(st.st_mode) ? 0
					 : -EINVAL;
	if (*ret_why)
		return 0;
	file.dev = st.st_dev;
	file.ino = st.st_ino;
	is_new = seen_put(&places->seen, st.st_dev, st.st_ino, 0);
	return is_new > 0 ? places->fn(places->ctx, &file) : is_new;
}

/* ---- directories ---- */

static int offer_directory(struct places *places, const char *directory)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	char path[PATH_SIZE];
	int result = 0, unused;

	if (!dir)
		return 0;
	while (!result && (entry = readdir(dir)))
		if (find_looks_like_cuda(entry->d_name) &&
		    snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name) < (int)sizeof(path))
			result = offer(places, path, &unused);
	closedir(dir);
	return result;
}

static int offer_directories(struct places *places, const char *pattern)
{
	glob_t found = {0};
	int result = 0;

	if (glob(pattern, GLOB_BRACE, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc && !result; i++)
			result = offer_directory(places, found.gl_pathv[i]);
	globfree(&found);
	return result;
}

static int offer_wheels(struct places *places, const char *lib)
{
	char pattern[PATH_SIZE];

	return snprintf(pattern, sizeof(pattern), "%s" WHEELS, lib) < (int)sizeof(pattern)
		       ? offer_directories(places, pattern)
		       : 0;
}

/* What conda and venv say of the environment that is active. */
static int offer_environment(struct places *places)
{
	static const char *const variables[] = {"CONDA_PREFIX", "VIRTUAL_ENV"};
	char lib[PATH_SIZE];
	int result = 0;

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]) && !result; i++) {
		const char *prefix = getenv(variables[i]);

		if (!prefix || snprintf(lib, sizeof(lib), "%s/lib", prefix) >= (int)sizeof(lib))
			continue;
		result = offer_directory(places, lib);
		if (!result)
			result = offer_wheels(places, lib);
	}
	return result;
}

/* A list as in LD_LIBRARY_PATH; an empty element means the working directory, as to ld.so. */
static int offer_search_path(struct places *places, const char *list)
{
	int result = 0;

	while (list && !result) {
		size_t n = strcspn(list, ":;");
		char *directory = n ? strndup(list, n) : strdup(".");

		if (!directory)
			return -ENOMEM;
		result = offer_directory(places, directory);
		free(directory);
		list = list[n] ? list + n + 1 : NULL;
	}
	return result;
}

/* ---- the linker's cache ---- */

static int offer_cached(void *ctx, const char *name, const char *path)
{
	int unused;

	return find_looks_like_cuda(name) ? offer(ctx, path, &unused) : 0;
}

static int offer_cache(struct places *places)
{
	char *bytes = NULL;
	size_t n = 0;
	int fd = open(LD_SO_CACHE, O_RDONLY | O_CLOEXEC), result = 0;
	struct stat st;

	if (fd < 0) /* musl and others have none */
		return 0;
	if (fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= CACHE_MAX)
		bytes = malloc((size_t)st.st_size);
	while (bytes && n < (size_t)st.st_size) {
		ssize_t got = read(fd, bytes + n, (size_t)st.st_size - n);

		if (got <= 0)
			break;
		n += (size_t)got;
	}
	close(fd);
	if (bytes)
		result = ldcache_walk(bytes, n, offer_cached, places);
	free(bytes);
	return result == -EINVAL ? 0 : result;
}

/* ---- public ---- */

int find_in_cache(find_fn fn, void *ctx)
{
	struct places places = {.fn = fn, .ctx = ctx};
	const char *library_path = getenv("LD_LIBRARY_PATH");
	int result;

	result = library_path && *library_path ? offer_search_path(&places, library_path) : 0;
	if (!result)
		result = offer_environment(&places);
	if (!result)
		result = offer_cache(&places);
	for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]) && !result; i++)
		result = offer_directories(&places, directories[i]);
	for (size_t i = 0; i < sizeof(pythons) / sizeof(pythons[0]) && !result; i++)
		result = offer_wheels(&places, pythons[i]);
	seen_free(&places.seen);
	return result;
}

int find_by_glob(const char *pattern, find_fn fn, void *ctx)
{
	struct places places = {.fn = fn, .ctx = ctx};
	int result, why = -ENOENT, last = 0;
	glob_t found = {0};

	/* a file may be called lib[1].so */
	result = offer(&places, pattern, &why);
	if (why == -ENOENT || why == -ENOTDIR) {
		switch (glob(pattern, GLOB_BRACE | GLOB_TILDE, NULL, &found)) {
		case GLOB_NOSPACE:
			result = -ENOMEM;
			break;
		case GLOB_ABORTED:
			why = -EIO;
			break;
		}
		for (size_t i = 0; i < found.gl_pathc && !result; i++) {
			result = offer(&places, found.gl_pathv[i], &last);
			why = last ? last : why;
		}
		globfree(&found);
	}
	if (!result && !places.seen.n)
		result = why;
	seen_free(&places.seen);
	return result;
}
