/* Whole lines to a descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "out.h"

#define OUT_IOVECS 256

static int out_kind_of(struct out *out, const struct stat *st)
{
	int flags = fcntl(out->fd, F_GETFL);

	if (flags < 0)
		return -errno;
	if (S_ISSOCK(st->st_mode))
		out->kind = OUT_SOCKET;
	else if (S_ISFIFO(st->st_mode) || (S_ISCHR(st->st_mode) && isatty(out->fd)))
		out->kind = flags & O_NONBLOCK ? OUT_STREAM : OUT_BLOCKING;
	else
		out->kind = OUT_FILE;
	out->regular = S_ISREG(st->st_mode);
	return 0;
}

/* Does a file end in the middle of a line? What was left by a crash, or is somebody else's. */
static bool ends_torn(int fd, const struct stat *st)
{
	char path[32], last = '\n';
	int reader;

	if (!S_ISREG(st->st_mode) || !st->st_size)
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (reader < 0)
		return false;
	if (pread(reader, &last, 1, st->st_size - 1) != 1)
		last = '\n';
	close(reader);
	return last != '\n';
}

int out_init(struct out *out, int fd)
{
	struct stat st;
	int r;

	*out = (struct out){.fd = fd};
	r = fstat(fd, &st) ? -errno : out_kind_of(out, &st);
	if (r)
		return r;
	out->newline_first = ends_torn(fd, &st);
	return 0;
}

/* A description of our own for a pipe or terminal, or -1. */
static int reopen_stream(int fd, const struct stat *st)
{
	char path[32];

	if (!S_ISFIFO(st->st_mode) && !(S_ISCHR(st->st_mode) && isatty(fd)))
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

int out_adopt(struct out *out, int fd)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL), mine, r;

	if (flags < 0 || fstat(fd, &st))
		return -errno;
	/* A closed number may have been given out again: to an eventfd, a BPF map (no file type), ... */
	if ((flags & O_ACCMODE) == O_RDONLY || !(st.st_mode & S_IFMT))
		return -EBADF;
	mine = reopen_stream(fd, &st);
	if (mine < 0) /* not ours to open, or without a reader: the first write will tell */
		mine = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (mine < 0)
		return -errno;
	*out = (struct out){.fd = mine};
	r = out_kind_of(out, &st);
	if (r)
		close(mine);
	else if (flags & O_APPEND)
		out->newline_first = ends_torn(mine, &st);
	return r;
}

int out_watch(const struct out *out)
{
	return out->kind == OUT_FILE ? -1 : out->fd;
}

static bool out_hung_up(const struct out *out)
{
	struct pollfd p = {.fd = out->fd};

	return out->kind != OUT_FILE && poll(&p, 1, 0) == 1 && p.revents & (POLLERR | POLLHUP);
}

struct sink_result out_check(const struct out *out)
{
	if (out_hung_up(out))
		return (struct sink_result){.status = SINK_GONE, .reason = SINK_PIPE_CLOSED};
	return (struct sink_result){.status = SINK_DONE};
}

/*
 * Take half a line at the end of a file away again. Only if the file still
 * ends where our write ended: behind it may be somebody else's lines, and after
 * a truncation by others nothing of it is left. Where cutting is refused
 * (chattr +a) the line is completed later.
 */
static void out_cut(struct out *out)
{
	off_t end;
	struct stat st;

	if (!out->partial || !out->regular)
		return;
	end = lseek(out->fd, 0, SEEK_CUR);
	if (end < 0 || fstat(out->fd, &st))
		return;
	if (st.st_size != end) {
		out->newline_first = st.st_size > 0;
		out->partial = 0;
		return;
	}
	end -= (off_t)out->partial;
	if (!ftruncate(out->fd, end) && lseek(out->fd, end, SEEK_SET) == end)
		out->partial = 0;
}

/* Pieces of memory for as many of @n > 0 lines as fit; adjacent lines are one piece. Returns the number of
 * pieces. */
static int out_gather(const struct out *out, const struct line *lines, size_t n, struct iovec *iov)
{
	int count = 1;

	iov[0].iov_base = (char *)lines[0].data + out->partial;
	iov[0].iov_len = lines[0].len - out->partial;
	for (size_t i = 1; i < n; i++) {
		struct iovec *last = &iov[count - 1];

		if ((char *)last->iov_base + last->iov_len == lines[i].data) {
			last->iov_len += lines[i].len;
			continue;
		}
		if (count == OUT_IOVECS)
			break;
		iov[count++] = (struct iovec){(char *)lines[i].data, lines[i].len};
	}
	return count;
}

/* Count @sent bytes: moves over whole lines into @result, keeps the rest in out->partial. */
static void out_advance(struct out *out, const struct line *lines, size_t sent, struct sink_result *result)
{
	out->partial += sent;
	while (out->partial && out->partial >= lines[result->taken].len)
		out->partial -= lines[result->taken++].len;
}

static ssize_t out_send(const struct out *out, struct iovec *iov, int count)
{
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)count};
	size_t len = iov[0].iov_len;

	switch (out->kind) {
	case OUT_SOCKET:
		return sendmsg(out->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	case OUT_BLOCKING:
		return write(out->fd, iov[0].iov_base, len < PIPE_BUF ? len : PIPE_BUF);
	default:
		return writev(out->fd, iov, count);
	}
}

static bool out_wait(struct out *out, struct sink *sink)
{
	return sink_poll(sink, out->fd, POLLOUT, SINK_NEVER) == 1;
}

static void out_failed(struct out *out, int error, struct sink_result *result)
{
	out_cut(out);
	result->error = error;
	result->status = SINK_STALLED;
	result->reason = SINK_IO_ERROR;
	if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
		result->reason = SINK_DISK_FULL;
	} else if (error == EPIPE || error == ECONNRESET || out_hung_up(out)) {
		result->status = SINK_GONE;
		result->reason = SINK_PIPE_CLOSED;
	}
}

/* One write. Returns the bytes sent; 0 when there is nothing more to do now. */
static size_t out_once(struct out *out, struct sink *sink, struct iovec *iov, int count, bool may_wait,
		       struct sink_result *result)
{
	if (out->kind == OUT_BLOCKING && !out_wait(out, sink))
		return 0;
	for (;;) {
		ssize_t sent = out_send(out, iov, count);

		if (sent > 0)
			return (size_t)sent;
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent == 0 || errno != EAGAIN) {
			out_failed(out, sent ? errno : EIO, result);
			return 0;
		}
		if (!may_wait || !out_wait(out, sink))
			return 0;
	}
}

struct sink_result out_write(struct out *out, struct sink *sink, const struct line *lines, size_t n)
{
	struct sink_result result = {.status = SINK_DONE};
	struct iovec iov[OUT_IOVECS];
	size_t sent;

	if (out->newline_first) {
		iov[0] = (struct iovec){(void *)"\n", 1};
		if (!out_once(out, sink, iov, 1, true, &result))
			return result;
		out->newline_first = false;
	}
	/* A file is asked again for what it did not take: that brings the error, and the torn line is
	 * cut off before anyone waits. A stream is left after each step, so that the counters follow. */
	do {
		int count = out_gather(out, lines + result.taken, n - result.taken, iov);

		sent = out_once(out, sink, iov, count, !result.taken, &result);
		out_advance(out, lines, sent, &result);
	} while (sent && result.taken < n && out->kind == OUT_FILE);
	result.partial = out->partial > 0;
	return result;
}

void out_close(struct out *out)
{
	if (out->fd < 0)
		return;
	out_cut(out);
	close(out->fd);
	out->fd = -1;
}
