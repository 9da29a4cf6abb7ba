"""syslog-ng as a receiver. It cannot be installed beside rsyslog, so its packages are unpacked in the cache. Its
json-parser makes every value a string."""

import json
import os

from receivers import daemon

PACKAGES = ("syslog-ng-core", "libivykis0t64|libivykis0", "libnet1", "libwrap0")

# PROGRAM, PID and MSGID are what the header says; `event` what json-parser made of the message
CONFIG = """@version: 3.38
options {{ keep-hostname(yes); use-dns(no); stats-freq(0); create-dirs(no); }};
{sources}
parser p_json {{ json-parser(prefix(".json.") marker("{marker}")); }};
destination d_out {{
    file("{out}" template("$(format-json --scope none app=$PROGRAM procid=$PID msgid=$MSGID pri=$PRI host=$HOST ts=$S_ISODATE seq=${{.SDATA.{sd}.seq}} run=${{.SDATA.{sd}.run}} raw=$MESSAGE --key .json.* --rekey .json.* --shift-levels 2 --add-prefix event.)\\n"));
}};
log {{ source(s_in); parser(p_json); destination(d_out); }};
"""

SOURCES = {
    "unix": 'unix-dgram("{unix}");',
    "stream": 'unix-stream("{stream}");',
    "udp": 'syslog(transport("udp") ip("127.0.0.1") port({udp}));',
    "tcp": 'syslog(transport("tcp") ip("127.0.0.1") port({tcp}));',
    "lines": 'network(transport("tcp") ip("127.0.0.1") port({lines}) flags(syslog-protocol));',
    "tls": 'syslog(transport("tls") ip("127.0.0.1") port({tls}) tls(key-file("{key}") cert-file("{cert}") '
           'ca-file("{ca}") peer-verify({verify})));',
}


class SyslogNg(daemon.Daemon):
    """inputs: of "unix", "stream", "udp", "tcp", "lines" (tcp without octet counting), "tls"."""

    def __init__(self, directory, inputs=("unix",), marker="", tls=None, verify="optional-untrusted",
                 sd="cudatap@32473"):
        super().__init__(directory)
        root = daemon.unpack("syslog-ng", PACKAGES)
        lib = root / "usr/lib"
        multiarch = daemon.multiarch(root)
        self.inputs = inputs
        self.unix = self.directory / "log"
        self.stream = self.directory / "stream"
        self.udp = daemon.free_port(daemon.socket.SOCK_DGRAM)
        self.tcp, self.lines, self.tls = (daemon.free_port() for _ in range(3))
        self.out = self.directory / "out.jsonl"
        places = dict(unix=self.unix, stream=self.stream, udp=self.udp, tcp=self.tcp, lines=self.lines, tls=self.tls,
                      key=tls and tls.key, cert=tls and tls.cert, ca=tls and tls.ca, verify=verify)
        sources = "\n".join(SOURCES[name].format(**places) for name in inputs)
        config = self.directory / "syslog-ng.conf"
        config.write_text(CONFIG.format(sources=f"source s_in {{\n{sources}\n}};", marker=marker, out=self.out, sd=sd))
        self.environment = {"LD_LIBRARY_PATH": os.pathsep.join(map(str, (
            lib / "syslog-ng", multiarch, root / "lib" / multiarch.name)))}
        self.command = [str(root / "usr/sbin/syslog-ng"), "--no-caps", "-F", "-f", str(config),
                        f"--module-path={next((lib / 'syslog-ng').glob('[0-9]*'))}",
                        "-R", str(self.directory / "persist"), "-c", str(self.directory / "ctl"),
                        "-p", str(self.directory / "pid")]

    def ready(self):
        return all([
            "unix" not in self.inputs or daemon.unix_bound(self.unix),
            "stream" not in self.inputs or daemon.unix_bound(self.stream),
            "udp" not in self.inputs or daemon.udp_bound(self.udp),
            "tcp" not in self.inputs or daemon.tcp_listens(self.tcp),
            "lines" not in self.inputs or daemon.tcp_listens(self.lines),
            "tls" not in self.inputs or daemon.tcp_listens(self.tls),
        ])

    def count(self):
        return self.out.read_bytes().count(b"\n") if self.out.exists() else 0

    def messages(self):
        return [json.loads(line) for line in self.out.read_text().split("\n") if line] if self.out.exists() else []
