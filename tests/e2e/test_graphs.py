"""Graphs: what is seen of their nodes, of capturing them, of launching them."""

import sys

import nodes
import pytest
import tap

KEYS = ("bytes", "direction", "kernel_handle", "grid", "block", "shared_bytes", "ptr", "src_ptr")
# the functions that take a node's parameters in one structure, and at which argument
CASES = {
    "runtime 12": ("libcudart.so.12", nodes.RUNTIME12, {"cudaGraphAddNode": 4, "cudaGraphAddNode_v2": 5,
                                                       "cudaGraphNodeSetParams": 1, "cudaGraphExecNodeSetParams": 2}),
    "runtime 13": ("libcudart.so.13", nodes.RUNTIME13, {"cudaGraphAddNode": 5, "cudaGraphNodeSetParams": 1,
                                                       "cudaGraphExecNodeSetParams": 2}),
    "driver": ("libcuda.so.1", nodes.DRIVER, {"cuGraphAddNode": 4, "cuGraphAddNode_v2": 5, "cuGraphNodeSetParams": 1,
                                              "cuGraphExecNodeSetParams": 2}),
}


def trace_nodes(tmp_path, library, calls):
    (tmp_path / "calls").write_text("".join(f"{symbol} {position} {text}\n" for symbol, position, text in calls))
    command = f"exec {tap.program('nodes')} {tap.FAKE / library} <{tmp_path / 'calls'}"
    config = tap.config(tmp_path, "families: []\ninclude: ['cu*Graph*Node*']\n")
    return tap.trace(tmp_path, "sh", "-c", command, options=["-c", config])


@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_node(tmp_path, case):
    """The type and the member that it names, in every function, and the keys that follow from it."""
    library, kinds, functions = CASES[case]
    made = [(symbol, position, *nodes.node(tag, member)) for symbol, position in functions.items()
            for tag, member in kinds.items()]
    run = trace_nodes(tmp_path, library, [(symbol, position, data.hex()) for symbol, position, data, _ in made])
    assert run.code == 0, run.stderr
    assert len(run.calls) == len(made)
    for call, (symbol, _, _, shown) in zip(run.calls, made):
        assert call.get("symbol", call["func"]) == symbol
        assert call["args"]["nodeParams"] == shown, symbol
        expected = nodes.keys(shown)
        assert {key: call[key] for key in KEYS if key in call} == \
            {key: value for key, value in expected.items() if key in KEYS}, (symbol, shown)
        if "device" in expected:
            assert call["device"] == expected["device"]
    run.assert_clean()


@pytest.mark.parametrize("case", CASES)
def test_unreadable_node(tmp_path, case):
    """Memory that cannot be read leaves the address, and is counted."""
    library, kinds, functions = CASES[case]
    data, shown = nodes.node(*next(iter(kinds.items())))
    calls = [(symbol, position, text) for symbol, position in functions.items() for text in ("-", data.hex(), "-")]
    run = trace_nodes(tmp_path, library, calls)
    assert run.code == 0 and len(run.calls) == len(calls)
    for call, (_, _, text) in zip(run.calls, calls):
        if text == "-":
            assert call["args"]["nodeParams"].startswith("0x7") and call["status"] == "ok"
            assert not [key for key in KEYS if key in call]
        else:
            assert call["args"]["nodeParams"] == shown
    assert run.stop["calls"]["read_failed"] == 2 * len(functions)


def test_classic_probes(tmp_path):
    data, shown = nodes.node((1, "cudaGraphNodeTypeMemcpy"), nodes.RUNTIME13[(1, "cudaGraphNodeTypeMemcpy")])
    (tmp_path / "calls").write_text(f"cudaGraphAddNode 5 {data.hex()}\n")
    command = f"exec {tap.program('nodes')} {tap.FAKE / 'libcudart.so.13'} <{tmp_path / 'calls'}"
    config = tap.config(tmp_path, "families: []\ninclude: [cudaGraphAddNode]\n")
    run = tap.trace(tmp_path, "sh", "-c", command, options=["-c", config, "--probes=classic"])
    assert [call["args"]["nodeParams"] for call in run.calls] == [shown]


CAPTURE = """
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
class Dim3(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in "xyz"]
getattr(cuda, "__cudaRegisterFatBinary").restype = ctypes.c_void_p
kernel, stream, graph, executable = (ctypes.c_void_p(n) for n in (0x4000, 0, 0, 0))
module = ctypes.c_void_p(getattr(cuda, "__cudaRegisterFatBinary")(kernel))
getattr(cuda, "__cudaRegisterFunction")(module, kernel, kernel, b"_Z4workv", -1, None, None, None, None, None)
cuda.cudaStreamCreate(ctypes.byref(stream))
cuda.cudaStreamBeginCapture(stream, 0)
for n in (1, 2, 3):
    cuda.cudaLaunchKernel(kernel, Dim3(n, 1, 1), Dim3(32, 1, 1), None, ctypes.c_size_t(0), stream)
cuda.cudaMemcpyAsync(ctypes.c_void_p(0x1000), ctypes.c_void_p(0x2000), ctypes.c_size_t(4096), 1, stream)
cuda.cudaStreamEndCapture(stream, ctypes.byref(graph))
cuda.cudaGraphInstantiate(ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
for _ in range(5):
    cuda.cudaGraphLaunch(executable, stream)
"""


@pytest.mark.parametrize("nested", ["0", "1"])
def test_capture_and_launch(tmp_path, nested):
    """As docs/event-schema.md says under Graphs: captured calls are calls, a launch of a graph is one."""
    (tmp_path / "capture.py").write_text(CAPTURE)
    run = tap.trace(tmp_path, sys.executable, tmp_path / "capture.py", tap.FAKE / "libcudart.so.13",
                    env={"FAKE_CUDA_NESTED": nested})
    assert run.code == 0, run.stderr
    assert [call["func"] for call in run.calls if call["family"] not in ("module", "other")] == [
        "cudaStreamCreate", "cudaStreamBeginCapture", *["cudaLaunchKernel"] * 3, "cudaMemcpyAsync",
        "cudaStreamEndCapture", "cudaGraphInstantiate", *["cudaGraphLaunch"] * 5]
    launches = [call for call in run.calls if call["family"] == "launch"]
    assert [(call["kernel"], call["grid"]) for call in launches] == [("work()", [n, 1, 1]) for n in (1, 2, 3)]
    begin, end = run.named("cudaStreamBeginCapture")[0], run.named("cudaStreamEndCapture")[0]
    captured = [call for call in run.calls if begin["seq"] < call["seq"] < end["seq"]]
    assert len(captured) == 4 and {call["stream"] for call in (begin, end, *captured)} == {begin["stream"]}
    made = run.named("cudaGraphInstantiate")[0]
    assert made["args"]["graph"] == end["out"]["pGraph"]
    for call in run.named("cudaGraphLaunch"):
        assert call["args"]["graphExec"] == made["out"]["pGraphExec"] and call["stream"] == begin["stream"]
        assert not {"kernel", "kernel_handle", "grid", "bytes"} & call.keys()
    assert [event["total"]["bytes"] for event in run.of("process") if event["phase"] == "exit"] == [{"h2d": 4096}]


def test_nodes_move_nothing(tmp_path):
    """The bytes of a node are not those that a process has moved."""
    data, _ = nodes.node((1, "CU_GRAPH_NODE_TYPE_MEMCPY"), nodes.DRIVER[(1, "CU_GRAPH_NODE_TYPE_MEMCPY")])
    run = trace_nodes(tmp_path, "libcuda.so.1", [("cuGraphAddNode", 4, data.hex())] * 3)
    assert [call["direction"] for call in run.calls] == ["h2d"] * 3 and all(call["bytes"] for call in run.calls)
    assert [event["total"]["bytes"] for event in run.of("process") if event["phase"] == "exit"] == [{}]
