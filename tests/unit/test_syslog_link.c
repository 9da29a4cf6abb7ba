/* The syslog sink on sockets: receivers of our own that come, go, stall and refuse, and a kernel and a
 * resolver that misbehave to order. */
#include "test_sinks.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "../../sinks/syslog.h"

/* ---- what the kernel and the resolver are made to do ---- */

static atomic_int emsgsize, no_buffer, interrupted; /* a limit; how many calls fail */
static atomic_int resolve_ms, resolve_calls;

int sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	int limit = atomic_load(&emsgsize);
	unsigned fits = n;

	if (atomic_load(&no_buffer) > 0 && atomic_fetch_sub(&no_buffer, 1) > 0) {
		errno = ENOBUFS;
		return -1;
	}
	if (atomic_load(&interrupted) > 0 && atomic_fetch_sub(&interrupted, 1) > 0) {
		errno = EINTR;
		return -1;
	}
	for (unsigned i = 0; limit && i < fits; i++) {
		size_t size = 0;

		for (size_t k = 0; k < msgs[i].msg_hdr.msg_iovlen; k++)
			size += msgs[i].msg_hdr.msg_iov[k].iov_len;
		if (size > (size_t)limit)
			fits = i;
	}
	if (!fits) {
		errno = EMSGSIZE;
		return -1;
	}
	return (int)syscall(SYS_sendmmsg, fd, msgs, fits, flags);
}

/* "slow.test" is the loopback address, once resolve_ms have gone by. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **ret)
{
	struct sockaddr_in *addr;

	if (hints->ai_flags & AI_NUMERICHOST && strcmp(name, "127.0.0.1") != 0)
		return EAI_NONAME;
	atomic_fetch_add(&resolve_calls, 1);
	if (strcmp(name, "127.0.0.1") != 0)
		sleep_ms((unsigned)atomic_load(&resolve_ms));
	*ret = calloc(1, sizeof(**ret) + sizeof(*addr));
	addr = (struct sockaddr_in *)(*ret + 1);
	addr->sin_family = AF_INET;
	addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	addr->sin_port = htons((uint16_t)atoi(service));
	(*ret)->ai_family = AF_INET;
	(*ret)->ai_socktype = hints->ai_socktype;
	(*ret)->ai_addr = (struct sockaddr *)addr;
	(*ret)->ai_addrlen = sizeof(*addr);
	return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
	free(list);
}

/* ---- receivers ---- */

static char directory[] = "/tmp/test-syslog-XXXXXX", path[64];

static int bind_unix(int type)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	unlink(path);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	if (type == SOCK_STREAM)
		assert_int_equal(listen(fd, 4), 0);
	return fd;
}

static int bind_loopback(int type, uint16_t *port)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(*port)};
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0), one = 1;

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	if (type == SOCK_STREAM)
		assert_int_equal(listen(fd, 4), 0);
	getsockname(fd, (struct sockaddr *)&addr, &len);
	*port = ntohs(addr.sin_port);
	return fd;
}

static bool wait_readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

/* One message's JSON, a newline behind it. */
static void read_message(struct reading *r, char *text, size_t len)
{
	char *json = memchr(text, '{', len);

	if (!json || *text != '<') {
		r->bad++;
		return;
	}
	len -= (size_t)(json - text);
	if (json[len - 1] != '\n')
		json[len++] = '\n';
	read_bytes(r, json, len);
}

/* Datagrams until there are @n lines, or none comes for 2 s. */
static void read_datagrams(struct reading *r, int fd, uint64_t n)
{
	static char data[65537];

	while (r->lines < n && wait_readable(fd, 2000))
		read_message(r, data, (size_t)recv(fd, data, sizeof(data) - 1, 0));
}

/* Lines of a stream until its end. */
static void read_stream(struct reading *r, int fd)
{
	static char data[1 << 20];
	size_t n = 0;
	ssize_t got;

	while ((got = recv(fd, data + n, sizeof(data) - n, 0)) > 0) {
		char *line = data, *end;

		n += (size_t)got;
		while ((end = memchr(line, '\n', n - (size_t)(line - data)))) {
			read_message(r, line, (size_t)(end + 1 - line));
			line = end + 1;
		}
		n -= (size_t)(line - data);
		memmove(data, line, n);
	}
	r->bad += n > 0;
}

/* ---- the sink ---- */

static struct syslog_options options;
static struct config_sink sink;

static struct fanout *open_syslog(const char *target, uint64_t max_events)
{
	options = (struct syslog_options){.target = (char *)target,
					  .facility = 1,
					  .app = (char *)"tap",
					  .sd_id = (char *)"tap@1",
					  .verify = true,
					  .framing = 0};
	sink = any_sink("log", &sink_syslog, &options);
	if (max_events)
		sink.queue.max_events = (int64_t)max_events;
	return open_fanout(&sink, 1);
}

static char target[128];

static const char *unix_target(void)
{
	snprintf(target, sizeof(target), "unix://%s", path);
	return target;
}

static void expect(const struct reading *r, uint64_t n)
{
	assert_int_equal(r->lines, n);
	assert_int_equal(r->last, n);
	assert_int_equal(r->bad + r->disorder, 0);
}

struct reader {
	pthread_t thread;
	int fd;
	struct reading reading;
};

static void *reader_main(void *arg)
{
	struct reader *r = arg;

	read_datagrams(&r->reading, r->fd, 10000);
	return NULL;
}

static void test_datagrams(void **state)
{
	struct reader r = {.fd = bind_unix(SOCK_DGRAM)};
	struct fanout *f = open_syslog(unix_target(), 0);

	pthread_create(&r.thread, NULL, reader_main, &r);
	for (uint64_t i = 0; i < 20; i++)
		put_lines(f, 1 + i * 500, 500, 100 + i * 200);
	fanout_close(f, now_ns() + 10000 * MS);
	assert_int_equal(counters(f, 0).delivered, 10000);
	fanout_free(f);
	pthread_join(r.thread, NULL);
	close(r.fd);
	expect(&r.reading, 10000);
}

static void *stream_main(void *arg)
{
	struct reader *r = arg;
	int fd = accept(r->fd, NULL, NULL);

	sleep_ms(100); /* until the socket is full */
	read_stream(&r->reading, fd);
	close(fd);
	return NULL;
}

static void test_stream(void **state)
{
	struct reader r = {.fd = bind_unix(SOCK_STREAM)};
	struct fanout *f = open_syslog(unix_target(), 0);

	pthread_create(&r.thread, NULL, stream_main, &r);
	for (uint64_t i = 0; i < 20; i++)
		put_lines(f, 1 + i * 500, 500, 100 + i * 200);
	fanout_close(f, now_ns() + 10000 * MS);
	assert_int_equal(counters(f, 0).delivered, 10000);
	fanout_free(f);
	pthread_join(r.thread, NULL);
	close(r.fd);
	expect(&r.reading, 10000);
}

/* Nobody reads: the stop comes at its deadline, every line is accounted for, and what was counted as
 * delivered is there whole. */
static void test_stream_deadline(void **state)
{
	struct reading r = {0};
	int listener = bind_unix(SOCK_STREAM), fd;
	struct fanout *f = open_syslog(unix_target(), 0);
	uint64_t begin;
	struct sink_counters c;

	put_lines(f, 1, 5000, 1000);
	fd = accept(listener, NULL, NULL);
	begin = now_ns();
	fanout_close(f, begin + 300 * MS);
	assert_true(now_ns() - begin < 1000 * MS);
	c = counters(f, 0);
	assert_true(c.delivered > 0 && c.dropped[SINK_SHUTDOWN] > 0);
	assert_int_equal(c.delivered + c.dropped[SINK_SHUTDOWN], 5000);
	fanout_free(f);
	read_stream(&r, fd);
	close(fd);
	close(listener);
	assert_int_equal(r.lines, c.delivered);
	assert_true(r.bad <= 1); /* the line that was being sent */
}

/* The daemon's socket goes and another one comes: nothing is lost. */
static void test_datagram_restart(void **state)
{
	struct reading r = {0};
	int fd = bind_unix(SOCK_DGRAM);
	struct fanout *f = open_syslog(unix_target(), 0);

	put_lines(f, 1, 5, 200);
	wait_for(counters(f, 0).delivered == 5);
	read_datagrams(&r, fd, 5);
	close(fd);
	put_lines(f, 6, 100, 200);
	sleep_ms(200);
	assert_int_equal(counters(f, 0).queued, 100);
	unlink(path);
	sleep_ms(1800); /* by now there is a try every second only */
	fd = bind_unix(SOCK_DGRAM);
	assert_true(wait_readable(fd, 250)); /* but its directory tells */
	read_datagrams(&r, fd, 105);
	fanout_close(f, now_ns() + 1000 * MS);
	assert_int_equal(counters(f, 0).delivered, 105);
	fanout_free(f);
	close(fd);
	expect(&r, 105);
}

static void put_args(struct fanout *f, uint64_t seq, size_t args)
{
	struct line_meta meta = {.seq = seq, .row = 1};
	char *out = fanout_reserve(f, 0);
	int n = sprintf(out, "{\"seq\":%" PRIu64 ",\"q\":1", seq);

	meta.args_off = (uint32_t)n;
	n += sprintf(out + n, ",\"args\":\"");
	memset(out + n, 'x', args - 10);
	n += (int)args - 10;
	n += sprintf(out + n, "\"}\n");
	meta.args_len = (uint32_t)n - 2 - meta.args_off;
	fanout_commit(f, 0, (size_t)n, &meta, FANOUT_ALL);
	fanout_flush(f);
}

/* A kernel that takes less than we thought: the limit follows, the line loses its arguments. */
static void test_emsgsize(void **state)
{
	int fd = bind_unix(SOCK_DGRAM);
	struct fanout *f = open_syslog(unix_target(), 0);
	struct sink_counters c;
	char data[2000];
	ssize_t n;

	atomic_store(&emsgsize, 1000);
	put_args(f, 1, 300);
	put_args(f, 2, 3000);
	put_lines(f, 3, 1, 1500);
	put_args(f, 4, 300);
	for (int i = 0; i < 3; i++) {
		assert_true(wait_readable(fd, 2000));
		n = recv(fd, data, sizeof(data) - 1, 0);
		assert_true(n > 0);
		data[n] = 0;
		if (strstr(data, "{\"loss\"")) {
			i--;
			continue;
		}
		assert_non_null(strstr(data, i == 0   ? "{\"seq\":1,"
					     : i == 1 ? "{\"seq\":2,"
						      : "{\"seq\":4,"));
		assert_int_equal(strstr(data, "\"q\":1,\"truncated\":true}") != NULL, i == 1);
	}
	fanout_close(f, now_ns() + 1000 * MS);
	atomic_store(&emsgsize, 0);
	c = counters(f, 0);
	assert_int_equal(c.delivered, 3);
	assert_int_equal(c.dropped[SINK_TOO_LARGE], 1);
	fanout_free(f);
	close(fd);
}

static void test_no_buffers(void **state)
{
	struct reading r = {0};
	int fd = bind_unix(SOCK_DGRAM);
	struct fanout *f = open_syslog(unix_target(), 0);

	atomic_store(&no_buffer, 20);
	atomic_store(&interrupted, 20);
	put_lines(f, 1, 8, 200);
	read_datagrams(&r, fd, 8);
	fanout_close(f, now_ns() + 1000 * MS);
	assert_int_equal(counters(f, 0).delivered, 8);
	fanout_free(f);
	close(fd);
	expect(&r, 8);
	assert_true(atomic_load(&no_buffer) <= 0 && atomic_load(&interrupted) <= 0);
}

/* Over udp a closed port is noticed before anything is counted as delivered. */
static void test_udp_refused(void **state)
{
	struct reading r = {0};
	uint16_t port = 0;
	int fd = bind_loopback(SOCK_DGRAM, &port);
	struct fanout *f;

	close(fd);
	snprintf(target, sizeof(target), "udp://127.0.0.1:%u", port);
	f = open_syslog(target, 0);
	put_lines(f, 1, 100, 200);
	sleep_ms(500);
	assert_int_equal(counters(f, 0).delivered, 0);
	fd = bind_loopback(SOCK_DGRAM, &port);
	read_datagrams(&r, fd, 100);
	fanout_close(f, now_ns() + 1000 * MS);
	assert_int_equal(counters(f, 0).delivered, 100);
	fanout_free(f);
	close(fd);
	expect(&r, 100);
}

/* A resolver that never answers does not keep the program from ending. */
static void test_resolver_hangs(void **state)
{
	struct sink_counters c;
	struct fanout *f;
	uint64_t begin;

	atomic_store(&resolve_ms, 1500);
	f = open_syslog("tcp://slow.test:1", 0);
	put_lines(f, 1, 100, 200);
	sleep_ms(100);
	begin = now_ns();
	fanout_close(f, begin + 200 * MS);
	assert_true(now_ns() - begin < 800 * MS);
	c = counters(f, 0);
	assert_int_equal(c.dropped[SINK_UNREACHABLE], 100);
	fanout_free(f);
	sleep_ms(1700); /* its thread ends, which leak checkers want to see */
}

static void test_resolver_slow(void **state)
{
	uint16_t port = 0;
	int listener = bind_loopback(SOCK_STREAM, &port), fd, calls;
	struct fanout *f;
	char data[100];

	atomic_store(&resolve_ms, 300);
	calls = atomic_load(&resolve_calls);
	snprintf(target, sizeof(target), "tcp://slow.test:%u", port);
	f = open_syslog(target, 0);
	put_lines(f, 1, 1, 200);
	assert_true(wait_readable(listener, 2000));
	fd = accept(listener, NULL, NULL);
	assert_true(wait_readable(fd, 1000));
	assert_true(recv(fd, data, sizeof(data), MSG_PEEK) > 20);
	assert_memory_equal(data + strcspn(data, " "), " <8>1 ", 6);
	assert_int_equal(atomic_load(&resolve_calls) - calls, 1);
	close(fd);
	close(listener);
	fanout_close(f, now_ns() + 1000 * MS);
	fanout_free(f);
}

/* A receiver that accepts and hangs up is asked at growing intervals. */
static void test_hangs_up(void **state)
{
	uint16_t port = 0;
	int listener = bind_loopback(SOCK_STREAM, &port), fd, connections = 0;
	uint64_t begin = now_ns();
	struct fanout *f;

	snprintf(target, sizeof(target), "tcp://127.0.0.1:%u", port);
	f = open_syslog(target, 0);
	for (uint64_t seq = 1; now_ns() - begin < 1500 * MS; seq += 10) {
		put_lines(f, seq, 10, 200);
		if (wait_readable(listener, 5)) {
			fd = accept(listener, NULL, NULL);
			connections++;
			close(fd);
		}
	}
	close(listener);
	fanout_close(f, now_ns() + 500 * MS);
	counters(f, 0);
	fanout_free(f);
	/* 0, 50, 150, 350, 750 ms ..., each a quarter sooner or later */
	assert_true(connections >= 3 && connections <= 9);
}

/* An idle connection that the peer has closed is made anew before the next line is sent on it. */
static void test_idle_close(void **state)
{
	uint16_t port = 0;
	int listener = bind_loopback(SOCK_STREAM, &port), fd;
	struct fanout *f;
	char data[4096];

	snprintf(target, sizeof(target), "tcp://127.0.0.1:%u", port);
	f = open_syslog(target, 0);
	for (uint64_t seq = 1; seq <= 2; seq++) {
		put_lines(f, seq, 1, 200);
		assert_true(wait_readable(listener, 3000));
		fd = accept(listener, NULL, NULL);
		assert_true(wait_readable(fd, 1000));
		assert_true(recv(fd, data, sizeof(data), 0) > 200);
		wait_for(counters(f, 0).delivered == seq);
		sleep_ms(1100); /* an old connection */
		close(fd);
		sleep_ms(50);
	}
	close(listener);
	fanout_close(f, now_ns() + 500 * MS);
	assert_int_equal(counters(f, 0).delivered, 2);
	fanout_free(f);
}

/* No permission is not the same as nobody there. */
static void test_no_permission(void **state)
{
	struct fanout *f;
	int fd;

	if (geteuid() == 0) {
		/* root may write to any socket: a directory in the way is as good */
		unlink(path);
		assert_int_equal(mkdir(path, 0700), 0);
		f = open_syslog(unix_target(), 0);
		put_lines(f, 1, 10, 200);
		fanout_close(f, now_ns() + 200 * MS);
		assert_int_equal(counters(f, 0).dropped[SINK_UNREACHABLE], 10);
		fanout_free(f);
		rmdir(path);
		return;
	}
	fd = bind_unix(SOCK_DGRAM);
	chmod(path, 0);
	f = open_syslog(unix_target(), 0);
	put_lines(f, 1, 10, 200);
	fanout_close(f, now_ns() + 200 * MS);
	assert_int_equal(counters(f, 0).dropped[SINK_AUTH], 10);
	fanout_free(f);
	close(fd);
}

static int setup(void **state)
{
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/log", directory);
	return 0;
}

static int teardown(void **state)
{
	unlink(path);
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_datagrams),       cmocka_unit_test(test_stream),
		cmocka_unit_test(test_stream_deadline), cmocka_unit_test(test_datagram_restart),
		cmocka_unit_test(test_emsgsize),        cmocka_unit_test(test_no_buffers),
		cmocka_unit_test(test_udp_refused),     cmocka_unit_test(test_resolver_hangs),
		cmocka_unit_test(test_resolver_slow),   cmocka_unit_test(test_hangs_up),
		cmocka_unit_test(test_idle_close),      cmocka_unit_test(test_no_permission),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
