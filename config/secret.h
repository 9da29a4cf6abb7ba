/* Secrets that lie in files. */
#ifndef CUDATAP_CONFIG_SECRET_H
#define CUDATAP_CONFIG_SECRET_H

#include "errors.h"
#include "keys.h"
#include "tree.h"

#define SECRET_FILE_SUFFIX "_file"
#define SECRET_MAX         (64u << 10) /* bytes */

/**
 * secret_read - the value of a KEY_SECRET key from a file
 * @e: such as `password_file: /run/secrets/kafka`; relative paths are beside the file that says so
 *
 * One newline at the end is none of the secret. A file that everyone can read is worth a warning.
 * Nothing is opened when errors->elsewhere.
 */
void secret_read(const struct key *key, const struct node_entry *e, void *base, struct errors *errors);

#endif
