/* The spool after what may happen to it: writers killed at any moment, files cut and flipped anywhere. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "test_spool.h"

#define KILLS    100
#define HURTS    2000
#define MAX_SEQS 2000000

/* ---- kill -9 ---- */

/* Shared with the writer: what it knows at the moment of its death. */
struct shared {
	_Atomic uint64_t accepted;           /* seqs from 1 to this are in the spool */
	_Atomic uint64_t lost;               /* for want of room */
	_Atomic unsigned char got[MAX_SEQS]; /* a reader has seen that seq; never twice by one process */
};

static void read_some(struct spool *spool, struct shared *shared, uint64_t max)
{
	const struct sink_origin *origin;
	const struct line *lines;
	size_t n = spool_peek(spool, &lines, &origin);

	n = n < max ? n : max;
	for (size_t i = 0; i < n; i++) {
		if (!is_seq_line(&lines[i]))
			abort();
		shared->got[lines[i].meta.seq]++;
	}
	if (!n)
		return;
	spool_take(spool, n);
	for (size_t i = 0; i < n; i++)
		spool_release(spool, lines[i].meta.spool);
}

/* Appends and reads for ever, from the seq behind the last accepted one. */
static void writer(const char *path, struct shared *shared, unsigned seed)
{
	struct chunk_pool pool;
	struct spool *spool;
	char error[512];

	chunk_pool_init(&pool, UINT32_MAX);
	if (spool_open(path, 1ull << 30, &pool, &run_a, &spool, error, sizeof(error)))
		_exit(3);
	for (;;) {
		uint64_t first = shared->accepted + 1;
		size_t n = (size_t)rand_r(&seed) % 200 + 1;
		int failed;

		n = append_seqs(spool, first, n, &failed);
		shared->accepted = first + n - 1;
		if (failed || first > MAX_SEQS - 1000)
			_exit(4);
		if (rand_r(&seed) % 2)
			read_some(spool, shared, (uint64_t)rand_r(&seed) % 300);
		spool_save(spool, now_ns());
	}
}

/* The death comes in the middle of a record as well: the rest of it does not count as accepted. */
static void test_kill(void **state)
{
	struct shared *shared =
		mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char path[64];
	unsigned seed = 11, repeats = 0;
	struct chunk_pool pool;
	struct spool_loss full, corrupt;
	struct spool *spool;

	assert_true(shared != MAP_FAILED);
	chunk_pool_init(&pool, UINT32_MAX);
	new_spool(path);
	for (int i = 0; i < KILLS; i++) {
		pid_t pid = fork();
		int status;

		assert_true(pid >= 0);
		if (!pid)
			writer(path, shared, seed + (unsigned)i);
		usleep((unsigned)rand_r(&seed) % 12000);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		/* What it may have written beyond what it knew: those seqs are written again. */
		if (i % 10 != 9)
			continue;
		spool = open_spool(path, 1ull << 30, &pool, &run_b);
		while (!spool_empty(spool))
			read_some(spool, shared, UINT64_MAX);
		spool_losses(spool, &full, &corrupt);
		assert_int_equal(full.n, 0);
		assert_true(corrupt.n <= 10); /* torn records: one for each death since the last look */
		for (uint64_t seq = 1; seq <= shared->accepted; seq++)
			assert_true(shared->got[seq] > 0);
		spool_close(spool);
	}
	for (uint64_t seq = 1; seq <= shared->accepted; seq++)
		repeats += shared->got[seq] > 1;
	assert_true(shared->accepted > 10000);
	print_message("%d deaths, %" PRIu64 " lines accepted, all read, %u of them more than once\n", KILLS,
		      shared->accepted, repeats);
	chunk_pool_destroy(&pool);
	munmap(shared, sizeof(*shared));
	remove_spool(path);
}

/* ---- cut and flipped ---- */

struct spool_file {
	char name[64];
	char *data;
	size_t len;
};

static size_t load_files(const char *path, struct spool_file *files, size_t max)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	size_t n = 0;

	while ((entry = readdir(dir))) {
		struct spool_file *f = &files[n];
		struct stat st;
		int fd;

		if (*entry->d_name == '.' || !strcmp(entry->d_name, "lock"))
			continue;
		assert_true(n++ < max);
		snprintf(f->name, sizeof(f->name), "%.60s", entry->d_name);
		fd = openat(dirfd(dir), f->name, O_RDONLY);
		fstat(fd, &st);
		f->len = (size_t)st.st_size;
		f->data = malloc(f->len);
		assert_int_equal(read(fd, f->data, f->len), f->len);
		close(fd);
	}
	closedir(dir);
	return n;
}

static void store_file(const char *path, const struct spool_file *f, const char *data, size_t len)
{
	char name[200];
	int fd;

	snprintf(name, sizeof(name), "%s/%s", path, f->name);
	fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0600);
	assert_int_equal(write(fd, data, len), len);
	close(fd);
}

/* One or several harms to one file: flipped bits, a run of other bytes, cut, a piece cut out, gone. */
static void hurt_file(const char *path, const struct spool_file *f, unsigned *seed)
{
	char *data = malloc(f->len + 1), name[200];
	size_t len = f->len;

	memcpy(data, f->data, len);
	for (unsigned i = 1 + (unsigned)rand_r(seed) % 3; i && len; i--) {
		size_t at = (size_t)rand_r(seed) % len, n = (size_t)rand_r(seed) % 600;

		n = n < len - at ? n : len - at;
		switch (rand_r(seed) % 6) {
		case 0:
			len = at;
			break;
		case 1:
			memmove(data + at, data + at + n, len - at - n);
			len -= n;
			break;
		case 2:
			for (size_t j = 0; j < n; j++)
				data[at + j] = (char)rand_r(seed);
			break;
		case 3:
			memset(data + at, 0, n);
			break;
		default:
			data[at] ^= (char)(1 << rand_r(seed) % 8);
		}
	}
	store_file(path, f, data, len);
	if (rand_r(seed) % 20 == 0) {
		snprintf(name, sizeof(name), "%s/%s", path, f->name);
		unlink(name);
	}
	free(data);
}

/* Whole and right lines only, each once and in order, and the others counted. */
static void check_hurt(const char *path, struct chunk_pool *pool, uint64_t n, bool exact)
{
	struct spool *spool = open_spool(path, 64 << 20, pool, &run_b);
	uint64_t recovered = spool_recovered(spool), last = 0, read;
	struct spool_loss full, corrupt;

	/* new lines go in behind, whatever there is */
	must_append(spool, 100001, 3);
	read = drain(spool, UINT64_MAX, &last);
	assert_int_equal(last, 100003);
	spool_losses(spool, &full, &corrupt);
	assert_int_equal(full.n, 0);
	assert_int_equal(recovered + 3, read + corrupt.n);
	if (exact)
		assert_int_equal(recovered, n);
	assert_true(recovered <= n);
	spool_close(spool);
}

static void test_hurt(void **state)
{
	struct spool_file files[16];
	unsigned seed = 17, exact = 0;
	struct chunk_pool pool;
	struct spool *spool;
	char path[64];
	uint64_t last = 0;
	size_t nfiles;

	chunk_pool_init(&pool, UINT32_MAX);
	spool = open_spool(new_spool(path), 1 << 20, &pool, &run_a);
	must_append(spool, 1, 500);
	assert_int_equal(drain(spool, 50, &last), 50);
	spool_close(spool);
	nfiles = load_files(path, files, 16);
	assert_true(nfiles > 3);
	for (int i = 0; i < HURTS; i++) {
		size_t which = (size_t)rand_r(&seed) % nfiles;
		bool state_hurt = false;

		remove_spool(path);
		mkdir(path, 0700);
		for (size_t j = 0; j < nfiles; j++)
			store_file(path, &files[j], files[j].data, files[j].len);
		for (unsigned j = (unsigned)rand_r(&seed) % 2 + 1; j; j--, which = (which + 1) % nfiles) {
			hurt_file(path, &files[which], &seed);
			state_hurt |= !strcmp(files[which].name, "state");
		}
		exact += !state_hurt;
		check_hurt(path, &pool, state_hurt ? 500 : 450, !state_hurt);
	}
	assert_true(exact > HURTS / 2);
	print_message("%d spools hurt, %u with their state whole: each lost line was counted\n", HURTS,
		      exact);
	while (nfiles)
		free(files[--nfiles].data);
	assert_int_equal(pool.nchunks, pool.nempty);
	chunk_pool_destroy(&pool);
	remove_spool(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kill),
		cmocka_unit_test(test_hurt),
	};

	return cmocka_run_group_tests_name("spool/hurt", tests, NULL, NULL);
}
