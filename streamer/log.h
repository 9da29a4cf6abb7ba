/*
 * Messages for people: one whole line each on stderr, never mixed with
 * another thread's and never on stdout.
 */
#ifndef CUDATAP_LOG_H
#define CUDATAP_LOG_H

/**
 * log_msg - write "cudatap: ...\n" to stderr with a single write(2)
 * @fmt: as in printf(3), without a newline; cut at 2 KiB, control characters become '?'
 * Thread safe; errno is kept; what stderr does not take is nobody's problem.
 */
void log_msg(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
