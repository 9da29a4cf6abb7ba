#!/usr/bin/env bash
# Traces real CUDA programs on a machine with a GPU and compares the lines
# with the programs' own counts: each program by itself, then one run over the
# whole host with all of them, then what a PyTorch import pays. Prints tables;
# the details are left in OUT.
#
# usage: tests/gpu/run.sh CUDATAP [OUT]     (as root; nvcc and PyTorch on the PATH)
#	LATE=60		seconds after which one program of the whole-host run loads its library
#	PARTS="programs devices host import nested"
set -u
tap=$(realpath "$1")
out=${2:-$(mktemp -d)}
here=$(cd "$(dirname "$0")" && pwd)
parts=${PARTS:-programs devices host import nested}
mkdir -p "$out"
cd "$out" || exit 1
failed=0
export CUPY_CACHE_DIR=$out/cupy TRITON_CACHE_DIR=$out/triton # both compile anew

say() { echo "== $* ($((SECONDS)) s)"; }

build() { # NAME WORDS... ; what a machine lacks is left out, and said to be
	local name=$1
	shift
	nvcc -arch=native -O1 -o "$name" "$@" >"$name.build" 2>&1 || echo "not built: $name: $(grep -m 1 error "$name.build")"
}

# Headers and libraries of a toolkit that is there in part as Python packages.
wheels=$(python3 -c 'import pathlib, nvidia; print(*[p / "cu13" for p in map(pathlib.Path, nvidia.__path__) if (p / "cu13").is_dir()])' 2>/dev/null)
flags=()
for place in $wheels; do
	flags+=("-I$place/include" "-L$place/lib" "-Xlinker=-rpath=$place/lib")
done
for place in "$(dirname "$(command -v nvcc)")"/../lib64 /usr/local/nvidia/lib64 /usr/lib/x86_64-linux-gnu; do
	[ -d "$place" ] && flags+=("-L$place" "-Xlinker=-rpath=$(realpath "$place")")
done
library() { # NAME: how to link it, also where only libNAME.so.N is there
	local place found
	for place in "$(dirname "$(command -v nvcc)")/../lib64" $(for w in $wheels; do echo "$w/lib"; done) \
		/usr/local/nvidia/lib64 /usr/lib/x86_64-linux-gnu; do
		for found in "$place/lib$1.so" "$place/lib$1.so".*; do
			[ -e "$found" ] && echo "-Xlinker=$found" && return
		done
	done
	echo "-l$1"
}

one() { # NAME KIND COMMAND... ; %s stands for the counts file; FAMILIES are traced
	local name=$1 kind=$2
	shift 2
	"$tap" -f "${FAMILIES:-all}" -o "$name.jsonl" -- "${@//%s/$name.json}" >"$name.out" 2>&1 || {
		echo "  $name: the command failed: $(tail -n 3 "$name.out")"
		failed=1
		return
	}
	python3 "$here/compare.py" "$name" "$name.json" "$name.jsonl" "$kind" || failed=1
}

echo "$(uname -r), $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader), $(nvcc --version | tail -n 1)"
"$tap" --version
"$tap" doctor >doctor.txt 2>&1 || grep -v '^ok' doctor.txt

say "building"
build calls-shared -cudart shared "$here/calls.cu" &
build calls-static -cudart static "$here/calls.cu" &
build calls-ptds -cudart shared --default-stream per-thread "$here/calls.cu" &
build libcalls.so -cudart shared -shared -Xcompiler -fPIC "$here/calls.cu" &
build late "$here/late.cpp" -ldl &
build devices-shared -cudart shared "${flags[@]}" "$here/devices.cu" "$(library cuda)" &
build devices-static -cudart static "${flags[@]}" "$here/devices.cu" "$(library cuda)" &
build graphs "${flags[@]}" "$here/graphs.cu" "$(library cuda)" &
build nvrtc -cudart none "${flags[@]}" "$here/nvrtc.cpp" "$(library nvrtc)" "$(library cuda)" &
build cublas -cudart shared "${flags[@]}" "$here/cublas.cpp" "$(library cublas)" "$(library cuda)" &
wait
cp calls-static calls-stripped && strip calls-stripped

case $parts in *programs*)
	say "each program under cudatap -- PROGRAM"
	one shared calls ./calls-shared %s
	one static calls ./calls-static %s
	one ptds calls ./calls-ptds %s
	one stripped stripped ./calls-stripped %s
	for program in graphs nvrtc cublas; do
		[ ! -x "$program" ] || one "$program" launches "./$program" %s
	done
	one triton launches python3 "$here/kernel_triton.py" %s
	one cupy launches python3 "$here/kernel_cupy.py" %s
	one torch torch python3 "$here/train.py" %s
	;;
esac

case $parts in *devices*)
	gpus=$(nvidia-smi -L | wc -l)
	say "a thread on each GPU, copies between them, contexts that move, a graph: there $([ "$gpus" = 1 ] &&
		echo "is one GPU, everything is on it" || echo "are $gpus GPUs")"
	one devices devices ./devices-shared %s
	one devices-static devices ./devices-static %s
	# what changes the device is not traced then, nor what asks for it
	FAMILIES=memory,transfer,launch,graph one devices-few devices ./devices-shared %s
	# the last one alone, which the program calls 0
	one devices-last devices env CUDA_VISIBLE_DEVICES=$((gpus - 1)) ./devices-shared %s
	;;
esac

case $parts in *host*)
	say "the whole host, cudatap started first, without a command"
	timeout 240 python3 "$here/host.py" "$tap" . "$out/host" --late "${LATE:-60}" || failed=1
	;;
esac

case $parts in *import*)
	say "importing PyTorch, alone and traced, in turns"
	timeout 150 python3 "$here/import_time.py" "$tap" "$out" 5 || failed=1
	;;
esac

case $parts in *nested*)
	say "by default no driver call inside a runtime call comes up as if the program had made it"
	for program in calls-shared calls-static; do
		rm -f default.jsonl
		"$tap" -o default.jsonl -- ./$program default.json >/dev/null 2>&1
		python3 -c '
import collections, json, sys
calls = [e for e in map(json.loads, open("default.jsonl")) if e["type"] == "call"]
print(" ", sys.argv[1], dict(collections.Counter(c["func"] for c in calls if c["api"] == "driver")), len(calls), "calls")
' $program
	done
	"$tap" --nested -f all -o nested.jsonl -- ./calls-shared nested.json >/dev/null 2>&1
	python3 -c '
import collections, json
pairs = collections.Counter((c["parent"], c.get("symbol", c["func"])) for c in map(json.loads, open("nested.jsonl"))
                            if c["type"] == "call" and c.get("depth"))
json.dump(sorted([*k, n] for k, n in pairs.items()), open("nested-pairs.json", "w"))
print("  which driver functions each runtime function calls:", len(pairs), "pairs, in nested-pairs.json")'
	;;
esac
say "done, $([ $failed = 0 ] && echo "all as it must be" || echo "SOME DIFFER")"
exit $failed
