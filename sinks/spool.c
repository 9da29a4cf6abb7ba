/* The spool: lines in at one end, out in order at the other, done with in any order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spool_internal.h"

#define ID_BITS 0x7fffffffu
#define ID_MARK 0x80000000u /* no id is 0 */

static uint32_t id_of(uint64_t number)
{
	return (uint32_t)(number & ID_BITS) | ID_MARK;
}

/* Lines in hand are the last 2^31 that were read. */
static uint64_t number_of(const struct spool *spool, uint32_t id)
{
	uint64_t last = (spool->high > spool->next ? spool->high : spool->next) - 1;

	return last - ((last - id) & ID_BITS);
}

uint64_t spool_recovered(const struct spool *spool)
{
	return spool->recovered;
}

bool spool_empty(const struct spool *spool)
{
	return spool->next == spool->end && (!spool->batch || spool->at == spool->batch->nlines);
}

uint64_t spool_taken(const struct spool *spool)
{
	return atomic_load_explicit(&spool->taken, memory_order_relaxed);
}

bool spool_losses(struct spool *spool, struct spool_loss *ret_full, struct spool_loss *ret_corrupt)
{
	*ret_full = spool->full;
	*ret_corrupt = spool->corrupt;
	spool->full = spool->corrupt = (struct spool_loss){0};
	return ret_full->n || ret_corrupt->n;
}

void spool_save(struct spool *spool, uint64_t now_ns)
{
	uint64_t released = spool->nsegments ? spool->segments[0]->passed : spool->end;
	struct spool_state state;

	if (now_ns && now_ns - spool->saved_ns < SPOOL_SAVE_NS)
		return;
	spool_state_make(&state, released, spool->end);
	if (released == spool->saved.released && spool->end == spool->saved.end)
		return;
	spool->saved_ns = now_ns;
	/* On failure more lines come twice after a restart than need be. */
	if (pwrite(spool->state, &state, sizeof(state), 0) == sizeof(state))
		spool->saved = state;
}

/* ---- the batch ---- */

static bool batch_used_up(const struct spool *spool)
{
	return !spool->batch || spool->at == spool->batch->nlines;
}

static void batch_forget(struct spool *spool)
{
	chunk_unref(spool->batch);
	spool->batch = NULL;
	spool->at = 0;
}

/* Room in the batch for one more line of the same origin. */
static bool batch_room(struct spool *spool, size_t len, bool foreign)
{
	if (spool->batch && batch_used_up(spool) &&
	    (spool->batch_foreign != foreign || !chunk_fits(spool->batch, len)))
		batch_forget(spool);
	if (!spool->batch) {
		spool->batch = chunk_get(spool->pool);
		spool->batch_foreign = foreign;
	}
	return spool->batch && spool->batch_foreign == foreign && chunk_fits(spool->batch, len);
}

static void batch_add(struct spool *spool, struct segment *segment, const char *data, size_t len,
		      const struct line_meta *meta, uint64_t number)
{
	struct line_meta marked = *meta;

	marked.spool = id_of(number);
	memcpy(chunk_end(spool->batch), data, len);
	chunk_append(spool->batch, len, &marked);
	segment->out++;
	segment->seq_read = meta->seq;
	spool->next = number + 1;
}

/* ---- appending ---- */

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Lines of the batch that go with their segment. Returns the seq of the first, or 0. */
static uint64_t drop_looked_at(struct spool *spool, struct segment *segment)
{
	uint64_t seq = batch_used_up(spool) ? 0 : spool->batch->lines[spool->at].meta.seq, dropped = 0;

	for (; !batch_used_up(spool); spool->at++, dropped++) {
		uint64_t number = number_of(spool, spool->batch->lines[spool->at].meta.spool);

		if (number < segment->first || number >= segment->end)
			break;
	}
	segment->out -= dropped;
	return dropped ? seq : 0;
}

/* The first segment goes with all that is in it; what somebody has in hand may still be delivered. */
static void drop_oldest(struct spool *spool)
{
	struct segment *segment = spool->segments[0];
	uint64_t first = spool->pinned ? 0 : drop_looked_at(spool, segment);

	if (!first)
		first = max_u64(segment->seq_first, segment->seq_read + 1);
	first = segment->foreign ? 0 : first;
	spool_lost(&spool->full, segment->left - segment->out, first,
		   segment->foreign ? 0 : segment->seq_last);
	segment_drop_first(spool);
}

static int ready_segment(struct spool *spool, const struct line *line)
{
	const struct segment *segment = spool->current;

	if (segment && (segment->end == segment->first ||
			segment->bytes + SPOOL_RECORD_BYTES(line->len) <= spool->segment_bytes))
		return 0;
	return segment_new(spool);
}

/* As many records as the segment and the stage hold; there is room for one. */
static size_t stage_lines(struct spool *spool, const struct line *lines, size_t n, size_t *ret_bytes)
{
	const struct segment *segment = spool->current;
	size_t bytes = 0, i = 0;

	do {
		bytes += spool_record_write(spool->stage + bytes, &lines[i], spool->end + i);
		i++;
	} while (i < n && bytes < SPOOL_STAGE &&
		 segment->bytes + bytes + SPOOL_RECORD_BYTES(lines[i].len) <= spool->segment_bytes);
	*ret_bytes = bytes;
	return i;
}

static int write_stage(struct spool *spool, size_t bytes)
{
	size_t done = 0;
	int r = 0;

	while (done < bytes && !r) {
		ssize_t n = pwrite(spool->write_fd, spool->stage + done, bytes - done,
				   (off_t)(spool->current->bytes + done));

		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || errno != EINTR)
			r = n ? -errno : -ENOSPC;
	}
	/* What is out of a failed write was not accepted; if it cannot be cut off it is written over. */
	if (r && done && ftruncate(spool->write_fd, (off_t)spool->current->bytes))
		return r;
	return r;
}

/* Lines just written that are next in turn anyway need not be read again. */
static void follow(struct spool *spool, const struct line *lines, size_t n)
{
	struct segment *segment = spool->current;
	uint64_t offset = segment->bytes;
	size_t i = 0;

	for (; i < n && batch_room(spool, lines[i].len, false); i++) {
		batch_add(spool, segment, lines[i].data, lines[i].len, &lines[i].meta, spool->next);
		offset += SPOOL_RECORD_BYTES(lines[i].len);
	}
	if (spool->reading != segment && segment_read_begin(spool, segment))
		return;
	reader_set(&spool->reader, spool->read_fd, offset);
}

static void commit(struct spool *spool, const struct line *lines, size_t n, size_t bytes)
{
	struct segment *segment = spool->current;
	bool next = spool->next == spool->end;

	segment->end += n;
	segment->left += n;
	if (!segment->seq_first)
		segment->seq_first = lines[0].meta.seq;
	segment->seq_last = lines[n - 1].meta.seq;
	if (next)
		follow(spool, lines, n);
	segment->bytes += bytes;
	spool->bytes += bytes;
	spool->end += n;
}

/* A file of which all is delivered is the first to go when the disk is full. */
static bool give_room(struct spool *spool)
{
	const struct segment *segment = spool->current;

	if (segment->left || segment->out || segment->end == segment->first)
		return false;
	segments_trim(spool, true);
	return !spool->current;
}

size_t spool_append(struct spool *spool, const struct line *lines, size_t n, int *ret_error)
{
	size_t done = 0;
	int r = 0;

	while (done < n) {
		size_t bytes, count;

		r = ready_segment(spool, &lines[done]);
		if (r)
			break;
		count = stage_lines(spool, &lines[done], n - done, &bytes);
		while (spool->bytes + bytes > spool->max_bytes && spool->nsegments > 1)
			drop_oldest(spool);
		r = write_stage(spool, bytes);
		if (r && give_room(spool))
			continue;
		if (r)
			break;
		commit(spool, &lines[done], count, bytes);
		done += count;
	}
	*ret_error = r;
	return done;
}

/* ---- reading ---- */

/* Lines of the segment that are not there, or not right. */
static void lose_gap(struct spool *spool, struct segment *segment, uint64_t to)
{
	uint64_t lost = 0;

	for (; spool->next < to; spool->next++)
		lost += segment_done(segment, spool->next);
	spool_lost(&spool->corrupt, lost, 0, 0);
}

/* Some of the segment's lines into the batch; false: the batch takes no more. */
static bool read_segment(struct spool *spool, struct segment *segment)
{
	struct spool_record record;

	while (spool->next < segment->end) {
		if (!reader_next(&spool->reader, segment->bytes, &record)) {
			lose_gap(spool, segment, segment->end);
			break;
		}
		if (record.number < spool->next || record.number >= segment->end)
			continue;
		lose_gap(spool, segment, record.number);
		if (segment_is_done(segment, record.number)) {
			spool->next++;
			continue;
		}
		if (!batch_room(spool, record.len, segment->foreign)) {
			reader_undo(&spool->reader, &record);
			return false;
		}
		if (segment->foreign && !spool->same_table)
			record.meta.row = UINT16_MAX;
		batch_add(spool, segment, record.data, record.len, &record.meta, record.number);
	}
	return true;
}

/* The segment that the next line is in, or NULL. */
static struct segment *next_segment(const struct spool *spool)
{
	size_t low = 0, high = spool->nsegments;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (spool->segments[middle]->end <= spool->next)
			low = middle + 1;
		else
			high = middle;
	}
	return low < spool->nsegments ? spool->segments[low] : NULL;
}

/* Want of memory or descriptors passes; a file that cannot be opened otherwise is lost. */
static bool passes(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -EINTR;
}

static void batch_fill(struct spool *spool)
{
	struct segment *segment;

	while (batch_used_up(spool) && (segment = next_segment(spool))) {
		int r = segment == spool->reading ? 0 : segment_read_begin(spool, segment);

		if (passes(r))
			break;
		if (r) {
			spool->next = max_u64(spool->next, segment->first);
			lose_gap(spool, segment, segment->end);
		} else if (!read_segment(spool, segment)) {
			break;
		}
		segments_trim(spool, false);
	}
}

size_t spool_peek(struct spool *spool, const struct line **ret_lines, const struct sink_origin **ret_origin)
{
	if (batch_used_up(spool) && spool->next < spool->end)
		batch_fill(spool);
	if (batch_used_up(spool))
		return 0;
	*ret_lines = &spool->batch->lines[spool->at];
	*ret_origin = spool->batch_foreign ? &spool->authors[spool->author].origin : spool->own;
	return spool->batch->nlines - spool->at;
}

/* ---- in hand ---- */

void spool_take(struct spool *spool, size_t n)
{
	spool->at += (uint32_t)n;
	atomic_fetch_add_explicit(&spool->taken, n, memory_order_relaxed);
}

void spool_release(struct spool *spool, uint32_t id)
{
	uint64_t number = number_of(spool, id);
	struct segment *segment = segment_find(spool, number);

	atomic_fetch_sub_explicit(&spool->taken, 1, memory_order_relaxed);
	if (!segment)
		return; /* it went when the spool was full */
	segment->out--;
	segment_done(segment, number);
	if (!segment->left)
		segments_trim(spool, false);
}

void spool_give_back(struct spool *spool, const struct line_meta *meta)
{
	uint64_t number = number_of(spool, meta->spool), seq = number < spool->own_first ? 0 : meta->seq;
	struct segment *segment = segment_find(spool, number);

	atomic_fetch_sub_explicit(&spool->taken, 1, memory_order_relaxed);
	if (segment)
		segment->out--;
	else
		spool_lost(&spool->full, 1, seq, seq);
}

void spool_pin(struct spool *spool, bool pinned)
{
	spool->pinned = pinned;
}

void spool_end(struct spool *spool)
{
	uint64_t taken = 0;

	spool_rewind(spool);
	for (size_t i = 0; i < spool->nsegments; i++)
		taken += spool->segments[i]->out;
	atomic_store_explicit(&spool->taken, taken, memory_order_relaxed);
}

void spool_rewind(struct spool *spool)
{
	/* What is in the batch is as if it had been taken and given back. */
	while (!batch_used_up(spool)) {
		const struct line_meta *meta = &spool->batch->lines[spool->at].meta;

		spool_take(spool, 1);
		spool_give_back(spool, meta);
	}
	batch_forget(spool);
	spool->high = max_u64(spool->high, spool->next);
	spool->reading = NULL;
	spool->next = spool->nsegments ? spool->segments[0]->first : spool->end;
}
