"""The questions in examples/jq and in the README: each answered by jq on the events of traced programs, and by Python from the same
events. The programs allocate, copy, launch, wait, fail, leak, and run threads, under two jobs."""

import collections
import json
import re
import shutil
import subprocess

import pytest
import tap

README = (tap.ROOT / "README.md").read_text().partition("## Five answers by jq")[2].partition("Read on:")[0]
ON_README = re.findall(r"^    # (.*)\n((?:    .+\n)+)", README, re.MULTILINE)
RECIPES = sorted((tap.ROOT / "examples/jq").glob("*.jq"))
pytestmark = pytest.mark.skipif(not shutil.which("jq"), reason="no jq")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Path and events of one run of several programs, with something lost."""
    directory = tmp_path_factory.mktemp("jq")
    script = f"""
        SLURM_JOB_ID=7 RANK=0 {tap.FAKE}/demo >/dev/null
        SLURM_JOB_ID=7 RANK=1 {tap.FAKE}/demo >/dev/null
        {tap.program('scenes')} threads 3 5
        {tap.program('calls')} 3 {tap.FAKE}/libcudart.so.13 >/dev/null"""
    config = tap.config(directory, "fields: {env: [SLURM_JOB_ID, RANK]}\n")
    run = tap.trace(directory, "sh", "-c", script, options=["-c", config])
    events = run.events
    # a full queue's last word, as a sink writes it
    stop = events[-1]
    events.insert(-1, {"type": "loss", "run": stop["run"], "ts": stop["ts"], "host": stop["host"], "source": "sink",
                       "sink": "disk", "reason": "disk_full", "count": 3, "seq_first": 1, "seq_last": 3})
    stop["sinks"] = {"disk": {**next(iter(stop["sinks"].values())), "dropped": {"disk_full": 3}}}
    stop["calls"]["lost"]["ring"] = 4
    for event in events:
        tap.check_line(event)
    path = directory / "recorded.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path, events


def calls(events):
    return [event for event in events if event["type"] == "call"]


def groups(items, key):
    found = collections.defaultdict(list)
    for item in items:
        found[key(item)].append(item)
    return found


def total(items):
    return sum(item["duration_ns"] for item in items)


def tenths(part, whole):
    return round(1000 * part / whole) / 10


# ---- one function for each question ----

def errors(events):
    failed = groups((c for c in calls(events) if c["status"] == "error"), lambda c: (c["func"], c["error"]))
    return sorted(({"func": f, "error": e, "message": some[0].get("error_message"), "count": len(some)}
                   for (f, e), some in failed.items()), key=lambda a: (-a["count"], a["func"], a["error"]))


def slowest(events):
    found = sorted(calls(events), key=lambda c: (-c["duration_ns"], c["seq"]))[:10]
    return [{key: c.get(key) for key in ("seq", "func", "duration_ns", "kernel", "bytes", "pid")} for c in found]


def by_function(events):
    return sorted(({"func": f, "calls": len(some), "total_ns": total(some), "mean_ns": total(some) // len(some)}
                   for f, some in groups(calls(events), lambda c: c["func"]).items()), key=lambda a: (-a["total_ns"], a["func"]))


def by_family(events):
    whole = total(calls(events))
    return sorted(({"family": f, "total_ns": total(some), "percent": tenths(total(some), whole)}
                   for f, some in groups(calls(events), lambda c: c["family"]).items()),
                  key=lambda a: (-a["total_ns"], a["family"]))


def kernels(events):
    def threads(c):
        return c["grid"][0] * c["grid"][1] * c["grid"][2] * c["block"][0] * c["block"][1] * c["block"][2]

    launched = (c for c in calls(events) if c["family"] == "launch" and "kernel" in c)
    return sorted(({"kernel": k, "launches": len(some), "threads": sum(map(threads, some))}
                   for k, some in groups(launched, lambda c: c["kernel"]).items()),
                  key=lambda a: (-a["launches"], a["kernel"]))


def memory(events):
    """Allocations and what becomes of them: (call, is it a free)."""
    for c in calls(events):
        if c["status"] == "ok" and c.get("ptr") and c["family"] == "memory":
            yield c, "Free" in c["func"] or "Unregister" in c["func"]


def leaks(events):
    held = {}
    for c, free in memory(events):
        if free:
            held.pop((c["pid"], c["ptr"]), None)
        elif "bytes" in c:
            held[c["pid"], c["ptr"]] = {key: c[key] for key in ("pid", "ptr", "bytes", "func", "seq")}
    return sorted(held.values(), key=lambda a: a["seq"])


def peak_memory(events):
    peak, held = collections.Counter(), collections.defaultdict(dict)
    live = collections.Counter()
    for c, free in memory(events):
        pid = c["pid"]
        if free:
            live[pid] -= held[pid].pop(c["ptr"], 0)
        elif "bytes" in c:
            live[pid] += c["bytes"]
            held[pid][c["ptr"]] = c["bytes"]
            peak[pid] = max(peak[pid], live[pid])
    return [{"pid": pid, "peak_bytes": peak.get(pid), "left_bytes": live[pid]} for pid in sorted(live)]


def copied(events):
    answer = []
    moved = (c for c in calls(events) if c["family"] == "transfer" and c["status"] == "ok" and c.get("direction")
             and "bytes" in c)
    for direction, some in sorted(groups(moved, lambda c: c["direction"]).items()):
        waited = [c for c in some if "Async" not in c["func"]]
        rate = sum(c["bytes"] for c in waited) * 1000 // total(waited) if waited else None
        answer.append({"direction": direction, "copies": len(some), "bytes": sum(c["bytes"] for c in some),
                       "bytes_per_us": rate})
    return answer


def small_copies(events):
    small = (c for c in calls(events) if c["family"] == "transfer" and c.get("direction")
             and c.get("bytes", 1 << 30) <= 65536)
    return sorted(({"pid": p, "func": f, "direction": d, "copies": len(some), "bytes": sum(c["bytes"] for c in some)}
                   for (p, f, d), some in groups(small, lambda c: (c["pid"], c["func"], c["direction"])).items()),
                  key=lambda a: (-a["copies"], a["pid"], a["func"], a["direction"]))


def waiting(events):
    answer = []
    for pid, some in sorted(groups(calls(events), lambda c: c["pid"]).items()):
        sync = total(c for c in some if c["family"] == "sync")
        answer.append({"pid": pid, "comm": some[-1]["comm"], "sync_ns": sync, "percent": tenths(sync, total(some))})
    return answer


def first_calls(events):
    first = [min(some, key=lambda c: c["ts"]) for some in groups(calls(events), lambda c: c["pid"]).values()]
    return [{key: c[key] for key in ("pid", "comm", "ts", "func", "duration_ns")}
            for c in sorted(first, key=lambda c: (c["ts"], c["seq"]))]


def rate(events):
    return [{"second": second, "calls": len(some), "errors": sum(c["status"] == "error" for c in some)}
            for second, some in sorted(groups(calls(events), lambda c: c["ts"][:19]).items())]


def percentiles(events):
    answer = []
    for func, some in groups(calls(events), lambda c: c["func"]).items():
        d = sorted(c["duration_ns"] for c in some)
        answer.append({"func": func, "calls": len(d), "p50_ns": d[int((len(d) - 1) * 0.5)],
                       "p99_ns": d[int((len(d) - 1) * 0.99)], "max_ns": d[-1]})
    return sorted(answer, key=lambda a: (-a["p99_ns"], a["func"]))


def processes(events):
    return [{**{key: e.get(key) for key in ("pid", "comm", "exe", "phase", "exit_code", "signal")},
             "calls": e["total"]["calls"], "errors": e["total"]["errors"], "bytes": sum(e["total"]["bytes"].values())}
            for e in events if e["type"] == "process" and e["phase"] != "start"]


def lost(events):
    answer = []
    for e in events:
        if e["type"] == "loss":
            answer.append({"at": e["ts"], "where": e.get("sink", e["source"]), "reason": e["reason"], "count": e["count"]})
        elif e["type"] == "stop":
            answer += [{"where": "capture", "reason": r, "count": n} for r, n in e["calls"]["lost"].items() if n]
            answer += [{"where": name, "reason": r, "count": n} for name, sink in e["sinks"].items()
                       for r, n in sink["dropped"].items()]
    return answer


def threads(events):
    return sorted(({"pid": p, "tid": t, "name": some[0].get("thread", some[0]["comm"]), "calls": len(some),
                    "total_ns": total(some)} for (p, t), some in groups(calls(events), lambda c: (c["pid"], c["tid"])).items()),
                  key=lambda a: (-a["calls"], a["pid"], a["tid"]))


def before_errors(events):
    answer, history = [], collections.defaultdict(list)
    for c in calls(events):
        if c["status"] == "error":
            answer.append({"failed": c["func"], "error": c["error"], "seq": c["seq"], "before": history[c["tid"]][-3:]})
        history[c["tid"]].append(c["func"])
    return answer


def allocation_sizes(events):
    sizes = collections.Counter(1 << max(10, (c["bytes"] - 1).bit_length()) for c in calls(events)
                                if c["family"] == "memory" and c["status"] == "ok" and "bytes" in c)
    return [{"up_to": size, "allocations": n} for size, n in sorted(sizes.items())]


def streams(events):
    some = (c for c in calls(events) if c.get("stream") and c["family"] in ("launch", "transfer"))
    return [{"pid": p, "stream": s, "launches": sum(c["family"] == "launch" for c in found),
             "transfers": sum(c["family"] == "transfer" for c in found)}
            for (p, s), found in sorted(groups(some, lambda c: (c["pid"], c["stream"])).items())]


def jobs(events):
    def whose(c):
        env = c.get("environ", {})
        return env.get("SLURM_JOB_ID"), env.get("RANK")

    return [{"job": job, "rank": rank, "calls": len(some), "errors": sum(c["status"] == "error" for c in some)}
            for (job, rank), some in sorted(groups(calls(events), whose).items(), key=lambda p: [x or "" for x in p[0]])]


def test_there_are_twenty():
    assert len(RECIPES) == 20
    for path in RECIPES:
        assert path.read_text().startswith("# ") and "?" in path.read_text().splitlines()[0], path


def test_the_record_has_it_all(recorded):
    """Else the answers below would say little."""
    found = calls(recorded[1])
    assert {"memory", "transfer", "launch", "sync", "event", "stream"} <= {c["family"] for c in found}
    assert {"h2d", "d2h"} <= {c.get("direction") for c in found}
    assert len({c["pid"] for c in found}) == 4 and len({c["tid"] for c in found}) >= 6
    assert len(leaks(recorded[1])) >= 2 and len(errors(recorded[1])) >= 1 and len(jobs(recorded[1])) == 3


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_answer(recorded, path):
    file, events = recorded
    done = subprocess.run(["jq", "-ncf", path, file], capture_output=True, text=True, timeout=tap.TIMEOUT)
    assert done.returncode == 0, done.stderr
    answer = [json.loads(line) for line in done.stdout.splitlines()]
    assert answer, "a question without an answer is not tested"
    assert answer == globals()[path.stem.replace("-", "_")](events)


# ---- the README's ----

@pytest.fixture(scope="module")
def answers(recorded):
    """What each of the README's commands prints, by its question."""
    found = {}
    for question, command in ON_README:
        assert "calls.jsonl" in command
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command.replace("calls.jsonl", f"'{recorded[0]}'")],
                              capture_output=True, text=True, timeout=tap.TIMEOUT)
        assert done.returncode == 0 and not done.stderr and done.stdout, (question, done.stderr)
        found[question] = done.stdout
    return found


def test_readme(recorded, answers):
    events = recorded[1]
    assert len(answers) == 5
    failed = {f"{a['func']} {a['error']}": a["count"] for a in errors(events)}
    lines = (line.split(maxsplit=1) for line in answers["what failed, and how often"].splitlines())
    assert {what: int(count) for count, what in lines} == failed
    sums = collections.Counter()
    for call in calls(events):
        if call["family"] == "transfer" and "direction" in call and "bytes" in call:
            sums[call["direction"]] += call["bytes"]
    assert json.loads(answers["bytes copied per direction"]) == sums
    slow = [json.loads(line) for line in answers["the ten slowest calls"].splitlines()]
    assert [line[0] for line in slow] == [call["duration_ns"] for call in slowest(events)]
    grids = [line.split(maxsplit=1) for line in answers["launches per grid and block"].splitlines()]
    assert sum(int(count) for count, _ in grids) == sum(c["family"] == "launch" and "grid" in c for c in calls(events))
    left = json.loads(answers["allocations that were never freed"])
    assert sorted((a["pid"], a["ptr"], a["bytes"]) for a in left) == sorted((a["pid"], a["ptr"], a["bytes"])
                                                                              for a in leaks(events))
