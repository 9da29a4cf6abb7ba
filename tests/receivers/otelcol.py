#!/usr/bin/env python3
"""An OpenTelemetry Collector on loopback, for tests: built from tests/receivers/otelcol by Go, which takes minutes the
first time. The executable and Go's own caches stay in ${CUDATAP_CACHE:-~/.cache/cudatap}/otelcol.

    tests/receivers/otelcol.py CONFIG.yaml      builds it and runs it in the foreground"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from receivers import daemon  # noqa: E402

CACHE = daemon.CACHE / "otelcol"
SOURCE = HERE / "otelcol"
FILES = ("go.mod", "go.sum", "main.go")
BUILD_TIMEOUT = 1200


def build():
    """The executable, built anew when its sources changed."""
    digest = hashlib.sha256(b"".join((SOURCE / name).read_bytes() for name in FILES)).hexdigest()[:16]
    binary = CACHE / f"otelcol-{digest}"
    if binary.exists():
        return binary
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if not go:
        raise daemon.Unavailable("no Go compiler")
    work = CACHE / "source"
    work.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copy(SOURCE / name, work / name)
    made = work / "otelcol"
    environment = {**os.environ, "GOFLAGS": "-mod=readonly"}
    try:
        result = subprocess.run([go, "build", "-trimpath", "-ldflags=-s -w", "-o", str(made), "."], cwd=work,
                                env=environment, capture_output=True, text=True, timeout=BUILD_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise daemon.Unavailable(f"the Collector was not built in {BUILD_TIMEOUT} s") from None
    if result.returncode:
        raise daemon.Unavailable(f"the Collector cannot be built: {result.stderr[-500:]}")
    made.rename(binary)
    return binary


class Collector(daemon.Daemon):
    """With a configuration whose text may have {http} (the OTLP port), {metrics} (the port of its own metrics) and
    {directory}."""

    def __init__(self, directory, config):
        super().__init__(directory)
        self.http, self.metrics = daemon.free_port(), daemon.free_port()
        path = self.directory / "config.yaml"
        for name, value in (("http", self.http), ("metrics", self.metrics), ("directory", self.directory)):
            config = config.replace("{" + name + "}", str(value))
        path.write_text(config)
        self.command = [str(build()), f"--config={path}"]

    def ready(self):
        return "Everything is ready" in self.log.read_text()

    def post(self, signal, line):
        """One request to the OTLP receiver; returns its status and answer."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}/v1/{signal}", data=line.encode(),
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


if __name__ == "__main__":
    try:
        os.execv(build(), ["otelcol", f"--config={sys.argv[1]}"])
    except daemon.Unavailable as why:
        print(f"otelcol: {why}", file=sys.stderr)
        sys.exit(77)
