/*
 * Runs two programs in turns under one process number, each once the one
 * before has ended.
 *
 * usage: same_number NUMBER TIMES PROGRAM PROGRAM ARGUMENT...
 * Exit code 77 where the kernel does not let choose numbers, or the number is another's.
 */
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	pid_t number = argc > 5 ? atoi(argv[1]) : 0;
	struct clone_args args = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&number, .set_tid_size = 1};
	char *program;

	for (int i = 0; number && i < atoi(argv[2]); i++) {
		pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

		if (pid == 0) {
			program = argv[3 + i % 2];
			argv[4] = program;
			execv(program, argv + 4);
			_exit(127);
		}
		if (pid < 0) {
			perror("same_number");
			return 77;
		}
		waitpid(pid, NULL, 0);
	}
	return 0;
}
