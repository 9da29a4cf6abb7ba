"""Shippers that tail a rotating file: not a line is lost and none comes twice, while cudatap writes as fast as it can
and begins a new file again and again. Each runs on the file that is in examples/, with the test's own places."""

import json
import pathlib
import subprocess
import sys

import pytest
import tap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from receivers import daemon, otelcol, rsyslog, syslog_ng  # noqa: E402

EXAMPLES = tap.ROOT / "examples"
pytestmark = pytest.mark.skipif(tap.CUDATAP.parent != tap.BUILD, reason="the feed is no part of that executable")


def available(make, *arguments):
    try:
        return make(*arguments)
    except daemon.Unavailable as why:
        pytest.skip(str(why))


def example(name, **places):
    """An example's text with the places of this test."""
    text = (EXAMPLES / name).read_text()
    for old, new in places.items():
        assert old in text
    for old, new in places.items():
        text = text.replace(old, str(new))
    return text


class Rsyslog(daemon.Daemon):
    def __init__(self, directory, text):
        super().__init__(directory)
        root = daemon.unpack("rsyslog", rsyslog.PACKAGES)
        multiarch = daemon.multiarch(root)
        self.environment = {"LD_LIBRARY_PATH": str(multiarch)}
        config = self.directory / "rsyslog.conf"
        config.write_text(f'global(workDirectory="{self.directory}")\n{text}')
        self.command = [str(root / "usr/sbin/rsyslogd"), "-n", f"-M{multiarch / 'rsyslog'}", "-f", str(config), "-i",
                        str(self.directory / "pid")]

    def ready(self):
        return (self.directory / "pid").exists()


class SyslogNg(syslog_ng.SyslogNg):
    def __init__(self, directory, text):
        super().__init__(directory, inputs=())
        (self.directory / "syslog-ng.conf").write_text("@version: 3.38\noptions { stats-freq(0); };\n" + text)

    def ready(self):
        return (self.directory / "ctl").exists()


def make_rsyslog(directory, logs):
    out = directory / "out"
    out.mkdir()
    text = example("rsyslog/cudatap-imfile.conf", **{"/var/log/cudatap-rsyslog": out, "/var/log/cudatap/": f"{logs}/"})
    return available(Rsyslog, directory / "rsyslog", text), out / "events.jsonl"


def make_syslog_ng(directory, logs):
    out = directory / "out"
    out.mkdir()
    text = example("syslog-ng/cudatap.conf", **{"/var/log/cudatap-syslog-ng": out, '"/var/log/cudatap"': f'"{logs}"',
                                               "port(6514)": f"port({daemon.free_port()})"})
    return available(SyslogNg, directory / "syslog-ng", text), out / "events.jsonl"


def make_otelcol(directory, logs):
    out = directory / "otelcol"
    text = example("otelcol/json-filelog.yaml", **{"/var/log/cudatap/": f"{logs}/", "/var/lib/otelcol": out})
    text = text.replace("service:\n", "service:\n  telemetry: {metrics: {level: none}}\n")
    return available(otelcol.Collector, out, text), out / "cudatap.jsonl"


def lines_of(path):
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def otlp_events(line):
    """The attributes of every record of one line."""
    for resource in json.loads(line)["resourceLogs"]:
        for scope in resource["scopeLogs"]:
            for record in scope["logRecords"]:
                yield {one["key"]: one["value"] for one in record["attributes"]}


RECEIVERS = {"rsyslog": make_rsyslog, "syslog-ng": make_syslog_ng, "otelcol": make_otelcol}


# What is written to, how fast (calls a second; 0: without a pause), and how many files that are at least.
SIZED = ("cuda.jsonl", "max_size: 1MiB", 15)
DATED = ("cuda-%Y%m%dT%H%M%S.jsonl", "interval: 1s", 3)
CASES = [
    pytest.param("otelcol", SIZED, 0, 60000, id="otelcol-by-size"),
    pytest.param("rsyslog", DATED, 40000, 120000, id="rsyslog-by-date"),
    pytest.param("rsyslog", SIZED, 8000, 48000, id="rsyslog-by-size"),
    pytest.param("syslog-ng", DATED, 40000, 120000, id="syslog-ng-by-date"),
]


def one_name(receiver):
    """The example's other way, as its comment says."""
    path = receiver.directory / "rsyslog.conf"
    text = path.read_text()
    assert 'cuda-*.jsonl"' in text
    path.write_text(text.replace('cuda-*.jsonl"', 'cuda.jsonl"'))


@pytest.mark.parametrize("name, files, rate, calls", CASES)
def test_no_line_is_lost_over_rotations(tmp_path, name, files, rate, calls):
    pattern, rotate, at_least = files
    logs = tmp_path / "logs"
    logs.mkdir()
    config = tap.config(tmp_path, f"sinks:\n  disk:\n    type: file\n    path: {logs}/{pattern}\n"
                                  f"    rotate: {{{rotate}, keep: 1000}}\n")
    receiver, out = RECEIVERS[name](tmp_path, logs)
    if name == "rsyslog" and files == SIZED:
        one_name(receiver)
    speed = ["-r", str(rate)] if rate else []
    with receiver:
        feed = subprocess.run([tap.program("feed"), "-c", config, "-n", str(calls), "-w", *speed], capture_output=True,
                              text=True, timeout=60)
        assert feed.returncode == 0, feed.stderr
        written = [line for path in logs.iterdir() for line in lines_of(path)]
        assert len(written) == calls and len(list(logs.iterdir())) >= at_least

        def count():
            lines = lines_of(out)
            return sum(1 for line in lines for _ in otlp_events(line)) if name == "otelcol" else len(lines)

        daemon.wait_until(lambda: count() >= calls, f"{calls} lines", 60, lambda: f"{count()} came")
    got = lines_of(out)
    if name == "otelcol":
        got = [int(event["seq"]["intValue"]) for line in got for event in otlp_events(line)]
        written = [json.loads(line)["seq"] for line in written]
    elif name == "rsyslog":  # it writes the object anew
        got, written = ([json.dumps(json.loads(line), sort_keys=True) for line in lines] for lines in (got, written))
    assert len(got) == len(written), f"{len(got)} of {len(written)}"
    assert sorted(got) == sorted(written)


# ---- the sink `syslog` ----

def received(tmp_path, target, calls=500):
    """What the sink sent, by a file beside it."""
    sent = tmp_path / "sent.jsonl"
    config = tap.config(tmp_path, f"sinks:\n  file: {{type: file, path: {sent}}}\n  syslog: {{type: syslog, target: "
                                  f'"{target}"}}\n')
    feed = subprocess.run([tap.program("feed"), "-c", config, "-n", str(calls), "-w"], capture_output=True, text=True,
                          timeout=60)
    assert feed.returncode == 0, feed.stderr
    return [json.loads(line) for line in lines_of(sent)]


def test_rsyslog_takes_the_sink_syslog(tmp_path_factory):
    place = tmp_path_factory.mktemp("s")  # a short name: a unix socket's path has at most 107 bytes
    text = example("rsyslog/cudatap-syslog.conf", **{"/var/log/cudatap-rsyslog": place})
    receiver = available(Rsyslog, place / "r", f'module(load="imuxsock" SysSock.Name="{place}/log")\n{text}')
    receiver.ready = lambda: daemon.unix_bound(place / "log")
    with receiver:
        sent = received(place, f"unix://{place}/log")
        daemon.wait_until(lambda: len(lines_of(place / "events.jsonl")) >= len(sent), f"{len(sent)} events")
    got = [json.loads(line) for line in lines_of(place / "events.jsonl")]
    key = {event["seq"]: event for event in sent}
    assert len(got) == len(sent) and all(key[event["seq"]] == event for event in got)


def test_syslog_ng_takes_the_sink_syslog(tmp_path):
    port = daemon.free_port()
    text = example("syslog-ng/cudatap.conf", **{"/var/log/cudatap-syslog-ng": tmp_path, "port(6514)": f"port({port})",
                                               '"/var/log/cudatap"': f'"{tmp_path}/none"'})
    (tmp_path / "none").mkdir()
    receiver = available(SyslogNg, tmp_path / "syslog-ng", text)
    receiver.ready = lambda: daemon.tcp_listens(port)
    with receiver:
        sent = received(tmp_path, f"tcp://127.0.0.1:{port}")
        errors = [event["seq"] for event in sent if event["status"] == "error"]
        for name, want in (("events", len(sent)), ("errors", len(errors))):
            daemon.wait_until(lambda: len(lines_of(tmp_path / f"{name}.jsonl")) >= want, f"{want} {name}")
    assert [json.loads(line) for line in lines_of(tmp_path / "events.jsonl")] == sent
    assert [json.loads(line)["seq"] for line in lines_of(tmp_path / "errors.jsonl")] == errors and errors
