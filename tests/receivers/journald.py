"""systemd-journald as a receiver, in a namespace of its own (systemd-journald.service(8), "JOURNAL NAMESPACES"), which
is not the system's and is removed afterwards. It limits rates: 10000 messages in 30 s from one process's cgroup."""

import json
import os
import pathlib
import shutil
import subprocess

from receivers import daemon


class Journald(daemon.Daemon):
    def __init__(self, directory):
        super().__init__(directory)
        program = pathlib.Path("/lib/systemd/systemd-journald")
        if os.geteuid() != 0 or not program.exists() or not shutil.which("journalctl"):
            raise daemon.Unavailable("journald needs root and systemd's files")
        self.namespace = f"cudatap-test-{os.getpid()}"
        self.runtime = pathlib.Path("/run/systemd", f"journal.{self.namespace}")
        self.unix = self.runtime / "dev-log"
        self.command = [str(program), self.namespace]

    def ready(self):
        return daemon.unix_bound(self.unix)

    def entries(self):
        found = subprocess.run(["journalctl", f"--namespace={self.namespace}", "-o", "json", "-t", "cudatap", "--all"],
                               capture_output=True, text=True)
        return [json.loads(line) for line in found.stdout.splitlines()]

    def count(self):
        return len(self.entries())

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.runtime, ignore_errors=True)
        for place in ("/run/log/journal", "/var/log/journal"):
            for path in pathlib.Path(place).glob(f"*.{self.namespace}"):
                shutil.rmtree(path, ignore_errors=True)
