#!/usr/bin/env python3
"""The sinks beside what operators use otherwise: rsyslog tailing the file (imfile) into its omkafka and omfile. Both
bring the same lines to the same real broker and to a file; events/s and CPU per event in one table.

    tests/bench/beside_rsyslog.py FEED [EVENTS [ROUNDS]]

FEED is the program that feeds sinks without probes (build/e2e/feed). Making its lines is no work of the sinks: it is
measured into /dev/null and taken off. What bounds the ratio is librdkafka, which both use: see the CPU of the bare
producer in bench_kafka."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from receivers import daemon, kafka  # noqa: E402

PACKAGES = ("rsyslog", "rsyslog-kafka", "libestr0", "libfastjson4")
ALONE = "version: 1\nsinks: {{disk: {{type: file, path: /dev/null, queue: {queue}}}}}\n"
OURS = """version: 1
sinks:
  disk: {{type: file, path: {file}, queue: {queue}}}
  lake: {{type: kafka, brokers: [{broker}], topic: {topic}, compression: lz4, queue: {queue}}}
"""
QUEUE = "{max_events: 2000000, max_bytes: 1GiB}"
THEIRS = """
global(workDirectory="{place}" maxMessageSize="64k")
main_queue(queue.type="LinkedList" queue.size="500000" queue.dequeueBatchSize="4096")
module(load="imfile" mode="inotify")
module(load="omkafka")
template(name="line" type="string" string="%msg%\\n")
template(name="message" type="string" string="%msg%")
input(type="imfile" file="{file}" tag="cuda" addMetadata="off")
action(type="omkafka" broker=["{broker}"] topic="{topic}" template="message" partitions.auto="on"
       confParam=["compression.codec=lz4", "acks=all", "queue.buffering.max.messages=1000000"])
action(type="omfile" file="{out}" template="line" ioBufferSize="64k")
"""


class Rsyslog(daemon.Daemon):
    def __init__(self, place, **names):
        super().__init__(place)
        root = daemon.unpack("rsyslog-kafka", PACKAGES)
        modules = daemon.multiarch(root)
        self.environment = {"LD_LIBRARY_PATH": str(modules)}
        config = self.directory / "rsyslog.conf"
        config.write_text(THEIRS.format(place=place, **names))
        self.command = [str(root / "usr/sbin/rsyslogd"), "-n", f"-M{modules / 'rsyslog'}", "-f", str(config), "-i",
                        str(self.directory / "pid")]

    def ready(self):
        return (self.directory / "pid").exists()


def lines_in(path):
    done = subprocess.run(["wc", "-l", path], capture_output=True, text=True)
    return int(done.stdout.split()[0]) if not done.returncode else 0


def high_water(group, topic):
    """Messages of a topic with one partition."""
    done = subprocess.run(["kcat", "-Q", "-b", group.bootstrap, "-t", f"{topic}:0:-1"], capture_output=True, text=True)
    return int(done.stdout.rsplit(" ", 1)[1]) if not done.returncode else 0


def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_feed(feed, config, n):
    """Seconds by the clock and of CPU."""
    begun = time.monotonic()
    process = subprocess.Popen([feed, "-c", config, "-n", str(n), "-w", "-d", "60"], stdout=subprocess.PIPE)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    sinks = json.loads(out.splitlines()[-1])["sinks"]
    assert status == 0 and all(sink["delivered"] == n for sink in sinks.values()), sinks
    return time.monotonic() - begun, usage.ru_utime + usage.ru_stime


def run_ours(place, feed, group, n):
    topic = group.create_topic(f"ours.{time.monotonic_ns()}")
    config, path = place / "ours.yaml", place / f"ours-{time.monotonic_ns()}.jsonl"
    config.write_text(OURS.format(file=path, broker=group.bootstrap, topic=topic, queue=QUEUE))
    alone = place / "alone.yaml"
    alone.write_text(ALONE.format(queue=QUEUE))
    took, cpu = run_feed(feed, config, n)
    return path, took, cpu - run_feed(feed, alone, n)[1]


def run_theirs(place, path, group, n):
    topic = group.create_topic(f"theirs.{time.monotonic_ns()}")
    out = place / f"theirs-{time.monotonic_ns()}.jsonl"
    receiver = Rsyslog(place / f"rsyslog-{time.monotonic_ns()}", file=path, out=out, broker=group.bootstrap, topic=topic)
    begun = time.monotonic()
    with receiver:
        # the buffer of omfile is written when it is full or the daemon ends
        daemon.wait_until(lambda: high_water(group, topic) >= n, "rsyslog's messages in Kafka", 300)
        took = time.monotonic() - begun
        cpu = cpu_of(receiver.process.pid)
    daemon.wait_until(lambda: lines_in(out) >= n, "rsyslog's file", 60)
    return took, cpu


def main(feed, n=400000, rounds=3):
    n, rounds = int(n), int(rounds)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as directory, kafka.Group(pathlib.Path(directory) / "kafka", fast=True) as group:
        place = pathlib.Path(directory)
        for _ in range(rounds):
            path, took, cpu = run_ours(place, feed, group, n)
            ours.append((n / took, cpu / n * 1e6))
            took, cpu = run_theirs(place, path, group, n)
            theirs.append((n / took, cpu / n * 1e6))
            path.unlink()
    rows = {"cudatap: file and Kafka": ours, "rsyslog: imfile, omkafka, omfile": theirs}
    print(f"{'a file and a topic':<36} {'events/s':>10} {'CPU us/event':>13}")
    cost = {}
    for name, values in rows.items():
        rate, cost[name] = (statistics.median(column) for column in zip(*values))
        print(f"{name:<36} {rate:>10.0f} {cost[name]:>13.2f}")
    first, second = cost.values()
    print(f"ours over theirs: {first / second:.2f}")


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except daemon.Unavailable as why:
        sys.exit(f"beside_rsyslog: {why}")
