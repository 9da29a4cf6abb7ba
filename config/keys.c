/* The configuration's keys: one row each, and nothing about them anywhere else. */
#include <stddef.h>

#include "config.h"
#include "keys.h"
#include "internal.h"

#define KiB 1024ll
#define MiB (1024 * KiB)
#define GiB (1024 * MiB)
#define MS  1000000ll
#define S   (1000 * MS)

#define AT(member) offsetof(struct config, member)

static const char *const auto_words[] = {"auto", NULL};
static const char *const formats[] = {"json", NULL};

static const struct key processes[] = {
	{.name = "pids",
	 .type = KEY_PIDS,
	 .offset = AT(pids),
	 .fallback = "[]",
	 .about = "trace these processes only, by their ids as `ps` shows them; an empty list is every "
		  "process."},
	{0},
};

static const struct key fields[] = {
	{.name = "args",
	 .type = KEY_BOOL,
	 .offset = AT(fields.args),
	 .fallback = "true",
	 .about = "put the arguments (`args`) and what came back through pointers (`out`) into call events"},
	{.name = "static",
	 .type = KEY_FIELDS,
	 .offset = AT(fields.constant),
	 .fallback = "{}",
	 .about = "constant fields of every event, such as `{env: prod, cluster: a}`"},
	{0},
};

static const struct key ring[] = {
	{.name = "size",
	 .type = KEY_SIZE,
	 .offset = AT(ring.size),
	 .fallback = "16MiB",
	 .flags = KEY_POWER_OF_TWO,
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

static const struct key queue[] = {
	{.name = "max_events",
	 .type = KEY_INT,
	 .offset = offsetof(struct config_sink, queue.max_events),
	 .fallback = "65536",
	 .min = 1,
	 .max = 1 << 24,
	 .about = "events that may wait for the sink; further ones are lost, and counted"},
	{.name = "max_bytes",
	 .type = KEY_SIZE,
	 .offset = offsetof(struct config_sink, queue.max_bytes),
	 .fallback = "32MiB",
	 .min = 64 * KiB,
	 .max = 4 * GiB,
	 .about = "bytes of waiting events, likewise"},
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
	 .words = formats,
	 .about = "how events are written"},
	{.name = "queue", .type = KEY_MAP, .children = queue, .about = "what may wait for a slow sink"},
	{0},
};

const struct key config_keys[] = {
	{.name = "version", .type = KEY_LITERAL, .fallback = "1", .about = "the version of this language"},
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
	{.name = "libraries",
	 .type = KEY_STRINGS,
	 .offset = AT(libraries),
	 .fallback = "auto",
	 .flags = KEY_PATHS | KEY_NOT_EMPTY,
	 .words = auto_words,
	 .about = "paths and globs of the files to attach to; `auto` finds them"},
	{.name = "processes", .type = KEY_MAP, .children = processes, .about = "which processes are traced"},
	{.name = "fields", .type = KEY_MAP, .children = fields, .about = "what events hold"},
	{.name = "host",
	 .type = KEY_STRING,
	 .offset = AT(host),
	 .computed = "the host's name",
	 .min = 1,
	 .max = 255,
	 .about = "name of this host in every event"},
	{.name = "ring",
	 .type = KEY_MAP,
	 .children = ring,
	 .about = "the ring buffer that calls take out of the kernel"},
	{.name = "sinks",
	 .type = KEY_SINKS,
	 .fallback = "{console: {type: stdout}}",
	 .about = "where events go: a map of sinks, each with a name of your choice"},
	{0},
};
