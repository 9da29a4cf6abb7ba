"""What the start event says of commands, and what -p refuses."""

import subprocess
import sys

import tap


def test_very_long_command(tmp_path):
    run = tap.trace(tmp_path, "true", *map(str, range(20000)))
    assert run.start["command_cut"] is True and run.start["command"][:3] == ["true", "0", "1"]
    assert 500 < len(run.start["command"]) < 20000


def test_command_is_whole(tmp_path):
    run = tap.trace(tmp_path, "true", "a", "b c")
    assert run.start["command"] == ["true", "a", "b c"] and "command_cut" not in run.start


def test_thread_for_a_process():
    text = ("import threading, time\nt = threading.Thread(target=time.sleep, args=(20,), daemon=True)\nt.start()\n"
            "print(t.native_id, flush=True)\ntime.sleep(20)")
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as process:
        tid = process.stdout.readline().strip()
        done = tap.run_plain("-p", tid)
        process.kill()
    assert done.returncode == 1 and f"thread of process {process.pid}" in done.stderr


def test_pid_and_command():
    done = tap.run_plain("-p", "1", "--", "true")
    assert done.returncode == 2 and "choose one" in done.stderr
