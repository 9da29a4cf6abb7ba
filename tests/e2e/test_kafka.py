"""The sink kafka with real brokers of Apache Kafka. The file sink beside it says what was sent, kcat reads back what
arrived; the counters must explain every line that did not."""

import collections
import json
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
import tap
from feeding import Feed

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from receivers import daemon, kafka  # noqa: E402

def group(*arguments, **options):
    try:
        return kafka.Group(*arguments, **options)
    except daemon.Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """One broker with all kinds of listeners, which makes no topics by itself."""
    with group(tmp_path_factory.mktemp("kafka"), secure=True, properties={"auto.create.topics.enable": "false"}) as it:
        yield it


@pytest.fixture
def topic(one, request):
    """One of its own for each test."""
    return one.create_topic(f"{request.node.originalname}.{time.monotonic_ns()}", 4)


def feed_kafka(place, brokers, topic, *arguments, options="", queue=""):
    """A feed with a sink `kafka` and a file that tells what it was given."""
    return Feed(place, "kafka", "file: {type: file, path: SENT}, "
                f"kafka: {{type: kafka, brokers: [{', '.join(brokers)}], topic: {topic}"
                f"{options and ', '}{options}{queue and ', queue: '}{queue}}}", arguments)


class Arrived:
    """What a topic has: kcat's reading of partition, offset, key and text."""

    def __init__(self, brokers, topic):
        self.messages, where = [], []
        for line in brokers.read(topic, "%p %o %k %s\n"):
            partition, offset, key, text = line.split(" ", 3)
            where.append((int(partition), int(offset)))
            self.messages.append((int(partition), key, text, json.loads(text)))
        places = collections.defaultdict(list)
        for partition, offset in where:
            places[partition].append(offset)
        self.ends = {partition: (offsets[0], offsets[-1], len(offsets)) for partition, offsets in places.items()}
        for partition, offsets in places.items():
            # without transactions nothing but messages takes offsets
            assert offsets == list(range(len(offsets))), f"kcat left out lines of partition {partition}: {offsets[:10]}"
        self.calls = [message for message in self.messages if message[3]["type"] == "call"]
        self.seqs = collections.Counter(event["seq"] for *_, event in self.calls)

    def check_order(self):
        """Lines of one key lie in one partition, in order."""
        last, places = {}, collections.defaultdict(set)
        for partition, key, _, event in self.calls:
            assert event["seq"] > last.get(key, 0), (key, event["seq"], last[key])
            last[key] = event["seq"]
            places[key].add(partition)
        assert all(len(partitions) == 1 for partitions in places.values())

    def losses(self):
        total = collections.Counter()
        for *_, event in self.messages:
            if event["type"] == "loss":
                total[event["reason"]] += event["count"]
        return total

    def check_all(self, feed):
        """Every line, once, as it was sent, in order."""
        sent = feed.sent()
        assert self.seqs == collections.Counter(sent.keys())
        assert all(text == sent[event["seq"]] for _, _, text, event in self.calls)
        self.check_order()

    def check_counters(self, counters):
        """What was delivered is there, once; what was dropped is not; what is unknown may be."""
        assert not [seq for seq, n in self.seqs.items() if n > 1]
        assert counters["delivered"] <= len(self.seqs) <= counters["delivered"] + counters["unknown"], \
            (counters, self.ends)
        self.check_order()


# ---- every line arrives, once, as it was ----

@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compression(one, topic, tmp_path, compression):
    feed = feed_kafka(tmp_path, one.addresses(), topic, "-n", 20000, "-w", "-s", 1500,
                      options=f"compression: {compression}")
    counters = feed.end()
    assert counters["delivered"] == 20000 and not counters["dropped"], feed.stderr
    Arrived(one, topic).check_all(feed)
    assert feed.stderr == ""
    # the batches really are compressed so, says the broker's own log
    segments = [path.read_bytes() for path in (one.directory / "broker1/data").glob(f"{topic}-*/*.log")]
    data = next(data for data in segments if data)
    assert data[16] == 2 and data[22] & 7 == ["none", "gzip", "snappy", "lz4", "zstd"].index(compression)


def murmur2(data):
    """As org.apache.kafka.common.utils.Utils has it."""
    mask, m = 0xffffffff, 0x5bd1e995
    h = (0x9747b28c ^ len(data)) & mask
    for i in range(0, len(data) // 4 * 4, 4):
        k = int.from_bytes(data[i:i + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    rest = data[len(data) // 4 * 4:]
    for i in range(len(rest) - 1, -1, -1):
        h ^= rest[i] << 8 * i
    if rest:
        h = h * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def test_keys_as_java_places_them(one, topic, tmp_path):
    feed = feed_kafka(tmp_path, one.addresses(), topic, "-n", 700, "-w")
    assert feed.end()["delivered"] == 700
    arrived = Arrived(one, topic)
    arrived.check_all(feed)
    for partition, key, _, event in arrived.calls:
        assert key == f"gpu07/{event['pid']}"
        assert partition == (murmur2(key.encode()) & 0x7fffffff) % 4
    assert len({partition for partition, *_ in arrived.calls}) > 1


@pytest.mark.parametrize("template,expected", [
    ('""', lambda e: ""),
    ('"%{run}:%{seq}"', lambda e: f"{e['run']}:{e['seq']}"),
    ('"100%%-%{status}-%{api}"', lambda e: f"100%-{e['status']}-{e['api']}"),
    ('"%{tid}.%{type}"', lambda e: f"{e['tid']}.{e['type']}"),
])
def test_key_template(one, topic, tmp_path, template, expected):
    feed = feed_kafka(tmp_path, one.addresses(), topic, "-n", 500, "-w", options=f"key: {template}")
    assert feed.end()["delivered"] == 500
    arrived = Arrived(one, topic)
    assert len(arrived.seqs) == 500
    for _, key, _, event in arrived.calls:
        assert key == expected(event)


def test_headers(one, topic, tmp_path):
    feed = feed_kafka(tmp_path, one.addresses(), topic, "-n", 5000, "-w", options="headers: true")
    assert feed.end()["delivered"] == 5000
    headers = collections.Counter(one.read(topic, "%h\n"))
    assert headers == {"content-type=application/json,schema-version=1,host=gpu07": 5000}
    Arrived(one, topic).check_all(feed)


def test_acks_without_idempotence(one, topic, tmp_path):
    feed = feed_kafka(tmp_path, one.addresses(), topic, "-n", 5000, "-w",
                      options="acks: 1, idempotence: false, linger: 20ms")
    assert feed.end()["delivered"] == 5000
    Arrived(one, topic).check_all(feed)


def test_two_sinks_one_stream(one, topic, tmp_path):
    """-o kafka://... twice: each has every line."""
    other = one.create_topic(topic + ".b", 2)
    done = subprocess.run([tap.program("feed"), "-n", "3000", "-w", "-o", f"kafka://{one.bootstrap}/{topic}", "-o",
                           f"kafka://{one.bootstrap},{one.bootstrap}/{other}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [sink["delivered"] for sink in json.loads(done.stdout)["sinks"].values()] == [3000, 3000]
    assert len(Arrived(one, topic).seqs) == len(Arrived(one, other).seqs) == 3000


# ---- whom to trust ----

def sasl(mechanism, password="password: alice-secret"):
    return f"sasl: {{mechanism: {mechanism}, username: alice, {password}}}"


def test_tls(one, topic, tmp_path):
    feed = feed_kafka(tmp_path, one.addresses("TLS"), topic, "-n", 5000, "-w",
                      options=f"tls: {{ca_file: {one.authority.cert}}}")
    assert feed.end()["delivered"] == 5000, feed.stderr
    Arrived(one, topic).check_all(feed)


def test_tls_own_certificate(one, topic, tmp_path):
    pair = one.authority.issue("client")
    feed = feed_kafka(tmp_path, one.addresses("MTLS"), topic, "-n", 1000, "-w",
                      options=f"tls: {{ca_file: {pair.ca}, cert_file: {pair.cert}, key_file: {pair.key}}}")
    assert feed.end()["delivered"] == 1000, feed.stderr
    Arrived(one, topic).check_all(feed)


@pytest.mark.parametrize("listener,options,words", [
    ("TLS", "tls: {enabled: true}", "certificate verify failed"),
    ("EXPIRED", "tls: {ca_file: CA}", "certificate has expired"),
    ("MTLS", "tls: {ca_file: CA}", "alert"),
    ("SASL", sasl("PLAIN", "password: wrong-one"), "SASL authentication error"),
    ("SASLTLS", "tls: {ca_file: CA}, " + sasl("PLAIN", "password: wrong-one"), "SASL authentication error"),
])
def test_refused(one, topic, tmp_path, listener, options, words):
    feed = feed_kafka(tmp_path, one.addresses(listener), topic, "-n", 3000, "-r", 1500, "-d", 1,
                      options=options.replace("CA", str(one.authority.cert)), queue="{max_events: 1000}")
    counters = feed.end()
    assert counters["delivered"] == counters["unknown"] == 0
    assert counters["dropped"] == {"auth": 3000}, feed.stderr
    assert words in feed.stderr and "wrong-one" not in feed.stderr
    # an error and what it means for the queue, not one message per attempt
    assert len(feed.stderr.splitlines()) <= 3, feed.stderr
    assert not Arrived(one, topic).messages


def test_not_verified(one, topic, tmp_path):
    feed = feed_kafka(tmp_path, one.addresses("EXPIRED"), topic, "-n", 1000, "-w", options="tls: {verify: false}")
    assert feed.end()["delivered"] == 1000, feed.stderr


@pytest.mark.parametrize("listener", ["SASL", "SASLTLS"])
def test_sasl_plain(one, topic, tmp_path, listener):
    secret = tmp_path / "secret"
    secret.write_text("alice-secret\n")
    options = sasl("PLAIN", f"password_file: {secret}")
    if listener == "SASLTLS":
        options += f", tls: {{ca_file: {one.authority.cert}}}"
    feed = feed_kafka(tmp_path, one.addresses(listener), topic, "-n", 1000, "-w", options=options)
    assert feed.end()["delivered"] == 1000, feed.stderr
    Arrived(one, topic).check_all(feed)


def test_sighup_reads_the_password_again(one, topic, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("not this one\n")
    feed = feed_kafka(tmp_path, one.addresses("SASL"), topic, "-n", 10000, "-r", 2000,
                      options=sasl("PLAIN", f"password_file: {secret}"))
    feed.wait(lambda c: c["received"] > 3000 and "SASL authentication error" in feed.stderr, "a refusal")
    secret.write_text("alice-secret\n")
    feed.process.send_signal(signal.SIGHUP)
    feed.wait(lambda c: c["delivered"] > 3000, "delivered lines")
    feed.process.send_signal(signal.SIGHUP)  # in the middle of the stream: nothing may happen
    counters = feed.end()
    assert counters["delivered"] == 10000, (counters, feed.stderr)
    Arrived(one, topic).check_all(feed)


def cudatap_librdkafka():
    """The version in the distribution's shared library; the static executable has a newer one than any limit here."""
    if "librdkafka" not in subprocess.run(["ldd", str(tap.CUDATAP)], capture_output=True, text=True).stdout:
        return (9,)
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "librdkafka1"], capture_output=True, text=True)
    return tuple(int(number) for number in re.findall(r"\d+", done.stdout)[:3])


def trace(tmp_path, config):
    """cudatap with the demo program: what its file sink says and how it ended."""
    path = tmp_path / "cudatap.yaml"
    events = tmp_path / "events.jsonl"
    path.write_text(f"version: 1\nsinks:\n  file: {{type: file, path: {events}}}\n  lake: {config}\n")
    done = subprocess.run([str(tap.CUDATAP), "-c", str(path), "--", str(tap.FAKE / "demo")], capture_output=True,
                          text=True, timeout=120)
    return events.read_text().splitlines(), done


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_sasl_scram(one, topic, tmp_path, mechanism):
    lines, done = trace(tmp_path, f"{{type: kafka, brokers: [{one.addresses('SASL')[0]}], topic: {topic}, "
                                  f"{sasl(mechanism)}}}")
    assert done.returncode == 0 and len(lines) > 20
    if cudatap_librdkafka() < (2, 6, 1):  # refused by brokers from Kafka 4 on, and cudatap must say so
        assert "refuse SCRAM of librdkafka" in done.stderr
        assert not Arrived(one, topic).messages
    else:
        assert sorted(text for _, _, text, _ in Arrived(one, topic).messages) == sorted(lines), done.stderr


def test_forbidden_topic(one, topic, tmp_path):
    one.deny("alice", topic)
    feed = feed_kafka(tmp_path, one.addresses("SASL"), topic, "-n", 2000, "-r", 1000, "-d", 1, options=sasl("PLAIN"),
                      queue="{max_events: 500}")
    counters = feed.end()
    assert counters["dropped"] == {"auth": 2000}, (counters, feed.stderr)
    assert "right to write to the topic" in feed.stderr
    assert len(feed.stderr.splitlines()) <= 3, feed.stderr


# ---- what a broker does not take ----

def test_topic_that_is_not_there(one, tmp_path):
    """Lines wait, what does not fit is lost as rejected, and once the topic is there they arrive."""
    feed = feed_kafka(tmp_path, one.addresses(), "made.later", "-n", 12000, "-r", 1000, "-d", 20,
                      queue="{max_events: 1000}",
                      options="librdkafka: {topic.metadata.propagation.max.ms: 500, "
                              "max.in.flight.requests.per.connection: 1}")
    feed.wait(lambda c: c["dropped"].get("rejected", 0) > 500, "rejected lines")
    one.create_topic("made.later", 4)
    feed.wait(lambda c: c["delivered"] > 500, "delivered lines")
    counters = feed.end()
    assert set(counters["dropped"]) <= {"rejected", "queue_full"}, counters
    assert counters["unknown"] == 0
    assert "create the topic" in feed.stderr and "arrive again" in feed.stderr, feed.stderr
    arrived = Arrived(one, "made.later")
    arrived.check_counters(counters)
    assert sum(arrived.losses().values()) == sum(counters["dropped"].values())


def test_too_large_for_us(one, topic, tmp_path):
    feed = feed_kafka(tmp_path, one.addresses(), topic, "-n", 2000, "-w", "-s", 6000,
                      options="librdkafka: {message.max.bytes: 3000}")
    counters = feed.end()
    assert counters["dropped"] == {"too_large": 200} and counters["delivered"] == 1800
    arrived = Arrived(one, topic)
    arrived.check_counters(counters)
    assert arrived.losses() == {"too_large": 200}


def test_batches_too_large_for_the_topic(one, tmp_path):
    """A broker refuses a whole batch; none of its lines is lost or out of order for that."""
    one.create_topic("narrow", 4, max_message_bytes=20000)
    feed = feed_kafka(tmp_path, one.addresses(), "narrow", "-n", 50000, "-w", options="compression: none",
                      queue="{max_events: 20000}")
    counters = feed.end()
    assert counters["delivered"] == 50000, (counters, feed.stderr)
    Arrived(one, "narrow").check_all(feed)


def test_lines_too_large_for_the_topic(one, tmp_path):
    """Exactly the lines are lost that are too large by themselves."""
    one.create_topic("poisoned", 4, max_message_bytes=3000)
    feed = feed_kafka(tmp_path, one.addresses(), "poisoned", "-n", 3000, "-w", "-s", 6000, "-d", 60,
                      options="compression: none")
    counters = feed.end()
    assert counters["dropped"] == {"too_large": 300} and counters["delivered"] == 2700, (counters, feed.stderr)
    arrived = Arrived(one, "poisoned")
    arrived.check_counters(counters)
    large = {seq for seq, line in feed.sent().items() if len(line) > 3000}
    assert set(arrived.seqs) == set(feed.sent()) - large
    assert arrived.losses()["too_large"] == 300


# ---- nobody there ----

@pytest.mark.parametrize("address,words", [("nosuch.invalid:9092", "resolve"), ("127.0.0.1:1", "Connection refused")])
def test_unreachable(tmp_path, address, words):
    feed = feed_kafka(tmp_path, [address], "t", "-n", 3000, "-r", 3000, "-d", 1, queue="{max_events: 1000}")
    begin = time.monotonic()
    counters = feed.end()
    assert time.monotonic() - begin < 4, "the drain deadline is not kept"
    assert counters["dropped"] == {"unreachable": 3000}, (counters, feed.stderr)
    assert words in feed.stderr and len(feed.stderr.splitlines()) <= 3, feed.stderr


def test_delivery_timeout(one, tmp_path):
    """Lines that nobody took in time are lost for what stood in the way, while the sink goes on."""
    feed = feed_kafka(tmp_path, ["127.0.0.1:1"], "t", "-n", 100000, "-r", 200, "-d", 0,
                      options="delivery_timeout: 500ms")
    feed.wait(lambda c: c["dropped"].get("unreachable", 0) > 100, "timed-out lines")
    assert feed.counters()["in_flight"] < 400
    feed.end(signal.SIGTERM)


def test_broker_down_at_start(one, topic, tmp_path):
    one.brokers[0].stop()
    try:
        feed = feed_kafka(tmp_path, one.addresses(), topic, "-n", 20000, "-r", 4000)
        feed.wait(lambda c: c["received"] > 8000 and not c["delivered"], "lines that wait")
    finally:
        one.brokers[0].start()
    counters = feed.end()
    assert counters["delivered"] == 20000, (counters, feed.stderr)
    Arrived(one, topic).check_all(feed)
    assert "Connection refused" in feed.stderr and "arrive again" in feed.stderr
    assert len(feed.stderr.splitlines()) <= 4, feed.stderr


def kill_for(broker, feed, seconds):
    feed.wait(lambda c: c["delivered"] > 3000, "the first lines")
    broker.kill()
    time.sleep(seconds)
    broker.start()


def test_broker_killed_for_ten_seconds(one, topic, tmp_path):
    """With queues that hold the outage nothing is lost, doubled or out of order."""
    feed = feed_kafka(tmp_path, one.addresses(), topic, "-n", 54000, "-r", 3000, "-d", 60, queue="{max_events: 60000}")
    kill_for(one.brokers[0], feed, 10)
    counters = feed.end()
    assert counters["delivered"] == 54000 and not counters["dropped"] and not counters["unknown"], counters
    Arrived(one, topic).check_all(feed)


def test_broker_killed_with_small_queues(one, topic, tmp_path):
    """What does not fit is lost, and each line of it is accounted for."""
    feed = feed_kafka(tmp_path, one.addresses(), topic, "-n", 54000, "-r", 3000, "-d", 60, queue="{max_events: 2000}")
    kill_for(one.brokers[0], feed, 10)
    counters = feed.end()
    assert set(counters["dropped"]) <= {"unreachable", "queue_full"}, counters
    assert counters["dropped"]["unreachable"] > 10000, counters
    arrived = Arrived(one, topic)
    arrived.check_counters(counters)
    assert sum(arrived.losses().values()) == sum(counters["dropped"].values()), counters


def test_stopped_while_the_broker_is_down(one, topic, tmp_path):
    """SIGTERM under load with nobody there: the deadline is kept, each line has a fate."""
    feed = feed_kafka(tmp_path, one.addresses(), topic, "-n", 10000000, "-r", 20000, "-d", 1,
                      queue="{max_events: 5000}")
    feed.wait(lambda c: c["delivered"] > 3000, "the first lines")
    one.brokers[0].kill()
    try:
        time.sleep(1)
        begin = time.monotonic()
        counters = feed.end(signal.SIGTERM)
        took = time.monotonic() - begin
    finally:
        one.brokers[0].start()
    assert took < 3
    assert set(counters["dropped"]) <= {"unreachable", "queue_full", "shutdown"}, counters
    Arrived(one, topic).check_counters(counters)


def test_broker_that_hangs(one, topic, tmp_path):
    """A stopped process answers nothing and closes nothing; once it goes on all arrives, once."""
    feed = feed_kafka(tmp_path, one.addresses(), topic, "-n", 30000, "-r", 3000, "-d", 60)
    feed.wait(lambda c: c["delivered"] > 3000, "the first lines")
    one.brokers[0].pause()
    time.sleep(4)
    one.brokers[0].go_on()
    counters = feed.end()
    assert counters["delivered"] == 30000, counters
    Arrived(one, topic).check_all(feed)


# ---- three brokers ----

def test_one_of_three_killed(tmp_path):
    """Replication 3, two must have each line: one broker killed and restarted under load loses nothing."""
    with group(tmp_path / "three", brokers=3, properties={"min.insync.replicas": 2}) as three:
        three.create_topic("safe", 6, 3)
        feed = feed_kafka(tmp_path, three.addresses(), "safe", "-n", 10000000, "-r", 4000, "-d", 60)
        feed.wait(lambda c: c["delivered"] > 4000, "the first lines")
        victim = three.brokers[0]
        victim.kill()
        before = feed.counters()["delivered"]
        feed.wait(lambda c: c["delivered"] > before + 4000, "lines while one is dead", timeout=60)
        victim.start()
        before = feed.counters()["delivered"]
        feed.wait(lambda c: c["delivered"] > before + 4000, "lines while it comes back", timeout=60)
        counters = feed.end(signal.SIGTERM, timeout=150)
        assert counters["delivered"] == counters["received"] > 12000, (counters, feed.stderr)
        assert not counters["dropped"] and not counters["unknown"], (counters, feed.stderr)
        Arrived(three, "safe").check_all(feed)


# ---- cudatap itself ----

def test_cudatap(one, topic, tmp_path):
    lines, done = trace(tmp_path, f"{{type: kafka, brokers: [{one.bootstrap}], topic: {topic}, compression: zstd}}")
    assert done.returncode == 0, done.stderr
    arrived = Arrived(one, topic)
    assert sorted(text for _, _, text, _ in arrived.messages) == sorted(lines)
    arrived.check_order()
    for _, key, _, event in arrived.calls:
        assert key == f"{event['host']}/{event['pid']}"


def test_secrets_are_not_shown(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("version: 1\nsinks: {lake: {type: kafka, brokers: [k:9092], topic: t, "
                    "sasl: {mechanism: PLAIN, username: alice, password: do-not-tell}}}\n")
    done = tap.run_plain("check", "-c", path)
    assert done.returncode == 0 and "alice" in done.stdout
    assert "do-not-tell" not in done.stdout + done.stderr
