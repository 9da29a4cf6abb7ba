"""The fake CUDA libraries: the same exports, versions and first instruction as the real ones, values
that make sense, and cheap enough that a benchmark sees the probe and not the fake."""

import ctypes
import re
import shutil
import subprocess

import pytest
import tap

LIBRARIES = {"libcudart.so.11.0": "libcudart-11.8", "libcudart.so.12": "libcudart-12.9",
             "libcudart.so.13": "libcudart-13.5", "libcuda.so.1": "libcuda-580"}
PUSH_RBP = 0x55


def symbols(path):
    """Exported functions: name to (address, version)."""
    text = subprocess.run(["readelf", "--wide", "--dyn-syms", path], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 8 and words[3] == "FUNC" and words[6] != "UND":
            name, _, version = words[7].partition("@@")
            found[name] = (int(words[1], 16), version)
    return found


@pytest.mark.parametrize("library", LIBRARIES)
def test_exports(library):
    names = {name for name in symbols(tap.FAKE / library) if not name.startswith("fake_cuda")}
    expected = (tap.ROOT / f"tests/data/exports/{LIBRARIES[library]}.txt").read_text().split()
    assert names == set(expected)


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_function_begins_with_push(library):
    """Another first instruction makes a probe five to ten times dearer than on the real libraries."""
    data = (tap.FAKE / library).read_bytes()
    segments = [re.split(r"\s+", line.strip())
                for line in subprocess.run(["readelf", "--wide", "--segments", tap.FAKE / library], capture_output=True,
                                           text=True, check=True).stdout.splitlines() if line.strip().startswith("LOAD")]

    def offset(address):
        for words in segments:
            start, base, size = int(words[1], 16), int(words[2], 16), int(words[4], 16)
            if base <= address < base + size:
                return address - base + start
        raise AssertionError(hex(address))

    wrong = [name for name, (address, _) in symbols(tap.FAKE / library).items()
             if not name.startswith("fake_cuda") and data[offset(address)] != PUSH_RBP]
    assert not wrong


@pytest.mark.parametrize("major,library", [("11", "libcudart.so.11.0"), ("12", "libcudart.so.12"),
                                           ("13", "libcudart.so.13")])
def test_versions_are_those_of_the_real_library(major, library):
    real = tap.CACHE / major / "lib" / library
    if not real.exists():
        pytest.skip(f"{real} is not there: tools/fetch-headers.sh fetches it")
    fake = {name: version for name, (_, version) in symbols(tap.FAKE / library).items() if "fake_cuda" not in name}
    assert fake == {name: version for name, (_, version) in symbols(real).items()}


def test_results(tmp_path):
    """Set from the environment: results, delays, no out-values, the size of the memory."""
    script = """
import ctypes, sys, time
cuda = ctypes.CDLL(sys.argv[1])
p, q = ctypes.c_void_p(), ctypes.c_void_p()
cuda.cudaGetErrorString.restype = ctypes.c_char_p
size = ctypes.c_size_t
print(cuda.cudaMalloc(ctypes.byref(p), size(4 << 20)), cuda.cudaMalloc(ctypes.byref(q), size(4 << 20)))
print(p.value != q.value and abs(p.value - q.value) >= 4 << 20)
print(cuda.cudaMalloc(ctypes.byref(q), size((1 << 30) + 1)), cuda.cudaGetErrorString(2).decode())
print(cuda.cudaPeekAtLastError(), cuda.cudaGetLastError(), cuda.cudaGetLastError())
begin = time.monotonic()
print(cuda.cudaDeviceSynchronize(), time.monotonic() - begin >= 0.03)
print(cuda.cudaFree(p))
device = ctypes.c_int(77)
print(cuda.cudaGetDevice(ctypes.byref(device)), device.value)
cuda.fake_cuda_calls.restype = ctypes.c_uint64
print(cuda.fake_cuda_calls(b"cudaMalloc"), cuda.fake_cuda_calls(b"cuMemAlloc_v2"), cuda.fake_cuda_calls(b"nothing"))
"""
    env = {"FAKE_CUDA": "cudaDeviceSynchronize:delay=30ms;cudaFree*:ret=700;cudaGetDevice:outs=0",
           "FAKE_CUDA_MEMORY": "1GiB"}
    done = subprocess.run(["python3", "-c", script, tap.FAKE / "libcudart.so.12"], capture_output=True, text=True,
                          env=tap.environment(env), check=True)
    assert done.stdout.splitlines() == ["0 0", "True", "2 out of memory", "2 2 0", "0 True", "700", "0 77", "3 3 0"]


def test_struct_returned():
    class Desc(ctypes.Structure):
        _fields_ = [(name, ctypes.c_int) for name in "xyzwf"]

    cuda = ctypes.CDLL(str(tap.FAKE / "libcudart.so.11.0"))
    cuda.cudaCreateChannelDesc.restype = Desc
    desc = cuda.cudaCreateChannelDesc(1, 2, 3, 4, 5)
    assert [getattr(desc, name) for name in "xyzwf"] == [1, 2, 3, 4, 5]


def test_price(tmp_path):
    """A call costs tens of nanoseconds, a probe more than a thousand. The copies are nobody else's to probe."""
    for library in tap.FAKE.glob("libcu*.so*"):
        shutil.copy(library, tmp_path)
    best = 1e9
    for _ in range(5):
        done = subprocess.run([tap.program("rate"), "1", "1000000"], capture_output=True, text=True, check=True,
                              env=tap.environment({"FAKE_CUDA_NESTED": "0", "LD_LIBRARY_PATH": str(tmp_path)}))
        best = min(best, float(re.search(r"([0-9.]+) ns", done.stdout)[1]))
    assert best < 100, best
