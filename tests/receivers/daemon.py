"""What all receivers have in common: a daemon that is started, waited for and stopped by its own process id, in a
directory of its own, on loopback."""

import contextlib
import os
import pathlib
import platform
import shutil
import signal
import socket
import subprocess
import time

CACHE = pathlib.Path(os.environ.get("CUDATAP_CACHE", pathlib.Path.home() / ".cache/cudatap"))


class Unavailable(Exception):
    """The receiver cannot run here; the text says why."""


def _apt_get(words, packages, directory=None):
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}

    def run():
        # whoever has several names is taken by the first that is to be had
        names = [next((n for n in names.split("|") if _candidate(n)), names) for names in packages]
        return subprocess.run(["apt-get", "-q", *words, *names], cwd=directory, env=environment, capture_output=True,
                              text=True)
    try:
        got = run()
        if got.returncode:  # the lists may be old, or absent
            subprocess.run(["apt-get", "-q", "update"], env=environment, capture_output=True)
            got = run()
    except FileNotFoundError:
        raise Unavailable("no apt-get") from None
    if got.returncode:
        raise Unavailable(f"apt-get cannot {words[-1]} {' '.join(packages)}: {got.stderr[-500:]}")


def _candidate(package):
    policy = subprocess.run(["apt-cache", "policy", package], capture_output=True, text=True).stdout
    return "Candidate: " in policy and "Candidate: (none)" not in policy


def install(packages):
    """Installs what is missing of a dict tool -> package."""
    missing = [package for tool, package in packages.items() if not shutil.which(tool)]
    if missing and os.geteuid() != 0:
        raise Unavailable(f"not installed: {' '.join(missing)}")
    if missing:
        _apt_get(["-y", "--no-install-recommends", "install"], missing)


def unpack(name, packages):
    """The distribution's packages, unpacked in the cache and not installed: the system's own daemons stay as they are,
    and what cannot be installed side by side works. Each distribution has its own. Returns the folder."""
    system = platform.freedesktop_os_release()
    name = f"{name}-{system['ID']}-{system.get('VERSION_ID', 'testing')}"
    root = CACHE / name
    if (root / ".complete").exists():
        return root
    debs = CACHE / f"{name}-debs"
    debs.mkdir(parents=True, exist_ok=True)
    _apt_get(["download"], packages, debs)
    for deb in debs.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(deb), str(root)], check=True)
    (root / ".complete").touch()
    return root


def multiarch(root):
    """usr/lib/x86_64-linux-gnu of an unpacked package."""
    return next(iter((root / "usr/lib").glob("*-linux-gnu")))


def free_port(kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until(condition, what, timeout=20, details=lambda: ""):
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {timeout} s for {what}. {details()}")
        time.sleep(0.02)


def has_signalfd(pid):
    """Whether a program is past the place from where on a signal is a question and not its end. (That it blocks
    signals says nothing: libraries do so for a moment, and so does who starts it.)"""
    with contextlib.suppress(OSError):
        return any("sigmask:" in path.read_text() for path in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir())
    return False


def _bound(table, port, state):
    """Is an IPv4 or IPv6 port bound (udp: state 07) or listened on (tcp: 0A)?"""
    for name in (table, table + "6"):
        with contextlib.suppress(OSError):
            for line in pathlib.Path("/proc/net", name).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == state and int(words[1].rsplit(":", 1)[1], 16) == port:
                    return True
    return False


def udp_bound(port):
    return _bound("udp", port, "07")


def tcp_listens(port):
    return _bound("tcp", port, "0A")


def unix_bound(path):
    return any(line.split()[-1] == str(path) for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:])


class Daemon:
    """A process in the foreground. Subclasses have `command` and `ready()`."""

    environment = None

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log = self.directory / "daemon.log"
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            cwd=self.directory, env={**os.environ, **(self.environment or {})})
        wait_until(lambda: self.process.poll() is not None or self.ready(), f"{self.command[0]} to start",
                   details=self.log.read_text)
        if self.process.poll() is not None:
            raise AssertionError(f"{self.command[0]} ended: {self.log.read_text()}")
        return self

    def stop(self, number=signal.SIGTERM, timeout=20):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    def kill(self):
        self.stop(signal.SIGKILL)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()
