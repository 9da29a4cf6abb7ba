/* The kinds of sinks, each in a file of its own. */
#ifndef CUDATAP_KINDS_H
#define CUDATAP_KINDS_H

#include "sink.h"

extern const struct sink_ops sink_stdout;
extern const struct sink_ops sink_file;
extern const struct sink_ops sink_syslog;
extern const struct sink_ops sink_kafka;

#endif
