/* Reads a configuration's files and lays them over one another. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "internal.h"
#include "text.h"
#include "types.h"

static int out_of_memory(struct files *f, const struct mark *mark)
{
	errors_add(f->errors, mark, "%s", strerror(ENOMEM));
	return -EINVAL;
}

/* ---- one text ---- */

/* Returns 0 with the root, NULL for an empty text; -EINVAL after a message. */
static int parse(struct files *f, const char *text, size_t len, const struct mark *mark,
		 const struct node **ret_root)
{
	const struct mark start = {.file = mark->file, .line = 1, .column = 1};
	const struct node *root = NULL;
	int err = text_check(text, len, &start, f->errors);

	if (err)
		return err;
	f->bytes += len;
	if (f->bytes > TEXT_MAX) {
		errors_add(f->errors, mark, "with this file the configuration is larger than %u KiB",
			   TEXT_MAX >> 10);
		return -EINVAL;
	}
	err = tree_read(f->tree, text, len, mark, f->errors, &root);
	if (err == -ENOMEM)
		return out_of_memory(f, mark);
	if (err)
		return err;
	if (root && root->kind != NODE_MAP) {
		errors_add(f->errors, &root->mark,
			   "a configuration is a map of keys, such as \"families: all\", not %s",
			   node_what(root));
		return -EINVAL;
	}
	*ret_root = root;
	return 0;
}

static int read_includes(struct files *f, const struct node *own, const struct node **ret_root);

static int parse_whole(struct files *f, const char *text, size_t len, const struct mark *mark,
		       const struct node **ret_root)
{
	int err = parse(f, text, len, mark, ret_root);

	return err || !*ret_root ? err : read_includes(f, *ret_root, ret_root);
}

/* ---- one file ---- */

/* @by: the word that includes it; NULL: the user named it. Returns the descriptor or a negative errno. */
static int open_file(const char *path, const struct node *by, struct file_id *ret_id)
{
	/* of what the user names a pipe is welcome; what is included must not let us wait */
	int fd = !by && !strcmp(path, "-") ? dup(STDIN_FILENO)
					   : open(path, O_RDONLY | O_CLOEXEC | (by ? O_NONBLOCK : 0));
	struct stat st = {0};
	int err = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		err = -errno;
	else if (by && S_ISDIR(st.st_mode))
		err = -EISDIR;
	else if (by && !S_ISREG(st.st_mode))
		err = -EINVAL;
	*ret_id = (struct file_id){st.st_dev, st.st_ino};
	if (err)
		close(fd);
	return err ? err : fd;
}

static int cannot_read(struct files *f, const char *path, const struct node *by, const struct mark *mark,
		       int err)
{
	const char *why = err == -EINVAL ? "it is not a regular file" : strerror(-err);

	if (by)
		errors_add(f->errors, &by->mark, "cannot include %s: %s", QUOTE(path), why);
	else
		errors_add(f->errors, mark, "cannot read the configuration: %s", why);
	return -EINVAL;
}

/* May this file be read now? */
static bool admit(struct files *f, const char *path, const struct node *by, struct file_id id)
{
	for (unsigned i = 0; by && i < f->depth; i++)
		if (f->open[i].device == id.device && f->open[i].inode == id.inode) {
			errors_add(f->errors, &by->mark, "%s includes itself by this", QUOTE(path));
			return false;
		}
	if (f->depth == FILES_MAX_DEPTH)
		errors_add(f->errors, &by->mark, "files that include files, more than %d of them in a row",
			   FILES_MAX_DEPTH);
	else if (f->count == FILES_MAX)
		errors_add(f->errors, &by->mark, "a configuration has at most %d files", FILES_MAX);
	else
		return true;
	return false;
}

static void remember(struct files *f, const char *path)
{
	struct config_strings *names = f->names;
	char **list = !strcmp(path, "-") ? NULL : reallocarray(names->list, names->n + 1, sizeof(*list));

	if (list)
		names->list = list;
	/* a name that is missing here is no reason to give up */
	if (list && (list[names->n] = strdup(path)))
		names->n++;
}

static int read_open(struct files *f, int fd, const char *path, const struct node *by,
		     const struct mark *mark, const struct node **ret_root)
{
	char *text;
	size_t len;
	int err = text_read(fd, TEXT_MAX, &text, &len);

	if (err)
		return cannot_read(f, path, by, mark, err);
	err = parse_whole(f, text, len, mark, ret_root);
	free(text);
	return err;
}

static int read_file(struct files *f, const char *path, const struct node *by, const struct mark *mark,
		     const struct node **ret_root)
{
	struct file_id id = {0};
	int fd = open_file(path, by, &id);
	int err = -EINVAL;

	if (by || strcmp(path, "-"))
		errors_path(f->errors, path);
	if (fd < 0)
		return cannot_read(f, path, by, mark, fd);
	if (admit(f, path, by, id)) {
		f->open[f->depth++] = id;
		f->count++;
		remember(f, path);
		err = read_open(f, fd, path, by, mark, ret_root);
		f->depth--;
	}
	close(fd);
	return err;
}

int files_read(struct files *files, const char *path, const char *text, size_t len, const struct mark *mark,
	       const struct node **ret_root)
{
	*ret_root = NULL;
	if (text)
		return parse_whole(files, text, len, mark, ret_root);
	return read_file(files, path, NULL, mark, ret_root);
}

/* ---- what a file includes ---- */

/* All that one file includes. */
struct including {
	struct files *files;
	const struct node *under; /* the included files so far; NULL: none */
	int err;
};

static void include_file(struct including *in, const char *path, const struct node *by)
{
	struct files *f = in->files;
	/* messages outlive this call */
	const struct node *name = tree_scalar(f->tree, path, &by->mark);
	const struct node *root = NULL;
	int err;

	if (name)
		err = read_file(f, path, by, &(struct mark){.file = name->text}, &root);
	else
		err = out_of_memory(f, &by->mark);

	if (!err && root)
		in->under = in->under ? tree_merge(f->tree, in->under, root, f->errors) : root;
	if (err || (root && !in->under))
		in->err = -EINVAL;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory that a pattern matches, sorted, at most @room. Returns how many there are. */
static size_t list_matches(DIR *dir, const char *pattern, char **names, size_t room)
{
	struct dirent *entry;
	size_t n = 0;

	while (n <= room && (entry = readdir(dir))) {
		if (fnmatch(pattern, entry->d_name, FNM_PERIOD))
			continue;
		if (n < room && !(names[n] = strdup(entry->d_name)))
			break;
		n++;
	}
	qsort(names, n < room ? n : room, sizeof(*names), by_name);
	return n;
}

/* @dir: with its "/" at the end, or empty */
static void include_matches(struct including *in, const char *dir, const char *pattern, const struct node *by)
{
	DIR *open_dir = opendir(*dir ? dir : ".");
	char *names[FILES_MAX], path[PATH_MAX + NAME_MAX];
	size_t n;

	snprintf(path, sizeof(path), "%s%s", dir, pattern);
	errors_path(in->files->errors, path);
	if (!open_dir) {
		/* nothing to include yet */
		if (errno != ENOENT)
			in->err = cannot_read(in->files, *dir ? dir : ".", by, NULL, -errno);
		return;
	}
	n = list_matches(open_dir, pattern, names, FILES_MAX);
	closedir(open_dir);
	if (n > FILES_MAX) {
		errors_add(in->files->errors, &by->mark, "%s matches more than %d files", QUOTE(by->text),
			   FILES_MAX);
		in->err = -EINVAL;
		n = FILES_MAX;
	}
	for (size_t i = 0; i < n; i++) {
		char *name = NULL;

		if (asprintf(&name, "%s%s", dir, names[i]) >= 0)
			include_file(in, name, by);
		else
			in->err = out_of_memory(in->files, &by->mark);
		free(name);
		free(names[i]);
	}
}

static bool is_pattern(const char *text)
{
	return strpbrk(text, "*?[");
}

/* @path: what the word stands for; cut into directory and name here */
static void include_path(struct including *in, char *path, const struct node *word)
{
	const char *slash = strrchr(word->text, '/');
	size_t name_len = strlen(slash ? slash + 1 : word->text);
	char *name = path + strlen(path) - name_len;
	char dir[PATH_MAX];

	if (strlen(path) >= sizeof(dir))
		in->err = cannot_read(in->files, path, word, NULL, -ENAMETOOLONG);
	else if (!*name)
		errors_add(in->files->errors, &word->mark, "%s names no file", QUOTE(word->text));
	else if (strcspn(word->text, "*?[") < strlen(word->text) - name_len)
		errors_add(in->files->errors, &word->mark,
			   "%s: \"*\", \"?\" and \"[\" can be in a file's name, not in its directory's",
			   QUOTE(word->text));
	else if (is_pattern(name)) {
		snprintf(dir, sizeof(dir), "%.*s", (int)(name - path), path);
		include_matches(in, dir, name, word);
	} else
		include_file(in, path, word);
}

static void include_word(const struct key *key, const struct node *word, void *value, struct errors *errors)
{
	struct including *in = value;
	char *path;

	if (word->unset)
		return;
	path = text_beside(word->mark.file, word->text);
	if (path)
		include_path(in, path, word);
	else
		in->err = out_of_memory(in->files, &word->mark);
	free(path);
}

static int read_includes(struct files *f, const struct node *own, const struct node **ret_root)
{
	static const char *const here[] = {"include_files", NULL};
	const struct node *list = node_get(own, here[0]);
	struct including in = {.files = f};
	size_t before = f->errors->total;

	if (!list)
		return 0;
	own = tree_without(f->tree, own, here);
	if (own && !node_is_null(list))
		list = variables_expand(f->variables, f->tree, list, f->errors);
	if (!own || !list)
		return out_of_memory(f, &(*ret_root)->mark);
	if (!node_is_null(list))
		key_words(config_key("include_files"), list, &in, f->errors, include_word);
	*ret_root = own;
	if (in.under)
		*ret_root = tree_merge(f->tree, in.under, own, f->errors);
	return in.err || !*ret_root || f->errors->total > before ? -EINVAL : 0;
}
