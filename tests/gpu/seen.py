"""What the lines of a run say, for the comparisons: launches by kernel, and what was lost."""

import collections
import json

# what a marked part is compared by with CUPTI's counts (torch.profiler)
WORK = ("LaunchKernel", "Memcpy", "Memset", "StreamSynchronize")


def read(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def calls(events):
    return [event for event in events if event["type"] == "call"]


def is_launch(call):
    return call["family"] == "launch" and "kernel_handle" in call


def by_kernel(launches):
    return collections.Counter(call.get("kernel", "?") for call in launches)


def work(func):
    """cudaMemcpyAsync is Memcpy; None for what is no work."""
    func = func.removeprefix("cuda").removeprefix("cu")
    return next((name for name in WORK if func.startswith(name)), None)


def base(kernel):
    """at::native::fill of void at::native::fill<float>(int): two demanglers write the rest differently."""
    kernel = kernel.replace("(anonymous namespace)", "anonymous").removeprefix("void ")
    return kernel.split("<")[0].split("(")[0].strip()


def by_base(kernels):
    sums = collections.Counter()
    for kernel, n in kernels.items():
        if "#" not in kernel:  # the profiler's own marks
            sums[base(kernel)] += n
    return sums


def marked(some):
    """The calls between the first and the last mark of train.py."""
    marks = [call["seq"] for call in some if call["func"] == "cudaMemGetInfo"]
    return [call for call in some if marks and marks[0] < call["seq"] < marks[-1]]


def losses(events):
    """By cause, those that are not 0; None without a stop event."""
    stop = next((event for event in reversed(events) if event["type"] == "stop"), None)
    if not stop:
        return None
    count = stop["calls"]
    found = {f"lost.{cause}": n for cause, n in count["lost"].items() if n}
    for key in ("names_lost", "unpaired", "open", "read_failed"):
        if count.get(key):
            found[key] = count[key]
    return found
