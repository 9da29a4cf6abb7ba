/*
 * The CUDA libraries of this host, each file once, with the processes that
 * map it: for `cudatap list libraries` and for tracing the whole host.
 *
 *	struct find_list list = {0};
 *	int err = find_host(&list);
 *	... list.libraries[0 .. list.n) ...
 *	find_list_free(&list);
 *
 * find_list_add() is a find_fn, so any walk of find.h can fill the list.
 */
#ifndef CUDATAP_LIST_H
#define CUDATAP_LIST_H

#include "find.h"
#include "seen.h"

struct find_library {
	struct find_file file; /* as first found; find_open(&file) opens it */
	pid_t *pids;           /* those that map it, in the order found */
	size_t npids;
	int error;               /* 0, or why it cannot be probed: see find_error_text() */
	struct find_image image; /* when error is 0 */
};

/* Start with {0}. Owns everything in it. */
struct find_list {
	struct find_library *libraries; /* in the order found */
	size_t n, size;
	size_t nread;     /* files looked into */
	struct seen seen; /* also the files that hold nothing */
};

/**
 * find_list_add - look into a file, unless it was looked into before
 * @list: a struct find_list
 *
 * A file with CUDA functions becomes a library of the list. One that cannot be
 * probed is kept with its error if its name promised CUDA; others are only
 * remembered, so as to be read once. Returns 0 or -ENOMEM.
 */
int find_list_add(void *list, const struct find_file *file);

/**
 * find_list_add_named - the same for files that the user named by path or glob:
 * whatever cannot be probed is kept with its error
 */
int find_list_add_named(void *list, const struct find_file *file);

/** find_host - everything that processes map and that the usual places hold */
int find_host(struct find_list *list);

void find_list_free(struct find_list *list);

#endif
