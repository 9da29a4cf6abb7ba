/*
 * libFuzzer target: the reader of a spool's segments over any bytes. What it
 * finds is a record that could have been written so, at a place of its own,
 * and reading in pieces finds the same as looking at all of it at once.
 *
 * Seeds: small segments, whole, cut and flipped.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sinks/spool_format.h"
#include "streamer/decode/decode.h"
#include "streamer/encode/encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_record(const struct spool_record *record)
{
	const struct line_meta *meta = &record->meta;

	if (record->len < SPOOL_MIN_LINE || record->len > FANOUT_MAX_LINE ||
	    record->data[record->len - 1] != '\n' || memchr(record->data, '\n', record->len - 1))
		abort();
	if ((uint64_t)meta->args_off + meta->args_len >= record->len || meta->type >= EVENT_NTYPES ||
	    meta->status > CALL_UNFINISHED || (meta->row >= table_nrows && meta->row != UINT16_MAX) ||
	    !meta->seq)
		abort();
}

/* Written anew it is the same, but for a row that nobody knows and the padding. */
static void check_same(const struct spool_record *record)
{
	static char out[SPOOL_MAX_RECORD];
	struct line line = {.data = record->data, .len = record->len, .meta = record->meta};
	struct spool_record again;
	size_t size = spool_record_write(out, &line, record->number), skip;

	if (spool_record_find(out, size, true, &again, &skip) != SPOOL_RECORD || skip ||
	    again.number != record->number || again.len != record->len ||
	    memcmp(&again.meta, &record->meta, sizeof(again.meta)) != 0 ||
	    memcmp(again.data, record->data, again.len) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct spool_reader reader;
	const char *text = (const char *)data;
	struct spool_record record, whole;
	size_t at = 0, skip, n = 0;
	struct spool_header header;
	int fd = memfd_create("segment", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	reader_set(&reader, fd, 0);
	while (reader_next(&reader, size, &record)) {
		check_record(&record);
		check_same(&record);
		if (spool_record_find(text + at, size - at, true, &whole, &skip) != SPOOL_RECORD ||
		    whole.number != record.number || whole.len != record.len ||
		    memcmp(whole.data, record.data, record.len) != 0)
			abort();
		at += skip + whole.size;
		if (at > size || ++n > size / sizeof(struct spool_head))
			abort();
	}
	if (spool_record_find(text + at, size - at, true, &whole, &skip) != SPOOL_NOTHING)
		abort();
	close(fd);
	if (size >= sizeof(header)) {
		memcpy(&header, data, sizeof(header));
		if (spool_header_ok(&header) &&
		    (strlen(header.run) >= sizeof(header.run) || strlen(header.host) >= sizeof(header.host)))
			abort();
	}
	return 0;
}
