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
# By default no driver call inside a runtime call comes up as if the program had made it.
for program in calls-shared calls-static; do
	"$tap" -o default.jsonl -- ./$program default.json >/dev/null 2>&1
	jq_out=$(python3 -c '
import collections, json, sys
calls = [e for e in map(json.loads, open("default.jsonl")) if e["type"] == "call"]
print(dict(collections.Counter(c["func"] for c in calls if c["api"] == "driver")), len(calls))')
	echo "$program, default families: driver calls seen as outermost, calls in all: $jq_out"
done
"$tap" --nested -f all -o nested.jsonl -- ./calls-shared nested.json >/dev/null 2>&1
echo "which driver functions each runtime function calls:"
python3 -c '
import collections, json
pairs = collections.Counter((c["parent"], c.get("symbol", c["func"])) for c in map(json.loads, open("nested.jsonl"))
                            if c["type"] == "call" and c.get("depth"))
print(json.dumps(sorted([*k, n] for k, n in pairs.items())))'
echo "seconds of a PyTorch import, alone and traced, three times each:"
for _ in 1 2 3; do
	for with in "" "$tap -q -o import.jsonl --"; do
		begun=$(date +%s.%N)
		$with python3 -c 'import torch'
		echo "  ${with:+traced }$(echo "$(date +%s.%N) - $begun" | bc 2>/dev/null || python3 -c "import time; print(time.time() - $begun)")"
	done
done
exit $failed
