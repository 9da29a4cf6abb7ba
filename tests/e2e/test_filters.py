"""Processes that are selected, by each thing that can be said of them: others' calls are not even counted."""

import contextlib
import os
import shutil
import subprocess
import time

import pytest
import tap
from test_identity import CONTAINER, inside, top  # noqa: F401

OTHER = "fedcba9876543210" * 4
LIBRARY = tap.FAKE / "libcudart.so.13"


@pytest.fixture
def programs(tmp_path):
    """Copies of one program under several names."""
    paths = {}
    for name in ("train", "trainer", "serve"):
        paths[name] = tmp_path / "bin" / name
        paths[name].parent.mkdir(exist_ok=True)
        shutil.copy(tap.program("scenes"), paths[name])
    return paths


def environment():
    return tap.environment({"FAKE_CUDA_NESTED": "0", "LD_LIBRARY_PATH": str(tap.FAKE)})


def run_filtered(tmp_path, processes, commands, method="session"):
    """A whole-host run with this filter while the commands run one after the other, and a last one that nobody selects
    but whose own tap tells that everything before it has come."""
    config = tap.config(tmp_path, f"families: []\ninclude: [cudaMemset]\nlibraries: [{LIBRARY}]\n"
                                  f"processes: {{{processes}}}\n")
    with tap.running(["-c", config, f"--probes={method}"], tmp_path) as running:
        running.wait_attached("libcudart.so.13")
        for command in commands:
            subprocess.run([str(word) for word in command], check=True, env=environment())
        run = running.end()
    run.assert_clean()
    assert run.stop["calls"]["entries"] == len(run.calls), "calls of others were counted"
    return run


def names(run):
    return [call["comm"] for call in run.calls]


@pytest.mark.parametrize("method", tap.PROBES)
@pytest.mark.parametrize("pattern,expected", [
    ("train", ["train", "train"]),
    ("'train*'", ["train", "train", "trainer"]),
    ("trai", []),
    ("trainers", []),
    ("'*'", ["train", "train", "trainer", "serve"]),
    ("serve, trainer", ["trainer", "serve"]),
])
def test_comms(tmp_path, programs, pattern, expected, method):
    commands = [[programs["train"], "again", "2"], [programs["trainer"], "again", "1"], [programs["serve"], "again", "1"]]
    assert names(run_filtered(tmp_path, f"comms: [{pattern}]", commands, method)) == expected


@pytest.mark.parametrize("pattern,expected", [
    ("train", ["train"]),
    ("bin/train", ["train"]),
    ("in/train", []),
    ("{tmp}/bin/trainer", ["trainer"]),
    ("{tmp}/bin", []),
    ("/bin/train", []),
    ("{part}/bin/train", ["train"]),
    ("serve, {tmp}/bin/train", ["train", "serve"]),
])
def test_exe(tmp_path, programs, pattern, expected):
    commands = [[programs[name], "again", "1"] for name in ("train", "trainer", "serve")]
    pattern = pattern.format(tmp=tmp_path, part=tmp_path.name)
    assert names(run_filtered(tmp_path, f"exe: [{pattern}]", commands)) == expected


def test_uids(tmp_path, programs):
    commands = [[programs["train"], "again", "1"],
                [*tap.AS_NOBODY, tap.program("scenes"), "again", "2"]]
    os.chmod(tmp_path, 0o755)
    run = run_filtered(tmp_path, "uids: [65534]", commands)
    assert [call["uid"] for call in run.calls] == [65534] * 2
    assert [call["uid"] for call in run_filtered(tmp_path, "uids: [0, 7]", commands).calls] == [0]


@pytest.mark.parametrize("method", tap.PROBES)
@pytest.mark.parametrize("pattern,expected", [
    ("cgroups: [job1]", ["train", "serve"]),
    ("cgroups: [/{top}/job1]", ["train", "serve"]),
    ("cgroups: [/{top}/job1/inner]", ["serve"]),
    ("cgroups: [/job1]", []),
    ("cgroups: [job]", []),
    ("cgroups: [/{top}]", ["train", "trainer", "serve"]),
    ("containers: [" + CONTAINER + "]", ["trainer"]),
    ("containers: [" + CONTAINER[:12] + "]", ["trainer"]),
    ("containers: [" + OTHER + "]", []),
    ("containers: [" + OTHER + ", " + CONTAINER[:20] + "]", ["trainer"]),
    ("containers: [" + CONTAINER + "], cgroups: [job1]", []),
])
def test_cgroups(tmp_path, programs, top, pattern, expected, method):  # noqa: F811
    """Those below count, whenever they were made."""
    commands = [inside(top / "job1", programs["train"], "again", "1"),
                inside(top / f"docker-{CONTAINER}.scope" / "init", programs["trainer"], "again", "1"),
                inside(top / "job1" / "inner" / "most", programs["serve"], "again", "1")]
    assert names(run_filtered(tmp_path, pattern.format(top=top.name), commands, method)) == expected


def test_all_must_agree(tmp_path, programs, top):  # noqa: F811
    commands = [[programs["train"], "again", "1"], inside(top / "job", programs["serve"], "again", "1"),
                inside(top / "job", programs["train"], "again", "3")]
    run = run_filtered(tmp_path, "cgroups: [job], comms: [train], uids: [0], exe: [train]", commands)
    assert names(run) == ["train"] * 3


def test_decided_anew(tmp_path, programs):
    """A program that execs another one, and one whose threads have names of their own."""
    script = f"exec -a x {programs['train']} again 1"
    commands = [["bash", "-c", script], [programs["train"], "threads", "2", "1"]]
    run = run_filtered(tmp_path, "exe: [train]", commands)
    assert len(run.calls) == 1
    run = tap.trace(tmp_path, "bash", "-c", f"{programs['train']} exec_inside; true",
                    options=["-c", tap.config(tmp_path, "processes: {comms: [exe]}\n")], env=environment())
    assert names(run) == ["exe"] * 3


@contextlib.contextmanager
def family(tmp_path):
    """A shell whose children call, one that was there before anybody looked, and one for each line on its stdin."""
    script = f"{tap.program('scenes')} loop & while read n; do {tap.program('scenes')} again $n; done; kill $!; wait"
    shell = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment(),
                             stderr=subprocess.DEVNULL, text=True)
    try:
        yield shell
    finally:
        with contextlib.suppress(OSError):
            shell.stdin.close()
        shell.wait()


@pytest.mark.parametrize("method", tap.PROBES)
def test_children(tmp_path, method):
    def config(children):
        return tap.config(tmp_path, f"families: []\ninclude: [cudaMemset]\nlibraries: [{LIBRARY}]\n"
                                    f"processes: {{children: {children}}}\n")

    with family(tmp_path) as shell:
        time.sleep(0.2)
        with tap.running(["-c", config("true"), "-p", shell.pid, f"--probes={method}"], tmp_path) as running:
            running.wait_attached("libcudart.so.13")
            running.wait_for(lambda text: text.count('"type":"call"') > 3, "the child that was there")
            shell.stdin.write("5\n")
            shell.stdin.flush()
            running.wait_for(lambda text: text.count('"phase":"exit"') == 1, "the child that came")
            shell.stdin.close()
            run = running.finish()
        assert len({call["pid"] for call in run.calls}) == 2
        assert run.stop["reason"] == "processes_ended"


def test_children_outlive(tmp_path):
    """The given process has ended, its child calls on: until that ends too."""
    script = f"read line; (sleep 1; {tap.program('scenes')} again 4) & exit 0"
    config = tap.config(tmp_path, f"families: []\ninclude: [cudaMemset]\nlibraries: [{LIBRARY}]\n"
                                  "processes: {children: true}\n")
    shell = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, env=environment(), text=True)
    with tap.running(["-c", config, "-p", shell.pid], tmp_path) as running:
        running.wait_started()
        shell.communicate("go\n")
        run = running.finish()
    assert len(run.calls) == 4 and run.stop["reason"] == "processes_ended"


def test_parents_only(tmp_path):
    script = f"{tap.program('scenes')} again 5; exec {tap.program('scenes')} again 3"
    shell = subprocess.Popen(["sh", "-c", f"read line; {script}"], stdin=subprocess.PIPE, env=environment(), text=True)
    config = tap.config(tmp_path, f"families: []\ninclude: [cudaMemset]\nlibraries: [{LIBRARY}]\n")
    with tap.running(["-c", config, "-p", shell.pid], tmp_path) as running:
        running.wait_attached("libcudart.so.13")
        shell.communicate("go\n")
        run = running.finish()
    assert len(run.calls) == 3


@pytest.mark.parametrize("wrong", ["comms: ['a*b']", "comms: [a_name_that_is_too_long]", "exe: ['*/python']", "exe: [a//b]",
                                   "cgroups: [a/b]", "containers: [0123]", "containers: [" + "A" * 12 + "]", "uids: [root]",
                                   "uids: [-1]", "uids: [4294967295]"])
def test_wrong(tmp_path, wrong):
    done = tap.run_plain("check", "-c", tap.config(tmp_path, f"processes: {{{wrong}}}\n"))
    assert done.returncode == 2 and " is not " in done.stderr, done.stderr


def test_nobody(tmp_path):
    """Nobody fits: nothing is recorded, nothing is lost."""
    config = tap.config(tmp_path, "processes: {uids: [12345]}\n")
    run = tap.trace(tmp_path, tap.program("scenes"), "again", "100", options=["-c", config], env=environment())
    assert not run.calls and run.stop["calls"]["entries"] == 0
    assert run.code == 0
