/*
 * The files of a spool. In its directory:
 *
 *	lock		held (flock(2)) by the sink that uses the spool; its process id, for messages
 *	state		up to where lines are delivered, and how far they go
 *	N.seg		a segment: a header and records, first of them number N (16 hex digits)
 *
 * Every line has a number, one more than the line before, for as long as the
 * spool exists. Numbers tell exactly how many lines a damaged place held.
 *
 * Numbers are in the machine's own byte order. Checksums are CRC-32C.
 */
#ifndef CUDATAP_SPOOL_FORMAT_H
#define CUDATAP_SPOOL_FORMAT_H

#include "fanout.h"

/* A record begins with bytes that no line has in it: two that are in no UTF-8. */
#define SPOOL_RECORD_MAGIC 0x1fd4fefdu
#define SPOOL_HEADER_MAGIC 0x314c4f4f50530afdull
#define SPOOL_STATE_MAGIC  0x3154415453530afdull

#define SPOOL_ALIGN      8
#define SPOOL_MIN_LINE   2 /* with the newline */
#define SPOOL_MAX_NUMBER (1ull << 62)

struct spool_header {
	uint64_t magic;
	uint32_t crc; /* of what follows */
	uint32_t size;
	uint64_t first; /* number of the first record */
	uint64_t table; /* fingerprint of the API table that `row` means */
	char run[64], host[256];
	char pad[160];
};

struct spool_state {
	uint64_t magic;
	uint64_t released; /* every line before it is done with */
	uint64_t end;      /* of the last line, plus one */
	uint32_t crc;      /* of the two */
	uint32_t pad;
};

struct spool_head {
	uint32_t magic;
	uint32_t crc; /* of what follows in the head, and of the line */
	uint64_t number;
	uint64_t seq;
	int64_t ts_ns;
	uint32_t pid, tid;
	uint32_t len, args_off, args_len;
	uint16_t row;
	uint8_t status, type;
};

/* Bytes of a record with a line of @len bytes. */
#define SPOOL_RECORD_BYTES(len) \
	((sizeof(struct spool_head) + (len) + SPOOL_ALIGN - 1) / SPOOL_ALIGN * SPOOL_ALIGN)
#define SPOOL_MAX_RECORD SPOOL_RECORD_BYTES((size_t)FANOUT_MAX_LINE)

struct spool_record {
	uint64_t number;
	const char *data; /* the line */
	uint32_t len;
	struct line_meta meta;
	size_t size; /* in the file */
};

/** spool_record_write - @out has SPOOL_RECORD_BYTES(line->len) bytes, which are all written */
size_t spool_record_write(char *out, const struct line *line, uint64_t number);

enum spool_found { SPOOL_NOTHING, SPOOL_RECORD, SPOOL_MORE };

/**
 * spool_record_find - the first whole and right record in @n bytes
 * @last: nothing follows them in the file
 * @ret_skip: bytes before the record that are none of it. With SPOOL_MORE: bytes that can be
 *	forgotten; whether the rest is a record shows with the bytes that follow (at most SPOOL_MAX_RECORD
 *	in all).
 */
enum spool_found spool_record_find(const char *data, size_t n, bool last, struct spool_record *ret_record,
				   size_t *ret_skip);

void spool_header_make(struct spool_header *header, uint64_t first, const struct sink_origin *origin);
/** spool_header_ok - whole and right: its strings end */
bool spool_header_ok(const struct spool_header *header);
/** spool_table_mark - fingerprint of the API table that this program has */
uint64_t spool_table_mark(void);

void spool_state_make(struct spool_state *state, uint64_t released, uint64_t end);
bool spool_state_ok(const struct spool_state *state);

/* ---- reading a segment ---- */

#define SPOOL_READ_BYTES (128u << 10)

/* Records of a file, one after the other; what lies between them is passed over. */
struct spool_reader {
	int fd;          /* borrowed */
	uint64_t offset; /* of the next byte to be read from the file */
	size_t pos, n;   /* in the buffer: n bytes, pos of them done with */
	char buffer[SPOOL_READ_BYTES];
};

/** reader_set - begin at @offset */
void reader_set(struct spool_reader *reader, int fd, uint64_t offset);
/** reader_next - the next record before the file offset @limit, good until the next call; false: none */
bool reader_next(struct spool_reader *reader, uint64_t limit, struct spool_record *ret_record);
/** reader_undo - the record comes again */
void reader_undo(struct spool_reader *reader, const struct spool_record *record);

#endif
