/* Chunks and queues: order, references, limits, exact overflow, bounded memory. */
#include "test_sinks.h"

#include "../../sinks/account.h"
#include "../../sinks/queue.h"

static struct chunk_pool pool;

static int setup(void **state)
{
	chunk_pool_init(&pool, UINT32_MAX);
	return 0;
}

static int teardown(void **state)
{
	/* Every chunk has come back. */
	assert_int_equal(pool.nchunks, pool.nempty);
	chunk_pool_destroy(&pool);
	return 0;
}

static void append(struct chunk *chunk, uint64_t seq, size_t len)
{
	struct line_meta meta = {.seq = seq};

	assert_true(chunk_fits(chunk, len));
	make_line(chunk_end(chunk), seq, len);
	chunk_append(chunk, len, &meta);
}

static void test_pool_reuses(void **state)
{
	struct chunk *a = chunk_get(&pool), *b;

	append(a, 1, 100);
	chunk_ref(a);
	chunk_unref(a);
	assert_int_equal(a->nlines, 1);
	chunk_unref(a);
	b = chunk_get(&pool);
	assert_ptr_equal(a, b);
	assert_int_equal(b->nlines, 0);
	assert_int_equal(b->used, 0);
	assert_int_equal(pool.nchunks, 1);
	chunk_unref(b);
	chunk_unref(NULL);
}

static void test_pool_bounds(void **state)
{
	struct chunk *chunks[CHUNK_POOL_KEEP + 8];
	const size_t n = sizeof(chunks) / sizeof(chunks[0]);

	pool.max = (unsigned)n;
	for (size_t i = 0; i < n; i++)
		assert_non_null(chunks[i] = chunk_get(&pool));
	assert_null(chunk_get(&pool));
	for (size_t i = 0; i < n; i++)
		chunk_unref(chunks[i]);
	assert_int_equal(pool.nempty, CHUNK_POOL_KEEP);
	assert_int_equal(pool.nchunks, CHUNK_POOL_KEEP);
}

static void test_lines_within(void **state)
{
	struct chunk *chunk = chunk_get(&pool);

	for (uint64_t i = 0; i < 10; i++)
		append(chunk, i, 100);
	assert_int_equal(lines_within(chunk->lines, 10, 0), 0);
	assert_int_equal(lines_within(chunk->lines, 10, 99), 0);
	assert_int_equal(lines_within(chunk->lines, 10, 100), 1);
	assert_int_equal(lines_within(chunk->lines, 10, 999), 9);
	assert_int_equal(lines_within(chunk->lines, 10, 1000), 10);
	assert_int_equal(lines_within(chunk->lines, 10, UINT64_MAX), 10);
	assert_int_equal(lines_within(chunk->lines, 0, UINT64_MAX), 0);
	chunk_unref(chunk);
}

/* Take up to @max lines from the queue, check that their seqs go on from *@next. */
static size_t take(struct queue *queue, size_t max, uint64_t max_bytes, uint64_t *next)
{
	struct line room[256];
	const struct line *lines;
	size_t n = queue_peek(queue, room, max < 256 ? max : 256, max_bytes, &lines);
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		char expected[64];

		snprintf(expected, sizeof(expected), "{\"seq\":%" PRIu64 ",", *next);
		assert_int_equal(lines[i].meta.seq, *next);
		assert_memory_equal(lines[i].data, expected, strlen(expected));
		assert_int_equal(lines[i].data[lines[i].len - 1], '\n');
		bytes += lines[i].len;
		++*next;
	}
	assert_true(n <= 1 || bytes <= max_bytes);
	queue_consume(queue, n);
	return n;
}

static void test_order_over_chunks(void **state)
{
	struct queue queue;
	uint64_t seq = 1, next = 1;

	queue_init(&queue, 100000, 64 << 20, &pool);
	for (int c = 0; c < 20; c++) {
		struct chunk *chunk = chunk_get(&pool);

		while (chunk_fits(chunk, 400)) {
			uint32_t first = chunk->nlines;
			size_t n = 1 + seq % 7;

			for (; n && chunk_fits(chunk, 400); n--) {
				append(chunk, seq, 100 + (seq * 37) % 300);
				seq++;
			}
			assert_int_equal(queue_push(&queue, chunk, first, chunk->nlines - first),
					 chunk->nlines - first);
			if (seq % 3 == 0)
				take(&queue, 5, 1000, &next);
		}
		chunk_unref(chunk);
	}
	assert_int_equal(queue.events, seq - next);
	while (take(&queue, 200, 70000, &next))
		;
	assert_int_equal(next, seq);
	assert_int_equal(queue.events, 0);
	assert_int_equal(queue.bytes, 0);
	assert_int_equal(queue.pinned, 0);
	queue_destroy(&queue);
}

static void test_contiguous_runs_merge(void **state)
{
	struct queue queue;
	struct chunk *chunk = chunk_get(&pool);
	uint64_t next = 0;

	queue_init(&queue, 1000, 1 << 20, &pool);
	for (uint64_t i = 0; i < 100; i++) {
		append(chunk, i, 100);
		assert_int_equal(queue_push(&queue, chunk, (uint32_t)i, 1), 1);
	}
	assert_int_equal(queue.nruns, 1);
	assert_int_equal(atomic_load(&chunk->refs), 2);
	assert_int_equal(queue.pinned, sizeof(*chunk));
	chunk_unref(chunk);
	/* the writer has let go, the queue still holds it */
	assert_int_equal(take(&queue, 200, UINT64_MAX, &next), 100);
	queue_destroy(&queue);
}

static void test_overflow_by_events(void **state)
{
	struct queue queue;
	struct chunk *chunk = chunk_get(&pool);
	uint64_t next = 0;

	queue_init(&queue, 30, 1 << 20, &pool);
	for (uint64_t i = 0; i < 100; i++)
		append(chunk, i, 100);
	assert_int_equal(queue_push(&queue, chunk, 0, 25), 25);
	assert_int_equal(queue_push(&queue, chunk, 25, 75), 5);
	assert_int_equal(queue_push(&queue, chunk, 30, 70), 0);
	assert_int_equal(take(&queue, 10, UINT64_MAX, &next), 10);
	assert_int_equal(queue_push(&queue, chunk, 30, 70), 10);
	while (take(&queue, 7, UINT64_MAX, &next))
		;
	assert_int_equal(next, 40);
	chunk_unref(chunk);
	queue_destroy(&queue);
}

static void test_overflow_by_bytes(void **state)
{
	struct queue queue;
	struct chunk *chunk = chunk_get(&pool);
	uint64_t next = 0;

	queue_init(&queue, 1000, 1000, &pool);
	for (uint64_t i = 0; i < 20; i++)
		append(chunk, i, i == 19 ? 5000 : 150);
	assert_int_equal(queue_push(&queue, chunk, 0, 20), 6);
	assert_int_equal(queue.bytes, 900);
	assert_int_equal(queue_push(&queue, chunk, 6, 1), 0);
	while (take(&queue, 100, UINT64_MAX, &next))
		;
	/* An empty queue takes any one line, or a small one would never take a long line. */
	assert_int_equal(queue_push(&queue, chunk, 19, 1), 1);
	assert_int_equal(queue_push(&queue, chunk, 6, 1), 0);
	chunk_unref(chunk);
	queue_destroy(&queue);
}

/* One line in 200 is wanted: without packing each would pin its own chunk. */
static void test_sparse_sink_is_bounded(void **state)
{
	struct queue queue;
	const uint64_t max_bytes = 1 << 20;
	uint64_t seq = 1, accepted = 0, next, pinned = 0;
	struct line room[64];
	const struct line *lines;

	queue_init(&queue, 1000000, max_bytes, &pool);
	for (int c = 0; c < 400; c++) {
		struct chunk *chunk = chunk_get(&pool);

		while (chunk_fits(chunk, 400)) {
			append(chunk, seq++, 400);
			if (seq % 200 == 0)
				accepted += queue_push(&queue, chunk, chunk->nlines - 1, 1);
			pinned = queue.pinned > pinned ? queue.pinned : pinned;
		}
		chunk_unref(chunk);
	}
	assert_int_equal(queue.events, accepted);
	assert_int_equal(accepted, seq / 200); /* none was refused */
	assert_true(accepted > 1000);
	assert_true(pinned <= 2 * max_bytes + QUEUE_SLACK);
	/* packed, not just refused: a few chunks hold what 400 held */
	assert_true(pool.nchunks - pool.nempty < 20);
	for (next = 199; queue.events; next += 200) {
		assert_int_equal(queue_peek(&queue, room, 1, 1, &lines), 1);
		assert_int_equal(lines[0].meta.seq, next);
		queue_consume(&queue, 1);
	}
	assert_int_equal(queue.pinned, 0);
	queue_destroy(&queue);
}

/* Whatever comes, dense or sparse, the queue pins no more than it says, and keeps order. */
static void test_random_runs_are_bounded(void **state)
{
	struct queue queue;
	const uint64_t max_bytes = 2 << 20;
	uint64_t seq = 1, last = 0, in = 0, out = 0;
	struct line room[64];
	unsigned rand = 12345;

	queue_init(&queue, 20000, max_bytes, &pool);
	for (int c = 0; c < 600; c++) {
		struct chunk *chunk = chunk_get(&pool);
		unsigned density = 1 + (c / 50) % 2 * 299; /* phases: all lines, or one in 300 */

		while (chunk_fits(chunk, 1200)) {
			append(chunk, seq++, 60 + rand_r(&rand) % 1100);
			if (rand_r(&rand) % density == 0)
				in += queue_push(&queue, chunk, chunk->nlines - 1, 1);
			assert_true(queue.pinned <= 2 * max_bytes + QUEUE_SLACK);
			assert_true(queue.bytes <= max_bytes);
			if (rand_r(&rand) % (density * 2) == 0) {
				const struct line *lines;
				size_t n = queue_peek(&queue, room, 1 + rand_r(&rand) % 3, 4096, &lines);

				for (size_t i = 0; i < n; i++) {
					assert_true(lines[i].meta.seq > last);
					last = lines[i].meta.seq;
				}
				out += n;
				queue_consume(&queue, n);
			}
		}
		chunk_unref(chunk);
	}
	assert_int_equal(queue.events, in - out);
	assert_true(out > 10000);
	queue_destroy(&queue);
}

/* Without memory for a packed copy the line is refused, nothing breaks. */
static void test_no_memory(void **state)
{
	struct queue queue;
	size_t refused = 0;

	queue_init(&queue, 1000000, 1 << 20, &pool);
	pool.max = 9;
	for (int c = 0; c < 20; c++) {
		struct chunk *chunk = chunk_get(&pool);

		if (!chunk) {
			refused++;
			continue;
		}
		append(chunk, (uint64_t)c + 1, 100);
		refused += 1 - queue_push(&queue, chunk, 0, 1);
		chunk_unref(chunk);
	}
	assert_int_equal(queue.events + refused, 20);
	assert_true(refused > 0);
	queue_destroy(&queue);
}

static void test_losses(void **state)
{
	struct losses losses = {0};
	struct sink_loss loss;

	assert_false(losses_any(&losses));
	assert_false(losses_take(&losses, &loss));
	losses_add(&losses, SINK_DISK_FULL, 3, 10, 12);
	losses_add(&losses, SINK_DISK_FULL, 0, 1, 99);
	losses_add(&losses, SINK_QUEUE_FULL, 2, 40, 50);
	losses_add(&losses, SINK_DISK_FULL, 1, 5, 5);
	losses_add(&losses, SINK_DISK_FULL, 1, 0, 0); /* an event without seq */
	assert_true(losses_any(&losses));
	assert_true(losses_take(&losses, &loss));
	assert_int_equal(loss.reason, SINK_QUEUE_FULL);
	losses_add(&losses, SINK_QUEUE_FULL, 1, 60, 60); /* must not starve the others */
	assert_true(losses_take(&losses, &loss));
	assert_int_equal(loss.reason, SINK_DISK_FULL);
	assert_int_equal(loss.count, 5);
	assert_int_equal(loss.seq_first, 5);
	assert_int_equal(loss.seq_last, 12);
	assert_true(losses_take(&losses, &loss));
	assert_int_equal(loss.seq_first, 60);
	assert_false(losses_any(&losses));
}

static void test_every_reason_has_a_name(void **state)
{
	for (int i = 0; i < SINK_NREASONS; i++)
		assert_non_null(sink_reason_names[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_pool_reuses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pool_bounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lines_within, setup, teardown),
		cmocka_unit_test_setup_teardown(test_order_over_chunks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_contiguous_runs_merge, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overflow_by_events, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overflow_by_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sparse_sink_is_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_random_runs_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_every_reason_has_a_name),
	};

	return cmocka_run_group_tests_name("sinks/queue", tests, NULL, NULL);
}
