"""A run whose configuration is changed while fake CUDA programs call as fast as they can."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import time

import tap

TIMEOUT = tap.TIMEOUT


def write(path, text):
    path.write_text("version: 1\n" + text)


def read(path):
    """Complete lines of a file that may be growing."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]


def numbers(path):
    """`seq` of each line: there are too many to parse them."""
    return [int(n) for n in re.findall(rb'^.*?"seq":(\d+)', path.read_bytes(), re.MULTILINE)]


def others(path):
    """The events that are no calls."""
    with open(path, "rb") as lines:
        return [json.loads(line) for line in lines if not line.startswith(b'{"type":"call"')]


def wait_until(condition, what):
    end = time.monotonic() + TIMEOUT
    while not (value := condition()):
        assert time.monotonic() < end, f"waited for {what}"
        time.sleep(0.01)
    return value


class Reloads:
    """The reload events of a stream, as they come."""

    def __init__(self, path):
        self.path, self.rest, self.at, self.found = path, b"", 0, []

    def look(self):
        if self.path.exists():
            with open(self.path, "rb") as stream:
                stream.seek(self.at)
                new = stream.read()
            self.at += len(new)
            whole, _, self.rest = (self.rest + new).rpartition(b"\n")
            self.found += [json.loads(line) for line in re.findall(rb'^{"type":"reload".*', whole, re.MULTILINE)]
        return self.found

    def wait(self, n):
        return wait_until(lambda: (self.look()[n - 1:] or [None])[0], f"reload {n} in {self.path}")


class Reloading:
    """cudatap with a configuration, on a CUDA library that nobody else uses. Its sink `log` has no calls."""

    def __init__(self, tmp_path, text, options=()):
        self.dir = tmp_path
        self.path = tmp_path / "cudatap.yaml"
        self.out = tmp_path / "out.jsonl"
        shutil.copy(tap.FAKE / "libcudart.so.13", tmp_path)
        self.write(text)
        self.tap = tap.Running(["-c", self.path, *options], tmp_path, events="none")
        self.events = Reloads(tmp_path / "log.jsonl")
        self.done = 0

    def write(self, text):
        write(self.path, text.replace("DIR", str(self.dir)))

    def hup(self):
        self.tap.interrupt(signal.SIGHUP)

    def wait_started(self):
        wait_until(lambda: self.events.path.exists() and '"type":"attach"' in self.events.path.read_text(), "attaching")

    def reload(self, text, signal=True):
        """Another configuration by SIGHUP; returns its event."""
        self.write(text)
        if signal:
            self.hup()
        return self.next_event()

    def next_event(self):
        self.done += 1
        return self.events.wait(self.done)

    def stderr(self):
        return self.tap.err_path.read_text()

    def end(self):
        """Returns the stop event."""
        self.tap.interrupt()
        assert self.tap.process.wait(TIMEOUT) == 0, self.stderr()
        return others(self.out)[-1]

    @contextlib.contextmanager
    def caller(self, *words):
        """reload_calls until its stdin is closed."""
        env = tap.environment({"FAKE_CUDA_NESTED": "0", "LD_LIBRARY_PATH": str(self.dir)})
        process = subprocess.Popen([tap.program("reload_calls"), *words], env=env, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout.readline() == "calling\n"
            yield process
        finally:
            process.kill()
            process.wait()


def end_calls(process):
    """How often it called cudaMalloc, and cudaMemset."""
    process.stdin.close()
    made = tuple(map(int, process.stdout.read().split()))
    assert process.wait(TIMEOUT) == 0
    return made


@contextlib.contextmanager
def reloading(tmp_path, text, **options):
    running = Reloading(tmp_path, text, **options)
    try:
        yield running
    finally:
        running.tap.abandon()


HEAD = "libraries: [DIR/libcudart.so.13]\nring: {size: 64MiB}\n"
QUEUE = "fields: {only: [func, status, bytes]}, queue: {max_events: 4000000, max_bytes: 2GiB}"
LOG = "  log: {type: file, path: DIR/log.jsonl, filter: {status: [unfinished]}}\n"
ONE = HEAD + f"sinks:\n{LOG}  out: {{type: file, path: DIR/out.jsonl, {QUEUE}}}\n"
TIMES = "100000"  # at full rate some seconds on two cores


def check_stream(path):
    """Events that are no calls as the schema says, no number missing from the first to the last."""
    for event in others(path):
        tap.check_line({key: value for key, value in event.items() if key != "n"})  # a constant field
    seqs = numbers(path)
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs))), "seq has holes"
    return seqs


def assert_nothing_lost(stop):
    tap.check_conservation(stop)
    assert sum(stop["calls"]["lost"].values()) == 0, stop
    assert not any(sink["dropped"] for sink in stop["sinks"].values()), stop
    assert stop["calls"]["unpaired"] == stop["calls"]["duplicate"] == stop["calls"]["in_ring"] == 0
