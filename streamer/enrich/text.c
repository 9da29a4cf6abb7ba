/* Escaping and cutting. */
#include "text.h"

#include <stdlib.h>

#include "../encode/escape.h"
#include "../encode/put.h"

void process_text_set(struct process_text *text, const char *bytes, size_t len, size_t max)
{
	char *buffer = malloc(len * ESCAPE_GROWTH + PUT_SLACK), *end, *data;
	size_t over;

	if (!buffer)
		return;
	/* what is too long loses its end, a part at a time */
	while ((size_t)((end = put_escaped(buffer, bytes, len)) - buffer) > max) {
		over = (size_t)(end - buffer) - max;
		len = escape_whole(bytes, len - 1 - over / ESCAPE_GROWTH);
	}
	len = (size_t)(end - buffer);
	data = realloc(buffer, len + PUT_SLACK);
	free(text->data);
	*text = (struct process_text){data ? data : buffer, (uint32_t)len};
}
