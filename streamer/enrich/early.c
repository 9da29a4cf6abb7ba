/* A ring of answers that wait, searched from the newest on. */
#include "early.h"

#include <pthread.h>
#include <stdlib.h>

#include "alive.h"
#include "procfs.h"

struct entry {
	pid_t pid; /* 0: taken */
	uint64_t start_ticks;
	struct environs *environs;
};

struct early {
	const char *const *names;
	size_t n, next; /* next: the oldest entry, whose place the next one takes */
	pthread_mutex_t lock;
	struct entry entries[EARLY_MAX];
};

/* Takes an entry out; the process's newest one is the only one. */
static struct entry remove_entry(struct early *early, pid_t pid)
{
	struct entry found = {0}, *entry;

	for (size_t i = 1; i <= EARLY_MAX && !found.pid; i++) {
		entry = &early->entries[(early->next - i) % EARLY_MAX];
		if (entry->pid != pid)
			continue;
		found = *entry;
		*entry = (struct entry){0};
	}
	return found;
}

void early_forget(struct early *early, pid_t pid)
{
	struct entry old;

	pthread_mutex_lock(&early->lock);
	old = remove_entry(early, pid);
	pthread_mutex_unlock(&early->lock);
	environs_free(old.environs);
}

void early_read(struct early *early, pid_t pid)
{
	uint64_t ticks = alive_start(pid, true);
	struct environs *environs = ticks ? procfs_environs(pid, ticks, early->names, early->n) : NULL;
	struct entry old, *entry;

	early_forget(early, pid);
	if (!environs)
		return;
	pthread_mutex_lock(&early->lock);
	entry = &early->entries[early->next++ % EARLY_MAX];
	old = *entry;
	*entry = (struct entry){pid, ticks, environs};
	pthread_mutex_unlock(&early->lock);
	environs_free(old.environs);
}

struct environs *early_take(struct early *early, pid_t pid, uint64_t start_ns)
{
	struct entry found;

	pthread_mutex_lock(&early->lock);
	found = remove_entry(early, pid);
	pthread_mutex_unlock(&early->lock);
	if (found.start_ticks == alive_ticks(start_ns))
		return found.environs;
	environs_free(found.environs);
	return NULL;
}

struct early *early_new(const char *const *names, size_t n)
{
	struct early *early = calloc(1, sizeof(*early));

	if (!early)
		return NULL;
	early->names = names;
	early->n = n;
	early->next = EARLY_MAX;
	pthread_mutex_init(&early->lock, NULL);
	return early;
}

void early_free(struct early *early)
{
	for (size_t i = 0; early && i < EARLY_MAX; i++)
		environs_free(early->entries[i].environs);
	if (early)
		pthread_mutex_destroy(&early->lock);
	free(early);
}
