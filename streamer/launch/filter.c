/*
 * The seccomp filter: which system calls hold a thread.
 *
 * New code comes into a process by mmap of a file with PROT_EXEC, by mprotect
 * that makes a file's mapping executable, or by exec. The file that an exec
 * will run is guessed from its path before the kernel opens it; what was
 * really loaded (binfmt_misc, a path swapped meanwhile, an interpreter of an
 * interpreter) is seen at set_tid_address, which glibc and musl call once in
 * each new program, static or not, before any constructor.
 *
 * Other ABIs on the same kernel (i386 and x32 on x86-64, 32-bit ARM on
 * aarch64) are held at exec only: their programs can start a 64-bit one, but
 * cannot map a 64-bit library themselves.
 *
 * Everything else is decided by architecture and number alone, which lets the
 * kernel answer from its bitmap (5.11) without running the filter.
 */
#include "filter.h"

#include <asm/unistd.h>
#include <errno.h>
#include <linux/audit.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the filter reads the low word of an argument at its first byte"
#endif

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

/* Numbers of the other ABI: arch/x86/entry/syscalls/syscall_{32,64}.tbl, arch/arm/tools/syscall.tbl */
#if defined(__x86_64__)
#define NATIVE_ARCH    AUDIT_ARCH_X86_64
#define OTHER_ARCH     AUDIT_ARCH_I386
#define OTHER_EXECVE   11
#define OTHER_EXECVEAT 358
#define X32(nr)        (0x40000000 + (nr))
#define X32_EXECVE     X32(520)
#define X32_EXECVEAT   X32(545)
#elif defined(__aarch64__)
#define NATIVE_ARCH    AUDIT_ARCH_AARCH64
#define OTHER_ARCH     AUDIT_ARCH_ARM
#define OTHER_EXECVE   11
#define OTHER_EXECVEAT 387
#else
#error "no system call numbers for this architecture"
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define HOLD        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)
#define ALLOW       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* instructions to skip when it is so, and when it is not */
#define IF_IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))
#define IF_SET(bits, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), (yes), (no))

#define HOLD_CALL(nr)    IF_IS(nr, 0, 1), HOLD
#define HOLD_IF_EXEC(nr) IF_IS(nr, 0, 4), LOAD(args[2]), IF_SET(PROT_EXEC, 0, 1), HOLD, ALLOW
#define HOLD_IF_EXEC_FILE(nr)                                                                                \
	IF_IS(nr, 0, 6), LOAD(args[2]), IF_SET(PROT_EXEC, 0, 3), LOAD(args[3]), IF_SET(MAP_ANONYMOUS, 1, 0), \
		HOLD, ALLOW

static const struct sock_filter program[] = {
	LOAD(arch),
	IF_IS(OTHER_ARCH, 0, 6),
	LOAD(nr),
	HOLD_CALL(OTHER_EXECVE),
	HOLD_CALL(OTHER_EXECVEAT),
	ALLOW,
	IF_IS(NATIVE_ARCH, 1, 0),
	ALLOW,
	LOAD(nr),
#ifdef X32_EXECVE
	HOLD_CALL(X32_EXECVE),
	HOLD_CALL(X32_EXECVEAT),
#endif
	HOLD_CALL(__NR_execve),
	HOLD_CALL(__NR_execveat),
	HOLD_CALL(__NR_set_tid_address),
	HOLD_IF_EXEC_FILE(__NR_mmap),
	HOLD_IF_EXEC(__NR_mprotect),
	HOLD_IF_EXEC(__NR_pkey_mprotect),
	ALLOW,
};

static const struct {
	uint32_t arch;
	int nr;
	enum held_call call;
} held_calls[] = {
	{NATIVE_ARCH, __NR_mmap, HELD_MMAP},
	{NATIVE_ARCH, __NR_mprotect, HELD_MPROTECT},
	{NATIVE_ARCH, __NR_pkey_mprotect, HELD_MPROTECT},
	{NATIVE_ARCH, __NR_execve, HELD_EXECVE},
	{NATIVE_ARCH, __NR_execveat, HELD_EXECVEAT},
	{NATIVE_ARCH, __NR_set_tid_address, HELD_START},
#ifdef X32_EXECVE
	{NATIVE_ARCH, X32_EXECVE, HELD_EXECVE},
	{NATIVE_ARCH, X32_EXECVEAT, HELD_EXECVEAT},
#endif
	{OTHER_ARCH, OTHER_EXECVE, HELD_EXECVE},
	{OTHER_ARCH, OTHER_EXECVEAT, HELD_EXECVEAT},
};

struct sock_fprog launch_filter_program(void)
{
	return (struct sock_fprog){
		.len = sizeof(program) / sizeof(program[0]),
		.filter = (struct sock_filter *)program,
	};
}

enum held_call launch_filter_call(const struct seccomp_data *data)
{
	for (size_t i = 0; i < sizeof(held_calls) / sizeof(held_calls[0]); i++)
		if (held_calls[i].nr == data->nr && held_calls[i].arch == data->arch)
			return held_calls[i].call;
	return HELD_NOTHING;
}

int launch_filter_install(void)
{
	struct sock_fprog prog = launch_filter_program();
	unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV |
			      SECCOMP_FILTER_FLAG_SPEC_ALLOW;
	long fd = syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);

	return fd < 0 ? -errno : (int)fd;
}
