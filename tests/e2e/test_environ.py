"""Environment variables of the traced processes: which job and rank a call belongs to."""

import json
import os
import subprocess
import sys

import pytest
import tap

NAMES = ["SLURM_JOB_ID", "RANK"]
FIELDS = f"fields: {{env: [{', '.join(NAMES)}]}}\n"


def few(tmp_path, more=FIELDS):
    return ["-c", tap.config(tmp_path, f"families: []\ninclude: [cudaMemset]\n{more}")]


def test_in_every_event(tmp_path):
    """From the first call on, and in the events of the process; only what is listed."""
    run = tap.trace(tmp_path, tap.program("scenes"), "again", "20", options=few(tmp_path),
                    env={"RANK": "3", "SLURM_JOB_ID": "42", "RANKS": "9", "OTHER": "secret", "FAKE_CUDA_NESTED": "0"})
    assert len(run.calls) == 20
    for event in (*run.calls, *run.of("process")):
        assert event["environ"] == {"SLURM_JOB_ID": "42", "RANK": "3"}
    assert "secret" not in json.dumps(run.events)
    assert run.stop["calls"]["environs_missed"] == 0
    keys = list(run.calls[0])
    assert keys.index("environ") == keys.index("api") - 1
    run.assert_clean()


def test_absent(tmp_path):
    """Not wanted, or not set: no key."""
    env = {"RANK": "3", "FAKE_CUDA_NESTED": "0"}
    run = tap.trace(tmp_path, tap.program("scenes"), "again", "2", options=few(tmp_path, ""), env=env)
    assert len(run.calls) == 2 and not any("environ" in event for event in run.events)
    run = tap.trace(tmp_path, "env", "-i", tap.program("scenes"), "again", "2", options=few(tmp_path), env=env)
    assert len(run.calls) == 2 and not any("environ" in event for event in run.events)
    # that they are not set is known
    assert run.stop["calls"]["environs_missed"] == 0


def test_exec_gives_new_ones(tmp_path):
    """A process that execs is the program of its new environment; setenv(3) and fork(2) change nothing."""
    scenes = tap.program("scenes")
    script = f"""
import ctypes, os, time
cuda = ctypes.CDLL("libcudart.so.13")
os.environ["RANK"] = "set later"
cuda.cudaMemset(None, 0, 0)
if os.fork() == 0:
    cuda.cudaMemset(None, 0, 0)
    time.sleep(0.3)
    os._exit(0)
os.wait()
os.execve({scenes!r}, ["scenes", "again", "1"], {{**os.environ, "RANK": "after"}})
"""
    run = tap.trace(tmp_path, sys.executable, "-c", script, options=few(tmp_path),
                    env={"RANK": "before", "LD_LIBRARY_PATH": str(tap.FAKE), "FAKE_CUDA_NESTED": "0"})
    assert run.code == 0, run.stderr
    parent, child, after = run.calls
    assert parent["environ"] == {"RANK": "before"} and after["environ"] == {"RANK": "after"}
    # a child that does not exec is read from /proc, for which it must live a moment
    assert child.get("environ", {"RANK": "before"}) == {"RANK": "before"}
    assert parent["pid"] == after["pid"] != child["pid"]


def test_any_bytes(tmp_path):
    """Invalid UTF-8, quotes, newlines; a value that is longer than a line has room for; a huge environment."""
    value = b'a"\\\n\t\x01\xff\xc3\xa4'
    env = {os.fsencode(key): os.fsencode(text) for key, text in tap.environment({"FAKE_CUDA_NESTED": "0"}).items()}
    env.update({b"V%05d" % i: b"x" * 1000 for i in range(600)})
    env.update({b"RANK": value, b"SLURM_JOB_ID": b"7" * 100000})
    out = tmp_path / "events.jsonl"
    done = subprocess.run([tap.CUDATAP, "-o", out, *few(tmp_path), "--", tap.program("scenes"), "again", "3"], env=env,
                          capture_output=True, text=True, timeout=tap.TIMEOUT)
    run = tap.Result(out.read_text(), done.returncode, done.stdout, done.stderr)
    assert len(run.calls) == 3
    for call in run.calls:
        assert call["environ"] == {"SLURM_JOB_ID": "7" * 512, "RANK": 'a"\\\n\t\x01\ufffd\xe4'}


@pytest.mark.parametrize("form", ["ecs", "otlp"])
def test_other_formats(tmp_path, form):
    out = tmp_path / "out.jsonl"
    more = f"fields: {{env: [RANK], static: {{cluster: a}}}}\nsinks: {{out: {{type: file, path: {out}, format: {form}}}}}\n"
    done = tap.run_plain(*few(tmp_path, more), "--", tap.program("scenes"), "again", "1", env={"RANK": "3"})
    assert done.returncode == 0, done.stderr
    call, = [line for line in out.read_text().splitlines() if '"cudaMemset"' in line]
    start, = [line for line in out.read_text().splitlines() if "process" in line and '"start"' in line and "RANK" in line]
    if form == "ecs":
        assert json.loads(call)["labels"] == json.loads(start)["labels"] == {"cluster": "a", "RANK": "3"}
    else:
        variable = {"key": "process.environment_variable.RANK", "value": {"stringValue": "3"}}
        assert variable in json.loads(call)["resourceSpans"][0]["resource"]["attributes"]
        assert variable in json.loads(start)["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["attributes"]


SHORT = """
    for j in 1 2 3 4; do
        (for i in $(seq 100); do RANK=$j.$i "$0" again 1; done) &
    done
    wait"""


def test_short_lives(tmp_path):
    """Processes that end at once, many at a time: a command's programs are read before they run."""
    run = tap.trace(tmp_path, "bash", "-c", SHORT, tap.program("scenes"), options=few(tmp_path),
                    env={"FAKE_CUDA_NESTED": "0"}, timeout=120)
    assert sorted(call["environ"]["RANK"] for call in run.calls) == sorted(f"{j}.{i}" for j in range(1, 5)
                                                                          for i in range(1, 101))
    assert run.stop["calls"]["environs_missed"] == 0


def test_gone_before(tmp_path):
    """Where they are not held: an event has its process's variables or says nothing, and how many said nothing is
    counted."""
    library = f"libraries: [{tap.FAKE}/libcudart.so.13]\n"
    run = tap.trace(tmp_path, "bash", "-c", SHORT, tap.program("scenes"), options=few(tmp_path, library + FIELDS),
                    env={"FAKE_CUDA_NESTED": "0"}, timeout=120)
    assert len(run.calls) == 400
    ranks = [call["environ"]["RANK"] for call in run.calls if "environ" in call]
    assert len(ranks) == len(set(ranks)) and set(ranks) <= {f"{j}.{i}" for j in range(1, 5) for i in range(1, 101)}
    missed = run.stop["calls"]["environs_missed"]
    print(f"{missed} of 400 environments missed")
    # what came too late for the call came too late for all of its process
    assert 400 - len(ranks) >= missed
    assert (f"{missed} processes ended before their environment" in run.stderr) == (missed > 0)


def test_attached_to_the_running(tmp_path):
    """A process that was there before cudatap, and one that comes later."""
    env = tap.environment({"RANK": "old", "FAKE_CUDA_NESTED": "0"})
    path = tap.config(tmp_path, f"families: []\ninclude: [cudaMemset]\nlibraries: [{tap.FAKE}/libcudart.so.13]\n{FIELDS}")
    old = subprocess.Popen([tap.program("scenes"), "loop"], env=env)
    new = None
    try:
        with tap.running(["-c", path], tmp_path) as running:
            running.wait_for(lambda text: '"environ":{"RANK":"old"}' in text, "calls of the first process")
            new = subprocess.Popen([tap.program("scenes"), "loop"], env={**env, "RANK": "new"})
            running.wait_for(lambda text: '"environ":{"RANK":"new"}' in text, "calls of the second process")
            run = running.end()
    finally:
        for process in filter(None, (old, new)):
            process.kill()
            process.wait()
    pids = {old.pid: "old", new.pid: "new"}
    calls = [call for call in run.calls if call["pid"] in pids]
    assert calls and all(call["environ"] == {"RANK": pids[call["pid"]]} for call in calls)


@pytest.mark.parametrize("words, message", [
    ("[RANK, 1ST]", '"1ST" cannot be a variable\'s name'),
    ("[A=B]", '"A=B" cannot be a variable\'s name'),
    ("['']", '"" cannot be a variable\'s name'),
    ("[RANK, SLURM_JOB_ID, RANK]", '"RANK" is there twice'),
    (f"[{', '.join(f'V{i}' for i in range(17))}]", '"env" has at most 16 variables'),
    ("{RANK: 1}", '"env" wants a list of texts, not a map'),
])
def test_wrong_names(tmp_path, words, message):
    path = tap.config(tmp_path, f"fields:\n  env: {words}\n")
    done = tap.run_plain("check", "-c", path)
    assert done.returncode == 2 and f"{path}:3:" in done.stderr and message in done.stderr, done.stderr
