"""Sinks at work on real probes: who gets which events, and what becomes of every one of them when
readers leave, disks fill up, files are moved away and time is short. The fakes count the calls, what
arrived is counted from the files, and cudatap's own counters must explain the difference to the last
event."""

import collections
import contextlib
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
import tap

MEMSET = "api: [runtime]\nfamilies: []\ninclude: [cudaMemset]\n"
ALL = ("delivered", "unknown", "filtered", "rate_limited", "queued", "in_flight", "spooled")


def statuses(text):
    return [json.loads(line) for line in text.split("\n") if line.startswith('{"type":"status"')]


def check_law(status):
    """Exact while nothing happens, as at the end."""
    for name, sink in status["sinks"].items():
        ends = sum(sink[key] for key in ALL) + sum(sink["dropped"].values())
        assert sink["received"] + sink["recovered"] == ends, (name, sink)


class Run:
    """One run of a program that makes `cudaMemset` calls, under a configuration with sinks."""

    def __init__(self, tmp_path, counts, sinks, words, *, text=MEMSET, env=None, options=(), stdout=None):
        self.err = tmp_path / "stderr"
        self.counts = counts
        config = tap.config(tmp_path, text + "sinks:\n" + sinks)
        env = {"FAKE_CUDA_COUNTS": str(counts), "FAKE_CUDA_NESTED": "0", **(env or {})}
        with open(self.err, "wb") as err:
            self.process = subprocess.Popen([str(tap.CUDATAP), "-c", config, *options, "--", *words],
                                            stdin=subprocess.DEVNULL, stdout=stdout or subprocess.DEVNULL, stderr=err,
                                            env=tap.environment(env))

    def wait_for(self, condition, what, timeout=tap.TIMEOUT):
        end = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < end, f"waited {timeout} s for {what}; stderr: {self.stderr}"
            assert self.process.poll() is None or condition(), f"ended before {what}; stderr: {self.stderr}"
            time.sleep(0.01)

    @property
    def stderr(self):
        return self.err.read_text()

    def status(self):
        """The counters while it runs."""
        n = len(statuses(self.stderr))
        self.process.send_signal(signal.SIGUSR2)
        self.wait_for(lambda: len(statuses(self.stderr)) > n, "a status")
        return statuses(self.stderr)[-1]

    def finish(self, timeout=60):
        """Waits for the end; the last word of the counters."""
        try:
            self.code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end in {timeout} s; stderr: {self.stderr}") from None
        last = statuses(self.stderr)[-1]
        check_law(last)
        calls = last["calls"]
        assert calls["entries"] == self.made() == calls["emitted"] + calls["unfinished"] + calls["open"] + \
            calls["unpaired"] + sum(calls["lost"].values()), calls
        return last

    def made(self):
        return tap.read_counts(self.counts)["cudaMemset"]


@contextlib.contextmanager
def running(*arguments, **options):
    run = Run(*arguments, **options)
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.process.kill()
            run.process.wait()


def opened(path):
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dcq", path], capture_output=True, check=True).stdout
    return path.read_bytes()


def generations(path):
    """A file and its old generations, the oldest first."""
    def number(p):
        found = re.fullmatch(re.escape(path.name) + r"(?:\.(\d+)(?:\.gz|\.zst)?)?", p.name)
        return None if not found else int(found[1] or 0)
    paths = [p for p in path.parent.iterdir() if number(p) is not None]
    return sorted(paths, key=number, reverse=True)


def read(*paths):
    """The events of files that follow one another: whole lines, each as the schema says, none twice."""
    data = b"".join(opened(path) for path in paths)
    assert b"\0" not in data, "a hole"
    assert not data or data.endswith(b"\n"), "a torn line"
    events = [json.loads(line) for line in data.split(b"\n")[:-1]]
    for event in events:
        tap.check_line(event)
    numbers = [event["seq"] for event in events if "seq" in event]
    assert numbers == sorted(set(numbers)), "seq must rise"
    return events


def of(events, kind):
    return [event for event in events if event["type"] == kind]


def check_sink(events, status, name):
    """What arrived is what the sink says it delivered, and what is missing is told in the stream: but for
    what was lost after the last loss event that it could write, all of it."""
    sink = status["sinks"][name]
    numbered = [event for event in events if "seq" in event]
    assert len(numbered) == sink["delivered"], sink
    told = collections.Counter()
    for event in of(events, "loss"):
        if event["source"] == "sink":
            assert event["sink"] == name and event["seq_first"] <= event["seq_last"]
            assert event["count"] <= event["seq_last"] - event["seq_first"] + 1
            told[event["reason"]] += event["count"]
    assert all(told[reason] <= sink["dropped"][reason] for reason in told), (told, sink)
    return told


def rate(threads, calls):
    return [tap.program("rate"), str(threads), str(calls)]


SLOW = {"FAKE_CUDA": "cudaMemset:delay=100us"}


@pytest.fixture
def tiny(tmp_path):
    """A small disk of its own: mount(size) makes or resizes it."""
    path = tmp_path / "tiny"
    path.mkdir()
    mounted = []

    def mount(size):
        option = f"remount,{size}" if mounted else size
        subprocess.run(["mount", "-t", "tmpfs", "-o", option, "tiny", path], check=True)
        mounted.append(size)
        return path
    yield mount
    if mounted:
        subprocess.run(["umount", "-l", path], check=True)


# ---- who gets what ----

def test_each_sink_its_own(tmp_path, counts):
    """Filters, forms and limits are each sink's own; sequence numbers tell that the events are the same."""
    sinks = f"""
  all: {{type: file, path: {tmp_path}/all}}
  bare: {{type: file, path: {tmp_path}/bare, fields: {{args: false}}}}
  errors: {{type: file, path: {tmp_path}/errors, filter: {{status: [error]}}, fields: {{args: false}}}}
  memory: {{type: file, path: {tmp_path}/memory, filter: {{functions: [cudaMalloc, "cudaFree*"], min_bytes: 0}}}}
  large: {{type: file, path: {tmp_path}/large, filter: {{min_bytes: 1MiB}}}}
  long: {{type: file, path: {tmp_path}/long, filter: {{min_duration: 1h}}}}
  few: {{type: file, path: {tmp_path}/few, rate_limit: {{events: 1, burst: 2}}}}
"""
    with running(tmp_path, counts, sinks, [str(tap.FAKE / "demo")], text="families: all\n") as run:
        run.process.wait(60)
    status = statuses(run.stderr)[-1]
    check_law(status)
    events = {path: read(tmp_path / path) for path in ("all", "bare", "errors", "memory", "large", "long", "few")}
    calls = {name: {event["seq"]: event for event in of(some, "call")} for name, some in events.items()}
    assert len(calls["all"]) > 20
    for name, sink in status["sinks"].items():
        check_sink(events[name], status, name)
        # events that are no calls are everyone's
        assert [e for e in events[name] if e["type"] == "start"] == of(events["all"], "start")
        assert sink["received"] == status["sinks"]["all"]["received"]
        assert sink["filtered"] + sink["rate_limited"] == len(calls["all"]) - len(calls[name])

    def expected(keep):
        return {seq: event for seq, event in calls["all"].items() if keep(event)}

    def bare(some):
        return {seq: {k: v for k, v in event.items() if k not in ("args", "out")} for seq, event in some.items()}
    assert any("args" in event for event in calls["all"].values())
    assert calls["bare"] == bare(calls["all"])
    assert calls["errors"] == bare(expected(lambda e: e["status"] == "error")) and calls["errors"]
    assert calls["memory"] == expected(lambda e: e["func"].startswith(("cudaFree", "cudaMalloc")) and
                                       (e["func"] == "cudaMalloc" or e["func"].startswith("cudaFree")))
    assert calls["large"] == expected(lambda e: e.get("bytes", 0) >= 1 << 20)
    assert not calls["long"]
    assert 2 <= len(calls["few"]) <= 4 and status["sinks"]["few"]["rate_limited"] > 0


def test_hanging_beside_fast(tmp_path, counts):
    """A sink that takes nothing for the whole run costs the others nothing; neither does a slow one."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)  # it never reads
    sinks = f"""
  fast: {{type: file, path: {tmp_path}/fast, queue: {{max_events: 1000000, max_bytes: 1GiB}}}}
  hanging: {{type: file, path: {fifo}, queue: {{max_events: 100}}}}
  slow: {{type: stdout, queue: {{max_events: 500, when_full: drop_oldest}}}}
"""
    slow = subprocess.Popen(["sh", "-c", f"while read -r line; do echo \"$line\" >>{tmp_path}/slow; sleep 0.001; done"],
                            stdin=subprocess.PIPE)
    with running(tmp_path, counts, sinks, rate(2, 20000), stdout=slow.stdin) as run:
        slow.stdin.close()
        status = run.finish()
    slow.wait(30)
    fast = read(tmp_path / "fast")
    assert len(of(fast, "call")) == status["calls"]["emitted"] == 40000 - status["calls"]["lost"]["ring"]
    assert status["sinks"]["fast"]["dropped"] == {} and status["calls"]["lost"]["ring"] == 0
    check_sink(fast, status, "fast")
    hung = status["sinks"]["hanging"]
    assert hung["delivered"] < 1000 and hung["dropped"]["queue_full"] > 30000
    told = check_sink(read(tmp_path / "slow"), status, "slow")
    assert told["queue_full"] > 0
    data = os.read(reader, 1 << 20)
    assert data.count(b"\n") == hung["delivered"] + data.count(b'"type":"loss"')
    os.close(reader)


def test_reader_leaves(tmp_path, counts):
    """`| head`: the pipe's sink ends quietly, the file goes on, and so does the command."""
    sinks = f"  console: {{type: stdout}}\n  disk: {{type: file, path: {tmp_path}/disk}}\n"
    head = subprocess.Popen(["head", "-n", "5"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with running(tmp_path, counts, sinks, rate(1, 20000), stdout=head.stdin) as run:
        head.stdin.close()
        assert len(head.stdout.read().split(b"\n")) == 6 and head.wait(10) == 0
        status = run.finish()
    assert run.code == 0
    events = read(tmp_path / "disk")
    assert len(of(events, "call")) == 20000
    assert status["sinks"]["console"]["dropped"].keys() <= {"pipe_closed", "shutdown"}
    assert "Broken pipe" not in run.stderr and "pipe_closed" not in run.stderr.split('{"type"')[0]


def test_blocking_loses_nothing(tmp_path, counts):
    """`when_full: block`: the ring holds what the queue does not."""
    sinks = "  console: {type: stdout, queue: {max_events: 50, when_full: block, block_timeout: 30s}}\n"
    path = tmp_path / "slow"
    slow = subprocess.Popen(["sh", "-c", f"sleep 0.5; exec cat >{path}"], stdin=subprocess.PIPE)
    with running(tmp_path, counts, sinks, rate(1, 20000), stdout=slow.stdin) as run:
        slow.stdin.close()
        status = run.finish()
    slow.wait(30)
    events = read(path)
    assert len(of(events, "call")) == 20000 and status["sinks"]["console"]["dropped"] == {}


# ---- the disk ----

@pytest.mark.parametrize("policy", ["pause", "drop"])
def test_disk_full_and_room_again(tmp_path, counts, tiny, policy):
    disk = tiny("size=512k")
    sinks = f"""
  disk: {{type: file, path: {disk}/log, on_disk_full: {policy}, queue: {{max_events: 2000}}}}
  other: {{type: file, path: {tmp_path}/other}}
"""
    with running(tmp_path, counts, sinks, rate(1, 15000), env=SLOW) as run:
        run.wait_for(lambda: "No space left" in run.stderr, "a full disk")
        run.wait_for(lambda: run.status()["sinks"]["disk"]["dropped"], "losses")
        check_law(run.status())
        read(disk / "log")  # whole lines, while it is full
        tiny("size=64m")
        status = run.finish()
    events = read(disk / "log")
    told = check_sink(events, status, "disk")
    dropped = status["sinks"]["disk"]["dropped"]
    assert dropped == told and set(dropped) == {"disk_full"}, dropped
    assert len([e for e in events if "seq" in e]) + dropped["disk_full"] == status["sinks"]["disk"]["received"]
    assert len(of(events, "call")) > 2000 and events[-1]["type"] in ("stop", "loss")
    assert len(of(read(tmp_path / "other"), "call")) == 15000
    assert "takes lines again" in run.stderr


def test_disk_full_at_rotation(tmp_path, counts, tiny):
    """Others fill the disk: no new file can be begun, later it can; nothing that was written is harmed."""
    disk = tiny("size=3m")
    sinks = (f"  disk: {{type: file, path: {disk}/log, rotate: {{max_size: 200KiB, keep: 3, compress: zstd}}, "
             "queue: {max_events: 3000}}\n")
    with running(tmp_path, counts, sinks, rate(1, 15000), env=SLOW) as run:
        run.wait_for(lambda: (disk / "log.2.zst").exists(), "generations")
        with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
        run.wait_for(lambda: "No space left" in run.stderr, "a full disk")
        time.sleep(0.5)
        (disk / "filler").unlink()
        status = run.finish()
    paths = generations(disk / "log")
    assert 2 <= len(paths) <= 4
    events = [read(path) for path in paths]
    numbers = [event["seq"] for some in events for event in some if "seq" in event]
    assert numbers == sorted(set(numbers))
    sink = status["sinks"]["disk"]
    assert sink["delivered"] + sum(sink["dropped"].values()) == sink["received"]
    assert set(sink["dropped"]) <= {"disk_full"}
    assert numbers[-1] == max(numbers) and events[-1][-1]["type"] in ("stop", "loss")
    assert not [path for path in disk.iterdir() if path.name.endswith(".tmp")]


def test_disk_full_ends_cudatap(tmp_path, counts, tiny):
    """`on_disk_full: exit`: the probes go, the command runs on, the code says that something went wrong."""
    disk = tiny("size=128k")
    sinks = f"  disk: {{type: file, path: {disk}/log, on_disk_full: exit}}\n"
    mark = tmp_path / "done"
    with running(tmp_path, counts, sinks, ["sh", "-c", f"{' '.join(rate(1, 10000))}; sleep 1; touch {mark}"],
                 env=SLOW) as run:
        assert run.process.wait(30) == 125
        assert "on_disk_full" in run.stderr
        check_law(statuses(run.stderr)[-1])
        end = time.monotonic() + 20
        while not mark.exists():
            assert time.monotonic() < end
            time.sleep(0.05)
    assert run.made() == 10000
    read(disk / "log")


def test_directory_that_takes_no_files(tmp_path, counts):
    """At the start: one message, nothing attached. Later: the old file is gone on with."""
    missing = tmp_path / "no" / "such"
    before = tap.last_program_id()
    done = tap.run_plain("-c", tap.config(tmp_path, f"sinks: {{disk: {{type: file, path: {missing}}}}}\n"), "--", "true")
    assert done.returncode == 125 and str(missing) in done.stderr and "create its directory" in done.stderr
    tap.assert_nothing_left(before)
    directory = tmp_path / "logs"
    directory.mkdir()
    if subprocess.run(["chattr", "+i", directory], capture_output=True).returncode:
        pytest.skip("this file system has no chattr +i")
    subprocess.run(["chattr", "-i", directory], check=True)
    log = directory / "log"
    try:
        with running(tmp_path, counts, f"  disk: {{type: file, path: {log}}}\n", rate(1, 8000), env=SLOW) as run:
            run.wait_for(lambda: log.exists() and log.stat().st_size > 10000, "events")
            subprocess.run(["chattr", "+i", directory], check=True)
            run.process.send_signal(signal.SIGUSR1)
            run.wait_for(lambda: "cannot rotate" in run.stderr, "a message")
            subprocess.run(["chattr", "-i", directory], check=True)
            run.process.send_signal(signal.SIGUSR1)
            run.wait_for(lambda: (directory / "log.1").exists(), "rotation")
            run.finish()
    finally:
        subprocess.run(["chattr", "-i", directory], check=True)
    assert len(of(read(*generations(log)), "call")) == 8000


# ---- generations ----

def test_rotating_under_load(tmp_path, counts):
    """By size, compressed, at full rate, and by signal: every event is in one of the files."""
    log = tmp_path / "log"
    sinks = (f"  disk: {{type: file, path: {log}, rotate: {{max_size: 1MiB, keep: 1000, compress: zstd}}, "
             "queue: {max_events: 1000000, max_bytes: 1GiB}}\n")
    with running(tmp_path, counts, sinks, rate(2, 40000)) as run:
        run.wait_for(lambda: (tmp_path / "log.1").exists(), "rotation")
        run.process.send_signal(signal.SIGUSR1)
        status = run.finish()
    waited = time.time() - log.stat().st_mtime
    paths = generations(log)
    packed = [path.suffix for path in paths].count(".zst")
    assert len(paths) > 10 and (packed == len(paths) - 2 or waited > 9), "the rest is left only when time is up"
    events = read(*paths)
    assert len(of(events, "call")) == 80000 - status["calls"]["lost"]["ring"]
    check_sink(events, status, "disk")
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]


def logrotate(tmp_path, log, text, times, pause, run):
    if not shutil.which("logrotate"):
        pytest.skip("no logrotate")
    config = tmp_path / "logrotate.conf"
    config.write_text(f"{log} {{\n\tsu root root\n\trotate 100\n\tsize 1\n\t{text}\n}}\n")
    config.chmod(0o644)
    state = tmp_path / "logrotate.state"
    for _ in range(times):
        time.sleep(pause)
        if run.process.poll() is not None:
            break
        done = subprocess.run(["logrotate", "-s", state, config], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_logrotate_by_rename(tmp_path, counts):
    """The system's logrotate, as a package would configure it, many times under load: no line is lost."""
    directory = tmp_path / "logs"
    directory.mkdir(mode=0o755)
    log = directory / "log"
    with running(tmp_path, counts, f"  disk: {{type: file, path: {log}, mode: '0600'}}\n", rate(1, 20000),
                 env=SLOW) as run:
        run.wait_for(log.exists, "the log")
        text = f"create 0600 root root\n\tpostrotate\n\t\tkill -HUP {run.process.pid}\n\tendscript"
        logrotate(tmp_path, log, text, 15, 0.1, run)
        status = run.finish()
    paths = generations(log)
    assert len(paths) > 8
    assert sorted(path.name for path in directory.iterdir()) == sorted(path.name for path in paths)
    events = read(*paths)
    assert len(of(events, "call")) == 20000
    check_sink(events, status, "disk")


@pytest.mark.parametrize("how", ["create 0600 root root", "nocreate"])
def test_logrotate_without_a_signal(tmp_path, counts, how):
    """Who forgets the signal loses nothing either: the name is looked at each second."""
    directory = tmp_path / "logs"
    directory.mkdir(mode=0o755)
    log = directory / "log"
    with running(tmp_path, counts, f"  disk: {{type: file, path: {log}}}\n", rate(1, 25000), env=SLOW) as run:
        run.wait_for(lambda: log.exists() and log.stat().st_size, "the log")
        logrotate(tmp_path, log, how, 1, 0.2, run)
        run.wait_for(lambda: log.exists() and log.stat().st_size, "the new log")
        run.finish()
    assert len(of(read(*generations(log)), "call")) == 25000


def test_logrotate_copytruncate(tmp_path, counts):
    """Lines written between copy and truncation are logrotate's to lose; ours stay whole, without a hole."""
    directory = tmp_path / "logs"
    directory.mkdir(mode=0o755)
    log = directory / "log"
    with running(tmp_path, counts, f"  disk: {{type: file, path: {log}}}\n", rate(1, 20000), env=SLOW) as run:
        run.wait_for(lambda: log.exists() and log.stat().st_size, "the log")
        logrotate(tmp_path, log, "copytruncate", 15, 0.1, run)
        status = run.finish()
    paths = generations(log)
    assert len(paths) > 8
    numbers = []
    for path in paths:
        data = path.read_bytes()
        assert b"\0" not in data
        lines = data.split(b"\n")
        if path != log:  # logrotate may have copied in the middle of a write
            lines = lines[:-1]
        numbers += [json.loads(line)["seq"] for line in lines if line]
    assert numbers == sorted(set(numbers)) and len(numbers) > 10000
    assert status["sinks"]["disk"]["delivered"] == status["sinks"]["disk"]["received"] >= len(numbers)
    # one log is not larger than what was written since the last truncation: no sparse file
    assert log.stat().st_blocks * 512 + 4096 >= log.stat().st_size


# ---- the end ----

def test_terminated_under_load(tmp_path, counts):
    """SIGTERM while calls pour in and one sink takes nothing: done within the time that is given to
    sinks, and everything is accounted for."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    sinks = f"  disk: {{type: file, path: {tmp_path}/disk}}\n  hanging: {{type: file, path: {fifo}}}\n"
    loop = subprocess.Popen(rate(2, 100000000), stdout=subprocess.DEVNULL,
                            env=tap.environment({"FAKE_CUDA_NESTED": "0"}))
    err = tmp_path / "err"
    try:
        config = tap.config(tmp_path, MEMSET + "sinks:\n" + sinks)
        with open(err, "wb") as stderr:
            process = subprocess.Popen([str(tap.CUDATAP), "-c", config, "-p", str(loop.pid)], stderr=stderr,
                                       env=tap.environment())
        end = time.monotonic() + 30
        while not (tmp_path / "disk").exists() or (tmp_path / "disk").stat().st_size < 1 << 20:
            assert time.monotonic() < end and process.poll() is None, err.read_text()
            time.sleep(0.01)
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        code = process.wait(20)
        took = time.monotonic() - begun
    finally:
        loop.kill()
        loop.wait()
    assert code == 0 and took < 8, took
    status = statuses(err.read_text())[-1]
    check_law(status)
    calls = status["calls"]
    assert calls["entries"] == sum(calls[k] for k in ("emitted", "unfinished", "open", "unpaired", "duplicate",
                                                      "nested", "muted", "in_ring")) + sum(calls["lost"].values())
    events = read(tmp_path / "disk")
    check_sink(events, status, "disk")
    assert status["sinks"]["hanging"]["dropped"].get("shutdown", 0) > 0
    os.close(reader)


def test_killed_while_compressing(tmp_path, counts):
    """kill -9, again and again: at the next start all is put in order, and old generations are compressed."""
    log = tmp_path / "log"
    sinks = (f"  disk: {{type: file, path: {log}, rotate: {{max_size: 2MiB, keep: 1000, compress: gzip}}, "
             "queue: {max_events: 1000000, max_bytes: 1GiB}}\n")

    def compressing(before):
        return len(generations(log)) > before + 2 and any(path.name.endswith(".tmp") for path in tmp_path.iterdir())

    for _ in range(4):
        before = len(generations(log))
        with running(tmp_path, counts, sinks, rate(2, 100000)) as run:
            run.wait_for(lambda before=before: compressing(before), "compression")
            run.process.send_signal(signal.SIGKILL)
            run.process.wait()
    for last in range(1, 10):  # what one has no time for is the next one's
        with running(tmp_path, counts, sinks, ["true"]) as run:
            assert run.process.wait(60) == 0
        paths = generations(log)
        names = [path.name for path in paths]
        if all(name.endswith(".gz") for name in names[:-2]):
            break
    assert len(names) > 4 and names[-1] == "log" and all(name.endswith(".gz") for name in names[:-2]), names
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]
    runs = collections.defaultdict(list)
    torn = 0
    for line in b"".join(opened(path) for path in paths).split(b"\n")[:-1]:
        try:
            event = json.loads(line)
        except ValueError:
            torn += 1
            continue
        if "seq" in event:
            runs[event["run"]].append(event["seq"])
    assert len(runs) == 4 + last and torn <= 4
    for numbers in runs.values():
        # in order and without a hole: nothing that was written is missing (a torn line may end a run)
        assert numbers == list(range(1, len(numbers) + 1))


def test_status_while_running(tmp_path, counts):
    sinks = f"  disk: {{type: file, path: {tmp_path}/disk}}\n"
    with running(tmp_path, counts, sinks, rate(1, 5000), env=SLOW) as run:
        run.wait_for(lambda: (tmp_path / "disk").exists(), "the file")
        first = run.status()
        last = run.finish()
    check_law(first)
    assert first["sinks"]["disk"]["received"] <= last["sinks"]["disk"]["received"]
    assert first["calls"]["entries"] <= last["calls"]["entries"] == 5000


def test_loss_is_a_failure_if_wanted(tmp_path, counts, tiny):
    disk = tiny("size=64k")
    sinks = f"  disk: {{type: file, path: {disk}/log, on_disk_full: drop}}\n"
    with running(tmp_path, counts, sinks, rate(1, 2000), options=["--fail-on-loss"]) as run:
        run.finish()
    assert run.code == 3
    assert re.search(r"sink disk lost \d+ of \d+ events: disk_full", run.stderr)
