#!/bin/sh
# Installs what is missing on Debian 12 and Ubuntu 24.04, by apt; does nothing when all is there.
#
#	tools/install-deps.sh [--list] SET...		SET: build, demo, test, portable, kernels
#
# --list only prints the missing packages. Everything is said on stderr.
set -eu

# Set, package on Debian 12, package on Ubuntu 24.04 where its name is another one.
table='
build	gcc
build	libc6-dev
build	make
build	clang
build	pkg-config
build	libbpf-dev
build	libelf-dev
build	libjansson-dev
build	librdkafka-dev
build	libssl-dev
build	libyaml-dev
build	libzstd-dev
build	zlib1g-dev
demo	python3
demo	jq
test	binutils
test	bpftool	linux-tools-generic
test	ca-certificates
test	clang-format
test	clang-tidy
test	cppcheck
test	file
test	g++
test	gcc-aarch64-linux-gnu
test	gdb
test	libc6-dev-arm64-cross
test	libcap2-bin
test	libclang-rt-14-dev	libclang-rt-18-dev
test	libcmocka-dev
test	logrotate
test	llvm
test	man-db
test	musl-tools
test	openssl
test	procps
test	python3
test	python3-pip
test	python3-venv
test	qemu-user
test	strace
test	sudo
test	util-linux
portable	ca-certificates
kernels	file
kernels	iproute2
kernels	kmod
kernels	qemu-system-x86
'

say() {
	echo "cudatap: $*" >&2
}

list_only=
if [ "${1:-}" = --list ]; then
	list_only=1
	shift
fi
sets=${*:-build demo test portable}

# The distribution decides the column; others of Debian's family take Debian's.
column=2
if [ -r /etc/os-release ] && [ "$(. /etc/os-release && echo "${ID:-}")" = ubuntu ]; then
	column=3
fi

wanted=$(echo "$table" | awk -F '\t' -v sets="$sets" -v column="$column" '
	BEGIN { n = split(sets, s, " "); for (i = 1; i <= n; i++) want[s[i]] = 1 }
	want[$1] { name = (column == 3 && $3) ? $3 : $2; if (!seen[name]++) print name }')

# cargo fetches two sources of the portable build. Any that reads a registry by HTTP will do: 1.70 on.
cargo_version() {
	cargo --version 2>/dev/null | awk '{ split($2, v, "."); print v[1] * 1000 + v[2] }'
}
case " $sets " in
*" portable "*)
	version=$(cargo_version)
	if [ "${version:-0}" -lt 1070 ]; then
		# Debian 12 has a newer one beside its own
		if [ $column = 3 ]; then wanted="$wanted cargo"; else wanted="$wanted cargo-web"; fi
	fi
	;;
esac

if ! command -v dpkg-query >/dev/null; then
	[ -n "$list_only" ] || say "not a system with apt; in Debian's names this is needed:" $wanted
	exit 0
fi

missing=
for package in $wanted; do
	dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
		missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ -n "$list_only" ]; then
	echo "${missing# }"
	exit 0
fi

root=
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		say "missing:$missing. As root, run: apt-get install$missing"
		exit 1
	fi
	root=sudo
fi

say "installing:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
	$root env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" >"$log" 2>&1 </dev/null
}
# The lists may be old or absent, which shows when installing from them fails.
# shellcheck disable=SC2086
if ! apt install --no-install-recommends $missing; then
	if ! apt update || ! apt install --no-install-recommends $missing; then
		cat "$log" >&2
		say "apt-get could not install:$missing (see above)"
		exit 1
	fi
fi
