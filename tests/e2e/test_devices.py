"""The device of each call, through threads, contexts and forks; and what its number means."""

import subprocess

import pytest
import tap

ONLY_ONE = tap.GPUS == 1  # where the runtime begins, whatever came before
ALLOCATIONS = 51  # of the program `devices`


def check(run, expected):
    allocations = run.named("cudaMalloc", "cuMemAlloc_v2")
    for call in allocations:
        known = call["bytes"] - 1000
        if known == -1 and ONLY_ONE and call["api"] == "runtime":
            known = 0
        assert call.get("device", -1) == known, (call["func"], call["bytes"], call.get("device"))
    assert len(allocations) == expected


@pytest.mark.parametrize("nested", ["0", "1"])
@pytest.mark.parametrize("method", tap.PROBES)
def test_followed(tmp_path, method, nested):
    """Though none of the calls that change the device is selected."""
    config = tap.config(tmp_path, "families: []\ninclude: [cudaMalloc, cuMemAlloc_v2]\n")
    run = tap.trace(tmp_path, tap.program("devices"), options=["-c", config, f"--probes={method}"],
                    env={"FAKE_CUDA_NESTED": nested})
    assert set(run.counts) == {"cudaMalloc", "cuMemAlloc_v2"}
    check(run, ALLOCATIONS)
    assert run.lost() == 0 and run.stop["calls"]["open"] == 0


def test_uuid(tmp_path):
    """A `device` event for each of a process's devices, once."""
    run = tap.trace(tmp_path, tap.program("devices"), env={"FAKE_CUDA_NESTED": "0"})
    told = run.of("device")
    assert sorted(event["device"] for event in told) == [0, 1]
    assert all(event["pid"] == run.calls[0]["pid"] and event["comm"] == "devices" for event in told)
    check(run, ALLOCATIONS)


def test_older_process(tmp_path):
    """A process that set its device before anybody looked: its device is not known until it is set again."""
    config = tap.config(tmp_path, "families: []\ninclude: [cudaMemset]\n")
    loop = subprocess.Popen([tap.program("scenes"), "loop"], stdout=subprocess.DEVNULL, env=tap.environment())
    try:
        with tap.running(["-c", config, "-p", loop.pid], tmp_path) as running:
            running.wait_for(lambda text: text.count('"type":"call"') > 5, "calls")
            run = running.end()
    finally:
        loop.kill()
        loop.wait()
    assert {call.get("device") for call in run.calls} == {0 if ONLY_ONE else None}


def test_whole_host(tmp_path):
    """A process that comes after the probes begins with the first device."""
    library = tap.FAKE / "libcudart.so.13"
    config = tap.config(tmp_path, f"families: []\nlibraries: [{library}]\ninclude: [cudaMemset]\n")
    with tap.running(["-c", config], tmp_path) as running:
        running.wait_attached("libcudart.so.13")
        program = subprocess.run([tap.program("scenes"), "again", "3"], check=True, env=tap.environment())
        assert program.returncode == 0
        running.wait_for(lambda text: text.count('"type":"call"') == 3, "calls")
        run = running.end()
    assert [call.get("device") for call in run.calls] == [0, 0, 0]


def test_explicit_device_stays(tmp_path):
    config = tap.config(tmp_path, "families: []\ninclude: [cudaSetDevice]\n")
    run = tap.trace(tmp_path, tap.program("devices"), options=["-c", config])
    assert [call["device"] for call in run.calls] == [1, 3, 2, 3, 7, 2, 7]


@pytest.mark.parametrize("nested", ["0", "1"])
def test_named_devices(tmp_path, nested):
    """The device that a call names; none is named by a negative number and a location on the host: the current one."""
    run = tap.trace(tmp_path, tap.program("devices"), "named", options=["-f", "all"], env={"FAKE_CUDA_NESTED": nested})
    assert [(call["func"], call["device"]) for call in run.calls] == [
        ("cudaSetDevice", 1),
        ("cudaMemcpyPeer", 2), ("cudaMemcpyPeerAsync", 4),
        ("cudaDeviceGetAttribute", 5), ("cudaDeviceCanAccessPeer", 3), ("cudaDeviceEnablePeerAccess", 6),
        ("cudaMemPrefetchAsync", 3), ("cudaMemPrefetchAsync", 1), ("cudaMemAdvise", 4), ("cudaMemGetMemPool", 2),
        ("cuMemPrefetchAsync", 3), ("cuMemPrefetchAsync", 1),
        ("cudaMemcpyAsync", 1),
        ("cudaSetDevice", 99), ("cudaSetDevice", 1),
    ]
    peers = run.named("cudaMemcpyPeer", "cudaMemcpyPeerAsync")
    assert {call["direction"] for call in peers} == {"p2p"}
    assert [(call["args"]["srcDevice"], call["args"]["dstDevice"]) for call in peers] == [(3, 2), (0, 4)]
    assert run.calls[-1]["args"] == {"device": -1}
