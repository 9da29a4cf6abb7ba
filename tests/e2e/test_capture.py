"""Calls that do not simply return: jumps, forks, exits, kills, wild pointers. Whatever a program
does, it must not be harmed, and each of its calls is accounted for."""

import datetime

import pytest
import tap


def scene(tmp_path, probes, counts, *words, env=None, nested="0"):
    env = {"FAKE_CUDA_COUNTS": str(counts), "FAKE_CUDA_NESTED": nested, **(env or {})}
    run = tap.trace(tmp_path, tap.program("scenes"), *words, options=probes, env=env)
    return run, tap.read_counts(counts)


def test_threads(tmp_path, probes, counts):
    run, made = scene(tmp_path, probes, counts, "threads", "20", "1000")
    assert made["cudaMalloc"] == made["cudaFree"] == 20000
    assert run.counts == made
    run.assert_clean()
    workers = {call["thread"] for call in run.calls}
    assert workers == {f"worker-{i}" for i in range(20)}
    assert {call["comm"] for call in run.calls} == {"scenes"}
    for worker in workers:  # each thread's calls stand in its own order
        sizes = [call["bytes"] for call in run.calls if call["thread"] == worker and call["func"] == "cudaMalloc"]
        assert sizes == list(range(1, 1001))


def test_addresses_are_paired(tmp_path, probes, counts):
    """What cudaMalloc gave a thread is what the same thread freed: entry and exit belong together."""
    run, _ = scene(tmp_path, probes, counts, "threads", "4", "200")
    by_thread = {}
    for call in run.calls:
        by_thread.setdefault(call["tid"], []).append(call)
    for calls in by_thread.values():
        for malloc, free in zip(calls[::2], calls[1::2]):
            assert (malloc["func"], free["func"]) == ("cudaMalloc", "cudaFree")
            assert malloc["ptr"] == free["ptr"]


def test_fork_inside(tmp_path, probes, counts):
    """The child returns from a call that it never entered: counted, not emitted."""
    run, made = scene(tmp_path, probes, counts, "fork_inside", "50")
    assert run.code == 0
    assert run.counts == made and made["cudaMalloc"] == 1 and made["cudaFree"] == 100
    parent = run.named("cudaMalloc")[0]["pid"]
    assert {call["pid"] for call in run.named("cudaMemset")} != {parent}
    assert run.stop["calls"]["unpaired"] == 0 and run.lost() == 0
    assert run.stop["calls"]["orphan_exits"] <= 1


@pytest.mark.parametrize("name", ["jump_out", "jump_out_nested"])
def test_jumps(tmp_path, probes, counts, name):
    """Calls left by longjmp are counted as unpaired; the calls after them are as if nothing had been."""
    run, made = scene(tmp_path, probes, counts, name, "300", nested="1")
    assert run.code == 0
    assert made["cudaMalloc"] == 300 and made["cudaFree"] == 300
    assert run.counts == {"cudaFree": 300, "cudaDeviceSynchronize": 1}
    assert run.stop["calls"]["unpaired"] >= 300 and run.lost() == 0 and run.stop["calls"]["duplicate"] == 0
    assert all(call["status"] == "ok" and "depth" not in call for call in run.calls)


def test_jumps_from_one_place(tmp_path, probes, counts):
    """Each call begins where the last one was left: no duplicate probe, no silence afterwards."""
    run, made = scene(tmp_path, probes, counts, "jump_tight", "300")
    assert made["cudaMalloc"] == 300
    assert run.counts == {"cudaDeviceSynchronize": 1}
    assert run.stop["calls"]["unpaired"] == 300 and run.stop["calls"]["duplicate"] == 0


@pytest.mark.parametrize("name,code,more", [
    ("kill_inside", 128 + 9, {}),
    ("exit_inside", 7, {}),
    ("exec_inside", 0, {"cudaMemset": 3}),
    ("thread_exit_inside", 0, {}),
])
def test_ends_inside(tmp_path, probes, counts, name, code, more):
    """A call that never returns becomes an unfinished event."""
    run, made = scene(tmp_path, probes, counts, name)
    assert run.code == code and run.stop["exit_code"] == code
    expected = {"cudaFree": 1, "cudaMalloc": made["cudaMalloc"], **more}
    assert run.counts == made == expected
    unfinished = [call for call in run.calls if call["status"] == "unfinished"]
    assert len(unfinished) == 1 and run.stop["calls"]["unfinished"] == 1
    assert unfinished[0]["func"] == "cudaMalloc" and unfinished[0]["bytes"] == 4242
    assert "ret" not in unfinished[0] and "out" not in unfinished[0]
    assert unfinished[0]["args"]["size"] == 4242
    assert run.stop["calls"]["open"] == 0 and run.lost() == 0


def test_deep(tmp_path, counts, few):
    """Calls inside each other beyond what is followed are counted, and those around them come out."""
    options = ["-c", tap.config(tmp_path, "nested: true\nfamilies: []\ninclude: [cudaMalloc, cudaFree]")]
    run, made = scene(tmp_path, options, counts, "deep", "20")
    assert made["cudaMalloc"] == 20
    lost = run.stop["calls"]["lost"]["depth"]
    assert lost == 14 and run.counts["cudaMalloc"] == 6 and run.counts["cudaFree"] == 1
    assert sum(event["count"] for event in run.losses) == lost
    assert [call.get("depth", 0) for call in run.named("cudaMalloc")] == list(range(5, -1, -1))
    run, _ = scene(tmp_path, few, counts, "deep", "20")  # not nested: only the outermost matters
    assert run.counts == {"cudaMalloc": 1, "cudaFree": 1}


def test_closes_every_descriptor(tmp_path, probes, counts):
    run, made = scene(tmp_path, probes, counts, "close_all", "100")
    assert run.code == 0 and run.counts == made == {"cudaMemset": 100}
    run.assert_clean()


def test_drops_its_rights(tmp_path, probes, counts):
    run, made = scene(tmp_path, probes, counts, "drop_rights", "100")
    assert run.code == 0 and run.counts == made == {"cudaMemset": 100}
    run.assert_clean()


def test_vfork(tmp_path, probes, counts):
    """A vfork child borrows its parent's memory and calls, then becomes a program that calls."""
    run, made = scene(tmp_path, probes, counts, "vforks", "10")
    assert run.code == 0 and run.counts == made == {"cudaMemset": 30, "cudaFree": 10}
    assert len({call["pid"] for call in run.named("cudaMemset")}) == 10
    run.assert_clean()


def test_signal_handler(tmp_path, probes, counts):
    """Calls from a handler, between the instructions of other calls."""
    run, made = scene(tmp_path, probes, counts, "signals", "30000")
    c = run.stop["calls"]
    assert run.code == 0 and made["cudaMemset"] > 10
    assert run.lost() == 0 and c["duplicate"] == 0
    # a handler's call that came inside another one is nested; the rest is emitted
    assert sum(made.values()) == c["emitted"] + c["nested"] + c["unpaired"]
    assert run.counts["cudaMalloc"] == run.counts["cudaFree"] == 30000


def test_wild_pointers(tmp_path, counts):
    """Unreadable memory is counted and absent; neither program nor tracer minds."""
    run, made = scene(tmp_path, ["-c", tap.config(tmp_path, "families: all")], counts, "wild")
    assert run.code == 0
    assert run.counts == made and set(made.values()) == {7}
    assert run.stop["calls"]["read_failed"] > 0 and run.stop["calls"]["unpaired"] == 0
    assert all(call["status"] == "ok" for call in run.calls)
    for call in run.named("cudaMalloc"):
        assert "out" not in call and "ptr" not in call and call["bytes"] == 100
    assert {call["args"]["p"] for call in run.named("cudaMemcpy3D")} >= {"0x0", "0x1", "0xffffffffffffffff"}


def test_slow_call(tmp_path, probes, counts):
    """A duration is what passed inside the call."""
    run, _ = scene(tmp_path, probes, counts, "threads", "1", "3", env={"FAKE_CUDA": "cudaMalloc:delay=20ms"})
    slow = [call["duration_ns"] for call in run.named("cudaMalloc")]
    assert len(slow) == 3 and all(20e6 <= ns < 200e6 for ns in slow), slow
    assert all(call["duration_ns"] < 20e6 for call in run.named("cudaFree"))


def seconds(timestamp):
    return datetime.datetime.fromisoformat(timestamp[:26]).timestamp()


def test_classic_probes_close_in_the_background(tmp_path, few):
    """Closing them takes 0.1 s each, but not of cudatap's time, however the two processes are scheduled."""
    for _ in range(3):
        run = tap.trace(tmp_path, tap.program("scenes"), "again", "5", options=[*few, "--probes=classic"])
        assert run.counts == {"cudaMemset": 5}
        assert seconds(run.stop["ts"]) - seconds(run.calls[-1]["ts"]) < 1
