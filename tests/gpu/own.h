/*
 * What a program knows of its own calls: how often it called which function
 * and launched which kernel, written as one JSON object for the comparison
 * with what cudatap saw.
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

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <unistd.h>

static std::map<std::string, long> own_calls, own_launches;

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
	fprintf(out, "}\n");
	fflush(out);
	own_gate("end");
	if (getenv("OWN_WAIT_MS"))
		usleep(atol(getenv("OWN_WAIT_MS")) * 250);
	return fclose(out) ? 1 : 0;
}

#endif
