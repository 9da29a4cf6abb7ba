/* Reads secrets from files; no message ever shows one. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "secret.h"
#include "text.h"
#include "types.h"

static void cannot_read(const struct node_entry *e, const char *path, const char *why, struct errors *errors)
{
	errors_add(errors, &e->value->mark, "\"%s\": cannot read %s: %s", e->key->text, QUOTE(path), why);
}

/* Returns the descriptor, or a negative errno: -EINVAL for what is no regular file. */
static int open_secret(const char *path, struct stat *st)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, st))
		err = -errno;
	else if (!S_ISREG(st->st_mode))
		err = S_ISDIR(st->st_mode) ? -EISDIR : -EINVAL;
	if (err)
		close(fd);
	return err ? err : fd;
}

/* Returns what is wrong with it, or NULL. */
static const char *content_check(const char *text, size_t len)
{
	if (len > SECRET_MAX)
		return "it is larger than 64 KiB";
	if (!len)
		return "it is empty";
	return text_is_clean(text, len) ? NULL : "it is not text (UTF-8)";
}

static size_t without_newline(char *text, size_t len)
{
	if (len && text[len - 1] == '\n')
		len--;
	if (len && text[len - 1] == '\r')
		len--;
	text[len] = '\0';
	return len;
}

static void take(const struct key *key, const struct node_entry *e, const char *path, int fd, void *base,
		 struct errors *errors)
{
	struct node node = {.kind = NODE_SCALAR, .mark = e->value->mark};
	char *text = NULL;
	size_t len = 0;
	int err = text_read(fd, SECRET_MAX, &text, &len);
	const char *wrong;

	if (err) {
		cannot_read(e, path, strerror(-err), errors);
		return;
	}
	if (len <= SECRET_MAX)
		len = without_newline(text, len);
	wrong = content_check(text, len);
	node.text = text;
	if (wrong)
		cannot_read(e, path, wrong, errors);
	else
		key_read(key, &node, base, errors);
	explicit_bzero(text, len);
	free(text);
}

static void read_beside(const struct key *key, const struct node_entry *e, const char *path, void *base,
			struct errors *errors)
{
	struct stat st = {0};
	int fd = open_secret(path, &st);

	errors_path(errors, path);
	if (fd < 0) {
		cannot_read(e, path, fd == -EINVAL ? "it is not a regular file" : strerror(-fd), errors);
		return;
	}
	if (st.st_mode & S_IROTH)
		errors_warn(errors, &e->value->mark,
			    "everyone can read the secret in %s; chmod o= would end that", QUOTE(path));
	take(key, e, path, fd, base, errors);
	close(fd);
}

void secret_read(const struct key *key, const struct node_entry *e, void *base, struct errors *errors)
{
	char *path;

	if (e->value->kind != NODE_SCALAR || !*e->value->text) {
		errors_add(errors, &e->value->mark, "\"%s\" wants the path of a file, not %s", e->key->text,
			   e->value->kind == NODE_SCALAR ? "an empty text" : node_what(e->value));
		return;
	}
	if (e->value->unset || errors->elsewhere)
		return;
	path = text_beside(e->value->mark.file, e->value->text);
	if (path)
		read_beside(key, e, path, base, errors);
	else
		errors_add(errors, &e->value->mark, "%s", strerror(ENOMEM));
	free(path);
}
