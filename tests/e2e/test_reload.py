"""Another configuration while fake CUDA programs call as fast as they can: it takes effect at one border
between two events, nothing is lost, and what has not changed goes on."""

import contextlib
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest
import tap
from reloading import (HEAD, LOG, ONE, QUEUE, Reloads, TIMEOUT, TIMES, assert_nothing_lost, check_stream, end_calls,
                       numbers, others, read, reloading, wait_until, write)


def test_families_at_full_rate(tmp_path):
    """Many reloads that switch families while two threads call at full rate: nothing lost, every call accounted
    for, and the sink is open all the time."""
    families = ["[memory, transfer]", "[memory]", "[memory, transfer, launch, query]", "default", "[transfer, sync]"]
    with reloading(tmp_path, f"families: {families[0]}\n{ONE}") as run:
        run.wait_started()
        with run.caller("2", TIMES) as program:
            wait_until(lambda: run.out.stat().st_size > 10000, "calls")
            inode = run.out.stat().st_ino
            for words in itertools.islice(itertools.cycle(families[1:] + families[:1]), 12):
                event = run.reload(f"families: {words}\n{ONE}")
                assert event["status"] == "ok" and event["reason"] == "signal"
                assert [change["key"] for change in event["changes"]["changed"]] == ["families"]
                assert not [key for key in event["changes"] if key.startswith("sinks_")]
                assert event["changes"]["attached"] + event["changes"]["detached"] > 0
            made = end_calls(program)
        stop = run.end()
        seqs = check_stream(run.out)
        assert_nothing_lost(stop)
        assert run.out.stat().st_ino == inode
        assert stop["sinks"]["out"]["received"] + 1 == len(seqs) == stop["seq"]
        text = run.out.read_bytes()
        mallocs, memsets = text.count(b'"func":"cudaMalloc"'), text.count(b'"func":"cudaMemset"')
        assert 0 < mallocs <= made[0] and 0 < memsets <= made[1]
        assert mallocs + memsets + text.count(b'"func":"cudaFree"') == stop["calls"]["emitted"]


def test_selected_calls_are_all_there(tmp_path):
    """Reloads that leave a function selected do not lose one of its calls."""
    texts = [f"families: [memory{more}]\n{ONE}fields: {{static: {{n: \"{i}\"}}}}\n"
             for i, more in enumerate(["", ", transfer", ", transfer, launch", ", query"])]
    with reloading(tmp_path, texts[0]) as run:
        run.wait_started()
        with run.caller("1", TIMES) as program:
            for text in texts[1:] + texts:
                run.reload(text)
            mallocs, _ = end_calls(program)
        stop = run.end()
        check_stream(run.out)
        assert_nothing_lost(stop)
        text = run.out.read_bytes()
        sizes = [int(n) for n in re.findall(rb'"func":"cudaMalloc","status":"ok","bytes":(\d+)', text)]
        assert sizes == list(range(1, mallocs + 1))
        # and `fields` changes exactly at the event
        parts = re.split(rb'^{"type":"reload".*\n', text, flags=re.MULTILINE)
        for part, n in zip(parts, (b"0", b"1", b"2", b"3", b"0", b"1", b"2", b"3")):
            assert part.count(b'"n":"') == part.count(b'"n":"%s"' % n) == part.count(b"\n")


def test_sinks(tmp_path):
    """Sinks are added, removed and changed under load; each stream is whole from its first to its last event."""
    head = f"families: [memory]\n{HEAD}sinks:\n{LOG}  out: {{type: file, path: DIR/out.jsonl, {QUEUE}}}\n"
    queue = ", " + QUEUE
    steps = [
        f"  b: {{type: file, path: DIR/b.jsonl{queue}}}\n",
        f"  b: {{type: file, path: DIR/b.jsonl, rotate: {{keep: 3}}{queue}}}\n",  # the same file: one after the other
        f"  b: {{type: file, path: DIR/b.jsonl, rotate: {{keep: 3}}{queue}, filter: {{status: [error]}}}}\n",
        f"  b: {{type: file, path: DIR/b2.jsonl{queue}}}\n  c: {{type: file, path: DIR/b.jsonl{queue}}}\n",
        f"  c: {{type: file, path: DIR/b.jsonl{queue}}}\n",
        "",
    ]
    expected = [("added", ["b"]), ("replaced", ["b"]), (None, None), ("added", ["c"]), ("removed", ["b"]),
                ("removed", ["c"])]
    with reloading(tmp_path, head) as run:
        run.wait_started()
        with run.caller("1", TIMES) as program:
            for text, (what, names) in zip(steps, expected):
                event = run.reload(head + text)
                assert event["status"] == "ok", event
                changes = event["changes"]
                if what:
                    assert changes[f"sinks_{what}"] == names
                else:
                    assert not [key for key in changes if key.startswith("sinks_")]
            end_calls(program)
        stop = run.end()
        check_stream(run.out)
        assert_nothing_lost(stop)
        assert set(stop["sinks"]) == {"log", "out", "b", "c"}
        borders = [event["seq"] for event in run.events.look()]
        # sink b until it had a filter, then errors alone (there are none), then sink c, whose last is the event
        # that removes it
        whole = list(range(borders[0], borders[2] + 1)) + list(range(borders[3], borders[5] + 1))
        assert numbers(tmp_path / "b.jsonl") == whole
        assert numbers(tmp_path / "b2.jsonl") == list(range(borders[3], borders[4] + 1))


def test_sinks_of_many_names(tmp_path):
    """More names over time than a line has room for: the stop event is there, and counts all."""
    names = [[f"a-sink-with-a-name-of-some-length-{batch}-{i}" for i in range(20)] for batch in range(8)]
    text = f"families: [memory]\n{ONE}"

    def ended(batch):
        return all('"sinks_removed"' in (tmp_path / f"{name}.jsonl").read_text() for name in batch)

    with reloading(tmp_path, text) as run:
        run.wait_started()
        for before, batch in zip([[], *names], [*names, []]):
            more = "".join(f"  {name}: {{type: file, path: DIR/{name}.jsonl}}\n" for name in batch)
            assert run.reload(text + more)["status"] == "ok"
            wait_until(lambda before=before: ended(before), "the last lines")
        stop = run.end()
        tap.check_line(stop)
        assert stop["type"] == "stop"
        tap.check_conservation(stop)
        assert {"log", "out"} <= set(stop["sinks"])
        assert sum(sink["received"] for name, sink in stop["sinks"].items() if name not in ("log", "out")) == 2 * 160


def test_wrong(tmp_path):
    """A wrong file, one that is not there, a sink that cannot be opened: all stays, and it is said why."""
    text = f"families: [memory]\n{ONE}"
    with reloading(tmp_path, text) as run:
        run.wait_started()
        event = run.reload(text + "familes: all\nnested: 7\n")
        assert event["status"] == "error" and len(event["errors"]) == 2
        assert event["errors"][0].startswith(f"{run.path}:8:1: unknown key \"familes\""), event
        assert event["errors"][0] in run.stderr() and "stays as it was" in run.stderr()
        event = run.reload(text + "  n: {type: file, path: /proc/nope/x}\n")
        assert event["status"] == "error" and "/proc/nope" in event["errors"][0], event
        run.path.unlink()
        run.hup()
        event = run.next_event()
        assert event["status"] == "error" and "cudatap.yaml" in event["errors"][0]
        # what would be waited for without end, or would mean the defaults
        for make in (os.mkfifo, pathlib.Path.touch, pathlib.Path.mkdir):
            make(run.path)
            run.hup()
            event = run.next_event()
            assert event["status"] == "error" and "cudatap.yaml" in event["errors"][0], event
            (pathlib.Path.rmdir if run.path.is_dir() else pathlib.Path.unlink)(run.path)
        # SIGHUP has opened files anew all the same
        run.events.path.rename(tmp_path / "moved.jsonl")
        run.events.at = 0
        run.hup()
        assert run.next_event()["status"] == "error"
        run.write(text)
        run.hup()
        wait_until(lambda: "has not changed" in run.stderr(), "the message")
        with run.caller("1", "1000") as program:
            wait_until(lambda: run.out.read_text().count('"func":"cudaFree"') == 1000, "calls")
            assert end_calls(program) == (1000, 1000)
        assert run.end()["calls"]["emitted"] == 2000


def test_configuration_from_a_pipe(tmp_path):
    """`-c <(...)`: SIGHUP leaves all as it is, however often."""
    read_end, write_end = os.pipe()
    os.write(write_end, f"version: 1\nsinks: {{o: {{type: file, path: {tmp_path}/o.jsonl}}}}\n".encode())
    os.close(write_end)
    out = tmp_path / "o.jsonl"
    process = subprocess.Popen([str(tap.CUDATAP), "-c", f"/dev/fd/{read_end}"], pass_fds=[read_end],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    os.close(read_end)
    try:
        wait_until(lambda: out.exists() and '"type":"start"' in out.read_text(), "the start")
        for n in (1, 2):
            process.send_signal(signal.SIGHUP)
            wait_until(lambda n=n: out.read_text().count('"status":"error"') == n, "the reload event")
        process.terminate()
        assert process.communicate(timeout=TIMEOUT)[0] == b""
        assert list(read(out)[-1]["sinks"]) == ["o"]
    finally:
        process.kill()
        process.wait()


def test_filter_and_sample(tmp_path):
    """What the BPF program and the reader decide of all calls changes as well, and nothing is unaccounted for."""
    text = f"families: [memory]\n{ONE}"
    with reloading(tmp_path, text) as run:
        run.wait_started()
        with run.caller("1", "1000000000") as program:
            for more in ("filter: {status: [error]}\n", "sample: {rates: {memory: 10}}\n", "filter: {min_bytes: 1000}\n",
                         "process_rate_limit: {events: 10}\n", "", "sample: {rates: {memory: 10}, keep_errors: false}\n"):
                assert run.reload(text + more)["status"] == "ok"
                time.sleep(0.05)  # for some calls
            end_calls(program)
        stop = run.end()
        check_stream(run.out)
        assert_nothing_lost(stop)
        assert min(stop["calls"][key] for key in ("filtered", "sampled_out", "rate_limited", "emitted")) > 0, stop
        assert stop["calls"]["orphan_exits"] == 0


def test_processes(tmp_path):
    """Another choice of processes, which the BPF program was not loaded with."""
    text = f"families: [memory]\n{ONE}"
    with reloading(tmp_path, text) as run:
        run.wait_started()
        with run.caller("1", "1000000000") as program:
            grown = run.out.stat().st_size
            for what, calls in ("comms: [nobody]", False), ("comms: [reload_*], uids: [0]", True), ("uids: [7]", False):
                wait_until(lambda: run.out.stat().st_size > grown + 10000, "calls")
                assert run.reload(f"processes: {{{what}}}\n{text}")["status"] == "ok"
                grown = run.out.stat().st_size
                if not calls:
                    wait_until(lambda: run.out.stat().st_size == (time.sleep(0.2), run.out.stat().st_size)[1], "silence")
                    run.reload(text)
                    grown = run.out.stat().st_size
            end_calls(program)
        stop = run.end()
        check_stream(run.out)
        assert_nothing_lost(stop)


def test_profile_and_start_keys(tmp_path):
    """`profile:` in the file chooses another one; what only a start changes is said and kept."""
    text = f"profile: P\n{ONE}profiles: {{dev: {{families: all}}, prod: {{families: [memory], host: h2}}}}\n"
    with reloading(tmp_path, text.replace("P", "dev", 1)) as run:
        run.wait_started()
        event = run.reload(text.replace("P", "prod", 1).replace("64MiB", "32MiB") + "names: off\n")
        changes = event["changes"]
        assert changes["profile"] == "prod" and event["host"] == "h2"
        assert [change["key"] for change in changes["changed"]] == ["families", "host"]
        assert [change["key"] for change in changes["at_start"]] == ["names", "ring.size"]
        assert changes["at_start"][1] == {"key": "ring.size", "from": "64MiB", "to": "32MiB"}
        assert "ring.size: takes effect at the next start" in run.stderr()
        run.end()


def test_command_line_stays(tmp_path):
    """Options that went over the file at the start go over it again."""
    run_out = tmp_path / "o.jsonl"
    with reloading(tmp_path, f"families: [memory]\n{ONE}", options=["-f", "transfer", "-o", run_out, "--nested"]) as run:
        run.events = Reloads(run_out)
        wait_until(lambda: run_out.exists() and '"type":"attach"' in run_out.read_text(), "attaching")
        run.write(f"families: all\nopen_after: 5s\n{ONE}")
        run.hup()
        event = run.next_event()
        assert [change["key"] for change in event["changes"]["changed"]] == ["open_after"]
        run.tap.interrupt()
        assert run.tap.process.wait(TIMEOUT) == 0


def rename_into(path, text):
    """As editors do."""
    other = path.with_suffix(".new")
    write(other, text)
    other.rename(path)


def test_files(tmp_path):
    """reload: on_change sees a write, a rename, and included files that appear and go."""
    (tmp_path / "conf.d").mkdir()
    head = f"reload: on_change\ninclude_files: [conf.d/*.yaml]\n{ONE}"
    with reloading(tmp_path, head) as run:
        run.wait_started()
        event = run.reload(f"families: [memory]\n{head}", signal=False)
        assert event["reason"] == "files" and event["changes"]["changed"][0]["key"] == "families"
        rename_into(run.path, f"families: [transfer]\n{head}".replace("DIR", str(tmp_path)))
        assert run.next_event()["changes"]["changed"][0]["to"] == "[transfer]"
        write(tmp_path / "conf.d/a.yaml", "fields: {static: {env: one}}\n")
        assert run.next_event()["changes"]["added"] == [{"key": "fields.static.env", "to": "one"}]
        rename_into(tmp_path / "conf.d/a.yaml", "fields: {static: {env: two}}\n")
        assert run.next_event()["env"] == "two"
        write(tmp_path / "conf.d/a.yaml", "fields: {static: [}\n")
        event = run.next_event()
        assert event["status"] == "error" and event["errors"][0].startswith(f"{tmp_path}/conf.d/a.yaml:2:")
        (tmp_path / "conf.d/a.yaml").unlink()
        event = run.next_event()
        assert event["changes"]["removed"] == [{"key": "fields.static.env", "from": "two"}]
        # a file that is of no concern
        write(tmp_path / "conf.d/a.txt", "nothing\n")
        rename_into(run.path, f"families: [memory]\n{ONE}".replace("DIR", str(tmp_path)))  # the last of its kind
        assert [change["key"] for change in run.next_event()["changes"]["changed"]] == ["families", "reload"]
        write(run.path, "families: [transfer]\n")
        time.sleep(0.3)
        assert len(run.events.look()) == run.done
        run.write(f"families: [launch]\n{ONE}")
        run.hup()
        assert run.next_event()["reason"] == "signal"
        run.end()


def test_symbolic_link(tmp_path):
    """A ConfigMap: a link to a directory is swapped."""
    for name, family in ("one", "memory"), ("two", "transfer"), ("three", "launch"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "cudatap.yaml",
              f"reload: on_change\nfamilies: [{family}]\n{ONE}".replace("DIR", str(tmp_path)))
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "cudatap.yaml").symlink_to("..data/cudatap.yaml")
    shutil.copy(tap.FAKE / "libcudart.so.13", tmp_path)
    with tap.running(["-c", tmp_path / "cudatap.yaml"], tmp_path, events="none") as running:
        events = Reloads(tmp_path / "log.jsonl")
        wait_until(lambda: events.path.exists() and '"type":"start"' in events.path.read_text(), "start")
        for n, (name, family) in enumerate((("two", "transfer"), ("three", "launch")), 1):
            (tmp_path / "..tmp").symlink_to(name)
            os.rename(tmp_path / "..tmp", tmp_path / "..data")
            event = events.wait(n)
            assert event["reason"] == "files" and event["changes"]["changed"][0]["to"] == f"[{family}]"
        running.interrupt()
        assert running.process.wait(TIMEOUT) == 0


def test_spool_of_a_renamed_sink(tmp_path):
    """Who adds up the sinks of a run counts each event once, whoever of them has had the spool."""
    def config(name):
        return f"{ONE}  {name}: {{type: syslog, target: 'unix://DIR/nobody', spool: {{path: DIR/spool}}}}\n"

    with reloading(tmp_path, config("first")) as run:
        run.wait_started()
        run.reload(config("second"))  # the events so far are enough
        wait_until(lambda: "sink second: " in run.stderr() and "were left in spool" in run.stderr(), "the spool")
        run.tap.interrupt()
        time.sleep(0.1)
        sinks = run.end()["sinks"]
    total = {key: sum(sinks[name].get(key, 0) for name in ("first", "second")) for key in sinks["first"] | sinks["second"]
             if key != "dropped"}
    assert sinks["first"]["handed_over"] == sinks["second"]["taken_over"] > 0
    assert sinks["first"]["spooled"] == total["recovered"] == total["delivered"] == 0
    assert total["received"] == total["spooled"] + total["queued"]


def test_every_sink_changes(tmp_path):
    """As many sinks as there can be, all of them others."""
    def config(suffix):
        return HEAD + f"sinks:\n{LOG}" + "".join(
            f"  s{i}: {{type: file, path: DIR/{suffix}{i}.jsonl, queue: {{max_events: 1000}}}}\n" for i in range(63))

    with reloading(tmp_path, config("a")) as run:
        run.wait_started()
        assert run.reload(config("b"))["status"] == "ok"
        assert run.reload(config("c"))["status"] == "ok"
        run.tap.interrupt()
        assert run.tap.process.wait(TIMEOUT) == 0
    for i in (0, 62):
        assert [event["type"] for event in others(tmp_path / f"b{i}.jsonl")] == ["reload"]
        assert [event["type"] for event in others(tmp_path / f"c{i}.jsonl")][0] == "reload"


def test_outside_is_away_when_its_turn_comes(tmp_path):
    """A sink that had to wait for the old one, and then cannot open its file, does so when it can."""
    def config(mode):
        return HEAD + f"sinks:\n{LOG}  out: {{type: file, path: DIR/dir/out.jsonl, mode: {mode}, {QUEUE}}}\n"

    (tmp_path / "dir").mkdir()
    with reloading(tmp_path, config("0640")) as run:
        run.wait_started()
        (tmp_path / "dir").rename(tmp_path / "moved")
        (tmp_path / "dir").write_text("in the way")
        run.reload(config("0600"))
        wait_until(lambda: "trying again" in run.stderr(), "a message")
        with run.caller("10") as process:
            end_calls(process)
        (tmp_path / "dir").unlink()
        (tmp_path / "dir").mkdir()
        wait_until(lambda: "sink out: it is open now" in run.stderr(), "the file")
        run.tap.interrupt()
        assert run.tap.process.wait(TIMEOUT) == 0
    last = others(tmp_path / "dir/out.jsonl")[-1]
    assert last["type"] == "stop" and not last["sinks"]["out"]["dropped"]
    seqs = numbers(tmp_path / "moved/out.jsonl") + numbers(tmp_path / "dir/out.jsonl")
    assert seqs == list(range(1, last["seq"] + 1))


@contextlib.contextmanager
def blocked(tmp_path):
    """A cudatap whose reader waits, for a minute, for a sink that takes nothing; and the process that is traced."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)  # it never reads

    def config(families):
        return (f"families: {families}\n{ONE}  stuck: {{type: file, path: {fifo}, queue: {{max_events: 100, "
                "when_full: block, block_timeout: 1m}, allow_stall: true}\n")

    with reloading(tmp_path, config("[memory]")) as run:
        run.wait_started()
        with run.caller("100") as process:
            wait_until(lambda: process.poll() is None and stuck(run) == 100, "a full queue")
            yield run, config, process
    os.close(reader)


def stuck(run):
    """How many events wait for the sink that takes nothing."""
    run.tap.interrupt(signal.SIGUSR2)
    time.sleep(0.02)
    found = re.findall(r'"stuck":.*?"queued":(\d+)', run.stderr())
    return int(found[-1]) if found else 0


def test_reload_past_a_blocked_sink(tmp_path):
    """It does not wait, and nothing is lost for that; nor do SIGHUP's reopening and the end."""
    with blocked(tmp_path) as (run, config, process):
        for families in ("[memory, sync]", "[memory]"):
            (tmp_path / "log.jsonl").rename(tmp_path / "old.jsonl")
            run.events = Reloads(tmp_path / "log.jsonl")
            run.done = 0
            assert run.reload(config(families))["status"] == "ok"
        sinks = json.loads(re.findall(r'^{"type":"status".*', run.stderr(), re.MULTILINE)[-1])["sinks"]
        assert not sinks["stuck"]["dropped"]
        begun = time.monotonic()
        stop = run.end()
        assert time.monotonic() - begun < TIMEOUT
        assert stop["reason"] == "signal"
        end_calls(process)


def test_second_signal_past_a_blocked_sink(tmp_path):
    with blocked(tmp_path) as (run, _, process):
        run.tap.interrupt(signal.SIGTERM)
        time.sleep(0.05)
        run.tap.interrupt(signal.SIGTERM)
        assert run.tap.process.wait(TIMEOUT) == 0
        end_calls(process)


def told(run, what):
    return run.stderr().count(what), sum(what in event.get("errors", ()) for event in run.events.look())


@pytest.mark.parametrize("broken", ["included", "first of two", "newly included", "missing"])
def test_mistake_is_told_once(tmp_path, broken):
    """A mistake, in whatever file, which changes also what is to be watched: one message and one event per change."""
    (tmp_path / "conf.d").mkdir()
    head = f"reload: on_change\n{ONE}"
    for name in ("a", "b"):
        write(tmp_path / f"conf.d/{name}.yaml", f"fields: {{static: {{{name}: one}}}}\n")
    with reloading(tmp_path, f"include_files: [conf.d/a.yaml, conf.d/b.yaml]\n{head}") as run:
        run.wait_started()

        def break_it():
            if broken == "newly included":
                write(tmp_path / "new.yaml", "fields: {static: [}\n")
                run.write(f"include_files: [conf.d/a.yaml, conf.d/b.yaml, new.yaml]\n{head}")
            elif broken == "missing":
                run.write(f"include_files: [conf.d/a.yaml, conf.d/b.yaml, new.yaml]\n{head}")
            else:
                write(tmp_path / f"conf.d/{'a' if broken == 'first of two' else 'b'}.yaml", "fields: {static: [}\n")

        for n in (1, 2):  # who saves the same mistake again is told again
            break_it()
            event = run.next_event()
            assert event["status"] == "error"
            time.sleep(0.5)  # five times as long as files have to be quiet
            assert told(run, event["errors"][0]) == (n, n), run.stderr()
        run.write(ONE)
        assert run.next_event()["status"] == "ok"
        run.end()


def test_call_under_way(tmp_path):
    """A call that began before its function was deselected is told when it returns, and its probe waits for it."""
    text = f"families: [memory, sync]\n{ONE}"
    with reloading(tmp_path, text) as run:
        run.wait_started()
        with run.caller("hang") as program:
            wait_until(lambda: '"func":"cudaMalloc"' in run.out.read_text(), "a call")
            event = run.reload(f"families: [memory]\n{ONE}")
            assert event["changes"]["detached"] > 0
            time.sleep(0.3)  # longer than probes wait where nobody is in them
            end_calls(program)
        stop = run.end()
        calls = [event for event in read(run.out) if event.get("func") == "cudaDeviceSynchronize"]
        assert len(calls) == 1 and calls[0]["status"] == "ok" and calls[0]["seq"] > event["seq"]
        assert stop["calls"]["unpaired"] == 0 and stop["calls"]["orphan_exits"] == 0


@pytest.mark.parametrize("probes", ["session", "multi"])
def test_with_a_command(tmp_path, probes):
    """A held command whose library is looked into after a reload is traced by the new configuration."""
    out, path = tmp_path / "out.jsonl", tmp_path / "c.yaml"
    text = f"families: [memory]\nsinks: {{out: {{type: file, path: {out}}}}}\n"
    write(path, text)
    words = ["-c", path, f"--probes={probes}", "--", "sh", "-c",
             f"echo ready >&2; read line; exec {tap.program('scenes')} several"]
    process = subprocess.Popen([str(tap.CUDATAP), *map(str, words)], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=tap.environment(), text=True)
    try:
        assert process.stderr.readline() == "ready\n"
        write(path, text.replace("memory", "transfer"))
        process.send_signal(signal.SIGHUP)
        Reloads(out).wait(1)
        process.communicate("go\n", timeout=TIMEOUT)
        assert process.returncode == 0
        assert [event["func"] for event in read(out) if event["type"] == "call"] == ["cudaMemcpy", "cudaMemset"]
    finally:
        process.kill()
        process.wait()


def test_signals_without_end(tmp_path):
    """SIGHUP comes faster than it is obeyed: processes that are held for their libraries are not kept waiting, and a
    stop is seen."""
    out, path = tmp_path / "out.jsonl", tmp_path / "c.yaml"
    slow = ", ".join(["'cudaArr*'"] * 4000)  # to read
    write(path, f"families: [memory]\nexclude: [{slow}]\nsinks: {{out: {{type: file, path: {out}}}}}\n")
    words = ["-c", path, "--", "sh", "-c",
             f"echo ready >&2; read line; {tap.program('scenes')} several; touch done; exec sleep 1000"]
    process = subprocess.Popen([str(tap.CUDATAP), *map(str, words)], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=tap.environment(), text=True, cwd=tmp_path)
    ending = threading.Event()

    def storm():
        while not ending.is_set():
            process.send_signal(signal.SIGHUP)

    sender = threading.Thread(target=storm, daemon=True)
    try:
        assert process.stderr.readline() == "ready\n"
        threading.Thread(target=process.stderr.read, daemon=True).start()
        sender.start()
        begin = time.monotonic()
        print("go", file=process.stdin, flush=True)
        wait_until((tmp_path / "done").exists, "the command")
        assert time.monotonic() - begin < 8, "it was let go for want of an answer"
        process.terminate()  # the command's
        process.wait(TIMEOUT)
        assert any(event["type"] == "call" for event in read(out))
    finally:
        ending.set()
        process.kill()
        process.wait()
        sender.join()
