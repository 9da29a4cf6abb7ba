/* The image reader over a file's bytes in memory, for tests and fuzzing; see find.h. */
#ifndef CUDATAP_IMAGE_H
#define CUDATAP_IMAGE_H

#include "find.h"

/** find_image_read_bytes - as find_image_read(), of @size bytes */
int find_image_read_bytes(const void *bytes, size_t size, struct find_image *image);

#endif
