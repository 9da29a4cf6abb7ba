/*
 * libFuzzer target: the ELF reader over any bytes. Whatever it accepts must
 * keep find.h's promises.
 *
 * Seeds: small shared objects with CUDA names, whole, cut and flipped.
 */
#include <stdlib.h>
#include <string.h>

#include "streamer/find/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct find_image *image, size_t size)
{
	if (!image->nfunctions || !(image->has[TABLE_RUNTIME] || image->has[TABLE_DRIVER]))
		abort();
	if (!image->major != !image->major_from)
		abort();
	for (size_t i = 0; i < image->nfunctions; i++) {
		const struct find_function *f = &image->functions[i];

		if (f->offset >= size || f->row >= table_nrows || !image->has[table_rows[f->row].api])
			abort();
		if (i && f->offset <= image->functions[i - 1].offset)
			abort();
	}
	if (image->soname && strlen(image->soname) > size)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct find_image image = {0}, untouched = {0};
	int result = find_image_read_bytes(data, size, &image);

	if (result == 0)
		check(&image, size);
	else if (memcmp(&image, &untouched, sizeof(image)) != 0 || !find_error_text(result))
		abort();
	find_image_free(&image);
	return 0;
}
