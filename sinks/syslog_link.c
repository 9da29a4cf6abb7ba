/*
 * The connection of a syslog sink: made when there is something to send, made
 * again with growing pauses when it fails, watched for the peer's end.
 */
#include <errno.h>
#include <libgen.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/un.h>
#include <unistd.h>

#include "syslog.h"
#include "worker.h"

#define MS               1000000ull
#define LINK_BACKOFF_MIN (50 * MS)
#define LINK_BACKOFF_MAX (30000 * MS)
#define LINK_RESOLVE_NS  (5000 * MS) /* for a name's answer; then it goes on in the background */
#define LINK_CONNECT_NS  (5000 * MS) /* for each address */
#define LINK_FINISH_NS   (3000 * MS) /* for the peer to read what was sent */
#define LINK_NO_BUFFER   (1 * MS)    /* between two tries when the kernel has no buffers */
#define LINK_UNSENT      (128 << 10) /* bytes that may wait in the kernel: they go with the connection */
#define LINK_SHORT_LIFE  (1000 * MS) /* a connection that fails so soon was none */
#define LINK_UNACKED_MS  (5 * 60 * 1000)

void link_init(struct syslog_link *link, struct sink *sink, const struct syslog_target *target)
{
	*link = (struct syslog_link){.sink = sink,
				     .target = *target,
				     .fd = -1,
				     .watch_fd = -1,
				     .resolve_fd = -1,
				     .reason = SINK_UNREACHABLE};
	if (getrandom(&link->seed, sizeof(link->seed), GRND_NONBLOCK) < 0)
		link->seed = (unsigned)worker_now();
}

static void link_close(struct syslog_link *link)
{
	if (link->ssl)
		syslog_tls_close(link);
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
	link->sink->idle_fd = -1;
}

/* ---- a unix socket that is not there ---- */

static int watch_directory(const struct sockaddr_un *addr)
{
	char path[sizeof(addr->sun_path)];
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	memcpy(path, addr->sun_path, sizeof(path));
	if (fd >= 0 && inotify_add_watch(fd, dirname(path), IN_CREATE | IN_MOVED_TO | IN_ONLYDIR) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Its directory tells when it comes. Without inotify, or in the abstract name space, the pauses must do. */
static void watch_start(struct syslog_link *link)
{
	const struct sockaddr_un *addr = (const struct sockaddr_un *)&link->target.unix_addr;

	if (link->target.transport != SYSLOG_UNIX || !addr->sun_path[0])
		return;
	if (link->watch_fd < 0)
		link->watch_fd = watch_directory(addr);
	link->sink->idle_fd = link->watch_fd;
	link->sink->idle_events = POLLIN;
}

static void watch_stop(struct syslog_link *link)
{
	if (link->watch_fd >= 0)
		close(link->watch_fd);
	link->watch_fd = -1;
}

/* Has something of the socket's name come? */
static bool watch_said(struct syslog_link *link)
{
	const struct sockaddr_un *addr = (const struct sockaddr_un *)&link->target.unix_addr;
	const char *slash = strrchr(addr->sun_path, '/'), *name = slash ? slash + 1 : addr->sun_path;
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool come = false;
	ssize_t n;

	while ((n = read(link->watch_fd, events, sizeof(events))) > 0) {
		const struct inotify_event *event;

		for (char *p = events; p < events + n; p += sizeof(*event) + event->len) {
			event = (const struct inotify_event *)p;
			come |= event->len && !strcmp(event->name, name);
		}
	}
	return come;
}

static void list_free(struct syslog_link *link)
{
	if (link->list)
		freeaddrinfo(link->list);
	link->list = NULL;
	link->next = NULL;
}

void link_free(struct syslog_link *link)
{
	struct addrinfo *list = NULL;

	link_close(link);
	watch_stop(link);
	list_free(link);
	if (link->resolve)
		syslog_resolve_end(link->resolve, &list);
	if (list)
		freeaddrinfo(list);
	syslog_tls_free(link->tls);
}

int link_fail(struct syslog_link *link, enum sink_reason reason, int error, const char *fmt, ...)
{
	va_list args;

	link->reason = reason;
	link->error = error;
	link->detail[0] = 0;
	if (fmt) {
		va_start(args, fmt);
		vsnprintf(link->detail, sizeof(link->detail), fmt, args);
		va_end(args);
	}
	return -error;
}

static int fail_errno(struct syslog_link *link, int error)
{
	return link_fail(link,
			 error == ETIMEDOUT                  ? SINK_TIMED_OUT
			 : error == EACCES || error == EPERM ? SINK_AUTH
							     : SINK_UNREACHABLE,
			 error, NULL);
}

/* The next try: in a pause that doubles, give or take a quarter so that a thousand hosts do not come at once.
 * Asking for a unix socket costs nothing: the worker's own pauses are enough. */
static void back_off(struct syslog_link *link)
{
	uint64_t pause = link->backoff_ns ? link->backoff_ns * 2 : LINK_BACKOFF_MIN;

	link->backoff_ns = pause < LINK_BACKOFF_MAX ? pause : LINK_BACKOFF_MAX;
	if (link->target.transport == SYSLOG_UNIX)
		return;
	link->seed = link->seed * 1103515245u + 12345u;
	pause = link->backoff_ns / 4 * 3 + link->backoff_ns / 2 * (link->seed >> 16 & 0xff) / 256;
	link->retry_ns = worker_now() + pause;
}

void link_hurry(struct syslog_link *link)
{
	link->backoff_ns = 0;
	link->retry_ns = 0;
}

void link_lost(struct syslog_link *link, int error)
{
	if (!*link->detail)
		fail_errno(link, error);
	/* A receiver that accepts and hangs up is not asked without end; another address may be better. */
	if (worker_now() - link->opened_ns >= LINK_SHORT_LIFE)
		link_hurry(link);
	else if (!link->next)
		back_off(link);
	link_close(link);
}

/* ---- making it ---- */

/* 1, 0 at the stop's deadline, or a negative errno. */
static int await(struct syslog_link *link, int fd, short events, uint64_t timeout_ns)
{
	uint64_t end = worker_now() + timeout_ns;
	int r = sink_poll(link->sink, fd, events, timeout_ns);

	return r ? r : worker_now() >= end ? -ETIMEDOUT : 0;
}

static int connect_unix(struct syslog_link *link)
{
	static const int types[] = {SOCK_DGRAM, SOCK_STREAM};
	int r = -EPROTOTYPE;

	for (int i = 0; i < 2 && r == -EPROTOTYPE; i++) {
		link->fd = socket(AF_UNIX, types[i] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (link->fd < 0)
			return fail_errno(link, errno);
		link->datagram = types[i] == SOCK_DGRAM;
		r = connect(link->fd, (struct sockaddr *)&link->target.unix_addr, link->target.unix_len)
			    ? -errno
			    : 1;
		if (r < 0)
			link_close(link);
	}
	/* EAGAIN: the backlog of a stream socket is full */
	return r > 0 ? r : fail_errno(link, r == -EAGAIN ? EBUSY : -r);
}

static int fail_name(struct syslog_link *link, int result)
{
	int error = result == EAI_SYSTEM ? errno : EADDRNOTAVAIL;

	return link_fail(link, SINK_UNREACHABLE, error, "no address for the name %s: %s", link->target.host,
			 result == EAI_SYSTEM ? strerror(errno) : gai_strerror(result));
}

/* Addresses in link->list. 1, 0 at the stop's deadline, or a negative errno. */
static int find_addresses(struct syslog_link *link)
{
	int r, type = link->datagram ? SOCK_DGRAM : SOCK_STREAM;

	if (link->next)
		return 1;
	list_free(link);
	if (!link->resolve)
		link->resolve =
			syslog_resolve_start(link->target.host, link->target.port, type, &link->resolve_fd);
	if (!link->resolve)
		return fail_errno(link, errno);
	r = await(link, link->resolve_fd, POLLIN, LINK_RESOLVE_NS);
	if (r == -ETIMEDOUT)
		return link_fail(link, SINK_TIMED_OUT, ETIMEDOUT, "no answer yet about the name %s",
				 link->target.host);
	if (r <= 0)
		return r;
	r = syslog_resolve_end(link->resolve, &link->list);
	link->resolve = NULL;
	link->next = link->list;
	return r ? fail_name(link, r) : 1;
}

/* What helps is asked for; what is refused is no harm. */
static void tune_stream(int fd)
{
	const int one = 1, unsent = LINK_UNSENT, unacked = LINK_UNACKED_MS, idle = 60;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked, sizeof(unacked));
}

static int connect_address(struct syslog_link *link, const struct addrinfo *addr)
{
	socklen_t len = sizeof(int);
	int error = 0, r = 1;

	link->fd =
		socket(addr->ai_family, addr->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, addr->ai_protocol);
	if (link->fd < 0)
		return fail_errno(link, errno);
	if (!link->datagram)
		tune_stream(link->fd);
	if (connect(link->fd, addr->ai_addr, addr->ai_addrlen)) {
		r = errno == EINPROGRESS ? await(link, link->fd, POLLOUT, LINK_CONNECT_NS) : -errno;
		if (r > 0 && !getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &len) && error)
			r = -error;
	}
	if (r < 0)
		fail_errno(link, -r);
	if (r > 0 && link->target.transport == SYSLOG_TLS)
		r = syslog_tls_connect(link);
	if (r <= 0)
		link_close(link);
	return r;
}

static int connect_network(struct syslog_link *link)
{
	int r;

	link->datagram = link->target.transport == SYSLOG_UDP;
	link->careful = link->datagram;
	r = find_addresses(link);
	if (r <= 0)
		return r;
	do {
		r = connect_address(link, link->next);
		if (r)
			link->next = link->next->ai_next;
	} while (r < 0 && link->next);
	return r;
}

int link_open(struct syslog_link *link)
{
	struct sink *sink = link->sink;
	int r;

	if (link->fd >= 0)
		return 1;
	if (worker_now() < link->retry_ns)
		return 0;
	r = link->target.transport == SYSLOG_UNIX ? connect_unix(link) : connect_network(link);
	if (r <= 0) {
		if (r < 0)
			back_off(link);
		watch_start(link);
		return 0;
	}
	watch_stop(link);
	sink->idle_fd = -1;
	link->opened_ns = worker_now();
	link->detail[0] = 0;
	if (!link->datagram) {
		sink->idle_fd = link->fd;
		sink->idle_events = POLLIN | POLLRDHUP;
	}
	return 1;
}

/* ---- using it ---- */

bool link_alive(struct syslog_link *link)
{
	char scrap[512];
	ssize_t n;

	if (link->datagram)
		return true;
	if (link->ssl)
		return !syslog_tls_drain(link);
	do
		n = recv(link->fd, scrap, sizeof(scrap), MSG_DONTWAIT);
	while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 && errno == EAGAIN;
}

bool link_tick(struct syslog_link *link)
{
	if (link->fd >= 0 && !link_alive(link))
		link_lost(link, ECONNRESET);
	return link->watch_fd >= 0 && watch_said(link);
}

ssize_t link_send(struct syslog_link *link, struct iovec *iov, int count)
{
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)count};
	ssize_t n;

	link->wants = POLLOUT;
	if (link->ssl)
		return syslog_tls_send(link, iov, count);
	do
		n = sendmsg(link->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int link_wait(struct syslog_link *link, int error)
{
	int r;

	if (error == EAGAIN)
		return sink_poll(link->sink, link->fd, link->wants, SINK_NEVER);
	/* ENOBUFS, ENOMEM: poll(2) would say at once that the socket is writable */
	r = await(link, -1, 0, LINK_NO_BUFFER);
	return r == -ETIMEDOUT ? 1 : r;
}

void link_finish(struct syslog_link *link)
{
	uint64_t end = worker_now() + LINK_FINISH_NS;
	int r = 0;

	if (link->fd < 0 || link->datagram)
		return;
	while (link->ssl && (r = syslog_tls_bye(link)) == -EAGAIN)
		if (sink_poll(link->sink, link->fd, link->wants, LINK_FINISH_NS) != 1)
			return;
	if (r || shutdown(link->fd, SHUT_WR))
		return;
	/* Closing with something unread would throw away what the peer has not read yet. */
	while (link_alive(link)) {
		uint64_t now = worker_now();

		if (now >= end || sink_poll(link->sink, link->fd, POLLIN | POLLRDHUP, end - now) != 1)
			return;
	}
}
