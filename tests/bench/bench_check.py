#!/usr/bin/env python3
"""What `cudatap check` of a configuration of 1 000 lines costs, beside a start of cudatap that reads none.

usage: bench_check.py CUDATAP"""

import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

ROUNDS = 10


def thousand_lines(cudatap):
    """Twenty sinks with filters of their own and twenty profiles."""
    listed = subprocess.run([cudatap, "list", "functions", "-f", "all"], capture_output=True, text=True, check=True)
    functions = [line.split()[-1] for line in listed.stdout.splitlines() if " on " in line]
    lines = ["families: default", "include:"] + [f"  - {name}" for name in functions[:300]]
    lines += ["exclude:"] + [f"  - {name[:-2]}*" for name in functions[300:400]]
    lines += ["sinks:"]
    for i in range(20):
        lines += [f"  sink{i}:", "    type: file", f"    path: /tmp/{i}", "    filter:", "      min_duration: 1us",
                  "      functions:", *(f"        - {name}" for name in functions[i::len(functions) // 10][:8])]
    lines += ["profiles:"]
    for i in range(20):
        lines += [f"  p{i}:", "    families: all", "    sinks:", f"      sink{i}:", "        queue:",
                  f"          max_events: {i + 1}"]
    lines += ["# so many"] * (1000 - len(lines))
    assert len(lines) == 1000
    return "\n".join(lines) + "\n"


def cpu_ms(*words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main():
    cudatap = sys.argv[1]
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "long.yaml"
        path.write_text(thousand_lines(cudatap))
        rounds = [(cpu_ms(cudatap, "check", "-c", path), cpu_ms(cudatap, "--version")) for _ in range(ROUNDS)]
    check, start = map(statistics.median, zip(*rounds))
    print(f"check of 1 000 lines: {check:.1f} ms of CPU, {start:.1f} of them to start; ratio {check / start:.2f}")


if __name__ == "__main__":
    main()
