"""Spools of the sinks syslog and kafka: outages, restarts and kill -9 of cudatap during them, full disks. Nothing that
was accepted may be missing at the receiver; repeats are allowed, for (`run`, `seq`) tells them."""

import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import tap
from feeding import Feed

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from receivers import daemon, kafka  # noqa: E402


@pytest.fixture
def place(tmp_path_factory):
    """A directory with a short name: a unix socket's path has at most 107 bytes."""
    return tmp_path_factory.mktemp("p")


class Receiver:
    """A syslog daemon on a unix datagram socket that comes and goes, and loses nothing when it goes."""

    def __init__(self, path):
        self.path, self.seqs, self.losses = path, [], []
        self.socket = self.thread = None

    def start(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.thread = threading.Thread(target=self._read, args=[self.socket], daemon=True)
        self.thread.start()

    def _read(self, receiving):
        while data := receiving.recv(65536):
            event = json.loads(data[data.index(b"{"):])
            (self.seqs if event["type"] == "call" else self.losses).append(event.get("seq", event))

    def stop(self):
        """No sender can send any more, what is in the socket is read."""
        self.path.unlink()
        self.socket.shutdown(socket.SHUT_RD)
        self.thread.join()
        self.socket.close()


def firsts(seqs):
    """Each once, as it came first."""
    return list(dict.fromkeys(seqs))


def feed_spool(place, sink, *arguments, max_bytes="1GiB", queue="", spool="spool"):
    """A feed with one sink `it` with a spool."""
    return Feed(place, "it", f"it: {{{sink}, spool: {{path: {place / spool}, max_bytes: {max_bytes}}}"
                f"{queue and ', queue: '}{queue}}}", arguments)


# ---- syslog ----

def syslog(receiver):
    return f"type: syslog, target: \"unix://{receiver.path}\""


def test_outage(place):
    """The daemon goes away for a while: nothing is lost, though the queue would hold little of it."""
    receiver = Receiver(place / "log")
    receiver.start()
    feed = feed_spool(place, syslog(receiver), "-n", 100000, "-r", 40000, "-w", "-d", 60, queue="{max_events: 4096}")
    feed.wait(lambda c: c["delivered"] > 5000, "the first lines")
    receiver.stop()
    feed.wait(lambda c: c["spooled"] > 20000, "a backlog")
    receiver.start()
    counters = feed.end()
    receiver.stop()
    assert counters["received"] == counters["delivered"] == 100000
    assert receiver.seqs == list(range(1, 100001))
    assert "they wait in the spool" in feed.stderr


def test_restart_in_outage(place):
    """cudatap ends while the daemon is away, and says what it left; the next one delivers that first."""
    receiver = Receiver(place / "log")
    left = feed_spool(place, syslog(receiver), "-n", 20000, "-w", "-d", 1).end()
    assert left["spooled"] == left["received"] == 20000
    feed = feed_spool(place, syslog(receiver), "-n", 1000, "-f", 20001, "-w", "-r", 1000, "-d", 60)
    feed.wait(lambda c: c["received"] > 100, "new lines")
    receiver.start()
    counters = feed.end()
    receiver.stop()
    assert counters["recovered"] == 20000 and counters["delivered"] == 21000
    assert receiver.seqs == list(range(1, 21001))
    assert "20000 events were left in spool" in feed.stderr


def test_kill_9(place):
    """Killed again and again under load, with the daemon there and away: every line that a counter had shown as
    accepted arrives, and no line is missing before another."""
    receiver = Receiver(place / "log")
    chance = random.Random(7)
    first, up = 1, False
    for number in range(12):
        if chance.random() < 0.5:
            receiver.stop() if up else receiver.start()
            up = not up
        feed = feed_spool(place, syslog(receiver), "-n", 10**6, "-f", first, "-w", "-r", 100000)
        feed.wait(lambda c: c["received"] > 100, "lines")
        time.sleep(chance.random() * 0.3)
        counters = feed.counters()
        feed.kill()
        # whatever was beyond that may have been accepted as well: number further ones differently
        accepted = counters["received"] - counters["queued"]
        first = first + accepted
    if not up:
        receiver.start()
    counters = feed_spool(place, syslog(receiver), "-n", 1, "-f", first, "-d", 60).end()
    receiver.stop()
    assert counters["spooled"] == 0 and sum(counters["dropped"].values()) <= 12  # records cut off by a death
    assert set(receiver.seqs) >= set(range(1, first + 1))
    print(f"{first} accepted, {len(receiver.seqs)} received")


def test_full_spool(place):
    """The oldest lines go, counted, and the receiver learns which."""
    receiver = Receiver(place / "log")
    feed = feed_spool(place, syslog(receiver), "-n", 50000, "-w", "-d", 1, max_bytes="2MiB")
    counters = feed.end()
    lost = counters["dropped"]["spool_full"]
    assert counters["dropped"] == {"spool_full": lost} and counters["spooled"] == 50000 - lost > 1000
    assert sum(f.stat().st_size for f in (place / "spool").glob("*.seg")) <= 2 << 20
    receiver.start()
    again = feed_spool(place, syslog(receiver), "-n", 0, "-d", 60, max_bytes="2MiB").end()
    receiver.stop()
    assert again["delivered"] == again["recovered"] == counters["spooled"]
    assert receiver.seqs[-1] == 50000 and receiver.seqs == sorted(receiver.seqs)
    assert "is full: its oldest events are lost" in feed.stderr


def test_loss_is_told(place):
    receiver = Receiver(place / "log")
    feed = feed_spool(place, syslog(receiver), "-n", 50000, "-w", "-d", 60, "-r", 30000, max_bytes="2MiB")
    feed.wait(lambda c: c["dropped"].get("spool_full", 0), "a loss")
    receiver.start()
    counters = feed.end()
    receiver.stop()
    lost = [event for event in receiver.losses if event["reason"] == "spool_full"]
    assert sum(event["count"] for event in lost) == counters["dropped"]["spool_full"]
    missing = set(range(1, 50001)) - set(receiver.seqs)
    assert len(missing) == counters["dropped"]["spool_full"]
    assert min(e["seq_first"] for e in lost) == min(missing) and max(e["seq_last"] for e in lost) == max(missing)


def test_full_disk(place):
    """The disk is full while the daemon is away, later while it is there: what the queue does not hold is lost and
    says so; with the daemon there nothing is."""
    disk = place / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk], check=True)
    receiver = Receiver(place / "log")
    try:
        feed = feed_spool(place, syslog(receiver), "-n", 10**9, "-r", 20000, "-d", 60, spool="disk/spool",
                          queue="{max_events: 2000}")
        feed.wait(lambda c: c["dropped"].get("disk_full", 0), "the disk to be full")
        receiver.start()
        feed.wait(lambda c: not c["spooled"] and c["queued"] < 500, "the backlog to go")
        before = feed.counters()
        # all of it is delivered: the next line makes room for itself
        daemon.wait_until(lambda: os.statvfs(disk).f_bfree * os.statvfs(disk).f_bsize > 2 << 20, "room on the disk")
        (disk / "other").write_bytes(bytes(3 << 20 >> 1))
        feed.wait(lambda c: c["received"] > before["received"] + 10000, "more lines")
        counters = feed.end(signal.SIGTERM)
        receiver.stop()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    assert counters["received"] == counters["delivered"] + sum(counters["dropped"].values())
    assert set(counters["dropped"]) == {"disk_full"} and before["dropped"] == counters["dropped"]
    assert receiver.seqs == sorted(set(receiver.seqs)) and len(receiver.seqs) == counters["delivered"]
    assert "cannot write to spool" in feed.stderr and "No space left on device" in feed.stderr


def test_one_spool_one_cudatap(place):
    receiver = Receiver(place / "log")
    feed = feed_spool(place, syslog(receiver), "-n", 10**6, "-r", 1000)
    feed.wait(lambda c: c["received"] > 10, "lines")
    other = feed_spool(place, syslog(receiver), "-n", 10)
    assert other.process.wait(10) == 1
    assert (f"sink it: spool {place / 'spool'} is in use, by process {feed.process.pid}: give each sink and each "
            "cudatap its own" in other.stderr)
    feed.kill()


def test_damage(place):
    """A byte in each segment: one line each is missing and counted, all others arrive."""
    receiver = Receiver(place / "log")
    left = feed_spool(place, syslog(receiver), "-n", 20000, "-w", "-d", 1, max_bytes="16MiB").end()
    segments = sorted((place / "spool").glob("*.seg"))
    assert left["spooled"] == 20000 and len(segments) > 3
    for segment in segments:
        data = bytearray(segment.read_bytes())
        data[len(data) // 2] ^= 4
        segment.write_bytes(data)
    receiver.start()
    feed = feed_spool(place, syslog(receiver), "-n", 0, "-d", 60, max_bytes="16MiB")
    counters = feed.end()
    receiver.stop()
    assert counters["recovered"] == 20000
    assert counters["dropped"] == {"spool_corrupt": len(segments)}
    assert counters["delivered"] == len(receiver.seqs) == 20000 - len(segments)
    assert receiver.seqs == sorted(set(receiver.seqs))
    assert "were damaged or missing and are lost" in feed.stderr


# ---- Kafka, with a real broker ----

@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    try:
        group = kafka.Group(tmp_path_factory.mktemp("kafka"), properties={"auto.create.topics.enable": "false"})
    except daemon.Unavailable as why:
        pytest.skip(str(why))
    with group as it:
        yield it


def to_kafka(broker, topic, options=""):
    return f"type: kafka, brokers: [{', '.join(broker.addresses())}], topic: {topic}{options and ', '}{options}"


def calls_of(broker, topic):
    events = [json.loads(line) for line in broker.read(topic)]
    return [event["seq"] for event in events if event["type"] == "call"]


def test_cudatap_killed(place):
    """cudatap itself, killed while the receiver is away: the next run delivers what the first had accepted."""
    receiver = Receiver(place / "log")
    config = place / "tap.yaml"
    config.write_text(f"version: 1\nfamilies: [transfer]\nsinks:\n"
                      f"  disk: {{type: file, path: {place}/events.jsonl}}\n"
                      f"  it: {{type: syslog, target: 'unix://{receiver.path}', spool: {{path: {place}/spool, "
                      f"max_bytes: 1GiB}}}}\n")
    env = tap.environment({"FAKE_CUDA_NESTED": "0", "FAKE_CUDA": "cudaMemset:delay=50us"})
    command = [str(tap.CUDATAP), "-c", str(config), "--", tap.program("rate"), "1"]
    process = subprocess.Popen([*command, "1000000"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    events = place / "events.jsonl"
    try:
        daemon.wait_until(lambda: events.exists() and events.stat().st_size > 3 << 20, "some thousand events")
        # the file has them; what lies in the spool a moment later was accepted before
        in_file = [json.loads(line) for line in events.read_text().split("\n")[:-1]]
        time.sleep(1)
    finally:
        process.kill()
        process.wait()
    subprocess.run(["pkill", "-KILL", "-f", f"{tap.program('rate')} 1 1000000"], check=False)
    receiver.start()
    done = subprocess.run([*command, "10"], env=env, capture_output=True, text=True, timeout=60)
    receiver.stop()
    assert done.returncode == 0, done.stderr
    first = [e["seq"] for e in in_file if e["type"] == "call"]
    # of two runs: the first one's are a prefix without a hole, in order, then the second one's begin anew
    seqs = firsts(receiver.seqs)
    assert set(first) <= set(seqs) and len(first) > 5000
    assert seqs[:len(first)] == first


def test_kafka_kill_in_outage(place, broker):
    """The broker dies; cudatap is killed, then started anew; the broker comes back. All is there, in order."""
    topic = broker.create_topic("outage")
    feed = feed_spool(place, to_kafka(broker, topic), "-n", 10**7, "-w", "-r", 30000)
    feed.wait(lambda c: c["delivered"] > 20000, "the first lines")
    broker.brokers[0].kill()
    feed.wait(lambda c: c["spooled"] > 50000, "a backlog")
    counters = feed.counters()
    feed.kill()
    accepted = counters["received"] - counters["queued"]
    again = feed_spool(place, to_kafka(broker, topic), "-n", 30000, "-f", accepted + 1, "-w", "-r", 10000, "-d", 60)
    again.wait(lambda c: c["received"] > 1000, "new lines")
    broker.brokers[0].start()
    counters = again.end()
    assert counters["spooled"] == counters["unknown"] == 0
    assert sum(counters["dropped"].values()) <= 1
    assert counters["recovered"] >= 50000
    seqs = firsts(calls_of(broker, topic))
    assert set(seqs) >= set(range(1, accepted + 30001))
    expected = [seq for seq in seqs if seq <= accepted]
    assert expected == sorted(expected)


def test_kafka_timeouts(place, broker):
    """In an outage that is longer than delivery_timeout no line is lost, and all arrive in order."""
    topic = broker.create_topic("timeouts")
    feed = feed_spool(place, to_kafka(broker, topic, "delivery_timeout: 1s"), "-n", 60000, "-w", "-r", 10000, "-d", 60)
    feed.wait(lambda c: c["delivered"] > 5000, "the first lines")
    broker.brokers[0].kill()
    time.sleep(4)
    broker.brokers[0].start()
    counters = feed.end()
    assert counters["received"] == counters["delivered"] == 60000, counters
    seqs = firsts(calls_of(broker, topic))
    assert seqs == list(range(1, 60001))


def test_kafka_small_batches(place, broker):
    """The topic takes small batches only: what is refused goes again, in order."""
    topic = broker.create_topic("small", max_message_bytes=20000)
    feed = feed_spool(place, to_kafka(broker, topic), "-n", 20000, "-w", "-d", 60)
    counters = feed.end(timeout=90)
    assert counters["received"] == counters["delivered"] == 20000, (counters, feed.stderr)
    assert firsts(calls_of(broker, topic)) == list(range(1, 20001))


def test_kafka_topic_comes_later(place, broker):
    """A topic that is not there yet: lines wait for it."""
    feed = feed_spool(place, to_kafka(broker, "later", "librdkafka: {topic.metadata.refresh.interval.ms: 500, "
                                  "max.in.flight.requests.per.connection: 1}"), "-n", 20000,
                "-w", "-r", 5000, "-d", 60)
    feed.wait(lambda c: c["received"] > 10000, "lines")
    counters = feed.counters()
    assert counters["delivered"] == 0 and not counters["dropped"], counters
    broker.create_topic("later")
    counters = feed.end()
    assert counters["received"] == counters["delivered"] == 20000, (counters, feed.stderr)
    assert firsts(calls_of(broker, "later")) == list(range(1, 20001))


def test_kafka_in_flight_at_the_end(place, broker):
    """The deadline passes with lines in flight: they stay in the spool and come with the next run."""
    topic = broker.create_topic("ends")
    broker.brokers[0].process.send_signal(signal.SIGSTOP)
    try:
        feed = feed_spool(place, to_kafka(broker, topic), "-n", 20000, "-w", "-d", 1)
        left = feed.end()
    finally:
        broker.brokers[0].process.send_signal(signal.SIGCONT)
    assert left["spooled"] == left["received"] == 20000 and not left["dropped"] and not left["unknown"], left
    counters = feed_spool(place, to_kafka(broker, topic), "-n", 10, "-f", 20001, "-d", 60).end()
    assert counters["recovered"] == 20000 and counters["delivered"] == 20010
    assert firsts(calls_of(broker, topic)) == list(range(1, 20011))
