"""Exit codes and bad input: one message each that says what is wrong, and nothing left attached."""

import os
import shutil
import signal
import subprocess
import tempfile

import pytest
import tap


def refused(code, *arguments, words=(), lines=1, **options):
    """cudatap must end with this code, with so many messages that hold these words, and leave nothing."""
    since = tap.last_program_id()
    done = tap.run_plain(*arguments, **options)
    said = [line for line in done.stderr.split("\n") if line]
    assert done.returncode == code, done
    assert len(said) == lines, said
    for word in words:
        assert word in done.stderr, (word, done.stderr)
    tap.assert_nothing_left(since)
    return done


# ---- the command's end ----

@pytest.mark.parametrize("script,code", [("exit 0", 0), ("exit 5", 5), ("exit 255", 255), ("kill -9 $$", 137),
                                         ("kill -TERM $$", 143), ("kill -SEGV $$", 139), ("kill -INT $$", 130)])
def test_code_of_the_command(tmp_path, script, code):
    run = tap.trace(tmp_path, "sh", "-c", script)
    assert run.code == code and run.stop["exit_code"] == code


def test_command_not_found(tmp_path):
    done = refused(127, "-o", tmp_path / "out", "--", "no-such-command-here", words=["no-such-command-here"], lines=1)
    assert done.stdout == ""
    refused(127, "-o", tmp_path / "out", "--", "/no/such/path", words=["/no/such/path"])


def test_command_that_cannot_run(tmp_path):
    file = tmp_path / "not-executable"
    file.write_text("x")
    refused(126, "-o", tmp_path / "out", "--", file, words=[str(file), "ermission denied"])
    refused(126, "-o", tmp_path / "out", "--", tmp_path, words=[str(tmp_path)])


def test_command_without_cuda(tmp_path):
    """A command that calls no CUDA is no failure; it is said that there was none."""
    run = tap.trace(tmp_path, "true")
    assert run.code == 0 and not run.calls and run.stop
    assert "no CUDA library" in run.stderr


def test_command_reads_its_stdin(tmp_path):
    done = subprocess.run([str(tap.CUDATAP), "-o", str(tmp_path / "out"), "--", "cat"], input="hello\n", text=True,
                          capture_output=True, timeout=30, env=tap.environment())
    assert done.returncode == 0 and done.stdout == "hello\n"


# ---- words ----

def test_usage(tmp_path):
    refused(2, "--no-such-option", lines=1, words=["no-such-option"])
    refused(2, "-p", words=["p"])
    refused(2, "-p", "12x", words=["12x"])
    refused(2, "-p", "-4", words=["-4"])
    refused(2, "--probes=some", words=["some", "session"])
    refused(2, "--", words=["command"])
    refused(2, "python", words=["python", "--"])
    refused(2, "docter", words=["docter", "doctor"])
    refused(2, "-u", "no-such-user-x", "--", "true", words=["no-such-user-x"])
    refused(2, "-f", "memroy", words=["memroy", "memory"])


@pytest.mark.parametrize("words", ["check b.yaml", "check -- b.yaml", "doctor b.yaml", "list families b.yaml",
                                   "config schema b.yaml", "check -q b.yaml"])
def test_word_that_no_verb_takes(words):
    """A file that is not even read must not pass for right."""
    refused(2, *words.split(), words=["b.yaml", "-c FILE"])


@pytest.mark.parametrize("words, option", [("--json", "json"), ("--json -- true", "json"), ("check --json", "json"),
                                           ("--diff=x -- true", "diff"), ("list --diff x functions", "diff"),
                                           ("-u nobody", "user"), ("--mix", "mix"), ("--no-hold -p 1", "no-hold"),
                                           ("--mix check", "mix")])
def test_option_without_effect(words, option):
    refused(2, *words.split(), words=[f"--{option}: has no effect"])


def test_help_and_version():
    done = tap.run_plain("--help")
    assert done.returncode == 0 and "usage: cudatap" in done.stdout and not done.stderr
    done = tap.run_plain("--version")
    assert done.returncode == 0 and done.stdout.startswith("cudatap ") and not done.stderr


def test_pids(tmp_path):
    child = subprocess.Popen(["true"])
    child.wait()
    refused(1, "-p", child.pid, words=[str(child.pid)])
    refused(2, "-p", "999999999", words=["999999999"])  # larger than any


# ---- files ----

def test_output_that_cannot_be_written(tmp_path):
    ran = tmp_path / "ran"
    refused(125, "-o", tmp_path / "no" / "such" / "directory", "--", "touch", ran, words=["directory"])
    refused(125, "-o", tmp_path, "--", "touch", ran, words=[str(tmp_path)])
    refused(1, "-o", tmp_path, words=[str(tmp_path)])
    assert not ran.exists(), "the command must not have run"


@pytest.mark.parametrize("text,words", [
    ("families: [memroy]", ["memroy", "memory", ":2:12"]),
    ("ring: {size: 1}", ["size", ":2:14"]),
    ("ring: {size: 1B}", ["size"]),
    ("nonsense: 1", ["nonsense", ":2:1"]),
    ("families: [memory", ["yaml:"]),
    ("include: [cudaMaloc]", ["cudaMaloc", "cudaMalloc"]),
    ("libraries: [/no/such/libcudart.so]", ["/no/such/libcudart.so"]),
    ("processes: {pids: [0]}", ["process id", ":2:20"]),
    ("sinks: {x: {type: filee, path: /tmp/x}}", ["filee", "file"]),
    ("sinks: {x: {type: file}}", ["path"]),
])
def test_wrong_configuration(tmp_path, text, words):
    refused(2, "-c", tap.config(tmp_path, text), "--", "touch", tmp_path / "ran", words=words)
    assert not (tmp_path / "ran").exists(), "the command must not have run"


def test_all_errors_at_once(tmp_path):
    path = tap.config(tmp_path, "famillies: all\nnested: maybe\nring: {size: 3, flush: 1parsec}")
    refused(2, "-c", path, words=["famillies", "maybe", "parsec"], lines=4)


def test_no_yaml(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(256)))
    refused(2, "-c", path, words=[str(path)])
    refused(2, "-c", tmp_path / "missing", words=["missing"])
    refused(2, "-c", tmp_path, words=[str(tmp_path)])


@pytest.mark.parametrize("name,content,words", [
    ("text.so", b"this is no library\n" * 20, ["ELF"]),
    ("empty.so", b"", ["ELF"]),
    ("short.so", b"\x7fELF\x02\x01\x01", []),
])
def test_libraries_that_are_none(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    refused(2, "-c", tap.config(tmp_path, f"libraries: [{path}]"), words=[str(path), *words])


def test_library_of_another_architecture(tmp_path):
    data = bytearray((tap.FAKE / "libcudart.so.12").read_bytes())
    data[18:20] = (183).to_bytes(2, "little")  # EM_AARCH64
    path = tmp_path / "arm.so"
    path.write_bytes(data)
    refused(2, "-c", tap.config(tmp_path, f"libraries: [{path}]"), words=[str(path), "architecture"])


def test_library_without_cuda(tmp_path):
    path = os.path.realpath("/proc/self/exe")
    refused(2, "-c", tap.config(tmp_path, f"libraries: [{path}]"), words=[path])


def test_check(tmp_path):
    path = tap.config(tmp_path, "families: [memory]\nsinks: {disk: {type: file, path: /tmp/x.jsonl}}")
    done = tap.run_plain("check", "-c", path)
    assert done.returncode == 0 and "memory" in done.stdout and "/tmp/x.jsonl" in done.stdout
    again = tmp_path / "again.yaml"
    again.write_text(done.stdout)
    assert tap.run_plain("check", "-c", again).stdout == done.stdout
    refused(2, "check", "-c", tap.config(tmp_path, "x: 1"), words=["x"])


@pytest.mark.parametrize("what", ["functions", "families", "libraries"])
def test_list(what):
    plain = tap.run_plain("list", what)
    assert plain.returncode == 0
    found = tap.json.loads(tap.run_plain("list", what, "--json").stdout)
    assert isinstance(found, list)
    if what != "libraries":
        assert len(found) > 10 and len(plain.stdout.splitlines()) == len(found) + 1
    refused(2, "list", what + "x", words=[what])


@pytest.mark.parametrize("text, words", [("families: [memory]", {"off", "on"}),
                                         ("families: []\ninclude: [cuInit]", {"off", "on", "muted"}),
                                         ("filter: {functions: [cudaMalloc]}", {"off", "on", "filtered"}),
                                         ("filter: {status: [error]}", {"off", "on", "muted", "filtered"}),
                                         ("sample: {rates: {launch: 10}}\nnested: true", {"off", "on"})])
def test_state_of_functions(tmp_path, text, words):
    """Of each one a word, whatever else is noted of it."""
    path = tap.config(tmp_path, text + "\n")
    found = tap.json.loads(tap.run_plain("list", "functions", "--json", "-c", path).stdout)
    plain = [line.split()[3:] for line in tap.run_plain("list", "functions", "-c", path).stdout.splitlines()[1:]]
    assert plain == [[row["state"], row["symbol"]] for row in found]
    assert {row["state"] for row in found} == words


def test_doctor():
    done = tap.run_plain("doctor")
    assert done.returncode == 0, done
    found = tap.json.loads(tap.run_plain("doctor", "--json").stdout)
    assert found


def test_without_rights():
    """One message that says what to do, no events, nothing attached."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        os.chmod(directory, 0o755)
        copy = shutil.copy(tap.CUDATAP, directory)
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all",
                               copy, "--", "true"], capture_output=True, text=True, timeout=30, cwd="/",
                              env=tap.environment())
    assert done.returncode == 125 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and "capabilities" in done.stderr, done.stderr


def test_nothing_left_after_a_run(tmp_path):
    since = tap.last_program_id()
    tap.trace(tmp_path, tap.FAKE / "demo")
    tap.assert_nothing_left(since)


def test_killed(tmp_path):
    """kill -9 of cudatap: the command goes on, held or not, and nothing stays attached."""
    since = tap.last_program_id()
    script = "sleep 0.5; " + f"{tap.program('scenes')} again 3; touch {tmp_path}/ran"
    with tap.running(["--", "sh", "-c", script], tmp_path) as running:
        running.wait_started()
        running.interrupt(signal.SIGKILL)
        running.process.wait(5)
        end = tap.time.monotonic() + 10
        while not (tmp_path / "ran").exists():
            assert tap.time.monotonic() < end, "the command did not go on"
            tap.time.sleep(0.05)
    tap.assert_nothing_left(since)
