/* What the files of the configuration share: the key rows, the sinks' life, the loading of a text. */
#ifndef CUDATAP_CONFIG_INTERNAL_H
#define CUDATAP_CONFIG_INTERNAL_H

#include "config.h"
#include "errors.h"
#include "keys.h"

/* Up to a row without a name. */
extern const struct key config_keys[];
/** config_key - the row of that name, or NULL */
const struct key *config_key(const char *name);
extern const struct key
	config_sink_keys[]; /* of every sink; first its type; the kind's own come after them */

extern const struct key config_spool_keys[]; /* of sinks whose kind spools */

#define SINK_KEY_SETS 3

/** sink_key_sets - the tables of a sink's keys with what they fill; returns how many, SINK_KEY_SETS at most
 */
struct key_set;
size_t sink_key_sets(struct config_sink *sink, struct key_set *ret_sets);

/** config_load_text - as config_load(), from memory; @name stands for the file in messages */
int config_load_text(const char *name, const char *text, size_t len, const struct config_overrides *overrides,
		     FILE *out, struct config **ret_config);

/** config_emit - config_print() without the comment; @reveal: as emit_reveal() */
int config_emit(const struct config *config, bool reveal, FILE *out);

/** overrides_apply - what the command line says, over what the file said */
void overrides_apply(struct config *config, const struct config_overrides *overrides, struct errors *errors);

/** sinks_add - one more sink with its kind's defaults and without a name. NULL when out of memory. */
struct config_sink *sinks_add(struct config *config, const struct sink_ops *ops, struct errors *errors);
void sinks_drop_last(struct config *config);
void sinks_free(struct config *config);

struct node;
/**
 * cross_check - what several keys must obey together, where each of them is right alone
 * @map: what @config was read from
 */
void cross_check(const struct config *config, const struct node *map, struct errors *errors);

#endif
