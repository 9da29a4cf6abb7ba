/* What a service manager is told of us. */
#ifndef CUDATAP_SERVICE_H
#define CUDATAP_SERVICE_H

/**
 * service_notify - tell the service manager that started us, if one did and asks for it (NOTIFY_SOCKET):
 * sd_notify(3)
 * @state: such as "READY=1"
 *
 * Waits two seconds at most; a message that cannot be sent is said on stderr. Where there is a command, the
 * socket is the command's to use.
 */
void service_notify(const char *state);

#endif
