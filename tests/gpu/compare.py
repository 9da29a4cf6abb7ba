"""Compares what a program says it called with what cudatap saw, and prints one table per program.

usage: compare.py NAME COUNTS.json EVENTS.jsonl [--static-stripped | --torch | --triton]
Exit code 1 when something differs.
"""
import collections
import json
import sys

name, counts_path, events_path = sys.argv[1:4]
kind = sys.argv[4] if len(sys.argv) > 4 else ""
counts = json.load(open(counts_path))
events = [json.loads(line) for line in open(events_path)]
calls = [e for e in events if e["type"] == "call"]
stop = [e for e in events if e["type"] == "stop"][-1]["calls"]
bad = []


def check(what, got, wanted):
    print(f"  {'ok ' if got == wanted else 'BAD'} {what}: {got}" + ("" if got == wanted else f", wanted {wanted}"))
    if got != wanted:
        bad.append(what)


def some(**keys):
    return [c for c in calls if all(c.get(k) == v for k, v in keys.items())]


def base(kernel):
    """at::native::fill of void at::native::fill<float>(int)"""
    return kernel.replace("(anonymous namespace)", "anonymous").removeprefix("void ").split("<")[0].split("(")[0].strip()


def merged(kernels):
    sums = collections.Counter()
    for kernel, n in kernels.items():
        if "#" in kernel:  # the profiler's own marks
            continue
        sums[base(kernel)] += n
    return sums


print(f"{name}: {len(calls)} lines, {len({c['func'] for c in calls})} functions")
seen = collections.Counter(c["func"] for c in calls if "depth" not in c or c["depth"] == 0)
if kind == "--triton":
    check("launches by its name", len(some(kernel="add_one")), 37)
    check("launches of the kernel", len([c for c in calls if c["func"].startswith("cuLaunchKernel") and
                                         c.get("grid") == [4, 1, 1]]), 37)
elif kind == "--static-stripped":
    launches = some(family="launch", api="driver")
    check("driver launches", len(launches), counts["cudaLaunchKernel"])
    check("by name", sorted(collections.Counter(c.get("kernel") for c in launches).items()),
          [("add_grid(float*, int)", 50), ("scale(float*, float, int)", 100)])
    check("grid 64,1,1 block 256,1,1", len([c for c in launches if c.get("grid") == [64, 1, 1] and
                                            c.get("block") == [256, 1, 1]]), 100)
    check("grid 8,4,2 block 16,8,1", len([c for c in launches if c.get("grid") == [8, 4, 2] and
                                          c.get("block") == [16, 8, 1]]), 50)
    check("failed allocations", {(c["ret"], c["error"], c["error_message"]) for c in calls
                                 if c["family"] == "memory" and c["status"] == "error"},
          {(2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory")})
elif kind == "--torch":
    # Libraries such as cuBLAS bring a stripped runtime of their own, whose calls show as the driver's. CUPTI sees
    # them as runtime calls, so what adds up is the work: launches, copies, memsets, in the marked part.
    marks = [e["seq"] for e in calls if e["func"] == "cudaMemGetInfo"]
    check("marks", len(marks) >= 2, True)
    part = [c for c in calls if marks[0] < c["seq"] < marks[-1]]

    def work(name):
        name = name.removeprefix("cuda").removeprefix("cu")
        return next((w for w in ("LaunchKernel", "Memcpy", "Memset", "StreamSynchronize") if name.startswith(w)), None)

    wanted, got = collections.Counter(), collections.Counter()
    for func, n in counts["calls"].items():
        wanted[work(func)] += n
    for c in part:
        got[work(c["func"])] += 1
    for what in sorted(w for w in wanted if w):
        check(what, got[what], wanted[what])
    print("  CUPTI:", dict(sorted(counts["calls"].items())))
    print("  lines:", dict(collections.Counter(c["func"] for c in part if work(c["func"]))))
    launches = [c for c in part if work(c["func"]) == "LaunchKernel"]
    check("launches without a kernel's name", len([c for c in launches if "kernel" not in c]), 0)
    # two demanglers write template arguments differently: the names in front of them are compared
    check("launches by kernel", dict(sorted(collections.Counter(base(c.get("kernel", "?")) for c in launches).items())),
          dict(sorted(merged(counts["kernels"]).items())))
    check("failed allocation", {(c["ret"], c["error"], c["error_message"], c.get("bytes")) for c in calls
                                if c["func"] == "cudaMalloc" and c["status"] == "error"},
          {(2, "cudaErrorMemoryAllocation", "out of memory", 1 << 50)})
else:
    for func, n in sorted(counts.items()):
        check(func, seen.get(func, 0), n)
    n, size = 1 << 16, 4 << 16
    check("launches by name", sorted(collections.Counter(c.get("kernel") for c in some(func="cudaLaunchKernel")).items()),
          [("add_grid(float*, int)", 50), ("scale(float*, float, int)", 100)])
    check("scale: grid, block, shared", len(some(func="cudaLaunchKernel", grid=[64, 1, 1], block=[256, 1, 1],
                                                 shared_bytes=1024)), 100)
    check("add_grid: grid, block, shared", len(some(func="cudaLaunchKernel", grid=[8, 4, 2], block=[16, 8, 1],
                                                    shared_bytes=0)), 50)
    check("h2d bytes", sum(c["bytes"] for c in some(func="cudaMemcpy", direction="h2d")), 20 * size)
    check("d2h bytes", sum(c["bytes"] for c in some(func="cudaMemcpy", direction="d2h")), 20 * size // 2)
    check("d2d bytes", sum(c["bytes"] for c in some(func="cudaMemcpyAsync", direction="d2d")), 20 * size // 4)
    check("failed allocation", [(c["ret"], c["error"], c["error_message"], c["bytes"]) for c in calls
                                if c["func"] == "cudaMalloc" and c["status"] == "error"],
          [(2, "cudaErrorMemoryAllocation", "out of memory", 1 << 48)])
    check("bad device", [(c["ret"], c["error"], c["device"]) for c in some(func="cudaSetDevice")],
          [(101, "cudaErrorInvalidDevice", 99)])
    handles = {c["args"]["stream"] for c in some(func="cudaLaunchKernel")}
    check("streams of launches", len(handles), 1)
    allocated = [c["ptr"] for c in some(func="cudaMalloc", status="ok")]
    freed = [c["ptr"] for c in some(func="cudaFree")]
    check("allocated and freed pointers agree", allocated[:2], freed)
check("unpaired", stop["unpaired"], 0)
check("lost", sum(stop["lost"].values()), 0)
check("entries = emitted + nested + muted + unfinished",
      stop["entries"], stop["emitted"] + stop["nested"] + stop["muted"] + stop["unfinished"])
sys.exit(1 if bad else 0)
