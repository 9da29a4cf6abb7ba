/* What the tests of the configuration share: loading a text, and what came of it as text. */
#ifndef CUDATAP_TESTS_CONFIG_HELP_H
#define CUDATAP_TESTS_CONFIG_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/internal.h"

/* What a load gave: the configuration, or the messages. */
struct outcome {
	int rc;
	struct config *config;
	char *messages;
};

static inline struct outcome load_with(const char *name, const char *text, size_t len,
				       const struct config_overrides *overrides)
{
	struct outcome o = {0};
	size_t n;
	FILE *errors = open_memstream(&o.messages, &n);

	o.rc = text ? config_load_text(name, text, len, overrides, errors, &o.config)
		    : config_load(name, overrides, errors, &o.config);
	fclose(errors);
	assert_true(o.rc == 0 || o.rc == -EINVAL);
	assert_int_equal(o.rc == 0, o.config != NULL);
	/* a failure says why, and only a failure says something */
	assert_int_equal(o.rc != 0, o.messages[0] != '\0');
	return o;
}

static inline struct outcome load_text(const char *text)
{
	return load_with("F", text, strlen(text), NULL);
}

static inline void outcome_free(struct outcome *o)
{
	config_free(o->config);
	free(o->messages);
}

/* Loads a text that is right. */
static inline struct config *load_good(const char *text)
{
	struct outcome o = load_text(text);

	if (o.rc)
		print_error("%s%s", text, o.messages);
	assert_int_equal(o.rc, 0);
	free(o.messages);
	return o.config;
}

static inline void expect_messages(const char *text, const char *messages)
{
	struct outcome o = load_text(text);

	assert_string_equal(o.messages, messages);
	outcome_free(&o);
}

/* The configuration as YAML, to be freed. */
static inline char *printed(const struct config *config)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	assert_int_equal(config_print(config, out), 0);
	fclose(out);
	return text;
}

/* How long the comment is that names the profile. */
static inline size_t profile_length(const char *yaml)
{
	return *yaml == '#' ? strcspn(yaml, "\n") + 1 : 0;
}

/* A whole file, to be freed. */
static inline char *slurp(const char *path, size_t *ret_len)
{
	FILE *file = fopen(path, "r");
	char *text = NULL;
	long len;

	if (!file)
		fail_msg("cannot open %s", path);
	fseek(file, 0, SEEK_END);
	len = ftell(file);
	rewind(file);
	text = malloc(len + 1);
	assert_int_equal(fread(text, 1, len, file), len);
	text[len] = '\0';
	fclose(file);
	if (ret_len)
		*ret_len = len;
	return text;
}

#endif
