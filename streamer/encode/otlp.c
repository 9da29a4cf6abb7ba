/*
 * The format "otlp": calls as spans in OTLP/JSON, one export request of one
 * span per line (see docs/formats.md). Sinks keep account of single events,
 * filter and order them: what a line is about must be one event.
 *
 * A line:
 *	who process scopeSpans "traceId":"		the thread's, made once: where
 *	trace "spanId" span "parentSpanId" parent
 *	name kind start end status "attributes":[ seq
 *	thread.id thread.name				the thread's second part
 *	api family symbol depth parent sample_n ret status error keys args out
 *	tail
 */
#include <string.h>

#include "keys.h"
#include "otlp.h"

#define TEXT(name) ",{\"key\":\"" name "\",\"value\":{\"stringValue\":\""
#define TEXT_END   "\"}}"
#define INT(name)  ",{\"key\":\"" name "\",\"value\":{\"intValue\":\""
#define INT_END    "\"}}"
#define ANY(name)  ",{\"key\":\"" name "\",\"value\":"
#define ANY_END    "}"
#define HEX(name)  ",{\"key\":\"" name "\",\"value\":{\"stringValue\":"
#define HEX_END    "}}"

/* ---- fragments ---- */

static const struct {
	const char *open, *close;
} shapes[NFIELDS] = {
	[FIELD_PID] = {INT("process.pid"), INT_END},
	[FIELD_NS_PID] = {INT("cuda.ns_pid"), INT_END},
	[FIELD_TID] = {INT("thread.id"), INT_END},
	[FIELD_COMM] = {TEXT("process.executable.name"), TEXT_END},
	[FIELD_THREAD] = {TEXT("thread.name"), TEXT_END},
	[FIELD_UID] = {INT("process.user.id"), INT_END},
	[FIELD_EXE] = {TEXT("process.executable.path"), TEXT_END},
	[FIELD_CMDLINE] = {TEXT("process.command_line"), TEXT_END},
	[FIELD_CGROUP] = {TEXT("process.linux.cgroup"), TEXT_END},
	[FIELD_CONTAINER_ID] = {TEXT("container.id"), TEXT_END},
	[FIELD_POD_UID] = {TEXT("k8s.pod.uid"), TEXT_END},
	[FIELD_DEPTH] = {INT("cuda.depth"), INT_END},
	[FIELD_SAMPLE_N] = {INT("cuda.sample_n"), INT_END},
	[FIELD_RET] = {INT("cuda.ret"), INT_END},
	[FIELD_ERROR] = {TEXT("error.type"), TEXT_END},
	[FIELD_BYTES] = {INT("cuda.bytes"), INT_END},
	[FIELD_DIRECTION] = {TEXT("cuda.direction"), TEXT_END},
	[FIELD_DEVICE] = {INT("cuda.device"), INT_END},
	[FIELD_STREAM] = {HEX("cuda.stream"), HEX_END},
	[FIELD_KERNEL] = {TEXT("cuda.kernel"), TEXT_END},
	[FIELD_KERNEL_MANGLED] = {TEXT("cuda.kernel_mangled"), TEXT_END},
	[FIELD_KERNEL_HANDLE] = {HEX("cuda.kernel_handle"), HEX_END},
	[FIELD_GRID] = {ANY("cuda.grid"), ANY_END},
	[FIELD_BLOCK] = {ANY("cuda.block"), ANY_END},
	[FIELD_SHARED_BYTES] = {INT("cuda.shared_bytes"), INT_END},
	[FIELD_PTR] = {HEX("cuda.ptr"), HEX_END},
	[FIELD_SRC_PTR] = {HEX("cuda.src_ptr"), HEX_END},
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
	size_t start;

	/* a span without a name is none */
	made->first = FRAGMENT(f, "\",\"name\":\"", row->func, "\"");
	start = f->len;
	add_text(f, FIELD_API, TEXT("cuda.api"), fragments_api(row), TEXT_END);
	add_text(f, FIELD_FAMILY, TEXT("cuda.family"), table_families[row->family].name, TEXT_END);
	if (strcmp(row->symbol, row->func))
		add_text(f, FIELD_SYMBOL, TEXT("cuda.symbol"), row->symbol, TEXT_END);
	made->second = fragments_since(f, start);
	start = f->len;
	add_text(f, FIELD_PARENT, TEXT("cuda.parent"), row->func, TEXT_END);
	made->parent = fragments_since(f, start);
}

static void add_results(struct fragments *f)
{
	static const char *const names[] = {
		[CALL_OK] = "ok",
		[CALL_ERROR] = "error",
		[CALL_NOT_READY] = "not_ready",
		[CALL_UNFINISHED] = "unfinished",
	};
	size_t start;

	for (int i = CALL_OK; i <= CALL_UNFINISHED; i++) {
		start = f->len;
		add_text(f, FIELD_STATUS, TEXT("cuda.status"), names[i], TEXT_END);
		f->status[i].first = fragments_since(f, start);
	}
	for (unsigned api = 0; api < TABLE_NAPIS; api++) {
		for (unsigned i = 0; i < table_nerrors[api]; i++) {
			start = f->len;
			FRAGMENT(f, ",\"status\":{\"code\":2");
			add_text(f, FIELD_ERROR_MESSAGE, ",\"message\":\"", table_errors[api][i].message,
				 "\"");
			FRAGMENT(f, "}");
			f->errors[api][i].first = fragments_since(f, start);
			start = f->len;
			add_text(f, FIELD_ERROR, "", table_errors[api][i].name, TEXT_END);
			f->errors[api][i].second = fragments_since(f, start);
		}
	}
}

/* The resource, as far as all processes of the run share it. */
static void add_who(struct fragments *f, const struct encoder_options *options)
{
	const char *service = "cudatap";
	size_t start = f->len;

	for (size_t i = 0; i < options->nstatics; i++)
		if (!strcmp(options->statics[i].name, OTLP_SERVICE))
			service = options->statics[i].value;
	FRAGMENT(f,
		 "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"" OTLP_SERVICE
		 "\",\"value\":{\"stringValue\":\"",
		 service, TEXT_END TEXT("service.instance.id"), options->run, TEXT_END);
	add_text(f, FIELD_HOST, TEXT("host.name"), options->host, TEXT_END);
	for (size_t i = 0; i < options->nstatics; i++)
		if (strcmp(options->statics[i].name, OTLP_SERVICE))
			FRAGMENT(f, ",{\"key\":\"", options->statics[i].name,
				 "\",\"value\":{\"stringValue\":\"", options->statics[i].value, TEXT_END);
	f->who = fragments_since(f, start);
}

static void otlp_prepare(struct fragments *f, const struct encoder_options *options)
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
	fragments_add_env(f, options, ",{\"key\":\"" OTLP_VARIABLE, "\",\"value\":{\"stringValue\":\"",
			  TEXT_END);
	f->start = FRAGMENT(f, ",\"kind\":1,\"startTimeUnixNano\":\"");
	f->middle = FRAGMENT(f, ",\"attributes\":[{\"key\":\"cuda.seq\",\"value\":{\"intValue\":\"");
	f->object = FRAGMENT(f, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"" OTLP_SCOPE
				"\"},\"spans\":[{\"traceId\":\"");
	f->tail = FRAGMENT(f, "]}]}]}]}\n");
}

/* ---- who made the call ---- */

/* Two parts of a line in one thread_prefix, which is malloc()ed: aligned. */
struct who {
	uint32_t first, second; /* their lengths */
	char text[];
};

static char *otlp_who(char *p, const struct encoder *encoder, const struct thread *thread)
{
	const struct fragments *f = &encoder->fragments;
	const struct process *process = thread->process;
	struct who *who = (struct who *)p;
	char *second;

	p = put_fragment(who->text, f->text, f->who);
	p = put_number(p, f, FIELD_PID, thread->pid);
	if (thread->ns_pid)
		p = put_number(p, f, FIELD_NS_PID, thread->ns_pid);
	p = put_name(p, f, FIELD_COMM, thread->comm);
	if (thread->start_ns) /* its record has come */
		p = put_number(p, f, FIELD_UID, thread->uid);
	if (process) {
		p = put_prepared(p, f, FIELD_EXE, &process->exe);
		p = put_prepared(p, f, FIELD_CMDLINE, &process->cmdline);
		p = put_prepared(p, f, FIELD_CGROUP, &process->cgroup);
		p = put_name(p, f, FIELD_CONTAINER_ID, process->container_id);
		p = put_name(p, f, FIELD_POD_UID, process->pod_uid);
		p = put_environ(p, f, process);
	}
	second = p = put_fragment(p, f->text, f->object);
	who->first = (uint32_t)(p - who->text);
	p = put_number(p, f, FIELD_TID, thread->tid);
	p = put_name(p, f, FIELD_THREAD, thread->thread);
	who->second = (uint32_t)(p - second);
	return p;
}

/* ---- the line ---- */

static char *put_id(char *p, uint64_t id)
{
	uint64_t digits[2] = {hex_digits((uint32_t)(id >> 32)), hex_digits((uint32_t)id)};

	memcpy(p, digits, sizeof(digits));
	return p + sizeof(digits);
}

static char *put_ids(char *p, const struct encoder *encoder, const struct rec_call *rec)
{
	bool inner = encoder->nested && rec->depth;
	uint64_t outer_ns = inner ? rec->parent_start_ns : rec->start_ns;
	uint64_t process = otlp_id(encoder->run_hash ^ rec->pid_tgid >> 32);

	p = put_id(p, process);
	p = put_id(p, otlp_id(process + outer_ns / OTLP_TRACE_NS));
	p = PUT_LITERAL(p, "\",\"spanId\":\"");
	p = put_id(p, otlp_span_id(encoder->run_hash, rec->pid_tgid, rec->start_ns));
	if (!inner)
		return p;
	p = PUT_LITERAL(p, "\",\"parentSpanId\":\"");
	return put_id(p, otlp_span_id(encoder->run_hash, rec->pid_tgid, rec->parent_start_ns));
}

/* Nanoseconds since 1970: no time before it can be told. */
static char *put_times(char *p, int64_t ts_ns, uint64_t duration_ns)
{
	uint64_t start = ts_ns > 0 ? (uint64_t)ts_ns : 0;

	p = put_u64(p, start);
	p = PUT_LITERAL(p, "\",\"endTimeUnixNano\":\"");
	p = put_u64(p, start + duration_ns);
	*p++ = '"';
	return p;
}

static char *put_status(char *p, const struct fragments *f, const struct call *call)
{
	const struct table_error *errors = table_errors[call->row->api];

	if (call->status != CALL_ERROR)
		return p;
	if (!call->error)
		return PUT_LITERAL(p, ",\"status\":{\"code\":2}");
	return put_fragment(p, f->text, f->errors[call->row->api][call->error - errors].first);
}

/* The name of a status that is not success; back ends take `error.type` as the sign of a failure. */
static char *put_error(char *p, const struct fragments *f, const struct call *call)
{
	const struct table_error *errors = table_errors[call->row->api];

	if (!f->open[FIELD_ERROR].len || (!call->error && call->status != CALL_ERROR))
		return p;
	if (call->status == CALL_ERROR)
		p = put_fragment(p, f->text, f->open[FIELD_ERROR]);
	else
		p = PUT_LITERAL(p, TEXT("cuda.error"));
	if (call->error)
		return put_fragment(p, f->text, f->errors[call->row->api][call->error - errors].second);
	p = put_unknown_error(p, call);
	return put_fragment(p, f->text, f->close[FIELD_ERROR]);
}

static char *put_attributes(char *p, const struct encoder *encoder, const struct call *call)
{
	const struct fragments *f = &encoder->fragments;

	p = put_fragment(p, f->text, f->rows[call->row_id].second);
	if (encoder->nested)
		p = put_nesting(p, f, call->rec);
	p = put_weight(p, f, call->rec);
	if (call->row->ret == TABLE_RET_STATUS && call->status != CALL_UNFINISHED)
		p = put_signed(p, f, FIELD_RET, call->ret);
	p = put_fragment(p, f->text, f->status[call->status].first);
	p = put_error(p, f, call);
	return put_keys(p, f, call);
}

static char *put_span(char *p, const struct encoder *encoder, const struct call *call, const struct who *who,
		      uint64_t seq, int64_t ts_ns)
{
	const struct fragments *f = &encoder->fragments;

	p = put_bytes(p, who->text, who->first);
	p = put_ids(p, encoder, call->rec);
	p = put_fragment(p, f->text, f->rows[call->row_id].first);
	p = put_fragment(p, f->text, f->start);
	p = put_times(p, ts_ns, encode_duration(call->rec));
	p = put_status(p, f, call);
	p = put_fragment(p, f->text, f->middle);
	p = put_u64(p, seq);
	p = PUT_LITERAL(p, INT_END);
	p = put_bytes(p, who->text + who->first, who->second);
	return put_attributes(p, encoder, call);
}

static size_t otlp_call(struct encoder *encoder, const struct call *call, struct thread *thread, uint64_t seq,
			int64_t ts_ns, char *out, struct line_meta *ret_meta)
{
	const struct fragments *f = &encoder->fragments;
	const struct who *who = (const struct who *)encode_who(encoder, thread)->data;
	char *p = put_span(out, encoder, call, who, seq, ts_ns), *args = p;

	if (encoder->args)
		p = write_arguments(f, call, p, out + ENCODE_MAX_LINE - f->tail.len);
	*ret_meta = encode_meta(call, thread, seq, ts_ns);
	ret_meta->args_off = (uint32_t)(args - out);
	ret_meta->args_len = (uint32_t)(p - args);
	return (size_t)(put_fragment(p, f->text, f->tail) - out);
}

const struct encode_format encode_format_otlp = {
	.name = "otlp",
	.dialect = &dialect_otlp,
	.prepare = otlp_prepare,
	.who = otlp_who,
	.call = otlp_call,
	.event = encode_otlp_event,
};
