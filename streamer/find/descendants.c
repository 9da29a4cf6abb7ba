/* All processes with their parents, once, and then what is below the roots. */
#include "descendants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct process {
	pid_t pid, parent;
	bool below;
};

static pid_t parent_of(pid_t pid)
{
	char path[32], stat[512], *p;
	ssize_t n = -1;
	int fd, parent;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, stat, sizeof(stat) - 1);
		close(fd);
	}
	stat[n > 0 ? n : 0] = 0;
	p = strrchr(stat, ')'); /* the name before it may hold anything */
	return p && sscanf(p, ") %*c %d", &parent) == 1 ? parent : 0;
}

static ssize_t list_processes(struct process **ret_list)
{
	struct process *list = NULL, *grown;
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	size_t n = 0;
	pid_t pid;

	while (proc && (entry = readdir(proc))) {
		pid = atoi(entry->d_name);
		if (pid <= 0)
			continue;
		if (!(n & (n - 1))) { /* full at each power of two */
			grown = reallocarray(list, n ? 2 * n : 1, sizeof(*list));
			if (!grown) {
				free(list);
				closedir(proc);
				return -ENOMEM;
			}
			list = grown;
		}
		list[n++] = (struct process){pid, parent_of(pid), false};
	}
	if (proc)
		closedir(proc);
	*ret_list = list;
	return (ssize_t)n;
}

static bool is_below(pid_t parent, const pid_t *roots, size_t nroots, const struct process *list, size_t n)
{
	for (size_t i = 0; i < nroots; i++)
		if (roots[i] == parent)
			return true;
	for (size_t i = 0; i < n; i++)
		if (list[i].below && list[i].pid == parent)
			return true;
	return false;
}

ssize_t find_descendants(const pid_t *roots, size_t nroots, pid_t **ret_list)
{
	struct process *list = NULL;
	ssize_t n = list_processes(&list), found = 0;
	bool more = true;

	if (n < 0)
		return n;
	*ret_list = malloc((size_t)(n ? n : 1) * sizeof(**ret_list));
	while (*ret_list && more) {
		more = false;
		for (ssize_t i = 0; i < n; i++) {
			if (list[i].below || !is_below(list[i].parent, roots, nroots, list, (size_t)n))
				continue;
			list[i].below = more = true;
			(*ret_list)[found++] = list[i].pid;
		}
	}
	free(list);
	return *ret_list ? found : -ENOMEM;
}
