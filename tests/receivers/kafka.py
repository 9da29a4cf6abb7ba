#!/usr/bin/env python3
"""Apache Kafka brokers on loopback, for tests and benchmarks: one or a group, started, killed, restarted.

    tests/receivers/kafka.py [--brokers N] [--fast] -- COMMAND ARG...

runs COMMAND with KAFKA_BOOTSTRAP in its environment and stops the brokers after it. Downloads go into
${CUDATAP_CACHE:-~/.cache/cudatap}/kafka. Missing packages are installed by apt when run as root."""

import argparse
import base64
import contextlib
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from receivers import certs, daemon  # noqa: E402

CACHE = daemon.CACHE / "kafka"
PACKAGES = {"java": "default-jre-headless", "mvn": "maven", "kcat": "kcat", "openssl": "openssl"}
USERS = {"alice": "alice-secret", "bob": "bob-secret"}
START_TIMEOUT = 60


def prepare():
    """Packages and jars. Returns the class path."""
    daemon.install(PACKAGES)
    pom = (HERE / "kafka-pom.xml").read_text()
    stamp = CACHE / "complete.xml"
    if not stamp.exists() or stamp.read_text() != pom:
        CACHE.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(CACHE / "lib", ignore_errors=True)
        (CACHE / "pom.xml").write_text(pom)
        result = subprocess.run(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"], cwd=CACHE,
                                capture_output=True, text=True, timeout=600)
        if result.returncode:
            raise daemon.Unavailable(f"Maven could not fetch Apache Kafka: {result.stdout[-500:]}")
        stamp.write_text(pom)
    return f"{CACHE}/lib/*"


def free_ports(n):
    """Not of those that outgoing connections get: a client that calls a dead broker again and again on one of them
    ends up connected to itself, and holds the port."""
    ports = []
    while len(ports) < n:
        port = random.randrange(20000, 32000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            if port not in ports:
                ports.append(port)
    return ports


# ---- brokers ----

class Broker(daemon.Daemon):
    def __init__(self, group, number, ports):
        super().__init__(group.directory / f"broker{number}")
        self.group, self.number, self.ports = group, number, ports
        self.properties = self.directory / "server.properties"
        self.command = self.java("kafka.Kafka", self.properties)

    def java(self, *words):
        return ["java", *self.group.java_options, "-cp", self.group.class_path, *map(str, words)]

    def write_properties(self):
        listeners = {name: f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()}
        lines = {
            "node.id": self.number,
            "process.roles": "broker,controller",
            "listeners": ",".join(listeners.values()),
            "advertised.listeners": ",".join(text for name, text in listeners.items() if name != "CONTROLLER"),
            "log.dirs": self.directory / "data",
            **self.group.properties,
        }
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def format(self):
        scram = [word for name, password in USERS.items() for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
                 for word in ("--add-scram", f"{mechanism}=[name={name},password={password}]")]
        with open(self.log, "ab") as log:
            return subprocess.Popen(self.java("kafka.tools.StorageTool", "format", "-t", self.group.id, "-c",
                                              self.properties, *scram), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def launch(self):
        """Begin to start; wait_ready() waits."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait_ready(self):
        daemon.wait_until(lambda: self.process.poll() is not None or self.ready(), "Kafka to start", START_TIMEOUT,
                          lambda: self.log.read_text()[-2000:])
        assert self.process.poll() is None, f"Kafka ended: {self.log.read_text()[-2000:]}"

    def start(self):
        self.launch()
        self.wait_ready()
        return self

    def ready(self):
        return not subprocess.run(["kcat", "-b", f"127.0.0.1:{self.ports['PLAINTEXT']}", "-L", "-m", "1"],
                                  capture_output=True).returncode


class Group:
    """N brokers. `with Group(directory) as kafka:` starts and stops them."""

    def __init__(self, directory, brokers=1, secure=False, properties=None, fast=False):
        self.class_path = prepare()
        self.directory = pathlib.Path(directory)
        # A random one begins with "-" in one of 64 cases, which the broker's own tool takes for an option.
        self.id = "c" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        # A test's broker lives for seconds: start soon. A benchmark's is to be as fast as it gets.
        self.java_options = ["-Xmx512m"] if fast else ["-Xmx512m", "-Xms64m", "-XX:+UseSerialGC",
                                                       "-XX:TieredStopAtLevel=1"]
        names = ["PLAINTEXT", "CONTROLLER"] + (["TLS", "MTLS", "EXPIRED", "SASL", "SASLTLS"] if secure else [])
        ports = free_ports(brokers * len(names))
        self.brokers = [Broker(self, i + 1, dict(zip(names, ports[i * len(names):(i + 1) * len(names)])))
                        for i in range(brokers)]
        copies = min(brokers, 3)
        self.properties = {
            "controller.quorum.voters": ",".join(f"{one.number}@127.0.0.1:{one.ports['CONTROLLER']}"
                                                 for one in self.brokers),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,MTLS:SSL,EXPIRED:SSL,"
                                              "SASL:SASL_PLAINTEXT,SASLTLS:SASL_SSL",
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": min(copies, 2),
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": min(copies, 2),
            "group.initial.rebalance.delay.ms": 0,
            "num.partitions": 1,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:ANONYMOUS",
            **(properties or {}),
        }
        self.authority = None
        if secure:
            self._secure()

    @staticmethod
    def _java_store(pair):
        """Key and certificates in one file, as Java reads PEM."""
        store = pair.cert.with_suffix(".java.pem")
        store.write_text(pair.key.read_text() + pair.cert.read_text() + pair.ca.read_text())
        return store

    def _secure(self):
        self.authority = certs.Authority(self.directory / "tls")
        good = self._java_store(self.authority.issue("broker"))
        old = self._java_store(self.authority.issue("old-broker", expired=True))
        plain = ("org.apache.kafka.common.security.plain.PlainLoginModule required " +
                 " ".join(f'user_{name}="{password}"' for name, password in USERS.items()) + ";")
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        for listener, store in (("tls", good), ("mtls", good), ("expired", old), ("sasltls", good)):
            prefix = f"listener.name.{listener}."
            self.properties |= {f"{prefix}ssl.keystore.type": "PEM", f"{prefix}ssl.keystore.location": store,
                                f"{prefix}ssl.truststore.type": "PEM", f"{prefix}ssl.truststore.location":
                                self.authority.cert}
        self.properties["listener.name.mtls.ssl.client.auth"] = "required"
        for listener in ("sasl", "sasltls"):
            prefix = f"listener.name.{listener}."
            self.properties |= {f"{prefix}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                                f"{prefix}plain.sasl.jaas.config": plain,
                                f"{prefix}scram-sha-256.sasl.jaas.config": scram,
                                f"{prefix}scram-sha-512.sasl.jaas.config": scram}

    def __enter__(self):
        try:
            for one in self.brokers:
                one.write_properties()
            for formatting in [one.format() for one in self.brokers]:
                assert not formatting.wait(START_TIMEOUT), self.brokers[0].log.read_text()[-2000:]
            for one in self.brokers:
                one.launch()
            for one in self.brokers:
                one.wait_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for one in self.brokers:
            one.kill()

    def addresses(self, listener="PLAINTEXT"):
        return [f"127.0.0.1:{one.ports[listener]}" for one in self.brokers]

    @property
    def bootstrap(self):
        return ",".join(self.addresses())

    # ---- topics ----

    def _controller(self):
        """Any broker passes requests for the controller on."""
        for one in self.brokers:
            if one.process and one.process.poll() is None:
                return socket.create_connection(("127.0.0.1", one.ports["PLAINTEXT"]), 10)
        raise RuntimeError("no broker runs")

    def create_topic(self, name, partitions=1, replication=1, **configs):
        """CreateTopics, version 4 (kafka.apache.org/protocol)."""
        def text(value):
            data = value.encode()
            return struct.pack(">h", len(data)) + data
        body = struct.pack(">i", 1) + text(name) + struct.pack(">ihi", partitions, replication, 0)
        body += struct.pack(">i", len(configs))
        for key, value in configs.items():
            body += text(key.replace("_", ".")) + text(str(value))
        body += struct.pack(">i?", 20000, False)
        request = struct.pack(">hhi", 19, 4, 1) + text("tests") + body
        with self._controller() as connection:
            connection.settimeout(30)
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = b""
            while len(answer) < 4 or len(answer) < 4 + struct.unpack(">i", answer[:4])[0]:
                piece = connection.recv(65536)
                if not piece:
                    raise RuntimeError("CreateTopics: the broker hung up")
                answer += piece
        # size, correlation id, throttle time, count, name
        at = 4 + 4 + 4 + 4
        at += 2 + struct.unpack(">h", answer[at:at + 2])[0]
        code, = struct.unpack(">h", answer[at:at + 2])
        if code:
            raise RuntimeError(f"CreateTopics {name}: error {code}: {answer[at + 2:]!r}")
        self._wait_for_leaders(name)
        return name

    def _wait_for_leaders(self, name):
        """A producer that is quicker than the brokers' own news of the topic loses the first batch of a partition
        with a positive report (KAFKA-15591). Who can read it to its end has met all its leaders."""
        end = time.monotonic() + START_TIMEOUT
        while True:
            with contextlib.suppress(RuntimeError):
                return self.read(name)
            if time.monotonic() > end:
                raise RuntimeError(f"{name} has no leaders")
            time.sleep(0.05)

    def deny(self, user, topic):
        """The user may not write to the topic."""
        done = subprocess.run(["java", "-XX:TieredStopAtLevel=1", "-cp", self.class_path,
                               "org.apache.kafka.tools.AclCommand", "--bootstrap-server", self.bootstrap, "--add",
                               "--deny-principal", f"User:{user}", "--operation", "Write", "--topic", topic],
                              capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)

    def read(self, topic, form="%s\n", timeout=120, keys=False):
        """The messages of a topic by kcat, in order within each partition."""
        command = ["kcat", "-C", "-q", "-e", "-b", self.bootstrap, "-t", topic, "-o", "beginning", "-f", form]
        done = subprocess.run(command, capture_output=True, timeout=timeout)
        if done.returncode:
            raise RuntimeError(f"kcat: {done.stderr.decode()}")
        return done.stdout.decode().splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--fast", action="store_true", help="Java's best compiler: for benchmarks")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with tempfile.TemporaryDirectory(prefix="cudatap-kafka-") as directory:
            with Group(directory, brokers=arguments.brokers, fast=arguments.fast) as group:
                return subprocess.run(arguments.command, env={**os.environ, "KAFKA_BOOTSTRAP": group.bootstrap}).returncode
    except daemon.Unavailable as why:
        print(f"kafka: {why}", file=sys.stderr)
        return 77


if __name__ == "__main__":
    sys.exit(main())
