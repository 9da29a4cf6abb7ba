"""The whole-host run of tests/gpu without a GPU: NVIDIA's own runtime in programs of all kinds, each call
failing, each seen; containers, layers, libraries loaded late."""

import os
import subprocess
import sys

import pytest
import tap
from test_nvcc import NVCC, fetch_nvcc

GPU = tap.ROOT / "tests/gpu"


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    fetch_nvcc()
    there = tmp_path_factory.mktemp("host")
    pic = ["-shared", "-Xcompiler", "-fPIC"]
    for name, words in (("calls-shared", ["-cudart", "shared"]), ("calls-static", ["-cudart", "static"]),
                        ("libcalls.so", ["-cudart", "shared", *pic])):
        subprocess.run([NVCC / "bin/nvcc", "-arch=sm_90", *words, "-o", there / name, GPU / "calls.cu"], check=True,
                       timeout=120)
    subprocess.run(["g++", "-o", there / "late", GPU / "late.cpp", "-ldl"], check=True)
    return there


def test_whole_host(tmp_path, programs):
    done = subprocess.run([sys.executable, GPU / "host.py", tap.CUDATAP, programs, tmp_path / "out", "--dry", "--late", "2"],
                          capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, "LD_LIBRARY_PATH": str(NVCC / "lib")})
    assert done.returncode == 0, done.stdout + done.stderr
