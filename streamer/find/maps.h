/* One line of /proc/PID/maps: the format is in proc_pid_maps(5). */
#ifndef CUDATAP_MAPS_H
#define CUDATAP_MAPS_H

#include "find.h"

/**
 * maps_parse_line - an executable mapping of a file
 * @line: with or without its newline; changed in place, @file->path points into it
 * @file: pid is left alone
 *
 * Takes the escapes out of the path (\012 for a newline) and " (deleted)" off its end.
 * Returns false for other mappings and for lines that are none.
 */
bool maps_parse_line(char *line, struct find_file *file);

#endif
