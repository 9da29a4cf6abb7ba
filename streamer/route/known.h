/*
 * What is known of who calls: threads, processes, devices, kernels' names.
 * Learned from all records that are no calls, used to complete those that
 * are; tells of processes and devices by events. The reader thread's alone,
 * where nothing else is said.
 */
#ifndef CUDATAP_KNOWN_H
#define CUDATAP_KNOWN_H

#include <jansson.h>

#include "../capture/capture.h"
#include "../encode/encode.h"
#include "../../config/config.h"

/* Takes the reference to the body over. */
typedef void (*known_event_fn)(void *ctx, enum event_type type, json_t *body);

struct known_options {
	struct config *config;    /* of the start: a reference is taken */
	const struct plan *plans; /* kept, as is the following */
	struct capture *capture;
	known_event_fn event; /* an event that comes before the calls that follow */
	void *ctx;
};

struct known;

/** known_new - NULL when out of memory */
struct known *known_new(const struct known_options *options);
void known_free(struct known *known);

/** known_configure - the configuration, and with it the encoders, are others from now on */
void known_configure(struct known *known, const struct config *config);

/** known_record - take a record that is no call; those of other kinds are ignored */
void known_record(struct known *known, const void *record, size_t size);

/**
 * known_call - complete a call with what is known: kernel, device
 * Returns the thread that made it, good until the next record is taken; NULL when out of memory.
 */
struct thread *known_call(struct known *known, struct call *call);

/** known_count - the call becomes an event: add it to its process's totals */
void known_count(struct thread *thread, const struct call *call);

/** known_turn - take in what has been found out beside the records since the last turn */
void known_turn(struct known *known);

/** known_settle - the ring has been read to its end */
void known_settle(struct known *known);

/** known_program - a program is held in a process of the command's: one that is about to run (@starts), or
 * one that is about to be replaced. Any thread. */
void known_program(struct known *known, pid_t pid, bool starts);

/** known_environs_missed - processes whose environment is wanted and not known: most had ended before it
 * could be read. Any thread. */
uint64_t known_environs_missed(const struct known *known);

/** known_followed, known_attached - see devices.h. Any thread. */
void known_followed(struct known *known);
void known_attached(struct known *known, unsigned attach_id);

#endif
