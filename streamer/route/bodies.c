/* Bodies of events: from what the reader knows to JSON. Not on the hot path. */
#include "bodies.h"

#include <stdio.h>
#include <string.h>

#include "../encode/encode.h"
#include "../encode/timestamp.h"

static void set_text(json_t *body, const char *key, const char *text)
{
	if (text[0])
		json_object_set_new(body, key, encode_string(text));
}

static void set_number(json_t *body, const char *key, uint64_t number)
{
	json_object_set_new(body, key, json_integer((json_int_t)number));
}

static void set_time(json_t *body, const char *key, int64_t ts_ns)
{
	struct timestamp_cache cache = {0};
	char text[TIMESTAMP_LEN + 1];

	*put_timestamp(text, &cache, ts_ns) = 0;
	json_object_set_new(body, key, json_string(text));
}

json_t *body_open(const struct call *call, const struct thread *thread, int64_t start_ns)
{
	const struct table_row *row = call->row;
	json_t *body = json_object();

	set_number(body, "pid", thread->pid);
	if (thread->ns_pid)
		set_number(body, "ns_pid", thread->ns_pid);
	set_number(body, "tid", thread->tid);
	set_text(body, "comm", thread->comm);
	set_text(body, "thread", thread->thread);
	set_text(body, "api", row->api == TABLE_RUNTIME ? "runtime" : "driver");
	set_text(body, "family", table_families[row->family].name);
	set_text(body, "func", row->func);
	if (strcmp(row->symbol, row->func))
		set_text(body, "symbol", row->symbol);
	set_number(body, "depth", call->rec->depth);
	set_time(body, "call_ts", start_ns);
	set_number(body, "duration_ns", call->rec->end_ns - call->rec->start_ns);
	if (call->keys.present & 1u << TABLE_KEY_DEVICE)
		json_object_set_new(body, "device", json_integer(call->keys.device));
	return body;
}

/* Prepared texts are the insides of JSON strings. */
static void set_prepared(json_t *body, const char *key, const struct process_text *text)
{
	char quoted[PROCESS_MAX_CMDLINE + PROCESS_MAX_EXE + 3];

	if (!text->data || text->len + 3 > sizeof(quoted))
		return;
	quoted[0] = '"';
	memcpy(quoted + 1, text->data, text->len);
	quoted[text->len + 1] = '"';
	json_object_set_new(body, key, json_loadb(quoted, text->len + 2, JSON_DECODE_ANY, NULL));
}

/* Without any of them there is no object. */
static void set_environ(json_t *body, const struct environs *environs, const struct config_strings *env)
{
	json_t *object = json_object();

	for (size_t i = 0; environs && i < environs->n; i++)
		set_prepared(object, env->list[i], &environs->value[i]);
	if (json_object_size(object))
		json_object_set(body, "environ", object);
	json_decref(object);
}

/* Who it is. */
static json_t *process_body(const struct process *process, const char *phase,
			    const struct config_strings *env)
{
	json_t *body = json_object();

	set_text(body, "phase", phase);
	set_number(body, "pid", process->pid);
	if (process->ns_pid)
		set_number(body, "ns_pid", process->ns_pid);
	set_text(body, "comm", process->comm);
	if (!process->known)
		return body;
	set_number(body, "uid", process->uid);
	set_prepared(body, "exe", &process->exe);
	set_prepared(body, "cmdline", &process->cmdline);
	set_prepared(body, "cgroup", &process->cgroup);
	set_text(body, "container_id", process->container_id);
	set_text(body, "pod_uid", process->pod_uid);
	set_environ(body, process->environs, env);
	return body;
}

json_t *body_process_start(const struct process *process, const struct config_strings *env)
{
	return process_body(process, "start", env);
}

json_t *body_process_exit(const struct process *process, const struct rec_thread_exit *rec,
			  const struct config_strings *env)
{
	static const char *const directions[] = {
		[TABLE_H2H] = "h2h", [TABLE_H2D] = "h2d",         [TABLE_D2H] = "d2h",
		[TABLE_D2D] = "d2d", [TABLE_DEFAULT] = "default", [TABLE_P2P] = "p2p",
	};
	json_t *body = process_body(process, rec->exec ? "exec" : "exit", env), *total = json_object(),
	       *bytes = json_object();

	if (!rec->exec && rec->wait_status & 0x7f)
		set_number(body, "signal", rec->wait_status & 0x7f);
	else if (!rec->exec)
		set_number(body, "exit_code", rec->wait_status >> 8 & 0xff);
	set_number(total, "calls", process->total.calls);
	set_number(total, "errors", process->total.errors);
	for (unsigned i = 0; i < sizeof(directions) / sizeof(directions[0]); i++)
		if (process->total.bytes[i])
			set_number(bytes, directions[i], process->total.bytes[i] & INT64_MAX);
	json_object_set_new(total, "bytes", bytes);
	json_object_set_new(body, "total", total);
	return body;
}

json_t *body_device(const struct process *process, const struct process_device *device)
{
	const uint8_t *u = device->uuid;
	json_t *body = json_object();
	char text[37];

	set_number(body, "pid", process->pid);
	if (process->ns_pid)
		set_number(body, "ns_pid", process->ns_pid);
	set_text(body, "comm", process->comm);
	json_object_set_new(body, "device", json_integer(device->ordinal));
	snprintf(text, sizeof(text), "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
		 u[14], u[15]);
	set_text(body, "uuid", text);
	return body;
}
