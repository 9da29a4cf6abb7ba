/* The sink `syslog`: its keys, what a target may be, its short URLs. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "syslog.h"

#define AT(member) offsetof(struct syslog_options, member)

static const char *const protocols[] = {"auto", "local", "rfc5424", NULL};
static const char *const framings[] = {"auto", "octet-counting", "newline", NULL};
/* In the order of their numbers (RFC 5424, 6.2.1). */
static const char *const severities[] = {"emerg",  "alert", "crit",  "err", "warning",
					 "notice", "info",  "debug", NULL};
static const char *const facilities[] = {
	"kern",   "user",     "mail",   "daemon", "auth",   "syslog",  "lpr",   "news",   "uucp",
	"cron",   "authpriv", "ftp",    "ntp",    "audit",  "console", "cron2", "local0", "local1",
	"local2", "local3",   "local4", "local5", "local6", "local7",  NULL};

#define SEVERITY(key, index, value, text)                                                        \
	{                                                                                        \
		.name = (key), .type = KEY_ENUM, .offset = AT(severity) + (index) * sizeof(int), \
		.fallback = (value), .words = severities, .about = (text)                        \
	}

static const struct key severity_keys[] = {
	SEVERITY("ok", CALL_OK, "info", "calls that succeeded"),
	SEVERITY("error", CALL_ERROR, "warning", "calls that failed"),
	SEVERITY("not_ready", CALL_NOT_READY, "debug", "calls whose answer was \"not ready\""),
	SEVERITY("unfinished", CALL_UNFINISHED, "warning", "calls whose thread ended inside them"),
	SEVERITY("other", SYSLOG_OTHER, "notice", "events that are no calls"),
	{0},
};

const struct key syslog_keys[] = {
	{.name = "target",
	 .type = KEY_STRING,
	 .offset = AT(target),
	 .required = true,
	 .about = "the receiver: `unix:///dev/log`, `udp://HOST:PORT`, `tcp://HOST:PORT` or "
		  "`tls://HOST:PORT`; "
		  "PORT is 514, with TLS 6514, unless given"},
	{.name = "protocol",
	 .type = KEY_ENUM,
	 .offset = AT(protocol),
	 .fallback = "auto",
	 .words = protocols,
	 .about = "form of messages: `local` is that of syslog(3), `rfc5424` the standard; `auto` is `local` "
		  "on "
		  "unix sockets, `rfc5424` on the network"},
	{.name = "framing",
	 .type = KEY_ENUM,
	 .offset = AT(framing),
	 .fallback = "auto",
	 .words = framings,
	 .about =
		 "what divides messages on a stream; `auto` is `octet-counting` on the network, `newline` on "
		 "unix sockets"},
	{.name = "facility",
	 .type = KEY_ENUM,
	 .offset = AT(facility),
	 .fallback = "user",
	 .words = facilities,
	 .about = "facility of all messages"},
	{.name = "severity",
	 .type = KEY_MAP,
	 .children = severity_keys,
	 .about = "severity of messages, by the call's `status`"},
	{.name = "app",
	 .type = KEY_STRING,
	 .offset = AT(app),
	 .fallback = "cudatap",
	 .min = 1,
	 .max = 48,
	 .about = "name of the application in messages"},
	{.name = "sd_id",
	 .type = KEY_STRING,
	 .offset = AT(sd_id),
	 .fallback = "cudatap@32473",
	 .min = 1,
	 .max = 32,
	 .about = "name of the structured data (`run`, `seq`) of RFC 5424; put your enterprise number behind "
		  "the \"@\""},
	{.name = "cookie",
	 .type = KEY_BOOL,
	 .offset = AT(cookie),
	 .fallback = "false",
	 .about = "put `@cee:` before the JSON, by which some receivers know it"},
	{.name = "max_message",
	 .type = KEY_SIZE,
	 .offset = AT(max_message),
	 .fallback = "0",
	 .max = 1 << 20,
	 .about = "bytes of the longest message that the receiver takes; longer ones lose `args` and `out`, "
		  "then "
		  "are lost; 0 is what receivers take by default: 8096, over udp 2048"},
	{.name = "ca_file",
	 .type = KEY_STRING,
	 .offset = AT(ca_file),
	 .computed = "the system's",
	 .about = "TLS: certificates (PEM) of the authorities that may vouch for the receiver"},
	{.name = "cert_file",
	 .type = KEY_STRING,
	 .offset = AT(cert_file),
	 .about = "TLS: our own certificate with its chain (PEM), for receivers that ask for one"},
	{.name = "key_file",
	 .type = KEY_STRING,
	 .offset = AT(key_file),
	 .about = "TLS: the private key (PEM, not encrypted) of `cert_file`"},
	{.name = "verify",
	 .type = KEY_BOOL,
	 .offset = AT(verify),
	 .fallback = "true",
	 .about = "TLS: check the receiver's certificate and that it is HOST's; `false` lets anybody read "
		  "along"},
	{0},
};

/* ---- targets ---- */

static const struct {
	const char *scheme, *port;
	enum syslog_transport transport;
} schemes[] = {
	{"udp://", "514", SYSLOG_UDP},
	{"tcp://", "514", SYSLOG_TCP},
	{"tls://", "6514", SYSLOG_TLS},
};

/* "unix:///dev/log", "unix:/dev/log", "unix:@name" in the abstract name space (unix(7)). */
static int parse_unix(const char *path, struct syslog_target *target, char *error, size_t size)
{
	struct sockaddr_un *addr = (struct sockaddr_un *)&target->unix_addr;
	size_t len;

	if (!strncmp(path, "//", 2))
		path += 2;
	len = strlen(path);
	if (!len || len >= sizeof(addr->sun_path)) {
		snprintf(error, size, "a unix socket's path has 1 to %zu bytes, not %zu",
			 sizeof(addr->sun_path) - 1, len);
		return -EINVAL;
	}
	addr->sun_family = AF_UNIX;
	memcpy(addr->sun_path, path, len + 1);
	target->unix_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
	if (*path == '@') {
		addr->sun_path[0] = 0;
		target->unix_len--;
	}
	target->transport = SYSLOG_UNIX;
	return 0;
}

static int wrong_address(const char *text, char *error, size_t size)
{
	snprintf(error, size, "\"%.200s\" is not HOST:PORT; an IPv6 address stands in brackets: [::1]:514",
		 text);
	return -EINVAL;
}

static int parse_address(const char *text, struct syslog_target *target, char *error, size_t size)
{
	const char *host = text, *end = *text == '[' ? strchr(text, ']') : text + strcspn(text, ":");
	const char *port;
	char *rest;
	long number;

	if (!end)
		return wrong_address(text, error, size);
	host += *text == '[';
	port = end + (*end == ']');
	if (end == host || (size_t)(end - host) >= sizeof(target->host) || (*port && *port != ':'))
		return wrong_address(text, error, size);
	memcpy(target->host, host, (size_t)(end - host));
	if (strpbrk(target->host, "/ ?#@"))
		return wrong_address(text, error, size);
	if (!*port)
		return 0;
	number = strtol(port + 1, &rest, 10);
	if (port[1] < '0' || port[1] > '9' || *rest || number < 1 || number > 65535) {
		snprintf(error, size, "\"%.100s\" is no port: it is a number from 1 to 65535", port + 1);
		return -EINVAL;
	}
	snprintf(target->port, sizeof(target->port), "%ld", number);
	return 0;
}

int syslog_target_parse(const char *text, struct syslog_target *ret_target, char *error, size_t error_size)
{
	struct syslog_target target = {0};
	int r = -EINVAL;

	if (!strncmp(text, "unix:", 5)) {
		r = parse_unix(text + 5, &target, error, error_size);
	} else {
		snprintf(
			error, error_size,
			"\"%.200s\" is no target: write unix:///dev/log, udp://HOST:PORT, tcp://HOST:PORT or "
			"tls://HOST:PORT",
			text);
		for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
			if (strncmp(text, schemes[i].scheme, strlen(schemes[i].scheme)) != 0)
				continue;
			target.transport = schemes[i].transport;
			snprintf(target.port, sizeof(target.port), "%s", schemes[i].port);
			r = parse_address(text + strlen(schemes[i].scheme), &target, error, error_size);
		}
	}
	if (!r)
		*ret_target = target;
	return r;
}

size_t syslog_max_message(const struct syslog_options *options, enum syslog_transport transport)
{
	/* rsyslog's own limit unless configured, and what every receiver should take (RFC 5426, 3.2) */
	return options->max_message ? options->max_message : transport == SYSLOG_UDP ? 2048 : 8096;
}

/* ---- checks ---- */

/* Printable ASCII without what would end the word where it is put. */
static bool is_word(const char *text, const char *except)
{
	for (const char *p = text; *p; p++)
		if (*p <= ' ' || *p > '~' || strchr(except, *p))
			return false;
	return *text != 0;
}

static const char *options_mistake(const struct syslog_options *o, const struct syslog_target *target)
{
	if (!is_word(o->app, "[]:"))
		return "app is put before `[PID]:` in messages: letters, digits, \"-\", \"_\", \".\", \"/\"";
	if (!is_word(o->sd_id, "=]\""))
		return "sd_id has printable ASCII without spaces, \"=\", \"]\" and quotes, as in "
		       "cudatap@32473";
	if (o->max_message && o->max_message < SYSLOG_MIN_MESSAGE)
		return "max_message is at least 480 bytes, which every receiver takes (or 0)";
	if (target->transport != SYSLOG_TLS && (o->ca_file || o->cert_file || o->key_file || !o->verify))
		return "ca_file, cert_file, key_file and verify are for tls:// targets";
	if (!o->cert_file != !o->key_file)
		return "cert_file and key_file go together";
	if (o->framing && target->transport == SYSLOG_UDP)
		return "framing is for streams: over udp each message is a datagram";
	return NULL;
}

int syslog_check(const void *options, char *error, size_t error_size)
{
	const struct syslog_options *o = options;
	struct syslog_target target;
	const char *mistake;
	int r = syslog_target_parse(o->target ? o->target : "", &target, error, error_size);

	if (r)
		return r;
	mistake = options_mistake(o, &target);
	if (!mistake)
		return 0;
	snprintf(error, error_size, "%s", mistake);
	return -EINVAL;
}

int syslog_from_url(const char *url, void *options, char *error, size_t error_size)
{
	struct syslog_options *o = options;
	const char *target = NULL;
	char *copy;

	if (!strcmp(url, "syslog:"))
		target = "unix:///dev/log";
	else if (!strncmp(url, "unix:", 5))
		target = url;
	else if (!strncmp(url, "syslog+", 7))
		target = url + 7;
	else if (strncmp(url, "syslog:", 7) != 0)
		return -ENOENT;
	if (!target) {
		snprintf(error, error_size,
			 "`syslog:` alone is /dev/log; others are syslog+udp://HOST:PORT, "
			 "syslog+tcp://HOST:PORT, "
			 "syslog+tls://HOST:PORT and unix:PATH");
		return -EINVAL;
	}
	copy = strdup(target);
	if (!copy)
		return -ENOMEM;
	free(o->target);
	o->target = copy;
	return 0;
}
