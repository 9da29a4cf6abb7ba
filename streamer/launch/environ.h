/* The command's environment. */
#ifndef CUDATAP_LAUNCH_ENVIRON_H
#define CUDATAP_LAUNCH_ENVIRON_H

#include "launch.h"

/**
 * environ_make - cudatap's environment with what the loader hid, as the user's
 * @user: or NULL
 * Returns NULL when out of memory; freed by environ_free().
 */
char **environ_make(const struct launch_user *user);
void environ_free(char **vars);

#endif
