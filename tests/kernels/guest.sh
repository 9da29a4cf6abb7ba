#!/bin/bash
# What run.sh runs inside: the tests, as root, on a kernel that has just started.
#
#	guest.sh OUT PYTHON CUDATAP BUILD CACHE TEST...
#
# All file systems are read-only but OUT and those in memory.
out=$1 python=$2
export CUDATAP_BIN=$3 BUILD=$4 CUDATAP_CACHE=$5
shift 5
export PYTHONDONTWRITEBYTECODE=1 TMPDIR=/run/tests
export CUDATAP_SLOW=10 # everything takes longer here

mkdir -p -m 1777 "$TMPDIR"
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
mount -t bpf bpf /sys/fs/bpf 2>/dev/null
ip link set lo up
uname -a
env --default-signal "$python" -m pytest -p no:cacheprovider -ra --durations=5 --junitxml="$out/report.xml" "$@" \
	>"$out/pytest.log" 2>&1 </dev/null
dmesg >"$out/dmesg.log"
sync
