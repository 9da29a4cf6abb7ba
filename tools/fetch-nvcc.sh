#!/bin/sh
# Fetches NVIDIA's compiler for the tests that build real CUDA programs: wheels of the Python
# registry, pinned, unpacked to DIR/nvcc (bin/nvcc there). No GPU is needed; a host g++ is.
#
#	tools/fetch-nvcc.sh [DIR]		DIR: ${CUDATAP_CACHE:-$HOME/.cache/cudatap}
#
# What is there already is kept. CUDATAP_WHEELS names a directory with wheels to use first.
set -eu

dir=${1:-${CUDATAP_CACHE:-$HOME/.cache/cudatap}}
python=${PYTHON:-python3}

unpack='
import pathlib, re, sys, zipfile
target = pathlib.Path(sys.argv[2])
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in wheel.namelist():
        found = re.match(r"nvidia/cu13/(.*[^/])$", name)
        if not found:
            continue
        path = target / found[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wheel.read(name))
        if re.match(r"(nvvm/)?bin/", found[1]):
            path.chmod(0o755)
'

# fetch PACKAGE VERSION
fetch() {
	stamp=$dir/nvcc/.$1-$2
	[ ! -e "$stamp" ] || return 0
	mkdir -p "$dir/wheels" "$dir/nvcc"
	"$python" -m pip download --quiet --no-deps --only-binary=:all: \
		${CUDATAP_WHEELS:+--find-links "$CUDATAP_WHEELS"} --dest "$dir/wheels" "$1==$2" >&2
	for wheel in "$dir/wheels/$(echo "$1" | tr - _)-$2"-*.whl; do
		"$python" -c "$unpack" "$wheel" "$dir/nvcc"
	done
	: >"$stamp"
}

fetch nvidia-cuda-nvcc 13.5.37
fetch nvidia-cuda-crt 13.5.37
fetch nvidia-nvvm 13.5.37
fetch nvidia-cuda-runtime 13.5.37
fetch nvidia-cuda-cccl 13.3.5.0.6

# what the linker calls libcudart.so
ln -sf libcudart.so.13 "$dir/nvcc/lib/libcudart.so"
