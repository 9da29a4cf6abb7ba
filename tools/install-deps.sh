#!/bin/sh
# Installs what is missing on Debian 12 and 13 and Ubuntu 24.04, by apt; does nothing when all is there.
#
#	tools/install-deps.sh [--list] SET...		SET: build, demo, test, portable, kernels
#
# --list only prints the missing packages. Everything else is said on stderr.
set -eu

# Set, package. Of several with | between them one is enough, the first that is to be had; none is needed where the
# last is empty. @ is the major version of clang. g++ brings gcc's own libstdc++, whose demangler is linked.
table='
build	g++
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
test	ca-certificates
test	clang
test	clang-format-14|
test	clang-tidy-14|
test	cppcheck
test	e2fsprogs
test	file
test	gcc-aarch64-linux-gnu
test	gdb
test	libc6-dev-arm64-cross
test	libcap2-bin
test	libclang-rt-@-dev
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
test	zstd
portable	ca-certificates
portable	cargo-web|cargo
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

# cargo fetches two sources of the portable build. Any that reads a registry by HTTP will do, from wherever: 1.70 on.
cargo_serves() {
	cargo --version 2>/dev/null |
		awk '{ split($2, v, "."); serves = v[1] * 1000 + v[2] >= 1070 } END { exit !serves }'
}

wanted() {
	serves=
	! cargo_serves || serves='cargo-web|cargo'
	echo "$table" | awk -F '\t' -v sets="$sets" -v serves="$serves" '
		BEGIN { n = split(sets, s, " "); for (i = 1; i <= n; i++) want[s[i]] = 1 }
		want[$1] && $2 != serves && !seen[$2]++ { print $2 }'
}

clang_major() {
	"${CLANG:-clang}" -dumpversion 2>/dev/null | sed 's/\..*//' | grep . ||
		apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p'
}

installed() {
	dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

to_be_had() {
	apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'
}

# Prints which package of "FIRST|SECOND" is missing; nothing when one of them is there.
choose() {
	for package in $(echo "$1" | tr '|' ' '); do
		! installed "$package" || return 0
	done
	for package in $(echo "$1" | tr '|' ' '); do
		if to_be_had "$package"; then
			echo "$package"
			return
		fi
	done
	echo "${1##*|}"
}

if ! command -v dpkg-query >/dev/null; then
	# shellcheck disable=SC2046
	[ -n "$list_only" ] || say "not a system with apt; in Debian's names this is needed:" $(wanted)
	exit 0
fi

missing() {
	for row in $(wanted); do
		case $row in
		*@*)
			major=$(clang_major)
			row=$(echo "$row" | sed "s/-@/${major:+-$major}/")
			;;
		esac
		choose "$row"
	done
}

missing=$(missing | xargs)
[ -n "$missing" ] || exit 0
if [ -n "$list_only" ]; then
	echo "$missing"
	exit 0
fi

root=
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		say "missing: $missing. As root, run: apt-get install $missing"
		exit 1
	fi
	root=sudo
fi

say "installing: $missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
	$root env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" >"$log" 2>&1 </dev/null
}
# The lists may be old or absent, which shows when installing from them fails; new ones may offer other packages.
# shellcheck disable=SC2086
if ! apt install --no-install-recommends $missing; then
	if ! apt update || ! { missing=$(missing | xargs) && apt install --no-install-recommends $missing; }; then
		cat "$log" >&2
		say "apt-get could not install: $missing (see above; Ubuntu has some of them in its component \`universe\`)"
		exit 1
	fi
fi
