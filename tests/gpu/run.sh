#!/usr/bin/env bash
# Traces real CUDA programs on a machine with a GPU and compares the lines
# with the programs' own counts.
#
# usage: tests/gpu/run.sh CUDATAP [OUT]     (as root; nvcc and PyTorch on the PATH)
set -u
tap=$(realpath "$1")
out=${2:-$(mktemp -d)}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
cd "$out" || exit 1
failed=0

one() { # NAME KIND COMMAND... ; %s stands for the counts file
	local name=$1 kind=$2
	shift 2
	"$tap" -f all -o "$name.jsonl" -- "${@//%s/$name.json}" >"$name.out" 2>&1 || {
		echo "$name: the command failed: $(tail -n 3 "$name.out")"
		failed=1
		return
	}
	python3 "$here/compare.py" "$name" "$name.json" "$name.jsonl" ${kind:+"$kind"} || failed=1
}

uname -r
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
nvcc --version | tail -n 1
"$tap" doctor
for variant in "shared:-cudart shared" "static:-cudart static" "ptds:-cudart shared --default-stream per-thread"; do
	nvcc -arch=native ${variant#*:} -o "calls-${variant%%:*}" "$here/calls.cu" || failed=1
done
cp calls-static calls-stripped && strip calls-stripped
one shared "" ./calls-shared %s
one static "" ./calls-static %s
one ptds "" ./calls-ptds %s
one stripped --static-stripped ./calls-stripped %s
one torch --torch python3 "$here/train.py" %s
one triton --triton python3 "$here/kernel_triton.py" %s
exit $failed
