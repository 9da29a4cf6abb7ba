/*
 * A program without a libc: it makes ten calls and no system call before
 * them, so nothing but the exec itself can show it.
 */
#include <asm/unistd.h>

__attribute__((noinline)) void launch_mark(void)
{
	__asm__ volatile("" ::: "memory");
}

_Noreturn void _start(void)
{
	for (int i = 0; i < 10; i++)
		launch_mark();
#if defined(__x86_64__)
	__asm__ volatile("syscall" ::"a"(__NR_exit_group), "D"(0));
#elif defined(__aarch64__)
	register long nr __asm__("x8") = __NR_exit_group, code __asm__("x0") = 0;

	__asm__ volatile("svc #0" ::"r"(nr), "r"(code));
#endif
	__builtin_unreachable();
}
