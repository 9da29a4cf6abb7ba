"""Programs that NVIDIA's own compiler built: libcudart shared, static, static and stripped. Without a
GPU their calls fail, and are seen to fail; on the fake libcuda the real runtime gets some way."""

import collections
import json
import os
import shutil
import subprocess
import sys

import pytest
import tap

NVCC = tap.CACHE / "nvcc"
GENERATED = {"__cudaRegisterFatBinary": 1, "__cudaRegisterFatBinaryEnd": 1, "__cudaRegisterFunction": 2,
             "__cudaUnregisterFatBinary": 1}
TIMES = 25


def fetch_nvcc():
    if not shutil.which("g++"):
        pytest.skip("nvcc needs a g++")
    fetched = subprocess.run([tap.ROOT / "tools/fetch-nvcc.sh"], capture_output=True, text=True, check=False)
    if fetched.returncode:
        pytest.skip(f"nvcc cannot be fetched: {fetched.stderr.strip()[-200:]}")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """shared, static and stripped, built once."""
    fetch_nvcc()
    there = tmp_path_factory.mktemp("nvcc")
    for kind in ("shared", "static"):
        subprocess.run([NVCC / "bin/nvcc", "-cudart", kind, "-arch=sm_90", "-o", there / kind,
                        tap.ROOT / "tests/programs/kernels.cu"], check=True, timeout=120)
    for kind, words in {"old-shared": ["-cudart", "shared"], "old-static": ["-cudart", "static"],
                        "old-no-pie": ["-cudart", "static", "-Xcompiler", "-fno-pie", "-Xlinker", "-no-pie"]}.items():
        subprocess.run([NVCC / "bin/nvcc", *words, "-arch=sm_90", "-o", there / kind, tap.ROOT / "tests/gpu/calls.cu"],
                       check=True, timeout=120)
    subprocess.run(["strip", "-o", there / "old-stripped", there / "old-shared"], check=True)
    shutil.copy(there / "static", there / "stripped")
    subprocess.run(["strip", there / "stripped"], check=True)
    return there


def trace(tmp_path, programs, kind, options=("-f", "all"), path=""):
    env = {"LD_LIBRARY_PATH": f"{path}:{NVCC / 'lib'}"}
    run = tap.trace(tmp_path, programs / kind, str(TIMES), options=options, env=env)
    assert run.code == 0, run.stderr
    counted = {name: int(n) for name, n in (line.split() for line in run.stdout.splitlines())}
    return run, collections.Counter(counted)


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_every_call(tmp_path, programs, kind):
    run, counted = trace(tmp_path, programs, kind)
    assert {name: run.counts[name] for name in counted} == counted
    assert {name: run.counts[name] for name in GENERATED} == GENERATED
    assert run.counts["__cudaPushCallConfiguration"] == run.counts["__cudaPopCallConfiguration"] == 2 * TIMES
    run.assert_clean()
    assert [event["static"] for event in run.attached if "runtime" in event["apis"]] == [kind == "static"]
    assert all(event["major"] == 13 for event in run.attached if "runtime" in event["apis"])
    names = {call["args"]["deviceName"] for call in run.named("__cudaRegisterFunction")}
    assert names == {"_Z5scalePffi", "_Z4fillPff"}


def test_arguments(tmp_path, programs):
    run, _ = trace(tmp_path, programs, "static")
    assert [call["bytes"] for call in run.named("cudaMalloc")] == [1024 + i for i in range(TIMES)] + [1 << 60]
    assert [call["device"] for call in run.named("cudaSetDevice")] == [0, 12345]
    launches = run.named("cudaLaunchKernel")
    assert {(tuple(call["grid"]), tuple(call["block"]), call["shared_bytes"]) for call in launches} == \
        {((4, 2, 1), (64, 1, 1), 16), ((7, 1, 1), (8, 1, 1), 0)}
    assert {call["direction"] for call in run.named("cudaMemcpy")} == {"h2d"}
    assert {call["direction"] for call in run.named("cudaMemcpyAsync")} == {"d2h"}
    if not os.path.exists("/dev/nvidiactl"):
        assert {call["error"] for call in run.named("cudaMalloc")} <= {"cudaErrorInsufficientDriver", "cudaErrorNoDevice"}


def test_default_families(tmp_path, programs):
    """What nvcc's generated code calls is not in the default."""
    run, counted = trace(tmp_path, programs, "shared", options=())
    expected = {name: n for name, n in counted.items() if name != "cudaSetDevice"}
    assert {name: n for name, n in run.counts.items() if not name.startswith("__")} == expected


def test_on_the_fake_driver(tmp_path, programs):
    """The real runtime on a fake driver: it takes the driver's functions by cuGetProcAddress."""
    there = tmp_path / "driver"
    there.mkdir()
    shutil.copy(tap.FAKE / "libcuda.so.1", there)
    run, counted = trace(tmp_path, programs, "shared", options=("-f", "all", "--nested"), path=str(there))
    assert {name: run.counts[name] for name in counted} == counted
    inner = [call for call in run.calls if call["api"] == "driver"]
    if not inner:
        pytest.skip("the real runtime does not load this libcuda")
    assert {call["parent"] for call in inner} <= set(run.counts) and {call["depth"] for call in inner} == {1}
    assert run.counts["cuGetProcAddress_v2"] > 100
    looked_up = {call["args"]["symbol"] for call in inner if "symbol" in call["args"]}
    assert {"cuInit", "cuMemAlloc", "cuLaunchKernel"} <= looked_up
    run.assert_clean()
    again, _ = trace(tmp_path, programs, "shared", options=("-f", "all"), path=str(there))
    assert not [call for call in again.calls if call["api"] == "driver"], "the outermost calls are the runtime's"


def test_stripped(tmp_path, programs):
    """Without symbols only the driver's functions are left."""
    run, _ = trace(tmp_path, programs, "stripped")
    assert not [call for call in run.calls if call["api"] == "runtime"]
    there = tmp_path / "driver"
    there.mkdir()
    shutil.copy(tap.FAKE / "libcuda.so.1", there)
    run, _ = trace(tmp_path, programs, "stripped", path=str(there))
    assert run.calls and {call["api"] for call in run.calls} == {"driver"}
    assert all("depth" not in call for call in run.calls)
    run.assert_clean()


@pytest.mark.parametrize("kind", ["old-shared", "old-static", "old-no-pie", "old-stripped"])
def test_kernels_of_a_process_older_than_the_tracer(tmp_path, programs, kind):
    """Its kernels were registered before: the symbols of its file name them. A stripped one keeps the handles."""
    env = tap.environment({"OWN_DRY": "1", "OWN_GATE": str(tmp_path), "LD_LIBRARY_PATH": str(NVCC / "lib")})
    process = subprocess.Popen([programs / kind, tmp_path / "counts.json"], env=env)
    try:
        with tap.running(["-p", process.pid, "-f", "launch"], tmp_path) as running:
            running.wait_for(lambda text: '"type":"attach"' in text, "the library to be found")
            (tmp_path / "go").touch()
            running.wait_for(lambda text: text.count('"type":"call"') >= 150, "the launches")
            (tmp_path / "end").touch()
            run = running.finish()
    finally:
        process.kill()
        process.wait()
    expected = json.loads((tmp_path / "counts.json").read_text())["launches"]
    assert expected == {"scale(float*, float, int)": 100, "add_grid(float*, int)": 50}
    got = collections.Counter(call.get("kernel") for call in run.calls)
    assert got == (expected if kind != "old-stripped" else {None: 150})
    assert len({call["kernel_handle"] for call in run.calls}) == 2
    run.assert_clean()


@pytest.fixture(scope="module")
def devices(tmp_path_factory):
    """tests/gpu/devices.cu, which is for several GPUs, built for the fake libraries."""
    fetch_nvcc()
    program = tmp_path_factory.mktemp("devices") / "devices"
    subprocess.run([NVCC / "bin/nvcc", "-cudart", "shared", "-arch=sm_90", "-o", program,
                    tap.ROOT / "tests/gpu/devices.cu", f"-Xlinker={tap.FAKE / 'libcuda.so.1'}"], check=True, timeout=120)
    return program


def trace_devices(tmp_path, program, number, families):
    """The program's own comparison, as tests/gpu/run.sh makes it: its exit code and what it says."""
    env = {"OWN_DRY": "1", "OWN_DEVICES": str(number), "LD_LIBRARY_PATH": str(tap.FAKE)}
    run = tap.trace(tmp_path, program, tmp_path / "own.json", options=["-f", families], env=env)
    assert run.code == 0, run.stderr
    run.assert_clean()
    events = tmp_path / "events.jsonl"
    events.write_text("".join(json.dumps(event) + "\n" for event in run.events))
    return run, events


def compare_devices(tmp_path, events):
    return subprocess.run([sys.executable, tap.ROOT / "tests/gpu/compare.py", "own", tmp_path / "own.json", events,
                           "devices"], cwd=tmp_path, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("families", ["all", "memory,transfer,launch,graph"])
@pytest.mark.parametrize("number", [1, 2, 8])
def test_devices_of_a_program(tmp_path, devices, number, families):
    run, events = trace_devices(tmp_path, devices, number, families)
    compared = compare_devices(tmp_path, events)
    assert compared.returncode == 0, compared.stdout
    assert {call["device"] for call in run.calls if call["func"] == "cudaMalloc"} == set(range(number))


@pytest.mark.parametrize("wrong", [("device", 1, 0), ("bytes", 65536, 65535), ("kernel", "add(int*, int)", "sub"),
                                   ("func", "cudaMemset", "cudaMemset2D")], ids=lambda wrong: wrong[0])
def test_wrong_devices_are_noticed(tmp_path, devices, wrong):
    """One call that differs fails the comparison."""
    _, events = trace_devices(tmp_path, devices, 2, "all")
    key, old, new = wrong
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    expected = {event["func"] for event in json.loads((tmp_path / "own.json").read_text())["events"] if key in event}
    next(event for event in lines if event.get("func") in expected and event.get(key) == old)[key] = new
    events.write_text("".join(json.dumps(line) + "\n" for line in lines))
    compared = compare_devices(tmp_path, events)
    assert compared.returncode == 1 and compared.stdout.count("BAD") >= 1, compared.stdout
