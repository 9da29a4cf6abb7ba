/* A queue of questions and the thread that answers them. */
#include "cmdlines.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alive.h"

struct question {
	struct question *next;
	uint32_t tgid;
	pid_t pid;
	uint64_t start_ns;
};

struct cmdlines {
	cmdlines_fn fn;
	void *ctx;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t news;
	struct question *first, **last;
	size_t n;
	bool stop;
};

static size_t read_file(pid_t pid, const char *name, char *data, size_t size)
{
	char path[64];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, data, size);
		close(fd);
	}
	return n > 0 ? (size_t)n : 0;
}

size_t cmdlines_read(pid_t pid, uint64_t start_ns, char words[CMDLINES_MAX])
{
	size_t len = read_file(pid, "cmdline", words, CMDLINES_MAX);

	/* afterwards: the number was this process's still */
	return len && alive_still(pid, start_ns) ? len : 0;
}

static struct question *next_question(struct cmdlines *cmdlines)
{
	struct question *question;

	pthread_mutex_lock(&cmdlines->lock);
	while (!cmdlines->first && !cmdlines->stop)
		pthread_cond_wait(&cmdlines->news, &cmdlines->lock);
	question = cmdlines->stop ? NULL : cmdlines->first;
	if (question) {
		cmdlines->first = question->next;
		if (!cmdlines->first)
			cmdlines->last = &cmdlines->first;
		cmdlines->n--;
	}
	pthread_mutex_unlock(&cmdlines->lock);
	return question;
}

static void *answer(void *arg)
{
	struct cmdlines *cmdlines = arg;
	struct question *question;
	char words[CMDLINES_MAX];
	size_t len;

	pthread_setname_np(pthread_self(), "cudatap-cmdline");
	while ((question = next_question(cmdlines))) {
		len = cmdlines_read(question->pid, question->start_ns, words);
		if (len)
			cmdlines->fn(cmdlines->ctx, question->tgid, question->start_ns, words, len);
		free(question);
	}
	return NULL;
}

void cmdlines_ask(struct cmdlines *cmdlines, uint32_t tgid, pid_t pid, uint64_t start_ns)
{
	struct question *question = malloc(sizeof(*question));

	if (!question)
		return;
	*question = (struct question){.tgid = tgid, .pid = pid, .start_ns = start_ns};
	pthread_mutex_lock(&cmdlines->lock);
	if (cmdlines->n < CMDLINES_WAITING) {
		*cmdlines->last = question;
		cmdlines->last = &question->next;
		cmdlines->n++;
		question = NULL;
		pthread_cond_signal(&cmdlines->news);
	}
	pthread_mutex_unlock(&cmdlines->lock);
	free(question);
}

struct cmdlines *cmdlines_new(cmdlines_fn fn, void *ctx)
{
	struct cmdlines *cmdlines = calloc(1, sizeof(*cmdlines));
	sigset_t all, old;
	int err;

	if (!cmdlines)
		return NULL;
	cmdlines->fn = fn;
	cmdlines->ctx = ctx;
	cmdlines->last = &cmdlines->first;
	pthread_mutex_init(&cmdlines->lock, NULL);
	pthread_cond_init(&cmdlines->news, NULL);
	/* signals are the main thread's */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&cmdlines->thread, NULL, answer, cmdlines);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!err)
		return cmdlines;
	free(cmdlines);
	return NULL;
}

void cmdlines_free(struct cmdlines *cmdlines)
{
	struct question *question, *next;

	if (!cmdlines)
		return;
	pthread_mutex_lock(&cmdlines->lock);
	cmdlines->stop = true;
	pthread_cond_signal(&cmdlines->news);
	pthread_mutex_unlock(&cmdlines->lock);
	pthread_join(cmdlines->thread, NULL);
	for (question = cmdlines->first; question; question = next) {
		next = question->next;
		free(question);
	}
	pthread_mutex_destroy(&cmdlines->lock);
	pthread_cond_destroy(&cmdlines->news);
	free(cmdlines);
}
