/*
 * What both halves of the format "otlp" share, and its ids.
 *
 * Nothing is remembered from call to call, so ids follow from what a record
 * holds: a span's from its thread and start, so that a call inside another one
 * can name its parent by the parent's start; a trace's from the run, the
 * process and the second in which the outer call began. A trace that went on
 * as long as the process would grow without bound, and back ends refuse those.
 */
#ifndef CUDATAP_OTLP_H
#define CUDATAP_OTLP_H

#include "escape.h"
#include "format.h"

#define OTLP_SCOPE    "cudatap"
#define OTLP_SERVICE  "service.name" /* a constant field of this name takes the place of "cudatap" */
#define OTLP_VARIABLE "process.environment_variable." /* in front of its name, semantic conventions 1.30 */
#define OTLP_TRACE_NS 1000000000ull                   /* of starts that share a trace */

/* A bijection in which every bit of the input reaches every bit of the output (the end of splitmix64). */
static inline uint64_t otlp_mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* An id of zeros means none. */
static inline uint64_t otlp_id(uint64_t x)
{
	x = otlp_mix(x);
	return x ? x : 1;
}

static inline uint64_t otlp_span_id(uint64_t run_hash, uint64_t pid_tgid, uint64_t start_ns)
{
	return otlp_id(otlp_mix(run_hash ^ pid_tgid) + start_ns);
}

#endif
