/* Every kind of sink: one row each. */
#include <string.h>

#include "kinds.h"

/* The order in which short URLs are tried: file takes whatever no other kind wants. */
const struct sink_ops *const sink_kinds[] = {
	&sink_stdout, &sink_syslog, &sink_kafka, &sink_file, NULL,
};

const struct sink_ops *sink_kind(const char *type)
{
	for (size_t i = 0; sink_kinds[i]; i++)
		if (!strcmp(sink_kinds[i]->type, type))
			return sink_kinds[i];
	return NULL;
}
