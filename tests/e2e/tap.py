"""Runs cudatap and reads what it says: every line is checked against the event schema, every stop
event against the law of conservation."""

import collections
import contextlib
import ctypes
import errno
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import jsonschema
import jsonschema_rs

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
CUDATAP = pathlib.Path(os.environ.get("CUDATAP_BIN", BUILD / "cudatap")).resolve()
FAKE = BUILD / "fake"
PROGRAMS = BUILD / "e2e"
CACHE = pathlib.Path(os.environ.get("CUDATAP_CACHE", pathlib.Path.home() / ".cache/cudatap"))
PROBES = ("session", "multi", "classic")
GPUS = len(os.listdir("/proc/driver/nvidia/gpus")) if os.path.exists("/proc/driver/nvidia/gpus") else 0
SLOWER = int(os.environ.get("CUDATAP_SLOW", 1))  # on an emulated machine
TIMEOUT = 30 * SLOWER

# Runs a program as another user, who may follow a path through directories that are closed to him, such as root's home.
AS_NOBODY = ["setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=+dac_read_search",
             "--ambient-caps=+dac_read_search"]

SCHEMA = json.loads((ROOT / "docs/event.schema.json").read_text())
FAST = jsonschema_rs.validator_for(SCHEMA)
SLOW = jsonschema.Draft202012Validator(SCHEMA)


def program(name):
    return str(PROGRAMS / name)


def check_line(event):
    with contextlib.suppress(ValueError):  # numbers above 2^63 are beyond it
        if FAST.is_valid(event):
            return
    error = jsonschema.exceptions.best_match(SLOW.iter_errors(event))
    if error:
        where = "/".join(map(str, error.absolute_path))
        raise AssertionError(f"not as docs/event.schema.json says, at {where}: {error.message[:400]}\n"
                             f"{json.dumps(event)[:600]}")


def check_conservation(stop):
    c = stop["calls"]
    ends = sum(c[key] for key in ("emitted", "unfinished", "nested", "muted", "filtered", "sampled_out", "rate_limited",
                                  "duplicate", "unpaired", "open", "in_ring"))
    assert c["entries"] == ends + sum(c["lost"].values()), c
    for name, sink in stop["sinks"].items():
        kept = sum(sink.get(key, 0) for key in ("delivered", "unknown", "filtered", "rate_limited", "queued",
                                                "in_flight", "spooled", "handed_over"))
        given = sum(sink.get(key, 0) for key in ("received", "recovered", "taken_over"))
        # the stop event itself is still on its way when it is written
        assert 0 <= given - kept - sum(sink["dropped"].values()) <= 1, (name, sink)


class Result:
    """The events of one run, in order, and how it ended."""

    def __init__(self, text, code, stdout, stderr, complete=True):
        assert "\0" not in text
        lines = text.split("\n")
        if complete:
            assert lines[-1] == "", f"the last line is torn: {lines[-1][:200]}"
        lines = [line for line in lines if line]
        self.events = [json.loads(line) for line in lines]
        for event in self.events:
            check_line(event)
        self.code, self.stdout, self.stderr = code, stdout, stderr
        self.calls = self.of("call")
        self.attached = self.of("attach")
        self.losses = self.of("loss")
        self.start = next(iter(self.of("start")), None)
        self.stop = next(iter(self.of("stop")), None)
        self._check_sequence()
        if self.stop:
            check_conservation(self.stop)

    def of(self, kind):
        return [event for event in self.events if event["type"] == kind]

    def _check_sequence(self):
        assert len({event["run"] for event in self.events}) <= 1
        numbers = [event["seq"] for event in self.events if "seq" in event]
        assert numbers == sorted(set(numbers)), "seq must rise"
        # nothing may be missing unless a sink says that it dropped events
        if self.stop and not any(sum(sink["dropped"].values()) for sink in self.stop["sinks"].values()):
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "seq has holes"

    @property
    def counts(self):
        """Calls per exported name."""
        return collections.Counter(call.get("symbol", call["func"]) for call in self.calls)

    def named(self, *names):
        return [call for call in self.calls if call.get("symbol", call["func"]) in names]

    def lost(self):
        return sum(self.stop["calls"]["lost"].values())

    def assert_clean(self):
        """Nothing lost, nothing unpaired, nothing unread, nothing twice."""
        c = self.stop["calls"]
        assert self.lost() == 0 and c["unpaired"] == 0 and c["duplicate"] == 0 and c["read_failed"] == 0, c
        assert c["open"] == 0 and c["in_ring"] == 0 and c["orphan_exits"] == 0, c
        assert c["emitted"] == len([call for call in self.calls if call["status"] != "unfinished"])
        assert not self.losses


def environment(extra=None):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("FAKE_CUDA", "SUDO_"))}
    env.update(extra or {})
    return env


class Running:
    """A cudatap in the background."""

    def __init__(self, arguments, tmp_path, env=None, events="file"):
        self.events_path = tmp_path / f"events-{time.monotonic_ns()}.jsonl"
        self.err_path = self.events_path.with_suffix(".err")
        self.out_path = self.events_path.with_suffix(".out")
        sink = ["-o", str(self.events_path)] if events == "file" else []
        self.sink = events
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen([str(CUDATAP), *sink, *map(str, arguments)], stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=err, env=environment(env))

    @property
    def pid(self):
        return self.process.pid

    def text(self):
        path = self.events_path if self.sink == "file" else self.out_path
        return path.read_text(errors="strict") if path.exists() else ""

    def wait_for(self, condition, what, timeout=TIMEOUT):
        end = time.monotonic() + timeout
        while not condition(self.text()):
            assert time.monotonic() < end, f"waited {timeout} s for {what}; stderr: {self.err_path.read_text()}"
            assert self.process.poll() is None or condition(self.text()), \
                f"ended while waiting for {what}; stderr: {self.err_path.read_text()}"
            time.sleep(0.01)

    def wait_attached(self, name, timeout=TIMEOUT):
        self.wait_for(lambda text: any(name in line for line in text.split("\n") if '"type":"attach"' in line),
                      f"attaching {name}", timeout)

    def wait_started(self):
        """What there is by now has its probes."""
        self.wait_for(lambda text: '"type":"ready"' in text, "being ready")

    def interrupt(self, number=signal.SIGINT):
        self.process.send_signal(number)

    def end(self, number=signal.SIGINT, timeout=TIMEOUT):
        self.interrupt(number)
        return self.finish(timeout)

    def finish(self, timeout=TIMEOUT, complete=True):
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"cudatap did not end in {timeout} s; stderr: {self.err_path.read_text()}") from None
        return Result(self.text(), code, self.out_path.read_text(), self.err_path.read_text(), complete)

    def abandon(self):
        """Does not let it live on after a test that has failed."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


CALLER = """
import ctypes, sys
for line in sys.stdin:
    cuda = ctypes.CDLL(line.strip()) if line.strip() else cuda
    for i in range(0 if line.strip() else 10):
        cuda.cudaMemset(None, 1, ctypes.c_size_t(1))
    print(flush=True)
"""


class Caller:
    """A program that loads the library that it is told, and makes ten calls into it when told nothing."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-c", CALLER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        bufsize=0, env=environment({"FAKE_CUDA_NESTED": "0"}))
        self.pid = self.process.pid

    def tell(self, text=""):
        self.process.stdin.write(f"{text}\n".encode())
        assert self.process.stdout.readline() == b"\n"

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Manager:
    """A service manager, as far as NOTIFY_SOCKET goes; `@` before its name for a socket without a file."""

    def __init__(self, name):
        self.name = str(name)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.name.replace("@", "\0", 1))
        self.socket.settimeout(TIMEOUT)
        if self.name[0] == "/":
            os.chmod(self.name, 0o777)

    def told(self):
        return self.socket.recv(4096).decode()


@contextlib.contextmanager
def running(arguments, tmp_path, **options):
    tap = Running(arguments, tmp_path, **options)
    try:
        yield tap
    finally:
        tap.abandon()


def trace(tmp_path, *words, options=(), env=None, timeout=TIMEOUT, events="file"):
    """Runs `cudatap OPTIONS -- WORDS` to its end."""
    with running([*options, "--", *words], tmp_path, env=env, events=events) as tap:
        return tap.finish(timeout)


def run_plain(*arguments, stdin=subprocess.DEVNULL, timeout=TIMEOUT, env=None):
    """cudatap with these arguments: code, stdout, stderr."""
    return subprocess.run([str(CUDATAP), *map(str, arguments)], stdin=stdin, capture_output=True, text=True,
                          timeout=timeout, env=environment(env))


def config(tmp_path, text):
    path = tmp_path / f"config-{time.monotonic_ns()}.yaml"
    path.write_text("version: 1\n" + text)
    return str(path)


def read_counts(directory):
    """What the fake libraries counted themselves (see tests/fake/fake_cuda.h): calls per exported name."""
    calls = collections.Counter()
    for path in pathlib.Path(directory).iterdir():
        data = path.read_bytes()
        functions, shards = struct.unpack_from("<II", data)
        names = [data[64 + 64 * i:][:64].rstrip(b"\0").decode() for i in range(functions)]
        numbers = struct.unpack_from(f"<{functions * shards}Q", data, 64 + 64 * functions)
        for i, name in enumerate(names):
            total = sum(numbers[i::functions])
            if total:
                calls[name] += total
    return calls


def last_program_id():
    """The newest BPF program's id: those of a later run are larger."""
    return max(_programs(), default=0)


def _programs(after=0):
    """The ids of all BPF programs in the kernel that are larger than that."""
    libbpf = ctypes.CDLL("libbpf.so.1", use_errno=True)
    number = ctypes.c_uint32(after)
    while libbpf.bpf_prog_get_next_id(number, ctypes.byref(number)) == 0:
        yield number.value
    assert ctypes.get_errno() == errno.ENOENT, os.strerror(ctypes.get_errno())


def _holders():
    """BPF program id to the executables of the processes that hold it, by a descriptor of it or of a link."""
    holders = collections.defaultdict(set)
    for info in pathlib.Path("/proc").glob("[0-9]*/fdinfo/*"):
        with contextlib.suppress(OSError):
            found = re.search(r"^prog_id:\t(\d+)$", info.read_text(), re.MULTILINE)
            if found:
                holders[int(found[1])].add(os.readlink(info.parent.parent / "exe"))
    return holders


def assert_nothing_left(since, timeout=5):
    """No BPF program newer than `since` is left behind by cudatap; programs of others do not count."""
    end = time.monotonic() + timeout
    while True:
        new = list(_programs(since))
        holders = _holders() if new else {}
        left = [program for program in new if str(CUDATAP) in holders.get(program, ()) or not holders.get(program)]
        if not left:
            return
        assert time.monotonic() < end, f"left in the kernel: the BPF programs {left}"
        time.sleep(0.1)
