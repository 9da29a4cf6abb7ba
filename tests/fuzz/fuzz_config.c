/*
 * libFuzzer over the configuration's reader: any bytes give a configuration or
 * messages, and a configuration printed loads again to the same.
 *
 *	clang -fsanitize=fuzzer,address,undefined ... tests/fuzz/fuzz_config.c
 *	./fuzz_config tests/fuzz/corpus/config
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/internal.h"

static void require(int condition, const char *what, const char *text)
{
	if (condition)
		return;
	fprintf(stderr, "%s:\n%s\n", what, text);
	abort();
}

static struct config *load(const char *text, size_t len, char **ret_messages)
{
	struct config *config = NULL;
	size_t n;
	FILE *errors = open_memstream(ret_messages, &n);
	int rc = config_load_text("fuzz", text, len, NULL, errors, &config);

	fclose(errors);
	require((rc == 0) == (config != NULL) && (rc == 0) == !**ret_messages, "outcome and messages differ",
		*ret_messages);
	return config;
}

static char *print(const struct config *config)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	int rc = config_print(config, out);

	fclose(out);
	require(rc == 0, "cannot be printed", text);
	return text;
}

static void round_trip(const struct config *config)
{
	char *first = print(config), *messages, *second;
	struct config *again = load(first, strlen(first), &messages);

	require(again != NULL, messages, first);
	second = print(again);
	require(!strcmp(first, second), first, second);
	config_free(again);
	free(first);
	free(second);
	free(messages);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *messages;
	struct config *config = load(size ? (const char *)data : "", size, &messages);

	if (config)
		round_trip(config);
	config_free(config);
	free(messages);
	return 0;
}
