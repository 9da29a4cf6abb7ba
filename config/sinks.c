/* The sinks of a configuration: how they come into being and go. */
#include <stdlib.h>

#include "internal.h"
#include "types.h"

#include "../sinks/sink.h"

size_t sink_key_sets(struct config_sink *sink, struct key_set *ret_sets)
{
	size_t n = 0;

	ret_sets[n++] = (struct key_set){config_sink_keys, sink};
	if (sink->ops->spools)
		ret_sets[n++] = (struct key_set){config_spool_keys, sink};
	ret_sets[n++] = (struct key_set){sink->ops->keys, sink->options};
	return n;
}

static void sink_clear(struct config_sink *sink)
{
	struct key_set sets[SINK_KEY_SETS];

	keys_free(sets, sink_key_sets(sink, sets));
	free(sink->options);
	free(sink->name);
}

struct config_sink *sinks_add(struct config *config, const struct sink_ops *ops, struct errors *errors)
{
	struct config_sink *sinks = reallocarray(config->sinks, config->nsinks + 1, sizeof(*sinks));
	struct key_set sets[SINK_KEY_SETS];
	struct config_sink *sink;

	if (!sinks)
		return NULL;
	config->sinks = sinks;
	sink = &sinks[config->nsinks];
	*sink = (struct config_sink){.ops = ops};
	/* one byte for kinds without options of their own */
	sink->options = calloc(1, ops->options_size ? ops->options_size : 1);
	if (!sink->options)
		return NULL;
	config->nsinks++;
	keys_defaults(sets, sink_key_sets(sink, sets), errors);
	return sink;
}

void sinks_drop_last(struct config *config)
{
	sink_clear(&config->sinks[--config->nsinks]);
}

void sinks_free(struct config *config)
{
	for (size_t i = 0; i < config->nsinks; i++)
		sink_clear(&config->sinks[i]);
	free(config->sinks);
	config->sinks = NULL;
	config->nsinks = 0;
}
