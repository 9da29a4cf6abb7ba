/* Start times from /proc/PID/stat, proc(5). */
#include "alive.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAT_START 22 /* number of the field: clock ticks after boot */

/* The name, in brackets, may hold anything. */
uint64_t alive_start(pid_t pid, bool living)
{
	char stat[1024], path[64], *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, stat, sizeof(stat) - 1);
	close(fd);
	stat[n > 0 ? n : 0] = 0;
	p = strrchr(stat, ')');
	if (!p || (living && (p[1] != ' ' || !p[2] || strchr("ZXx", p[2]))))
		return 0;
	for (int field = 2; p && field < STAT_START; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

uint64_t alive_ticks(uint64_t start_ns)
{
	return start_ns / (1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK));
}

bool alive_still(pid_t pid, uint64_t start_ns)
{
	return alive_start(pid, false) == alive_ticks(start_ns);
}
