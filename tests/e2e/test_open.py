"""Calls that do not return: told of while they hang, and counted when recording stops."""

import signal
import subprocess
import time

import pytest
import tap

SLOW = {"FAKE_CUDA_NESTED": "0", "FAKE_CUDA": "cudaMalloc:delay=1700ms"}


def options(tmp_path, after="200ms", libraries="auto"):
    return ["-c", tap.config(tmp_path, f"open_after: {after}\nlibraries: {libraries}\n"
                                       "families: []\ninclude: [cudaMalloc, cudaFree]\n")]


def whole_host(tmp_path):
    """The library has its probes before anyone maps it."""
    return options(tmp_path, libraries=f"[{tap.FAKE / 'libcudart.so.13'}]")


@pytest.mark.parametrize("method", tap.PROBES)
def test_told_until_it_returns(tmp_path, method):
    run = tap.trace(tmp_path, tap.program("scenes"), "threads", "1", "1",
                    options=[*options(tmp_path), f"--probes={method}"], env=SLOW)
    call, = run.named("cudaMalloc")
    told = run.of("open")
    assert 3 <= len(told) <= 4
    for event in told:
        assert {key: event.get(key) for key in ("pid", "tid", "comm", "thread", "api", "family", "func", "symbol")} == \
            {key: call.get(key) for key in ("pid", "tid", "comm", "thread", "api", "family", "func", "symbol")}
        assert event["call_ts"] == call["ts"] and event["depth"] == 0
        assert event["duration_ns"] < call["duration_ns"] and event["seq"] < call["seq"]
    lasted = [event["duration_ns"] for event in told]
    assert 0.2e9 <= lasted[0] < 0.4e9
    assert all(later >= 2 * earlier for earlier, later in zip(lasted, lasted[1:], strict=False))
    run.assert_clean()


def test_not_told_of_what_returns(tmp_path):
    """Threads that call all the time, each call short: nothing hangs."""
    run = tap.trace(tmp_path, tap.program("scenes"), "threads", "4", "20000",
                    options=options(tmp_path, "100ms"), env={"FAKE_CUDA_NESTED": "0"})
    # a machine with little time for the reader may drop some, and says so
    dropped = run.lost() + sum(sum(sink["dropped"].values()) for sink in run.stop["sinks"].values())
    assert len(run.calls) + dropped == 160000
    # nor is there always a processor for a thread inside its call
    lasted = {(call["tid"], call["ts"]): call["duration_ns"] for call in run.calls}
    assert all(lasted.get((event["tid"], event["call_ts"]), 1e8) >= 1e8 for event in run.of("open"))
    assert len(run.of("open")) <= 40


def test_never_told(tmp_path):
    run = tap.trace(tmp_path, tap.program("scenes"), "threads", "1", "1", options=options(tmp_path, "0"), env=SLOW)
    assert len(run.calls) == 2 and not run.of("open")


@pytest.mark.parametrize("method", tap.PROBES)
def test_open_when_it_stops(tmp_path, method):
    """Threads inside calls when recording stops are counted by themselves, not as what is left over."""
    with tap.running([*whole_host(tmp_path), f"--probes={method}"], tmp_path) as running:
        running.wait_attached("libcudart.so.13")
        env = tap.environment({**SLOW, "FAKE_CUDA": "cudaMalloc:delay=20s"})
        hangs = subprocess.Popen([tap.program("scenes"), "threads", "5", "1"], env=env)
        try:
            running.wait_for(lambda text: text.count('"type":"open"') >= 5, "five open calls")
            run = running.end(signal.SIGTERM)
        finally:
            hangs.kill()
            hangs.wait()
    assert run.stop["calls"]["open"] == 5 and run.stop["calls"]["entries"] == 5
    assert len({event["tid"] for event in run.of("open")}) == 5


def test_ends_inside_while_it_stops(tmp_path):
    """Processes that are killed inside their calls all the time: each call has one end."""
    with tap.running(whole_host(tmp_path), tmp_path) as running:
        running.wait_attached("libcudart.so.13")
        env = tap.environment({**SLOW, "FAKE_CUDA": "cudaMalloc:delay=20s"})
        script = f"while :; do timeout -s KILL 0.02 {tap.program('scenes')} threads 3 1; done"
        loop = subprocess.Popen(["sh", "-c", script], env=env, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            time.sleep(1)
            run = running.end(signal.SIGTERM)
        finally:
            subprocess.run(["kill", "-KILL", "--", f"-{loop.pid}"], check=False)
            loop.wait()
    calls = run.stop["calls"]
    assert calls["unfinished"] > 10
    assert calls["entries"] == calls["unfinished"] + calls["open"]
