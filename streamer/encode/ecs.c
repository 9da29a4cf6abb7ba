/*
 * The format "ecs": calls as documents of the Elastic Common Schema (see
 * docs/formats.md). What the schema has no field for stands in the object
 * `cuda`, which is the last one of the line.
 *
 * A line:
 *	start ts middle seq "sequence" action duration outcome }	@timestamp, ecs, event
 *	error
 *	who [process] [user] cuda ns_pid				the thread's, made once
 *	api family symbol depth parent sample_n ret status keys args out
 *	tail
 */
#include <string.h>

#include "ecs.h"
#include "keys.h"

#define LABELS ",\"labels\":"

/* ---- fragments ---- */

/* What is around a key's value; keys that are not here are parts of other fragments. */
static const struct {
	const char *open, *close;
} shapes[NFIELDS] = {
	[FIELD_NS_PID] = {",\"ns_pid\":", ""},
	[FIELD_DEPTH] = {",\"depth\":", ""},
	[FIELD_SAMPLE_N] = {",\"sample_n\":", ""},
	[FIELD_DURATION_NS] = {",\"duration\":", ""},
	[FIELD_RET] = {",\"ret\":", ""},
	[FIELD_ERROR] = {",\"error\":{\"code\":\"", "\"}"},
	[FIELD_BYTES] = {",\"bytes\":", ""},
	[FIELD_DIRECTION] = {",\"direction\":\"", "\""},
	[FIELD_DEVICE] = {",\"device\":", ""},
	[FIELD_STREAM] = {",\"stream\":", ""},
	[FIELD_KERNEL] = {",\"kernel\":\"", "\""},
	[FIELD_KERNEL_MANGLED] = {",\"kernel_mangled\":\"", "\""},
	[FIELD_KERNEL_HANDLE] = {",\"kernel_handle\":", ""},
	[FIELD_GRID] = {",\"grid\":", ""},
	[FIELD_BLOCK] = {",\"block\":", ""},
	[FIELD_SHARED_BYTES] = {",\"shared_bytes\":", ""},
	[FIELD_PTR] = {",\"ptr\":", ""},
	[FIELD_SRC_PTR] = {",\"src_ptr\":", ""},
	[FIELD_ARGS] = {",\"args\":", ""},
	[FIELD_OUT] = {",\"out\":", ""},
	/* of the thread's part: their places are in objects, see put_process() */
	[FIELD_PID] = {",\"pid\":", ""},
	[FIELD_COMM] = {",\"name\":\"", "\""},
	[FIELD_TID] = {",\"id\":", ""},
	[FIELD_THREAD] = {",\"name\":\"", "\""},
	[FIELD_UID] = {",\"user\":{\"id\":\"", "\"}"},
	[FIELD_EXE] = {",\"executable\":\"", "\""},
	[FIELD_CMDLINE] = {",\"command_line\":\"", "\""},
	[FIELD_CONTAINER_ID] = {",\"container\":{\"id\":\"", "\"}"},
	[FIELD_CGROUP] = {",\"cgroup\":\"", "\""},
	[FIELD_POD_UID] = {",\"pod_uid\":\"", "\""},
};

static void add_text(struct fragments *f, enum encode_field field, const char *open, const char *value,
		     const char *close)
{
	if (fragments_wanted(f, field))
		FRAGMENT(f, open, value, close);
}

static void add_row(struct fragments *f, unsigned index)
{
	const struct table_row *row = &table_rows[index];
	struct row_fragments *made = &f->rows[index];
	size_t start = f->len;

	add_text(f, FIELD_FUNC, ",\"action\":\"", row->func, "\"");
	made->first = fragments_since(f, start);
	start = f->len;
	add_text(f, FIELD_API, ",\"api\":\"", fragments_api(row), "\"");
	add_text(f, FIELD_FAMILY, ",\"family\":\"", table_families[row->family].name, "\"");
	if (strcmp(row->symbol, row->func))
		add_text(f, FIELD_SYMBOL, ",\"symbol\":\"", row->symbol, "\"");
	made->second = fragments_since(f, start);
	start = f->len;
	add_text(f, FIELD_PARENT, ",\"parent\":\"", row->func, "\"");
	made->parent = fragments_since(f, start);
}

static void add_error(struct fragments *f, unsigned api, unsigned index)
{
	const struct table_error *error = &table_errors[api][index];
	size_t start = f->len, members;
	char code[16];

	*put_i64(code, error->code) = '\0';
	FRAGMENT(f, ",\"error\":");
	members = f->len;
	add_text(f, FIELD_ERROR, ",\"code\":\"", code, "\"");
	add_text(f, FIELD_ERROR, ",\"type\":\"", error->name, "\"");
	add_text(f, FIELD_ERROR_MESSAGE, ",\"message\":\"", error->message, "\"");
	if (f->len == members || f->error) { /* an object without members: not there */
		f->len = start;
		return;
	}
	f->text[members] = '{';
	FRAGMENT(f, "}");
	f->errors[api][index].first = fragments_since(f, start);
}

static void add_results(struct fragments *f)
{
	static const char *const names[][2] = {
		[CALL_OK] = {"ok", "success"},
		[CALL_ERROR] = {"error", "failure"},
		[CALL_NOT_READY] = {"not_ready", "success"},
		[CALL_UNFINISHED] = {"unfinished", "unknown"},
	};
	size_t start;

	for (int i = CALL_OK; i <= CALL_UNFINISHED; i++) {
		start = f->len;
		add_text(f, FIELD_STATUS, ",\"outcome\":\"", names[i][1], "\"");
		FRAGMENT(f, "}");
		f->status[i].first = fragments_since(f, start);
		start = f->len;
		add_text(f, FIELD_STATUS, ",\"status\":\"", names[i][0], "\"");
		f->status[i].second = fragments_since(f, start);
	}
	for (unsigned api = 0; api < TABLE_NAPIS; api++)
		for (unsigned i = 0; i < table_nerrors[api]; i++)
			add_error(f, api, i);
}

/* A constant field takes the place of a variable of its name. */
static void drop_hidden(struct fragments *f, const struct encoder_options *options, const char *label)
{
	for (unsigned i = 0; i < f->nenv; i++)
		if (!strcmp(options->env[i], label))
			f->env[i].len = 0;
}

/* `host`, and the constant fields, which are labels as variables are. */
static void add_who(struct fragments *f, const struct encoder_options *options)
{
	char name[ECS_MAX_LABEL + 1];
	size_t start = f->len;

	add_text(f, FIELD_HOST, ",\"host\":{\"name\":\"", options->host, "\"}");
	f->who = fragments_since(f, start);
	fragments_add_env(f, options, ",\"", "\":\"", "\"");
	start = f->len;
	FRAGMENT(f, LABELS);
	for (size_t i = 0; i < options->nstatics; i++) {
		ecs_label(name, options->statics[i].name);
		FRAGMENT(f, ",\"", name, "\":\"", options->statics[i].value, "\"");
		drop_hidden(f, options, name);
	}
	f->labels = fragments_since(f, start);
}

static void ecs_prepare(struct fragments *f, const struct encoder_options *options)
{
	for (int field = 0; field < NFIELDS; field++) {
		if (!shapes[field].open || !fragments_wanted(f, field))
			continue;
		f->open[field] = FRAGMENT(f, shapes[field].open);
		f->close[field] = FRAGMENT(f, shapes[field].close);
	}
	for (unsigned r = 0; r < table_nrows; r++)
		add_row(f, r);
	add_results(f);
	add_who(f, options);
	f->start = FRAGMENT(f, "{\"@timestamp\":\"");
	f->middle = FRAGMENT(f,
			     "\",\"ecs\":{\"version\":\"" ECS_VERSION
			     "\"},\"event\":{\"kind\":\"event\",\"category\":[\"api\"],\"type\":[\"info\"],"
			     "\"module\":\"cudatap\",\"dataset\":\"cudatap.call\",\"id\":\"",
			     options->run, "-");
	f->object = FRAGMENT(f, ",\"cuda\":{\"run\":\"", options->run, "\"");
	f->tail = FRAGMENT(f, "}}\n");
}

/* ---- who made the call ---- */

static char *put_process(char *p, const struct fragments *f, const struct thread *thread)
{
	char *start = p, *members = PUT_LITERAL(p, ",\"process\":"), *sub;

	p = put_number(members, f, FIELD_PID, thread->pid);
	p = put_name(p, f, FIELD_COMM, thread->comm);
	if (thread->process) {
		p = put_prepared(p, f, FIELD_EXE, &thread->process->exe);
		p = put_prepared(p, f, FIELD_CMDLINE, &thread->process->cmdline);
	}
	sub = PUT_LITERAL(p, ",\"thread\":");
	p = put_object_end(
		put_name(put_number(sub, f, FIELD_TID, thread->tid), f, FIELD_THREAD, thread->thread), p,
		sub);
	return put_object_end(p, start, members);
}

static char *ecs_who(char *p, const struct encoder *encoder, const struct thread *thread)
{
	const struct fragments *f = &encoder->fragments;
	const struct process *process = thread->process;
	char *labels;

	p = labels = put_fragment(p, f->text, f->who);
	p = put_environ(put_fragment(p, f->text, f->labels), f, process);
	p = put_object_end(p, labels, labels + sizeof(LABELS) - 1);
	p = put_process(p, f, thread);
	if (thread->start_ns) /* its record has come */
		p = put_number(p, f, FIELD_UID, thread->uid);
	if (process)
		p = put_name(p, f, FIELD_CONTAINER_ID, process->container_id);
	p = put_fragment(p, f->text, f->object);
	if (process) {
		p = put_prepared(p, f, FIELD_CGROUP, &process->cgroup);
		p = put_name(p, f, FIELD_POD_UID, process->pod_uid);
	}
	return thread->ns_pid ? put_number(p, f, FIELD_NS_PID, thread->ns_pid) : p;
}

/* ---- the line ---- */

static char *put_error(char *p, const struct fragments *f, const struct call *call)
{
	const struct table_error *errors = table_errors[call->row->api];

	if (call->error)
		return put_fragment(p, f->text, f->errors[call->row->api][call->error - errors].first);
	if (call->status != CALL_ERROR || !f->open[FIELD_ERROR].len)
		return p;
	p = put_fragment(p, f->text, f->open[FIELD_ERROR]);
	p = put_i64(p, call->ret);
	p = PUT_LITERAL(p, "\",\"type\":\"");
	p = put_unknown_error(p, call);
	return put_fragment(p, f->text, f->close[FIELD_ERROR]);
}

static char *put_event(char *p, struct encoder *encoder, const struct call *call, uint64_t seq, int64_t ts_ns)
{
	const struct fragments *f = &encoder->fragments;
	char *digits;
	size_t n;

	p = put_fragment(p, f->text, f->start);
	p = put_timestamp(p, &encoder->clock, ts_ns);
	p = digits = put_fragment(p, f->text, f->middle);
	p = put_u64(p, seq);
	n = (size_t)(p - digits);
	p = PUT_LITERAL(p, "\",\"sequence\":");
	p = put_bytes(p, digits, n);
	p = put_fragment(p, f->text, f->rows[call->row_id].first);
	p = put_number(p, f, FIELD_DURATION_NS, encode_duration(call->rec));
	return put_fragment(p, f->text, f->status[call->status].first);
}

static size_t ecs_call(struct encoder *encoder, const struct call *call, struct thread *thread, uint64_t seq,
		       int64_t ts_ns, char *out, struct line_meta *ret_meta)
{
	const struct fragments *f = &encoder->fragments;
	const struct thread_prefix *who = encode_who(encoder, thread);
	char *p = put_event(out, encoder, call, seq, ts_ns), *args;

	p = put_error(p, f, call);
	p = put_bytes(p, who->data, who->len);
	p = put_fragment(p, f->text, f->rows[call->row_id].second);
	if (encoder->nested)
		p = put_nesting(p, f, call->rec);
	p = put_weight(p, f, call->rec);
	if (call->row->ret == TABLE_RET_STATUS && call->status != CALL_UNFINISHED)
		p = put_signed(p, f, FIELD_RET, call->ret);
	p = put_fragment(p, f->text, f->status[call->status].second);
	args = p = put_keys(p, f, call);
	if (encoder->args)
		p = write_arguments(f, call, p, out + ENCODE_MAX_LINE - f->tail.len);
	*ret_meta = encode_meta(call, thread, seq, ts_ns);
	ret_meta->args_off = (uint32_t)(args - out);
	ret_meta->args_len = (uint32_t)(p - args);
	return (size_t)(put_fragment(p, f->text, f->tail) - out);
}

const struct encode_format encode_format_ecs = {
	.name = "ecs",
	.dialect = &dialect_text,
	.prepare = ecs_prepare,
	.who = ecs_who,
	.call = ecs_call,
	.event = encode_ecs_event,
};
