"""OpenSearch on loopback, for tests: one node, started by the small Java class beside this file. Maven's downloads stay
in ${CUDATAP_CACHE:-~/.cache/cudatap}/opensearch. Missing packages are installed by apt when run as root."""

import json
import pathlib
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from receivers import daemon  # noqa: E402

CACHE = daemon.CACHE / "opensearch"
PACKAGES = {"java": "default-jre-headless", "javac": "default-jdk-headless", "mvn": "maven"}
START_TIMEOUT = 90


def prepare():
    """Packages, jars and the compiled class. Returns the class path."""
    daemon.install(PACKAGES)
    pom = (HERE / "opensearch-pom.xml").read_text()
    source = HERE / "OpenSearchNode.java"
    stamp = CACHE / "complete"
    wanted = pom + source.read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        CACHE.mkdir(parents=True, exist_ok=True)
        for old in ("lib", "classes"):
            shutil.rmtree(CACHE / old, ignore_errors=True)
        (CACHE / "pom.xml").write_text(pom)
        for command in (["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"],
                        ["javac", "--release", "17", "-nowarn", "-cp", "lib/*", "-d", "classes", str(source)]):
            result = subprocess.run(command, cwd=CACHE, capture_output=True, text=True, timeout=600)
            if result.returncode:
                raise daemon.Unavailable(f"{command[0]}: {(result.stdout + result.stderr)[-500:]}")
        stamp.write_text(wanted)
    return f"{CACHE}/lib/*:{CACHE}/classes"


class OpenSearch(daemon.Daemon):
    def __init__(self, directory):
        super().__init__(directory)
        self.http = daemon.free_port()
        self.command = ["java", "-Xms64m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", prepare(),
                        "OpenSearchNode", str(self.directory / "home"), str(self.http), str(daemon.free_port())]

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            cwd=self.directory)
        daemon.wait_until(lambda: self.process.poll() is not None or self.ready(), "OpenSearch to start", START_TIMEOUT,
                          lambda: self.log.read_text()[-2000:])
        assert self.process.poll() is None, f"OpenSearch ended: {self.log.read_text()[-2000:]}"
        return self

    def ready(self):
        try:
            return self.call("GET", "/")["version"]["distribution"] == "opensearch"
        except (OSError, ValueError):
            return False

    def call(self, method, path, body=None):
        """A request with a JSON body, or with lines; an error is an exception with the answer's text."""
        data = body.encode() if isinstance(body, str) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}{path}", data=data, method=method,
                                         headers={"Content-Type": "application/x-ndjson" if isinstance(body, str)
                                                  else "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise ValueError(f"{method} {path}: {error.code} {error.read().decode()[:1000]}") from None

    def index(self, index, lines):
        """The documents, by one bulk call. Returns the errors: such a call succeeds as a whole in any case."""
        answer = self.call("POST", f"/{index}/_bulk?refresh=true",
                           "".join(f'{{"create":{{}}}}\n{line}\n' for line in lines))
        assert len(answer["items"]) == len(lines)
        return [item["create"]["error"] for item in answer["items"] if "error" in item["create"]]

    def search(self, index, query, **more):
        return self.call("POST", f"/{index}/_search", {"query": query, "size": 1000, "track_total_hits": True, **more})
