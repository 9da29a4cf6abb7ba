"""Four sinks at once: stdout into jq, rotating files, rsyslog and a real broker of Kafka, each read back by a reader
of its own; then the same with the broker gone for ten seconds and the disk full for five.

CUDATAP_CALLS=1000000 makes it the long run."""

import collections
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest
import tap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from receivers import daemon, kafka, rsyslog  # noqa: E402

CALLS = int(os.environ.get("CUDATAP_CALLS", 60000))
CONFIG = """version: 1
families: [transfer]
sinks:
  console: {{type: stdout, queue: {queue}}}
  disk: {{type: file, path: {disk}/cuda.jsonl, rotate: {{max_size: 16MiB, keep: 100, compress: zstd}}, queue: {queue}}}
  syslog: {{type: syslog, target: "unix://{socket}", queue: {queue}}}
  lake: {{type: kafka, brokers: [{broker}], topic: {topic}, queue: {queue}}}
"""
QUEUE = "{max_events: 2000000, max_bytes: 1GiB}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    try:
        with kafka.Group(tmp_path_factory.mktemp("kafka")) as group:
            yield group
    except daemon.Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture
def syslog(tmp_path_factory):
    try:
        receiver = rsyslog.Rsyslog(tmp_path_factory.mktemp("s"), ("unix",))
    except daemon.Unavailable as why:
        pytest.skip(str(why))
    with receiver:
        yield receiver


@pytest.fixture
def disk(tmp_path):
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2g", "cudatap-test", path], check=True)
    yield path
    subprocess.run(["umount", "-l", path], check=True)


def generations(disk):
    """The lines of the file and its generations, oldest first, as zstdcat and cat read them."""
    def age(path):
        part = path.name.removeprefix("cuda.jsonl").strip(".").split(".")[0]
        return int(part or 0)
    lines = []
    for path in sorted(disk.glob("cuda.jsonl*"), key=age, reverse=True):
        reader = ["zstdcat"] if path.suffix == ".zst" else ["cat"]
        lines += subprocess.run([*reader, path], capture_output=True, check=True, text=True).stdout.splitlines()
    return lines


class Run:
    """cudatap with the four sinks; `meanwhile` is done while it runs."""

    def __init__(self, place, broker, syslog, disk, delay, meanwhile=lambda: None):
        topic = broker.create_topic(f"four.{time.monotonic_ns()}")
        config = place / "four.yaml"
        config.write_text(CONFIG.format(disk=disk, socket=syslog.unix, broker=broker.bootstrap, topic=topic, queue=QUEUE))
        self.counts = place / "counts"
        self.counts.mkdir()
        env = tap.environment({"FAKE_CUDA_NESTED": "0", "FAKE_CUDA_COUNTS": str(self.counts),
                               "FAKE_CUDA": f"cudaMemset:delay={delay}"})
        seen = place / "stdout.seq"
        with open(seen, "w") as out, open(place / "stderr", "w") as err:
            self.tap = subprocess.Popen([tap.CUDATAP, "-c", config, "--", tap.program("rate"), "1", str(CALLS)],
                                        stdout=subprocess.PIPE, stderr=err, env=env)
            jq = subprocess.Popen(["jq", "-r", ".seq // empty"], stdin=self.tap.stdout, stdout=out)
            self.tap.stdout.close()
            helper = threading.Thread(target=meanwhile, daemon=True)
            helper.start()
            self.code = self.tap.wait(900)
            helper.join()
            assert jq.wait(300) == 0
        self.stderr = (place / "stderr").read_text()
        # what was sent may still lie in rsyslog
        daemon.wait_until(lambda n=[-1]: n[0] == syslog.count() or n.__setitem__(0, syslog.count()), "rsyslog's end", 120)
        self.seqs = {
            "console": [int(line) for line in seen.read_text().split()],
            "disk": [json.loads(line).get("seq", 0) for line in generations(disk)],
            "syslog": [json.loads(m["raw"]).get("seq", 0) for m in map(json.loads, open(syslog.out))],
            "lake": [json.loads(line).get("seq", 0) for line in broker.read(topic, timeout=300)],
        }
        self.status = json.loads(next(line for line in reversed(self.stderr.splitlines()) if line.startswith("{")))

    def check(self):
        """Each sink: what arrived and what its counters say was lost are together what it was given."""
        calls = self.status["calls"]
        made = tap.read_counts(self.counts)["cudaMemset"]
        assert self.code == 0 and made == CALLS == calls["emitted"] and calls["entries"] == made, self.stderr
        for name, seqs in self.seqs.items():
            sink, arrived = self.status["sinks"][name], collections.Counter(s for s in seqs if s)
            # nothing at all of Kafka when the broker takes too long to come back
            assert max(arrived.values(), default=0) <= 1, f"{name}: something came twice"
            # what was under way when the broker went is not known to have arrived, and may have
            assert 0 <= len(arrived) - sink["delivered"] <= sink["unknown"], (name, len(arrived), sink, self.stderr)
            assert sink["received"] == sink["delivered"] + sum(sink["dropped"].values()) + sink["unknown"], (name, sink)
            print(name, f"{len(arrived)} of {sink['received']} distinct seq", sink["dropped"])


def test_the_same_in_each(tmp_path, broker, syslog, disk):
    run = Run(tmp_path, broker, syslog, disk, "0")
    run.check()
    everything = set(range(1, run.status["sinks"]["console"]["received"] + 1))
    for name, seqs in run.seqs.items():
        assert set(seqs) - {0} == everything, f"{name}: {run.status['sinks'][name]}"


def test_broker_gone_and_disk_full(tmp_path, broker, syslog, disk):
    outage, full = (10, 5) if CALLS > 500000 else (3, 2)

    def faults():
        time.sleep(1)
        broker.brokers[0].kill()
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        filler = disk / "filler"
        try:
            with open(filler, "wb") as out:
                for _ in range(free // (1 << 20) + 1):
                    out.write(bytes(1 << 20))
        except OSError:
            pass
        time.sleep(full)
        filler.unlink()
        time.sleep(outage - full)
        broker.brokers[0].start()

    delay = max(1, int((outage + 6) * 1e6 / CALLS))
    run = Run(tmp_path, broker, syslog, disk, f"{delay}us", faults)
    run.check()
