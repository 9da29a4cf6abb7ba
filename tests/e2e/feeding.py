"""tests/programs/feed.c: it gives sinks as many events as a test wants, without probes."""

import json
import select
import signal
import subprocess
import sys
import time

import pytest
import tap

sys.path.insert(0, str(tap.ROOT / "tests"))
from receivers import daemon  # noqa: E402


class Feed:
    """A feed with the sinks of `sinks`, the inside of a flow mapping, of which `sink` is looked at. A file sink among
    them may write what was sent to the path SENT."""

    def __init__(self, place, sink, sinks, arguments, host="gpu07"):
        if tap.CUDATAP.parent != tap.BUILD:
            pytest.skip("the feed is no part of that executable: it runs with the one that it was built with")
        self.sink = sink
        self.sent_path = place / f"sent-{time.monotonic_ns()}.jsonl"
        config = place / f"feed-{time.monotonic_ns()}.yaml"
        config.write_text(f"version: 1\nhost: {host}\nsinks: {{{sinks.replace('SENT', str(self.sent_path))}}}\n")
        self.listens = False
        self.last = None
        self.err_path = config.with_suffix(".err")
        # unbuffered: a line that Python has read ahead would be missing at the end
        with open(self.err_path, "wb") as err:
            self.process = subprocess.Popen([tap.program("feed"), "-c", str(config), *map(str, arguments)],
                                            stdout=subprocess.PIPE, stderr=err, bufsize=0)

    @property
    def stderr(self):
        return self.err_path.read_text()

    def _read(self, line):
        counters = json.loads(line)["sinks"]
        assert all(sink["holds"] for sink in counters.values()), counters
        return counters[self.sink]

    def counters(self):
        """What became of the lines so far, or of all when it has ended."""
        if not self.listens:
            # before it listens the signal would end it
            daemon.wait_until(lambda: daemon.has_signalfd(self.process.pid), "the feed to listen")
            self.listens = True
        self.process.send_signal(signal.SIGUSR1)
        ready, _, _ = select.select([self.process.stdout], [], [], 10)
        assert ready, self.stderr
        line = self.process.stdout.readline() or self.last
        assert line, f"the feed has ended: {self.process.wait(10)}; {self.stderr}"
        self.last = line
        return self._read(line)

    def wait(self, condition, what, timeout=30):
        daemon.wait_until(lambda: condition(self.counters()), what, timeout, lambda: self.stderr)

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def end(self, number=None, timeout=90):
        """Its last counters. It may have ended by itself while it was asked: then that answer was the last."""
        if number:
            self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=timeout)
        assert self.process.returncode == 0, self.stderr
        counters = self._read((out.splitlines() or [self.last])[-1])
        assert counters["queued"] == counters["in_flight"] == 0
        assert counters["received"] + counters["recovered"] == \
            counters["delivered"] + sum(counters["dropped"].values()) + counters["unknown"] + counters["spooled"]
        return counters

    def sent(self):
        """The lines of calls that it was to send, by seq."""
        lines = self.sent_path.read_text().splitlines()
        return {event["seq"]: line for line in lines for event in [json.loads(line)] if event["type"] == "call"}
