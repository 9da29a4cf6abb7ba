/* Where candidate files come from: maps of processes, the linker's cache, directories, globs, the host's
 * list. */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "find_build.h"
#include "streamer/find/ldcache.h"
#include "streamer/find/list.h"
#include "streamer/find/maps.h"

#define LIBRARY "-shared -fPIC -nostdlib -Wl,-soname,libcudart.so.12 "

/* ---- lines of maps ---- */

static void lines_of_maps(void **state)
{
	static const struct {
		const char *line, *path; /* path NULL: not a candidate */
		bool deleted;
	} cases[] = {
		{"7f00-7f10 r-xp 00000000 fd:01 77                     /usr/lib/libcuda.so.1\n",
		 "/usr/lib/libcuda.so.1"},
		{"7f00-7f10 rwxs 00000000 fd:01 77 /a b/c  d\n", "/a b/c  d"},
		{"7f00-7f10 r-xp 00000000 fd:01 77 /x (deleted)\n", "/x", true},
		{"7f00-7f10 r-xp 00000000 fd:01 77 /x\\012y (deleted)", "/x\ny", true},
		{"7f00-7f10 r-xp 00000000 fd:01 77 /x\\0123\n", "/x\n3"},
		{"7f00-7f10 r-xp 00000000 00:01 77 /memfd:jit (deleted)\n", "/memfd:jit", true},
		{"7f00-7f10 r--p 00000000 fd:01 77 /usr/lib/libcuda.so.1\n"},
		{"7f00-7f10 rw-p 00000000 00:00 0 \n"},
		{"7f00-7f10 r-xp 00000000 00:00 0                      [vdso]\n"},
		{"7f00-7f10 r-xp 00000000 00:00 0\n"},
		{"7f00-7f10 r-xp 00000000 fd:01 77\n"},
		{"7f00-7f10 r-xp 00000000 fd:01\n"},
		{"nonsense\n"},
		{"\n"},
		{""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct find_file file = {.pid = 5};
		char line[256];
		bool is;

		strcpy(line, cases[i].line);
		is = maps_parse_line(line, &file);
		assert_int_equal(is, cases[i].path != NULL);
		if (!is)
			continue;
		assert_string_equal(file.path, cases[i].path);
		assert_int_equal(file.deleted, cases[i].deleted);
		assert_int_equal(file.map_start, 0x7f00);
		assert_int_equal(file.map_end, 0x7f10);
		assert_int_equal(file.ino, 77);
		assert_int_equal(major(file.dev), strstr(cases[i].line, "fd:01") ? 0xfd : 0);
		assert_int_equal(minor(file.dev), 1);
		assert_int_equal(file.pid, 5);
	}
}

/* ---- processes ---- */

/* What a walk showed of one inode. */
struct sight {
	ino_t ino;
	pid_t pid; /* only of this process, unless 0 */
	unsigned n;
	struct find_file file;
	char path[512];
};

static int look_for(void *ctx, const struct find_file *file)
{
	struct sight *s = ctx;

	if (file->ino == s->ino && (!s->pid || s->pid == file->pid)) {
		s->n++;
		s->file = *file;
		snprintf(s->path, sizeof(s->path), "%s", file->path);
		s->file.path = s->path;
	}
	return 0;
}

static void *map_file(const char *path, ino_t *ret_ino)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	map = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_true(map != MAP_FAILED);
	close(fd);
	*ret_ino = st.st_ino;
	return map;
}

static void assert_opens(const struct find_file *file, ino_t ino)
{
	int fd = find_open(file);
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_ino, ino);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
}

static void names_of_every_kind(void **state)
{
	static const char *const names[] = {"plain.so", "with space.so", "with\nnewline.so",
					    "really (deleted)", "back\\slash.so"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct sight sight = {0};
		void *map, *again;

		build_c("made.so", LIBRARY, BUILD_EIGHT);
		assert_int_equal(rename(build_path("made.so"), build_path(names[i])), 0);
		map = map_file(build_path(names[i]), &sight.ino);
		again = map_file(build_path(names[i]), &sight.ino);
		assert_int_equal(find_in_process(getpid(), look_for, &sight), 0);
		assert_int_equal(sight.n, 1); /* mapped twice */
		assert_string_equal(sight.path, build_path(names[i]));
		assert_false(sight.file.deleted);
		assert_int_equal(sight.file.pid, getpid());
		assert_opens(&sight.file, sight.ino);
		munmap(map, 4096);
		munmap(again, 4096);
	}
}

static bool may_open_mappings(const struct find_file *file)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", (int)file->pid,
		 (unsigned long)file->map_start, (unsigned long)file->map_end);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void deleted_and_replaced_files(void **state)
{
	struct sight sight = {0};
	struct find_image image;
	void *map;
	int fd;

	build_c("gone.so", LIBRARY, BUILD_EIGHT);
	map = map_file(build_path("gone.so"), &sight.ino);
	/* replaced between maps and open: the mapping still leads to the old file */
	assert_int_equal(find_in_process(getpid(), look_for, &sight), 0);
	build_c("new.so", LIBRARY, "int cudaMalloc(void) { return 0; }");
	assert_int_equal(rename(build_path("new.so"), build_path("gone.so")), 0);
	if (!may_open_mappings(&sight.file)) {
		print_message("skipping: map_files cannot be opened here (CAP_CHECKPOINT_RESTORE)\n");
		assert_int_equal(find_open(&sight.file), -ESTALE);
		munmap(map, 4096);
		skip();
	}
	assert_opens(&sight.file, sight.ino);
	/* and once it is replaced, maps say so */
	sight.n = 0;
	assert_int_equal(find_in_process(getpid(), look_for, &sight), 0);
	assert_int_equal(sight.n, 1);
	assert_true(sight.file.deleted);
	assert_string_equal(sight.path, build_path("gone.so"));
	fd = find_open(&sight.file);
	assert_true(fd >= 0);
	assert_int_equal(find_image_read(fd, &image), 0);
	assert_int_equal(image.nfunctions, 8);
	find_image_free(&image);
	close(fd);
	/* unmapped too: what has the name now is another file and must not be opened */
	munmap(map, 4096);
	assert_true(find_open(&sight.file) < 0);
}

/* Another file at the same addresses is not the one that was seen. */
static void another_file_at_the_same_address(void **state)
{
	struct sight sight = {0};
	ino_t other;
	void *map, *moved;
	int fd;

	build_c("first.so", LIBRARY, BUILD_EIGHT);
	build_c("second.so", LIBRARY, BUILD_EIGHT);
	map = map_file(build_path("first.so"), &sight.ino);
	assert_int_equal(find_in_process(getpid(), look_for, &sight), 0);
	assert_int_equal(unlink(build_path("first.so")), 0);
	fd = open(build_path("second.so"), O_RDONLY | O_CLOEXEC);
	moved = mmap(map, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0);
	assert_ptr_equal(moved, map);
	close(fd);
	other = sight.ino;
	assert_true(find_open(&sight.file) < 0);
	assert_int_equal(other, sight.ino);
	munmap(map, 4096);
}

static void processes_that_are_gone(void **state)
{
	struct sight sight = {0};
	siginfo_t info;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(find_in_process(pid, look_for, &sight), -ESRCH); /* a zombie */
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(find_in_process(pid, look_for, &sight), -ESRCH);
	assert_int_equal(find_in_process(0, look_for, &sight), -ESRCH);
	assert_int_equal(find_in_process(-1, look_for, &sight), -ESRCH);
}

static int stop_at_once(void *ctx, const struct find_file *file)
{
	++*(unsigned *)ctx;
	return -ESRCH; /* the caller's own value, even one that a walk could give */
}

/* A child that maps a file and waits to be killed. */
static pid_t child_with(const char *path)
{
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		ino_t ino;

		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody behind */
		map_file(path, &ino);
		close(ready[0]);
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void all_processes(void **state)
{
	struct sight sight = {0};
	struct stat st;
	unsigned n = 0;
	pid_t pid;

	build_c("child.so", LIBRARY, BUILD_EIGHT);
	pid = child_with(build_path("child.so"));
	assert_int_equal(stat(build_path("child.so"), &st), 0);
	sight.ino = st.st_ino;
	sight.pid = pid;
	assert_int_equal(find_in_processes(look_for, &sight), 0);
	assert_int_equal(sight.n, 1);
	assert_opens(&sight.file, st.st_ino);
	assert_int_equal(find_in_processes(stop_at_once, &n), -ESRCH);
	assert_int_equal(n, 1);
	end_child(pid);
	/* by its name, when the process has gone */
	assert_opens(&sight.file, st.st_ino);
}

/* ---- the linker's cache ---- */

#if defined(__x86_64__)
#define FLAGS 0x0303
#else
#define FLAGS 0x0a03
#endif

struct cache {
	char magic[20];
	uint32_t nlibs, strings_size, reserved[5];
	struct {
		int32_t flags;
		uint32_t name, path, os_version;
		uint64_t hwcap;
	} entries[3];
	char strings[64];
};

static void make_cache(struct cache *cache)
{
	const uint32_t strings = offsetof(struct cache, strings);

	memset(cache, 0, sizeof(*cache));
	memcpy(cache->magic, "glibc-ld.so.cache1.1", sizeof(cache->magic));
	cache->nlibs = 3;
	memcpy(cache->strings, "libcuda.so.1\0/lib/libcuda.so.1", 31);
	for (unsigned i = 0; i < 3; i++) {
		cache->entries[i].flags = i == 1 ? 0x0003 : FLAGS; /* the second one is 32-bit */
		cache->entries[i].name = strings;
		cache->entries[i].path = strings + 13;
	}
	cache->entries[2].hwcap = 1;
}

static int count_cached(void *ctx, const char *name, const char *path)
{
	assert_string_equal(name, "libcuda.so.1");
	assert_string_equal(path, "/lib/libcuda.so.1");
	++*(unsigned *)ctx;
	return 0;
}

static int touch_cached(void *ctx, const char *name, const char *path)
{
	*(size_t *)ctx += strlen(name) + strlen(path);
	return 0;
}

static int stop_cached(void *ctx, const char *name, const char *path)
{
	return 42;
}

static void caches_are_read(void **state)
{
	struct {
		char magic[11];
		uint32_t nlibs;
		char old[3][12];
		char pad[4];
		struct cache cache;
	} both = {.nlibs = 3};
	struct cache cache;
	unsigned n = 0;

	make_cache(&cache);
	assert_int_equal(ldcache_walk(&cache, sizeof(cache), count_cached, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(ldcache_walk(&cache, sizeof(cache), stop_cached, NULL), 42);
	/* behind the table of older linkers */
	memcpy(both.magic, "ld.so-1.7.0", sizeof(both.magic));
	both.cache = cache;
	assert_int_equal(offsetof(typeof(both), cache), 56);
	n = 0;
	assert_int_equal(ldcache_walk(&both, sizeof(both), count_cached, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(ldcache_walk("", 0, count_cached, &n), -EINVAL);
	both.nlibs = UINT32_MAX;
	assert_int_equal(ldcache_walk(&both, sizeof(both), count_cached, &n), -EINVAL);
}

static void damaged_caches_are_survived(void **state)
{
	static const unsigned char values[] = {0, 1, 0x7f, 0xff};
	struct cache cache;
	size_t n = 0;

	make_cache(&cache);
	for (size_t size = 0; size < sizeof(cache); size++) {
		char *cut = malloc(size ? size : 1);

		memcpy(cut, &cache, size);
		ldcache_walk(cut, size, touch_cached, &n);
		free(cut);
	}
	for (size_t i = 0; i < sizeof(cache); i++)
		for (size_t k = 0; k < sizeof(values); k++) {
			struct cache *flipped = malloc(sizeof(*flipped));

			*flipped = cache;
			((unsigned char *)flipped)[i] = values[k];
			ldcache_walk(flipped, sizeof(*flipped), touch_cached, &n);
			free(flipped);
		}
	assert_true(n > 0);
}

struct names {
	unsigned n;
	bool libc;
};

static int count_names(void *ctx, const char *name, const char *path)
{
	struct names *names = ctx;

	names->n++;
	names->libc |= strcmp(name, "libc.so.6") == 0 && access(path, R_OK) == 0;
	return 0;
}

static void the_hosts_cache_agrees_with_ldconfig(void **state)
{
	struct names names = {0};
	unsigned listed = 0;
	size_t size = 0, n;
	char *line = NULL, *bytes;
	FILE *ldconfig;

	if (access("/etc/ld.so.cache", R_OK) != 0 || access("/sbin/ldconfig", X_OK) != 0)
		skip();
	ldconfig = popen("/sbin/ldconfig -p", "r");
	assert_non_null(ldconfig);
	while (getline(&line, &size, ldconfig) > 0)
#ifdef __x86_64__
		listed += strstr(line, "(libc6,x86-64") != NULL;
#else
		listed += strstr(line, "(libc6,AArch64") != NULL;
#endif
	pclose(ldconfig);
	free(line);
	bytes = build_bytes("/etc/ld.so.cache", &n);
	assert_int_equal(ldcache_walk(bytes, n, count_names, &names), 0);
	assert_int_equal(names.n, listed);
	assert_true(names.libc);
	free(bytes);
}

/* ---- directories and globs ---- */

struct paths {
	unsigned n;
	char last[512];
};

static int note_path(void *ctx, const struct find_file *file)
{
	struct paths *paths = ctx;
	struct stat st;

	assert_int_equal(file->pid, 0);
	assert_int_equal(stat(file->path, &st), 0);
	assert_int_equal(st.st_ino, file->ino);
	if (strncmp(file->path, build_dir, strlen(build_dir)) == 0) {
		paths->n++;
		snprintf(paths->last, sizeof(paths->last), "%s", file->path);
	}
	return 0;
}

static void names_that_look_like_cuda(void **state)
{
	static const char *const yes[] = {"libcuda.so",
					  "/a/libcuda.so.1",
					  "libcuda.so.580.159",
					  "libcudart.so.12",
					  "/x/libcudart-d0da41ae.so.11.0",
					  "libcudart.so"};
	static const char *const no[] = {"libcudart_static.a",
					 "/libcuda.so.d/libx.so",
					 "libcudadevrt.a",
					 "libcudnn.so.8",
					 "python3",
					 "",
					 "/"};

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_true(find_looks_like_cuda(yes[i]));
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_false(find_looks_like_cuda(no[i]));
}

static void library_path_is_searched(void **state)
{
	struct paths paths = {0};
	char list[512];

	assert_int_equal(
		build_run("mkdir a b && echo >a/libcudart.so.12 && ln a/libcudart.so.12 b/libcudart.so &&"
			  "echo >b/libcuda.so.1 && echo >b/libother.so && mkdir b/libcuda.so.9"),
		0);
	snprintf(list, sizeof(list), "%s:/nonexistent:%s", build_path("a"), build_path("b"));
	setenv("LD_LIBRARY_PATH", list, 1);
	assert_int_equal(find_in_cache(note_path, &paths), 0);
	assert_int_equal(paths.n, 2); /* one file has two names */
	unsetenv("LD_LIBRARY_PATH");
	paths.n = 0;
	assert_int_equal(find_in_cache(note_path, &paths), 0);
	assert_int_equal(paths.n, 0);
	assert_int_equal(build_run("mkdir env && ln -s ../b env/lib"), 0);
	setenv("CONDA_PREFIX", build_path("env"), 1);
	assert_int_equal(find_in_cache(note_path, &paths), 0);
	assert_int_equal(paths.n, 2);
	unsetenv("CONDA_PREFIX");
}

static void globs_and_plain_paths(void **state)
{
	struct paths paths = {0};
	struct sight sight = {0};
	unsigned n = 0;

	assert_int_equal(build_run("mkdir g && cd g && echo >x1.so && echo >x2.so && echo >'x[1].so' && ln "
				   "-s x1.so l.so"),
			 0);
	assert_int_equal(find_by_glob(build_path("g/x?.so"), note_path, &paths), 0);
	assert_int_equal(paths.n, 2);
	paths.n = 0;
	assert_int_equal(find_by_glob(build_path("g/*.so"), note_path, &paths), 0);
	assert_int_equal(paths.n, 3);
	paths.n = 0;
	assert_int_equal(find_by_glob(build_path("g/{x1,x2,none}.so"), note_path, &paths), 0);
	assert_int_equal(paths.n, 2);
	paths.n = 0;
	/* a file of that very name comes before the pattern */
	assert_int_equal(find_by_glob(build_path("g/x[1].so"), note_path, &paths), 0);
	assert_int_equal(paths.n, 1);
	assert_string_equal(paths.last, build_path("g/x[1].so"));
	setenv("HOME", build_path("g"), 1);
	assert_int_equal(find_by_glob("~/x2.so", note_path, &paths), 0);
	assert_int_equal(paths.n, 2);
	assert_int_equal(find_by_glob(build_path("g/none*"), look_for, &sight), -ENOENT);
	assert_int_equal(find_by_glob(build_path("g/none.so"), look_for, &sight), -ENOENT);
	assert_int_equal(find_by_glob(build_path("g"), look_for, &sight), -EISDIR);
	assert_int_equal(find_by_glob("", look_for, &sight), -ENOENT);
	assert_int_equal(find_by_glob(build_path("g/*"), stop_at_once, &n), -ESRCH);
	assert_int_equal(n, 1);
}

/* ---- the host's list ---- */

static const struct find_library *in_list(const struct find_list *list, const char *path)
{
	const struct find_library *found = NULL;

	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->libraries[i].file.path, path) == 0) {
			assert_null(found);
			found = &list->libraries[i];
		}
	return found;
}

static void hosts_list(void **state)
{
	const struct find_library *library;
	struct find_list list = {0};
	pid_t first, second;
	size_t nread;

	build_c("mapped.so", LIBRARY, BUILD_EIGHT);
	build_c("plain.so", "-shared -fPIC -nostdlib", "int f(void) { return 0; }");
	assert_int_equal(build_run("mkdir list && echo nonsense >list/libcudart.so.12"), 0);
	first = child_with(build_path("mapped.so"));
	second = child_with(build_path("mapped.so"));
	setenv("LD_LIBRARY_PATH", build_path("list"), 1);
	assert_int_equal(find_host(&list), 0);
	unsetenv("LD_LIBRARY_PATH");

	library = in_list(&list, build_path("mapped.so"));
	assert_non_null(library);
	assert_int_equal(library->error, 0);
	assert_int_equal(library->image.nfunctions, 8);
	assert_int_equal(library->npids, 2);
	assert_true((library->pids[0] == first && library->pids[1] == second) ||
		    (library->pids[0] == second && library->pids[1] == first));
	assert_opens(&library->file, library->file.ino);
	library = in_list(&list, build_path("list/libcudart.so.12"));
	assert_non_null(library);
	assert_int_equal(library->error, FIND_NOT_ELF);
	assert_int_equal(library->npids, 0);

	/* what a user names is listed, whatever it is, and nothing is read twice */
	nread = list.nread;
	assert_int_equal(find_by_glob(build_path("plain.so"), find_list_add, &list), 0);
	assert_null(in_list(&list, build_path("plain.so")));
	assert_int_equal(find_by_glob(build_path("{mapped,plain}.so"), find_list_add, &list), 0);
	assert_int_equal(list.nread, nread + 1);
	assert_int_equal(find_by_glob(build_path("*.so"), find_list_add_named, &list), 0);
	library = in_list(&list, build_path("plain.so"));
	assert_non_null(library);
	assert_int_equal(library->error, FIND_NO_CUDA);
	assert_non_null(in_list(&list, build_path("mapped.so")));
	find_list_free(&list);
	find_list_free(&list);
	end_child(first);
	end_child(second);
}

/* A file that could not be opened is tried again when another process shows a way. */
static void unopened_files_get_another_chance(void **state)
{
	struct find_list list = {0};
	struct find_file file = {.path = build_path("libcudart.so.99"), .pid = 0};
	struct stat st;

	build_c("libcudart.so.98", LIBRARY, BUILD_EIGHT);
	assert_int_equal(stat(build_path("libcudart.so.98"), &st), 0);
	file.dev = st.st_dev;
	file.ino = st.st_ino;
	assert_int_equal(find_list_add(&list, &file), 0);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.libraries[0].error, -ENOENT);
	assert_int_equal(rename(build_path("libcudart.so.98"), build_path("libcudart.so.99")), 0);
	assert_int_equal(find_list_add(&list, &file), 0);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.libraries[0].error, 0);
	assert_int_equal(list.libraries[0].image.nfunctions, 8);
	find_list_free(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_of_maps),
		cmocka_unit_test(names_of_every_kind),
		cmocka_unit_test(deleted_and_replaced_files),
		cmocka_unit_test(another_file_at_the_same_address),
		cmocka_unit_test(processes_that_are_gone),
		cmocka_unit_test(all_processes),
		cmocka_unit_test(caches_are_read),
		cmocka_unit_test(damaged_caches_are_survived),
		cmocka_unit_test(the_hosts_cache_agrees_with_ldconfig),
		cmocka_unit_test(names_that_look_like_cuda),
		cmocka_unit_test(library_path_is_searched),
		cmocka_unit_test(globs_and_plain_paths),
		cmocka_unit_test(hosts_list),
		cmocka_unit_test(unopened_files_get_another_chance),
	};

	return cmocka_run_group_tests_name("find: files", tests, build_setup, build_teardown);
}
