"""Who called: executable, user, cgroup, container and pod of each process, however short it lived."""

import os
import pathlib
import shutil
import subprocess
import uuid

import pytest
import tap

CONTAINER = "0123456789abcdef" * 4
POD = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
FOLDED = POD.replace("-", "_")

# what runtimes make, the container's id and the pod's uid; the first name is ours
LAYOUTS = {
    f"docker-{CONTAINER}.scope": (True, False),
    f"docker/{CONTAINER}": (True, False),
    f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{FOLDED}.slice/cri-containerd-{CONTAINER}.scope":
        (True, True),
    f"kubepods/besteffort/pod{POD}/{CONTAINER}": (True, True),
    f"kubepods.slice/kubepods-pod{FOLDED}.slice/crio-{CONTAINER}.scope/init.scope": (True, True),
    f"machine.slice/libpod-{CONTAINER}.scope/container": (True, False),
    "system.slice/some.service": (False, False),
}


def cgroup2():
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        fields = line.split()
        if fields[2] == "cgroup2":
            return pathlib.Path(fields[1])
    return None


@pytest.fixture
def top():
    """A cgroup of this test's own, removed with all below it."""
    root = cgroup2()
    if not root or not os.access(root, os.W_OK):
        pytest.skip("no cgroup2 file system to make cgroups in")
    path = root / f"cudatap-{uuid.uuid4().hex[:8]}"
    path.mkdir()
    yield path
    for directory, _, _ in os.walk(path, topdown=False):
        pathlib.Path(directory).rmdir()


def inside(cgroup, *words):
    """Words of a command that runs in a cgroup."""
    cgroup.mkdir(parents=True, exist_ok=True)
    return ["sh", "-c", 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"', "sh", cgroup, *words]


def few(tmp_path, more=""):
    return ["-c", tap.config(tmp_path, f"families: []\ninclude: [cudaMemset]\n{more}")]


WHOLE = "fields: {process: [uid, exe, cgroup, container_id, pod_uid]}\n"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_container(tmp_path, top, layout):
    has_container, has_pod = LAYOUTS[layout]
    run = tap.trace(tmp_path, *inside(top / layout, tap.program("scenes"), "again", "2"), options=few(tmp_path, WHOLE),
                    env={"FAKE_CUDA_NESTED": "0"})
    start, end = run.of("process")
    assert len(run.calls) == 2
    for event in (*run.calls, start, end):
        assert event["cgroup"] == f"/{top.name}/{layout}"
        assert event.get("container_id") == (CONTAINER if has_container else None)
        assert event.get("pod_uid") == (POD if has_pod else None)
        assert event["exe"] == tap.program("scenes") and event["uid"] == 0
    run.assert_clean()


def test_defaults(tmp_path, top):
    run = tap.trace(tmp_path, *inside(top / f"docker-{CONTAINER}.scope", tap.program("scenes"), "again", "1"),
                    options=few(tmp_path))
    call, = run.calls
    assert call["container_id"] == CONTAINER and call["uid"] == 0 and call["exe"] == tap.program("scenes")
    assert "cgroup" not in call and "cmdline" not in call
    assert run.of("process")[0]["cgroup"].endswith(f"/docker-{CONTAINER}.scope")


@pytest.mark.parametrize("form", ["ecs", "otlp"])
def test_other_formats(tmp_path, top, form):
    out = tmp_path / "out.jsonl"
    sinks = f"sinks: {{out: {{type: file, path: {out}, format: {form}}}}}\n"
    words = inside(top / f"docker-{CONTAINER}.scope", tap.program("scenes"), "again", "1")
    path = tap.config(tmp_path, f"families: []\ninclude: [cudaMemset]\n{WHOLE}{sinks}")
    done = tap.run_plain("-c", path, "--", *words)
    assert done.returncode == 0, done.stderr
    line, = [line for line in out.read_text().splitlines() if '"cudaMemset"' in line]
    assert tap.program("scenes") in line and f"/{top.name}/docker-{CONTAINER}.scope" in line


def test_cmdline(tmp_path):
    """Only when it is asked for; secrets may stand in it."""
    config = few(tmp_path, "fields: {process: [cmdline]}\n")
    script = f"{tap.program('scenes')} loop & sleep {0.7 * tap.SLOWER}; kill -KILL $!; wait"
    run = tap.trace(tmp_path, "sh", "-c", script, options=config, env={"FAKE_CUDA_NESTED": "0"})
    assert run.calls[-1]["cmdline"] == f"{tap.program('scenes')} loop"
    assert "exe" not in run.calls[-1] and "uid" not in run.calls[-1]
    assert run.of("process")[-1]["cmdline"] == run.calls[-1]["cmdline"]
    assert "cmdline" in tap.run_plain("check", *config).stdout


def test_a_millisecond(tmp_path, top):
    """A thousand processes that end at once, in two containers: each is told of with all that it was."""
    other = "fedcba9876543210" * 4
    first, second = (top / f"docker-{name}.scope" for name in (CONTAINER, other))
    first.mkdir()
    second.mkdir()
    script = """
        a=$1 b=$2 scenes=$3
        (echo 0 >"$a/cgroup.procs"; for i in $(seq 500); do $scenes again 1; done) &
        (echo 0 >"$b/cgroup.procs"; for i in $(seq 500); do $scenes again 1; done) &
        wait"""
    run = tap.trace(tmp_path, "bash", "-c", script, "bash", first, second, tap.program("scenes"),
                    options=few(tmp_path), env={"FAKE_CUDA_NESTED": "0"}, timeout=120)
    assert len(run.calls) == 1000
    assert {call["exe"] for call in run.calls} == {tap.program("scenes")}
    assert sorted(call["container_id"] for call in run.calls) == [CONTAINER] * 500 + [other] * 500
    phases = [event["phase"] for event in run.of("process")]
    assert phases.count("start") == phases.count("exit") == 1000
    assert all(event["total"] == {"calls": 1, "errors": 0, "bytes": {}} and event["exit_code"] == 0
               for event in run.of("process") if event["phase"] == "exit")
    run.assert_clean()


def test_used_numbers(tmp_path):
    """Processes that have the same number one after the other: each has its own executable."""
    copies = []
    for name in ("first", "second"):
        copies.append(tmp_path / name)
        shutil.copy(tap.program("scenes"), copies[-1])
    env = tap.environment({"FAKE_CUDA_NESTED": "0", "LD_LIBRARY_PATH": str(tap.FAKE)})
    most = min(int(pathlib.Path("/proc/sys/kernel/pid_max").read_text()), 32768) - 400
    with tap.running(few(tmp_path, f"libraries: [{tap.FAKE / 'libcudart.so.13'}]\n"), tmp_path) as running:
        running.wait_attached("libcudart.so.13")
        for part in (3, 4, 5, 6, 7):  # far from where the kernel gives numbers just now, and nobody else's
            number = (os.getpid() + most * part // 10) % most + 300
            done = subprocess.run([tap.program("same_number"), str(number), "60", *copies, "again", "1"], env=env,
                                  check=False)
            if done.returncode != 77:
                break
        else:
            pytest.skip("the kernel gives no say over process ids")
        running.wait_for(lambda text: len([line for line in text.splitlines() if f'"pid":{number},' in line and
                                           '"phase":"exit"' in line]) == 60, "ends of processes")
        run = running.end()
    expected = [str(copies[i % 2]) for i in range(60)]
    assert [call["exe"] for call in run.calls if call["pid"] == number] == expected
    ended = [event for event in run.of("process") if event["phase"] == "exit" and event["pid"] == number]
    assert [event["exe"] for event in ended] == expected
    assert all(event["total"]["calls"] == 1 for event in ended)


def test_ten_thousand(tmp_path):
    """Processes that make one call and end: each call is there, and is that process's."""
    config = few(tmp_path, f"libraries: [{tap.FAKE / 'libcudart.so.13'}]\n")
    run = tap.trace(tmp_path, tap.program("short_lived"), "10000", options=[*config, "--mix"],
                    env={"FAKE_CUDA_NESTED": "0"}, timeout=120)
    pids = dict(map(int, line.split()) for line in run.stdout.splitlines())
    assert len(pids) == 10000
    assert {call["bytes"]: (call["pid"], call["comm"]) for call in run.calls} == \
        {number: (pid, f"short-{number}") for number, pid in pids.items()}
    assert len(run.calls) == 10000 and {call["exe"] for call in run.calls} == {tap.program("short_lived")}
    starts = {event["pid"]: event for event in run.of("process") if event["phase"] == "start"}
    ends = [event for event in run.of("process") if event["phase"] == "exit"]
    assert set(starts) == {event["pid"] for event in ends} == set(pids.values())
    assert all(event["total"]["calls"] == 1 and event["exit_code"] == 0 for event in ends)
    run.assert_clean()


def test_a_thousand_threads(tmp_path):
    run = tap.trace(tmp_path, tap.program("scenes"), "threads", "1000", "3",
                    options=["-c", tap.config(tmp_path, "families: []\ninclude: [cudaMalloc, cudaFree]\n")],
                    env={"FAKE_CUDA_NESTED": "0"}, timeout=60)
    threads = {}
    for call in run.calls:
        threads.setdefault(call["tid"], []).append((call["thread"], call["func"]))
    assert len(threads) == 1000
    assert sorted(calls[0][0] for calls in threads.values()) == sorted(f"worker-{i}" for i in range(1000))
    for calls in threads.values():
        assert calls == [(calls[0][0], func) for func in ["cudaMalloc", "cudaFree"] * 3]
    run.assert_clean()


def test_totals(tmp_path):
    """A process event's totals are those of its calls."""
    run = tap.trace(tmp_path, tap.program("calls"), "2", tap.FAKE / "libcudart.so.13",
                    env={"FAKE_CUDA": "cudaMemset:ret=1"})
    assert run.calls
    end = run.of("process")[-1]
    assert end["phase"] == "exit" and end["exit_code"] == 0
    assert end["total"]["calls"] == len(run.calls)
    assert end["total"]["errors"] == len([call for call in run.calls if call["status"] == "error"]) > 0
    moved = {}
    for call in run.calls:
        if call["status"] == "ok" and "direction" in call and "bytes" in call:
            moved[call["direction"]] = moved.get(call["direction"], 0) + call["bytes"]
    assert end["total"]["bytes"] == {key: value for key, value in moved.items() if value}


def test_killed_and_exec(tmp_path):
    run = tap.trace(tmp_path, tap.program("scenes"), "kill_inside", options=["-c", tap.config(tmp_path, "")])
    assert [event["phase"] for event in run.of("process")] == ["start", "exit"]
    assert run.of("process")[-1]["signal"] == 9 and "exit_code" not in run.of("process")[-1]
    run = tap.trace(tmp_path, tap.program("scenes"), "exec_inside", options=["-c", tap.config(tmp_path, "")])
    assert [event["phase"] for event in run.of("process")] == ["start", "exec", "start", "exit"]
    first, second = (event["total"]["calls"] for event in run.of("process") if "total" in event)
    assert first + second == len(run.calls)


def test_last_thread_never_called(tmp_path):
    """The main thread ends last and has called nothing: the process's end is told all the same."""
    run = tap.trace(tmp_path, tap.program("scenes"), "threads", "3", "5", env={"FAKE_CUDA_NESTED": "0"})
    end = run.of("process")[-1]
    assert end["phase"] == "exit" and end["total"]["calls"] == len(run.calls) == 30


def test_deep_path(tmp_path):
    """A path of more names than are followed is shown from its end."""
    directory = tmp_path
    for i in range(40):
        directory /= f"level{i}"
    directory.mkdir(parents=True)
    shutil.copy(tap.program("scenes"), directory / "deep program\n")
    run = tap.trace(tmp_path, directory / "deep program\n", "again", "1", options=few(tmp_path),
                    env={"LD_LIBRARY_PATH": str(tap.FAKE)})
    exe = run.calls[0]["exe"]
    assert exe.startswith("...") and exe.endswith("/level38/level39/deep program\n")


def test_other_namespaces(tmp_path):
    """In a container's own root: the path is the one that the process itself sees."""
    root = tmp_path / "root"
    for path in ("proc", "opt/app", "lib", "lib64", "usr"):
        (root / path).mkdir(parents=True, exist_ok=True)
    shutil.copy(tap.program("scenes"), root / "opt/app/tool")
    script = f"""
        mount --rbind /usr {root}/usr && mount --rbind /lib {root}/lib && mount --rbind /lib64 {root}/lib64 &&
        mkdir -p {root}/fake && mount --bind {tap.FAKE} {root}/fake &&
        exec chroot {root} env LD_LIBRARY_PATH=/fake /opt/app/tool again 2"""
    run = tap.trace(tmp_path, "unshare", "--mount", "--pid", "--fork", "sh", "-c", script, options=few(tmp_path),
                    env={"FAKE_CUDA_NESTED": "0"})
    assert run.code == 0, run.stderr
    assert [call["exe"] for call in run.calls] == ["/opt/app/tool"] * 2
    assert all(call["ns_pid"] != call["pid"] for call in run.calls)
