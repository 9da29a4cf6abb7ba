/*
 * Whole lines to a descriptor: what stdout and files have in common.
 *
 * Nothing here blocks but the disk. A pipe, FIFO or terminal that was handed
 * to us is opened anew through /proc/self/fd, because O_NONBLOCK belongs to the
 * open file description and must not be set on one that the user's shell
 * shares; where that is refused, at most PIPE_BUF bytes (four times dearer) are written after each
 * POLLOUT, which a pipe then takes without blocking (pipe(7)).
 */
#ifndef CUDATAP_OUT_H
#define CUDATAP_OUT_H

#include <sys/uio.h>

#include "sink.h"

enum out_kind {
	OUT_FILE,     /* regular files, block and character devices: never waited for */
	OUT_STREAM,   /* pipes, FIFOs, terminals with O_NONBLOCK */
	OUT_SOCKET,   /* connected sockets: MSG_DONTWAIT */
	OUT_BLOCKING, /* a stream without O_NONBLOCK: small pieces */
};

struct out {
	int fd; /* owned */
	enum out_kind kind;
	bool regular;       /* a torn line may be cut off */
	bool newline_first; /* what is there ends in half a line that is not ours to cut */
	size_t partial;     /* bytes of the next line that are already out */
};

/**
 * out_adopt - write to what a descriptor refers to
 * @fd: stays the caller's, its flags stay as they are
 * Returns 0, or -EBADF (closed, or not open for writing)
 */
int out_adopt(struct out *out, int fd);

/** out_init - take over a descriptor opened for us, with O_NONBLOCK, O_APPEND where it is a file */
int out_init(struct out *out, int fd);

/** out_write - as sink_ops.write */
struct sink_result out_write(struct out *out, struct sink *sink, const struct line *lines, size_t n);

/** out_check - has the reader gone? as sink_ops.tick */
struct sink_result out_check(const struct out *out);

/** out_watch - the descriptor to watch for its reader's end, or -1 */
int out_watch(const struct out *out);

/** out_close - a torn line at the end is cut off where it can be */
void out_close(struct out *out);

#endif
