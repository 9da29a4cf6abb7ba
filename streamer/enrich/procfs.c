/* A queue of questions and the thread that answers them. */
#include "procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../find/living.h"
#include "../monotonic.h"
#include "alive.h"

struct question {
	struct question *next;
	uint32_t tgid;
	pid_t pid;
	uint64_t start_ns;
};

struct procfs {
	struct procfs_options options;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t news, idle;
	struct question *first, **last;
	size_t n;
	bool busy; /* a question is being answered */
	bool late; /* and has been for longer than someone waited */
	bool stop;
	atomic_bool cmdline; /* wanted */
};

static int open_file(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static size_t read_file(pid_t pid, const char *name, char *data, size_t size)
{
	int fd = open_file(pid, name);
	ssize_t n = -1;

	if (fd >= 0) {
		n = read(fd, data, size);
		close(fd);
	}
	return n > 0 ? (size_t)n : 0;
}

/* Whose it was is looked at after reading. */
size_t procfs_cmdline(pid_t pid, uint64_t start, char words[PROCFS_MAX_CMDLINE])
{
	size_t len = read_file(pid, "cmdline", words, PROCFS_MAX_CMDLINE);
	pid_t other = len ? 0 : living_other(pid);

	if (other)
		len = read_file(other, "cmdline", words, PROCFS_MAX_CMDLINE);
	return len && alive_start(pid, false) == start ? len : 0;
}

/* As environs_read(), also negative when it cannot be opened. */
static int read_environ(struct environs *environs, pid_t tid, const char *const *names)
{
	int fd = open_file(tid, "environ"), some;

	if (fd < 0)
		return -errno;
	some = environs_read(environs, fd, names);
	close(fd);
	return some;
}

/* Nothing at all is what a process has that has ended, and one without an environment. */
struct environs *procfs_environs(pid_t pid, uint64_t start, const char *const *names, size_t n)
{
	struct environs *environs = environs_new(n);
	int some = environs ? read_environ(environs, pid, names) : -ENOMEM;
	pid_t other = environs && some <= 0 ? living_other(pid) : 0;

	if (other)
		some = read_environ(environs, other, names);
	/* some thread lives where there was another one to ask */
	if (some >= 0 && alive_start(pid, !some && !other) == start)
		return environs;
	environs_free(environs);
	return NULL;
}

static struct question *next_question(struct procfs *procfs)
{
	struct question *question;

	pthread_mutex_lock(&procfs->lock);
	procfs->busy = false;
	if (!procfs->first) {
		procfs->late = false;
		pthread_cond_signal(&procfs->idle);
	}
	while (!procfs->first && !procfs->stop)
		pthread_cond_wait(&procfs->news, &procfs->lock);
	question = procfs->stop ? NULL : procfs->first;
	if (question) {
		procfs->first = question->next;
		if (!procfs->first)
			procfs->last = &procfs->first;
		procfs->n--;
		procfs->busy = true;
	}
	pthread_mutex_unlock(&procfs->lock);
	return question;
}

static void *answer(void *arg)
{
	struct procfs *procfs = arg;
	const struct procfs_options *options = &procfs->options;
	char words[PROCFS_MAX_CMDLINE];
	struct procfs_answer answer;
	struct question *question;
	uint64_t start;

	pthread_setname_np(pthread_self(), "cudatap-procfs");
	while ((question = next_question(procfs))) {
		answer = (struct procfs_answer){
			.tgid = question->tgid, .start_ns = question->start_ns, .words = words};
		start = alive_ticks(question->start_ns);
		if (options->nenv)
			answer.environs = procfs_environs(question->pid, start, options->env, options->nenv);
		if (atomic_load(&procfs->cmdline))
			answer.len = procfs_cmdline(question->pid, start, words);
		if (answer.len || answer.environs)
			options->fn(options->ctx, &answer);
		free(question);
	}
	return NULL;
}

void procfs_want_cmdline(struct procfs *procfs)
{
	atomic_store(&procfs->cmdline, true);
}

void procfs_ask(struct procfs *procfs, uint32_t tgid, pid_t pid, uint64_t start_ns)
{
	struct question *question = malloc(sizeof(*question));

	if (!question)
		return;
	*question = (struct question){.tgid = tgid, .pid = pid, .start_ns = start_ns};
	pthread_mutex_lock(&procfs->lock);
	if (procfs->n < PROCFS_WAITING) {
		*procfs->last = question;
		procfs->last = &question->next;
		procfs->n++;
		question = NULL;
		pthread_cond_signal(&procfs->news);
	}
	pthread_mutex_unlock(&procfs->lock);
	free(question);
}

void procfs_wait(struct procfs *procfs, uint64_t timeout_ns)
{
	struct timespec end;
	int err = 0;

	clock_gettime(CLOCK_MONOTONIC, &end);
	timeout_ns += (uint64_t)end.tv_nsec;
	end.tv_sec += (time_t)(timeout_ns / 1000000000u);
	end.tv_nsec = (long)(timeout_ns % 1000000000u);
	pthread_mutex_lock(&procfs->lock);
	while ((procfs->first || procfs->busy) && !procfs->late && !err)
		err = pthread_cond_timedwait(&procfs->idle, &procfs->lock, &end);
	procfs->late |= err != 0;
	pthread_mutex_unlock(&procfs->lock);
}

/* Deadlines are by the monotonic clock. */
static void init_conditions(struct procfs *procfs)
{

	pthread_cond_init(&procfs->news, NULL);
	monotonic_cond_init(&procfs->idle);
}

struct procfs *procfs_new(const struct procfs_options *options)
{
	struct procfs *procfs = calloc(1, sizeof(*procfs));
	sigset_t all, old;
	int err;

	if (!procfs)
		return NULL;
	procfs->options = *options;
	atomic_init(&procfs->cmdline, options->cmdline);
	procfs->last = &procfs->first;
	pthread_mutex_init(&procfs->lock, NULL);
	init_conditions(procfs);
	/* signals are the main thread's */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&procfs->thread, NULL, answer, procfs);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!err)
		return procfs;
	free(procfs);
	return NULL;
}

void procfs_free(struct procfs *procfs)
{
	struct question *question, *next;

	if (!procfs)
		return;
	pthread_mutex_lock(&procfs->lock);
	procfs->stop = true;
	pthread_cond_signal(&procfs->news);
	pthread_mutex_unlock(&procfs->lock);
	pthread_join(procfs->thread, NULL);
	for (question = procfs->first; question; question = next) {
		next = question->next;
		free(question);
	}
	pthread_mutex_destroy(&procfs->lock);
	pthread_cond_destroy(&procfs->news);
	pthread_cond_destroy(&procfs->idle);
	free(procfs);
}
