#!/bin/sh
# Builds the two libraries of the portable executable that no distribution has in the right form,
# libbpf and librdkafka, as static libraries, and what the libelf of some lacks; prints the directory with
# their include/ and lib/.
#
# Their sources come inside packages of the Rust registry (libbpf-sys, rdkafka-sys), fetched by cargo;
# mk/portable/Cargo.lock pins versions and checksums. No Rust is compiled. Everything is kept in
# ${CUDATAP_CACHE:-~/.cache/cudatap}/portable, under a key made of all that it depends on.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
cache=${CUDATAP_CACHE:-$HOME/.cache/cudatap}/portable
cc=${CC:-gcc}

say() {
	echo "cudatap: $*" >&2
}

key=$({
	cat "$here/mk/portable/Cargo.lock" "$here/mk/portable/search.c" "$0"
	"$cc" --version
	uname -m
} | sha256sum | cut -c 1-16)
result=$cache/$key
if [ -e "$result/done" ]; then
	echo "$result"
	exit 0
fi

if ! command -v cargo >/dev/null; then
	say "make portable fetches two sources by cargo (1.70 or newer), which is not here: \`make deps\`"
	exit 1
fi
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
work=$cache/$key.work
rm -rf "$work" "$result"
mkdir -p "$work"
log=$work/log

failed() {
	tail -n 40 "$log" >&2
	say "could not build $1 for the portable executable; the whole log: $log"
	exit 1
}

fetch() {
	cd "$here/mk/portable"
	cargo vendor --locked --versioned-dirs "$work/vendor"
}

build_libbpf() {
	cd "$work"/vendor/libbpf-sys-*/libbpf/src
	make -j"$(nproc)" CC="$cc" BUILD_STATIC_ONLY=1 OBJDIR="$work/libbpf" DESTDIR="$work/out" PREFIX= \
		LIBDIR=/lib CFLAGS="-O2 -g -fPIE -ffile-prefix-map=$work/=" install install_uapi_headers
}

build_librdkafka() {
	cd "$work"/vendor/rdkafka-sys-*/librdkafka
	# shellcheck disable=SC2086
	CC="$cc" CFLAGS="-O2 -ffile-prefix-map=$work/=" bash ./configure --disable-gssapi --disable-curl --disable-lz4-ext \
		--enable-ssl --enable-zstd --enable-static &&
		make -j"$(nproc)" -C src librdkafka.a &&
		install -D -m 644 -t "$work/out/include/librdkafka" src/rdkafka.h src/rdkafka_mock.h &&
		install -D -m 644 -t "$work/out/lib" src/librdkafka.a &&
		# what is switched on silently when found must have been found
		grep -q 'WITH_SSL 1' config.h && grep -q 'WITH_ZSTD 1' config.h &&
		grep -q 'WITH_SASL_SCRAM 1' config.h
}

build_search() {
	"$cc" -O2 -fPIE -D_GNU_SOURCE -ffile-prefix-map="$here=." -c -o "$work/search.o" "$here/mk/portable/search.c" &&
		ar rcs "$work/out/lib/libelf_search.a" "$work/search.o"
}

say "building the portable executable's libraries, once (two minutes)"
(fetch) >"$log" 2>&1 || failed "the sources (cargo vendor)"
(build_libbpf) >>"$log" 2>&1 || failed libbpf
(build_librdkafka) >>"$log" 2>&1 || failed librdkafka
(build_search) >>"$log" 2>&1 || failed "a part of libelf"
mv "$work/out" "$result"
: >"$result/done"
rm -rf "$work"
echo "$result"
