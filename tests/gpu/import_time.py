"""What importing PyTorch takes, alone and traced, in turns, and what of it was lost: the import itself, as the
program measures it, and the whole command, with cudatap's own start and end.

usage: import_time.py CUDATAP OUT [TIMES]
"""
import statistics
import subprocess
import sys
import time

import seen

tap, out = sys.argv[1:3]
times = int(sys.argv[3]) if len(sys.argv) > 3 else 5
command = [sys.executable, "-c", "import time; begun = time.monotonic(); import torch; print(time.monotonic() - begun)"]


def seconds(words):
    """Of the import and of the whole."""
    begun = time.monotonic()
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return float(done.stdout), time.monotonic() - begun


def show(what, alone, traced):
    print(f"  {what}")
    print(f"    alone  {' '.join(f'{s:.3f}' for s in alone)} s, median {statistics.median(alone):.3f}")
    print(f"    traced {' '.join(f'{s:.3f}' for s in traced)} s, median {statistics.median(traced):.3f}")
    print(f"    ratio of the medians {statistics.median(traced) / statistics.median(alone):.3f}, median of the pairs' "
          f"{statistics.median(t / a for t, a in zip(traced, alone, strict=True)):.3f}")


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
    for i, what in enumerate(("the import", "the whole command")):
        show(what, [a[i] for a in alone], [t[i] for t in traced])
    print(f"  calls {lines}, lost {lost}")


main()
