/* Writes YAML, value by value, by libyaml's emitter. The first failure sticks and comes out of emit_free().
 */
#ifndef CUDATAP_CONFIG_EMIT_H
#define CUDATAP_CONFIG_EMIT_H

#include <stdbool.h>
#include <stdio.h>

#define EMIT_SECRET   "********"
#define EMIT_REVEALED '\1' /* begins a secret that is to be compared, see emit_reveal() */

struct emit;

/* NULL when out of memory. @out is borrowed. */
struct emit *emit_new(FILE *out);

/** emit_free - ends the document. Returns 0, -EIO or -ENOMEM. */
int emit_free(struct emit *emit);

void emit_map(struct emit *emit);
void emit_flow_map(struct emit *emit); /* {on: one, line: yes} */
void emit_map_end(struct emit *emit);
void emit_list(struct emit *emit); /* on one line */
void emit_list_end(struct emit *emit);

/** emit_word - as it is: numbers, words of the key table, keys */
void emit_word(struct emit *emit, const char *word);

/** emit_text - a user's text: quoted where YAML would read something else, "${" as "$${". Bytes that are no
 * UTF-8 become U+FFFD. */
void emit_text(struct emit *emit, const char *text);

/** emit_secret - a text that nobody is to see: EMIT_SECRET in its place */
void emit_secret(struct emit *emit, const char *text);

/** emit_reveal - write secrets from here on, with EMIT_REVEALED before them: for comparing, never for eyes */
void emit_reveal(struct emit *emit);

#endif
