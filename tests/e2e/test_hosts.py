"""Namespaces, overlay file systems, several tracers at once, calls that are open at either end."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest
import tap
from test_processes import CTYPES, Loop, without_nesting


def test_pid_namespace(tmp_path, counts):
    """pid is cudatap's view, ns_pid the process's own."""
    run = tap.trace(tmp_path, "unshare", "--pid", "--fork", tap.program("scenes"), "again", "6",
                    env=without_nesting(counts))
    assert run.code == 0, run.stderr
    assert run.counts == {"cudaMemset": 6}
    assert {call["ns_pid"] for call in run.calls} == {1}
    assert all(call["pid"] > 1 for call in run.calls)


def test_mount_namespace(tmp_path, counts):
    """A library that can be seen in the program's own mount namespace only."""
    script = (f"mount -t tmpfs none {tmp_path} && cp {tap.FAKE}/libcudart.so.12 {tmp_path}/hidden.so && "
              f"exec {sys.executable} -c '{CTYPES}' {tmp_path}/hidden.so 8")
    run = tap.trace(tmp_path, "unshare", "--mount", "sh", "-c", script, env={"FAKE_CUDA_NESTED": "0"})
    assert run.code == 0, run.stderr
    assert run.counts == {"cudaMemset": 8}
    run.assert_clean()


def test_deleted_library(tmp_path, counts):
    """A file that was removed while a process had it mapped."""
    copy = tmp_path / "gone.so"
    copy.write_bytes((tap.FAKE / "libcudart.so.12").read_bytes())
    script = ("import ctypes, sys, time, os\ncuda = ctypes.CDLL(sys.argv[1])\nos.unlink(sys.argv[1])\nprint('ready', flush=True)\n"
              "while True:\n cuda.cudaMemset(None, 1, ctypes.c_size_t(1)); time.sleep(.005)")
    process = subprocess.Popen([sys.executable, "-c", script, copy], stdout=subprocess.PIPE,
                               env=tap.environment({"FAKE_CUDA_NESTED": "0"}))
    try:
        assert process.stdout.readline() == b"ready\n"
        with tap.running(["-p", process.pid], tmp_path) as running:
            running.wait_for(lambda text: text.count('"type":"call"') > 5, "calls into the deleted file")
            run = running.end()
        assert run.code == 0 and run.counts.keys() == {"cudaMemset"}
    finally:
        process.kill()
        process.wait()


OTHER = """
import ctypes, os, shutil, sys, time, _ctypes
first, second = sys.argv[1:3]
library = ctypes.CDLL(first)
if sys.argv[3] == "renamed":
    os.rename(first, second)
else:  # the inode number of one that was deleted is given to another
    _ctypes.dlclose(library._handle)
    number, n = os.stat(first).st_ino, 0
    os.unlink(first)
    while True:
        shutil.copy(sys.argv[4], second)
        if os.stat(second).st_ino == number:
            break
        n += 1
        if n == 200:
            sys.exit(77)
        os.rename(second, f"{second}.{n}")
    ctypes.CDLL(second)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["renamed", "reused"])
def test_name_of_what_is_attached(tmp_path, how):
    """What an attach event names is what has got the probes, though it is found under the name of another."""
    first, second = tmp_path / "first.so", tmp_path / "second.so"
    copy = tap.FAKE / "libcudart.so.12"
    first.write_bytes(copy.read_bytes())
    with tap.running([], tmp_path) as running:
        running.wait_started()
        running.interrupt(signal.SIGUSR2)  # answered when the host has been searched
        while '"type":"status"' not in running.err_path.read_text():
            time.sleep(0.01)
        running.interrupt(signal.SIGSTOP)
        with subprocess.Popen([sys.executable, "-c", OTHER, first, second, how, copy], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, env=tap.environment()) as process:
            try:
                line = process.stdout.readline()
                running.interrupt(signal.SIGCONT)
                if not line and process.wait() == 77:
                    pytest.skip("the file system does not give inode numbers away again")
                running.wait_attached(str(tmp_path))
                run = running.end()
            finally:
                process.kill()
    assert [event["path"] for event in run.attached if str(tmp_path) in event["path"]] == [str(second)]


@contextlib.contextmanager
def overlay(tmp_path):
    parts = {name: tmp_path / name for name in ("lower", "upper", "work", "merged")}
    for path in parts.values():
        path.mkdir()
    (parts["lower"] / "libcudart.so.12").write_bytes((tap.FAKE / "libcudart.so.12").read_bytes())
    options = f"lowerdir={parts['lower']},upperdir={parts['upper']},workdir={parts['work']}"
    done = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, parts["merged"]], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        pytest.skip(f"no overlay here: {done.stderr.strip()}")
    try:
        yield parts["lower"] / "libcudart.so.12", parts["merged"] / "libcudart.so.12"
    finally:
        subprocess.run(["umount", parts["merged"]], check=False)


def test_overlay(tmp_path, counts):
    """One inode under two names on two devices: probed twice, noticed, emitted once."""
    with overlay(tmp_path) as (lower, merged):
        script = "; ".join(f"{sys.executable} -c '{CTYPES}' {path} 50" for path in (lower, merged, lower))
        run = tap.trace(tmp_path, "sh", "-c", script, env=without_nesting(counts))
    assert run.code == 0, run.stderr
    assert run.counts == tap.read_counts(counts) == {"cudaMemset": 150}
    if run.stop["calls"]["duplicate"]:
        assert [event["reason"] for event in run.of("detach")] == ["duplicate"]


def test_two_tracers(tmp_path, counts):
    """Two cudataps see the same calls, each all of them."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with Loop() as loop, tap.running(["-p", loop.pid], first) as one, tap.running(["-p", loop.pid], second) as two:
        for running in (one, two):
            running.wait_for(lambda text: text.count('"type":"call"') > 20, "calls")
        run_one, run_two = one.end(), two.end()
    assert run_one.stop["calls"]["duplicate"] == run_two.stop["calls"]["duplicate"] == 0
    assert run_one.lost() == run_two.lost() == 0


def test_inner_tracer(tmp_path, counts):
    """A cudatap under a cudatap: the inner one cannot hold its command and says so, the outer one misses nothing."""
    inner = tmp_path / "inner.jsonl"
    run = tap.trace(tmp_path, tap.CUDATAP, "-o", inner, "--", tap.program("scenes"), "again", "9",
                    env=without_nesting(counts))
    assert run.code == 0
    assert run.counts == {"cudaMemset": 9}
    assert "held" in run.stderr


def test_attached_inside_a_call(tmp_path):
    """The return of a call that began before the tracer is no event; all calls after it are."""
    env = {"FAKE_CUDA": "cudaMemset:delay=400ms", "FAKE_CUDA_NESTED": "0"}
    process = subprocess.Popen([tap.program("scenes"), "again", "6"], env=tap.environment(env))
    time.sleep(0.2)
    with tap.running(["-p", process.pid], tmp_path) as running:
        run = running.finish()
    assert process.wait() == 0
    sizes = [call["bytes"] for call in run.calls]
    assert 1 <= len(sizes) <= 5 and sizes == list(range(7 - len(sizes), 7))
    assert run.stop["calls"]["unpaired"] == 0 and run.stop["calls"]["entries"] == len(sizes)


@pytest.mark.parametrize("method", ["session", "multi"])
def test_ended_inside_a_call(tmp_path, method):
    """A call that is open when the tracer ends is counted as open; the program goes on unharmed."""
    with Loop({"FAKE_CUDA": "cudaMemset:delay=700ms", "FAKE_CUDA_NESTED": "0"}) as loop, \
            tap.running(["-p", loop.pid, f"--probes={method}"], tmp_path) as running:
        running.wait_for(lambda text: text.count('"type":"call"') == 2, "two calls")
        time.sleep(0.2)
        begun = time.monotonic()
        run = running.end()
        assert time.monotonic() - begun < 5
        time.sleep(0.8)  # the call returns into a place where a return probe was
        assert loop.process.poll() is None
    c = run.stop["calls"]
    assert c["entries"] == 3 and c["emitted"] == 2 and c["open"] + c["unfinished"] == 1, c


def test_no_hold(tmp_path, counts):
    """Without holding, a library that is known beforehand is traced all the same."""
    options = ["--no-hold", "-c", tap.config(tmp_path, f"libraries: [{tap.FAKE}/libcudart.so.13]")]
    run = tap.trace(tmp_path, tap.program("scenes"), "again", "20", options=options, env=without_nesting(counts))
    assert run.counts == {"cudaMemset": 20}


def test_debugger_in_the_tree(tmp_path, counts):
    """gdb inside the traced tree works (but for a breakpoint on the very instruction that has a probe)."""
    if not os.path.exists("/usr/bin/gdb"):
        pytest.skip("no gdb")
    run = tap.trace(tmp_path, "gdb", "-batch", "-ex", "break again", "-ex", "run", "-ex", "bt", "-ex", "finish",
                    "--args", tap.program("scenes"), "again", "1", env=without_nesting(counts), timeout=60)
    assert "Breakpoint 1, " in run.stdout and run.counts["cudaMemset"] == 1


def test_stopped_and_continued(tmp_path, counts):
    """A stopped program counts as in its call."""
    with Loop() as loop, tap.running(["-p", loop.pid], tmp_path) as running:
        running.wait_for(lambda text: text.count('"type":"call"') > 5, "calls")
        os.kill(loop.pid, signal.SIGSTOP)
        time.sleep(0.2)
        os.kill(loop.pid, signal.SIGCONT)
        before = running.text().count('"type":"call"')
        running.wait_for(lambda text: text.count('"type":"call"') > before + 5, "calls after going on")
        run = running.end()
    assert run.lost() == 0 and run.stop["calls"]["unpaired"] == 0


IMAGE = """
mount -t tmpfs none "$1" && mkdir "$1/image" "$1/upper" "$1/work" "$1/merged" && cp "$2" "$1/image/libcudart.so.13" &&
mount -t overlay overlay -o "lowerdir=$1/image,upperdir=$1/upper,workdir=$1/work" "$1/merged" && exec "$3" -c "$4" "$1"
"""
INSIDE = """
import ctypes, shutil, subprocess, sys, time
cuda = ctypes.CDLL(sys.argv[1] + "/merged/libcudart.so.13")
shutil.rmtree(sys.argv[1] + "/image")
subprocess.run(["umount", "-l", sys.argv[1] + "/merged"], check=True)
print("ready", flush=True)
while True:
    cuda.cudaMemset(None, 1, ctypes.c_size_t(1))
    time.sleep(.005)
"""


def test_removed_image(tmp_path):
    """A container whose image was removed and unmounted while it runs, found afterwards."""
    where = tmp_path / "container"
    where.mkdir()
    inside = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", IMAGE, "sh", where,
                               tap.FAKE / "libcudart.so.13", sys.executable, INSIDE], stdout=subprocess.PIPE,
                              env=tap.environment({"FAKE_CUDA_NESTED": "0"}))
    try:
        if inside.stdout.readline() != b"ready\n":
            pytest.skip("no overlay here")
        options = ["-c", tap.config(tmp_path, "families: []\ninclude: [cudaMemset]\n")]
        with tap.running(options, tmp_path) as running:
            running.wait_for(lambda text: text.count('"ns_pid":1,') > 5, "calls into the removed image")
            run = running.end()
        mine = [call for call in run.calls if call.get("ns_pid") == 1]
        assert {call["func"] for call in mine} == {"cudaMemset"} and len({call["pid"] for call in mine}) == 1
    finally:
        inside.kill()
        inside.wait()
        inside.stdout.close()


@pytest.mark.parametrize("options", [[], ["--seccomp-bpf"]])
def test_strace_in_the_tree(tmp_path, counts, options):
    """strace works, and nothing is missed; with --seccomp-bpf it sees less of the calls that cudatap looks at."""
    log = tmp_path / "strace.log"
    run = tap.trace(tmp_path, "strace", "-f", *options, "-e", "trace=mmap,execve,write", "-o", log, tap.program("scenes"),
                    "again", "7", env=without_nesting(counts), timeout=60)
    if run.code and "seccomp" in run.stderr:
        pytest.skip("this strace knows no --seccomp-bpf")
    assert run.code == 0, run.stderr
    assert run.counts == tap.read_counts(counts) == {"cudaMemset": 7}
    assert "exited with 0" in log.read_text()
    if not options:
        assert "PROT_EXEC" in log.read_text()
    run.assert_clean()


def test_stopped_with_its_command(tmp_path):
    """Ctrl-Z and fg: cudatap and its command are one job, which stops and goes on as a whole."""
    script = f"{tap.program('scenes')} again 300; sleep 1; exec {tap.program('scenes')} again 200"
    path = tap.config(tmp_path, "families: []\ninclude: [cudaMemset]\n")
    events = tmp_path / "events.jsonl"
    process = subprocess.Popen([tap.CUDATAP, "-c", path, "-o", events, "--", "sh", "-c", script], start_new_session=True,
                               env=tap.environment({"FAKE_CUDA_NESTED": "0"}), stderr=subprocess.DEVNULL)
    try:
        for _ in range(5):
            time.sleep(0.2)
            os.killpg(process.pid, signal.SIGSTOP)
            time.sleep(0.1)
            os.killpg(process.pid, signal.SIGCONT)
        code = process.wait(tap.TIMEOUT)
    finally:
        process.kill()
        process.wait()
    run = tap.Result(events.read_text(), code, "", "")
    assert code == 0 and run.counts == {"cudaMemset": 500}
    run.assert_clean()
