/* The normalised keys of a call, from the rules in the API table. */
#ifndef CUDATAP_DECODE_KEYS_H
#define CUDATAP_DECODE_KEYS_H

#include "decode.h"

/** keys_make - fill call->keys; a key whose operands are absent is absent */
void keys_make(struct call *call);

#endif
