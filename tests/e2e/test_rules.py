"""Which calls become events: the filter, samples and rates of the whole configuration. What is turned away is counted,
the law of conservation (tap.py checks it at every stop) holds exactly, and what the BPF program turns away makes no
record."""

import collections
import os

import pytest
import tap

SCENES = "api: [runtime]\nfamilies: []\ninclude: [cudaMalloc, cudaFree, cudaMemset, cudaDeviceSynchronize]\n"


@pytest.fixture(params=tap.PROBES)
def method(request):
    return request.param


def run(tmp_path, method, rules, *words, env=None, base=SCENES, more=()):
    options = ["-c", tap.config(tmp_path, base + rules), f"--probes={method}", *more]
    result = tap.trace(tmp_path, tap.program("scenes"), *words, options=options, env={"FAKE_CUDA_NESTED": "0", **(env or {})})
    assert result.code == 0 and result.lost() == 0, result.stderr
    c = result.stop["calls"]
    assert c["unpaired"] == 0 and c["orphan_exits"] == 0 and c["open"] == 0 and c["in_ring"] == 0, c
    return result


def test_functions(tmp_path, method):
    """The entry alone decides."""
    result = run(tmp_path, method, "filter: {functions: [cudaMa*]}", "threads", "2", "50")
    assert result.counts == {"cudaMalloc": 100}
    assert result.stop["calls"]["filtered"] == 100 and result.stop["calls"]["entries"] == 200
    if method == "classic":  # it takes long to detach
        return
    result = run(tmp_path, method, "filter: {families: [sync]}", "threads", "2", "50")
    assert not result.calls and result.stop["calls"]["filtered"] == 200


def test_outcome(tmp_path, method):
    """How a call ended decides: those for more than 40 bytes fail."""
    env = {"FAKE_CUDA_MEMORY": "40"}
    result = run(tmp_path, method, "filter: {status: [error]}", "threads", "2", "50", env=env)
    assert result.counts == {"cudaMalloc": 20} and {call["ret"] for call in result.calls} == {2}
    assert result.stop["calls"]["filtered"] == 180
    if method == "classic":
        return
    for names, expected in (("cudaErrorMemoryAllocation", 20), ("cudaErrorInvalidValue", 0),
                            ("cudaErrorInvalidValue, cudaErrorMemoryAllocation", 20)):
        result = run(tmp_path, method, f"filter: {{errors: [{names}]}}", "threads", "2", "50", env=env)
        assert len(result.calls) == expected and result.stop["calls"]["filtered"] == 200 - expected


@pytest.mark.parametrize("method", ["session", "multi"])
def test_duration(tmp_path, method):
    env = {"FAKE_CUDA": "cudaMalloc:delay=20ms"}
    result = run(tmp_path, method, "filter: {min_duration: 20ms}", "threads", "1", "10", env=env)
    assert result.counts["cudaMalloc"] == 10
    assert all(call["duration_ns"] >= 20e6 for call in result.calls)
    assert result.stop["calls"]["filtered"] == 20 - len(result.calls)
    result = run(tmp_path, method, "filter: {max_duration: 19ms}", "threads", "1", "10", env=env)
    assert result.counts.keys() == {"cudaFree"} and result.stop["calls"]["filtered"] == 20 - len(result.calls)


def test_bytes(tmp_path, method):
    """Of an argument, at entry; calls that move nothing are turned away by their function."""
    result = run(tmp_path, method, "filter: {min_bytes: 31}", "threads", "2", "50")
    assert sorted(call["bytes"] for call in result.calls) == [n for n in range(31, 51) for _ in range(2)]
    assert result.stop["calls"]["filtered"] == 160


def test_unfinished(tmp_path, method):
    """A call that never returns is judged at the end of its thread."""
    result = run(tmp_path, method, "filter: {status: [unfinished]}", "thread_exit_inside")
    assert [call["status"] for call in result.calls] == ["unfinished"]
    result = run(tmp_path, method, "filter: {status: [ok, error]}", "thread_exit_inside")
    assert "unfinished" not in {call["status"] for call in result.calls}
    assert result.stop["calls"]["filtered"] == 1 and result.stop["calls"]["unfinished"] == 0


@pytest.mark.parametrize("keep", ["true", "false"])
def test_sample(tmp_path, method, keep):
    """One of ten, by chance: the weights add up to what was called. Errors are kept, or drawn as the others are."""
    env = {"FAKE_CUDA_MEMORY": "4000"}
    result = run(tmp_path, method, f"sample: {{rates: {{cudaMalloc: 10}}, keep_errors: {keep}}}", "threads", "4", "5000", env=env)
    c = result.stop["calls"]
    assert c["entries"] == 40000 and c["sampled_out"] == 40000 - len(result.calls) > 10000
    assert result.counts["cudaFree"] == 20000 and not any("sample_n" in call for call in result.named("cudaFree"))
    mallocs = collections.defaultdict(list)
    for call in result.named("cudaMalloc"):
        mallocs[call["status"]].append(call.get("sample_n", 1))
    assert set(mallocs["ok"]) == {10}
    # six standard deviations of a binomial distribution
    assert abs(sum(mallocs["ok"]) - 16000) < 6 * 10 * (16000 * 0.09) ** 0.5
    if keep == "true":
        assert mallocs["error"] == [1] * 4000
    else:
        assert set(mallocs["error"]) == {10} and abs(sum(mallocs["error"]) - 4000) < 6 * 10 * (4000 * 0.09) ** 0.5


@pytest.mark.parametrize("method", ["session", "multi"])
def test_sample_by_family(tmp_path, method):
    """A function counts more than its family."""
    result = run(tmp_path, method, "sample: {rates: {cudaFree: 1, memory: 1000000}, keep_errors: false}", "threads", "2", "500")
    assert result.counts["cudaFree"] == 1000 and result.counts["cudaMalloc"] < 5
    assert result.stop["calls"]["sampled_out"] == 1000 - result.counts["cudaMalloc"]


@pytest.mark.parametrize("method", ["session", "multi"])
@pytest.mark.parametrize("rules", ["filter: {functions: [cudaMemset]}", "filter: {families: [sync]}",
                                   "sample: {rates: {cudaMalloc: 1000000000}, keep_errors: false}",
                                   "sample: {rates: {cudaMalloc: 1000000000}}", "filter: {min_duration: 1h}"])
def test_turned_away_with_what_is_inside(tmp_path, method, rules):
    """The driver's call inside of a runtime's one that is turned away does not come up in its place."""
    base = "families: []\ninclude: [cudaMalloc, cuMemAlloc_v2, cudaMemset, cudaDeviceSynchronize]\n"
    result = run(tmp_path, method, rules, "threads", "2", "100", env={"FAKE_CUDA_NESTED": "1"}, base=base)
    c = result.stop["calls"]
    assert not result.calls, result.calls[0]
    assert c["filtered"] + c["sampled_out"] + c["nested"] == c["entries"] == 400


@pytest.mark.parametrize("method", ["session", "multi"])
def test_makes_no_record(tmp_path, method):
    """A full ring loses calls: those that are turned away never come near it."""
    for rules in ("filter: {functions: [cudaMemset]}", "filter: {status: [error]}",
                  "sample: {rates: {memory: 1000000000}, keep_errors: false}"):
        result = run(tmp_path, method, rules + "\nring: {size: 4KiB, flush: 10s}", "threads", "2", "2000")
        c = result.stop["calls"]
        assert c["filtered"] + c["sampled_out"] == c["entries"] == 8000 and c["emitted"] == 0
        assert c["lost"]["ring"] == 0
    # the same ring without a rule
    options = ["-c", tap.config(tmp_path, SCENES + "ring: {size: 4KiB, flush: 10s}"), f"--probes={method}"]
    result = tap.trace(tmp_path, tap.program("scenes"), "threads", "2", "2000", options=options, env={"FAKE_CUDA_NESTED": "0"})
    assert result.stop["calls"]["lost"]["ring"] > 0


def test_processes(tmp_path):
    """What is said of the process: counted, unlike that of processes that are not traced at all."""
    script = f"{tap.program('scenes')} again 3; {' '.join(tap.AS_NOBODY)} {tap.program('scenes')} again 5"
    env = {"FAKE_CUDA_NESTED": "0"}
    for rules, expected in (("uids: [65534]", 5), ("comms: [scenes], uids: [0]", 3), ("exe: [e2e/scenes]", 8),
                            ("exe: [scene]", 0), ("comms: ['sc*']", 8), (f"exe: [{tap.program('scenes')}]", 8)):
        options = ["-c", tap.config(tmp_path, SCENES + f"filter: {{{rules}}}")]
        result = tap.trace(tmp_path, "sh", "-c", script, options=options, env=env)
        assert len(result.calls) == expected and result.stop["calls"]["filtered"] == 8 - expected, rules
        options = ["-c", tap.config(tmp_path, SCENES + f"sinks: {{disk: {{type: file, path: {tmp_path}/x.jsonl, filter: {{{rules}}}}}}}")]
        with tap.running([*options, "--", "sh", "-c", script], tmp_path, env=env, events="config") as running:
            running.process.wait(tap.TIMEOUT)
        assert (tmp_path / "x.jsonl").read_text().count('"type":"call"') == expected, rules
        os.unlink(tmp_path / "x.jsonl")


def test_turned_away_processes(tmp_path, method):
    """Both are traced, and one is let through; what it calls inside of its calls is its own."""
    script = f"{tap.program('scenes')} threads 2 100; bash -c 'exec -a x {tap.program('scenes')} threads 1 50'; " \
             f"{' '.join(tap.AS_NOBODY)} {tap.program('scenes')} threads 1 7"
    base = "families: []\ninclude: [cudaMalloc, cuMemAlloc_v2]\n"
    options = ["-c", tap.config(tmp_path, base + "filter: {uids: [65534]}"), f"--probes={method}"]
    result = tap.trace(tmp_path, "sh", "-c", script, options=options, env={"FAKE_CUDA_NESTED": "1"})
    c = result.stop["calls"]
    assert result.counts == {"cudaMalloc": 7} and {call["uid"] for call in result.calls} == {65534}
    assert c["entries"] == 514 and c["filtered"] == 500 and c["nested"] == 7 and c["orphan_exits"] == 0


def test_process_rate_limit(tmp_path):
    """Each process has its own."""
    result = tap.trace(tmp_path, "sh", "-c", f"{tap.program('scenes')} again 100 & {tap.program('scenes')} again 70; wait",
                       options=["-c", tap.config(tmp_path, SCENES + "process_rate_limit: {events: 1, burst: 20}")],
                       env={"FAKE_CUDA_NESTED": "0"})
    by_pid = collections.Counter(call["pid"] for call in result.calls)
    assert len(by_pid) == 2 and all(20 <= n < 60 for n in by_pid.values()), by_pid
    assert result.stop["calls"]["rate_limited"] == 170 - len(result.calls)


@pytest.mark.parametrize("wrong,message", [("rates: {launches: 10}", "no family"), ("rates: {launch: 0}", "whole number"),
                                           ("rates: {launch: 1.5}", "whole number"), ("rates: [launch]", "wants a map")])
def test_wrong(tmp_path, wrong, message):
    done = tap.run_plain("check", "-c", tap.config(tmp_path, f"sample: {{{wrong}}}\n"))
    assert done.returncode == 2 and message in done.stderr, done.stderr
