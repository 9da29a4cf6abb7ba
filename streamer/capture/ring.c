/*
 * The reader's side of the ring. Producers do not wake the reader for each
 * record, which would triple a call's price. Awake, the reader takes what is
 * there once per flush period, or earlier when the ring fills; after a period
 * without a record it asks to be woken by the next one and sleeps.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "internal.h"

static int take(void *ctx, void *data, size_t size)
{
	struct capture *capture = ctx;

	capture->fn(capture->fn_ctx, data, size);
	/* libbpf goes on as long as producers do: end the turn */
	return ++capture->taken >= CAPTURE_BATCH ? -EAGAIN : 0;
}

static int take_name(void *ctx, void *data, size_t size)
{
	struct capture *capture = ctx;

	capture->fn(capture->fn_ctx, data, size);
	return ++capture->named >= CAPTURE_BATCH ? -EAGAIN : 0;
}

int ring_open(struct capture *capture)
{
	/* edge-triggered: only a wake-up ends the sleep, not data that may wait a little longer */
	struct epoll_event on_ring = {.events = EPOLLIN | EPOLLET},
			   on_wake = {.events = EPOLLIN, .data.u32 = 1};

	capture->ring = ring_buffer__new(capture->ring_fd, take, capture, NULL);
	capture->names = ring_buffer__new(capture->names_fd, take_name, capture, NULL);
	if (!capture->ring || !capture->names)
		return -errno;
	capture->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	capture->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (capture->epoll_fd < 0 || capture->wake_fd < 0 ||
	    epoll_ctl(capture->epoll_fd, EPOLL_CTL_ADD, capture->ring_fd, &on_ring) ||
	    epoll_ctl(capture->epoll_fd, EPOLL_CTL_ADD, capture->wake_fd, &on_wake))
		return -errno;
	capture->busy = false;
	return 0;
}

void ring_close(struct capture *capture)
{
	ring_buffer__free(capture->ring);
	ring_buffer__free(capture->names);
	capture->ring = capture->names = NULL;
	if (capture->epoll_fd >= 0)
		close(capture->epoll_fd);
	if (capture->wake_fd >= 0)
		close(capture->wake_fd);
	capture->epoll_fd = capture->wake_fd = -1;
}

static void sleep_until_woken(struct capture *capture, enum rec_armed armed)
{
	int timeout_ms = armed == REC_ARMED_ANY ? -1 : (int)(capture->flush_ns / 1000000);
	struct epoll_event events[2];
	uint64_t drop;
	int i, n;

	n = epoll_wait(capture->epoll_fd, events, 2, timeout_ms);
	for (i = 0; i < n; i++)
		if (events[i].data.u32 && read(capture->wake_fd, &drop, sizeof(drop)) < 0)
			continue; /* another wake-up took it */
	__atomic_store_n(&capture->shared->armed, REC_ARMED_NO, __ATOMIC_SEQ_CST);
}

/* Returns the number of records of calls; whether there was anything at all goes into `busy`. */
static size_t consume(struct capture *capture)
{
	capture->taken = capture->named = 0;
	ring_buffer__consume(capture->names);
	ring_buffer__consume(capture->ring);
	capture->busy |= capture->taken || capture->named;
	return capture->taken;
}

size_t capture_read(struct capture *capture, capture_record_fn fn, void *ctx, bool wait)
{
	enum rec_armed armed = capture->busy ? REC_ARMED_LEVEL : REC_ARMED_ANY;
	size_t n = 0;

	capture->fn = fn;
	capture->fn_ctx = ctx;
	if (!wait)
		return consume(capture);
	capture->busy = false;
	/* ask first, look afterwards: a record committed in between is seen by one of both */
	__atomic_store_n(&capture->shared->armed, armed, __ATOMIC_SEQ_CST);
	if (armed == REC_ARMED_ANY)
		n = consume(capture);
	if (!capture->busy)
		sleep_until_woken(capture, armed);
	else
		__atomic_store_n(&capture->shared->armed, REC_ARMED_NO, __ATOMIC_SEQ_CST);
	return n + consume(capture);
}

void capture_read_names(struct capture *capture)
{
	capture->named = 0;
	ring_buffer__consume(capture->names);
}

void capture_wake(struct capture *capture)
{
	uint64_t one = 1;

	if (write(capture->wake_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full: it is awake */
}
