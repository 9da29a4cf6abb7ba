/* The protocol of sd_notify(3): a datagram to a unix socket, whose name is a path or, with "@", an abstract
 * one. */
#include "service.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"

#define PATIENCE_S 2 /* with a manager that does not read */

static int send_to(const char *name, const char *state)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = strlen(name), size = offsetof(struct sockaddr_un, sun_path) + len;
	ssize_t sent;
	int fd, error;

	if ((name[0] != '/' && name[0] != '@') || len < 2)
		return -EAFNOSUPPORT;
	if (len >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, name, len);
	if (name[0] == '@')
		address.sun_path[0] = '\0';
	else
		size++;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
		      (socklen_t)size);
	error = errno;
	close(fd);
	return sent < 0 ? -error : 0;
}

void service_notify(const char *state)
{
	const char *name = getenv("NOTIFY_SOCKET");
	int err = name && *name ? send_to(name, state) : 0;

	if (err)
		log_msg("cannot tell the service manager `%s` (NOTIFY_SOCKET=%s): %s", state, name,
			strerror(-err));
}
