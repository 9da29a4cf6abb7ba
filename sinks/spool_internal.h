/* The spool from inside: spool.c (lines), spool_segment.c (files), spool_open.c (finding what is there). */
#ifndef CUDATAP_SPOOL_INTERNAL_H
#define CUDATAP_SPOOL_INTERNAL_H

#include <stdatomic.h>

#include "spool.h"
#include "spool_format.h"

#define SPOOL_NAME    24 /* bytes of a segment's file name */
#define SPOOL_PARTS   16 /* segments of a full spool, at least */
#define SPOOL_STAGE   (256u << 10)
#define SPOOL_SAVE_NS 1000000ull
/* Lines of one segment, at most. */
#define SPOOL_SEGMENT_LINES (SPOOL_MAX_SEGMENT / SPOOL_RECORD_BYTES(SPOOL_MIN_LINE))

struct segment {
	uint64_t first, end;                    /* numbers of its lines */
	uint64_t bytes;                         /* of the file */
	uint64_t left;                          /* lines not done with */
	uint64_t out;                           /* of these, in the batch or taken */
	uint64_t *done;                         /* a bit for each line; NULL: none is */
	uint64_t passed;                        /* every line before it is done with */
	bool foreign;                           /* of an earlier run */
	uint64_t seq_first, seq_last, seq_read; /* of our own: first, last, last in the batch */
};

struct spool_author {
	char run[64], host[256];
	struct sink_origin origin;
};

struct spool {
	int dir, lock, state;
	uint64_t max_bytes, segment_bytes;
	struct chunk_pool *pool;
	const struct sink_origin *own;
	uint64_t table;

	struct segment **segments;
	size_t nsegments, capacity;
	uint64_t bytes;     /* of all */
	uint64_t end;       /* number of the line to be appended next */
	uint64_t own_first; /* the first of this run */
	uint64_t recovered;
	struct segment *current; /* the last one, being written, or NULL */
	int write_fd;

	/* reading */
	uint64_t next; /* number of the line to be read next */
	uint64_t high; /* the largest that `next` has been */
	struct segment *reading;
	int read_fd;
	struct chunk *batch; /* lines [at, nlines) are to be looked at */
	uint32_t at;
	bool batch_foreign, pinned;
	struct spool_author authors[2]; /* of foreign segments; the other one may still be in use */
	unsigned author;
	bool same_table;
	atomic_uint_fast64_t taken;

	/* state */
	struct spool_state saved;
	uint64_t saved_ns;
	struct spool_loss full, corrupt;

	struct spool_reader reader;
	char stage[SPOOL_STAGE + SPOOL_MAX_RECORD];
};

/* ---- spool_segment.c ---- */

void segment_name(uint64_t first, char name[SPOOL_NAME]);
/** segment_add - a segment behind all others. NULL: out of memory. */
struct segment *segment_add(struct spool *spool, uint64_t first, uint64_t end, uint64_t bytes, bool foreign);
/** segment_find - the one with that line, or NULL */
struct segment *segment_find(const struct spool *spool, uint64_t number);
/** segment_done - mark a line; false: it was already, or no memory for the mark */
bool segment_done(struct segment *segment, uint64_t number);
bool segment_is_done(const struct segment *segment, uint64_t number);
/** segment_new - begin a file for the lines from spool->end on; 0 or a negative errno */
int segment_new(struct spool *spool);
/** segment_drop_first - delete the first segment, whatever is in it */
void segment_drop_first(struct spool *spool);
/** segments_trim - delete segments from the first on that are done with; @all: also the current one */
void segments_trim(struct spool *spool, bool all);
/** segment_read_begin - make the segment the one being read: 0, or a negative errno */
int segment_read_begin(struct spool *spool, struct segment *segment);

/** spool_lost - account for lost lines; seqs 0: unknown */
void spool_lost(struct spool_loss *loss, uint64_t n, uint64_t seq_first, uint64_t seq_last);

/* ---- spool_open.c ---- */

/** spool_find - state and segments of an earlier run; 0 or a negative errno */
int spool_find(struct spool *spool);

#endif
