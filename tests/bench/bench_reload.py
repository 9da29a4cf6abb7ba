#!/usr/bin/env python3
"""How long a reload takes that changes one family, with all functions of both libraries attached and a program
that calls as fast as it can, and what is lost meanwhile.

usage: bench_reload.py CUDATAP FAKE_LIBRARIES RELOAD_CALLS"""

import json
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 20
FAMILIES = "memory, launch, graph, stream, event, sync, device, context, module, pool, array, interop, occupancy, " \
    "query, error, profiler, other"


def main():
    cudatap, fake, program = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        measure(pathlib.Path(directory), cudatap, pathlib.Path(fake), program)


def write(directory, families):
    path = directory / "new.yaml"
    path.write_text(f"libraries: [{directory}/*.so.*]\nfamilies: [{families}]\nsinks:\n"
                    f"  calls: {{type: file, path: /dev/null}}\n"
                    f"  log: {{type: file, path: {directory}/log.jsonl, filter: {{status: [unfinished]}}}}\n")
    path.rename(directory / "cudatap.yaml")


def events(directory, kind):
    path = directory / "log.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [event for event in map(json.loads, lines) if event["type"] == kind]


def wait_for(directory, kind, n):
    while len(found := events(directory, kind)) < n:
        time.sleep(0.005)
    return found[n - 1]


def measure(directory, cudatap, fake, program):
    for name in ("libcudart.so.13", "libcuda.so.1"):
        shutil.copy(fake / name, directory)
    write(directory, FAMILIES + ", transfer")
    tap = subprocess.Popen([cudatap, "-q", "-c", directory / "cudatap.yaml"], stderr=subprocess.DEVNULL)
    functions = sum(wait_for(directory, "attach", n)["functions"] for n in (1, 2))
    calls = subprocess.Popen([program, "1", "1000000000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env={"LD_LIBRARY_PATH": str(directory), "FAKE_CUDA_NESTED": "0"})
    calls.stdout.readline()
    times, changed = [], 0
    for n in range(ROUNDS):
        write(directory, FAMILIES + (", transfer" if n % 2 else ""))
        tap.send_signal(signal.SIGHUP)
        event = wait_for(directory, "reload", n + 1)
        times.append(event["duration_ns"] / 1e6)
        changed = max(changed, event["changes"]["attached"] + event["changes"]["detached"])
        time.sleep(0.05)
    calls.stdin.close()
    calls.wait()
    tap.send_signal(signal.SIGINT)
    tap.wait()
    stop = events(directory, "stop")[0]
    lost = sum(stop["calls"]["lost"].values()) + sum(sum(sink["dropped"].values()) for sink in stop["sinks"].values())
    print(f"{functions} functions attached, {changed} of them in the family that comes and goes; "
          f"{stop['calls']['emitted'] / stop['duration_ns'] * 1e3:.2f} M calls/s")
    print(f"until it is in effect: median {statistics.median(times[::2]):.0f} ms without the family, "
          f"{statistics.median(times[1::2]):.0f} ms with it, {max(times):.0f} ms at most; "
          f"{lost} of {stop['calls']['emitted']} events lost in {ROUNDS} reloads")


main()
