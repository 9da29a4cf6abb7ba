"""The sink syslog with real receivers: rsyslog and syslog-ng on their default inputs parse every message as JSON
again. The file sink beside it says what was sent; the counters must explain every message that did not arrive."""

import collections
import json
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest
import tap
from feeding import Feed

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from receivers import certs, daemon, journald, rsyslog, syslog_ng  # noqa: E402

# Datagrams of any size here that a receiver's default buffer holds even if it does not run meanwhile: udp loses others.
UDP_SAFE = 80

SEVERITY = {"ok": 6, "error": 4, "not_ready": 7, "unfinished": 4}


@pytest.fixture
def place(tmp_path_factory):
    """A directory with a short name: a unix socket's path has at most 107 bytes."""
    return tmp_path_factory.mktemp("s")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return certs.Authority(tmp_path_factory.mktemp("ca"))


def receiver(kind, *arguments, **options):
    try:
        return {"rsyslog": rsyslog.Rsyslog, "syslog-ng": syslog_ng.SyslogNg}[kind](*arguments, **options)
    except daemon.Unavailable as why:
        pytest.skip(str(why))


def target_of(daemon_, way):
    return {"unix": f"unix://{daemon_.unix}", "stream": f"unix://{daemon_.stream}",
            "udp": f"udp://127.0.0.1:{daemon_.udp}", "tcp": f"tcp://localhost:{daemon_.tcp}",
            "tls": f"tls://localhost:{daemon_.tls}",
            "lines": f"tcp://127.0.0.1:{getattr(daemon_, 'lines', 0)}"}[way]


def feed_syslog(place, target, *arguments, options="", queue="", host="gpu07"):
    """A feed with a sink `syslog` and a file that tells what it was given."""
    return Feed(place, "syslog", "file: {type: file, path: SENT}, "
                f"syslog: {{type: syslog, target: \"{target}\"{options and ', '}{options}"
                f"{queue and ', queue: '}{queue}}}", arguments, host)


def sent_events(feed):
    """By seq."""
    return {seq: json.loads(line) for seq, line in feed.sent().items()}


def seqs(messages):
    return collections.Counter(int(m["event"]["seq"]) for m in messages if m["event"].get("type") == "call")


def losses(messages):
    """What the loss events that arrived say, by reason."""
    total = collections.Counter()
    for m in messages:
        if m["event"].get("type") == "loss":
            total[m["event"]["reason"]] += int(m["event"]["count"])
    return total


def as_strings(value):
    """What syslog-ng's json-parser makes of it."""
    if isinstance(value, dict):
        return {key: as_strings(item) for key, item in value.items()}
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def wait_count(daemon_, n, timeout=20):
    daemon.wait_until(lambda: daemon_.count() >= n, f"{n} messages",
                      timeout, lambda: f"{daemon_.count()} came; {daemon_.log.read_text()[-500:]}")


# ---- every line arrives, once, as it was ----

WAYS = [("rsyslog", way) for way in ("unix", "udp", "tcp", "tls", "stream")] + \
       [("syslog-ng", way) for way in ("unix", "stream", "udp", "tcp", "lines", "tls")]


@pytest.mark.parametrize("kind,way", WAYS)
def test_arrives(place, authority, kind, way):
    tls = authority.issue("server") if way == "tls" else None
    options = {"tls": f"ca_file: {authority.cert}", "lines": "framing: newline"}.get(way, "")
    n = UDP_SAFE if way == "udp" else 5000
    with receiver(kind, place / "d", (way,), tls=tls) as d:
        feed = feed_syslog(place, target_of(d, way), "-n", n, "-w", "-s", 1500, options=options)
        counters = feed.end()
        assert counters["delivered"] == n and not counters["dropped"], (counters, feed.stderr)
        wait_count(d, n)
        time.sleep(0.1)
    assert feed.stderr == ""
    messages, sent = d.messages(), sent_events(feed)
    assert seqs(messages) == collections.Counter(range(1, n + 1))
    local = way in ("unix", "stream")
    for m in messages:
        event = m["event"]
        want = sent[int(event["seq"])]
        assert event == (want if kind == "rsyslog" else as_strings(want))
        assert m["app"] == "cudatap" and m["procid"] == str(want["pid"])
        assert int(m["pri"]) == 1 * 8 + SEVERITY[want["status"]]
        if kind == "rsyslog":
            assert json.loads(m["raw"]) == want and m["parsed"] == "OK"
        if local:
            assert m["msgid"] in ("-", "")
            continue
        assert m["msgid"] == "call" and m["host"] == "gpu07"
        assert m["ts"][:19] == want["ts"][:19]
        if kind == "rsyslog":
            assert m["ts"] == want["ts"][:26] + "Z"
            assert m["sd"] == f'[cudatap@32473 run="{want["run"]}" seq="{want["seq"]}"]'
        else:
            assert (m["run"], m["seq"]) == (want["run"], str(want["seq"]))


def test_gnutls(place, authority):
    """rsyslog's older TLS driver."""
    with receiver("rsyslog", place / "d", ("tls",), tls=authority.issue("server"), driver="gtls") as d:
        feed = feed_syslog(place, target_of(d, "tls"), "-n", 3000, "-w", options=f"ca_file: {authority.cert}")
        counters = feed.end()
        assert counters["delivered"] == 3000, feed.stderr
        wait_count(d, 3000)
    assert seqs(d.messages()) == collections.Counter(range(1, 3001))


def test_journald(place):
    """journald takes the local form, whole."""
    try:
        d = journald.Journald(place / "d")
    except daemon.Unavailable as why:
        pytest.skip(str(why))
    with d:
        feed = feed_syslog(place, f"unix://{d.unix}", "-n", 1000, "-w", "-s", 6000)
        assert feed.end()["delivered"] == 1000
        daemon.wait_until(lambda: d.count() >= 1000, "1000 entries")
        entries = d.entries()
    sent = sent_events(feed)
    assert len(entries) == 1000
    for entry in entries:
        event = json.loads(entry["MESSAGE"])
        want = sent.pop(event["seq"])
        assert event == want and entry["SYSLOG_PID"] == str(want["pid"])
        assert (int(entry["PRIORITY"]), entry["SYSLOG_FACILITY"]) == (SEVERITY[want["status"]], "1")


@pytest.mark.parametrize("kind", ["rsyslog", "syslog-ng"])
def test_cookie(place, kind):
    """Receivers that look for the cookie find it."""
    marker = {"cookie": "@cee:"} if kind == "rsyslog" else {"marker": "@cee:"}
    with receiver(kind, place / "d", ("unix", "tcp"), **marker) as d:
        for first, way in ((1, "unix"), (101, "tcp")):
            feed = feed_syslog(place, target_of(d, way), "-n", 100, "-f", first, options="cookie: true")
            assert feed.end()["delivered"] == 100
        wait_count(d, 200)
    assert seqs(d.messages()) == collections.Counter(range(1, 201))
    if kind == "rsyslog":
        assert all(m["raw"].lstrip().startswith("@cee: {") for m in d.messages())


def test_local_form_on_the_network(place):
    """`protocol: local` names the host there, as RFC 3164 wants it."""
    with receiver("rsyslog", place / "d", ("tcp",)) as d:
        feed = feed_syslog(place, target_of(d, "tcp"), "-n", 50, options="protocol: local, app: tap, facility: local4")
        assert feed.end()["delivered"] == 50
        wait_count(d, 50)
    for m in d.messages():
        assert (m["host"], m["app"], m["pri"] // 8) == ("gpu07", "tap", 20)
        assert m["procid"] == str(m["event"]["pid"])


@pytest.mark.parametrize("way", ["unix", "tls"])
def test_cudatap(place, authority, way):
    """The whole of it, probes to receiver; also what the static executable makes of names and certificates."""
    tls = authority.issue("server") if way == "tls" else None
    options = f", ca_file: {authority.cert}" if tls else ""
    with receiver("rsyslog", place / "d", (way,), tls=tls) as d:
        path = tap.config(place, f"sinks:\n  disk: {{type: file, path: {place}/events.jsonl}}\n"
                                 f"  log: {{type: syslog, target: \"{target_of(d, way)}\"{options}}}\n")
        done = tap.run_plain("-c", path, "--", tap.FAKE / "demo")
        assert done.returncode == 0, done.stderr
        sent = [json.loads(line) for line in (place / "events.jsonl").read_text().splitlines()]
        wait_count(d, len(sent))
    arrived = [m["event"] for m in d.messages()]
    assert arrived == sent and len(sent) > 20
    for m in d.messages():
        tap.check_line(m["event"])
        if way == "tls":
            assert m["msgid"] == m["event"]["type"] and m["host"] == m["event"]["host"]
            assert f'run="{m["event"]["run"]}"' in m["sd"]


EXAMPLES = (pathlib.Path(__file__).resolve().parents[2] / "docs/sinks-syslog.md").read_text()


def example(heading):
    """The code below a heading, one block after another."""
    section = EXAMPLES.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return "\n".join(line[4:] for line in section.splitlines() if line.startswith("    "))


def test_documented_examples(place, authority):
    """What the page shows is what these daemons accept."""
    pair = authority.issue("server")
    text = example("rsyslog")
    for name, path in (("ca", pair.ca), ("cert", pair.cert), ("key", pair.key)):
        text = text.replace(f"/etc/rsyslog/{name}.pem", str(path))
    (place / "rsyslog.conf").write_text(text)
    d = receiver("rsyslog", place / "d")
    checked = subprocess.run([*d.command[:3], "-N1", "-f", place / "rsyslog.conf"], env=d.environment,
                             capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    d = receiver("syslog-ng", place / "d")
    (place / "syslog-ng.conf").write_text("@version: 3.38\n" + example("syslog-ng"))
    at = d.command.index("-f")
    checked = subprocess.run([*d.command[:at], "-s", "-f", place / "syslog-ng.conf", *d.command[at + 2:]],
                             env=d.environment, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


# ---- too long ----

@pytest.mark.parametrize("way", ["unix", "tcp", "udp"])
def test_too_long(place, way):
    """The longest message that rsyslog takes by default is the longest that is sent; above, args and out go."""
    n = UDP_SAFE if way == "udp" else 200
    with receiver("rsyslog", place / "d", (way,)) as d:
        feed = feed_syslog(place, target_of(d, way), "-n", n, "-s", 12000)
        counters = feed.end()
        assert counters["delivered"] == n and not counters["dropped"]
        wait_count(d, n)
    cut, sent = 0, sent_events(feed)
    for m in d.messages():
        event, want = m["event"], sent[m["event"]["seq"]]
        if "truncated" in event:
            cut += 1
            want = {key: value for key, value in want.items() if key not in ("args", "out")} | {"truncated": True}
        assert event == want
    # every tenth line is of 12000 bytes, the others of 3000, which is too much for a datagram of 2048
    assert cut == (n if way == "udp" else n // 10)


def test_too_long_without_args(place):
    """What has nothing more to lose is lost, counted, and told."""
    with receiver("rsyslog", place / "d", ("tcp",)) as d:
        feed = feed_syslog(place, target_of(d, "tcp"), "-n", 600, options="max_message: 480", host="gpu07." + 42 * "x")
        counters = feed.end()
        wait_count(d, counters["delivered"] + counters["loss_events"])
    lost = counters["dropped"]["too_large"]
    assert 0 < lost < 600 and counters["dropped"] == {"too_large": lost}
    assert sum(seqs(d.messages()).values()) == 600 - lost
    assert losses(d.messages()) == {"too_large": lost}


# ---- the receiver goes and comes ----

@pytest.mark.parametrize("kind,way", [("rsyslog", "unix"), ("rsyslog", "tcp"), ("syslog-ng", "stream"),
                                      ("rsyslog", "udp"), ("rsyslog", "tls")])
def test_down_at_start(place, authority, kind, way):
    """Lines wait in the queue until the receiver is there."""
    tls = authority.issue("server") if way == "tls" else None
    n = UDP_SAFE if way == "udp" else 2000
    d = receiver(kind, place / "d", (way,), tls=tls)
    feed = feed_syslog(place, target_of(d, way), "-n", n, "-r", n, "-d", 20,
                       options=f"ca_file: {authority.cert}" if tls else "")
    try:
        time.sleep(0.7)
        assert feed.counters()["delivered"] == 0
        with d:
            counters = feed.end()
            assert counters["delivered"] == n, (counters, feed.stderr)
            # a busy receiver's socket drops datagrams, which no sender can know
            wait_count(d, n * 9 // 10 if way == "udp" else n)
    finally:
        feed.process.kill()
    assert "takes no lines" in feed.stderr and "takes lines again" in feed.stderr
    wanted, arrived = collections.Counter(range(1, n + 1)), seqs(d.messages())
    assert arrived <= wanted if way == "udp" else arrived == wanted


@pytest.mark.parametrize("kind,way", [("rsyslog", "unix"), ("rsyslog", "tcp"), ("syslog-ng", "unix"),
                                      ("syslog-ng", "tcp"), ("syslog-ng", "stream")])
def test_restarted(place, kind, way):
    """A restart under load: what the counters call delivered is at most what a dying receiver had not read yet more
    than what arrived, nothing arrives twice, and the loss events tell what was dropped."""
    d = receiver(kind, place / "d", (way,))
    feed = feed_syslog(place, target_of(d, way), "-n", 1000000, "-r", 5000, "-d", 20)
    try:
        with d:
            wait_count(d, 3000)
        before = seqs(d.messages())
        time.sleep(0.5)
        with d:
            wait_count(d, d.count() + 5000)
            counters = feed.end(signal.SIGTERM)
            time.sleep(0.3)
            daemon.wait_until(lambda n=[-1]: n[0] == d.count() or n.__setitem__(0, d.count()), "silence")
    finally:
        feed.process.kill()
    messages = d.messages()
    arrived = seqs(messages)
    assert max(arrived.values()) == 1
    missing = counters["delivered"] - len(arrived)
    # buffers of the kernel and of the daemon: a datagram queue of a few dozen, a stream's window
    assert 0 <= missing <= (100 if way == "unix" else 5000), (missing, counters)
    assert not counters["dropped"], counters
    assert max(before) < max(arrived) == counters["received"]


@pytest.mark.parametrize("way", ["unix", "tcp"])
def test_down_for_long(place, way):
    """The queue is full before the receiver comes back: the loss is exact, and told in the sink's own stream."""
    d = receiver("rsyslog", place / "d", (way,))
    feed = feed_syslog(place, target_of(d, way), "-n", 6000, "-r", 6000, "-d", 20, queue="{max_events: 1000}")
    try:
        time.sleep(1.5)
        with d:
            counters = feed.end()
            wait_count(d, counters["delivered"] + counters["loss_events"])
    finally:
        feed.process.kill()
    lost = sum(counters["dropped"].values())
    assert lost > 1000
    # until the first connection is refused, the queue is full for no other reason than its size
    assert set(counters["dropped"]) <= {"unreachable", "queue_full"}
    arrived = seqs(d.messages())
    assert max(arrived.values()) == 1 and len(arrived) == counters["delivered"] == 6000 - lost
    assert losses(d.messages()) == counters["dropped"]


@pytest.mark.parametrize("kind,way", [("rsyslog", "unix"), ("rsyslog", "tcp"), ("syslog-ng", "stream"),
                                      ("rsyslog", "tls")])
def test_slow(place, authority, kind, way):
    """A receiver that stands still: what it has no room for waits, then is lost by count; what was delivered is
    there when it goes on."""
    tls = authority.issue("server") if way == "tls" else None
    with receiver(kind, place / "d", (way,), tls=tls) as d:
        feed = feed_syslog(place, target_of(d, way), "-n", 60000, "-r", 30000, "-s", 1000, "-d", 20,
                           queue="{max_events: 500}", options=f"ca_file: {authority.cert}" if tls else "")
        try:
            wait_count(d, 1000)
            d.pause()
            time.sleep(1.2)
            d.go_on()
            counters = feed.end()
            wait_count(d, counters["delivered"] + counters["loss_events"])
            time.sleep(0.2)
        finally:
            d.go_on()
            feed.process.kill()
    assert counters["dropped"]["queue_full"] > 1000 and len(counters["dropped"]) == 1, counters
    arrived = seqs(d.messages())
    assert max(arrived.values()) == 1 and len(arrived) == counters["delivered"]
    assert losses(d.messages()) == counters["dropped"]


@pytest.mark.parametrize("way", ["unix", "tcp", "tls"])
def test_deadline(place, authority, way):
    """A stop does not wait for a receiver that stands still."""
    tls = authority.issue("server") if way == "tls" else None
    with receiver("rsyslog", place / "d", (way,), tls=tls) as d:
        feed = feed_syslog(place, target_of(d, way), "-n", 1000000, "-r", 50000, "-s", 1000, "-d", 1,
                           queue="{max_events: 5000}", options=f"ca_file: {authority.cert}" if tls else "")
        try:
            wait_count(d, 500)
            d.pause()
            time.sleep(1)
            began = time.monotonic()
            counters = feed.end(signal.SIGTERM)
            took = time.monotonic() - began
            d.go_on()
            wait_count(d, counters["delivered"] + counters["loss_events"])
            time.sleep(0.2)
        finally:
            d.go_on()
            feed.process.kill()
    assert took < 2.5
    assert counters["dropped"]["shutdown"] > 0 and set(counters["dropped"]) == {"shutdown", "queue_full"}
    arrived = seqs(d.messages())
    assert max(arrived.values()) == 1 and len(arrived) == counters["delivered"]


# ---- names and certificates ----

@pytest.mark.parametrize("scheme", ["udp", "tcp", "tls"])
def test_unknown_name(place, scheme):
    began = time.monotonic()
    feed = feed_syslog(place, f"{scheme}://no-such-host.invalid", "-n", 100, "-d", 1)
    counters = feed.end()
    assert time.monotonic() - began < 3
    assert counters["dropped"] == {"unreachable": 100}
    assert re.search(r"sink syslog: .*no-such-host\.invalid takes no lines: no .*name no-such-host\.invalid",
                     feed.stderr), feed.stderr


def refused(place, d, options, reason, text, host="localhost"):
    feed = feed_syslog(place, f"tls://{host}:{d.tls}", "-n", 100, "-d", 1, options=options)
    counters = feed.end()
    assert counters["dropped"] == {reason: 100}, (counters, feed.stderr)
    assert text in feed.stderr, feed.stderr
    assert d.count() == 0


@pytest.mark.parametrize("kind", ["rsyslog", "syslog-ng"])
def test_expired_certificate(place, authority, kind):
    with receiver(kind, place / "d", ("tls",), tls=authority.issue("old", expired=True)) as d:
        refused(place, d, f"ca_file: {authority.cert}", "auth", "certificate has expired")
        feed = feed_syslog(place, target_of(d, "tls"), "-n", 100, options="verify: false")
        assert feed.end()["delivered"] == 100
        wait_count(d, 100)


def test_wrong_authority(place, authority):
    with receiver("rsyslog", place / "d", ("tls",), tls=authority.issue("server")) as d:
        other = certs.Authority(place / "other", "other")
        refused(place, d, f"ca_file: {other.cert}", "auth", "certificate of localhost: self-signed certificate in")
        refused(place, d, "", "auth", "certificate of localhost: ")


def test_wrong_host(place, authority):
    with receiver("rsyslog", place / "d", ("tls",), tls=authority.issue("else", ("DNS:gpu07.example",))) as d:
        refused(place, d, f"ca_file: {authority.cert}", "auth", "hostname mismatch")
        refused(place, d, f"ca_file: {authority.cert}", "auth", "IP address mismatch", "127.0.0.1")


@pytest.mark.parametrize("kind", ["rsyslog", "syslog-ng"])
def test_client_certificate(place, authority, kind):
    """A receiver that wants to know who sends."""
    strict = {"mode": "x509/certvalid"} if kind == "rsyslog" else {"verify": "required-trusted"}
    with receiver(kind, place / "d", ("tls",), tls=authority.issue("server"), **strict) as d:
        client, stranger = authority.issue("client"), certs.Authority(place / "other", "other").issue("stranger")
        if kind == "syslog-ng":  # rsyslog's driver says nothing and hangs up later
            refused(place, d, f"ca_file: {authority.cert}", "auth", "certificate required")
        refused(place, d, f"ca_file: {authority.cert}, cert_file: {stranger.cert}, key_file: {stranger.key}", "auth",
                "TLS with localhost")
        feed = feed_syslog(place, target_of(d, "tls"), "-n", 100,
                           options=f"ca_file: {authority.cert}, cert_file: {client.cert}, key_file: {client.key}")
        assert feed.end()["delivered"] == 100, feed.stderr
        wait_count(d, 100)


def test_reopen(place, authority):
    """SIGHUP reads the files of TLS again: a mended one works without a restart."""
    ca = place / "ca.pem"
    ca.write_bytes(certs.Authority(place / "other", "other").cert.read_bytes())
    with receiver("rsyslog", place / "d", ("tls",), tls=authority.issue("server")) as d:
        feed = feed_syslog(place, target_of(d, "tls"), "-n", 1000, "-r", 500, "-d", 20, options=f"ca_file: {ca}")
        try:
            time.sleep(0.5)
            assert feed.counters()["delivered"] == 0
            ca.write_bytes(b"")
            feed.process.send_signal(signal.SIGHUP)  # not better: the old one stays
            time.sleep(0.2)
            ca.write_bytes(authority.cert.read_bytes())
            feed.process.send_signal(signal.SIGHUP)
            assert feed.end()["delivered"] == 1000
        finally:
            feed.process.kill()
        wait_count(d, 1000)
    assert "cannot open tls://" in feed.stderr and "takes lines again" in feed.stderr, feed.stderr


@pytest.mark.parametrize("scheme", ["tls", "tcp"])
def test_silent_peer(place, scheme):
    """One that accepts and says nothing does not hold up the end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        feed = feed_syslog(place, f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", "-n", 40000, "-s", 2000, "-d", 1,
                           options="verify: false" if scheme == "tls" else "")
        began = time.monotonic()
        counters = feed.end()
    assert time.monotonic() - began < 5
    assert sum(counters["dropped"].values()) + counters["delivered"] == 40000
    if scheme == "tls":
        assert counters["delivered"] == 0
    else:
        assert counters["dropped"]["shutdown"] and counters["delivered"]


def test_wrong_files(place):
    """What can be known at the start ends it there."""
    (place / "empty.pem").write_text("")
    for options, text in ((f"ca_file: {place}/none.pem", "No such file"), (f"ca_file: {place}/empty.pem", "ca_file"),
                          (f"cert_file: {place}/empty.pem, key_file: {place}/empty.pem", "cert_file")):
        feed = feed_syslog(place, "tls://localhost", "-n", 1, options=options)
        assert feed.process.wait(10) == 1
        assert re.search(r"^feed: sink syslog: cannot use \w+ /", feed.stderr) and text in feed.stderr, feed.stderr


# ---- a connection that breaks ----

class Breaker:
    """A receiver of octet-counted frames that resets its first connections in the middle of a frame."""

    def __init__(self, resets):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.resets = resets

    def take(self, connection, limit):
        data = b""
        while limit is None or len(data) < limit:
            got = connection.recv(65536 if limit is None else min(65536, limit - len(data)))
            if not got:
                break
            data += got
        return data

    def run(self):
        """Frames of each connection; a torn one at the end of a reset connection is left out."""
        connections = []
        for i in range(self.resets + 1):
            connection, _ = self.listener.accept()
            last = i == self.resets
            data = self.take(connection, None if last else 10007)
            if not last:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
            frames, at = [], 0
            while (found := re.compile(rb"(\d+) ").match(data, at)) and found.end() + int(found[1]) <= len(data):
                frames.append(data[found.end():found.end() + int(found[1])])
                at = found.end() + int(found[1])
            assert not last or at == len(data), data[at:at + 100]
            connections.append(frames)
        return connections


def test_reset(place):
    """After a reset in the middle of a frame the stream goes on with whole frames on a new connection."""
    breaker = Breaker(3)
    feed = feed_syslog(place, f"tcp://127.0.0.1:{breaker.port}", "-n", 5000, "-r", 2000, "-d", 20)
    connections = breaker.run()
    counters = feed.end()
    frames = [json.loads(frame[frame.index(b"{"):]) for frames in connections for frame in frames]
    arrived = seqs({"event": frame} for frame in frames)
    assert counters["delivered"] == counters["received"] == 5000
    # what was on its way is lost with a connection; a frame is counted once and may come twice
    assert len(arrived) <= 5000 and max(arrived) == 5000 and len(arrived) > 4000
    assert all(int(frame["seq"]) for frame in frames)
    assert len(connections[-1]) > 1000
