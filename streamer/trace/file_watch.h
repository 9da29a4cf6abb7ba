/*
 * Watches files by their names: what an editor renames into place, what a
 * symbolic link on the way leads to from now on, and names that appear or go
 * are changes as much as a file that is written to.
 */
#ifndef CUDATAP_FILE_WATCH_H
#define CUDATAP_FILE_WATCH_H

#include "../../config/config.h"

struct file_watch;

/** file_watch_new - NULL with errno when that is not possible */
struct file_watch *file_watch_new(void);
void file_watch_free(struct file_watch *watch);
/** file_watch_fd - readable when file_watch_read() has something to do */
int file_watch_fd(const struct file_watch *watch);

/**
 * file_watch_set - watch these instead of those before
 * @paths: files, which need not exist, and patterns of names in a directory
 * Returns whether something may have changed unseen: when what is watched is not the same as before.
 */
bool file_watch_set(struct file_watch *watch, const struct config_strings *paths);

/** file_watch_read - take what has happened; was any of it to these files? */
bool file_watch_read(struct file_watch *watch);

#endif
