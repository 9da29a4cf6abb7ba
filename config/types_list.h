/* Every key type's row, for key_types[]. */
#ifndef CUDATAP_CONFIG_TYPES_LIST_H
#define CUDATAP_CONFIG_TYPES_LIST_H

#include "types.h"

/* types_scalar.c */
extern const struct key_type_ops type_bool, type_int, type_size, type_duration, type_string, type_enum,
	type_mode, type_literal;
/* types_words.c */
extern const struct key_type_ops type_words, type_strings, type_pids, type_fields;
/* types_api.c */
extern const struct key_type_ops type_families, type_functions, type_errors, type_apis;
/* types_rates.c */
extern const struct key_type_ops type_rates;
/* types_sinks.c */
extern const struct key_type_ops type_sinks, type_sink_kind;
/* profiles.c */
extern const struct key_type_ops type_profiles;
/* types.c */
extern const struct key_type_ops type_map;

#endif
