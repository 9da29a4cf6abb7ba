#!/bin/sh
# Fetches kernels of Debian for the tests that boot them: the newest package of a suite each, unpacked to
# DIR/kernels/SUITE (boot/vmlinuz-* or usr/lib/modules/*/vmlinuz, lib/modules). Nothing is installed.
#
#	tools/fetch-kernels.sh [-d DIR] SUITE...		DIR: ${CUDATAP_CACHE:-$HOME/.cache/cudatap}
#
# The mirror is the one that this machine's apt uses. What is there already is kept.
set -eu

PATH=$PATH:/usr/sbin:/sbin
dir=${CUDATAP_CACHE:-$HOME/.cache/cudatap}
if [ "${1:-}" = -d ]; then
	dir=$2
	shift 2
fi

# Packages with the kernel and its modules, as apt-cache's patterns: one, or since Linux 6.19 two.
image='^linux-image-[0-9.]+[^-]*(-[0-9]+)?-amd64$'
parts='^linux-(binary|modules)-[0-9.]+[^-]*-amd64$'

mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' | grep -v security | head -n 1)
if [ -z "$mirror" ]; then
	echo "fetch-kernels: apt here has no Debian mirror" >&2
	exit 1
fi

# apt_of SUITE COMMAND...
apt_of() {
	state=$dir/kernels/$1/apt
	shift
	program=$1
	shift
	"$program" -o Dir::State::Lists="$state/lists" -o Dir::Cache="$state/cache" -o Dir::Etc::SourceList="$state/list" \
		-o Dir::Etc::SourceParts=/dev/null -o APT::Sandbox::User=root -o Acquire::Languages=none -q "$@"
}

newest() {
	apt_of "$1" apt-cache search --names-only "$2" | awk '{ print $1 }' | grep -v -e -dbg -e -unsigned | sort -V | tail -n "$3"
}

fetch() (
	target=$dir/kernels/$1
	[ ! -e "$target/.done" ] || return 0
	rm -rf "$target"
	mkdir -p "$target/apt/lists/partial" "$target/apt/cache/archives/partial" "$target/debs"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" >"$target/apt/list"
	apt_of "$1" apt-get update >/dev/null
	packages=$(newest "$1" "$parts" 2)
	[ -n "$packages" ] || packages=$(newest "$1" "$image" 1)
	cd "$target/debs"
	# shellcheck disable=SC2086
	apt_of "$1" apt-get download $packages >/dev/null
	for package in *.deb; do
		dpkg-deb -x "$package" "$target"
	done
	cd "$target"
	[ -e lib/modules ] || { mkdir -p lib && ln -s ../usr/lib/modules lib/modules; }
	depmod -b "$target" "$(ls lib/modules)" 2>/dev/null
	rm -rf apt debs
	: >.done
)

for suite; do
	fetch "$suite" >&2
done
