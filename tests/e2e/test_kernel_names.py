"""Names of kernels in launches, through forks, execs and ends of processes."""

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
