"""Graphs: what is seen of their nodes, of capturing them, of launching them."""

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
