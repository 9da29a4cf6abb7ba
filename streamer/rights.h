/* What this process may do. */
#ifndef CUDATAP_RIGHTS_H
#define CUDATAP_RIGHTS_H

#include <stdbool.h>

/** rights_have - whether a capability (CAP_* of linux/capability.h) is effective */
bool rights_have(int capability);

#endif
