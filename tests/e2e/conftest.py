"""What the end-to-end tests need: rights, the programs that they trace, and a choice of probes."""

import os
import pathlib
import re
import sys
import threading

import pytest
import tap

# On a machine with a GPU it may lead to the real libraries; the programs know where the fakes are.
os.environ.pop("LD_LIBRARY_PATH", None)

# Detaching classic probes takes 0.1 s each: with them only what a test calls is probed.
FEW = ["cudaMalloc", "cudaFree", "cudaMemset", "cudaDeviceSynchronize"]


def missing():
    if os.geteuid() != 0:
        return "not root: probes need rights"
    if not pathlib.Path("/sys/kernel/btf/vmlinux").exists():
        return "this kernel has no BTF"
    return None


# Facts of Linux, not what cudatap finds: a kernel that has them must be used.
SINCE = {"session": (6, 13), "multi": (6, 6)}


def kernel_lacks(item):
    """Why this kernel cannot have the kind of probes that the test is run with."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    kernel = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
    for key in ("probes", "method"):
        since = SINCE.get(params.get(key), kernel)
        if kernel < since:
            return "{} probes came with Linux {}.{}".format(params[key], *since)
    return None


def pytest_collection_modifyitems(items):
    reason = missing()
    here = pathlib.Path(__file__).parent
    for item in items:
        why = reason or kernel_lacks(item)
        if why and here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session", autouse=True)
def built():
    for path in (tap.CUDATAP, tap.FAKE / "libcudart.so.13", tap.FAKE / "demo", tap.PROGRAMS / "scenes"):
        if not path.exists():
            pytest.fail(f"no {path}: run `make all fake demo-program test-programs` first", pytrace=False)


@pytest.fixture
def counts(tmp_path):
    """A directory for the fakes' own counts, and the environment that makes them count there."""
    directory = tmp_path / "counts"
    directory.mkdir()
    directory.chmod(0o777)
    return directory


@pytest.fixture(params=tap.PROBES)
def probes(request, tmp_path):
    """Options for each kind of probe, on the few functions that the scenes call."""
    path = tap.config(tmp_path, f"api: [runtime]\nfamilies: []\ninclude: [{', '.join(FEW)}]\n")
    return ["-c", path, f"--probes={request.param}"]


@pytest.fixture
def few(tmp_path):
    """The same functions with the kernel's best probes."""
    return ["-c", tap.config(tmp_path, f"families: []\ninclude: [{', '.join(FEW)}]\n")]


def pytest_unconfigure():
    """All is said; a thread that a failed test left behind would keep the run from ending."""
    if any(thread.is_alive() and not thread.daemon for thread in threading.enumerate()[1:]):
        sys.stdout.flush()
        os._exit(1)
