/*
 * Files of devices without a number of their own may lie anywhere: behind a
 * network, behind a program. One that does not answer must not stop all else.
 */
#ifndef CUDATAP_TRACE_OPENED_H
#define CUDATAP_TRACE_OPENED_H

#include "internal.h"

/* A file that was opened and read by a thread that could wait for it. */
struct opened {
	struct find_file file;
	int fd;                  /* or a negative errno */
	bool has_key;            /* it is a regular file */
	struct shown_key key;    /* before it was read */
	int err;                 /* of find_image_read() */
	struct find_image image; /* when that is 0 */
	char path[];             /* file.path */
};

/**
 * opened_read - open a file and read it, for as long as patience_call() lasts
 * Returns 0 with *ret_opened, to be freed by opened_free(), also where the file cannot be opened or read; or
 * a negative errno, after a message when it was given up just now.
 */
int opened_read(struct trace *trace, const struct find_file *file, struct opened **ret_opened);
void opened_free(void *job);

#endif
