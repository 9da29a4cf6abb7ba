"""Whose calls are seen: a command with all its descendants, given processes, the whole host."""

import os
import re
import signal
import subprocess
import sys

import pytest
import tap

CTYPES = """
import ctypes, os, subprocess, sys
cuda = ctypes.CDLL(sys.argv[1])
for i in range(int(sys.argv[2])):
    assert cuda.cudaMemset(ctypes.c_void_p(0), i, ctypes.c_size_t(i + 1)) == 0
"""


def without_nesting(counts):
    return {"FAKE_CUDA_COUNTS": str(counts), "FAKE_CUDA_NESTED": "0"}


def test_children(tmp_path, probes, counts):
    run = tap.trace(tmp_path, tap.program("scenes"), "children", "8", "100", options=probes, env=without_nesting(counts))
    made = tap.read_counts(counts)
    assert run.counts == made == {"cudaMalloc": 800, "cudaFree": 800}
    assert len({call["pid"] for call in run.calls}) == 8
    run.assert_clean()


def test_shell_pipeline(tmp_path, counts):
    """Each part of a pipeline, a subshell, a background job, an exec."""
    again = f"{tap.program('scenes')} again"
    script = f"{again} 3 | cat; ({again} 4); {again} 5 & wait; exec {again} 6"
    run = tap.trace(tmp_path, "sh", "-c", script, env=without_nesting(counts))
    assert run.counts == tap.read_counts(counts) == {"cudaMemset": 18}
    assert len({call["pid"] for call in run.calls}) == 4
    assert {call["comm"] for call in run.calls} == {"scenes"}
    run.assert_clean()


def test_python(tmp_path, counts):
    """A library that Python loads late, and again in a subprocess and in a multiprocessing child."""
    script = CTYPES + """
if len(sys.argv) > 3:
    subprocess.run([sys.executable, "-c", open(sys.argv[3]).read(), sys.argv[1], "7"], check=True)
    import multiprocessing
    child = multiprocessing.get_context("fork").Process(target=lambda: [cuda.cudaMemset(None, 0, 1) for _ in range(9)])
    child.start()
    child.join()
"""
    path = tmp_path / "script.py"
    path.write_text(script)
    run = tap.trace(tmp_path, sys.executable, path, tap.FAKE / "libcudart.so.12", "5", path, env=without_nesting(counts))
    assert run.code == 0, run.stderr
    assert run.counts == tap.read_counts(counts) == {"cudaMemset": 21}
    assert len({call["pid"] for call in run.calls}) == 3
    run.assert_clean()


def test_many_short_processes(tmp_path, counts):
    """A process that lived a millisecond is still known by name."""
    script = f"for i in $(seq 40); do {tap.program('scenes')} again 2 & done; wait"
    run = tap.trace(tmp_path, "bash", "-c", script, env=without_nesting(counts))
    assert run.counts == tap.read_counts(counts) == {"cudaMemset": 80}
    assert len({call["pid"] for call in run.calls}) == 40
    assert {call["comm"] for call in run.calls} == {"scenes"}
    run.assert_clean()


@pytest.mark.parametrize("method", tap.PROBES)
def test_constructor(tmp_path, counts, method):
    """A library loaded by dlopen() whose constructor calls CUDA at once: nothing is missed."""
    options = ["-c", tap.config(tmp_path, "api: [runtime]\nfamilies: []\n"
                                          "include: [cudaGetDevice, cudaSetDevice, cudaMalloc]"), f"--probes={method}"]
    run = tap.trace(tmp_path, tap.program("loader"), tap.program("constructor_library.so"), "1000", options=options,
                    env=without_nesting(counts))
    assert run.code == 0, run.stderr
    assert run.counts == tap.read_counts(counts) == {"cudaGetDevice": 5, "cudaSetDevice": 1, "cudaMalloc": 1000}
    assert [call["func"] for call in run.calls[:7]] == ["cudaGetDevice"] * 5 + ["cudaSetDevice", "cudaMalloc"]
    run.assert_clean()


def test_copies_of_a_library(tmp_path, counts):
    """A private copy, a hard link, a symbolic link, a path with a space: one file is probed once."""
    there = tmp_path / "a directory"
    there.mkdir()
    original = tap.FAKE / "libcudart.so.12"
    copy, hard, soft = there / "copy.so", there / "hard.so", there / "soft.so"
    copy.write_bytes(original.read_bytes())
    os.link(copy, hard)
    soft.symlink_to(copy)
    script = "; ".join(f"{sys.executable} -c '{CTYPES}' '{path}' 3" for path in (copy, hard, soft))
    run = tap.trace(tmp_path, "sh", "-c", script, env=without_nesting(counts))
    assert run.code == 0, run.stderr
    assert run.counts == {"cudaMemset": 9} and run.stop["calls"]["duplicate"] == 0
    assert len([event for event in run.attached if "a directory" in event["path"]]) == 1


def test_static(tmp_path, counts):
    """libcudart linked into the executable: in .symtab only; nothing after strip."""
    static = tmp_path / "static"
    subprocess.run(["cc", "-O1", "-I", tap.ROOT, "-o", static, tap.ROOT / "tests/programs/rate.c",
                    tap.FAKE / "libcudart_static.a", "-ldl", "-lpthread"], check=True)
    run = tap.trace(tmp_path, static, "1", "50", env=without_nesting(counts))
    assert run.counts == {"cudaMemset": 50}
    assert [event["static"] for event in run.attached] == [True]
    run.assert_clean()
    subprocess.run(["strip", static], check=True)
    run = tap.trace(tmp_path, static, "1", "50", env={"FAKE_CUDA_NESTED": "0"})
    assert run.code == 0 and not run.calls
    run = tap.trace(tmp_path, static, "1", "50", env={"LD_LIBRARY_PATH": str(tap.FAKE)})
    assert run.counts == {"cuMemsetD8_v2": 50}  # what it calls in the driver


class Loop:
    """A process that calls each millisecond."""

    def __init__(self, env=None):
        self.process = subprocess.Popen([tap.program("scenes"), "loop"], stdout=subprocess.PIPE, env=tap.environment(env))
        assert self.process.stdout.readline() == b"ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    @property
    def pid(self):
        return self.process.pid


def calls_by(text, pid):
    return sum(f'"pid":{pid},' in line for line in text.split("\n") if '"type":"call"' in line)


@pytest.mark.parametrize("method", ["session", "multi"])
def test_one_process(tmp_path, method):
    with Loop() as wanted, Loop() as other, \
            tap.running(["-p", wanted.pid, f"--probes={method}"], tmp_path) as running:
        running.wait_for(lambda text: calls_by(text, wanted.pid) > 50, "calls")
        run = running.end()
    assert run.code == 0
    assert {call["pid"] for call in run.calls} == {wanted.pid}
    assert run.lost() == 0 and other.pid


@pytest.mark.parametrize("method", ["session", "multi", "classic"])
def test_every_thread_of_a_process(tmp_path, method):
    """-p means the process: threads other than its first call here, which waits for them."""
    slow = tap.environment({"FAKE_CUDA": "cudaMalloc:delay=2ms"})
    with subprocess.Popen([tap.program("scenes"), "threads", "3", "100000000"], env=slow) as wanted:
        with tap.running(["-p", wanted.pid, f"--probes={method}"], tmp_path) as running:
            running.wait_for(lambda text: len(set(re.findall(r'"tid":(\d+),', text))) == 3, "calls of all three")
            run = running.end()
        wanted.kill()
    assert len({call["tid"] for call in run.calls}) == 3
    assert {call["pid"] for call in run.calls} == {wanted.pid} and wanted.pid not in {call["tid"] for call in run.calls}


def test_several_processes(tmp_path):
    with Loop() as one, Loop() as two, Loop() as other, \
            tap.running(["-p", one.pid, "-p", two.pid], tmp_path) as running:
        running.wait_for(lambda text: min(calls_by(text, one.pid), calls_by(text, two.pid)) > 20, "calls of both")
        run = running.end()
    assert {call["pid"] for call in run.calls} == {one.pid, two.pid} and other.pid not in (one.pid, two.pid)


def test_process_ends(tmp_path):
    """When the last process of -p is gone, so is cudatap."""
    with Loop() as loop, tap.running(["-p", loop.pid], tmp_path) as running:
        running.wait_for(lambda text: calls_by(text, loop.pid) > 5, "calls")
        loop.process.send_signal(signal.SIGKILL)
        run = running.finish(10)
    assert run.code == 0 and run.stop


def test_whole_host(tmp_path):
    """Processes that run already and such that start later, without a command."""
    with Loop() as early, tap.running([], tmp_path) as running:
        running.wait_for(lambda text: calls_by(text, early.pid) > 20, "calls of a process that ran before")
        with Loop() as late:
            running.wait_for(lambda text: calls_by(text, late.pid) > 20, "calls of a later process")
        run = running.end()
    assert run.code == 0 and {early.pid, late.pid} <= {call["pid"] for call in run.calls}


def test_new_library_on_the_host(tmp_path):
    """Without a command a file that nobody knew is found when it is mapped (its first calls may be missed)."""
    copy = tmp_path / "libcudart.so.12"
    copy.write_bytes((tap.FAKE / "libcudart.so.12").read_bytes())
    with tap.running([], tmp_path) as running:
        running.wait_started()
        script = CTYPES.replace("for i", "import time\nfor i").replace("(i + 1)) == 0", "(i + 1)) == 0; time.sleep(.01)")
        # not nested: by a real libcuda, that is
        process = subprocess.Popen([sys.executable, "-c", script, str(copy), "3000"],
                                   env=tap.environment({"FAKE_CUDA_NESTED": "0"}))
        running.wait_for(lambda text: calls_by(text, process.pid) > 20, "calls into the new file")
        process.kill()
        process.wait()
        run = running.end()
    attach, = [event for event in run.attached if event["path"] == str(copy)]
    first = next(call for call in run.calls if call["pid"] == process.pid)
    assert attach["pid"] == process.pid and attach["duration_ns"] < attach["since_mapping_ns"] < 20e9
    assert first["bytes"] < 20 + attach["since_mapping_ns"] / 10e6, "no call after the probes were there is missed"


def test_given_library(tmp_path, counts):
    """With `libraries` only these files are probed."""
    options = ["-c", tap.config(tmp_path, f"libraries: [{tap.FAKE}/libcuda.so.1]")]
    run = tap.trace(tmp_path, tap.program("scenes"), "several", options=options)
    assert {call["api"] for call in run.calls} == {"driver"}
    assert [event["path"] for event in run.attached] == [str(tap.FAKE / "libcuda.so.1")]


def test_user(tmp_path, counts):
    """-u runs the command as that user, with its groups and HOME."""
    again = f"id -u; id -g; echo $HOME; {tap.program('scenes')} again 4"
    (tmp_path / "program").mkdir()
    run = tap.trace(tmp_path, "sh", "-c", again, options=["-u", "nobody"], env=without_nesting(counts))
    if "Permission denied" in run.stderr or "not found" in run.stderr:
        pytest.skip("the build directory is closed to other users")
    uid, gid, home = run.stdout.split()
    assert uid == "65534" and gid == "65534" and home == "/nonexistent"
    assert run.counts == {"cudaMemset": 4}
