"""Names of kernels in launches, through forks, execs and ends of processes."""

import json
import sys

import pytest
import tap

BEGIN = """
import ctypes, os, sys, time
cuda = ctypes.CDLL(sys.argv[1])
class Dim3(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in "xyz"]
getattr(cuda, "__cudaRegisterFatBinary").restype = ctypes.c_void_p
KERNEL = ctypes.c_void_p(0x4000)
def register(name):
    global module
    module = ctypes.c_void_p(getattr(cuda, "__cudaRegisterFatBinary")(KERNEL))
    getattr(cuda, "__cudaRegisterFunction")(module, KERNEL, KERNEL, name, -1, None, None, None, None, None)
def unregister():
    getattr(cuda, "__cudaUnregisterFatBinary")(module)
def launch(n):
    cuda.cudaLaunchKernel(KERNEL, Dim3(n, 1, 1), Dim3(1, 1, 1), None, ctypes.c_size_t(0), None)
"""

SCENES = {
    # a daemon, as daemon(3) makes one: the parent ends before the child's first call
    "daemon": ("""
register(b"_Z4workv")
if os.fork(): os._exit(0)
time.sleep(.1)
launch(1)
""", {1: "work()"}),
    # twice forked, and the one between has made no call
    "grandchild": ("""
register(b"_Z4workv")
launch(1)
if not os.fork():
    if not os.fork():
        launch(2)
        os._exit(0)
    os.wait()
    os._exit(0)
os.wait()
""", {1: "work()", 2: "work()"}),
    # what the parent unregisters the child still has
    "unregister": ("""
register(b"_Z4workv")
launch(1)
r, w = os.pipe()
if not os.fork():
    os.close(w)
    os.read(r, 1)
    launch(2)
    os._exit(0)
unregister()
launch(3)
register(b"_Z3newv")
launch(4)
os.close(w)
os.wait()
""", {1: "work()", 2: "work()", 3: None, 4: "new()"}),
    # another program has nothing of this one's, whoever executes it
    "exec": ("""
if len(sys.argv) > 2:
    launch(9)
    os._exit(0)
register(b"_Z4workv")
launch(1)
if not os.fork():
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:], "again"])
os.wait()
""", {1: "work()", 9: None}),
}


@pytest.mark.parametrize("scene", SCENES)
def test_forks(tmp_path, scene):
    script, expected = SCENES[scene]
    path = tmp_path / "script.py"
    path.write_text(BEGIN + script)
    words = f"{sys.executable} {path} {tap.FAKE}/libcudart.so.13; sleep 0.3"
    run = tap.trace(tmp_path, "sh", "-c", words, env={"FAKE_CUDA_NESTED": "0"})
    assert run.code == 0, run.stderr
    assert {call["grid"][0]: call.get("kernel") for call in run.named("cudaLaunchKernel")} == expected
    assert run.lost() == 0 and run.stop["calls"]["names_lost"] == 0


@pytest.mark.parametrize("count,length", [(22000, 600), (3000, 4000)])
def test_as_many_as_an_import_registers(tmp_path, count, length):
    """A burst of names costs none of them and no call."""
    run = tap.trace(tmp_path, tap.program("many_kernels"), count, length)
    assert run.stop["calls"]["names_lost"] == 0, run.stop["calls"]
    assert [call["kernel"] for call in run.calls if "kernel" in call] == [f"kernel_{count - 1:0{length - 7}d}"]


NODES = """
driver = ctypes.CDLL(sys.argv[2])
class Params(ctypes.Structure):
    _fields_ = [("func", ctypes.c_void_p), ("grid", Dim3), ("block", Dim3), ("shared", ctypes.c_uint),
                ("args", ctypes.c_void_p), ("extra", ctypes.c_void_p)]
class DriverParams(ctypes.Structure):
    _fields_ = [("func", ctypes.c_void_p), ("grid", Dim3), ("block", Dim3), ("shared", ctypes.c_uint),
                ("args", ctypes.c_void_p), ("extra", ctypes.c_void_p), ("kern", ctypes.c_void_p),
                ("context", ctypes.c_void_p)]
class Config(ctypes.Structure):
    _fields_ = [("grid", Dim3), ("block", Dim3), ("shared", ctypes.c_size_t), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.c_void_p), ("n", ctypes.c_uint)]
class DriverConfig(ctypes.Structure):
    _fields_ = [("grid", Dim3), ("block", Dim3), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.c_void_p), ("n", ctypes.c_uint)]
one, node, P, N = Dim3(1, 1, 1), ctypes.c_void_p(), ctypes.c_void_p, ctypes.c_size_t
register(b"_Z4workv")
def params(n): return ctypes.byref(Params(KERNEL, Dim3(n, 2, 3), Dim3(4, 5, 6), 7))
def node_params(func, kern, n): return ctypes.byref(DriverParams(func, Dim3(n, 2, 3), Dim3(4, 5, 6), 7, None, None, kern))
cuda.cudaGraphAddKernelNode(ctypes.byref(node), P(16), None, N(0), params(1))
cuda.cudaGraphKernelNodeSetParams(P(17), params(2))
cuda.cudaGraphExecKernelNodeSetParams(P(18), P(17), params(3))
cuda.cudaLaunchCooperativeKernel(KERNEL, Dim3(4, 2, 3), Dim3(4, 5, 6), None, N(7), None)
cuda.cudaLaunchKernelExC(ctypes.byref(Config(Dim3(5, 2, 3), Dim3(4, 5, 6), 7)), KERNEL, None)
module, function = P(), P()
driver.cuModuleLoadData(ctypes.byref(module), b"image")
driver.cuModuleGetFunction(ctypes.byref(function), module, b"_Z4restv")
library, kernel = P(), P()
driver.cuLibraryLoadData(ctypes.byref(library), b"image", None, None, 0, None, None, 0)
driver.cuLibraryGetKernel(ctypes.byref(kernel), library, b"_Z4morev")
driver.cuGraphAddKernelNode(ctypes.byref(node), P(16), None, N(0), node_params(function, None, 6))
driver.cuGraphAddKernelNode_v2(ctypes.byref(node), P(16), None, N(0), node_params(function, 99, 7))
driver.cuGraphKernelNodeSetParams_v2(P(17), node_params(None, kernel, 8))
driver.cuGraphExecKernelNodeSetParams_v2(P(18), P(17), node_params(None, kernel, 9))
driver.cuLaunchCooperativeKernel(function, 10, 2, 3, 4, 5, 6, 7, None, None)
driver.cuLaunchKernelEx(ctypes.byref(DriverConfig(Dim3(11, 2, 3), Dim3(4, 5, 6), 7)), kernel, None, None)
"""


def test_every_way_to_launch_and_every_node(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(BEGIN + NODES)
    run = tap.trace(tmp_path, sys.executable, path, tap.FAKE / "libcudart.so.13", tap.FAKE / "libcuda.so.1",
                    options=["-f", "launch,graph"], env={"FAKE_CUDA_NESTED": "0"})
    assert run.code == 0, run.stderr
    launches = [call for call in run.calls if "kernel_handle" in call]
    assert [(call["grid"][0], call.get("kernel")) for call in launches] == \
        [(i, "work()") for i in range(1, 6)] + [(i, name) for i, name in zip(
            range(6, 12), ["rest()", "rest()", "more()", "more()", "rest()", "more()"], strict=True)]
    assert {(*call["grid"][1:], *call["block"], call["shared_bytes"]) for call in launches} == {(2, 3, 4, 5, 6, 7)}
    run.assert_clean()


@pytest.mark.parametrize("style,shown", [("demangled", ("work()", None)), ("mangled", ("_Z4workv", None)),
                                         ("both", ("work()", "_Z4workv")), ("off", (None, None))])
def test_styles(tmp_path, style, shown):
    path = tmp_path / "script.py"
    path.write_text(BEGIN + 'register(b"_Z4workv")\nlaunch(1)\n')
    run = tap.trace(tmp_path, sys.executable, path, tap.FAKE / "libcudart.so.13", env={"FAKE_CUDA_NESTED": "0"},
                    options=["-c", tap.config(tmp_path, f"names: {style}\n")])
    call, = run.named("cudaLaunchKernel")
    assert (call.get("kernel"), call.get("kernel_mangled")) == shown


@pytest.mark.parametrize("form", ["ecs", "otlp"])
def test_both_in_other_formats(tmp_path, form):
    path, out = tmp_path / "script.py", tmp_path / "out.jsonl"
    path.write_text(BEGIN + 'register(b"_Z4workv")\nlaunch(1)\n')
    options = tap.config(tmp_path, f"names: both\nsinks: {{out: {{type: file, path: {out}, format: {form}}}}}\n")
    done = tap.run_plain("-c", options, "--", sys.executable, path, tap.FAKE / "libcudart.so.13")
    assert done.returncode == 0, done.stderr
    line, = [line for line in out.read_text().splitlines() if '"cudaLaunchKernel"' in line]
    if form == "ecs":
        cuda = json.loads(line)["cuda"]
        assert (cuda["kernel"], cuda["kernel_mangled"]) == ("work()", "_Z4workv")
    else:
        assert '{"key":"cuda.kernel_mangled","value":{"stringValue":"_Z4workv"}}' in line and json.loads(line)
