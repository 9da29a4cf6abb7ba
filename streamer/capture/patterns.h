/*
 * Patterns that select processes, as bpf/selection.h looks them up:
 *
 *	uids		a number
 *	comms		the name of the process's leader, or its beginning and "*"
 *	exe		an absolute path as the process sees it, or what its path ends in: "python3",
 *"bin/python3" cgroups		an absolute path, or the name of a cgroup; processes below are meant too
 *	containers	an id, or at least its first 12 digits
 */
#ifndef CUDATAP_PATTERNS_H
#define CUDATAP_PATTERNS_H

#include "capture.h"

/** patterns_*_wrong - NULL when the pattern can be looked up, else what it is to be: "... is not PHRASE" */
const char *patterns_uid_wrong(const char *text);
const char *patterns_comm_wrong(const char *text);
const char *patterns_exe_wrong(const char *text);
const char *patterns_cgroup_wrong(const char *text);
const char *patterns_container_wrong(const char *text);

/* A pattern as a key of its map. */
struct pattern {
	char key[REC_SELECT_TEXT]; /* the first bytes of it, for maps with shorter ones */
	uint32_t match;            /* REC_MATCH_* */
};

/** patterns_make_* - from text that is right */
void patterns_make_uid(const char *text, struct pattern *pattern);
void patterns_make_comm(const char *text, struct pattern *pattern);
void patterns_make_path(const char *text, struct pattern *pattern);
void patterns_make_container(const char *text, struct pattern *pattern);

#endif
