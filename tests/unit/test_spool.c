/* The spool: in and out, restarts, room, locks. */
#include "test_spool.h"

#include "../../sinks/crc32c.h"

static struct chunk_pool pool;

static int set_up(void **state)
{
	chunk_pool_init(&pool, UINT32_MAX);
	return 0;
}

/* Every chunk has come back. */
static int tear_down(void **state)
{
	assert_int_equal(pool.nchunks, pool.nempty);
	chunk_pool_destroy(&pool);
	return 0;
}

/* RFC 3720, B.4; and both ways of computing it. */
static void test_crc(void **state)
{
	unsigned char data[300];

	memset(data, 0, 32);
	assert_int_equal(crc32c(0, data, 32), 0x8a9136aa);
	memset(data, 0xff, 32);
	assert_int_equal(crc32c(0, data, 32), 0x62a8ab43);
	for (int i = 0; i < 32; i++)
		data[i] = (unsigned char)i;
	assert_int_equal(crc32c(0, data, 32), 0x46dd794e);
	srand(5);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)rand();
	for (size_t n = 0; n < sizeof(data); n++) {
		assert_int_equal(crc32c(0, data, n), crc32c_portable(0, data, n));
		assert_int_equal(crc32c(crc32c(0, data, n / 3), data + n / 3, n - n / 3), crc32c(0, data, n));
	}
}

static void test_in_and_out(void **state)
{
	char path[64], last_name[NAME_MAX + 1];
	struct spool *s = open_spool(new_spool(path), 64 << 20, &pool, &run_a);
	uint64_t last = 0, bytes, seq = 1;

	assert_int_equal(spool_recovered(s), 0);
	assert_true(spool_empty(s));
	for (unsigned i = 0; i < 300; i++) {
		size_t n = 1 + i * 7 % 400;

		must_append(s, seq, n);
		seq += n;
		/* sometimes as fast as they come, sometimes not */
		if (i % 50 < 25)
			drain(s, UINT64_MAX, &last);
		else
			drain(s, n / 2, &last);
	}
	drain(s, UINT64_MAX, &last);
	assert_int_equal(last, seq - 1);
	assert_true(spool_empty(s));
	assert_int_equal(spool_taken(s), 0);
	spool_close(s);
	assert_int_equal(count_segments(path, last_name, &bytes), 0);
	remove_spool(path);
}

/* All of @n, in order, from disk and from memory. */
static void check_backlog(size_t n, bool restart)
{
	const struct sink_origin *origin;
	char path[64], name[NAME_MAX + 1];
	struct spool *s = open_spool(new_spool(path), 256 << 20, &pool, &run_a);
	const struct line *lines;
	uint64_t last = 0, bytes;

	for (size_t i = 0; i < n; i += 1000)
		must_append(s, 1 + i, 1000);
	assert_true(count_segments(path, name, &bytes) > 1);
	if (restart) {
		spool_close(s);
		s = open_spool(path, 256 << 20, &pool, &run_b);
		assert_int_equal(spool_recovered(s), n);
	}
	assert_true(spool_peek(s, &lines, &origin) > 0);
	assert_string_equal(origin->run, run_a.run);
	assert_string_equal(origin->host, run_a.host);
	must_append(s, n + 1, 10);
	assert_int_equal(drain(s, n, &last), n);
	assert_int_equal(last, n);
	assert_true(spool_peek(s, &lines, &origin) > 0);
	assert_ptr_equal(origin, restart ? &run_b : &run_a);
	assert_int_equal(drain(s, UINT64_MAX, &last), 10);
	assert_int_equal(last, n + 10);
	assert_int_equal(count_segments(path, name, &bytes), 1);
	spool_close(s);
	s = open_spool(path, 256 << 20, &pool, &run_b);
	assert_int_equal(spool_recovered(s), 0);
	must_append(s, 5, 1);
	assert_int_equal(drain(s, UINT64_MAX, &last), 1);
	spool_close(s);
	remove_spool(path);
}

static void test_backlog(void **state)
{
	check_backlog(50000, false);
}

static void test_restart(void **state)
{
	check_backlog(50000, true);
}

/* Restarted at every point: what was released does not come again, everything else does. */
static void test_restarts(void **state)
{
	char path[64];
	uint64_t last = 0, expected = 0, seq = 1;

	new_spool(path);
	for (int i = 0; i < 60; i++) {
		struct spool *s = open_spool(path, 64 << 20, &pool, &run_a);

		assert_int_equal(spool_recovered(s), seq - 1 - expected);
		must_append(s, seq, (size_t)(i % 7) * 150);
		seq += (uint64_t)(i % 7) * 150;
		expected += drain(s, (uint64_t)(i % 5) * 111, &last);
		assert_int_equal(last, expected);
		spool_close(s);
	}
	remove_spool(path);
}

static void test_out_of_order(void **state)
{
	char path[64];
	struct spool *s = open_spool(new_spool(path), 64 << 20, &pool, &run_a);
	static struct line_meta taken[30000];
	bool released[30001] = {0};
	const struct sink_origin *origin;
	const struct line *lines;
	size_t n = 0, count, back = 0;
	unsigned seed = 3;

	must_append(s, 1, 30000);
	while ((count = spool_peek(s, &lines, &origin))) {
		for (size_t i = 0; i < count; i++)
			taken[n++] = lines[i].meta;
		spool_take(s, count);
	}
	assert_int_equal(n, 30000);
	assert_int_equal(spool_taken(s), 30000);
	/* any order, and some come back */
	for (size_t i = n - 1; i > 0; i--) {
		size_t j = (size_t)rand_r(&seed) % (i + 1);
		struct line_meta meta = taken[i];

		taken[i] = taken[j];
		taken[j] = meta;
	}
	for (size_t i = 0; i < n; i++) {
		if (rand_r(&seed) % 3 == 0) {
			spool_give_back(s, &taken[i]);
			back++;
		} else {
			released[taken[i].seq] = true;
			spool_release(s, taken[i].spool);
		}
	}
	assert_int_equal(spool_taken(s), 0);
	must_append(s, 30001, 5);
	spool_rewind(s);
	for (uint64_t seq = 1; seq <= 30000; seq++) {
		if (released[seq])
			continue;
		assert_true(spool_peek(s, &lines, &origin) > 0);
		assert_int_equal(lines[0].meta.seq, seq);
		assert_true(is_seq_line(&lines[0]));
		spool_take(s, 1);
		spool_release(s, lines[0].meta.spool);
		back--;
	}
	assert_int_equal(back, 0);
	assert_true(spool_peek(s, &lines, &origin) > 0);
	assert_int_equal(lines[0].meta.seq, 30001);
	spool_close(s);
	remove_spool(path);
}

/* @pinned: the first lines are being written all the while. */
static void check_full(bool pinned)
{
	char path[64], name[NAME_MAX + 1];
	struct spool *s = open_spool(new_spool(path), 2 << 20, &pool, &run_a);
	struct spool_loss full, corrupt;
	const struct sink_origin *origin;
	const struct line *lines;
	uint64_t bytes, lost = 0, last = 0, looked = pinned ? 50 : 0, next = 1 + looked;

	for (uint64_t seq = 1; seq < 20000; seq += 50) {
		must_append(s, seq, 50);
		if (seq == 1 && pinned) {
			assert_int_equal(spool_peek(s, &lines, &origin), looked);
			spool_pin(s, true);
		}
		count_segments(path, name, &bytes);
		assert_true(bytes <= 2 << 20);
		if (!spool_losses(s, &full, &corrupt))
			continue;
		if (pinned && !lost)
			next = full.seq_first; /* behind those that came into memory with them */
		assert_int_equal(corrupt.n, 0);
		assert_int_equal(full.seq_first, next);
		assert_int_equal(full.seq_last, next + full.n - 1);
		next += full.n;
		lost += full.n;
	}
	looked = next - lost - 1;
	assert_true(lost > 10000 && bytes > (2 << 20) * 9 / 10);
	assert_true(pinned ? looked >= 50 && looked <= CHUNK_LINES : looked == 0);
	assert_int_equal(drain(s, looked, &last), looked);
	assert_int_equal(last, looked);
	assert_int_equal(drain(s, 100, &last), 100);
	spool_end(s);
	spool_close(s);
	s = open_spool(path, 2 << 20, &pool, &run_b);
	assert_int_equal(spool_recovered(s), 20000 - lost - looked - 100);
	assert_int_equal(drain(s, UINT64_MAX, &last), 20000 - lost - looked - 100);
	assert_int_equal(last, 20000);
	spool_close(s);
	remove_spool(path);
}

static void test_full(void **state)
{
	check_full(false);
	check_full(true);
}

/* Lines in somebody's hands are delivered or come back as lost when their segment has gone. */
static void test_full_in_hand(void **state)
{
	char path[64];
	struct spool *s = open_spool(new_spool(path), 1 << 20, &pool, &run_a);
	struct spool_loss full, corrupt;
	const struct sink_origin *origin;
	const struct line *lines;
	struct line_meta taken[100];
	uint64_t lost = 0, left, last = 0;

	must_append(s, 1, 200);
	assert_true(spool_peek(s, &lines, &origin) >= 100);
	for (int i = 0; i < 100; i++)
		taken[i] = lines[i].meta;
	spool_take(s, 100);
	must_append(s, 201, 9800);
	assert_true(spool_losses(s, &full, &corrupt));
	lost = full.n;
	for (int i = 0; i < 60; i++)
		spool_release(s, taken[i].spool);
	assert_false(spool_losses(s, &full, &corrupt));
	for (int i = 60; i < 100; i++)
		spool_give_back(s, &taken[i]);
	spool_rewind(s);
	assert_true(spool_losses(s, &full, &corrupt));
	assert_true(full.n >= 40 && full.seq_first == 61);
	lost += full.n;
	left = drain(s, UINT64_MAX, &last);
	assert_int_equal(60 + lost + left, 10000);
	assert_int_equal(last, 10000);
	spool_close(s);
	remove_spool(path);
}

static void test_lock(void **state)
{
	char path[64], error[512];
	struct spool *s = open_spool(new_spool(path), 1 << 20, &pool, &run_a), *other = NULL;
	char wanted[32];

	assert_int_equal(spool_open(path, 1 << 20, &pool, &run_a, &other, error, sizeof(error)), -EBUSY);
	snprintf(wanted, sizeof(wanted), "by process %d:", (int)getpid());
	assert_non_null(strstr(error, wanted));
	assert_non_null(strstr(error, path));
	spool_close(s);
	s = open_spool(path, 1 << 20, &pool, &run_a);
	spool_close(s);
	remove_spool(path);
}

static void test_directories(void **state)
{
	char base[64], path[128], error[512];
	struct spool *s = NULL;
	struct stat st;

	new_spool(base);
	snprintf(path, sizeof(path), "%s/a/b", base);
	s = open_spool(path, 1 << 20, &pool, NULL);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	spool_close(s);
	remove_spool(path);
	snprintf(path, sizeof(path), "%s/a", base);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/file", base);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(spool_open(path, 1 << 20, &pool, NULL, &s, error, sizeof(error)), -ENOTDIR);
	assert_non_null(strstr(error, "Not a directory"));
	unlink(path);
	rmdir(base);
}

/* Files of a running spool that others delete: their lines are counted. */
static void test_deleted_segment(void **state)
{
	char path[64], name[NAME_MAX + 1], file[400];
	struct spool *s = open_spool(new_spool(path), 64 << 20, &pool, &run_a);
	struct spool_loss full, corrupt;
	uint64_t bytes, last = 0, n;

	must_append(s, 1, 30000);
	assert_true(count_segments(path, name, &bytes) > 2);
	snprintf(file, sizeof(file), "%s/%s", path, "0000000000000001.seg");
	assert_int_equal(unlink(file), 0);
	spool_close(s);
	s = open_spool(path, 64 << 20, &pool, &run_a);
	n = spool_recovered(s);
	assert_int_equal(n, 30000);
	n = drain(s, UINT64_MAX, &last);
	assert_true(spool_losses(s, &full, &corrupt));
	assert_int_equal(n + corrupt.n, 30000);
	assert_true(corrupt.n > 5000);
	assert_int_equal(last, 30000);
	spool_close(s);
	remove_spool(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crc),
		cmocka_unit_test_setup_teardown(test_in_and_out, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_backlog, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_restart, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_restarts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_out_of_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_full, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_full_in_hand, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_lock, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_directories, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_deleted_segment, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("spool", tests, NULL, NULL);
}
