"""The event schema against an existing validator: random calls of every function of the API table, and
events that it must refuse."""

import copy
import json
import os
import pathlib
import subprocess

import jsonschema
import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD", TOP / "build"))
HEAD = {"run": "k3v9q2m7x0ab", "seq": 7, "ts": "2026-11-29T16:21:03.123456789Z", "host": "gpu07"}


def with_constants(schema, names):
    """What event-schema.md says to do for `fields.static`."""
    schema = copy.deepcopy(schema)
    for definition in schema["$defs"].values():
        if "const" in definition.get("properties", {}).get("type", {}):
            for name in names:
                definition["properties"][name] = {"type": "string"}
    return schema


@pytest.fixture(scope="module")
def schema():
    schema = json.loads((TOP / "docs/event.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return schema


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    path = tmp_path_factory.mktemp("lines") / "calls.jsonl"
    subprocess.run([BUILD / "tests/test_encode_rows"], check=True, cwd=TOP, env={"CUDATAP_LINES": str(path)},
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return path.read_bytes().splitlines()


def events():
    """One proper event of each kind that is no call."""
    counters = {"received": 3, "delivered": 2, "dropped": {"queue_full": 1}}
    calls = dict.fromkeys("entries emitted unfinished nested muted filtered sampled_out rate_limited "
                          "duplicate unpaired open in_ring read_failed names_lost "
                          "orphan_exits environs_missed".split(), 0)
    calls["lost"] = dict.fromkeys("ring storage depth undecodable".split(), 0)
    config = {"api": ["runtime", "driver"], "families": ["memory"], "nested": False}
    return [
        {"type": "start", **HEAD, "version": "1.0", "kernel_release": "6.18.0", "method": "multi", "config": config,
         "pid": 1, "command": ["python3", "train.py"]},
        {"type": "attach", **HEAD, "attach_id": 1, "path": "/usr/lib/libcudart.so.12", "build_id": "00ff",
         "soname": "libcudart.so.12", "apis": ["runtime"], "static": False, "major": 12, "functions": 458,
         "failed": 0, "method": "multi", "pid": 1, "duration_ns": 1},
        {"type": "detach", **HEAD, "attach_id": 1, "path": "/usr/lib/libcudart.so.12", "functions": 458,
         "reason": "stop"},
        {"type": "loss", **HEAD, "source": "capture", "reason": "ring", "count": 2, "first_ts": HEAD["ts"],
         "last_ts": HEAD["ts"], "by_function": [{"func": "cudaMalloc", "count": 2}]},
        {"type": "loss", **{k: v for k, v in HEAD.items() if k != "seq"}, "source": "sink", "sink": "disk",
         "reason": "disk_full", "count": 2, "seq_first": 3, "seq_last": 4},
        {"type": "ready", **HEAD, "files": 2, "functions": 812, "duration_ns": 1},
        {"type": "clock", **HEAD, "step_ns": -5000000},
        {"type": "reload", **HEAD, "status": "ok", "reason": "signal", "duration_ns": 1,
         "changes": {"profile": "prod", "changed": [{"key": "families", "from": "[memory]", "to": "[launch]"}],
                     "added": [{"key": "sinks.disk", "to": "{type: file, ...}"}],
                     "removed": [{"key": "fields.static.env", "from": "prod"}],
                     "at_start": [{"key": "ring.size", "from": "16MiB", "to": "32MiB"}], "sinks_added": ["disk"],
                     "sinks_removed": ["a"], "sinks_replaced": ["b"], "attached": 10, "detached": 30, "cut": True}},
        {"type": "reload", **HEAD, "status": "error", "reason": "files", "errors": ["a.yaml:1:1: no"],
         "duration_ns": 1},
        {"type": "stop", **HEAD, "reason": "signal", "duration_ns": 1, "calls": calls, "sinks": {"disk": counters}},
    ]


@pytest.mark.parametrize("event", events(), ids=lambda event: event["type"])
def test_events(schema, event):
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(event)
    # strict: no further key, and none of the required ones missing
    assert not validator.is_valid({**event, "further": 1})
    assert not validator.is_valid({**event, "run": "short"})
    assert not validator.is_valid({k: v for k, v in event.items() if k != "ts"})
    with_constant = jsonschema.Draft202012Validator(with_constants(schema, ["env"]))
    with_constant.validate({**event, "env": "prod"})
    assert not with_constant.is_valid({**event, "env": 1})


def test_every_function(schema, lines):
    validator = jsonschema.Draft202012Validator(with_constants(schema, ["env", "note"]))
    assert len(lines) > 10000
    # all rows, every third round: a validator in Python needs a millisecond for each
    seen = set()
    for line in lines[::3]:
        event = json.loads(line)
        validator.validate(event)
        seen.add(event.get("symbol", event["func"]))
    assert len(seen) > 900


WRONG = [
    {"status": "fine"}, {"ret": "2"}, {"ret": 2147483648}, {"error": None}, {"duration_ns": -1}, {"api": "nvml"},
    {"family": "misc"}, {"bytes": 9223372036854775808}, {"ptr": 4096}, {"ptr": "0x01"}, {"ptr": "0xABC"},
    {"grid": [1, 2]}, {"grid": {"x": 1}}, {"direction": "h2p"}, {"ts": "2026-11-29T16:21:03.123Z"},
    {"ts": "2026-13-29T16:21:03.123456789Z"}, {"seq": 0}, {"args": {}}, {"args": {"size_cut": False}},
    {"args": {"a b": 1}}, {"status": "unfinished"}, {"parent": "cudaMalloc"}, {"comm": ""},
]


@pytest.mark.parametrize("change", WRONG, ids=json.dumps)
def test_wrong_calls(schema, change):
    event = {"type": "call", **HEAD, "pid": 1, "tid": 2, "comm": "a", "api": "runtime", "family": "memory",
             "func": "cudaMalloc", "duration_ns": 11834, "ret": 2, "status": "error",
             "error": "cudaErrorMemoryAllocation", "error_message": "out of memory", "bytes": 1048576,
             "args": {"devPtr": "0x7ffd01a2b3c8", "size": 1048576}}
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(event)
    assert not validator.is_valid({**event, **change})
