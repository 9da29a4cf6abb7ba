/*
 * One line as one syslog message:
 *
 *	rfc5424	[LEN ]<PRI>1 TIMESTAMP HOST APP PROCID MSGID [SD] JSON[\n]
 *	local	[LEN ]<PRI>Mmm dd hh:mm:ss [HOST ]APP[PID]: JSON[\n]
 *
 * There is no BOM before the JSON: JSON is UTF-8 anyway and must not begin
 * with one (RFC 8259, 8.1), and receivers pass it on into the message. HOST
 * stands in the local form on the network only (RFC 3164): on a unix socket
 * the receiver knows the host, and takes what stands there for APP.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "syslog.h"

#include "../streamer/encode/number.h"
#include "../streamer/encode/timestamp.h"

#define COUNT_ROOM 8 /* "1048576 " */

static const char truncated[] = ",\"truncated\":true}\n";

/* A header's words are printable ASCII; "-" where there is nothing. */
static void put_word(char *out, size_t size, const char *text)
{
	size_t n = 0;

	for (; text && text[n] && n + 1 < size; n++)
		out[n] = (char)(text[n] > ' ' && text[n] <= '~' ? text[n] : '?');
	if (!n)
		out[n++] = '-';
	out[n] = 0;
}

void syslog_form_init(struct syslog_form *form, const struct syslog_options *options,
		      enum syslog_transport transport, const struct sink_origin *origin)
{
	bool network = transport != SYSLOG_UNIX;
	char host[256];

	*form = (struct syslog_form){.second = INT64_MIN, .self = (uint32_t)getpid()};
	form->local = options->protocol == SYSLOG_LOCAL || (options->protocol == SYSLOG_AUTO && !network);
	form->counted = options->framing == SYSLOG_OCTET_COUNTING ||
			(options->framing == SYSLOG_FRAMING_AUTO && network);
	syslog_form_connected(form, transport == SYSLOG_UDP);
	form->cookie = options->cookie ? "@cee: " : "";
	put_word(host, sizeof(host), origin ? origin->host : NULL);
	for (int i = 0; i < SYSLOG_NSEVERITIES; i++)
		snprintf(form->pri[i], sizeof(form->pri[i]), form->local ? "<%u>" : "<%u>1 ",
			 (unsigned)(options->facility << 3 | options->severity[i]) & 0xff);
	if (!form->local)
		snprintf(form->name, sizeof(form->name), " %s %s ", host, options->app);
	else if (network)
		snprintf(form->name, sizeof(form->name), " %s %s[", host, options->app);
	else
		snprintf(form->name, sizeof(form->name), " %s[", options->app);
	put_word(host, 64, origin ? origin->run : NULL);
	snprintf(form->sd, sizeof(form->sd), "[%.32s run=\"%.32s\"", options->sd_id, host);
}

void syslog_form_connected(struct syslog_form *form, bool datagram)
{
	form->octet_counting = !datagram && form->counted;
	form->newline = !datagram && !form->counted;
}

static char *put_text(char *p, const char *text)
{
	return put_bytes(p, text, strlen(text));
}

/* "Nov  9 16:21:03" */
static void put_local_time(char *p, const struct tm *tm)
{
	static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
					   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

	p = put_bytes(p, months[tm->tm_mon % 12], 3);
	*p++ = ' ';
	p = put_2digits(p, (unsigned)tm->tm_mday);
	p[-2] = p[-2] == '0' ? ' ' : p[-2];
	*p++ = ' ';
	p = put_2digits(p, (unsigned)tm->tm_hour);
	*p++ = ':';
	p = put_2digits(p, (unsigned)tm->tm_min);
	*p++ = ':';
	put_2digits(p, (unsigned)tm->tm_sec);
}

static char *put_local_date(char *p, struct syslog_form *form, int64_t ts_ns)
{
	time_t second = ts_ns / TIMESTAMP_NS - (ts_ns % TIMESTAMP_NS < 0);
	struct tm tm = {0};

	if (second != form->second) {
		form->second = second;
		if (!localtime_r(&second, &tm))
			tm.tm_mday = 1;
		put_local_time(form->date, &tm);
	}
	return put_bytes(p, form->date, 15);
}

/* PROCID MSGID [SD] */
static char *put_identity(char *p, const struct syslog_form *form, const struct line_meta *meta)
{
	p = put_u64(p, meta->pid ? meta->pid : form->self);
	*p++ = ' ';
	p = put_text(p, meta->type < EVENT_NTYPES ? event_type_names[meta->type] : "-");
	*p++ = ' ';
	p = put_text(p, form->sd);
	if (meta->seq) {
		p = PUT_LITERAL(p, " seq=\"");
		p = put_u64(p, meta->seq);
		*p++ = '"';
	}
	return PUT_LITERAL(p, "] ");
}

static char *put_head(char *p, struct syslog_form *form, const struct line_meta *meta)
{
	bool call = meta->type == EVENT_CALL && meta->status < SYSLOG_OTHER;

	p = put_text(p, form->pri[call ? meta->status : SYSLOG_OTHER]);
	if (form->local) {
		p = put_local_date(p, form, meta->ts_ns);
		p = put_text(p, form->name);
		p = put_u64(p, meta->pid ? meta->pid : form->self);
		p = PUT_LITERAL(p, "]: ");
	} else {
		/* of the nine digits RFC 5424 allows six */
		p = put_timestamp(p, &form->utc, meta->ts_ns) - 3;
		p[-1] = 'Z';
		p = put_text(p, form->name);
		p = put_identity(p, form, meta);
	}
	return put_text(p, form->cookie);
}

/* The line without its arguments, marked. Returns its bytes, newline included. */
static size_t cut_line(const struct line *line, struct iovec *iov)
{
	const struct line_meta *meta = &line->meta;
	size_t behind = meta->args_off + (size_t)meta->args_len;

	iov[0] = (struct iovec){(char *)line->data, meta->args_off};
	/* up to the closing brace, which the mark brings */
	iov[1] = (struct iovec){(char *)line->data + behind, line->len - behind - 2};
	iov[2] = (struct iovec){(char *)truncated, sizeof(truncated) - 1};
	return iov[0].iov_len + iov[1].iov_len + iov[2].iov_len;
}

size_t syslog_message(struct syslog_form *form, const struct line *line, size_t max, char *head,
		      struct iovec *iov, int *ret_count)
{
	char *begin = head + COUNT_ROOM, *end = put_head(begin, form, &line->meta);
	size_t head_len = (size_t)(end - begin), body = line->len;
	int n = 2;

	iov[1] = (struct iovec){(char *)line->data, line->len};
	/* the newline is framing, if anything */
	if (head_len + body - 1 > max && line->meta.args_len &&
	    line->meta.args_off + (size_t)line->meta.args_len + 2 <= line->len) {
		body = cut_line(line, iov + 1);
		n = 4;
	}
	if (head_len + body - 1 > max)
		return 0;
	if (!form->newline) {
		iov[n - 1].iov_len--;
		body--;
	}
	if (form->octet_counting) {
		size_t len = head_len + body;
		unsigned digits = count_digits(len);

		begin -= digits + 1;
		put_u64(begin, len);
		begin[digits] = ' ';
		head_len += digits + 1;
	}
	iov[0] = (struct iovec){begin, head_len};
	*ret_count = n;
	return head_len + body;
}
