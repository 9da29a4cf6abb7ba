/* The verbs beside tracing. Each returns the exit code. */
#ifndef CUDATAP_VERBS_H
#define CUDATAP_VERBS_H

#include "cli.h"

/** verb_check - check the configuration and print it as it takes effect, or (--diff) how it differs under
 * another profile; exit 2 when it is wrong */
int verb_check(const struct cli *cli);
/** verb_list - functions, families or libraries */
int verb_list(const struct cli *cli);
/** verb_doctor - what works here; exit 1 when tracing is not possible */
int verb_doctor(const struct cli *cli);
/** verb_config - the configuration's reference in Markdown, or its JSON Schema */
int verb_config(const struct cli *cli);

#endif
