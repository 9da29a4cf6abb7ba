"""Signals from cudatap's first moment on: a request never ends it, an end is a clean one, and a command has the
signals that it would have without cudatap."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import tap

REQUESTS = [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]
ENDS = [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT]


def mask(pid, name):
    """SigBlk and the like of a process, as a number; 0 when it has ended."""
    with contextlib.suppress(OSError):
        return int(re.search(rf"^{name}:\t(\w+)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1], 16)
    return 0


def bit(number):
    return 1 << number - 1


@contextlib.contextmanager
def starting(tmp_path, *arguments):
    """A cudatap that reads its configuration from a pipe, into which nothing has been written yet."""
    fifo = tmp_path / "config"
    os.mkfifo(fifo)
    with tap.running(["-c", fifo, *arguments], tmp_path) as running:
        with open(fifo, "w") as config:
            yield running, config


@contextlib.contextmanager
def looping():
    with subprocess.Popen([tap.program("scenes"), "loop"], stdout=subprocess.DEVNULL, env=tap.environment()) as loop:
        try:
            yield loop.pid
        finally:
            loop.kill()


def wait_in_main(running):
    """Until it has got to main()."""
    while not mask(running.pid, "SigBlk") & bit(signal.SIGHUP):
        assert running.process.poll() is None


@pytest.mark.parametrize("number", REQUESTS)
def test_request_before_the_configuration(tmp_path, number):
    with starting(tmp_path, "--", tap.FAKE / "demo") as (running, config):
        for _ in range(3):
            running.interrupt(number)
        time.sleep(0.05)
        assert running.process.poll() is None
        config.write("version: 1\n")
        config.close()
        run = running.finish()
    assert run.code == 0 and len(run.calls) == 23
    run.assert_clean()


def test_requests_all_the_time(tmp_path):
    """All three, again and again, from the beginning of main() until calls are seen."""
    with looping() as pid, tap.running(["-p", pid], tmp_path) as running:
        wait_in_main(running)
        end = time.monotonic() + tap.TIMEOUT
        while '"type":"call"' not in running.text():
            assert running.process.poll() is None and time.monotonic() < end
            for number in REQUESTS:
                running.interrupt(number)
        run = running.end()
    assert run.code == 0 and run.lost() == 0


@pytest.mark.parametrize("number", ENDS)
@pytest.mark.parametrize("command", [(), ("--", "touch", "ran")], ids=["host", "command"])
def test_end_before_the_configuration(tmp_path, number, command):
    """The exit code is that of a later end; the command never runs."""
    command = [word.replace("ran", str(tmp_path / "ran")) for word in command]
    with starting(tmp_path, *command) as (running, _):
        running.interrupt(number)
        assert running.process.wait(5) == (128 + number if command else 0)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_end_at_any_moment(tmp_path, number):
    """All through the start: the code is 0, and nothing is left."""
    since = tap.last_program_id()
    with looping() as pid:
        for step in range(8):
            with tap.running(["-p", pid], tmp_path) as running:
                wait_in_main(running)
                time.sleep(step * 0.03)
                running.interrupt(number)
                assert running.process.wait(10) == 0, step
    tap.assert_nothing_left(since)


def test_ignored_by_the_caller(tmp_path):
    """What the caller ignores does not end the start either."""
    fifo = tmp_path / "config"
    os.mkfifo(fifo)
    with subprocess.Popen([tap.CUDATAP, "-c", fifo, "--", tap.FAKE / "demo"], env=tap.environment(),
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) as process:
        with open(fifo, "w") as config:
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
            assert process.poll() is None
            config.write("version: 1\n")
        assert process.communicate(timeout=tap.TIMEOUT)[0].count('"type":"call"') == 23 and process.returncode == 0


def test_stopped_tracer(tmp_path):
    """SIGSTOP of cudatap alone: the command, and what it loads, goes on at once; later it is said what is missing."""
    for name in ("first.so", "second.so"):
        shutil.copy(tap.FAKE / "libcudart.so.12", tmp_path / name)
    script = ("import ctypes, sys\nsys.stdin.readline()\n"
              "for name in ('first.so', 'second.so'):\n"
              f" ctypes.CDLL('{tmp_path}/' + name).cudaMemset(None, 1, ctypes.c_size_t(1))\n"
              "print('called', flush=True)\nsys.stdin.readline()")
    with subprocess.Popen([tap.CUDATAP, "--fail-on-loss", "-o", tmp_path / "out", "--", sys.executable, "-c", script],
                          text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=tap.environment()) as process:
        end = time.monotonic() + tap.TIMEOUT
        while not (tmp_path / "out").exists() or '"type":"start"' not in (tmp_path / "out").read_text():
            assert time.monotonic() < end
        time.sleep(0.3)  # Python has begun to read
        process.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        process.stdin.write("go\n")
        process.stdin.flush()
        assert process.stdout.readline() == "called\n"
        took = time.monotonic() - begun
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate("\n", timeout=tap.TIMEOUT)
    assert took < 9 and process.returncode == 3, took
    assert "cudatap was stopped" in err


OF_LIBC = bit(32) | bit(33)  # no program may have them


@pytest.mark.parametrize("ignored, blocked", [([], []), ([signal.SIGHUP], []), ([signal.SIGINT], [signal.SIGUSR1])],
                         ids=["plain", "nohup", "odd"])
def test_signals_of_the_command(ignored, blocked):
    """As if cudatap were not there."""
    def prepare():
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, blocked)

    def state(*words):
        text = subprocess.run([*words, "cat", "/proc/self/status"], capture_output=True, text=True, check=True,
                              env=tap.environment(), preexec_fn=prepare, timeout=tap.TIMEOUT).stdout
        masks = re.findall(r"^(Sig(?:Blk|Ign|Cgt)):\t(.*)$", text, re.MULTILINE)
        return [(name, int(digits, 16) & ~OF_LIBC) for name, digits in masks]

    assert state(tap.CUDATAP, "-q", "-o", "/dev/null", "--") == state()


def test_other_verbs_end_as_usual(tmp_path):
    """`cudatap check` and the like have nothing to do with them."""
    fifo = tmp_path / "config"
    os.mkfifo(fifo)
    with subprocess.Popen([tap.CUDATAP, "check", "-c", fifo], stderr=subprocess.DEVNULL) as process, open(fifo, "w"):
        process.send_signal(signal.SIGHUP)
        assert process.wait(5) == -signal.SIGHUP
