"""Files that no process maps any more lose their probes, and nothing else does."""

import contextlib
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

import pytest
import tap
from test_hosts import overlay

ENV = {"FAKE_CUDA_NESTED": "0"}
LIBRARY = tap.FAKE / "libcudart.so.13"

# Loads a library, makes a call per line it reads and says so, ends with its input.
CALLER = """
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
print("loaded", flush=True)
for line in sys.stdin:
    cuda.cudaMemset(None, 0, ctypes.c_size_t(int(line)))
    print("called", flush=True)
"""

# The same; at a 0 the main thread ends and another one goes on, which at a 0 loads a second library as well.
LEADER = """
import ctypes, sys, threading
cuda = [ctypes.CDLL(sys.argv[1])]
def work():
    for line in sys.stdin:
        if int(line) == 0:
            return True
        for i, library in enumerate(cuda):
            library.cudaMemset(None, 0, ctypes.c_size_t(int(line) + 10000 * i))
        print("called", flush=True)
def go_on():
    print("called", flush=True)
    while work():
        cuda.append(ctypes.CDLL(sys.argv[2]))
        print("called", flush=True)
print("loaded", flush=True)
if work():
    threading.Thread(target=go_on).start()
    ctypes.CDLL(None).pthread_exit(None)
"""

# Loads a library again and again, with pauses about as long as it takes until an unmapped one is let go.
AGAIN = """
import ctypes, random, sys, time
random.seed(sys.argv[2])
libc = ctypes.CDLL(None)
libc.dlclose.argtypes = [ctypes.c_void_p]
calls, end = 0, time.monotonic() + 11
while time.monotonic() < end:
    cuda = ctypes.CDLL(sys.argv[1])
    cuda.cudaMemset(None, 0, ctypes.c_size_t(1))
    calls += 1
    libc.dlclose(cuda._handle)
    time.sleep(random.choice([.01, .3, 3, 3.1, 3.2]))
print(calls)
"""


def few(tmp_path):
    return ["-c", tap.config(tmp_path, "families: []\ninclude: [cudaMemset]\n")]


class Caller:
    def __init__(self, *libraries, script=CALLER):
        self.process = subprocess.Popen([sys.executable, "-c", script, *libraries], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=tap.environment(ENV))
        assert self.process.stdout.readline() == "loaded\n"

    def call(self, size):
        print(size, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "called\n"

    def call_until_seen(self, running):
        """Probes may be there before recording begins."""
        def seen(text):
            self.call(1)
            return any('"type":"call"' in line and f'"pid":{self.process.pid},' in line for line in text.splitlines())
        running.wait_for(seen, "a first call")

    def end_main_thread(self):
        self.call(0)
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat")
        wait_for(lambda: ") Z" in stat.read_text(), "the main thread's end")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def links(pid):
    """Descriptors of BPF links, each of which holds probes."""
    found = 0
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found += "bpf_link" in os.readlink(fd) or "bpf-link" in os.readlink(fd)
    return found


def wait_for(condition, what):
    end = time.monotonic() + tap.TIMEOUT
    while not condition():
        assert time.monotonic() < end, f"waited for {what}"
        time.sleep(0.05)


def wait_detached(running, n=1):
    running.wait_for(lambda text: text.count('"reason":"unmapped"') >= n, f"{n} files let go")


def told(text, kind, path):
    """How many events of a kind there are about a file."""
    return len([line for line in text.splitlines() if f'"type":"{kind}"' in line and f'"path":"{path}"' in line])


def sizes(run, *callers):
    """Of all calls, or of those processes': on a host there are others."""
    pids = {caller.process.pid for caller in callers}
    return [call["bytes"] for call in run.calls if not pids or call["pid"] in pids]


def test_list_says_who_maps_it(tmp_path):
    copy = tmp_path / "copy with a blank.so"
    shutil.copy(LIBRARY, copy)
    with Caller(copy) as one, Caller(copy) as two:
        copy.unlink()
        found = tap.json.loads(tap.run_plain("list", "libraries", "--json").stdout)
        lines = tap.run_plain("list", "libraries").stdout.splitlines()
    library, = [library for library in found if library["path"] == str(copy)]
    assert set(library["pids"]) == {one.process.pid, two.process.pid}
    assert library["api"] == ["runtime"] and library["major"] == 13 and library["functions"] > 400
    line, = [line for line in lines if line.endswith(str(copy))]
    assert line.split()[:4] == ["runtime", "13", str(library["functions"]), "2"]


def test_wheels_are_known_beforehand(tmp_path):
    """What Python packages bring has its probes before anyone loads it: no call is missed."""
    wheel = tmp_path / "lib/python3.12/site-packages/nvidia/cu13/lib"
    wheel.mkdir(parents=True)
    shutil.copy(LIBRARY, wheel)
    with tap.running(few(tmp_path), tmp_path, env={"VIRTUAL_ENV": str(tmp_path)}) as running:
        running.wait_attached(str(wheel))
        script = f"import ctypes; ctypes.CDLL('{wheel / LIBRARY.name}').cudaMemset(None, 0, ctypes.c_size_t(4711))"
        with Caller(wheel / LIBRARY.name) as other:
            other.call_until_seen(running)
        subprocess.run([sys.executable, "-c", script], check=True, env=tap.environment(ENV))
        running.wait_for(lambda text: '"bytes":4711,' in text, "its first call")
        running.end()


def test_two_hundred_copies(tmp_path):
    """Copies come and go by the hundred, and leave nothing; one that is still there keeps its probes."""
    with tap.running([*few(tmp_path), "--", "sh", "-c", 'exec "$@" <"$0"', tmp_path / "input",
                      tap.program("copies"), LIBRARY, tmp_path, "200"], tmp_path, env=ENV) as running:
        pass_in = os.open(tmp_path / "input", os.O_WRONLY) if os.mkfifo(tmp_path / "input") is None else -1
        running.wait_for(lambda text: text.count('"type":"call"') >= 200, "a call into each copy", 60)
        before = links(running.pid)
        wait_detached(running, 199)
        wait_for(lambda: links(running.pid) <= before - 199, "the links to be closed")
        os.write(pass_in, b"1\n2\n")
        os.close(pass_in)
        run = running.finish()
    assert sizes(run) == [*range(1, 201), 1000001, 1000002]
    assert len(run.attached) == 200
    assert {event["reason"] for event in run.of("detach")} == {"unmapped"}
    assert len({event["attach_id"] for event in run.of("detach")}) == 199
    run.assert_clean()


def test_the_whole_host(tmp_path):
    """A copy that was let go is found again; a library of the linker's search path keeps its probes."""
    copy, cached = tmp_path / "copy.so", tmp_path / "cached"
    cached.mkdir()
    for path in (copy, cached / LIBRARY.name):
        shutil.copy(LIBRARY, path)
    callers = []
    with tap.running(few(tmp_path), tmp_path, env={"LD_LIBRARY_PATH": str(cached)}) as running:
        running.wait_attached(str(cached))
        for round_number in (1, 2):
            with Caller(copy) as caller, Caller(cached / LIBRARY.name) as other:
                running.wait_for(lambda text, n=round_number: told(text, "attach", copy) == n, "the copy's probes")
                caller.call_until_seen(running)
                other.call_until_seen(running)
                caller.call(7700 + round_number)
                other.call(7710 + round_number)
                callers += [caller, other]
            if round_number == 1:
                running.wait_for(lambda text: told(text, "detach", copy) == 1, "the copy to be let go")
        run = running.end()
    mine = [event for event in run.of("detach") if str(tmp_path) in event["path"]]
    assert [event["path"] for event in mine] == [str(copy)]
    assert [size for size in sizes(run, *callers) if size > 1] == [7701, 7711, 7702, 7712]


def test_another_name_of_the_same_file(tmp_path):
    """Probes that one name of a file has serve the other one too: they stay while either is mapped."""
    with overlay(tmp_path) as (lower, merged):
        with tap.running(few(tmp_path), tmp_path) as running:
            with Caller(merged) as second:
                with Caller(lower) as first:
                    for path in (lower, merged):
                        running.wait_attached(str(path))
                    first.call_until_seen(running)
                    second.call_until_seen(running)
                    first.call(7701)
                    second.call(7702)
                    running.wait_for(lambda text: '"reason":"duplicate"' in text, "the double to be noticed")
                time.sleep(7)  # two looks, and a little more
                second.call(7703)
                running.wait_for(lambda text: '"bytes":7703,' in text, "a call into the other name")
            running.wait_for(lambda text: told(text, "detach", lower) + told(text, "detach", merged) == 2, "the file to be let go")
            run = running.end()
    mine = {event["attach_id"] for event in run.attached if str(tmp_path) in event["path"]}
    assert [size for size in sizes(run, first, second) if size > 1] == [7701, 7702, 7703]
    assert {call["status"] for call in run.calls if call["pid"] in (first.process.pid, second.process.pid)} == {"ok"}, "the calls that showed the double have their ends"
    assert sorted(event["reason"] for event in run.of("detach") if event["attach_id"] in mine) == ["duplicate", "unmapped"]


def copies(tmp_path, *names):
    return [shutil.copy(LIBRARY, tmp_path / name) for name in names]


def wait_calls(running, *wanted):
    running.wait_for(lambda text: all(text.count(f'"bytes":{size},') == 1 for size in wanted), f"calls of {wanted}")


def test_main_thread_has_ended(tmp_path):
    """What other threads still map keeps its probes, and is found by who comes later."""
    copy, other = copies(tmp_path, "copy.so", "other.so")
    with Caller(copy, script=LEADER) as caller, tap.running(few(tmp_path), tmp_path) as running:
        with Caller(other) as second:
            caller.call_until_seen(running)
            second.call_until_seen(running)
            caller.end_main_thread()
        running.wait_for(lambda text: told(text, "detach", other) == 1, "a file to be let go")
        caller.call(7701)
        wait_calls(running, 7701)
        with tap.running(few(tmp_path), tmp_path) as later:
            later.wait_started()
            caller.call(7702)
            wait_calls(later, 7702)
            later.end()
        run = running.end()
    assert str(copy) not in [event["path"] for event in run.of("detach")]


@pytest.mark.parametrize("probes", ["session", "multi"])
def test_main_thread_of_a_selected_process_has_ended(tmp_path, probes):
    """-p goes on with the process's other threads, for what they have loaded and for what they load."""
    copy, second, third = copies(tmp_path, "copy.so", "second.so", "third.so")
    with Caller(copy, second, script=LEADER) as caller, Caller(third) as other:
        options = [*few(tmp_path), f"--probes={probes}", "-p", caller.process.pid]
        with tap.running([*options, "-p", other.process.pid], tmp_path) as running:
            caller.call_until_seen(running)
            caller.end_main_thread()
            caller.call(7700)
            caller.call(0)
            running.wait_attached(str(second))
            caller.call(7701)
            wait_calls(running, 7700, 7701, 17701)
            with tap.running(options, tmp_path) as later:
                later.wait_started()
                caller.call(7702)
                other.call(7703)
                wait_calls(later, 7702, 17702)
                assert {call["pid"] for call in later.end().calls} == {caller.process.pid}
            wait_calls(running, 7703)
            run = running.end()
    assert len([size for size in sizes(run) if size > 1]) == 6
    assert run.stop["calls"]["duplicate"] == 0


def test_mapped_again_at_that_moment(tmp_path):
    """Under a command nothing is missed, whenever a library that is being let go is mapped again."""
    copy = tmp_path / "copy.so"
    shutil.copy(LIBRARY, copy)
    seed = random.randrange(1000)
    script = f"for i in 1 2 3; do {sys.executable} -c '{AGAIN}' {copy} {seed}$i & done; wait"
    run = tap.trace(tmp_path, "sh", "-c", script, options=[*few(tmp_path), "--mix"], env=ENV)
    made = [int(line) for line in run.stdout.split()]
    assert len(made) == 3 and len(run.calls) == sum(made) > 10, seed
    run.assert_clean()
