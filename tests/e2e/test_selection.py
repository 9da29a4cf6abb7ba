"""Which calls are emitted: families, include and exclude, nesting, muted frames."""

import tap

RUNTIME = ["cudaMalloc", "cudaMemcpy", "cudaMemset", "cudaStreamCreate", "cudaLaunchKernel", "cudaStreamSynchronize",
           "cudaStreamDestroy", "cudaFree"]


def several(tmp_path, text="", options=()):
    options = ["-c", tap.config(tmp_path, text), *options]
    run = tap.trace(tmp_path, tap.program("scenes"), "several", options=options)
    assert run.code == 0 and run.lost() == 0 and run.stop["calls"]["duplicate"] == 0
    return run, [call["func"] for call in run.calls]


def test_default(tmp_path):
    run, names = several(tmp_path)
    assert names == RUNTIME  # in order of completion; query, device and error are not in the default
    assert run.stop["calls"]["nested"] > 0  # the driver's calls inside them
    run.assert_clean()


def test_families(tmp_path):
    _, names = several(tmp_path, "families: [memory, launch]")
    assert names == ["cudaMalloc", "cudaLaunchKernel", "cudaFree"]
    _, names = several(tmp_path, "families: [memory, launch]", ["-f", "transfer,query"])
    assert names == ["cudaGetDevice", "cudaMemcpy", "cudaMemset", "cudaStreamQuery"]
    _, names = several(tmp_path, "families: [default, query]")
    assert set(names) == {*RUNTIME, "cudaGetDevice", "cudaStreamQuery"}
    _, names = several(tmp_path, "families: all")
    assert len(names) == 12


def test_include_and_exclude(tmp_path):
    _, names = several(tmp_path, "families: [memory]\ninclude: [cudaStreamQuery, 'cudaMemc*']\nexclude: [cudaFree]")
    assert names == ["cudaMalloc", "cudaMemcpy", "cudaStreamQuery"]


def test_muted(tmp_path):
    """Excluding a runtime function must not bring up the driver's inside it."""
    run, names = several(tmp_path, "exclude: ['cudaMemset*']")
    assert names == [name for name in RUNTIME if name != "cudaMemset"]
    assert run.stop["calls"]["muted"] >= 1
    run, names = several(tmp_path, "families: []\ninclude: ['cuMemsetD8*']")
    assert names == [] and run.stop["calls"]["muted"] >= 1


def test_api(tmp_path):
    _, names = several(tmp_path, "api: [runtime]")
    assert names == RUNTIME
    run = tap.trace(tmp_path, tap.program("scenes"), "driver", "5",
                    options=["-c", tap.config(tmp_path, "api: [driver]")])
    assert run.counts == {"cuMemAlloc_v2": 5, "cuMemsetD8_v2": 5, "cuMemFree_v2": 5}
    assert {call["api"] for call in run.calls} == {"driver"}


def test_driver_alone(tmp_path):
    """Calls that bypass the runtime appear with nested: false."""
    run = tap.trace(tmp_path, tap.program("scenes"), "driver", "5")
    assert [call["func"] for call in run.calls[:3]] == ["cuMemAlloc", "cuMemsetD8", "cuMemFree"]
    assert len(run.calls) == 15
    run.assert_clean()


def test_nested(tmp_path):
    for options in (["--nested"], []):
        run, names = several(tmp_path, "" if options else "nested: true", options)
        pairs = {"cudaMalloc": "cuMemAlloc", "cudaMemcpy": "cuMemcpyDtoD", "cudaMemset": "cuMemsetD8",
                 "cudaStreamCreate": "cuStreamCreate", "cudaLaunchKernel": "cuLaunchKernel", "cudaFree": "cuMemFree",
                 "cudaStreamSynchronize": "cuStreamSynchronize", "cudaStreamDestroy": "cuStreamDestroy"}
        assert names == [name for outer in RUNTIME for name in (pairs[outer], outer)]
        for inner, outer in zip(run.calls[::2], run.calls[1::2]):
            assert (inner["depth"], inner["parent"]) == (1, outer["func"])
            assert outer.get("depth", 0) == 0 and "parent" not in outer
            assert inner["duration_ns"] <= outer["duration_ns"]
            assert outer["ts"] <= inner["ts"]
        assert run.stop["calls"]["nested"] == 0
        run.assert_clean()
        malloc, inner = run.named("cudaMalloc")[0], run.named("cuMemAlloc_v2")[0]
        assert malloc["ptr"] == inner["ptr"] and malloc["bytes"] == inner["bytes"] == 1000


def test_functions_that_jump_into_another(tmp_path):
    """__cudaLaunchKernel is a jump into cudaLaunchKernel: one call, one event."""
    run = tap.trace(tmp_path, tap.program("tail"), "9")
    assert run.counts == {"cudaLaunchKernel": 9, "cudaLaunchKernel_ptsz": 9}
    assert {call["stream"] for call in run.named("cudaLaunchKernel_ptsz")} == {"0x2"}
    run.assert_clean()


def test_host_and_constant_fields(tmp_path):
    path = tap.config(tmp_path, "host: node-7\n")
    run = tap.trace(tmp_path, tap.program("scenes"), "several", options=["-c", path])
    assert {event["host"] for event in run.events} == {"node-7"}
