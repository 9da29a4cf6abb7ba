/*
 * The sink `syslog` from inside, private to sinks/syslog*.c:
 *
 *	syslog.c		the kind: batches, delivery, what is lost
 *	syslog_options.c	its keys, targets, short URLs
 *	syslog_message.c	one line as one syslog message
 *	syslog_link.c		the connection: made, watched, made again
 *	syslog_resolve.c	names to addresses without waiting for a resolver
 *	syslog_tls.c		TLS on a connected socket
 *
 * Sources: RFC 5424 (message), RFC 3164 and syslog(3) (local form), RFC 5426
 * (udp), RFC 6587 (framing on tcp), RFC 5425 (tls).
 */
#ifndef CUDATAP_SYSLOG_H
#define CUDATAP_SYSLOG_H

#include <netdb.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "../streamer/encode/encode.h"
#include "../streamer/encode/timestamp.h"
#include "kinds.h"

/* ---- options ---- */

enum syslog_transport { SYSLOG_UNIX, SYSLOG_UDP, SYSLOG_TCP, SYSLOG_TLS };
enum syslog_protocol { SYSLOG_AUTO, SYSLOG_LOCAL, SYSLOG_RFC5424 };
enum syslog_framing { SYSLOG_FRAMING_AUTO, SYSLOG_OCTET_COUNTING, SYSLOG_NEWLINE };

/* Indices of `severity`: enum call_status, then this. */
#define SYSLOG_OTHER       (CALL_UNFINISHED + 1)
#define SYSLOG_NSEVERITIES (SYSLOG_OTHER + 1)

struct syslog_options {
	char *target;
	int protocol, framing;
	int facility;
	int severity[SYSLOG_NSEVERITIES];
	char *app, *sd_id;
	bool cookie;
	uint64_t max_message; /* bytes; 0: syslog_max_message() */
	char *ca_file, *cert_file, *key_file;
	bool verify;
};

struct syslog_target {
	enum syslog_transport transport;
	char host[256], port[6];
	struct sockaddr_storage unix_addr; /* SYSLOG_UNIX: a struct sockaddr_un */
	socklen_t unix_len;
};

extern const struct key syslog_keys[];
int syslog_check(const void *options, char *error, size_t error_size);
int syslog_from_url(const char *url, void *options, char *error, size_t error_size);
/** syslog_target_parse - "udp://HOST:PORT"; 0, or -EINVAL and one sentence */
int syslog_target_parse(const char *text, struct syslog_target *ret_target, char *error, size_t error_size);
/** syslog_max_message - what the options say, or what receivers take when they were told nothing */
size_t syslog_max_message(const struct syslog_options *options, enum syslog_transport transport);

/* ---- messages ---- */

#define SYSLOG_MIN_MESSAGE 480 /* every receiver takes it (RFC 5424, 6.1) */
#define SYSLOG_PIECES      4   /* of memory that a message consists of, at most */
#define SYSLOG_MAX_HEAD    640 /* bytes before the line, octet count included */

/* How messages look; made once. */
struct syslog_form {
	bool local, counted; /* counted: octet counting rather than newlines, on a stream */
	bool octet_counting, newline;
	char pri[SYSLOG_NSEVERITIES][8]; /* "<134>", in RFC 5424 with the version */
	char name[320];                  /* " HOST APP " or " HOST APP[" */
	char sd[80];                     /* "[ID run=\"...\"" */
	const char *cookie;
	uint32_t self; /* our own pid, for events of no process */
	struct timestamp_cache utc;
	int64_t second; /* local form: what `date` is of */
	char date[16];  /* "Nov 29 16:21:03" */
};

void syslog_form_init(struct syslog_form *form, const struct syslog_options *options,
		      enum syslog_transport transport, const struct sink_origin *origin);

/** syslog_form_connected - what kind of socket the messages are for: it decides how they are divided */
void syslog_form_connected(struct syslog_form *form, bool datagram);

/**
 * syslog_message - a line as a message, by reference to the line
 * @max: of its bytes, octet count not included; what is longer loses its arguments
 * @head: SYSLOG_MAX_HEAD bytes for it
 * @iov: SYSLOG_PIECES for it; @ret_count of them are used
 * Returns its bytes with all framing, or 0: too large. The same line always makes the same message
 * as long as @max is the same.
 */
size_t syslog_message(struct syslog_form *form, const struct line *line, size_t max, char *head,
		      struct iovec *iov, int *ret_count);

/* ---- names to addresses ---- */

struct syslog_resolve;

/**
 * syslog_resolve_start - look a name up in a thread of its own, which nobody waits for
 * @ret_fd: becomes readable when there is an answer
 * Returns NULL with errno.
 */
struct syslog_resolve *syslog_resolve_start(const char *host, const char *port, int socktype, int *ret_fd);
/** syslog_resolve_end - the answer (getaddrinfo()'s result and list), or EAI_AGAIN while there is none;
 * frees all but the list. The thread may live on for a while. */
int syslog_resolve_end(struct syslog_resolve *resolve, struct addrinfo **ret_list);

/* ---- TLS ---- */

struct syslog_tls; /* what all connections share */
struct ssl_st;

int syslog_tls_new(const struct syslog_options *options, struct syslog_tls **ret_tls, char *error,
		   size_t error_size);
void syslog_tls_free(struct syslog_tls *tls);

struct syslog_link;
/** syslog_tls_connect - handshake; as link_open(). On failure link->detail says why. */
int syslog_tls_connect(struct syslog_link *link);
/** syslog_tls_send - as send(2): -EAGAIN with the events to wait for in link->wants; the call after that
 * goes on with the same bytes */
ssize_t syslog_tls_send(struct syslog_link *link, const struct iovec *iov, int count);
/** syslog_tls_drain - read what the peer sends; 0, or a negative errno when it has ended */
int syslog_tls_drain(struct syslog_link *link);
/** syslog_tls_close - free the connection, at once */
void syslog_tls_close(struct syslog_link *link);
/** syslog_tls_bye - say that nothing follows; -EAGAIN as above */
int syslog_tls_bye(struct syslog_link *link);

/* ---- the connection ---- */

struct syslog_link {
	struct sink *sink;
	struct syslog_target target;
	int fd;       /* -1: there is none */
	int watch_fd; /* inotify(7) while there is no unix socket, or -1 */
	bool datagram;
	bool careful; /* udp: whether anybody listens is not known yet */
	short wants;  /* events to wait for after -EAGAIN */

	int resolve_fd;
	struct syslog_resolve *resolve;
	struct addrinfo *list;
	const struct addrinfo *next; /* in the list, to be tried */

	uint64_t opened_ns, backoff_ns, retry_ns;
	unsigned seed;
	enum sink_reason reason; /* of the last failure */
	int error;
	char detail[256]; /* the same in words; empty: strerror(error) */

	struct syslog_tls *tls;
	struct ssl_st *ssl;
	char *record; /* TLS: plain text of the record being sent */
	size_t nrecord;
};

void link_init(struct syslog_link *link, struct sink *sink, const struct syslog_target *target);
void link_free(struct syslog_link *link);

/**
 * link_open - connect, if it is time to
 * Returns 1 connected, 0 not (yet): link->error, reason and detail say why, or the stop's deadline came.
 */
int link_open(struct syslog_link *link);
/** link_lost - the connection has failed: close it; the next link_open() makes another */
void link_lost(struct syslog_link *link, int error);
/** link_hurry - the next try is due at once, and the pause behind it is the first again */
void link_hurry(struct syslog_link *link);
/** link_fail - note why there is no connection; text is optional. Returns -error. */
int link_fail(struct syslog_link *link, enum sink_reason reason, int error, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/** link_alive - has the peer closed a stream? Reads away what it sends. */
bool link_alive(struct syslog_link *link);
/** link_tick - something happened on the sink's idle_fd; true: a receiver may have come */
bool link_tick(struct syslog_link *link);
/** link_send - on a stream: bytes sent, or a negative errno */
ssize_t link_send(struct syslog_link *link, struct iovec *iov, int count);
/** link_wait - until more can be sent: 1, 0 at a stop's deadline, or a negative errno */
int link_wait(struct syslog_link *link, int error);
/** link_finish - end a stream so that nothing sent is lost: wait for the peer to close */
void link_finish(struct syslog_link *link);

#endif
