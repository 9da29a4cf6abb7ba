#!/bin/sh
# Runs PROGRAM under CUDATAP with the rights that it takes: those of this user, of the file, or sudo's.
#
#	tools/demo.sh CUDATAP PROGRAM
set -eu

cudatap=$1
program=$2
PATH=$PATH:/usr/sbin:/sbin

if [ "$(id -u)" -eq 0 ] || getcap "$cudatap" 2>/dev/null | grep -q cap_bpf; then
	exec "$cudatap" -- "$program"
fi
# sudo may ask for the password where there is somebody to ask
if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 2 ]; }; then
	exec sudo "$cudatap" -- "$program"
fi
echo "cudatap: the demo needs root or capabilities: run it as root, or run \`setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_checkpoint_restore+ep $cudatap\`" \
	"as root and then \`make demo\` again" >&2
exit 1
