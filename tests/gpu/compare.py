"""Compares what a program says it called with what cudatap saw. Prints one row, and what differs; every
comparison goes to NAME.checks.

usage: compare.py NAME COUNTS.json EVENTS.jsonl KIND
	KIND: calls, stripped, torch, launches (by kernel alone), or devices (call by call)
Exit code 1 when something differs.
"""
import collections
import json
import sys

import seen

name, counts_path, events_path, kind = sys.argv[1:5]
counts = json.load(open(counts_path))
events = seen.read(events_path)
calls = seen.calls(events)
launches = [c for c in calls if seen.is_launch(c)]
stop = [e for e in events if e["type"] == "stop"][-1]["calls"]
checks, bad = [], []


def check(what, got, wanted):
    line = f"{'ok ' if got == wanted else 'BAD'} {what}: {got}" + ("" if got == wanted else f", wanted {wanted}")
    checks.append(line)
    if got != wanted:
        bad.append(line)


def some(**keys):
    return [c for c in calls if all(c.get(k) == v for k, v in keys.items())]


def check_names():
    check("launches by kernel", dict(sorted(seen.by_kernel(launches).items())), dict(sorted(counts["launches"].items())))


def check_calls():
    counted = collections.Counter(c["func"] for c in calls if not c.get("depth"))
    n, size = 1 << 16, 4 << 16
    for func, times in sorted(counts["calls"].items()):
        check(func, counted.get(func, 0), times)
    check_names()
    check("scale: grid, block, shared", len(some(func="cudaLaunchKernel", grid=[n >> 10, 1, 1], block=[256, 1, 1],
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
    check("streams of launches", len({c["args"]["stream"] for c in some(func="cudaLaunchKernel")}), 1)
    allocated = [c["ptr"] for c in some(func="cudaMalloc", status="ok")]
    freed = [c["ptr"] for c in some(func="cudaFree")]
    check("allocated and freed pointers agree", allocated[:2], freed)


def check_stripped():
    check("launches are the driver's", {c["api"] for c in launches}, {"driver"})
    check_names()
    check("grid 64,1,1 block 256,1,1", len([c for c in launches if c["grid"] == [64, 1, 1] and
                                            c["block"] == [256, 1, 1]]), 100)
    check("grid 8,4,2 block 16,8,1", len([c for c in launches if c["grid"] == [8, 4, 2] and
                                          c["block"] == [16, 8, 1]]), 50)
    check("failed allocations", {(c["ret"], c["error"], c["error_message"]) for c in calls
                                 if c["family"] == "memory" and c["status"] == "error"},
          {(2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory")})


def check_torch():
    # Libraries such as cuBLAS bring a stripped runtime of their own, whose calls show as the driver's. CUPTI sees
    # them as runtime calls, so what adds up is the work: launches, copies, memsets, in the marked part.
    part = seen.marked(calls)
    wanted = collections.Counter()
    for func, n in counts["calls"].items():
        wanted[seen.work(func)] += n
    got = collections.Counter(seen.work(c["func"]) for c in part)
    for what in seen.WORK:
        check(what, got[what], wanted[what])
    marked = [c for c in part if seen.is_launch(c)]
    check("launches without a kernel's name", len([c for c in marked if "kernel" not in c]), 0)
    check("launches by kernel", dict(sorted(seen.by_base(seen.by_kernel(marked)).items())),
          dict(sorted(seen.by_base(counts["kernels"]).items())))
    check("failed allocation", {(c["ret"], c["error"], c["error_message"], c.get("bytes")) for c in calls
                                if c["func"] == "cudaMalloc" and c["status"] == "error"},
          {(2, "cudaErrorMemoryAllocation", "out of memory", 1 << 50)})


def check_launches():
    named = [c for c in launches if c.get("kernel") in counts["launches"]]
    check("launches without a kernel's name", len([c for c in launches if "kernel" not in c]), 0)
    check("launches by kernel", dict(sorted(seen.by_kernel(named).items())), dict(sorted(counts["launches"].items())))
    for func, times in sorted(counts.get("calls", {}).items()):
        check(func, len(some(func=func)), times)
    nodes = [c for c in calls if "KernelNode" in c["func"] and "kernel_handle" in c]
    check("graph nodes without a kernel's name", len([c for c in nodes if "kernel" not in c]), 0)


def as_expected(wanted, got):
    """Of what was seen that part which is expected: an object's members, if they are expected."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        return {key: as_expected(value, got.get(key)) for key, value in wanted.items()}
    return got


def check_thread(who, tid, wanted, funcs):
    made = [c for c in calls if c["tid"] == tid and c["func"] in funcs and c["status"] == "ok"]
    got = [as_expected(w, c) for w, c in zip(wanted, made)]
    check(f"{who}: calls", [c["func"] for c in made], [w["func"] for w in wanted])
    check(f"{who}: {len(wanted)} calls one by one, those that differ",
          [(i, g, w) for i, (g, w) in enumerate(zip(got, wanted)) if g != w], [])


def check_devices():
    """What the program expects of each call, thread by thread; as far as its family is traced."""
    families = events[0]["config"]["families"]
    wanted = [w for w in counts["events"] if w["family"] in families]
    for number, tid in enumerate(dict.fromkeys(w["tid"] for w in wanted)):
        check_thread(f"thread {number}", tid, [w for w in wanted if w["tid"] == tid], {w["func"] for w in wanted})
    check_names()
    check("devices seen", sorted({c["device"] for c in calls if c["family"] == "memory" and "device" in c}),
          sorted({w["device"] for w in wanted if w["family"] == "memory"}))
    ended = [e for e in events if e["type"] == "process" and e["phase"] == "exit" and e["pid"] == counts["pid"]]
    check("bytes between devices", [e["total"]["bytes"].get("p2p", 0) for e in ended], [counts["peer_bytes"]])
    if counts["uuids"]:
        told = {str(e["device"]): e["uuid"].replace("-", "") for e in events
                if e["type"] == "device" and e["pid"] == counts["pid"]}
        check("UUIDs", {device: told.get(device) for device in counts["uuids"]}, counts["uuids"])


{"calls": check_calls, "stripped": check_stripped, "torch": check_torch, "launches": check_launches,
 "devices": check_devices}[kind]()
check("unpaired", stop["unpaired"], 0)
check("lost", {cause: n for cause, n in stop["lost"].items() if n}, {})
check("names lost", stop["names_lost"], 0)
check("entries = emitted + nested + muted + unfinished",
      stop["entries"], stop["emitted"] + stop["nested"] + stop["muted"] + stop["unfinished"])
with open(f"{name}.checks", "w", encoding="utf-8") as out:
    print(*checks, sep="\n", file=out)
print(f"  {name:12} {len(calls):7} lines {len(launches):6} launches {len(seen.by_kernel(launches)):4} kernels "
      f"{len(checks) - len(bad):3} comparisons held {len(bad):3} not")
for line in bad:
    print("    " + line[:600])
sys.exit(1 if bad else 0)
