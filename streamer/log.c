/* Messages for people on stderr. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

void log_msg(const char *fmt, ...)
{
	static const char prefix[] = "cudatap: ";
	char line[2048];
	int saved = errno;
	size_t start = sizeof(prefix) - 1, end;
	va_list ap;
	int n;

	memcpy(line, prefix, start);
	va_start(ap, fmt);
	errno = saved; /* for %m */
	n = vsnprintf(line + start, sizeof(line) - start - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		n = 0;
	end = start + (size_t)n;
	if (end > sizeof(line) - 2)
		end = sizeof(line) - 2;
	/* Paths and names may hold anything; a terminal should not obey it. */
	for (size_t i = start; i < end; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	line[end++] = '\n';
	if (write(STDERR_FILENO, line, end) < 0)
		errno = saved; /* no one left to tell */
	errno = saved;
}
