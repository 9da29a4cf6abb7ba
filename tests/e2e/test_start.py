"""What the start event says of commands, what -p refuses, and when all is ready."""

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import time

import pytest
import tap


def test_very_long_command(tmp_path):
    run = tap.trace(tmp_path, "true", *map(str, range(20000)))
    assert run.start["command_cut"] is True and run.start["command"][:3] == ["true", "0", "1"]
    assert 500 < len(run.start["command"]) < 20000


def test_command_is_whole(tmp_path):
    run = tap.trace(tmp_path, "true", "a", "b c")
    assert run.start["command"] == ["true", "a", "b c"] and "command_cut" not in run.start


def test_thread_for_a_process():
    text = ("import threading, time\nt = threading.Thread(target=time.sleep, args=(20,), daemon=True)\nt.start()\n"
            "print(t.native_id, flush=True)\ntime.sleep(20)")
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as process:
        tid = process.stdout.readline().strip()
        done = tap.run_plain("-p", tid)
        process.kill()
    assert done.returncode == 1 and f"thread of process {process.pid}" in done.stderr


def test_pid_and_command():
    done = tap.run_plain("-p", "1", "--", "true")
    assert done.returncode == 2 and "choose one" in done.stderr


WAITING = """
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
print(flush=True)
input()
for i in range(100):
    cuda.cudaMemset(None, 1, ctypes.c_size_t(1))
"""


@pytest.mark.parametrize("name", ["PLACE/notify", "@cudatap-test-PID"])
def test_ready(tmp_path, name):
    """When the event comes and the service manager is told, whoever has a library mapped has its calls recorded."""
    manager = tap.Manager(name.replace("PLACE", str(tmp_path)).replace("PID", str(tmp_path.stat().st_ino)))
    copy = shutil.copy(tap.FAKE / "libcudart.so.13", tmp_path / "libcudart.so.13")
    process = subprocess.Popen([sys.executable, "-c", WAITING, copy], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env=tap.environment({"FAKE_CUDA_NESTED": "0"}))
    process.stdout.readline()
    with tap.running([], tmp_path, env={"NOTIFY_SOCKET": manager.name}) as running:
        assert manager.told() == "READY=1"
        process.communicate(b"\n")
        running.interrupt()
        assert manager.told() == "STOPPING=1"
        run = running.finish()
    assert len([call for call in run.calls if call["pid"] == process.pid]) == 100
    ready, = run.of("ready")
    before = [event for event in run.attached if event["seq"] < ready["seq"]]
    assert ready["files"] == len([event for event in before if event["functions"]]) > 0
    assert ready["functions"] == sum(event["functions"] for event in before)
    assert 0 < ready["duration_ns"] < run.stop["duration_ns"]


def test_ready_after_what_was_mapped_meanwhile(tmp_path):
    """A process that the first walk has passed maps a library of its own while those of others get their probes."""
    copies = [shutil.copy(tap.FAKE / "libcudart.so.13", tmp_path / f"{n}.so") for n in range(12)]
    early, late = tap.Caller(), tap.Caller()
    for copy in copies[1:]:
        late.tell(copy)
    with tap.running(["-f", "all"], tmp_path) as running:
        running.wait_attached(str(tmp_path))
        early.tell(copies[0])
        is_ready = '"type":"ready"' in running.text()
        running.wait_started()
        early.tell()
        run = running.end()
    for one in (early, late):
        one.end()
    # where it was loaded too late for the test, it may have missed some
    assert is_ready or len([call for call in run.calls if call["pid"] == early.pid]) == 10


def test_ready_command(tmp_path):
    """Before the command's first instruction; the service manager's socket is the command's."""
    script = 'echo "$NOTIFY_SOCKET"; exec "$0"'
    run = tap.trace(tmp_path, "sh", "-c", script, tap.FAKE / "demo", env={"NOTIFY_SOCKET": "/nowhere"})
    assert [event["type"] for event in run.events[:2]] == ["start", "ready"] and run.of("ready")[0]["files"] == 0
    assert run.stdout.startswith("/nowhere\n") and "service manager" not in run.stderr


@pytest.mark.parametrize("name, why", [("/nowhere", "No such file"), ("vsock:2:1", "not supported"),
                                       ("@" + "x" * 200, "too long"), ("", None)])
def test_service_manager_is_not_there(tmp_path, name, why):
    with tap.running([], tmp_path, env={"NOTIFY_SOCKET": name}) as running:
        running.wait_started()
        run = running.end()
    said = f"NOTIFY_SOCKET={name}" in run.stderr and why in run.stderr if why else "NOTIFY" not in run.stderr
    assert run.code == 0 and said, run.stderr


def test_service_manager_does_not_read(tmp_path):
    """It holds nobody up for long."""
    manager = tap.Manager(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as other:
        with contextlib.suppress(BlockingIOError):
            while True:
                other.sendto(b"x", manager.name)
    with tap.running([], tmp_path, env={"NOTIFY_SOCKET": manager.name}) as running:
        running.wait_started()
        run = running.end()
    assert run.code == 0 and run.stderr.count("cannot tell the service manager") == 2, run.stderr


def test_wrong_user(tmp_path):
    """Nothing is half done: no file of a sink is there."""
    done = tap.run_plain("-u", "nobody-has-this-name", "-o", tmp_path / "x.jsonl", "--", "touch", tmp_path / "begun")
    assert done.returncode == 2 and done.stderr == "cudatap: -u nobody-has-this-name: no such user\n"
    assert not list(tmp_path.iterdir())


def limited(limit, *words):
    """cudatap under a hard limit of open files that it may not raise."""
    return subprocess.run(limit_files(limit, *words), capture_output=True, text=True, timeout=tap.TIMEOUT,
                          env=tap.environment({"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=65536"}))


def limit_files(limit, *words):
    return ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource",
            "sh", "-c", f'ulimit -n {limit}; exec "$0" "$@"', tap.CUDATAP, *map(str, words)]


def test_files_run_out_among_processes(tmp_path):
    """One of many given processes without probes is told of, whether others have theirs or not."""
    loops = [subprocess.Popen([tap.program("scenes"), "loop"], stdout=subprocess.PIPE,
                              env=tap.environment({"FAKE_CUDA_NESTED": "0"})) for _ in range(20)]
    pids = [word for loop in loops for word in ("-p", loop.pid)]
    out = tmp_path / "x.jsonl"
    assert all(loop.stdout.readline() == b"ready\n" for loop in loops)
    process = subprocess.Popen(limit_files(300, "--fail-on-loss", "-f", "all", "-o", out, *pids), env=tap.environment(),
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        # some hundred links, each of which waits for whoever else makes or removes probes
        end = time.monotonic() + 8 * tap.TIMEOUT
        while not (out.exists() and '"type":"ready"' in out.read_text()) and process.poll() is None:
            assert time.monotonic() < end, out.read_text()
            time.sleep(0.01)
        process.terminate()
        stderr = process.communicate(timeout=tap.TIMEOUT)[1]
    finally:
        for one in (process, *loops):
            one.kill()
            one.wait()
    attach = [json.loads(line) for line in out.read_text().splitlines() if '"type":"attach"' in line]
    assert attach and attach[-1]["functions"] and attach[-1]["failed_error"] == "Too many open files"
    assert "cannot be probed in some of the processes: Too many open files" in stderr and process.returncode == 3, stderr


@pytest.mark.parametrize("limit", [40, 62, 96, 255])
def test_too_few_files(tmp_path, limit):
    """Refused at once: the command is not begun, nothing hangs, no library is missed in silence."""
    done = limited(limit, "-o", tmp_path / "x.jsonl", "--", "touch", tmp_path / "begun")
    assert done.returncode == 125 and "raise the limit" in done.stderr, done.stderr
    assert not (tmp_path / "begun").exists()
    verdicts = {row["check"]: row for row in json.loads(limited(limit, "doctor", "--json").stdout)}
    assert verdicts["files"]["verdict"] == "missing", verdicts


def test_files_run_out(tmp_path):
    """More libraries than there are descriptors for: said for each what was the matter, the others are traced, and
    --fail-on-loss does not call that whole."""
    copies = [str(shutil.copy(tap.FAKE / "libcudart.so.13", tmp_path / f"copy{n}.so")) for n in range(30)]
    path = tap.config(tmp_path, "api: [runtime]\nfamilies: all\n")
    script = ("import ctypes, sys\nlibraries = [ctypes.CDLL(p) for p in sys.argv[1:]]\n"
              "for library in libraries: library.cudaFree(None)")
    out = tmp_path / "x.jsonl"
    done = limited(256, "-c", path, "--fail-on-loss", "-o", out, "--", sys.executable, "-c", script, *copies)
    assert done.returncode == 3, done.stderr
    events = [json.loads(line) for line in out.read_text().splitlines()]
    probed = {event["path"] for event in events if event["type"] == "attach" and not event["failed"]}
    refused = [line for line in done.stderr.splitlines() if "probe" in line]
    assert 0 < len(probed & set(copies)) < 30 and refused
    assert all("Too many open files" in line for line in refused), done.stderr
    assert sum(event["type"] == "call" for event in events) >= len(probed & set(copies))
    tap.check_conservation(events[-1])


def test_proc_of_others(tmp_path):
    """Numbers in /proc that are not this namespace's, and no /proc at all: said, for nothing could be found."""
    for way, text in (["unshare", "-pf"], "of another pid namespace"), (
            ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"], "/proc is not mounted"):
        done = subprocess.run([*way, tap.CUDATAP, "--", "touch", tmp_path / "begun"], capture_output=True, text=True,
                              timeout=tap.TIMEOUT, env=tap.environment())
        assert done.returncode == 125 and text in done.stderr, done.stderr
        done = subprocess.run([*way, tap.CUDATAP, "doctor"], capture_output=True, text=True, timeout=tap.TIMEOUT,
                              env=tap.environment())
        assert done.returncode != 0 and text in done.stdout, done.stdout
    assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize("words", [[], ["--", "true"]])
def test_start_that_fails(tmp_path, words):
    """What had a beginning has an end, which says that it failed; on stderr there is the one message."""
    (tmp_path / "library.so").write_text("no ELF")
    path, out = tap.config(tmp_path, f"libraries: [{tmp_path}/library.so]\n"), tmp_path / "x.jsonl"
    done = tap.run_plain("-c", path, "-o", out, *words)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done
    events = [json.loads(line) for line in out.read_text().splitlines()]
    assert [event["type"] for event in events] == ["start", "stop"]
    assert events[-1]["reason"] == "failed" and events[-1].get("exit_code") == (2 if words else None)
    tap.check_conservation(events[-1])


def test_start_that_fails_beside_a_dead_receiver(tmp_path):
    """A mistake is told at once: nobody waits for a sink that cannot deliver, the command's process neither."""
    (tmp_path / "library.so").write_text("no ELF")
    path = tap.config(tmp_path, f"libraries: [{tmp_path}/library.so]\n")
    begun = time.monotonic()
    done = tap.run_plain("-c", path, "-o", "syslog+tcp://127.0.0.1:9", "--", "touch", tmp_path / "begun")
    assert done.returncode == 2 and "not an ELF file" in done.stderr and not (tmp_path / "begun").exists()
    assert time.monotonic() - begun < 4  # half of what sinks get at the end


def test_fail_on_what_was_not_probed(tmp_path):
    """--fail-on-loss: a damaged library, and a command that cannot be held, for which calls may have been missed."""
    damaged = tmp_path / "libcudart.so.12"
    damaged.write_bytes((tap.FAKE / "libcudart.so.12").read_bytes()[:200000])
    path = tap.config(tmp_path, f"libraries: [{tap.FAKE}/libcudart.so.13]\n")
    script = ("import mmap, os, sys\nfd = os.open(sys.argv[1], os.O_RDONLY)\n"
              "mmap.mmap(fd, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)")
    inner = [tap.CUDATAP, "--fail-on-loss", "-o", tmp_path / "inner.jsonl", "--", "true"]
    for code, words in ((3, [sys.executable, "-c", script, damaged]), (3, inner), (0, ["true"])):
        done = tap.run_plain("--fail-on-loss", "-o", tmp_path / "x.jsonl", "--", *words)
        assert done.returncode == code, done
    assert tap.run_plain("--fail-on-loss", "-c", path, "-o", tmp_path / "x.jsonl", "--", "true").returncode == 0


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["list", "functions"], ["list", "libraries", "--json"],
                                   ["check"], ["doctor"]], ids="-".join)
def test_stdout_is_full(words):
    """Half a text is no success."""
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([tap.CUDATAP, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=tap.TIMEOUT,
                              env=tap.environment(), check=False)
    assert done.returncode == 1 and "cannot write to stdout: No space left" in done.stderr, done
