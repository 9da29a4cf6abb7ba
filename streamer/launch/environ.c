/*
 * The command's environment.
 *
 * For a program with file capabilities the loader takes LD_LIBRARY_PATH and
 * others out of the environment, to protect that program. The command has no
 * such rights and needs them: its CUDA may be found by nothing else. They are
 * still where the kernel put them at exec, between the addresses env_start
 * and env_end of proc_pid_stat(5).
 */
#include "environ.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

enum { STAT_ENV_START = 50 };

struct vars {
	char **var; /* NULL-terminated, every string allocated */
	size_t n, size;
	bool failed;
};

static bool is_named(const char *var, const char *name, size_t length)
{
	return strncmp(var, name, length) == 0 && var[length] == '=';
}

/* Puts "NAME=VALUE" in, once per name: the first one stays unless @replace. Takes @var over. */
static void vars_put(struct vars *v, char *var, bool replace)
{
	size_t length = var ? strcspn(var, "=") : 0;

	for (size_t i = 0; var && i < v->n; i++) {
		if (!is_named(v->var[i], var, length))
			continue;
		if (replace) {
			free(v->var[i]);
			v->var[i] = var;
		} else {
			free(var);
		}
		return;
	}
	if (var && v->n + 1 >= v->size) {
		size_t size = v->size ? 2 * v->size : 64;
		char **grown = reallocarray(v->var, size, sizeof(*grown));

		if (grown) {
			v->var = grown;
			v->size = size;
		}
	}
	if (!var || v->n + 1 >= v->size) {
		free(var);
		v->failed = true;
		return;
	}
	v->var[v->n++] = var;
	v->var[v->n] = NULL;
}

static void vars_set(struct vars *v, const char *name, const char *value)
{
	char *var;

	if (!value[0])
		return;
	vars_put(v, asprintf(&var, "%s=%s", name, value) < 0 ? NULL : var, true);
}

/* The environment's strings as they were at exec; false when it cannot be told. */
static bool find_original(const char **ret_start, const char **ret_end)
{
	char text[1024], *field;
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	field = strrchr(text, ')'); /* the end of field 2; the name before may hold anything */
	for (int i = 2; field && i < STAT_ENV_START; i++)
		field = strchr(field + 1, ' ');
	if (!field)
		return false;
	*ret_start = (const char *)(uintptr_t)strtoull(field, &field, 10);
	*ret_end = (const char *)(uintptr_t)strtoull(field, NULL, 10);
	return *ret_start && *ret_start < *ret_end;
}

/* Only for capabilities, never for a setuid cudatap: its command would run with foreign rights. */
static bool loader_hid_some(void)
{
	return getauxval(AT_SECURE) && getuid() == geteuid() && getgid() == getegid();
}

char **environ_make(const struct launch_user *user)
{
	const char *var, *end;
	struct vars v = {0};

	for (char **e = environ; e && *e; e++)
		vars_put(&v, strdup(*e), false);
	if (loader_hid_some() && find_original(&var, &end))
		for (; var < end; var += strlen(var) + 1)
			if (strchr(var, '='))
				vars_put(&v, strdup(var), false);
	if (user && user->set) {
		vars_set(&v, "HOME", user->home);
		vars_set(&v, "SHELL", user->shell);
		vars_set(&v, "USER", user->name);
		vars_set(&v, "LOGNAME", user->name);
	}
	if (!v.var && !v.failed)
		v.var = calloc(1, sizeof(*v.var));
	if (!v.failed)
		return v.var;
	environ_free(v.var);
	return NULL;
}

void environ_free(char **vars)
{
	for (char **var = vars; var && *var; var++)
		free(*var);
	free(vars);
}
