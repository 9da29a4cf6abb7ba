"""One run over a whole host: the tracer starts first, without a command; then programs of all kinds come and
go. For each the launches that it counted itself are compared with the lines, and the kernels' names, the
process, the container and the device that the lines say.

usage: host.py CUDATAP PROGRAMS OUT [--dry] [--late SECONDS]
	PROGRAMS: calls-shared, calls-static, calls-stripped, libcalls.so, late; with a GPU also cublas, nvrtc, graphs
	--dry: no GPU, calls are made all the same; only what needs none runs
	--late: seconds after its start at which one program loads the library (60)
Exit code 1 when a row differs from what it must be.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import uuid

import seen

HERE = pathlib.Path(__file__).resolve().parent
WAIT_MS = 1000  # a mapping is seen a little after it was made; whoever calls at once is ahead of it
CONTAINER = uuid.uuid4().hex + uuid.uuid4().hex

# Prepares what the container alone can see, then becomes the program: a file system of its own with a copy of
# the library, or one that it shares with other containers as a layer.
OWN = 'mount -t tmpfs none "$1" && cp "$2"/* "$1" && shift 2 && exec "$@"'
LAYER = ('mount -t tmpfs none "$1" && mkdir "$1/upper" "$1/work" "$1/root" && '
         'mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$1/root" && shift 2 && exec "$@"')


class Scene:
    """A program of the run. `exact`: every launch must be there; else the row only shows what was seen."""

    def __init__(self, name, words, env=None, exact=True, torch=False, inside=None):
        self.name, self.words, self.exact, self.torch = name, list(map(str, words)), exact, torch
        self.env, self.inside = {"OWN_WAIT_MS": str(WAIT_MS), **(env or {})}, inside
        self.process = self.pid = self.counts_path = None
        self.container = None

    def start(self, out, cgroup):
        self.counts_path = out / f"{self.name.replace(' ', '-')}.json"
        words = [word.replace("%s", str(self.counts_path)) for word in self.words]
        if self.inside:
            words = ["unshare", "--mount", "--mount-proc", "--pid", "--fork", "--kill-child", "sh", "-c", self.inside[0], "sh",
                     *map(str, self.inside[1:]), *words]
            if cgroup:
                words = ["sh", "-c", 'echo $$ >"$1" && shift && exec "$@"', "sh", str(cgroup / "cgroup.procs"), *words]
                self.container = CONTAINER
        log = open(out / f"{self.name.replace(' ', '-')}.log", "wb")
        self.process = subprocess.Popen(words, env={**os.environ, **self.env}, stdout=log, stderr=log,
                                        stdin=subprocess.DEVNULL)
        self.pid = self.child() if self.inside else self.process.pid

    def child(self):
        """The process that `unshare` has forked, as this namespace numbers it."""
        path = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        end = time.monotonic() + 10
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError):
                children = path.read_text().split()
                if children:
                    return int(children[0])
            time.sleep(0.005)
        return None


def cgroup_of_a_container():
    """A cgroup that is named as a container's, or None where none can be made."""
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        fields = line.split()
        if fields[2] != "cgroup2":
            continue
        path = pathlib.Path(fields[1]) / f"docker-{CONTAINER}.scope"
        with contextlib.suppress(OSError):
            path.mkdir()
            return path
    return None


def library_of(program):
    """The libcudart that a program would load."""
    for line in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.splitlines():
        if "libcudart" in line and "/" in line:
            return pathlib.Path(line.split("=>")[1].split()[0])
    sys.exit(f"{program} finds no libcudart")


def layer(out):
    """A directory with a copy of the library and the program, for containers."""
    return out / "layer"


def make_layer(out, programs):
    library = library_of(programs / "calls-shared")
    layer(out).mkdir()
    shutil.copy(library, layer(out) / "libcudart.so.13")
    shutil.copy(programs / "calls-shared", layer(out))
    for name in ("own", "first", "second"):
        (out / name).mkdir()


def overlay_works(out):
    done = subprocess.run(["unshare", "--mount", "sh", "-c", LAYER, "sh", out / "first", layer(out), "true"],
                          capture_output=True, check=False)
    return done.returncode == 0


def scenes(programs, out, late, dry):
    """Groups of programs that run at the same time."""
    def container(name, script, where, below=""):
        there = f"{out / where}{below}"
        return Scene(name, [f"{there}/calls-shared", "%s"], env={"LD_LIBRARY_PATH": there},
                     inside=(script, out / where, layer(out)))

    first = [Scene("late", [programs / "late", late, programs / "libcalls.so", "%s"]),
             container("container", OWN, "own"),
             Scene("shared", [programs / "calls-shared", "%s"]),
             Scene("static", [programs / "calls-static", "%s"])]
    if overlay_works(out):
        first += [container("layer one", LAYER, "first", "/root"), container("layer two", LAYER, "second", "/root")]
    shutil.copy(programs / "calls-static", out / "at-once")
    first.append(Scene("at once", [out / "at-once", "%s"], env={"OWN_WAIT_MS": "0"}, exact=False))
    if dry:
        return [first]
    python = sys.executable
    shutil.copy(programs / "calls-static", out / "stripped")
    subprocess.run(["strip", out / "stripped"], check=True)
    first.append(Scene("stripped", [out / "stripped", "%s"]))
    for name in ("cublas", "nvrtc", "graphs"):
        if (programs / name).exists():
            first.append(Scene(name, [programs / name, "%s"]))
    first.append(Scene("torch", [python, HERE / "train.py", "%s"], torch=True, exact=False))
    second = [Scene("torch again", [python, HERE / "train.py", "%s"], torch=True),
              Scene("triton", [python, HERE / "kernel_triton.py", "%s"]),
              Scene("cupy", [python, HERE / "kernel_cupy.py", "%s"])]
    return [first, second]


def row(scene, events):
    """Cells, and whether all is as it must be."""
    own = json.loads(scene.counts_path.read_text()) if scene.counts_path.exists() else None
    if own is None:
        return [scene.name, "the program failed"], False
    mine = [event for event in events if event.get("pid") == scene.pid and event["type"] in ("call", "process")]
    calls = seen.calls(mine)
    if scene.torch:
        # while several processes use the GPU, CUPTI's records of kernels are fewer than its records of launches
        wanted = seen.by_base(own["kernels"])
        launched = sum(n for func, n in own["calls"].items() if seen.work(func) == "LaunchKernel")
        launches = [call for call in seen.marked(calls) if seen.is_launch(call)]
        names = seen.by_base(seen.by_kernel(launches))
    else:
        wanted = collections.Counter(own["launches"])
        launched = wanted.total()
        launches = [call for call in calls if seen.is_launch(call) and
                    ("kernel" not in call or not scene.name.startswith(("triton", "cupy", "cublas")) or call["kernel"] in wanted)]
        names = seen.by_kernel(launches)
    right = names & wanted
    if not calls and not scene.exact:
        return [scene.name, f"0/{launched}", "", str(scene.pid), "", "", "0"], True
    inside = {call.get("ns_pid") for call in calls} if scene.inside else {own["pid"]}
    containers = {call.get("container_id") for call in calls}
    devices = {call.get("device") for call in launches}
    ok = [len(launches) == launched, right == wanted, bool(calls) and inside == {own["pid"]},
          containers == {scene.container}, devices <= {0, None}]
    cells = [scene.name, f"{len(launches)}/{launched}", f"{right.total()}/{wanted.total()}",
             f"{scene.pid}" + (f" ({own['pid']} inside)" if scene.inside else "") + ("" if ok[2] else " BAD"),
             (scene.container or "-")[:12] + ("" if ok[3] else f" BAD {containers}"),
             ",".join(sorted("?" if d is None else str(d) for d in devices)) or "-",
             f"{len(calls)}"]
    return cells, all(ok) or not scene.exact


def table(rows):
    widths = [max(len(r[i]) for r in rows if len(r) > i) for i in range(len(rows[0]))]
    for r in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(r, widths)).rstrip())


def run(arguments, out):
    make_layer(out, arguments.programs)
    cgroup = cgroup_of_a_container()
    events, err = out / "host.jsonl", open(out / "host.err", "wb")
    all_scenes = []
    tap = subprocess.Popen([arguments.cudatap, "-f", "all", "-o", events], stdin=subprocess.DEVNULL, stdout=err,
                           stderr=err)
    try:
        while not events.exists() or '"type":"ready"' not in events.read_text():
            if tap.poll() is not None:
                sys.exit(f"cudatap ended: {(out / 'host.err').read_text()}")
            time.sleep(0.02)
        for group in scenes(arguments.programs, out, arguments.late, arguments.dry):
            for scene in group:
                scene.start(out, cgroup)
            for scene in group:
                scene.process.wait(200)
                if scene.process.returncode:
                    print(f"  {scene.name}: exit code {scene.process.returncode}: "
                          f"{scene.counts_path.with_suffix('.log').read_text()[-300:]}")
            all_scenes += group
        time.sleep(0.3)
        tap.send_signal(signal.SIGTERM)
        tap.wait(60)
    finally:
        tap.kill()
        for scene in all_scenes:
            scene.process.kill()
        if cgroup:
            with contextlib.suppress(OSError):
                cgroup.rmdir()
    return seen.read(events), all_scenes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cudatap", type=os.path.realpath)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--late", type=int, default=60)
    arguments = parser.parse_args()
    arguments.programs = arguments.programs.resolve()
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if arguments.dry:
        os.environ["OWN_DRY"] = "1"
    events, done = run(arguments, out)
    rows, good = [["program", "launches", "named", "pid", "container", "device", "calls"]], True
    for scene in done:
        cells, ok = row(scene, events)
        rows.append(cells + [""] * (len(rows[0]) - len(cells)) + (["BAD"] if not ok else []))
        good = good and ok
    rows[0].append("")
    table(rows)
    attached = [event for event in events if event["type"] == "attach"]
    first = next((event["seq"] for event in events if event["type"] == "call"), 0)
    print("  probed before the first call:", *(event["path"] for event in attached if event["seq"] < first))
    delays = sorted(event["since_mapping_ns"] / 1e6 for event in attached if "since_mapping_ns" in event)
    if delays:
        print(f"  from mapping to probes, ms: {' '.join(f'{delay:.1f}' for delay in delays)}")
    gone = collections.Counter(event["reason"] for event in events if event["type"] == "detach")
    print(f"  attached {len(attached)} files, detached {dict(gone) or 'none'}; lost, by cause: "
          f"{seen.losses(events) or 'nothing'}")
    return 0 if good else 1


sys.exit(main())
