"""Libraries on a file system that does not answer for a while, as of a server that is gone: all else goes on."""

import shutil
import signal
import subprocess
import sys

import pytest
import tap

@pytest.fixture
def programs():
    both = tap.Caller(), tap.Caller()
    yield both
    for one in both:
        one.end()


@pytest.fixture
def server(tmp_path, programs):  # goes on before the programs end
    """Answers for tmp_path/mnt/lib.so, a libcudart, until it is stopped."""
    place = tmp_path / "mnt"
    place.mkdir()
    words = [sys.executable, tap.ROOT / "tests/programs/one_file_fs.py", place, tap.FAKE / "libcudart.so.13"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        if process.stdout.readline() != b"mounted\n":
            pytest.skip(f"no FUSE here: {process.stderr.read()}")
        yield process
        process.send_signal(signal.SIGCONT)
        subprocess.run(["umount", "-l", place], check=True)
        process.kill()


def calls_by(text, program):
    return sum(f'"pid":{program.pid},' in line for line in text.split("\n") if '"type":"call"' in line)


def test_does_not_answer_at_the_start(tmp_path, server, programs):
    """Said once, then others are traced; what lies there has its probes when it answers again."""
    there, elsewhere = programs
    there.tell(tmp_path / "mnt/lib.so")
    elsewhere.tell(shutil.copy(tap.FAKE / "libcudart.so.13", tmp_path / "other.so"))
    server.send_signal(signal.SIGSTOP)
    with tap.running(["-f", "transfer", "--fail-on-loss"], tmp_path) as running:
        running.wait_started()
        elsewhere.tell()
        server.send_signal(signal.SIGCONT)
        running.wait_attached(str(tmp_path / "mnt/lib.so"))
        there.tell()
        run = running.end()
    assert calls_by(running.text(), there) == calls_by(running.text(), elsewhere) == 10
    assert run.stderr.count("does not answer") == 1 and run.code == 3


@pytest.mark.parametrize("mapped", [False, True])
def test_does_not_answer_later(tmp_path, server, programs, mapped):
    """Libraries that come meanwhile get their probes, a file there that has probes keeps them, and there is an end."""
    there, elsewhere = programs
    if mapped:
        there.tell(tmp_path / "mnt/lib.so")
    with tap.running(["-f", "transfer"], tmp_path) as running:
        running.wait_started()
        server.send_signal(signal.SIGSTOP)
        if mapped:
            tap.time.sleep(4)  # a look at which files are still mapped
        elsewhere.tell(shutil.copy(tap.FAKE / "libcudart.so.13", tmp_path / "other.so"))
        running.wait_attached("other.so")
        elsewhere.tell()
        run = running.end(signal.SIGTERM)
    assert calls_by(running.text(), elsewhere) == 10 and run.code == 0
    assert bool([event for event in run.attached if "mnt/lib.so" in event["path"]]) == mapped
    assert not run.of("detach")
