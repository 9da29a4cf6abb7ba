/*
 * How events become lines for sinks, by one configuration: encoders for each
 * form, and filters and rate limits of the sinks. A new configuration makes a
 * new one, which takes the old one's place between two events.
 */
#ifndef CUDATAP_DISPATCH_H
#define CUDATAP_DISPATCH_H

#include "../encode/encode.h"
#include "../enrich/enrich.h"
#include "gate.h"
#include "rules.h"

_Static_assert(FORMS_MAX <= THREAD_PREFIXES, "each form keeps what it says of a thread in a slot of its own");

struct dispatch {
	const struct config *config;              /* kept */
	struct rules *rules;                      /* NULL: every call becomes an event */
	struct gate *gate;                        /* NULL: every sink takes every call */
	size_t n;                                 /* forms */
	struct encoder *encoders[FORMS_MAX];      /* the reader's */
	struct encoder *loss_encoders[FORMS_MAX]; /* the workers' */
	uint64_t sinks[FORMS_MAX];                /* of each form */
};

/**
 * dispatch_new - for the sinks of a configuration
 * @forms: of config->sinks
 * @run: copied
 * @error: one sentence for the user when the result is negative
 * Returns 0 or a negative errno.
 */
int dispatch_new(const struct config *config, const struct forms *forms, const char *run,
		 struct dispatch **ret_dispatch, char *error, size_t error_size);
void dispatch_free(struct dispatch *dispatch);

/**
 * dispatch_loss_encoder - for the loss events of a sink, also of one that this configuration does not have
 * @format: of that sink
 * @ret_own: to be freed after use, or NULL
 * Returns NULL when out of memory.
 */
struct encoder *dispatch_loss_encoder(const struct dispatch *dispatch, const char *run, const char *sink,
				      const char *format, struct encoder **ret_own);

#endif
