/*
 * Loads a library of calls.cu by dlopen() some time after its start and lets it
 * work.
 *
 * usage: late SECONDS LIBRARY COUNTS.json
 */
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int (*run)(const char *);
	void *library;

	if (argc < 4)
		return 2;
	sleep(atoi(argv[1]));
	library = dlopen(argv[2], RTLD_NOW);
	run = library ? (int (*)(const char *))dlsym(library, "calls_run") : NULL;
	if (!run) {
		fprintf(stderr, "late: %s\n", dlerror());
		return 1;
	}
	return run(argv[3]);
}
