"""How a run ends: signals, a closed pipe, the last process gone."""

import shutil
import signal
import subprocess
import sys
import time

import pytest
import tap

EVERYTHING = "families: all\nnested: true\n"


def started(tap_running):
    tap_running.wait_for(lambda text: '"type":"call"' in text, "calls")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_signal_drains(tmp_path, number):
    """One signal ends a whole-host run with everything delivered and accounted for."""
    loop = subprocess.Popen([tap.program("scenes"), "loop"], stdout=subprocess.DEVNULL, env=tap.environment())
    try:
        with tap.running(["-p", loop.pid], tmp_path) as running:
            started(running)
            begun = time.monotonic()
            run = running.end(number)
            took = time.monotonic() - begun
    finally:
        loop.kill()
        loop.wait()
    assert run.code == 0 and run.stop["reason"] == "signal" and took < 5
    assert run.lost() == 0 and run.stop["calls"]["emitted"] == len(run.calls)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_signal_is_passed_on(tmp_path, number):
    """A signal to cudatap alone reaches the command; its end is the run's end, with its code."""
    with tap.running(["--", tap.program("scenes"), "loop"], tmp_path) as running:
        started(running)
        run = running.end(number)
    assert run.code == 128 + number == run.stop["exit_code"]
    assert run.stop["calls"]["emitted"] + run.stop["calls"]["unfinished"] == len(run.calls)


def test_signal_handler_of_the_command(tmp_path):
    """What the command does on its way out is traced too."""
    script = f"trap '{tap.program('scenes')} again 7; exit 9' TERM; echo >{tmp_path}/ready; while :; do sleep 0.05; done"
    with tap.running(["--", "bash", "-c", script], tmp_path) as running:
        while not (tmp_path / "ready").exists():
            time.sleep(0.02)
        run = running.end(signal.SIGTERM)
    assert run.code == 9 and run.counts == {"cudaMemset": 7}


def test_quit_is_the_commands(tmp_path):
    """A command that answers SIGQUIT and goes on, as a JVM does, is traced on, however often it is asked."""
    script = f"trap '{tap.program('scenes')} again 2' QUIT; echo >{tmp_path}/ready; for i in $(seq 40); do sleep 0.05; done"
    with tap.running(["--", "bash", "-c", script], tmp_path) as running:
        while not (tmp_path / "ready").exists():
            time.sleep(0.02)
        for i in range(1, 4):
            running.interrupt(signal.SIGQUIT)
            running.wait_for(lambda text, i=i: text.count('"type":"call"') >= 2 * i, "what the command does at SIGQUIT")
        run = running.finish()
    assert run.code == 0 and run.stop["reason"] == "command_ended" and run.counts == {"cudaMemset": 6}


def test_second_signal_ends_at_once(tmp_path):
    """A command that ignores SIGINT, 1 100 functions attached: the second one ends within a second."""
    script = f"trap '' INT; {tap.program('scenes')} loop"
    with tap.running(["-c", tap.config(tmp_path, EVERYTHING), "--", "bash", "-c", script], tmp_path) as running:
        started(running)
        functions = sum(tap.json.loads(line)["functions"] for line in running.text().split("\n")
                        if '"type":"attach"' in line)
        running.interrupt()
        time.sleep(0.3)
        assert running.process.poll() is None
        begun = time.monotonic()
        running.interrupt()
        run = running.finish(5)
        took = time.monotonic() - begun
    assert functions > 1000 and took < 3, (functions, took)
    assert run.code == 128 + signal.SIGINT
    kill_loops(run)


def kill_loops(run):
    for pid in {call["pid"] for call in run.calls}:
        subprocess.run(["kill", "-9", str(pid)], check=False, stderr=subprocess.DEVNULL)


def test_closed_pipe(tmp_path):
    """`| head -1`: the probes go, the command runs on."""
    since = tap.last_program_id()
    script = f"for i in 1 2 3 4 5 6 7 8; do {tap.program('scenes')} again 300; sleep 0.1; done; touch {tmp_path}/ran; exit 4"
    shell = f"{tap.CUDATAP} -- sh -c '{script}' | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=30, env=tap.environment())
    lines = done.stdout.splitlines()
    assert tap.json.loads(lines[0])["type"] == "start"
    assert lines[1:] in (["0"], ["4"])  # a clean end of its own, or the command's
    end = time.monotonic() + 10
    while not (tmp_path / "ran").exists():
        assert time.monotonic() < end, "the command did not run on"
        time.sleep(0.05)
    tap.assert_nothing_left(since)


def test_closed_pipe_without_command(tmp_path):
    """The last sink gone is a clean end."""
    loop = subprocess.Popen([tap.program("scenes"), "loop"], stdout=subprocess.DEVNULL, env=tap.environment())
    try:
        shell = f"{tap.CUDATAP} -p {loop.pid} | head -3 >/dev/null; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=10, env=tap.environment())
        assert done.stdout == "0\n"
    finally:
        loop.kill()
        loop.wait()


def test_slow_reader(tmp_path):
    """A reader that stalls: what its queue cannot hold is dropped, counted, and told when it reads again."""
    events = tmp_path / "events"
    options = f"-c {tap.config(tmp_path, 'sinks: {out: {type: stdout, queue: {max_events: 1000, max_bytes: 256KiB}}}')}"
    shell = (f"{tap.CUDATAP} {options} -- {tap.program('rate')} 1 50000 | (sleep 1.5; cat >{events}); "
             "echo ${PIPESTATUS[0]}")
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=60, env=tap.environment())
    run = tap.Result(events.read_text(), int(done.stdout), "", done.stderr)
    assert run.stop, "the stop event must come through"
    sink = run.stop["sinks"]["out"]
    assert run.code == 0 and run.lost() == 0
    dropped = sum(sink["dropped"].values())
    assert dropped > 0 and dropped == sink["dropped"].get("queue_full")
    assert len(run.calls) + dropped >= 50000
    told = [event for event in run.losses if event["source"] == "sink"]
    assert sum(event["count"] for event in told) == dropped
    numbers = {event["seq"] for event in run.events if "seq" in event}
    for event in told:
        assert event["sink"] == "out" and event["reason"] == "queue_full"
        assert not numbers & set(range(event["seq_first"], event["seq_last"] + 1)) or event["count"] < \
            event["seq_last"] - event["seq_first"] + 1


def test_file_is_appended(tmp_path):
    path = tmp_path / "log.jsonl"
    for _ in range(2):
        tap.run_plain("-q", "-o", path, "--", tap.FAKE / "demo")
    runs = [tap.json.loads(line)["run"] for line in path.read_text().splitlines()]
    assert len(set(runs)) == 2 and runs == sorted(runs, key=runs.index)


def test_two_sinks(tmp_path):
    path = tmp_path / "log.jsonl"
    done = tap.run_plain("-o", "-", "-o", path, "--", tap.FAKE / "demo")
    first, second = tap.Result(done.stdout, 0, "", ""), tap.Result(path.read_text(), 0, "", "")
    assert first.calls == second.calls and len(first.calls) == 23


def test_hangup_reopens(tmp_path):
    """logrotate by rename loses nothing: after SIGHUP lines go to a new file."""
    path, old = tmp_path / "log.jsonl", tmp_path / "log.jsonl.1"
    loop = subprocess.Popen([tap.program("scenes"), "loop"], stdout=subprocess.DEVNULL, env=tap.environment())
    try:
        with tap.running(["-p", loop.pid, "-o", path], tmp_path, events="stdout") as running:
            end = time.monotonic() + 10
            while not (path.exists() and '"call"' in path.read_text()):
                assert time.monotonic() < end
                time.sleep(0.02)
            path.rename(old)
            running.interrupt(signal.SIGHUP)
            while not (path.exists() and '"call"' in path.read_text()):
                assert time.monotonic() < end
                time.sleep(0.02)
            running.interrupt()
            assert running.process.wait(5) == 0
    finally:
        loop.kill()
        loop.wait()
    run = tap.Result(old.read_text() + path.read_text(), 0, "", "")
    assert run.stop["calls"]["emitted"] == len(run.calls) and run.lost() == 0


def test_nobody_is_held_while_sinks_end(tmp_path):
    """Whoever outlives the command goes on at once: there are no probes to wait for, though a sink has much to write."""
    daemon = ("import ctypes, os, sys, time\nwhile os.getppid() == int(sys.argv[3]): time.sleep(0.01)\n"
              "time.sleep(0.3)\nbegun = time.monotonic()\nctypes.CDLL(sys.argv[1])\n"
              "open(sys.argv[2], 'w').write(f'{time.monotonic() - begun}\\n')")
    script = ("import ctypes, os, subprocess, sys\nnull = subprocess.DEVNULL\n"
              "subprocess.Popen([sys.executable, '-c', *sys.argv[1:4], str(os.getpid())], start_new_session=True, stdout=null,"
              " stderr=null)\n"
              "library = ctypes.CDLL(sys.argv[4])\nfor _ in range(5000): library.cudaMemset(None, 1, ctypes.c_size_t(1))")
    late, took = shutil.copy(tap.FAKE / "libcudart.so.12", tmp_path / "late.so"), tmp_path / "took"
    with subprocess.Popen([tap.CUDATAP, "--", sys.executable, "-c", script, daemon, late, took,
                           tap.FAKE / "libcudart.so.13"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env=tap.environment()) as process:
        end = time.monotonic() + tap.TIMEOUT
        while not (took.exists() and took.read_text().endswith("\n")):
            assert time.monotonic() < end
            time.sleep(0.05)
        assert process.poll() is None, "there was nothing left to write"
        process.stdout.close()
        process.wait(tap.TIMEOUT)
    assert float(took.read_text()) < 1
