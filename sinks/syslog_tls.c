/*
 * TLS (RFC 5425) on a connected socket, by OpenSSL: 1.2 at least, the
 * receiver's certificate and name checked, our own certificate shown if there
 * is one.
 *
 * OpenSSL encrypts a record before it knows whether the socket takes it, and
 * wants the same bytes again afterwards. So the record's plain text is kept
 * here until it is out, whatever lines are offered meanwhile.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "syslog.h"
#include "worker.h"

#define MS               1000000ull
#define TLS_HANDSHAKE_NS (10000 * MS)
#define TLS_VERDICT_NS   (300 * MS) /* for the receiver's verdict on our certificate */
#define TLS_RECORD       16384      /* bytes in a record (RFC 8446, 5.1) */

struct syslog_tls {
	SSL_CTX *ctx;
	bool verify;
};

/* Where distributions keep the authorities, for an OpenSSL that was built on another one. */
static const char *const system_files[] = {
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/ssl/cert.pem",
};

static void load_system(SSL_CTX *ctx)
{
	SSL_CTX_set_default_verify_paths(ctx);
	if (getenv("SSL_CERT_FILE") || !access(X509_get_default_cert_file(), R_OK))
		return;
	for (size_t i = 0; i < sizeof(system_files) / sizeof(system_files[0]); i++)
		if (SSL_CTX_load_verify_locations(ctx, system_files[i], NULL))
			return;
}

/* Why OpenSSL refused. */
static const char *reason_text(void)
{
	unsigned long code = ERR_peek_error();
	const char *text = ERR_reason_error_string(code);

#ifdef ERR_SYSTEM_ERROR
	if (code && ERR_SYSTEM_ERROR(code))
		return strerror(ERR_GET_REASON(code));
#endif
	return text ? text : "unknown reason";
}

static int load_files(SSL_CTX *ctx, const struct syslog_options *o, char *error, size_t size)
{
	const char *what = NULL, *file = NULL;

	if (!o->ca_file) {
		load_system(ctx);
	} else if (!SSL_CTX_load_verify_locations(ctx, o->ca_file, NULL)) {
		what = "ca_file";
		file = o->ca_file;
	}
	if (!what && o->cert_file && SSL_CTX_use_certificate_chain_file(ctx, o->cert_file) != 1) {
		what = "cert_file";
		file = o->cert_file;
	}
	if (!what && o->key_file &&
	    (SSL_CTX_use_PrivateKey_file(ctx, o->key_file, SSL_FILETYPE_PEM) != 1 ||
	     SSL_CTX_check_private_key(ctx) != 1)) {
		what = "key_file";
		file = o->key_file;
	}
	if (!what)
		return 0;
	snprintf(error, size, "cannot use %s %s: %s", what, file, reason_text());
	return -EINVAL;
}

/* A key with a password has no one to type it. */
static int no_password(char *buf, int size, int rwflag, void *ctx)
{
	return 0;
}

int syslog_tls_new(const struct syslog_options *options, struct syslog_tls **ret_tls, char *error,
		   size_t error_size)
{
	struct syslog_tls *tls = calloc(1, sizeof(*tls));
	int r = -ENOMEM;

	snprintf(error, error_size, "out of memory");
	ERR_clear_error();
	if (tls)
		tls->ctx = SSL_CTX_new(TLS_client_method());
	if (tls && tls->ctx) {
		SSL_CTX_set_min_proto_version(tls->ctx, TLS1_2_VERSION);
		SSL_CTX_set_mode(tls->ctx,
				 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
		SSL_CTX_set_default_passwd_cb(tls->ctx, no_password);
		tls->verify = options->verify;
		SSL_CTX_set_verify(tls->ctx, tls->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
		r = load_files(tls->ctx, options, error, error_size);
	}
	ERR_clear_error();
	if (r) {
		syslog_tls_free(tls);
		return r;
	}
	*ret_tls = tls;
	return 0;
}

void syslog_tls_free(struct syslog_tls *tls)
{
	if (!tls)
		return;
	SSL_CTX_free(tls->ctx);
	free(tls);
}

/* ---- what went wrong ---- */

/* Alerts about certificates (RFC 8446, 6): OpenSSL numbers an alert's reason from 1000. */
static bool about_certificate(int reason)
{
	int alert = reason - SSL_AD_REASON_OFFSET;

	return (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_ACCESS_DENIED) || alert == 116;
}

/* After a failed call. -EAGAIN: link->wants says what to wait for. */
static int tls_result(struct syslog_link *link, int r)
{
	const char *name = link->target.host;
	int error = errno, code = SSL_get_error(link->ssl, r);
	long verdict = SSL_get_verify_result(link->ssl);
	unsigned long queued = ERR_peek_error();

	if (code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE) {
		link->wants = code == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
		return -EAGAIN;
	}
	if (code == SSL_ERROR_ZERO_RETURN || (code == SSL_ERROR_SYSCALL && (!error || error == EAGAIN)))
		return link_fail(link, SINK_UNREACHABLE, ECONNRESET, "%s has ended the connection", name);
	if (code == SSL_ERROR_SYSCALL)
		return link_fail(link, error == ETIMEDOUT ? SINK_TIMED_OUT : SINK_UNREACHABLE, error, NULL);
	if (link->tls->verify && verdict != X509_V_OK)
		return link_fail(link, SINK_AUTH, EPROTO, "TLS: certificate of %s: %s", name,
				 X509_verify_cert_error_string(verdict));
	return link_fail(link, about_certificate(ERR_GET_REASON(queued)) ? SINK_AUTH : SINK_UNREACHABLE,
			 EPROTO, "TLS with %s: %s", name, reason_text());
}

/* ---- a connection ---- */

/* The name that the certificate must be for. */
static int set_name(SSL *ssl, const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];

	if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host);
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set_tlsext_host_name(ssl, host) && SSL_set1_host(ssl, host);
}

static int handshake(struct syslog_link *link)
{
	uint64_t end = worker_now() + TLS_HANDSHAKE_NS, now;
	int r;

	for (;;) {
		ERR_clear_error();
		errno = 0;
		r = SSL_connect(link->ssl);
		if (r == 1)
			return 1;
		r = tls_result(link, r);
		if (r != -EAGAIN)
			return r;
		now = worker_now();
		r = now < end ? sink_poll(link->sink, link->fd, link->wants, end - now) : 0;
		if (r < 0 || (!r && worker_now() < end))
			return r;
		if (!r)
			return link_fail(link, SINK_TIMED_OUT, ETIMEDOUT, "TLS with %s: no answer",
					 link->target.host);
	}
}

/* In TLS 1.3 our side is ready before the receiver has looked at our certificate: what is sent until its
 * refusal comes would be lost. Its first sign, usually a session ticket, follows at once. */
static int verdict(struct syslog_link *link)
{
	int r = 0;

	if (SSL_version(link->ssl) < TLS1_3_VERSION)
		return 1;
	r = sink_poll(link->sink, link->fd, POLLIN, TLS_VERDICT_NS);
	if (r > 0)
		r = syslog_tls_drain(link);
	return r < 0 ? r : 1;
}

int syslog_tls_connect(struct syslog_link *link)
{
	int r;

	ERR_clear_error();
	link->ssl = SSL_new(link->tls->ctx);
	if (!link->record)
		link->record = malloc(TLS_RECORD);
	link->nrecord = 0;
	if (!link->ssl || !link->record || !SSL_set_fd(link->ssl, link->fd) ||
	    !set_name(link->ssl, link->target.host))
		return link_fail(link, SINK_UNREACHABLE, ENOMEM, NULL);
	r = handshake(link);
	return r == 1 ? verdict(link) : r;
}

void syslog_tls_close(struct syslog_link *link)
{
	SSL_free(link->ssl);
	link->ssl = NULL;
	free(link->record);
	link->record = NULL;
	link->nrecord = 0;
	ERR_clear_error();
}

static void fill_record(struct syslog_link *link, const struct iovec *iov, int count)
{
	for (int i = 0; i < count && link->nrecord < TLS_RECORD; i++) {
		size_t room = TLS_RECORD - link->nrecord;
		size_t len = iov[i].iov_len < room ? iov[i].iov_len : room;

		memcpy(link->record + link->nrecord, iov[i].iov_base, len);
		link->nrecord += len;
	}
}

ssize_t syslog_tls_send(struct syslog_link *link, const struct iovec *iov, int count)
{
	int r;

	if (!link->nrecord)
		fill_record(link, iov, count);
	ERR_clear_error();
	errno = 0;
	r = SSL_write(link->ssl, link->record, (int)link->nrecord);
	if (r <= 0)
		return tls_result(link, r);
	link->nrecord -= (size_t)r;
	memmove(link->record, link->record + r, link->nrecord);
	return r;
}

int syslog_tls_drain(struct syslog_link *link)
{
	short wants = link->wants;
	char scrap[512];
	int r;

	do {
		ERR_clear_error();
		errno = 0;
		r = SSL_read(link->ssl, scrap, sizeof(scrap));
	} while (r > 0);
	r = tls_result(link, r);
	link->wants = wants;
	return r == -EAGAIN ? 0 : r;
}

int syslog_tls_bye(struct syslog_link *link)
{
	int r;

	ERR_clear_error();
	errno = 0;
	r = SSL_shutdown(link->ssl);
	return r >= 0 ? 0 : tls_result(link, r);
}
