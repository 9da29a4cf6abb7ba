"""rsyslog as a receiver: its inputs with their default settings; each message is parsed as JSON by mmjsonparse and
written, header and all, as one line of JSON.

    python3 tests/receivers/rsyslog.py COMMAND ARGUMENT...

runs a command with a daemon that throws everything away; {} in the arguments is its unix socket."""

import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from receivers import daemon  # noqa: E402

PACKAGES = ("rsyslog", "rsyslog-openssl", "rsyslog-gnutls", "libestr0", "libfastjson4")

# timereported is what the message says, timegenerated when it came
TEMPLATE = """
template(name="out" type="list") {
    constant(value="{\\"app\\":\\"") property(name="app-name" format="json")
    constant(value="\\",\\"procid\\":\\"") property(name="procid" format="json")
    constant(value="\\",\\"msgid\\":\\"") property(name="msgid" format="json")
    constant(value="\\",\\"pri\\":") property(name="pri")
    constant(value=",\\"host\\":\\"") property(name="hostname" format="json")
    constant(value="\\",\\"ts\\":\\"") property(name="timereported" dateFormat="rfc3339")
    constant(value="\\",\\"sd\\":\\"") property(name="structured-data" format="json")
    constant(value="\\",\\"parsed\\":\\"") property(name="parsesuccess" format="json")
    constant(value="\\",\\"raw\\":\\"") property(name="msg" format="json")
    constant(value="\\",\\"event\\":") property(name="$!all-json")
    constant(value="}\\n")
}
"""


class Rsyslog(daemon.Daemon):
    """inputs: of "unix", "udp", "tcp", "tls", "stream" (imptcp on a unix socket)."""

    def __init__(self, directory, inputs=("unix",), cookie="", more="", tls=None, driver="ossl", mode="anon",
                 parse=True):
        super().__init__(directory)
        root = daemon.unpack("rsyslog", PACKAGES)
        multiarch = daemon.multiarch(root)
        self.environment = {"LD_LIBRARY_PATH": str(multiarch)}
        self.inputs = inputs
        self.unix = self.directory / "log"
        self.stream = self.directory / "stream"
        self.udp = daemon.free_port(daemon.socket.SOCK_DGRAM)
        self.tcp = daemon.free_port()
        self.tls = daemon.free_port()
        self.out = self.directory / "out.jsonl"
        config = self.directory / "rsyslog.conf"
        config.write_text(self._config(cookie, more, tls, driver, mode, parse))
        self.command = [str(root / "usr/sbin/rsyslogd"), "-n", f"-M{multiarch / 'rsyslog'}", "-f", str(config), "-i",
                        str(self.directory / "pid")]
        if "unix" in inputs and len(str(self.unix)) > 107:
            raise AssertionError(f"too long for a unix socket: {self.unix}")

    def _config(self, cookie, more, tls, driver, mode, parse):
        lines = [f'global(workDirectory="{self.directory}")', more]
        if tls:
            lines.append(f'global(DefaultNetstreamDriver="{driver}" DefaultNetstreamDriverCAFile="{tls.ca}"'
                         f' DefaultNetstreamDriverCertFile="{tls.cert}" DefaultNetstreamDriverKeyFile="{tls.key}")')
        if "unix" in self.inputs:
            lines.append(f'module(load="imuxsock" SysSock.Name="{self.unix}")')
        if "udp" in self.inputs:
            lines.append(f'module(load="imudp")\ninput(type="imudp" address="127.0.0.1" port="{self.udp}")')
        if "tcp" in self.inputs:
            lines.append(f'module(load="imtcp")\ninput(type="imtcp" address="127.0.0.1" port="{self.tcp}")')
        if "tls" in self.inputs:
            lines.append(f'module(load="imtcp" StreamDriver.Name="{driver}" StreamDriver.Mode="1"'
                         f' StreamDriver.AuthMode="{mode}")\n'
                         f'input(type="imtcp" address="127.0.0.1" port="{self.tls}")')
        if "stream" in self.inputs:
            lines.append(f'module(load="imptcp")\ninput(type="imptcp" path="{self.stream}")')
        lines += ['module(load="mmjsonparse")', TEMPLATE, f'action(type="mmjsonparse" cookie="{cookie}")',
                  f'action(type="omfile" file="{self.out}" template="out")']
        if not parse:
            lines[-3:] = ['action(type="omfile" file="/dev/null")']
        return "\n".join(lines) + "\n"

    def ready(self):
        return all([
            "unix" not in self.inputs or daemon.unix_bound(self.unix),
            "stream" not in self.inputs or daemon.unix_bound(self.stream),
            "udp" not in self.inputs or daemon.udp_bound(self.udp),
            "tcp" not in self.inputs or daemon.tcp_listens(self.tcp),
            "tls" not in self.inputs or daemon.tcp_listens(self.tls),
        ])

    def count(self):
        return self.out.read_bytes().count(b"\n") if self.out.exists() else 0

    def messages(self):
        if not self.out.exists():
            return []
        return [json.loads(line) for line in self.out.read_text().split("\n") if line]


def main(words):
    with tempfile.TemporaryDirectory() as directory:
        try:
            with Rsyslog(directory, parse=False) as d:
                return subprocess.run([word.replace("{}", str(d.unix)) for word in words]).returncode
        except daemon.Unavailable as why:
            print(f"skipped: {why}")
            return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
