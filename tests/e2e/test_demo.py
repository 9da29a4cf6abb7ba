"""The demo program: what the README promises."""

import json
import subprocess

import tap


def test_each_line(tmp_path):
    run = tap.trace(tmp_path, tap.FAKE / "demo")
    assert run.code == 0
    run.assert_clean()
    assert run.start["command"] == [str(tap.FAKE / "demo")]
    assert [call["func"] for call in run.calls] == (
        ["cudaMalloc"] * 3 + ["cudaStreamCreate", "cudaEventCreate", "cudaMemcpy", "cudaMemcpyAsync", "cudaMemsetAsync"]
        + ["cudaLaunchKernel"] * 6 + ["cudaEventRecord", "cudaEventSynchronize", "cudaMemcpy", "cudaMalloc"]
        + ["cudaEventDestroy", "cudaStreamDestroy", "cudaFree", "cudaFree", "cudaDeviceSynchronize"])
    assert {call["comm"] for call in run.calls} == {"demo"}
    assert all("thread" not in call for call in run.calls)
    assert all(call["pid"] == call["tid"] for call in run.calls)
    assert sum(call.get("bytes", 0) for call in run.calls if call["family"] == "transfer") == 4 * 4 * 2**20
    assert [call["direction"] for call in run.named("cudaMemcpy")] == ["h2d", "d2h"]
    launch = run.named("cudaLaunchKernel")[1]
    assert (launch["grid"], launch["block"], launch["shared_bytes"]) == ([64, 2, 1], [32, 8, 1], 1024)
    assert launch["stream"] == run.named("cudaStreamCreate")[0]["out"]["pStream"]
    assert run.stop["exit_code"] == 0 and run.stop["reason"]


def test_failed_allocation(tmp_path):
    run = tap.trace(tmp_path, tap.FAKE / "demo")
    failed = [call for call in run.calls if call["status"] == "error"]
    assert len(failed) == 1
    assert failed[0]["func"] == "cudaMalloc" and failed[0]["ret"] == 2
    assert failed[0]["error"] == "cudaErrorMemoryAllocation" and failed[0]["error_message"] == "out of memory"
    assert failed[0]["bytes"] == 64 << 30 and "out" not in failed[0] and "ptr" not in failed[0]


def test_leak_can_be_seen(tmp_path):
    run = tap.trace(tmp_path, tap.FAKE / "demo")
    allocated = {call["ptr"] for call in run.named("cudaMalloc") if call["status"] == "ok"}
    freed = {call["ptr"] for call in run.named("cudaFree")}
    assert len(allocated) == 3 and freed < allocated and len(allocated - freed) == 1


def test_piped_to_jq(tmp_path):
    """Events on stdout: nothing else there, the program's own words on stderr."""
    shell = f"{tap.CUDATAP} -- {tap.FAKE / 'demo'} | jq -c 'select(.status==\"error\")'"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, timeout=30, env=tap.environment())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["error"] == "cudaErrorMemoryAllocation"
    assert "demo: 3 vectors" in done.stderr


def test_own_stdout(tmp_path):
    """With the events in a file the program keeps its stdout; --mix keeps it beside the events."""
    run = tap.trace(tmp_path, tap.FAKE / "demo")
    assert "demo: 3 vectors" in run.stdout and "demo: 3 vectors" not in run.stderr
    mixed = tap.run_plain("--mix", "--", tap.FAKE / "demo")
    assert "demo: 3 vectors" in mixed.stdout and '"type":"stop"' in mixed.stdout


def test_beside_a_real_driver(tmp_path):
    """On a machine with a GPU LD_LIBRARY_PATH may lead to another libcuda: the demo takes its own all the same."""
    subprocess.run(["cc", "-shared", "-o", tmp_path / "libcuda.so.1", "-Wl,-soname,libcuda.so.1", "-x", "c", "-"], check=True,
                   input="int cuInit(unsigned flags) { return 100; }\n", text=True)
    run = tap.trace(tmp_path, tap.FAKE / "demo", env={"LD_LIBRARY_PATH": str(tmp_path)})
    assert run.code == 0, run.stderr
    assert len(run.attached) == 2 and all(str(tap.FAKE) in event["path"] for event in run.attached)
