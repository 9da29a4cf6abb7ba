/*
 * One run of tracing: puts the rooms together and runs the control thread,
 * which is the caller's. It answers signals, held processes, ending
 * processes and duplicate probes; everything that carries events happens in
 * other threads.
 */
#ifndef CUDATAP_TRACE_H
#define CUDATAP_TRACE_H

#include "../cli.h"

/**
 * trace_run - trace until the command, the processes or the user end it
 * @config: checked configuration, with the command line's share; the reference is taken over
 * @paths: what it was made from
 * @cli: options that are no configuration
 * Returns the exit code.
 */
int trace_run(struct config *config, const struct config_strings *paths, const struct cli *cli);

#endif
