/* The `start` and `stop` events and the summary on stderr. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../log.h"
#include "../route/known.h"
#include "../route/losses.h"
#include "internal.h"

static json_t *words(bool (*has)(const struct config *, unsigned), const char *(*name)(unsigned),
		     const struct config *config, unsigned n)
{
	json_t *list = json_array();
	unsigned i;

	for (i = 0; i < n; i++)
		if (has(config, i))
			json_array_append_new(list, json_string(name(i)));
	return list;
}

static bool has_api(const struct config *config, unsigned i)
{
	return config->api[i];
}

static const char *api_name(unsigned i)
{
	return i == TABLE_RUNTIME ? "runtime" : "driver";
}

static bool has_family(const struct config *config, unsigned i)
{
	return config->families[i];
}

static const char *family_name(unsigned i)
{
	return table_families[i].name;
}

#define MAX_COMMAND 8192 /* bytes of JSON: a line has to hold it, and there are longer command lines */

/* The words that fit; whether some did not is told beside them. */
static void add_command(json_t *body, char **command)
{
	json_t *list = json_array(), *word;
	size_t room = MAX_COMMAND, size;

	for (; *command; command++) {
		word = encode_string(*command);
		size = json_dumpb(word, NULL, 0, JSON_ENCODE_ANY) + 1;
		if (size > room) {
			json_decref(word);
			break;
		}
		json_array_append_new(list, word);
		room -= size;
	}
	json_object_set_new(body, "command", list);
	if (*command)
		json_object_set_new(body, "command_cut", json_true());
}

json_t *report_start(const struct trace *trace)
{
	const struct config *config = trace->config;
	struct utsname kernel;
	json_t *body, *effective;

	uname(&kernel);
	effective =
		json_pack("{so so sb}", "api", words(has_api, api_name, config, TABLE_NAPIS), "families",
			  words(has_family, family_name, config, table_nfamilies), "nested", config->nested);
	body = json_pack("{ss ss ss so sI}", "version", CUDATAP_VERSION, "kernel_release", kernel.release,
			 "method", capture_method_names[capture_method(trace->capture)], "config", effective,
			 "pid", (json_int_t)getpid());
	if (trace->cli->command)
		add_command(body, trace->cli->command);
	return body;
}

json_t *report_ready(const struct trace *trace)
{
	json_int_t files = 0, functions = 0;
	unsigned i;

	for (i = 0; i < trace->ntargets; i++) {
		files += trace->targets[i].functions > 0;
		functions += trace->targets[i].functions;
	}
	return json_pack("{sI sI sI}", "files", files, "functions", functions, "duration_ns",
			 (json_int_t)(control_now_ns() - trace->start_ns));
}

/* Entered calls with no end so far: what is open, where not all threads can be visited. */
static uint64_t without_end(const struct capture_counters *c)
{
	static const enum rec_counter ends[] = {
		REC_SUBMITTED,       REC_UNFINISHED, REC_NESTED,       REC_MUTED,
		REC_DUPLICATE_CALLS, REC_FILTERED,   REC_SAMPLED_OUT,  REC_UNPAIRED,
		REC_LOST_RING,       REC_LOST_DEPTH, REC_LOST_STORAGE,
	};
	uint64_t open = c->v[REC_ENTRIES];
	size_t i;

	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		open -= c->v[ends[i]];
	return (int64_t)open < 0 ? 0 : open;
}

uint64_t report_count(struct trace *trace, struct capture_counters *ret_counters)
{
	uint64_t open = 0;
	int err;

	if (trace->ended) {
		capture_counters(trace->capture, ret_counters);
		return trace->open_calls;
	}
	err = capture_look(trace->capture, &open);
	capture_counters(trace->capture, ret_counters);
	return err ? without_end(ret_counters) : open + ret_counters->v[REC_LEFT_OPEN];
}

static json_t *calls_object(const struct trace *trace, const struct capture_counters *c, uint64_t open)
{
	struct stream_totals totals;
	json_t *lost;

	stream_totals(trace->stream, &totals);
	lost = json_pack("{sI sI sI sI}", "ring", (json_int_t)c->v[REC_LOST_RING], "storage",
			 (json_int_t)c->v[REC_LOST_STORAGE], "depth", (json_int_t)c->v[REC_LOST_DEPTH],
			 "undecodable", (json_int_t)totals.undecodable);
	return json_pack(
		"{sI sI sI sI sI sI sI sI sI sI so sI sI sI sI sI sI}", "entries",
		(json_int_t)c->v[REC_ENTRIES], "emitted", (json_int_t)(totals.emitted - totals.unfinished),
		"unfinished", (json_int_t)totals.unfinished, "nested", (json_int_t)c->v[REC_NESTED], "muted",
		(json_int_t)c->v[REC_MUTED], "filtered", (json_int_t)(c->v[REC_FILTERED] + totals.filtered),
		"sampled_out", (json_int_t)c->v[REC_SAMPLED_OUT], "rate_limited",
		(json_int_t)totals.rate_limited, "duplicate", (json_int_t)c->v[REC_DUPLICATE_CALLS],
		"unpaired", (json_int_t)c->v[REC_UNPAIRED], "lost", lost, "open", (json_int_t)open, "in_ring",
		(json_int_t)(c->v[REC_SUBMITTED] + c->v[REC_UNFINISHED] - totals.emitted -
			     totals.undecodable - totals.filtered - totals.rate_limited),
		"read_failed", (json_int_t)c->v[REC_READ_FAILED], "names_lost",
		(json_int_t)c->v[REC_LOST_NAMES], "orphan_exits", (json_int_t)c->v[REC_ORPHAN_EXITS],
		"environs_missed", (json_int_t)known_environs_missed(stream_known(trace->stream)));
}

json_t *report_stop(const struct trace *trace, const struct capture_counters *counters)
{
	json_t *body = json_pack("{ss}", "reason", trace->stop_reason);

	if (trace->cli->command)
		json_object_set_new(body, "exit_code", json_integer(trace->exit_code));
	json_object_set_new(body, "duration_ns",
			    json_integer((json_int_t)(control_now_ns() - trace->start_ns)));
	json_object_set_new(body, "calls", calls_object(trace, counters, trace->open_calls));
	json_object_set_new(body, "sinks", stream_sinks(trace->stream));
	return body;
}

void report_status(struct trace *trace)
{
	struct capture_counters counters;
	uint64_t open;
	json_t *status;
	char *text;

	open = report_count(trace, &counters);
	status = json_pack("{ss ss sI so so}", "type", "status", "version", CUDATAP_VERSION, "duration_ns",
			   (json_int_t)(control_now_ns() - trace->start_ns), "calls",
			   calls_object(trace, &counters, open), "sinks", stream_sinks(trace->stream));
	text = json_dumps(status, JSON_COMPACT);
	json_decref(status);
	if (text) {
		const struct iovec line[] = {{text, strlen(text)}, {(void *)"\n", 1}};

		/* what stderr does not take is nobody's problem */
		if (writev(STDERR_FILENO, line, 2) < 0)
			errno = 0;
	}
	free(text);
}

static void say_sinks(const struct trace *trace)
{
	struct fanout *fanout = stream_fanout(trace->stream);
	struct sink_counters c;
	uint64_t given;
	size_t i;
	int r;

	for (i = 0; i < fanout_nsinks(fanout); i++) {
		fanout_counters(fanout, i, &c);
		given = c.received + c.recovered + c.taken_over;
		for (r = 0; r < SINK_NREASONS; r++)
			if (c.dropped[r] && r != SINK_PIPE_CLOSED) /* the reader knows that it left */
				log_msg("sink %s lost %llu of %llu events: %s", fanout_sink_name(fanout, i),
					(unsigned long long)c.dropped[r], (unsigned long long)given,
					sink_reason_names[r]);
		if (c.spooled)
			log_msg("sink %s: %llu events stay in its spool for the next run",
				fanout_sink_name(fanout, i), (unsigned long long)c.spooled);
	}
}

uint64_t report_summary(struct trace *trace, const struct capture_counters *counters)
{
	uint64_t missed = known_environs_missed(stream_known(trace->stream));
	uint64_t counts[LOSSES_NCAUSES], lost;
	struct stream_totals totals;
	int i;

	stream_totals(trace->stream, &totals);
	lost = losses_count(counters, totals.undecodable, counts);
	/* a command that could not be run, or a start that failed, has had its message */
	if (!trace->cli->quiet && strcmp(trace->stop_reason, "command_failed") != 0 &&
	    strcmp(trace->stop_reason, "failed") != 0) {
		if (trace->launch && !trace->nattached && !trace->refused)
			log_msg("the command loaded no CUDA library");
		log_msg("%llu calls from %u libraries, %llu lost", (unsigned long long)totals.emitted,
			trace->nattached, (unsigned long long)lost);
		for (i = 0; i < LOSSES_NCAUSES; i++)
			if (counts[i])
				log_msg("%llu calls %s: %s", (unsigned long long)counts[i],
					i == LOSS_UNPAIRED ? "never returned" : "lost", loss_cause_names[i]);
		if (missed)
			log_msg("%llu processes ended before their environment (`fields.env`) could be read",
				(unsigned long long)missed);
		say_sinks(trace);
		if (!isatty(STDERR_FILENO))
			report_status(trace);
	}
	return lost + stream_sinks_lost(trace->stream);
}
