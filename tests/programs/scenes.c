/*
 * Programs that treat a tracer badly: they fork, jump, exit, exec or die
 * inside a CUDA call, close every descriptor, pass wild pointers. One word
 * chooses the scene, numbers say how often. On the fake libraries, whose
 * hooks run inside a call and which count what was called.
 *
 * usage: scenes SCENE [N [M]]
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_api.h"
#include "tests/fake/fake_cuda.h"

static int n, m;
static jmp_buf jump;
static void *buffer;

static void wait_for_children(void)
{
	while (wait(NULL) > 0 || errno == EINTR)
		;
}

/* ---- many ---- */

static void *work(void *arg)
{
	char name[16];
	void *p;

	snprintf(name, sizeof(name), "worker-%ld", (long)arg);
	prctl(PR_SET_NAME, name);
	for (int i = 0; i < m; i++) {
		cudaMalloc(&p, (size_t)i + 1);
		cudaFree(p);
	}
	return NULL;
}

/* n threads, m times two calls in each */
static void threads(void)
{
	pthread_t *all = calloc((size_t)n, sizeof(*all));

	for (long i = 0; i < n; i++)
		pthread_create(&all[i], NULL, work, (void *)i);
	for (int i = 0; i < n; i++)
		pthread_join(all[i], NULL);
	free(all);
}

/* n children, m times two calls in each */
static void children(void)
{
	for (long i = 0; i < n; i++) {
		if (!fork()) {
			work((void *)i);
			_exit(0);
		}
	}
	wait_for_children();
}

/* ---- inside a call ---- */

static void fork_hook(void *ctx)
{
	pid_t pid = fork();

	if (pid) {
		waitpid(pid, NULL, 0);
		return;
	}
	for (int i = 0; i < n; i++)
		cudaMemset(buffer, i, 1);
}

/* The child returns from a call that it never entered, and goes on calling. */
static void fork_inside(void)
{
	pid_t parent = getpid();

	fake_cuda_on("cudaMalloc", fork_hook, NULL);
	cudaMalloc(&buffer, 10);
	fake_cuda_on("cudaMalloc", NULL, NULL);
	for (int i = 0; i < n; i++)
		cudaFree(buffer);
	if (getpid() != parent)
		_exit(0);
}

static void jump_hook(void *ctx)
{
	longjmp(jump, 1);
}

static void jumps_out_of(const char *function)
{
	fake_cuda_on(function, jump_hook, NULL);
	for (volatile int i = 0; i < n; i++) {
		if (!setjmp(jump))
			cudaMalloc(&buffer, (size_t)i + 1);
		cudaFree(buffer);
	}
	fake_cuda_on(function, NULL, NULL);
	cudaDeviceSynchronize();
}

static void jump_out(void)
{
	jumps_out_of("cudaMalloc");
}

/* out of the driver's function and of the runtime's around it */
static void jump_out_nested(void)
{
	jumps_out_of("cuMemAlloc_v2");
}

/* from one call site, with nothing between: each call starts where the last one was left */
static void jump_tight(void)
{
	volatile int i = 0;

	fake_cuda_on("cudaMalloc", jump_hook, NULL);
	setjmp(jump);
	while (i < n) {
		i++;
		cudaMalloc(&buffer, 1);
	}
	fake_cuda_on("cudaMalloc", NULL, NULL);
	cudaDeviceSynchronize();
}

static void kill_hook(void *ctx)
{
	kill(getpid(), SIGKILL);
}

static void exit_hook(void *ctx)
{
	_exit(7);
}

static void exec_hook(void *ctx)
{
	execl("/proc/self/exe", "scenes", "again", "3", NULL);
}

static void thread_exit_hook(void *ctx)
{
	pthread_exit(NULL);
}

static void end_inside(fake_cuda_hook hook)
{
	cudaFree(buffer);
	fake_cuda_on("cudaMalloc", hook, NULL);
	cudaMalloc(&buffer, 4242);
}

static void kill_inside(void)
{
	end_inside(kill_hook);
}

static void exit_inside(void)
{
	end_inside(exit_hook);
}

static void exec_inside(void)
{
	end_inside(exec_hook);
}

static void *ends_its_thread(void *arg)
{
	end_inside(thread_exit_hook);
	return NULL;
}

static void thread_exit_inside(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, ends_its_thread, NULL);
	pthread_join(thread, NULL);
	fake_cuda_on("cudaMalloc", NULL, NULL);
	for (int i = 0; i < n; i++)
		cudaMalloc(&buffer, 1);
}

static void deeper(void *ctx)
{
	if (n-- > 0)
		cudaMalloc(&buffer, (size_t)n + 1);
}

/* n calls inside each other */
static void deep(void)
{
	fake_cuda_on("cudaMalloc", deeper, NULL);
	deeper(NULL);
	fake_cuda_on("cudaMalloc", NULL, NULL);
	cudaFree(buffer);
}

/* ---- other bad manners ---- */

static void again(void)
{
	for (int i = 0; i < n; i++)
		cudaMemset(buffer, i, (size_t)i + 1);
}

static void close_all(void)
{
	for (int fd = 0; fd < 1024; fd++)
		close(fd);
	again();
}

static void drop_rights(void)
{
	if (setgid(65534) || setuid(65534))
		exit(1);
	again();
}

static void vforks(void)
{
	for (volatile int i = 0; i < n; i++) {
		if (!vfork()) {
			cudaMemset(buffer, 1, 11);
			execl("/proc/self/exe", "scenes", "again", "2", NULL);
			_exit(1);
		}
		cudaFree(buffer);
	}
	wait_for_children();
}

static void on_alarm(int number)
{
	cudaMemset(buffer, number, 1);
}

/* a handler's calls come between a call's instructions */
static void signals(void)
{
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	for (int i = 0; i < n; i++) {
		cudaMalloc(&buffer, 1);
		cudaFree(buffer);
	}
	setitimer(ITIMER_REAL, &never, NULL);
}

/* Pointers to nowhere; the fakes are told not to touch them, the tracer has to find out itself. */
static void wild(void)
{
	static const char *const names[] = {"cudaMalloc",     "cudaMemcpy3D",        "cudaLaunchKernelExC",
					    "cudaGetDevice",  "cuModuleGetFunction", "cudaGraphAddEmptyNode",
					    "cuDeviceGetName"};
	void *const bad[] = {NULL,
			     (void *)1,
			     (void *)0xdeadbeef000,
			     (void *)0x7ffffffff000,
			     (void *)~0ul,
			     (void *)0xffffffff81000000ul,
			     (void *)0x8000000000000000ul};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		fake_cuda_set(names[i], FAKE_CUDA_NO_OUTS, 0, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cudaMalloc(bad[i], 100);
		cudaMemcpy3D(bad[i]);
		cudaLaunchKernelExC(bad[i], bad[i], bad[i]);
		cudaGetDevice(bad[i]);
		cuModuleGetFunction(bad[i], bad[i], bad[i]);
		cudaGraphAddEmptyNode(bad[i], bad[i], bad[i], (size_t)bad[i]);
		cuDeviceGetName(bad[i], (int)(size_t)bad[i], 0);
	}
}

/* until killed, a call each millisecond */
static void loop(void)
{
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		cudaMemset(buffer, 1, 1);
		usleep(1000);
	}
}

/* the driver alone */
static void driver(void)
{
	CUdeviceptr p;

	for (int i = 0; i < n; i++) {
		cuMemAlloc_v2(&p, 10);
		cuMemsetD8_v2(p, 0, 10);
		cuMemFree_v2(p);
	}
}

/* one call of each kind that the selection tests look at */
static void several(void)
{
	cudaStream_t stream;
	int device;

	cudaSetDevice(0);
	cudaGetDevice(&device);
	cudaMalloc(&buffer, 1000);
	cudaMemcpy(buffer, buffer, 10, D2D);
	cudaMemset(buffer, 0, 10);
	cudaStreamCreate(&stream);
	cudaLaunchKernel(buffer, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, stream);
	cudaStreamQuery(stream);
	cudaStreamSynchronize(stream);
	cudaStreamDestroy(stream);
	cudaFree(buffer);
	cudaGetLastError();
}

/* functions that return no status: a struct, texts, nothing */
static void returns(void)
{
	cudaCreateChannelDesc(1, -2, 3, 4, 2);
	cudaGetErrorName(2);
	cudaGetErrorString(2);
	__cudaRegisterFunction((void **)buffer, "a", "b", "_Z6kernelPf", -1, NULL, NULL, NULL, NULL, NULL);
}

static const struct scene {
	const char *name;
	void (*run)(void);
} scenes[] = {
	{"again", again},
	{"children", children},
	{"close_all", close_all},
	{"deep", deep},
	{"driver", driver},
	{"drop_rights", drop_rights},
	{"exec_inside", exec_inside},
	{"exit_inside", exit_inside},
	{"fork_inside", fork_inside},
	{"jump_out", jump_out},
	{"jump_out_nested", jump_out_nested},
	{"jump_tight", jump_tight},
	{"kill_inside", kill_inside},
	{"loop", loop},
	{"returns", returns},
	{"several", several},
	{"signals", signals},
	{"thread_exit_inside", thread_exit_inside},
	{"threads", threads},
	{"vforks", vforks},
	{"wild", wild},
};

int main(int argc, char **argv)
{
	n = argc > 2 ? atoi(argv[2]) : 1;
	m = argc > 3 ? atoi(argv[3]) : 1;
	for (size_t i = 0; argc > 1 && i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		if (!strcmp(argv[1], scenes[i].name)) {
			scenes[i].run();
			return 0;
		}
	}
	return 2;
}
