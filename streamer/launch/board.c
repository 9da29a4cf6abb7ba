/* Receiving and answering notifications in shared memory; see board.h. All of it is async-signal-safe. */
#include "board.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>

struct board *board_new(void)
{
	struct board *board =
		mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return board == MAP_FAILED ? NULL : board;
}

void board_free(struct board *board)
{
	if (board)
		munmap(board, sizeof(*board));
}

uint64_t board_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void do_nothing(int signal)
{
}

void board_wake_by(int signal)
{
	const struct sigaction action = {.sa_handler = do_nothing}; /* without SA_RESTART */

	sigaction(signal, &action, NULL);
}

int board_receive(int listener, struct board_slot *slot)
{
	int result = 0;

	memset(slot->room, 0, sizeof(slot->room)); /* the kernel insists */
	atomic_store(&slot->since_ms, board_now_ms());
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &slot->notif)) {
		result = -errno;
		atomic_store(&slot->since_ms, 0);
	} else {
		atomic_store(&slot->since_ms, board_now_ms()); /* it may have slept for it */
	}
	return result;
}

void board_answer(int listener, struct board_slot *slot)
{
	struct seccomp_notif_resp answer = {
		.id = slot->notif.id,
		.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE,
	};

	while (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) && errno == EINTR)
		;
	atomic_store(&slot->since_ms, 0);
}

bool board_is_valid(int listener, const struct board_slot *slot)
{
	uint64_t id = slot->notif.id;
	int result;

	do
		result = ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id);
	while (result && errno == EINTR);
	return result == 0;
}
