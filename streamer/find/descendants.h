/* The processes below others. */
#ifndef CUDATAP_DESCENDANTS_H
#define CUDATAP_DESCENDANTS_H

#include <stddef.h>
#include <sys/types.h>

/**
 * find_descendants - children of processes, their children, and so on, as they are now
 * @roots: processes, which are not among the result
 * @ret_list: to be freed
 * Those that fork meanwhile can be missed: who must not miss any calls it again until nothing is new.
 * Returns how many, or -ENOMEM.
 */
ssize_t find_descendants(const pid_t *roots, size_t nroots, pid_t **ret_list);

#endif
