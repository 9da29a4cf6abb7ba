/* The configuration's keys: one row each, and nothing about them anywhere else. */
#include <stddef.h>
#include <string.h>

#include "config.h"
#include "keys.h"
#include "internal.h"

#include "../sinks/sink.h"
#include "../streamer/capture/patterns.h"
#include "../streamer/decode/decode.h"
#include "../streamer/encode/encode.h"
#include "../streamer/enrich/environs.h"

#define KiB 1024ll
#define MiB (1024 * KiB)
#define GiB (1024 * MiB)
#define MS  1000000ll
#define S   (1000 * MS)

#define AT(member) offsetof(struct config, member)

/* enum kernels_style */
static const char *const name_styles[] = {"demangled", "mangled", "off", "both", NULL};
static const char *const reloads[] = {
	[CONFIG_ON_SIGNAL] = "on_signal",
	[CONFIG_ON_CHANGE] = "on_change",
	NULL,
};
static const char *const auto_words[] = {"auto", NULL};
static const char *const statuses[] = {
	[CALL_OK] = "ok",
	[CALL_ERROR] = "error",
	[CALL_NOT_READY] = "not_ready",
	[CALL_UNFINISHED] = "unfinished",
	NULL,
};
/* as encode_field_names[] has them from ENCODE_PROCESS_FIELD on */
static const char *const process_words[] = {"uid",          "exe",     "cmdline", "cgroup",
					    "container_id", "pod_uid", NULL};
static const char *const when_full[] = {
	[SINK_DROP_NEWEST] = "drop_newest",
	[SINK_DROP_OLDEST] = "drop_oldest",
	[SINK_BLOCK] = "block",
	NULL,
};

/* Processes by what can be said of them: of one meaning wherever they stand. */
#define PATTERN(name_, member, at, what, wrong_, about_)                                     \
	{                                                                                    \
		.name = name_, .type = KEY_STRINGS, .wrong = wrong_,                         \
		.offset = (at) + offsetof(struct config_patterns, member), .fallback = "[]", \
		.about = what about_                                                         \
	}
#define PATTERNS(at, what)                                                                                   \
	PATTERN("comms", comms, at, what, patterns_comm_wrong,                                               \
		" processes of these names, as `ps -o comm` shows them; `python*` is every name that "       \
		"begins "                                                                                    \
		"so. Of several such lists, a process must be in each that is not empty; it is decided for " \
		"a thread at its first call, and again when it gets another name or program"),               \
		PATTERN("exe", exe, at, what, patterns_exe_wrong,                                            \
			" these executables: an absolute path as the process itself sees it, or what a "     \
			"path ends in, "                                                                     \
			"such as `python3.11` or `venv/bin/python3.11`; links are followed before, so it "   \
			"is the "                                                                            \
			"file's own name"),                                                                  \
		PATTERN("cgroups", cgroups, at, what, patterns_cgroup_wrong,                                 \
			" processes in these cgroups or below: a path from the hierarchy's root, such as "   \
			"`/system.slice/slurmd.service`, or a name, such as `slurmd.service`"),              \
		PATTERN("containers", containers, at, what, patterns_container_wrong,                        \
			" processes in these containers, by id, of which the first 12 digits count"),        \
		PATTERN("uids", uids, at, what, patterns_uid_wrong, " processes of these users, by number")

static const struct key processes[] = {
	{.name = "pids",
	 .type = KEY_PIDS,
	 .offset = AT(pids),
	 .fallback = "[]",
	 .flags = KEY_AT_START,
	 .about = "trace these processes only, by their ids as `ps` shows them; an empty list is every "
		  "process."},
	{.name = "children",
	 .type = KEY_BOOL,
	 .offset = AT(processes.children),
	 .fallback = "false",
	 .flags = KEY_AT_START,
	 .about = "trace the children of `pids` too, and theirs, those that are there and those to come"},
	PATTERNS(offsetof(struct config, processes.patterns), "trace only"),
	{0},
};

static const struct key fields[] = {
	{.name = "args",
	 .type = KEY_BOOL,
	 .offset = AT(fields.args),
	 .fallback = "true",
	 .about = "put the arguments (`args`) and what came back through pointers (`out`) into call events"},
	{.name = "process",
	 .type = KEY_WORDS,
	 .offset = AT(fields.process),
	 .words = process_words,
	 .fallback = "[uid, exe, container_id, pod_uid]",
	 .about = "what calls say of their process beside its ids and names. `process` events say all of it, "
		  "but for "
		  "`cmdline`, which is read only when it stands here, and absent where the process was gone "
		  "before"},
	{.name = "static",
	 .type = KEY_FIELDS,
	 .offset = AT(fields.constant),
	 .fallback = "{}",
	 .about = "constant fields of every event, such as `{env: prod, cluster: a}`"},
	{.name = "env",
	 .type = KEY_STRINGS,
	 .offset = AT(fields.env),
	 .fallback = "[]",
	 .flags = KEY_AT_START | KEY_VARIABLES,
	 .max = ENVIRONS_MAX_NAMES,
	 .about = "environment variables that events show in `environ`, such as `[SLURM_JOB_ID, RANK]`, as "
		  "the "
		  "process was started with them; absent where it was gone before they could be read"},
	{.name = "redact",
	 .type = KEY_STRINGS,
	 .offset = AT(fields.redact),
	 .fallback = "[]",
	 .flags = KEY_PARAMETERS,
	 .about = "parameters whose values are replaced by `redacted` in `args` and `out`; normalised keys "
		  "that "
		  "come from them, such as `ptr` from `devPtr`, are left out"},
	{0},
};

static const struct key ring[] = {
	{.name = "size",
	 .type = KEY_SIZE,
	 .offset = AT(ring.size),
	 .fallback = "16MiB",
	 .flags = KEY_POWER_OF_TWO | KEY_AT_START,
	 .min = 4 * KiB,
	 .max = GiB,
	 .about = "memory between kernel and cudatap; it holds the calls that come while nobody reads"},
	{.name = "flush",
	 .type = KEY_DURATION,
	 .offset = AT(ring.flush_ns),
	 .fallback = "20ms",
	 .min = MS,
	 .max = 10 * S,
	 .about = "read the ring so often while calls come: the longest time that an event waits in it"},
	{0},
};

#define FILTER(member) offsetof(struct config_filter, member)

static const struct key filter[] = {
	{.name = "status",
	 .type = KEY_WORDS,
	 .offset = FILTER(status),
	 .fallback = "[]",
	 .words = statuses,
	 .about = "only calls that ended so; an empty list is any status"},
	{.name = "errors",
	 .type = KEY_ERRORS,
	 .offset = FILTER(errors),
	 .fallback = "[]",
	 .about = "only calls with one of these errors, such as `cudaErrorMemoryAllocation`"},
	{.name = "functions",
	 .type = KEY_FUNCTIONS,
	 .offset = FILTER(functions),
	 .fallback = "[]",
	 .about = "only calls of these functions, by name or glob"},
	{.name = "families",
	 .type = KEY_FAMILIES,
	 .offset = FILTER(families),
	 .about = "only calls of functions in these families"},
	{.name = "min_duration",
	 .type = KEY_DURATION,
	 .offset = FILTER(min_duration_ns),
	 .fallback = "0",
	 .about = "only calls that took at least so long"},
	{.name = "max_duration",
	 .type = KEY_DURATION,
	 .offset = FILTER(max_duration_ns),
	 .fallback = "0",
	 .about = "only calls that took at most so long; 0 is no limit"},
	{.name = "min_bytes",
	 .type = KEY_SIZE,
	 .offset = FILTER(min_bytes),
	 .fallback = "0",
	 .about = "only calls with `bytes` of at least so many"},
	PATTERNS(offsetof(struct config_filter, patterns), "only calls of"),
	{0},
};

static const struct key rate_limit[] = {
	{.name = "events",
	 .type = KEY_INT,
	 .offset = offsetof(struct config_rate_limit, events),
	 .fallback = "0",
	 .min = 0,
	 .max = 1000000000,
	 .about = "calls per second at most, on average; 0 is no limit. Further ones are counted as "
		  "`rate_limited`"},
	{.name = "burst",
	 .type = KEY_INT,
	 .offset = offsetof(struct config_rate_limit, burst),
	 .fallback = "0",
	 .min = 0,
	 .max = 1000000000,
	 .about = "calls that may come at once after a quiet time; 0 is as many as in a second"},
	{0},
};

static const struct key sample[] = {
	{.name = "rates",
	 .type = KEY_RATES,
	 .offset = AT(sample.rates),
	 .fallback = "{}",
	 .about = "record one of so many calls, chosen by chance, of families or of functions by name or "
		  "glob, such "
		  "as `{launch: 100, cudaStreamSynchronize: 10}`; `sample_n` in an event says for how many "
		  "calls it "
		  "stands. A function counts more than its family, a later line more than an earlier one"},
	{.name = "keep_errors",
	 .type = KEY_BOOL,
	 .offset = AT(sample.keep_errors),
	 .fallback = "true",
	 .about = "record every call that failed or did not return, beside the sample; `false` draws the "
		  "sample when "
		  "a call begins, which costs a call that is not drawn about half as much"},
	{0},
};

#define SINK(member) offsetof(struct config_sink, member)

static const struct key sink_fields[] = {
	{.name = "args",
	 .type = KEY_BOOL,
	 .offset = SINK(fields.args),
	 .fallback = "true",
	 .about = "`false` leaves `args` and `out` away for this sink; `true` leaves it to the "
		  "configuration's "
		  "own `fields.args`"},
	{.name = "only",
	 .type = KEY_WORDS,
	 .offset = SINK(fields.only),
	 .fallback = "[]",
	 .words = encode_field_names + ENCODE_FIXED_FIELDS,
	 .about = "the keys that calls have beside `type`, `run`, `seq` and `ts`; an empty list is all of "
		  "them. "
		  "Other events keep theirs"},
	{.name = "drop",
	 .type = KEY_WORDS,
	 .offset = SINK(fields.drop),
	 .fallback = "[]",
	 .words = encode_field_names + ENCODE_FIXED_FIELDS,
	 .about = "keys that calls do not have"},
	{.name = "rename",
	 .type = KEY_FIELDS,
	 .offset = SINK(fields.rename),
	 .fallback = "{}",
	 .flags = KEY_RENAME,
	 .words = encode_field_names,
	 .about = "other names for keys of events, such as `{ts: \"@timestamp\"}`; with format `json` alone"},
	{.name = "redact",
	 .type = KEY_STRINGS,
	 .offset = SINK(fields.redact),
	 .fallback = "[]",
	 .flags = KEY_PARAMETERS,
	 .about = "more parameters than those of the configuration's own `fields.redact`"},
	{0},
};

static const struct key queue[] = {
	{.name = "max_events",
	 .type = KEY_INT,
	 .offset = SINK(queue.max_events),
	 .fallback = "65536",
	 .min = 1,
	 .max = 1 << 24,
	 .about = "events that may wait for the sink"},
	{.name = "max_bytes",
	 .type = KEY_SIZE,
	 .offset = SINK(queue.max_bytes),
	 .fallback = "32MiB",
	 .min = 64 * KiB,
	 .max = 4 * GiB,
	 .about = "bytes of waiting events, likewise"},
	{.name = "when_full",
	 .type = KEY_ENUM,
	 .offset = SINK(queue.when_full),
	 .fallback = "drop_newest",
	 .words = when_full,
	 .about = "which events are lost, and counted, when no more may wait; `block` lets the reader of all "
		  "events wait for room"},
	{.name = "block_timeout",
	 .type = KEY_DURATION,
	 .offset = SINK(queue.block_timeout_ns),
	 .fallback = "1s",
	 .min = MS,
	 .max = 60 * S,
	 .about =
		 "how long the reader waits with `when_full: block`; then the newest events are lost, and it "
		 "waits again only when the sink has taken some"},
	{0},
};

const struct key config_sink_keys[] = {
	{.name = "type",
	 .type = KEY_SINK_KIND,
	 .offset = offsetof(struct config_sink, ops),
	 .required = true,
	 .about = "what kind of sink it is"},
	{.name = "format",
	 .type = KEY_STRING,
	 .offset = offsetof(struct config_sink, format),
	 .fallback = "json",
	 .words = encode_format_names,
	 .about = "how events are written"},
	{.name = "fields", .type = KEY_MAP, .children = sink_fields, .about = "what this sink's events hold"},
	{.name = "filter",
	 .type = KEY_MAP,
	 .offset = SINK(filter),
	 .children = filter,
	 .about = "which calls go to this sink: those for which every condition holds"},
	{.name = "rate_limit",
	 .type = KEY_MAP,
	 .offset = SINK(rate_limit),
	 .children = rate_limit,
	 .about = "how many calls go to it"},
	{.name = "queue", .type = KEY_MAP, .children = queue, .about = "what may wait for a slow sink"},
	{.name = "allow_stall",
	 .type = KEY_BOOL,
	 .offset = SINK(allow_stall),
	 .fallback = "false",
	 .about = "allow `queue.when_full: block` beside other sinks, which it then holds up as well"},
	{0},
};

static const struct key spool[] = {
	{.name = "path",
	 .type = KEY_STRING,
	 .offset = SINK(spool.path),
	 .min = 1,
	 .max = 4000,
	 .about = "directory of the spool, for this sink alone; made if it is not there. Without it there is "
		  "no spool"},
	{.name = "max_bytes",
	 .type = KEY_SIZE,
	 .offset = SINK(spool.max_bytes),
	 .fallback = "1GiB",
	 .min = MiB,
	 .max = 1024 * GiB,
	 .about = "bytes on disk; when more would be there the oldest events are lost, a sixteenth or 8 MiB "
		  "at a time"},
	{0},
};

const struct key config_spool_keys[] = {
	{.name = "spool",
	 .type = KEY_MAP,
	 .children = spool,
	 .about = "every event goes to disk first and stays there until it is delivered"},
	{0},
};

const struct key config_keys[] = {
	{.name = "version", .type = KEY_LITERAL, .fallback = "1", .about = "the version of this language"},
	{.name = "include_files",
	 .type = KEY_STRINGS,
	 .fallback = "[]",
	 .flags = KEY_LAYER,
	 .about = "further files, which this one lies over: paths beside this file, with globs in the file's "
		  "name, such as `conf.d/*.yaml`"},
	{.name = "api",
	 .type = KEY_APIS,
	 .offset = AT(api),
	 .fallback = "[runtime, driver]",
	 .about = "the libraries whose functions are traced: `runtime` is libcudart, `driver` is libcuda"},
	{.name = "families",
	 .type = KEY_FAMILIES,
	 .offset = AT(families),
	 .fallback = "default",
	 .about = "families of functions to trace; `cudatap list families` shows what is in them"},
	{.name = "include",
	 .type = KEY_FUNCTIONS,
	 .offset = AT(include),
	 .fallback = "[]",
	 .about = "functions to trace beside these, of either library, by name or glob"},
	{.name = "exclude",
	 .type = KEY_FUNCTIONS,
	 .offset = AT(exclude),
	 .fallback = "[]",
	 .about = "functions not to trace, by name or glob; this wins over `include`"},
	{.name = "nested",
	 .type = KEY_BOOL,
	 .offset = AT(nested),
	 .fallback = "false",
	 .about = "also report the calls that a traced call makes itself, with `depth` and `parent`"},
	{.name = "open_after",
	 .type = KEY_DURATION,
	 .offset = AT(open_after_ns),
	 .fallback = "30s",
	 .max = 24 * 3600 * S,
	 .about = "tell of a call that has not returned after so long by an `open` event, and again whenever "
		  "the "
		  "time has doubled; 0 never tells"},
	{.name = "names",
	 .type = KEY_ENUM,
	 .offset = AT(names),
	 .words = name_styles,
	 .fallback = "demangled",
	 .flags = KEY_AT_START,
	 .about = "how kernels are named in launches; `both` adds `kernel_mangled`, `off` saves the probes "
		  "that learn their names"},
	{.name = "libraries",
	 .type = KEY_STRINGS,
	 .offset = AT(libraries),
	 .fallback = "auto",
	 .flags = KEY_PATHS | KEY_NOT_EMPTY | KEY_AT_START,
	 .words = auto_words,
	 .about = "paths and globs of the files to attach to; `auto` finds them"},
	{.name = "processes", .type = KEY_MAP, .children = processes, .about = "which processes are traced"},
	{.name = "filter",
	 .type = KEY_MAP,
	 .offset = AT(filter),
	 .children = filter,
	 .about = "which calls become events: those for which every condition holds; the others are counted "
		  "as "
		  "`filtered`"},
	{.name = "sample",
	 .type = KEY_MAP,
	 .children = sample,
	 .about = "of which functions only a sample is recorded"},
	{.name = "process_rate_limit",
	 .type = KEY_MAP,
	 .offset = AT(process_rate_limit),
	 .children = rate_limit,
	 .about = "how many calls of each process become events"},
	{.name = "fields", .type = KEY_MAP, .children = fields, .about = "what events hold"},
	{.name = "host",
	 .type = KEY_STRING,
	 .offset = AT(host),
	 .computed = "the host's name",
	 .min = 1,
	 .max = 255,
	 .about = "name of this host in every event"},
	{.name = "reload",
	 .type = KEY_ENUM,
	 .offset = AT(reload),
	 .words = reloads,
	 .fallback = "on_signal",
	 .about = "when the configuration is read again while cudatap runs: at SIGHUP, or also whenever one "
		  "of "
		  "its files has changed"},
	{.name = "ring",
	 .type = KEY_MAP,
	 .children = ring,
	 .about = "the ring buffer that calls take out of the kernel"},
	{.name = "sinks",
	 .type = KEY_SINKS,
	 .fallback = "{console: {type: stdout}}",
	 .about = "where events go: a map of sinks, each with a name of your choice"},
	{.name = "profile",
	 .type = KEY_STRING,
	 .flags = KEY_LAYER,
	 .about = "which of the `profiles` takes effect, unless `--profile` or `CUDATAP_PROFILE` says so"},
	{.name = "profiles",
	 .type = KEY_PROFILES,
	 .flags = KEY_LAYER,
	 .about = "maps of the keys above, by names of your choice, one of which is merged over the rest; "
		  "`extends` in one names another that lies between"},
	{0},
};

const struct key *config_key(const char *name)
{
	for (const struct key *k = config_keys; k->name; k++)
		if (!strcmp(k->name, name))
			return k;
	return NULL;
}
