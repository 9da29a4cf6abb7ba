"""Files that `libraries` names are looked for again when the configuration is read again."""

import os
import shutil
import signal

import pytest
import tap
from test_release import LIBRARY, Caller, told, wait_calls, wait_for


def replace(path):
    """As package managers do."""
    new = path.with_name(".new")
    shutil.copy(LIBRARY, new)
    os.rename(new, path)


@pytest.fixture(name="run")
def _run(tmp_path):
    """cudatap on the files that a glob and a plain name stand for: one of each."""
    names = [tmp_path / "lib-1.so", tmp_path / "plain"]
    for name in names:
        shutil.copy(LIBRARY, name)
    text = f"families: []\ninclude: [cudaMemset]\nlibraries: ['{tmp_path}/lib-*.so', '{names[1]}']\n"
    with tap.running(["-c", tap.config(tmp_path, text + "reload: on_change\n")], tmp_path) as running:
        running.wait_started()
        running.glob, running.plain = names
        yield running


def wait_attached(run, path, n):
    run.wait_for(lambda text: told(text, "attach", path) == n, f"{n} times probes on {path}")


def test_replaced_and_new_files(run):
    """An upgrade and a SIGHUP: new processes are traced, and those that have the old file are still."""
    with Caller(run.glob) as old:
        old.call(7701)
        for name in (run.glob, run.plain):
            replace(name)
        added = run.glob.with_name("lib-2.so")
        shutil.copy(LIBRARY, added)
        run.interrupt(signal.SIGHUP)
        for name, n in ((run.glob, 2), (run.plain, 2), (added, 1)):
            wait_attached(run, name, n)
        with Caller(run.glob) as one, Caller(run.plain) as two, Caller(added) as three:
            for caller, size in ((old, 7702), (one, 7703), (two, 7704), (three, 7705)):
                caller.call(size)
        wait_calls(run, *range(7701, 7706))
        result = run.end()
    assert result.code == 0 and len(result.attached) == 5 and not result.of("detach")
    result.assert_clean()


def test_by_changed_files(run, tmp_path):
    """A reload that a changed configuration has brought looks as well."""
    replace(run.glob)
    path, = tmp_path.glob("config-*.yaml")
    path.write_text(path.read_text() + "nested: false\n")
    wait_attached(run, run.glob, 2)
    assert run.end().code == 0


def test_what_is_wrong_is_said(run):
    """A name without a file, and a file that is no library, are one message; the others get their probes."""
    run.plain.unlink()
    broken = run.glob.with_name("lib-0.so")
    broken.write_text("no library")
    replace(run.glob)
    run.interrupt(signal.SIGHUP)
    wait_attached(run, run.glob, 2)
    wait_for(lambda: str(run.plain) in run.err_path.read_text(), "a message")
    replace(run.plain)
    run.interrupt(signal.SIGHUP)
    wait_attached(run, run.plain, 2)
    result = run.end()
    lines = [line for line in result.stderr.splitlines() if line.startswith("cudatap: ") and str(run.glob.parent) in line]
    assert result.code == 0 and len(lines) == 2, result.stderr
    assert lines[0].startswith(f"cudatap: {broken}: ") and lines[1].startswith(f"cudatap: libraries: {run.plain}: ")
