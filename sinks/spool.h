/*
 * The spool of one sink: lines on disk until they are delivered. They survive
 * the death of the process, however it comes, not that of the machine.
 *
 * Lines are appended at the end, looked at in order (spool_peek), taken in
 * hand (spool_take), and then released one by one in any order, or given back;
 * a rewind offers again, in order, what was not released. A line that was just
 * appended is looked at in memory when all before it have been looked at: only
 * a backlog is read from disk.
 *
 * Files and records: spool_format.h. Segments are deleted from the first on
 * when all of their lines are released. When the spool is full its oldest
 * segment goes, a sixteenth of the whole at most.
 *
 * Not for several threads: it belongs to the sink's worker.
 */
#ifndef CUDATAP_SPOOL_H
#define CUDATAP_SPOOL_H

#include "chunk.h"

#define SPOOL_MIN_BYTES   (1ull << 20) /* of a spool */
#define SPOOL_MAX_SEGMENT (8ull << 20)

struct spool;

/**
 * spool_open - lock the directory, which is made if needed, and find what an earlier run left
 * @max_bytes: of all segments; at least SPOOL_MIN_BYTES
 * @pool: chunks for lines in memory
 * @origin: of the lines to be appended, or NULL; must outlive the spool
 * Returns 0, or a negative errno and one sentence in @error.
 */
int spool_open(const char *path, uint64_t max_bytes, struct chunk_pool *pool,
	       const struct sink_origin *origin, struct spool **ret_spool, char *error, size_t error_size);

/** spool_same - whether two paths are those of one spool */
bool spool_same(const char *a, const char *b);

/** spool_close - write the state, delete what is done with. NULL is fine. */
void spool_close(struct spool *spool);

/** spool_recovered - lines that were there at the beginning; those found damaged already are among them,
 * and among the losses as well */
uint64_t spool_recovered(const struct spool *spool);

/** spool_append - write lines at the end
 * @ret_error: 0, or the negative errno for which fewer than @n were appended
 * Returns how many were, from the first. The oldest lines may be lost for them. */
size_t spool_append(struct spool *spool, const struct line *lines, size_t n, int *ret_error);

/**
 * spool_peek - the next lines
 * @ret_origin: who wrote them
 * They have meta.spool set, lie in one chunk, and are good until the next spool_peek() unless one has a
 * reference to it. Returns their number; 0: there are none, or no memory.
 */
size_t spool_peek(struct spool *spool, const struct line **ret_lines, const struct sink_origin **ret_origin);
/** spool_take - the first @n of them are in somebody's hands */
void spool_take(struct spool *spool, size_t n);
/** spool_release - done with a taken line, by its meta.spool */
void spool_release(struct spool *spool, uint32_t id);
/** spool_give_back - a taken line is not delivered; it comes again after a rewind */
void spool_give_back(struct spool *spool, const struct line_meta *meta);
/** spool_rewind - begin again with the first line that is not released. No taken line may be in hand. */
void spool_rewind(struct spool *spool);

/** spool_pin - the lines that were looked at are being written: they stay, whatever else has to go */
void spool_pin(struct spool *spool, bool pinned);
/** spool_end - nothing will be taken any more: lines that are no longer on disk are lost, and are not
 * among those taken either. spool_close() is due. */
void spool_end(struct spool *spool);

/** spool_empty - have all lines been looked at and taken? */
bool spool_empty(const struct spool *spool);
/** spool_taken - lines in somebody's hands. Any thread. */
uint64_t spool_taken(const struct spool *spool);

/** spool_save - write down what was released if that has changed; @now_ns: CLOCK_MONOTONIC, not more often
 * than every millisecond; 0: in any case */
void spool_save(struct spool *spool, uint64_t now_ns);

struct spool_loss {
	uint64_t n;
	uint64_t seq_first, seq_last; /* of this run's; 0: unknown */
};

/** spool_losses - lines that were lost since the last call: for want of room, and found damaged or missing.
 * Returns whether there were any. */
bool spool_losses(struct spool *spool, struct spool_loss *ret_full, struct spool_loss *ret_corrupt);

#endif
