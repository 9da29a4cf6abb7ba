/* Which threads of a process have not ended, by the flags in their stat; see living.h. */
#include "living.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXITING 0x4 /* PF_EXITING of the kernel's flags word: its memory goes, or has gone */

/* Also one that is not a zombie yet. Kernel threads, whose maps are empty too, have not ended. */
static bool has_ended(const char *stat_path)
{
	char stat[512], *name_end;
	int fd = open(stat_path, O_RDONLY | O_CLOEXEC);
	unsigned flags = 0;
	ssize_t n = -1;

	if (fd >= 0) {
		n = read(fd, stat, sizeof(stat) - 1);
		close(fd);
	}
	stat[n > 0 ? n : 0] = 0;
	name_end = strrchr(stat, ')'); /* the name before may hold anything */
	return !name_end || sscanf(name_end, ") %*c %*d %*d %*d %*d %*d %u", &flags) != 1 || flags & EXITING;
}

static pid_t another_thread(pid_t pid)
{
	struct dirent *entry;
	pid_t tid, found = 0;
	char path[96];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && !found && (entry = readdir(tasks))) {
		tid = atoi(entry->d_name);
		if (tid <= 0 || tid == pid)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)tid);
		found = has_ended(path) ? 0 : tid;
	}
	if (tasks)
		closedir(tasks);
	return found;
}

pid_t living_thread(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	return has_ended(path) ? another_thread(pid) : pid;
}

pid_t living_other(pid_t pid)
{
	pid_t tid = living_thread(pid);

	return tid == pid ? 0 : tid;
}
