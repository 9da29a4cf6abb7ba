/*
 * libFuzzer over the configuration's reader: any bytes give a configuration or
 * messages, and a configuration printed loads again to the same. The same under a
 * profile; a configuration does not differ from itself.
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

static struct config *load(const char *text, size_t len, const char *profile, char **ret_messages)
{
	const struct config_overrides overrides = {.profile = profile};
	struct config *config = NULL;
	size_t n;
	FILE *errors = open_memstream(ret_messages, &n);
	int rc = config_load_text("fuzz", text, len, &overrides, errors, &config);
	int silent;

	fclose(errors);
	silent = !**ret_messages || strstr(*ret_messages, "warning: ");
	require((rc == 0) == (config != NULL), "outcome and configuration differ", *ret_messages);
	require(rc == 0 ? silent : **ret_messages, "outcome and messages differ", *ret_messages);
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
	const char *yaml = *first == '#' ? strchr(first, '\n') + 1 : first; /* the profile's name */
	struct config *again = load(yaml, strlen(yaml), NULL, &messages);

	require(again != NULL, messages, yaml);
	second = print(again);
	require(!strcmp(yaml, second), yaml, second);
	config_free(again);
	free(first);
	free(second);
	free(messages);
}

static void no_difference(const struct config *config)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	int rc = config_diff(config, config, out);

	fclose(out);
	require(rc == 0 && !len, "differs from itself", text);
	free(text);
}

static void try(const char *text, size_t len, const char *profile)
{
	char *messages;
	struct config *config = load(text, len, profile, &messages);

	if (config) {
		round_trip(config);
		no_difference(config);
	}
	config_free(config);
	free(messages);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	unsetenv("CUDATAP_PROFILE");
	setenv("V", "{a: [", 1);
	setenv("N", "1", 1);
	setenv("F", "memory", 1);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = size ? (const char *)data : "";

	try(text, size, NULL);
	try(text, size, "p");
	return 0;
}
