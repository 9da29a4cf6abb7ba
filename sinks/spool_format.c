/* Records, headers and the state of a spool: writing them, and finding them among any bytes. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../streamer/decode/decode.h"
#include "../streamer/encode/encode.h"
#include "crc32c.h"
#include "spool_format.h"

static_assert(sizeof(struct spool_header) == 512 && sizeof(struct spool_head) == 56, "no holes");
static_assert(SPOOL_READ_BYTES >= 2 * SPOOL_MAX_RECORD, "a record must fit");

/* ---- records ---- */

#define AFTER_CRC (offsetof(struct spool_head, crc) + sizeof(uint32_t))

static uint32_t record_crc(const char *record, size_t len)
{
	return crc32c(0, record + AFTER_CRC, sizeof(struct spool_head) - AFTER_CRC + len);
}

size_t spool_record_write(char *out, const struct line *line, uint64_t number)
{
	size_t size = SPOOL_RECORD_BYTES(line->len), used = sizeof(struct spool_head) + line->len;
	struct spool_head head = {
		.magic = SPOOL_RECORD_MAGIC,
		.number = number,
		.seq = line->meta.seq,
		.ts_ns = line->meta.ts_ns,
		.pid = line->meta.pid,
		.tid = line->meta.tid,
		.len = line->len,
		.args_off = line->meta.args_off,
		.args_len = line->meta.args_len,
		.row = line->meta.row,
		.status = line->meta.status,
		.type = line->meta.type,
	};

	memcpy(out, &head, sizeof(head));
	memcpy(out + sizeof(head), line->data, line->len);
	memset(out + used, 0, size - used);
	head.crc = record_crc(out, line->len);
	memcpy(out + offsetof(struct spool_head, crc), &head.crc, sizeof(head.crc));
	return size;
}

/* Nothing that a right checksum lets through may harm a sink. */
static bool record_ok(const struct spool_head *head, const char *line)
{
	return line[head->len - 1] == '\n' && !memchr(line, '\n', head->len - 1) &&
	       (uint64_t)head->args_off + head->args_len < head->len && head->type < EVENT_NTYPES &&
	       head->status <= CALL_UNFINISHED && head->seq && head->number < SPOOL_MAX_NUMBER;
}

static void record_fill(struct spool_record *record, const struct spool_head *head, const char *line,
			size_t size)
{
	*record = (struct spool_record){
		.number = head->number,
		.data = line,
		.len = head->len,
		.size = size,
		.meta = {.seq = head->seq,
			 .ts_ns = head->ts_ns,
			 .pid = head->pid,
			 .tid = head->tid,
			 .row = head->row < table_nrows ? head->row : UINT16_MAX,
			 .status = head->status,
			 .type = head->type,
			 .args_off = head->args_off,
			 .args_len = head->args_len},
	};
}

/* Is there a record at the beginning of these bytes, which begin with the magic? */
static enum spool_found record_at(const char *data, size_t n, bool last, struct spool_record *record)
{
	struct spool_head head;
	size_t size;

	if (n < sizeof(head))
		return last ? SPOOL_NOTHING : SPOOL_MORE;
	memcpy(&head, data, sizeof(head));
	if (head.len < SPOOL_MIN_LINE || head.len > FANOUT_MAX_LINE)
		return SPOOL_NOTHING;
	size = SPOOL_RECORD_BYTES(head.len);
	if (n < size && !last)
		return SPOOL_MORE;
	if (n < sizeof(head) + head.len || record_crc(data, head.len) != head.crc ||
	    !record_ok(&head, data + sizeof(head)))
		return SPOOL_NOTHING;
	record_fill(record, &head, data + sizeof(head), size < n ? size : n);
	return SPOOL_RECORD;
}

enum spool_found spool_record_find(const char *data, size_t n, bool last, struct spool_record *ret_record,
				   size_t *ret_skip)
{
	static const uint32_t magic = SPOOL_RECORD_MAGIC;
	size_t p = 0;

	for (;;) {
		const char *at = p < n ? memmem(data + p, n - p, &magic, sizeof(magic)) : NULL;
		enum spool_found found;

		if (!at) {
			/* the end may be the beginning of a magic */
			size_t keep = last ? 0 : n < sizeof(magic) - 1 ? n : sizeof(magic) - 1;

			*ret_skip = p > n - keep ? p : n - keep;
			return last ? SPOOL_NOTHING : SPOOL_MORE;
		}
		p = (size_t)(at - data);
		found = record_at(at, n - p, last, ret_record);
		if (found != SPOOL_NOTHING) {
			*ret_skip = p;
			return found;
		}
		p++;
	}
}

/* ---- headers ---- */

static uint32_t header_crc(const struct spool_header *header)
{
	return crc32c(0, &header->size, sizeof(*header) - offsetof(struct spool_header, size));
}

uint64_t spool_table_mark(void)
{
	uint64_t mark = table_nrows;

	for (unsigned i = 0; i < table_nrows; i++) {
		const struct table_row *row = &table_rows[i];

		mark = mark * 0x9e3779b97f4a7c15ull + crc32c(row->api, row->symbol, strlen(row->symbol));
	}
	return mark;
}

void spool_header_make(struct spool_header *header, uint64_t first, const struct sink_origin *origin)
{
	memset(header, 0, sizeof(*header));
	header->magic = SPOOL_HEADER_MAGIC;
	header->size = sizeof(*header);
	header->first = first;
	header->table = spool_table_mark();
	if (origin) {
		snprintf(header->run, sizeof(header->run), "%s", origin->run);
		snprintf(header->host, sizeof(header->host), "%s", origin->host);
	}
	header->crc = header_crc(header);
}

bool spool_header_ok(const struct spool_header *header)
{
	return header->magic == SPOOL_HEADER_MAGIC && header->size == sizeof(*header) &&
	       header->crc == header_crc(header) && !header->run[sizeof(header->run) - 1] &&
	       !header->host[sizeof(header->host) - 1];
}

/* ---- the state ---- */

static uint32_t state_crc(const struct spool_state *state)
{
	return crc32c(0, &state->released, 2 * sizeof(uint64_t));
}

void spool_state_make(struct spool_state *state, uint64_t released, uint64_t end)
{
	*state = (struct spool_state){.magic = SPOOL_STATE_MAGIC, .released = released, .end = end};
	state->crc = state_crc(state);
}

bool spool_state_ok(const struct spool_state *state)
{
	return state->magic == SPOOL_STATE_MAGIC && state->crc == state_crc(state) &&
	       state->released <= state->end && state->end < SPOOL_MAX_NUMBER;
}

/* ---- reading ---- */

void reader_set(struct spool_reader *reader, int fd, uint64_t offset)
{
	reader->fd = fd;
	reader->offset = offset;
	reader->pos = reader->n = 0;
}

/* More bytes behind those in the buffer; false: there are none. */
static bool reader_fill(struct spool_reader *reader, uint64_t limit)
{
	uint64_t left = limit > reader->offset ? limit - reader->offset : 0;
	ssize_t n = 0;
	size_t room;

	if (!left)
		return false;
	memmove(reader->buffer, reader->buffer + reader->pos, reader->n - reader->pos);
	reader->n -= reader->pos;
	reader->pos = 0;
	room = sizeof(reader->buffer) - reader->n;
	do
		n = pread(reader->fd, reader->buffer + reader->n, room < left ? room : (size_t)left,
			  (off_t)reader->offset);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return false;
	reader->n += (size_t)n;
	reader->offset += (uint64_t)n;
	return true;
}

bool reader_next(struct spool_reader *reader, uint64_t limit, struct spool_record *ret_record)
{
	bool last = false;

	for (;;) {
		size_t skip;
		enum spool_found found = spool_record_find(reader->buffer + reader->pos,
							   reader->n - reader->pos, last, ret_record, &skip);

		reader->pos += skip;
		if (found == SPOOL_RECORD) {
			reader->pos += ret_record->size;
			return true;
		}
		if (last) {
			reader->pos = reader->n;
			return false;
		}
		last = !reader_fill(reader, limit);
	}
}

void reader_undo(struct spool_reader *reader, const struct spool_record *record)
{
	reader->pos -= record->size;
}
