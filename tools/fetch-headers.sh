#!/bin/sh
# Fetches the CUDA headers and runtime libraries that the table is made from: wheels of the
# Python registry, pinned, unpacked to DIR/11, DIR/12, DIR/13 (include/ and lib/ in each).
#
#	tools/fetch-headers.sh [DIR]		DIR: ${CUDATAP_CACHE:-$HOME/.cache/cudatap}
#
# What is there already is kept. CUDATAP_WHEELS names a directory with wheels to use first.
set -eu

dir=${1:-${CUDATAP_CACHE:-$HOME/.cache/cudatap}}
python=${PYTHON:-python3}

# Unpacks only include/ and libcudart: an nvcc wheel is a hundred times larger than its headers.
unpack='
import pathlib, re, sys, zipfile
target = pathlib.Path(sys.argv[2])
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in wheel.namelist():
        found = re.match(r"nvidia/[^/]+/((?:include|lib)/.*[^/])$", name)
        if found and (found[1].startswith("include/") or "/libcudart" in found[1]):
            path = target / found[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(wheel.read(name))
'

# fetch MAJOR PACKAGE VERSION
fetch() {
	stamp=$dir/$1/.$2-$3
	[ ! -e "$stamp" ] || return 0
	mkdir -p "$dir/wheels" "$dir/$1"
	"$python" -m pip download --quiet --no-deps --only-binary=:all: \
		${CUDATAP_WHEELS:+--find-links "$CUDATAP_WHEELS"} --dest "$dir/wheels" "$2==$3" >&2
	for wheel in "$dir/wheels/$(echo "$2" | tr - _)-$3"-*.whl; do
		"$python" -c "$unpack" "$wheel" "$dir/$1"
	done
	: >"$stamp"
}

fetch 11 nvidia-cuda-runtime-cu11 11.8.89
fetch 11 nvidia-cuda-nvcc-cu11 11.8.89
fetch 12 nvidia-cuda-runtime-cu12 12.9.79
fetch 12 nvidia-cuda-nvcc-cu12 12.9.86
fetch 13 nvidia-cuda-runtime 13.5.37
fetch 13 nvidia-cuda-crt 13.5.37
