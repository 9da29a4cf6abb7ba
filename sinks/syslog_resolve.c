/*
 * Names to addresses. getaddrinfo(3) can wait for a resolver for minutes and
 * cannot be interrupted, so it runs in a thread that nobody waits for: whoever
 * asked may go away, the thread then throws its answer away.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "syslog.h"

struct syslog_resolve {
	atomic_int owners; /* who asked, and the thread: the last one frees */
	atomic_bool done;
	int fd;
	int result;
	struct addrinfo *list;
	int socktype;
	char host[256], port[6];
};

static void resolve_unref(struct syslog_resolve *r)
{
	if (atomic_fetch_sub(&r->owners, 1) > 1)
		return;
	if (r->list)
		freeaddrinfo(r->list);
	close(r->fd);
	free(r);
}

static void resolve_look(struct syslog_resolve *r, int flags)
{
	const struct addrinfo hints = {.ai_socktype = r->socktype, .ai_flags = AI_NUMERICSERV | flags};
	const uint64_t one = 1;

	r->result = getaddrinfo(r->host, r->port, &hints, &r->list);
	if (r->result)
		r->list = NULL;
	if (flags && r->result)
		return;
	atomic_store(&r->done, true);
	if (write(r->fd, &one, sizeof(one)) < 0)
		return; /* an eventfd refuses only at 2^64 - 1 */
}

static void *resolve_main(void *arg)
{
	resolve_look(arg, 0);
	resolve_unref(arg);
	return NULL;
}

static int resolve_spawn(struct syslog_resolve *r)
{
	sigset_t all, old;
	pthread_t thread;
	int err;

	atomic_fetch_add(&r->owners, 1);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, NULL, resolve_main, r);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		atomic_fetch_sub(&r->owners, 1);
	else
		pthread_detach(thread);
	return err;
}

struct syslog_resolve *syslog_resolve_start(const char *host, const char *port, int socktype, int *ret_fd)
{
	struct syslog_resolve *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return NULL;
	atomic_init(&r->owners, 1);
	r->socktype = socktype;
	memcpy(r->host, host, strnlen(host, sizeof(r->host) - 1));
	memcpy(r->port, port, strnlen(port, sizeof(r->port) - 1));
	r->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = r->fd < 0 ? errno : 0;
	if (err) {
		free(r);
		errno = err;
		return NULL;
	}
	/* An address needs no resolver. */
	resolve_look(r, AI_NUMERICHOST);
	if (!atomic_load(&r->done))
		err = resolve_spawn(r);
	*ret_fd = r->fd;
	if (!err)
		return r;
	resolve_unref(r);
	errno = err;
	return NULL;
}

int syslog_resolve_end(struct syslog_resolve *resolve, struct addrinfo **ret_list)
{
	int result = EAI_AGAIN;

	*ret_list = NULL;
	if (atomic_load(&resolve->done)) {
		result = resolve->result;
		*ret_list = resolve->list;
		resolve->list = NULL;
	}
	resolve_unref(resolve);
	return result;
}
