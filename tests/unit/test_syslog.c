/* The syslog sink: options, targets, and lines as messages. */
#include "test_sinks.h"

#include <sys/un.h>

#include "../../sinks/syslog.h"

/* ---- options ---- */

static int parse(const char *text, struct syslog_target *target)
{
	char error[512] = "";
	int r = syslog_target_parse(text, target, error, sizeof(error));

	assert_true(r == 0 || (r == -EINVAL && *error));
	return r;
}

static void test_targets(void **state)
{
	static const struct {
		const char *text, *host, *port;
		enum syslog_transport transport;
	} good[] = {
		{"udp://loghost", "loghost", "514", SYSLOG_UDP},
		{"tcp://loghost", "loghost", "514", SYSLOG_TCP},
		{"tls://loghost", "loghost", "6514", SYSLOG_TLS},
		{"udp://10.0.0.1:5514", "10.0.0.1", "5514", SYSLOG_UDP},
		{"tcp://[::1]:601", "::1", "601", SYSLOG_TCP},
		{"tls://[fe80::1%eth0]", "fe80::1%eth0", "6514", SYSLOG_TLS},
	};
	static const char *const wrong[] = {
		"",
		"loghost:514",
		"http://loghost",
		"udp://",
		"udp://:514",
		"udp://host:",
		"udp://host:0",
		"udp://host:65536",
		"udp://host:-1",
		"udp://host:51x",
		"tcp://::1",
		"tcp://[::1",
		"tcp://[::1]514",
		"tcp://[]:514",
		"tcp://host/path",
		"tcp://user@host",
		"unix:",
		"unix://",
	};
	struct syslog_target t;
	char longest[400] = "udp://";

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(parse(good[i].text, &t), 0);
		assert_string_equal(t.host, good[i].host);
		assert_string_equal(t.port, good[i].port);
		assert_int_equal(t.transport, good[i].transport);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(parse(wrong[i], &t), -EINVAL);
	memset(longest + 6, 'h', 255);
	assert_int_equal(parse(longest, &t), 0);
	longest[6 + 255] = 'h';
	assert_int_equal(parse(longest, &t), -EINVAL);
}

static void test_unix_targets(void **state)
{
	struct syslog_target t;
	const struct sockaddr_un *addr = (const struct sockaddr_un *)&t.unix_addr;
	char path[200] = "unix:/";

	assert_int_equal(parse("unix:///dev/log", &t), 0);
	assert_int_equal(t.transport, SYSLOG_UNIX);
	assert_string_equal(addr->sun_path, "/dev/log");
	assert_int_equal(parse("unix:run/log", &t), 0);
	assert_string_equal(addr->sun_path, "run/log");
	assert_int_equal(parse("unix:@tap", &t), 0);
	assert_memory_equal(addr->sun_path, "\0tap", 4);
	assert_int_equal(t.unix_len, offsetof(struct sockaddr_un, sun_path) + 4);
	memset(path + 6, 'p', 106);
	assert_int_equal(parse(path, &t), 0);
	path[6 + 106] = 'p';
	assert_int_equal(parse(path, &t), -EINVAL);
}

static void test_urls(void **state)
{
	static const struct {
		const char *url, *target;
		int result;
	} cases[] = {
		{"syslog:", "unix:///dev/log", 0}, {"syslog+udp://h:1", "udp://h:1", 0},
		{"syslog+tcp://h", "tcp://h", 0},  {"syslog+tls://h", "tls://h", 0},
		{"unix:/x", "unix:/x", 0},         {"syslog+unix:/x", "unix:/x", 0},
		{"syslog://h", NULL, -EINVAL},     {"syslog:/dev/log", NULL, -EINVAL},
		{"kafka://h", NULL, -ENOENT},      {"-", NULL, -ENOENT},
		{"syslog", NULL, -ENOENT}, /* a file of that name */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct syslog_options o = {.target = strdup("udp://before")};
		char error[512] = "";

		assert_int_equal(syslog_from_url(cases[i].url, &o, error, sizeof(error)), cases[i].result);
		assert_int_equal(*error != 0, cases[i].result == -EINVAL);
		assert_string_equal(o.target, cases[i].target ? cases[i].target : "udp://before");
		free(o.target);
	}
}

static struct config *load_sink(const char *options, const char *want_error)
{
	char text[1024], *errors = NULL;
	struct config *config = NULL;
	size_t size;
	char path[] = "/tmp/test-syslog-XXXXXX";
	int fd = mkstemp(path), r;
	FILE *f = open_memstream(&errors, &size);

	snprintf(text, sizeof(text), "version: 1\nsinks: {s: {type: syslog, %s}}\n", options);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	r = config_load(path, NULL, f, &config);
	fclose(f);
	unlink(path);
	if (want_error) {
		assert_int_not_equal(r, 0);
		if (!strstr(errors, want_error))
			fail_msg("%s: %s", options, errors);
	} else if (r) {
		fail_msg("%s: %s", options, errors);
	}
	free(errors);
	return config;
}

static void test_options(void **state)
{
	struct config *config = load_sink("target: \"tls://h\"", NULL);
	const struct syslog_options *o = config->sinks[0].options;

	assert_int_equal(o->facility, 1);
	assert_int_equal(o->severity[CALL_OK], 6);
	assert_int_equal(o->severity[CALL_ERROR], 4);
	assert_int_equal(o->severity[CALL_NOT_READY], 7);
	assert_int_equal(o->severity[CALL_UNFINISHED], 4);
	assert_int_equal(o->severity[SYSLOG_OTHER], 5);
	assert_true(o->verify);
	assert_string_equal(o->app, "cudatap");
	assert_int_equal(syslog_max_message(o, SYSLOG_TLS), 8096);
	assert_int_equal(syslog_max_message(o, SYSLOG_UDP), 2048);
	config_free(config);
	config = load_sink("target: \"udp://h\", facility: local7, severity: {ok: debug}, max_message: 64KiB",
			   NULL);
	o = config->sinks[0].options;
	assert_int_equal(o->facility, 23);
	assert_int_equal(o->severity[CALL_OK], 7);
	assert_int_equal(o->severity[CALL_ERROR], 4);
	assert_int_equal(syslog_max_message(o, SYSLOG_UDP), 65536);
	config_free(config);
}

static void test_wrong_options(void **state)
{
	static const struct {
		const char *options, *error;
	} cases[] = {
		{"facility: user", "\"target\" is missing"},
		{"target: \"udp://h:x\"", "no port"},
		{"target: \"udp://h\", facility: local8", "local8"},
		{"target: \"udp://h\", severity: {ok: fine}", "fine"},
		{"target: \"udp://h\", max_message: 479", "480"},
		{"target: \"udp://h\", app: \"a b\"", "app"},
		{"target: \"udp://h\", app: \"a[1]\"", "app"},
		{"target: \"udp://h\", sd_id: \"a=b\"", "sd_id"},
		{"target: \"udp://h\", framing: newline", "framing"},
		{"target: \"tcp://h\", ca_file: /x", "tls://"},
		{"target: \"tcp://h\", verify: false", "tls://"},
		{"target: \"tls://h\", cert_file: /x", "go together"},
		{"target: \"tls://h\", key_file: /x", "go together"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		load_sink(cases[i].options, cases[i].error);
}

/* ---- messages ---- */

#define BODY "{\"type\":\"call\",\"seq\":7,\"args\":{\"a\":1},\"out\":{},\"env\":\"x\"}\n"

static const struct sink_origin origin = {"gpu07", "k3v9q2m7x0ab"};

static struct syslog_options defaults(void)
{
	return (struct syslog_options){.facility = 16,
				       .severity = {6, 4, 7, 3, 5},
				       .app = (char *)"cudatap",
				       .sd_id = (char *)"cudatap@32473"};
}

static struct line body_line(void)
{
	struct line line = {
		.data = BODY, .len = sizeof(BODY) - 1, .meta = {.seq = 7, .pid = 42, .type = EVENT_CALL}};

	line.meta.ts_ns = 1796055663123456789; /* 2026-11-30T16:21:03 UTC */
	line.meta.args_off = (uint32_t)(strstr(BODY, ",\"args\"") - BODY);
	line.meta.args_len = sizeof(",\"args\":{\"a\":1},\"out\":{}") - 1;
	return line;
}

/* The message in one piece; NULL: too large. */
static char *message(struct syslog_form *form, const struct line *line, size_t max)
{
	static char text[FANOUT_MAX_LINE + SYSLOG_MAX_HEAD];
	char head[SYSLOG_MAX_HEAD], *p = text;
	struct iovec iov[SYSLOG_PIECES];
	int count = 0;
	size_t size = syslog_message(form, line, max, head, iov, &count);

	for (int i = 0; size && i < count; i++) {
		memcpy(p, iov[i].iov_base, iov[i].iov_len);
		p += iov[i].iov_len;
	}
	assert_true(!size || (size_t)(p - text) == size);
	*p = 0;
	return size ? text : NULL;
}

static void expect_begin(const char *text, const char *want)
{
	if (strncmp(text, want, strlen(want)) != 0)
		fail_msg("%s does not begin with %s", text, want);
}

static void test_rfc5424(void **state)
{
	struct syslog_options o = defaults();
	struct line line = body_line();
	struct syslog_form form;

	syslog_form_init(&form, &o, SYSLOG_UDP, &origin);
	assert_string_equal(message(&form, &line, 8096),
			    "<134>1 2026-11-30T16:21:03.123456Z gpu07 cudatap 42 call "
			    "[cudatap@32473 run=\"k3v9q2m7x0ab\" seq=\"7\"] "
			    "{\"type\":\"call\",\"seq\":7,\"args\":{\"a\":1},\"out\":{},\"env\":\"x\"}");
	line.meta.status = CALL_ERROR;
	expect_begin(message(&form, &line, 8096), "<132>1 ");
	line.meta.status = CALL_NOT_READY;
	expect_begin(message(&form, &line, 8096), "<135>1 ");
	line.meta.status = CALL_UNFINISHED;
	expect_begin(message(&form, &line, 8096), "<131>1 ");
	line.meta.type = EVENT_LOSS;
	line.meta.seq = 0;
	line.meta.status = CALL_OK;
	expect_begin(message(&form, &line, 8096), "<133>1 ");
	assert_non_null(strstr(message(&form, &line, 8096), " loss [cudatap@32473 run=\"k3v9q2m7x0ab\"] {"));
	/* strange hosts, and none */
	syslog_form_init(&form, &o, SYSLOG_UDP, &(struct sink_origin){"a b\xc3\xbc", NULL});
	assert_non_null(strstr(message(&form, &line, 8096), "Z a?b?? cudatap "));
	syslog_form_init(&form, &o, SYSLOG_UDP, NULL);
	assert_non_null(strstr(message(&form, &line, 8096), "Z - cudatap "));
}

static void test_framing(void **state)
{
	struct syslog_options o = defaults();
	struct line line = body_line();
	struct syslog_form form;
	char *text, *rest;
	size_t size;

	syslog_form_init(&form, &o, SYSLOG_TCP, &origin);
	text = message(&form, &line, 8096);
	size = strtoul(text, &rest, 10);
	assert_int_equal(size, strlen(rest + 1));
	expect_begin(rest, " <134>1 2026");
	assert_int_equal(text[strlen(text) - 1], '}');
	o.framing = SYSLOG_NEWLINE;
	syslog_form_init(&form, &o, SYSLOG_TCP, &origin);
	text = message(&form, &line, 8096);
	expect_begin(text, "<134>1 2026");
	assert_string_equal(text + strlen(text) - 2, "}\n");
}

static void test_local(void **state)
{
	struct syslog_options o = defaults();
	struct line line = body_line();
	struct syslog_form form;

	setenv("TZ", "UTC-2", 1);
	tzset();
	syslog_form_init(&form, &o, SYSLOG_UNIX, &origin);
	expect_begin(message(&form, &line, 8096), "<134>Nov 30 18:21:03 cudatap[42]: {\"type\"");
	assert_string_equal(strrchr(message(&form, &line, 8096), '}'), "}\n");
	line.meta.ts_ns = -1; /* 1970-01-01, after midnight there */
	expect_begin(message(&form, &line, 8096), "<134>Jan  1 01:59:59 cudatap[42]: {");
	o.protocol = SYSLOG_LOCAL;
	o.cookie = true;
	syslog_form_init(&form, &o, SYSLOG_UDP, &origin);
	assert_memory_equal(message(&form, &line, 8096), "<134>Jan  1 01:59:59 gpu07 cudatap[42]: @cee: {",
			    47);
	line.meta.pid = 0;
	assert_int_equal(strtol(strchr(message(&form, &line, 8096), '[') + 1, NULL, 10), getpid());
	unsetenv("TZ");
	tzset();
}

/* At each limit: whole, without its arguments, or not at all; never more than the limit. */
static void test_limits(void **state)
{
	static const char cut[] = "{\"type\":\"call\",\"seq\":7,\"env\":\"x\",\"truncated\":true}";
	struct syslog_options o = defaults();
	struct line line = body_line();
	struct syslog_form form;
	size_t whole, head, seen[3] = {0};

	for (int framing = SYSLOG_OCTET_COUNTING; framing <= SYSLOG_NEWLINE; framing++) {
		o.framing = framing;
		syslog_form_init(&form, &o, SYSLOG_UDP, &origin);
		whole = strlen(message(&form, &line, 8096));
		head = whole - (line.len - 1);
		syslog_form_init(&form, &o, SYSLOG_TCP, &origin);
		for (size_t max = whole + 2; max > head; max--) {
			char *text = message(&form, &line, max), *json;
			size_t len;

			if (!text) {
				assert_true(max < head + sizeof(cut) - 1);
				seen[0]++;
				continue;
			}
			text += strcspn(text, "<");
			json = strchr(text, '{');
			len = strcspn(text, "\n");
			text[len] = 0;
			assert_true(len <= max);
			assert_true(max >= whole || len == head + sizeof(cut) - 1);
			assert_int_equal(strcmp(json, cut) == 0, max < whole);
			seen[max < whole ? 1 : 2]++;
		}
	}
	assert_true(seen[0] && seen[1] && seen[2]);
	line.meta.args_len = 0;
	assert_null(message(&form, &line, whole - 1));
	/* nonsense in the meta data cuts nothing */
	line.meta.args_len = 1000;
	assert_null(message(&form, &line, whole - 1));
}

/* The longest of everything fits into SYSLOG_MAX_HEAD (checked by the address sanitizer too). */
static void test_longest_head(void **state)
{
	struct syslog_options o = defaults();
	struct line line = body_line();
	struct syslog_form form;
	char host[300], app[49], id[33];

	memset(host, 'h', sizeof(host));
	memset(app, 'a', sizeof(app));
	memset(id, 'i', sizeof(id));
	host[299] = app[48] = id[32] = 0;
	o.app = app;
	o.sd_id = id;
	o.cookie = true;
	line.meta.seq = UINT64_MAX;
	line.meta.pid = UINT32_MAX;
	for (int transport = SYSLOG_UNIX; transport <= SYSLOG_TLS; transport++) {
		syslog_form_init(&form, &o, transport, &(struct sink_origin){host, host});
		assert_non_null(message(&form, &line, 1 << 20));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_targets),       cmocka_unit_test(test_unix_targets),
		cmocka_unit_test(test_urls),          cmocka_unit_test(test_options),
		cmocka_unit_test(test_wrong_options), cmocka_unit_test(test_rfc5424),
		cmocka_unit_test(test_framing),       cmocka_unit_test(test_local),
		cmocka_unit_test(test_limits),        cmocka_unit_test(test_longest_head),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
