/* Symbols of host stubs; see stubs.h. */
#include "stubs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alive.h"

#define MARK "__device_stub_"

size_t stubs_kernel(char *name)
{
	size_t len = strlen(name), inner;
	char *p = name + 2;

	if (strncmp(name, "_Z", 2) != 0)
		return len;
	p += *p == 'L'; /* of one file alone */
	inner = strtoul(p, &p, 10);
	if (strncmp(p, MARK, strlen(MARK)) != 0 || inner <= strlen(MARK) || inner > strlen(p))
		return len;
	inner -= strlen(MARK);
	memmove(name, p + strlen(MARK), inner);
	name[inner] = 0;
	return inner;
}

int stubs_name(struct symbols *symbols, pid_t pid, uint64_t start_ns, uint64_t address, char *name,
	       size_t size)
{
	int len = symbols_find(symbols, pid, address, name, size);

	if (len <= 0)
		return len ? len : -ENOENT;
	return alive_still(pid, start_ns) ? (int)stubs_kernel(name) : -ESRCH;
}
