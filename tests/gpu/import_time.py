"""What importing PyTorch takes, alone and traced, in turns, and what of it was lost.

usage: import_time.py CUDATAP OUT [TIMES]
"""
import statistics
import subprocess
import sys
import time

import seen

tap, out = sys.argv[1:3]
times = int(sys.argv[3]) if len(sys.argv) > 3 else 5
command = [sys.executable, "-c", "import torch"]


def seconds(words):
    begun = time.monotonic()
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - begun


def main():
    alone, traced, lost, lines = [], [], [], []
    seconds(command)  # what it reads is in memory from now on
    for i in range(times):
        events = f"{out}/import-{i}.jsonl"
        alone.append(seconds(command))
        traced.append(seconds([tap, "-q", "-o", events, "--", *command]))
        found = seen.read(events)
        lost.append(seen.losses(found))
        lines.append(len(seen.calls(found)))
    print(f"  alone  {' '.join(f'{s:.3f}' for s in alone)} s, median {statistics.median(alone):.3f}")
    print(f"  traced {' '.join(f'{s:.3f}' for s in traced)} s, median {statistics.median(traced):.3f}, "
          f"calls {lines}, lost {lost}")
    print(f"  ratio of the medians {statistics.median(traced) / statistics.median(alone):.3f}, of the pairs "
          f"{statistics.median(t / a for t, a in zip(traced, alone, strict=True)):.3f}")


main()
