/* Capabilities of the calling thread; see capabilities(7). */
#include "rights.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

bool rights_have(int capability)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

	if (syscall(SYS_capget, &header, data))
		return false;
	return data[capability / 32].effective & 1u << capability % 32;
}
