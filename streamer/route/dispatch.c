/* Encoders and gates of one configuration. */
#include "dispatch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROCESS_FIELDS 0x3full /* of encode_field_names[], from ENCODE_PROCESS_FIELD on */

/* The keys that a sink's calls do not have, for encoder_options. */
static uint64_t unwanted_fields(const struct config *config, const struct config_sink *sink)
{
	uint64_t unwanted = ~config->fields.process & PROCESS_FIELDS;
	uint64_t only = sink->fields.only ? sink->fields.only : UINT64_MAX;

	return (~only | sink->fields.drop) << ENCODE_FIXED_FIELDS | unwanted << ENCODE_PROCESS_FIELD;
}

static void copy_fields(struct encode_static *to, const struct config_fields *from)
{
	for (size_t i = 0; i < from->n; i++)
		to[i] = (struct encode_static){from->list[i].name, from->list[i].value};
}

static struct encoder *make_encoder(const struct config *config, const struct config_sink *sink, size_t slot,
				    const char *run, char *error, size_t error_size)
{
	const struct config_strings *redact[] = {&config->fields.redact, &sink->fields.redact};
	struct encode_static statics[config->fields.nstatics + 1], rename[sink->fields.rename.n + 1];
	const char *parameters[redact[0]->n + redact[1]->n + 1];
	struct encoder_options options = {
		.format = sink->format,
		.slot = (unsigned)slot,
		.run = run,
		.host = config->host,
		.args = config->fields.args && sink->fields.args,
		.nested = config->nested,
		.statics = statics,
		.nstatics = config->fields.nstatics,
		.without = unwanted_fields(config, sink),
		.rename = rename,
		.nrename = sink->fields.rename.n,
		.redact = parameters,
		.env = (const char *const *)config->fields.env.list,
		.nenv = config->fields.env.n,
		.error_size = error_size,
	};

	options.error = error;
	copy_fields(statics, &config->fields.constant);
	copy_fields(rename, &sink->fields.rename);
	for (int i = 0; i < 2; i++)
		for (size_t j = 0; j < redact[i]->n; j++)
			parameters[options.nredact++] = redact[i]->list[j];
	return encoder_new(&options);
}

static int make_encoders(struct dispatch *dispatch, const struct forms *forms, const char *run, char *error,
			 size_t error_size)
{
	const struct config *config = dispatch->config;
	char why[256] = "out of memory";

	if (forms->n > FORMS_MAX) {
		snprintf(error, error_size,
			 "the sinks want events in more than %d combinations of `format` and `fields`",
			 FORMS_MAX);
		return -E2BIG;
	}
	for (size_t i = 0; i < forms->n; i++) {
		const struct config_sink *sink = forms->list[i].config;

		dispatch->sinks[i] = forms->list[i].sinks;
		dispatch->encoders[i] = make_encoder(config, sink, i, run, why, sizeof(why));
		if (dispatch->encoders[i])
			dispatch->loss_encoders[i] = make_encoder(config, sink, i, run, why, sizeof(why));
		if (!dispatch->loss_encoders[i]) {
			snprintf(error, error_size, "sink %s: %s", sink->name, why);
			return errno ? -errno : -ENOMEM;
		}
	}
	dispatch->n = forms->n;
	return 0;
}

int dispatch_new(const struct config *config, const struct forms *forms, const char *run,
		 struct dispatch **ret_dispatch, char *error, size_t error_size)
{
	struct dispatch *dispatch = calloc(1, sizeof(*dispatch));
	int err = dispatch ? 0 : -ENOMEM;

	snprintf(error, error_size, "out of memory");
	if (dispatch) {
		dispatch->config = config;
		err = gate_new(config->sinks, config->nsinks, &dispatch->gate);
	}
	if (!err)
		err = rules_new(config, &dispatch->rules);
	if (!err)
		err = make_encoders(dispatch, forms, run, error, error_size);
	if (err)
		dispatch_free(dispatch);
	else
		*ret_dispatch = dispatch;
	return err;
}

void dispatch_free(struct dispatch *dispatch)
{
	if (!dispatch)
		return;
	gate_free(dispatch->gate);
	rules_free(dispatch->rules);
	for (size_t i = 0; i < FORMS_MAX; i++) {
		encoder_free(dispatch->encoders[i]);
		encoder_free(dispatch->loss_encoders[i]);
	}
	free(dispatch);
}

/* ---- losses of sinks ---- */

static const struct config_sink *sink_named(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->nsinks; i++)
		if (!strcmp(config->sinks[i].name, name))
			return &config->sinks[i];
	return NULL;
}

static struct encoder *find_encoder(const struct dispatch *dispatch, const struct config_sink *sink)
{
	size_t bit = (size_t)(sink - dispatch->config->sinks);

	for (size_t i = 0; i < dispatch->n; i++)
		if (dispatch->sinks[i] >> bit & 1)
			return dispatch->loss_encoders[i];
	return NULL;
}

struct encoder *dispatch_loss_encoder(const struct dispatch *dispatch, const char *run, const char *sink,
				      const char *format, struct encoder **ret_own)
{
	const struct config_sink *config = sink_named(dispatch->config, sink);
	const struct config_sink plain = {.name = (char *)sink, .format = (char *)format};

	*ret_own = NULL;
	if (config && !strcmp(config->format, format))
		return find_encoder(dispatch, config);
	*ret_own = make_encoder(dispatch->config, &plain, 0, run, NULL, 0);
	return *ret_own;
}
