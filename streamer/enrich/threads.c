/*
 * The cache of threads, by (process, thread) id of the initial pid namespace.
 *
 * An open-addressing hash table of pointers (linear probing, deletion by
 * shifting back) finds a thread; two lists keep the order of use, one for
 * threads whose record has come and one for stubs, so that a host that loses
 * exit records still has a bounded cache, and gives up stubs first.
 */
#include "enrich.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "processes.h"

#define MIN_SLOTS 64 /* a power of two */

struct entry {
	struct thread thread; /* first: threads_find() returns it */
	struct entry *older, *newer;
	bool stub;
};

struct list {
	struct entry *oldest, *newest;
};

struct threads {
	struct entry **slots;
	size_t nslots; /* a power of two, at least twice count */
	size_t count;
	struct entry *last; /* found by the last look-up */
	struct list known, stubs;
};

static size_t hash(uint64_t key, size_t nslots)
{
	return (key * 0x9e3779b97f4a7c15u) >> 32 & (nslots - 1);
}

/* ---- order of use ---- */

static struct list *list_of(struct threads *threads, const struct entry *entry)
{
	return entry->stub ? &threads->stubs : &threads->known;
}

static void list_append(struct list *list, struct entry *entry)
{
	entry->older = list->newest;
	entry->newer = NULL;
	if (list->newest)
		list->newest->newer = entry;
	else
		list->oldest = entry;
	list->newest = entry;
}

static void list_remove(struct list *list, struct entry *entry)
{
	if (entry->older)
		entry->older->newer = entry->newer;
	else
		list->oldest = entry->newer;
	if (entry->newer)
		entry->newer->older = entry->older;
	else
		list->newest = entry->older;
}

/* ---- the hash table ---- */

/* The slot that holds the key, or the empty one where it would go. */
static size_t slot_of(const struct threads *threads, uint64_t key)
{
	size_t i = hash(key, threads->nslots);

	while (threads->slots[i] && threads->slots[i]->thread.pid_tgid != key)
		i = (i + 1) & (threads->nslots - 1);
	return i;
}

static int grow(struct threads *threads)
{
	struct entry **old = threads->slots;
	size_t nold = threads->nslots;
	size_t nslots = nold ? nold * 2 : MIN_SLOTS;
	struct entry **slots = calloc(nslots, sizeof(void *));

	if (!slots)
		return -ENOMEM;
	threads->slots = slots;
	threads->nslots = nslots;
	for (size_t i = 0; i < nold; i++)
		if (old[i])
			slots[slot_of(threads, old[i]->thread.pid_tgid)] = old[i];
	free(old);
	return 0;
}

/* Empties a slot and moves back what had been pushed past it. */
static void clear_slot(struct threads *threads, size_t hole)
{
	size_t mask = threads->nslots - 1;

	for (size_t i = (hole + 1) & mask; threads->slots[i]; i = (i + 1) & mask) {
		size_t home = hash(threads->slots[i]->thread.pid_tgid, threads->nslots);

		if (((i - home) & mask) >= ((i - hole) & mask)) {
			threads->slots[hole] = threads->slots[i];
			hole = i;
		}
	}
	threads->slots[hole] = NULL;
}

/* ---- entries ---- */

void thread_drop_prefixes(struct thread *thread)
{
	for (int i = 0; i < THREAD_PREFIXES; i++) {
		free(thread->prefix[i].data);
		thread->prefix[i] = (struct thread_prefix){0};
	}
}

static void remove_entry(struct threads *threads, struct entry *entry)
{
	clear_slot(threads, slot_of(threads, entry->thread.pid_tgid));
	list_remove(list_of(threads, entry), entry);
	threads->count--;
	if (threads->last == entry)
		threads->last = NULL;
	thread_drop_prefixes(&entry->thread);
	process_put(entry->thread.process);
	free(entry);
}

static struct entry *add_entry(struct threads *threads, uint64_t key)
{
	struct entry *entry;

	if (threads->count == THREADS_MAX)
		remove_entry(threads, threads->stubs.oldest ? threads->stubs.oldest : threads->known.oldest);
	if ((threads->count + 1) * 2 > threads->nslots && grow(threads))
		return NULL;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->thread.pid_tgid = key;
	entry->thread.pid = (uint32_t)(key >> 32);
	entry->thread.tid = (uint32_t)key;
	entry->stub = true;
	threads->slots[slot_of(threads, key)] = entry;
	threads->count++;
	list_append(&threads->stubs, entry);
	return entry;
}

/* The entry of a key, made if there is none, as the one used last. */
static struct entry *use_entry(struct threads *threads, uint64_t key)
{
	struct entry *entry = threads->last;

	if (entry && entry->thread.pid_tgid == key)
		return entry;
	entry = threads->nslots ? threads->slots[slot_of(threads, key)] : NULL;
	if (!entry) {
		entry = add_entry(threads, key);
	} else {
		list_remove(list_of(threads, entry), entry);
		list_append(list_of(threads, entry), entry);
	}
	if (entry)
		threads->last = entry;
	return entry;
}

/* ---- the interface ---- */

struct threads *threads_new(void)
{
	return calloc(1, sizeof(struct threads));
}

void threads_free(struct threads *threads)
{
	if (!threads)
		return;
	for (size_t i = 0; i < threads->nslots; i++) {
		if (!threads->slots[i])
			continue;
		thread_drop_prefixes(&threads->slots[i]->thread);
		process_put(threads->slots[i]->thread.process);
		free(threads->slots[i]);
	}
	free(threads->slots);
	free(threads);
}

static void copy_name(char to[REC_COMM_LEN + 1], const char from[REC_COMM_LEN])
{
	memset(to, 0, REC_COMM_LEN + 1);
	memcpy(to, from, strnlen(from, REC_COMM_LEN));
}

int threads_learn(struct threads *threads, const struct rec_thread *rec)
{
	struct entry *entry = use_entry(threads, rec->pid_tgid);
	struct thread *thread;

	if (!entry)
		return -ENOMEM;
	if (entry->stub) {
		list_remove(&threads->stubs, entry);
		entry->stub = false;
		list_append(&threads->known, entry);
	}
	thread = &entry->thread;
	thread_drop_prefixes(thread);
	thread->start_ns = rec->start_ns;
	thread->process_start_ns = rec->process_start_ns;
	thread->cgroup = rec->cgroup;
	thread->uid = rec->uid;
	thread->pid = rec->pid ? rec->pid : (uint32_t)(rec->pid_tgid >> 32);
	thread->tid = rec->tid ? rec->tid : (uint32_t)rec->pid_tgid;
	thread->ns_pid = rec->ns_pid != thread->pid ? rec->ns_pid : 0;
	thread->ns_tid = rec->ns_tid != thread->tid ? rec->ns_tid : 0;
	copy_name(thread->comm, rec->comm);
	copy_name(thread->thread, rec->thread);
	if (!strcmp(thread->comm, thread->thread))
		thread->thread[0] = '\0';
	return 0;
}

struct thread *threads_find(struct threads *threads, uint64_t pid_tgid)
{
	struct entry *entry = use_entry(threads, pid_tgid);

	return entry ? &entry->thread : NULL;
}

void threads_set_process(struct thread *thread, struct process *process)
{
	process_put(thread->process);
	thread->process = process;
	thread_drop_prefixes(thread);
}

void threads_renew(struct threads *threads, uint32_t tgid)
{
	for (size_t i = 0; i < threads->nslots; i++)
		if (threads->slots[i] && threads->slots[i]->thread.pid_tgid >> 32 == tgid)
			thread_drop_prefixes(&threads->slots[i]->thread);
}

void threads_renew_all(struct threads *threads)
{
	for (size_t i = 0; i < threads->nslots; i++)
		if (threads->slots[i])
			thread_drop_prefixes(&threads->slots[i]->thread);
}

void threads_forget(struct threads *threads, const struct rec_thread_exit *rec)
{
	size_t i;

	if (!threads->nslots)
		return;
	i = slot_of(threads, rec->pid_tgid);
	if (threads->slots[i])
		remove_entry(threads, threads->slots[i]);
	if (!rec->leader)
		return;
	/* Exit records of its other threads may have been lost. A removal can move a later entry into
	 * the slot just emptied, so that slot is looked at again. */
	for (i = 0; i < threads->nslots; i++)
		while (threads->slots[i] && threads->slots[i]->thread.pid_tgid >> 32 == rec->pid_tgid >> 32)
			remove_entry(threads, threads->slots[i]);
}

size_t threads_count(const struct threads *threads)
{
	return threads->count;
}
