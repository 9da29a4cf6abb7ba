/*
 * What a program knows of its own calls: how often it called which function
 * and launched which kernel, or of single calls what they must look like,
 * written as one JSON object for the comparison with what cudatap saw.
 *
 * OWN_WAIT_MS	how long to wait before the first call: a tracer of the whole
 *		host sees a library's mapping a little after it was made; and a
 *		quarter of it after the last, for names that it looks up in the
 *		process's files
 * OWN_GATE	a directory: the first call waits for a file `go` in it, the end for
 *		a file `end`
 * OWN_DRY	results do not count: there is no GPU, calls are made all the same
 */
#ifndef OWN_H
#define OWN_H

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

static std::map<std::string, long> own_calls, own_launches;
static std::map<int, std::string> own_uuids; /* by device */
static std::vector<std::string> own_events;
static size_t own_peer_bytes; /* copied between devices */
static std::mutex own_mutex;  /* of the events and launches */

static inline void own_gate(const char *name)
{
	const char *directory = getenv("OWN_GATE");

	if (directory)
		while (access((std::string(directory) + "/" + name).c_str(), F_OK))
			usleep(1000);
}

static inline void own_wait()
{
	const char *ms = getenv("OWN_WAIT_MS");

	own_gate("go");

	if (ms)
		usleep(atol(ms) * 1000);
}

static inline void own_must(int got, int wanted, const char *what)
{
	if (got == wanted || getenv("OWN_DRY"))
		return;
	fprintf(stderr, "%s: got %d, wanted %d\n", what, got, wanted);
	exit(1);
}

static inline void own_launch(const char *kernel, long n)
{
	std::lock_guard<std::mutex> lock(own_mutex);

	own_launches[kernel] += n;
}

/*
 * The call that this thread has made just now: its family, function and
 * device (-1: none known), and what else its event has, as ", KEY: VALUE..."
 * in JSON. An object is compared by the members that it has here.
 */
static inline void own_expect(const char *family, const char *func, int device, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static inline void own_expect(const char *family, const char *func, int device, const char *format, ...)
{
	char keys[1024], text[1280];
	va_list list;

	va_start(list, format);
	vsnprintf(keys, sizeof(keys), format, list);
	va_end(list);
	snprintf(text, sizeof(text), "{\"tid\": %ld, \"family\": \"%s\", \"func\": \"%s\", \"device\": %s%s}",
		 (long)syscall(SYS_gettid), family, func,
		 device < 0 ? "null" : std::to_string(device).c_str(), keys);
	std::lock_guard<std::mutex> lock(own_mutex);
	own_events.push_back(text);
}

static inline void own_uuid(int device, const unsigned char *bytes)
{
	char hex[33];

	for (int i = 0; i < 16; i++)
		snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
	own_uuids[device] = hex;
}

static inline void own_list(FILE *out)
{
	const char *before = "";

	fprintf(out, ", \"peer_bytes\": %zu, \"uuids\": {", own_peer_bytes);
	for (const auto &one : own_uuids) {
		fprintf(out, "%s\"%d\": \"%s\"", before, one.first, one.second.c_str());
		before = ", ";
	}
	fprintf(out, "}, \"events\": [");
	before = "";
	for (const std::string &one : own_events) {
		fprintf(out, "%s\n%s", before, one.c_str());
		before = ",";
	}
	fprintf(out, "]");
}

static inline void own_map(FILE *out, const char *key, const std::map<std::string, long> &map)
{
	const char *before = "";

	fprintf(out, ", \"%s\": {", key);
	for (const auto &one : map) {
		fprintf(out, "%s\"%s\": %ld", before, one.first.c_str(), one.second);
		before = ", ";
	}
	fprintf(out, "}");
}

/* Returns the program's exit code. */
static inline int own_write(const char *path)
{
	FILE *out = fopen(path, "w");

	if (!out)
		return 1;
	fprintf(out, "{\"pid\": %d", (int)getpid());
	own_map(out, "calls", own_calls);
	own_map(out, "launches", own_launches);
	own_list(out);
	fprintf(out, "}\n");
	fflush(out);
	own_gate("end");
	if (getenv("OWN_WAIT_MS"))
		usleep(atol(getenv("OWN_WAIT_MS")) * 250);
	return fclose(out) ? 1 : 0;
}

#endif
