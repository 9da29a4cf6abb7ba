"""One file, several environments: what each profile traces, and how `check` tells of them."""

import collections
import json
import os

import pytest
import tap

FILE = """
version: 1
profile: ${STAGE:-dev}
families: [memory, transfer]
fields: {static: {cluster: a}}
sinks:
  disk: {type: file, path: "${OUT}"}
profiles:
  dev:
    families: all
    nested: true
    fields: {static: {env: dev}}
  server:
    fields: {args: false, static: {env: none}}
  prod:
    extends: server
    fields: {static: {env: prod}}
    sinks: {disk: {filter: {status: [error]}}}
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "cudatap.yaml"
    path.write_text(FILE)
    return path


def traced(path, out, *options, env=None):
    done = tap.run_plain("-c", path, *options, "--", tap.FAKE / "demo", env={"OUT": str(out), **(env or {})})
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in out.read_text().splitlines()]
    for event in events:
        tap.check_line({key: value for key, value in event.items() if key not in ("env", "cluster")})
    return [event for event in events if event["type"] == "call"]


def test_same_program_under_dev_and_prod(path, tmp_path):
    dev = traced(path, tmp_path / "dev.jsonl")
    prod = traced(path, tmp_path / "prod.jsonl", "--profile", "prod")
    # dev: every family, the calls inside of calls, with arguments
    assert {"memory", "transfer", "launch", "stream"} <= {call["family"] for call in dev}
    assert {call["api"] for call in dev} == {"runtime", "driver"}
    assert any(call.get("depth") for call in dev) and any("args" in call for call in dev)
    assert all(call["env"] == "dev" and call["cluster"] == "a" for call in dev)
    # prod: of two families what failed, without arguments
    assert [(call["func"], call["error"]) for call in prod] == [("cudaMalloc", "cudaErrorMemoryAllocation")]
    assert all(call["env"] == "prod" and call["cluster"] == "a" and "args" not in call for call in prod)


def test_environment_chooses(path, tmp_path):
    by_variable = traced(path, tmp_path / "a.jsonl", env={"CUDATAP_PROFILE": "prod"})
    by_file = traced(path, tmp_path / "b.jsonl", env={"STAGE": "prod"})
    assert len(by_variable) == len(by_file) == 1
    both = traced(path, tmp_path / "c.jsonl", "--profile=server", env={"CUDATAP_PROFILE": "prod"})
    assert {call["env"] for call in both} == {"none"} and len(both) > 1


def test_check_and_diff(path):
    env = {"OUT": "/tmp/x.jsonl"}
    done = tap.run_plain("check", "-c", path, "--profile", "prod", "--diff", "dev", env=env)
    assert done.returncode == 0 and done.stdout == (
        "# prod -> dev\n"
        "families: [memory, transfer] -> all\n"
        "nested: false -> true\n"
        "fields.args: false -> true\n"
        "fields.static.env: prod -> dev\n"
        "sinks.disk.filter.status: [error] -> []\n")
    same = tap.run_plain("check", "-c", path, "--profile", "prod", "--diff", "prod", env=env)
    assert same.returncode == 0 and same.stdout == "# prod -> prod\n"
    printed = tap.run_plain("check", "-c", path, "--profile", "prod", env=env)
    assert printed.stdout.startswith("# profile prod\n")


@pytest.mark.parametrize("arguments, words", [
    (["--profile", "prdo"], ["--profile", "prdo", "prod"]),
    (["--profile", "prod", "--diff", "devv"], ["devv", "dev"]),
])
def test_unknown_profile(path, arguments, words):
    done = tap.run_plain("check", "-c", path, *arguments, env={"OUT": "/tmp/x.jsonl"})
    assert done.returncode == 2 and not done.stdout
    assert all(word in done.stderr for word in words)


def test_unset_variable_stops(path):
    done = tap.run_plain("-c", path, "--", "true")
    assert done.returncode == 2
    assert f'{path}:7:28: variable "OUT" is not set' in done.stderr


def test_mistake_in_another_profile_stops(path):
    path.write_text(FILE.replace("extends: server", "extends: servre").replace("status: [error]", "status: [wrong]"))
    done = tap.run_plain("check", "-c", path, "--profile", "dev", env={"OUT": "/tmp/x.jsonl"})
    assert done.returncode == 2 and done.stderr.count("\n") == 2
    assert "servre" in done.stderr and "wrong" in done.stderr and '(profile "prod")' in done.stderr


def test_included_files(tmp_path):
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "10-sinks.yaml").write_text(
        "sinks: {disk: {type: file, path: /a, mode: '0600'}}\nhost: ten\n")
    (tmp_path / "conf.d" / "20-host.yaml").write_text("host: twenty\nnested: true\n")
    path = tmp_path / "main.yaml"
    path.write_text("include_files: [conf.d/*.yaml]\nsinks: {disk: {path: /b}}\nnested: false\n")
    # whatever the working directory
    done = tap.run_plain("check", "-c", os.path.relpath(path))
    assert done.returncode == 0, done.stderr
    assert "path: /b\n" in done.stdout and 'mode: "0600"' in done.stdout
    assert "host: twenty\n" in done.stdout and "nested: false\n" in done.stdout
    (tmp_path / "conf.d" / "20-host.yaml").write_text("host: twenty\nnestd: true\n")
    done = tap.run_plain("check", "-c", path)
    assert done.returncode == 2 and f"{tmp_path}/conf.d/20-host.yaml:2:1: unknown key" in done.stderr


def test_pages():
    reference, schema = tap.run_plain("config", "reference"), tap.run_plain("config", "schema")
    assert reference.stdout == (tap.ROOT / "docs/configuration.md").read_text()
    assert json.loads(schema.stdout) == json.loads((tap.ROOT / "docs/config.schema.json").read_text())
    for words in (["config"], ["config", "page"]):
        done = tap.run_plain(*words)
        assert done.returncode == 2 and "reference" in done.stderr


# ---- what docs/profiles.md shows ----

PAGE = (tap.ROOT / "docs/profiles.md").read_text()


def shown(name, tmp_path):
    """The file of that name on the page, written to a directory, and the text behind it."""
    text = PAGE[PAGE.index(f"`{name}`:\n"):]
    _, content, rest = text.split("```", 2)
    path = tmp_path / name
    path.write_text(content.partition("\n")[2])
    return path, rest


def after(rest, command):
    """The output that the page shows of a command."""
    lines = rest[rest.index(command):].split("\n")[1:]
    output = []
    for line in lines:
        if not line.startswith("    ") or line.startswith("    $ "):
            break
        output.append(line[4:])
    return "\n".join(output) + "\n"


def test_ten_mistakes_on_the_page(tmp_path, monkeypatch):
    path, rest = shown("mistakes.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RACK", raising=False)
    done = tap.run_plain("check", "-c", path.name)
    assert done.returncode == 2 and not done.stdout
    messages = done.stderr.splitlines()
    assert done.stderr == after(rest, "check -c mistakes.yaml") and len(messages) == 10
    # each at the word that is wrong
    lines = path.read_text().splitlines()
    wrong = {"famlies": 2, "drver": 3, "cudaMalock": 4, "maybe": 5, "20MiB": 6, "20 millis": 6, "${RACK}": 7, "eror]": 11,
             "kafak": 12}
    places = [tuple(map(int, message.split(":")[1:3])) for message in messages]
    for word, line in wrong.items():
        assert (line, lines[line - 1].index(word) + 1) in places, word
    assert (10, 5) in places  # the sink whose path is missing


def test_two_profiles_on_the_page(tmp_path, monkeypatch):
    _, rest = shown("cuda.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    for profile in ("dev", "prod"):
        done = tap.run_plain("-c", "cuda.yaml", "--profile", profile, "--", tap.FAKE / "demo")
        assert done.returncode == 0, done.stderr
        calls = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines() if '"type":"call"' in line]
        families = collections.Counter(call["family"] for call in calls)
        table = "".join(f"{n:7} {family}\n" for family, n in sorted(families.items()))
        output = rest[rest.index(f"--profile {profile} -- ./demo"):]
        assert table == after(output, "uniq -c"), table
        (tmp_path / "out.jsonl").unlink()
    done = tap.run_plain("check", "-c", "cuda.yaml", "--profile", "dev", "--diff", "prod")
    assert done.stdout == after(rest, "--diff prod")
