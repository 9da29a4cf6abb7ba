/*
 * Names in the portable executable. A static glibc loads the host's NSS modules for whatever
 * nsswitch.conf names, built for another glibc: pin every data base that is asked to the two sources
 * that are part of libc itself. Users of other sources go by number.
 */
#include <nss.h>

/* Before main(), and so before the first look-up. */
__attribute__((constructor)) static void pin_names(void)
{
	__nss_configure_lookup("passwd", "files");
	__nss_configure_lookup("group", "files");
	__nss_configure_lookup("initgroups", "files");
	__nss_configure_lookup("hosts", "files dns");
	__nss_configure_lookup("services", "files");
}
