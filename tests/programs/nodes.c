/*
 * Calls functions that take a structure by address with bytes that it is
 * told, so that a test decides what a structure holds.
 *
 * usage: nodes LIBRARY < CALLS
 *
 * A line of CALLS is SYMBOL POSITION BYTES: the structure's address is the
 * argument at POSITION, the first one is the address of a handle, all others
 * are 0. BYTES are hex digits, or `-` for memory that cannot be read.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAX_BYTES 1024
#define NARGS     6

static void *unreadable;

static void *bytes_of(const char *hex, unsigned char *bytes)
{
	unsigned value;

	if (!strcmp(hex, "-"))
		return unreadable;
	for (size_t i = 0; i < MAX_BYTES && sscanf(hex + 2 * i, "%2x", &value) == 1; i++)
		bytes[i] = (unsigned char)value;
	return bytes;
}

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	static char symbol[128], hex[2 * MAX_BYTES + 1];
	static unsigned char bytes[MAX_BYTES];
	unsigned position;

	unreadable = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!library || unreadable == MAP_FAILED)
		return 2;
	while (scanf("%127s %u %2048s", symbol, &position, hex) == 3) {
		int (*call)(void *, void *, void *, void *, void *, void *) = dlsym(library, symbol);
		void *args[NARGS] = {NULL}, *handle = NULL;

		if (!call || position >= NARGS)
			return 1;
		args[0] = &handle;
		args[position] = bytes_of(hex, bytes);
		if (call(args[0], args[1], args[2], args[3], args[4], args[5]))
			return 1;
	}
	return 0;
}
