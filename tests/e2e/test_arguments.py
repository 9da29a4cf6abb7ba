"""Arguments, results and out-values, against what a program says about its own calls: on the fake
libraries of every major, and on the real ones where there is no GPU."""

import json

import pytest
import tap

FAKES = {"11": "libcudart.so.11.0", "12": "libcudart.so.12", "13": "libcudart.so.13"}
IPC = "a5" * 64


def expected_lines(text):
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        if line["symbol"] == "cudaIpcOpenMemHandle":
            line["args"]["handle"] = IPC
    return lines


def compare(run, times):
    expected = expected_lines(run.stdout)
    calls = run.calls
    assert [call.get("symbol", call["func"]) for call in calls] == [line["symbol"] for line in expected]
    wrong = []
    for call, line in zip(calls, expected):
        if call["ret"] != line["ret"] or call.get("args", {}) != line["args"]:
            wrong.append((line, {key: call.get(key) for key in ("ret", "args")}))
        if line["ret"] == 0 and "out" in line and call.get("out") != line["out"]:
            wrong.append((line, {"out": call.get("out")}))
        if line["ret"] != 0 and "out" in call:
            wrong.append((line, {"out": call["out"]}))
    assert not wrong, f"{len(wrong)} of {len(expected)} differ, the first: expected {wrong[0][0]}, seen {wrong[0][1]}"
    assert len({line["symbol"] for line in expected}) >= 30
    assert set(run.counts.values()) == {times}
    run.assert_clean()


@pytest.mark.parametrize("probes", ["session", "multi"])
@pytest.mark.parametrize("major", FAKES)
def test_fake_libraries(tmp_path, major, probes):
    options = ["-c", tap.config(tmp_path, "families: all"), f"--probes={probes}"]
    run = tap.trace(tmp_path, tap.program("calls"), "7", tap.FAKE / FAKES[major], tap.FAKE / "libcuda.so.1",
                    options=options)
    assert run.code == 0, run.stderr
    compare(run, 7)
    assert {attach.get("major") for attach in run.attached} == {int(major), 13}


def test_classic_probes(tmp_path):
    """Classic probes are slow to remove: fewer functions."""
    path = tap.config(tmp_path, "families: []\ninclude: [cudaMemcpy3D, cudaLaunchKernel, cudaMalloc3D, cudaMalloc,"
                                " cuLaunchKernel, cuModuleGetFunction]\n")
    run = tap.trace(tmp_path, tap.program("calls"), "5", tap.FAKE / FAKES["13"], tap.FAKE / "libcuda.so.1",
                    options=["-c", path, "--probes=classic"])
    expected = [line for line in expected_lines(run.stdout) if line["symbol"] in run.counts]
    assert [call["func"] for call in run.calls] == [line["symbol"] for line in expected]
    for call, line in zip(run.calls, expected):
        seen = call["args"]
        if call["func"] == "cuModuleGetFunction" and seen["name"].startswith("0x"):
            # the page of the name was never touched: a plain probe cannot read it, and says so
            assert run.stop["calls"]["read_failed"] > 0
            line["args"]["name"] = seen["name"]
        assert seen == line["args"]
    assert set(run.counts.values()) == {5} and len(run.counts) == 6


@pytest.mark.parametrize("major", FAKES)
@pytest.mark.skipif(tap.GPUS > 0, reason="there is a GPU here, where the libraries believe the made-up pointers")
def test_real_libraries(tmp_path, major):
    library = tap.CACHE / major / "lib" / FAKES[major]
    if not library.exists():
        pytest.skip(f"{library} is not there: tools/fetch-headers.sh fetches it")
    run = tap.trace(tmp_path, tap.program("calls"), "20", library,
                    options=["-c", tap.config(tmp_path, "families: all\napi: [runtime]")])
    assert run.code == 0, run.stderr
    compare(run, 20)
    assert {call["ret"] for call in run.calls} - {0} <= {35, 100}
    failed = [call for call in run.calls if call["ret"] == 35]
    assert failed and {call["error"] for call in failed} == {"cudaErrorInsufficientDriver"}
    assert run.stop["calls"]["entries"] == run.stop["calls"]["emitted"] == len(run.calls)
    assert run.attached[0]["major"] == int(major)


def test_normalised_keys(tmp_path):
    """The keys beside args are the same for both libraries."""
    run = tap.trace(tmp_path, tap.program("calls"), "1", tap.FAKE / FAKES["13"], tap.FAKE / "libcuda.so.1",
                    options=["-c", tap.config(tmp_path, "families: all")])
    one = {call.get("symbol", call["func"]): call for call in run.calls}
    picked = {
        "cudaMalloc": {"bytes": 1048577},
        "cudaMallocPitch": {"bytes": 50000},
        "cudaMalloc3D": {"bytes": 18000},
        "cudaMemcpy": {"bytes": 1000, "direction": "h2d", "ptr": "0x7a0000011000", "src_ptr": "0x7a0000021000"},
        "cudaMemcpyAsync": {"bytes": 2000, "direction": "d2h", "stream": "0x5500aa80"},
        "cudaMemcpyAsync_ptsz": {"func": "cudaMemcpyAsync", "stream": "0x2", "bytes": 2001},
        "cudaMemcpy2D": {"bytes": 2000, "direction": "d2d"},
        "cudaMemcpy3D": {"bytes": 896, "direction": "d2d"},
        "cudaMemcpyPeer": {"bytes": 3000, "direction": "p2p"},
        "cudaMemset2D": {"bytes": 300},
        "cudaMemset3D": {"bytes": 18000},
        "cudaLaunchKernel": {"grid": [70000, 3, 2], "block": [32, 4, 8], "shared_bytes": 49152, "stream": "0x5500aa80",
                             "kernel_handle": "0x7a0000011000"},
        "cudaLaunchKernelExC": {"grid": [5, 6, 7], "block": [8, 9, 10], "shared_bytes": 4096},
        "cudaSetDevice": {"device": 1234},
        "cuMemAlloc_v2": {"func": "cuMemAlloc", "bytes": 256},
        "cuMemFree_v2": {"ptr": "0x7f2233440000"},
        "cuMemcpyHtoD_v2": {"bytes": 4242, "direction": "h2d", "ptr": "0x7f2233440000", "src_ptr": "0x7a0000011000"},
        "cuMemcpyDtoHAsync_v2": {"bytes": 4243, "direction": "d2h", "stream": "0x5500aa80"},
        "cuMemsetD32_v2": {"bytes": 52},
        "cuLaunchKernel": {"grid": [1, 2, 3], "block": [4, 5, 6], "shared_bytes": 7, "kernel_handle": "0x8880"},
        "cuLaunchKernelEx": {"grid": [11, 12, 13], "block": [14, 15, 16], "shared_bytes": 17, "stream": "0x5500aa80"},
    }
    for symbol, keys in picked.items():
        seen = {key: one[symbol].get(key) for key in keys}
        assert seen == keys, symbol
    assert one["cudaMalloc"]["ptr"] == one["cudaMalloc"]["out"]["devPtr"]
    assert one["cuMemAlloc_v2"]["ptr"] == one["cuMemAlloc_v2"]["out"]["dptr"]


def test_without_args(tmp_path):
    options = ["-c", tap.config(tmp_path, "fields: {args: false}")]
    run = tap.trace(tmp_path, tap.FAKE / "demo", options=options)
    assert all("args" not in call and "out" not in call for call in run.calls)
    assert run.named("cudaMemcpy")[0]["bytes"] == 4 << 20


def test_no_status(tmp_path):
    """Functions that return a struct, a text or nothing have no ret; a hidden pointer shifts no argument."""
    run = tap.trace(tmp_path, tap.program("scenes"), "returns", options=["-f", "all"])
    assert all("ret" not in call and call["status"] == "ok" for call in run.calls) and len(run.calls) == 4
    desc, name, text, registered = run.calls
    assert desc["args"] == {"x": 1, "y": -2, "z": 3, "w": 4, "f": "cudaChannelFormatKindFloat"}
    assert name["args"] == text["args"] == {"error": "cudaErrorMemoryAllocation"}
    assert name["out"] == {"return": "cudaErrorMemoryAllocation"} and text["out"] == {"return": "out of memory"}
    assert registered["args"]["deviceName"] == "_Z6kernelPf" and registered["args"]["thread_limit"] == -1


def test_status(tmp_path):
    """not_ready is an answer, cudaGetLastError reports an older error."""
    run = tap.trace(tmp_path, tap.program("scenes"), "several", options=["-f", "all"],
                    env={"FAKE_CUDA": "cudaStreamQuery:ret=600;cudaMemset:ret=700;cudaMalloc:ret=12345"})
    query, memset, malloc = (run.named(name)[0] for name in ("cudaStreamQuery", "cudaMemset", "cudaMalloc"))
    assert (query["status"], query["ret"], query["error"]) == ("not_ready", 600, "cudaErrorNotReady")
    assert (memset["status"], memset["error"]) == ("error", "cudaErrorIllegalAddress")
    assert memset["error_message"] == "an illegal memory access was encountered"
    assert (malloc["status"], malloc["ret"], malloc["error"]) == ("error", 12345, "cudaError_t(12345)")
    assert "error_message" not in malloc
    last = run.named("cudaGetLastError")[0]
    assert last["ret"] == 700 and last["status"] == "ok"
