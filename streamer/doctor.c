/*
 * `doctor`: what this kernel, these rights and these libraries allow, at a
 * glance, each with the way to mend it. One check is one row of the table.
 */
#include <errno.h>
#include <jansson.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "capture/capture.h"
#include "find/find.h"
#include "find/list.h"
#include "rights.h"
#include "verbs.h"

#define FILES_ENOUGH 1024 /* for some dozens of libraries */

enum verdict { GOOD, LIMITED, BAD };
static const char *const verdict_words[] = {"ok", "limited", "missing"};

struct finding {
	enum verdict verdict;
	char found[256]; /* what is there */
	char mend[320];  /* what to do, empty when good */
};

static void say(struct finding *f, enum verdict verdict, const char *found, const char *mend)
{
	f->verdict = verdict;
	snprintf(f->found, sizeof(f->found), "%s", found);
	snprintf(f->mend, sizeof(f->mend), "%s", mend);
}

/* ---- the kernel ---- */

static unsigned kernel_version(char *text, size_t size)
{
	unsigned major = 0, minor = 0;
	struct utsname name;

	uname(&name);
	snprintf(text, size, "Linux %s %s", name.release, name.machine);
	sscanf(name.release, "%u.%u", &major, &minor);
	return major * 1000 + minor;
}

static void check_kernel(struct finding *f)
{
	char text[256];
	unsigned version = kernel_version(text, sizeof(text));

	if (version < 5015)
		say(f, BAD, text, "5.15 or newer is needed: update the kernel");
	else if (version < 6006)
		say(f, LIMITED, text,
		    "below 6.6 each function needs probes of its own, which take 0.1 s each to remove "
		    "(in the background)");
	else
		say(f, GOOD, text, "");
}

static void check_btf(struct finding *f)
{
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		say(f, BAD, "no /sys/kernel/btf/vmlinux", "boot a kernel built with CONFIG_DEBUG_INFO_BTF");
	else
		say(f, GOOD, "/sys/kernel/btf/vmlinux", "");
}

/* Kernels that return from probed functions by a system call that seccomp did not know yet. */
static void check_seccomp_returns(struct finding *f)
{
	char text[256];
	unsigned version = kernel_version(text, sizeof(text));
	bool by_system_call = false;

#if defined(__x86_64__)
	by_system_call = true;
#endif
	if (by_system_call && version >= 6011 && version < 6014) {
		say(f, LIMITED,
		    "6.11 to 6.13: a process under a strict seccomp filter may be killed at its first traced "
		    "return, unless the distribution has mended it",
		    "update to 6.14, or do not trace sandboxed processes");
		return;
	}
	say(f, GOOD, "processes under seccomp can be traced", "");
}

static void check_hold(struct finding *f)
{
	char text[256];

	if (kernel_version(text, sizeof(text)) < 5019)
		say(f, LIMITED,
		    "a command cannot be held while its libraries are probed: first calls into a library "
		    "loaded late may be missed",
		    "Linux 5.19 or newer, or name the libraries with `libraries:`");
	else
		say(f, GOOD, "commands are held while their libraries are probed", "");
}

/* ---- rights ---- */

static const struct capability {
	int bit;
	const char *name, *without;
	enum verdict verdict;
} capabilities[] = {
	{39, "CAP_BPF", "no BPF program can be loaded", BAD},
	{38, "CAP_PERFMON", "no probe can be attached", BAD},
	{19, "CAP_SYS_PTRACE", "libraries of other users' processes are not found", LIMITED},
	{2, "CAP_DAC_READ_SEARCH", "libraries in unreadable directories are not found", LIMITED},
	{40, "CAP_CHECKPOINT_RESTORE", "deleted libraries and those of containers are not found", LIMITED},
};

static void check_rights(struct finding *f)
{
	size_t i;

	say(f, GOOD, "all that are needed", "");
	for (i = 0; i < sizeof(capabilities) / sizeof(capabilities[0]); i++) {
		if (rights_have(capabilities[i].bit) || f->verdict == BAD)
			continue;
		f->verdict = capabilities[i].verdict;
		snprintf(f->found, sizeof(f->found), "without %s: %s", capabilities[i].name,
			 capabilities[i].without);
		snprintf(f->mend, sizeof(f->mend),
			 "setcap "
			 "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_checkpoint_restore,"
			 "cap_sys_resource+ep on the executable, or run as root");
	}
}

static void check_files(struct finding *f)
{
	struct rlimit limit = {0};
	char text[128];

	getrlimit(RLIMIT_NOFILE, &limit);
	snprintf(text, sizeof(text), "%llu open files are allowed", (unsigned long long)limit.rlim_max);
	if (rights_have(CAP_SYS_RESOURCE) || limit.rlim_max >= FILES_ENOUGH)
		say(f, GOOD, text, "");
	else
		say(f, limit.rlim_max < CAPTURE_OTHER_FILES ? BAD : LIMITED, text,
		    "each library that is probed takes up to 50: raise the hard limit (`ulimit -Hn 4096`)");
}

static void check_proc(struct finding *f)
{
	int err = find_proc();

	if (err)
		say(f, BAD, err == -EXDEV ? "/proc is of another pid namespace" : "/proc is not mounted",
		    "mount -t proc proc /proc");
	else
		say(f, GOOD, "/proc shows this pid namespace", "");
}

/* ---- the program ---- */

static int try_method(enum capture_method method, char *error, size_t error_size)
{
	struct plan *plans = plan_all(plan_host_abi());
	uint8_t *state = calloc(table_nrows, 1);
	struct capture_options options = {
		.method = method,
		.ring_size = sysconf(_SC_PAGESIZE),
		.flush_ns = 20000000,
		.plans = plans,
		.row_state = state,
	};
	struct capture *capture = NULL;
	int err = -1;

	if (plans && state)
		err = capture_new(&options, &capture, error, error_size);
	capture_free(capture);
	free(state);
	free(plans);
	return err;
}

static void check_methods(struct finding *f)
{
	char error[256] = "", words[128] = "";
	int method, best = CAPTURE_NMETHODS;

	for (method = CAPTURE_NMETHODS - 1; method >= 0; method--) {
		if (try_method(method, error, sizeof(error)))
			continue;
		best = method;
		snprintf(words + strlen(words), sizeof(words) - strlen(words), "%s%s", *words ? ", " : "",
			 capture_method_names[method]);
	}
	if (best == CAPTURE_NMETHODS)
		say(f, BAD, "the BPF program does not load", error);
	else if (best == CAPTURE_CLASSIC)
		say(f, LIMITED, "classic alone: removing those of one library takes 100 s, in the background",
		    "Linux 6.6 or newer");
	else
		say(f, GOOD, words, "");
}

static void check_libraries(struct finding *f)
{
	struct find_list list = {0};
	size_t i, functions = 0, usable = 0;
	char text[256];

	find_host(&list);
	for (i = 0; i < list.n; i++) {
		if (list.libraries[i].error)
			continue;
		usable++;
		functions += list.libraries[i].image.nfunctions;
	}
	snprintf(text, sizeof(text), "%zu CUDA libraries with %zu functions (`cudatap list libraries`)",
		 usable, functions);
	if (usable)
		say(f, GOOD, text, "");
	else
		say(f, LIMITED, "no CUDA library on this host yet",
		    "start the program as `cudatap -- COMMAND`, or name its library with `libraries:`");
	find_list_free(&list);
}

static const struct check {
	const char *name;
	void (*run)(struct finding *f);
} checks[] = {
	{"kernel", check_kernel},       {"btf", check_btf},
	{"rights", check_rights},       {"files", check_files},
	{"proc", check_proc},           {"probes", check_methods},
	{"hold", check_hold},           {"seccomp", check_seccomp_returns},
	{"libraries", check_libraries},
};

int verb_doctor(const struct cli *cli)
{
	json_t *all = json_array();
	struct finding f;
	int code = 0;
	size_t i;

	for (i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		memset(&f, 0, sizeof(f));
		checks[i].run(&f);
		if (f.verdict == BAD)
			code = 1;
		json_array_append_new(all,
				      json_pack("{ss ss ss ss}", "check", checks[i].name, "verdict",
						verdict_words[f.verdict], "found", f.found, "mend", f.mend));
		if (cli->json)
			continue;
		printf("%-10s %-8s %s\n", checks[i].name, verdict_words[f.verdict], f.found);
		if (*f.mend)
			printf("%-10s %-8s   -> %s\n", "", "", f.mend);
	}
	if (cli->json) {
		json_dumpf(all, stdout, JSON_INDENT(1));
		putchar('\n');
	}
	json_decref(all);
	return code;
}
