"""The files in examples/: every profile traces the demo program and emits what its comment promises; units, manifests
and shippers' files are held against what reads them, as far as that can be had here."""

import collections
import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import time

import pytest
import tap
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from receivers import daemon, rsyslog  # noqa: E402

EXAMPLES = tap.ROOT / "examples"
PROFILES = sorted((EXAMPLES / "profiles").glob("*.yaml"))
DEMO = str(tap.FAKE / "demo")
CALLS = 23  # of the demo program in the default families
JOB = {"SLURM_JOB_ID": "42", "RANK": "3"}
CAPABILITIES = {"BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH", "CHECKPOINT_RESTORE", "SYS_RESOURCE"}


def lines_of(path):
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def one_file(directory, pattern):
    path, = directory.glob(pattern)
    return path


def demo(tmp_path, name, *options, env=None):
    """The demo program under an example's profile: the process, and the directory of its files."""
    logs = tmp_path / "logs"
    logs.mkdir(exist_ok=True)
    done = tap.run_plain("-c", EXAMPLES / "profiles" / f"{name}.yaml", *options, "--", DEMO,
                         env={"CUDATAP_LOGS": str(logs), "CUDATAP_SLOW": "0", **JOB, **(env or {})})
    assert done.returncode == 0, done.stderr
    return done, logs


def calls(events):
    return [event for event in events if event["type"] == "call"]


def statuses(events):
    return collections.Counter(call["status"] for call in calls(events))


# ---- profiles ----

def profiles_of(path):
    return ["", *yaml.safe_load(path.read_text()).get("profiles", {})]


@pytest.mark.parametrize("path, profile", [(path, profile) for path in PROFILES for profile in profiles_of(path)],
                         ids=lambda value: getattr(value, "stem", value))
def test_check(path, profile):
    done = tap.run_plain("check", "-c", path, "--profile", profile)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_laptop(tmp_path):
    done, logs = demo(tmp_path, "laptop")
    # the demo's own output goes to stderr
    screen, everything = [json.loads(line) for line in done.stdout.splitlines()], lines_of(logs / "cuda.jsonl")
    for event in everything:
        tap.check_line(event)
    assert len(screen) == len(everything)
    # cudaSetDevice is of the family `device`
    assert len(calls(everything)) == CALLS + 1 and statuses(everything)["error"] == 1
    fixed = {"type", "run", "seq", "ts"}
    for short, whole in zip(calls(screen), calls(everything), strict=True):
        wanted = fixed | {"func", "kernel", "bytes", "direction", "duration_ns", "status", "error_message"}
        assert short == {key: value for key, value in whole.items() if key in wanted}
    assert any("args" in call for call in calls(everything))
    assert (logs / "cuda.jsonl").stat().st_mode & 0o777 == 0o600


def test_laptop_errors(tmp_path):
    done, logs = demo(tmp_path, "laptop", "--profile", "errors")
    call, = calls(json.loads(line) for line in done.stdout.splitlines())
    assert call["func"] == "cudaMalloc" and call["error"] == "cudaErrorMemoryAllocation" and call["args"]["size"] == 64 << 30
    assert not list(logs.iterdir())


def test_laptop_deep(tmp_path):
    _, logs = demo(tmp_path, "laptop", "--profile", "deep")
    inner = [call for call in calls(lines_of(logs / "cuda.jsonl")) if call["depth"]]
    assert {"cuMemAlloc", "cuLaunchKernel"} <= {call["func"] for call in inner}


def test_training(tmp_path):
    _, logs = demo(tmp_path, "training")
    slow, errors = lines_of(one_file(logs, "slow-*.jsonl")), lines_of(logs / "errors.jsonl")
    families = {"memory", "transfer", "launch", "sync", "graph", "module", "pool"}
    assert {call["family"] for call in calls(slow)} <= families and statuses(slow)["ok"] > 10
    assert not any("args" in call for call in calls(slow))
    call, = calls(errors)
    assert call["error"] == "cudaErrorMemoryAllocation" and call["args"]["size"] == 64 << 30
    for call in (*calls(slow), *calls(errors)):
        assert call["environ"] == JOB and call["role"] == "training"


def test_training_leaves_out_what_is_quick(tmp_path):
    _, logs = demo(tmp_path, "training", env={"CUDATAP_SLOW": "1h"})
    assert not calls(lines_of(one_file(logs, "slow-*.jsonl"))) and len(calls(lines_of(logs / "errors.jsonl"))) == 1


def test_inference(tmp_path_factory):
    place = tmp_path_factory.mktemp("s")  # a short name: a unix socket's path has at most 107 bytes
    try:
        receiver = rsyslog.Rsyslog(place / "r")
    except daemon.Unavailable as why:
        pytest.skip(str(why))
    with receiver:
        _, logs = demo(place, "inference", env={"CUDATAP_SYSLOG": f"unix://{receiver.unix}", "MODEL_NAME": "llm"})
        daemon.wait_until(lambda: any(m["event"].get("type") == "stop" for m in receiver.messages()), "the last message")
        alarms = [m for m in receiver.messages() if m["event"].get("type") == "call"]
    outliers, memory = lines_of(logs / "outliers.jsonl"), lines_of(logs / "memory.jsonl")
    assert len(calls(outliers)) > 10 and all(call["environ"] == {"MODEL_NAME": "llm"} for call in calls(outliers))
    assert [(call["func"], call["status"]) for call in calls(memory)] == [("cudaMalloc", "ok")] * 3 + [("cudaMalloc", "error")]
    assert all("api" not in call and call["bytes"] >= 1 << 20 for call in calls(memory))
    alarm, = alarms
    assert alarm["event"]["error"] == "cudaErrorMemoryAllocation" and alarm["pri"] == 20 * 8 + 3  # local4.err


@pytest.mark.parametrize("sample, launches", [("1", 6), ("1000000", 0)])
def test_cluster(tmp_path, sample, launches):
    _, logs = demo(tmp_path, "cluster", env={"NODE_NAME": "gpu07", "CLUSTER": "a", "CUDATAP_SAMPLE": sample})
    documents = lines_of(one_file(logs, "ecs-*.jsonl"))
    found = [document for document in documents if document["event"]["dataset"] == "cudatap.call"]
    assert len(found) > 5 and {document["event"]["outcome"] for document in found} == {"success", "failure"}
    assert sum(document["cuda"]["family"] == "launch" for document in found) == launches
    for document in found:
        assert document["host"]["name"] == "gpu07" and document["labels"] == {"cluster": "a"}
        assert document["user"]["id"] == str(os.geteuid())
        assert "executable" not in document["process"] and not {"args", "out", "kernel", "ptr"} & set(document["cuda"])
    assert "vector_add" not in one_file(logs, "ecs-*.jsonl").read_text()


def test_audit(tmp_path):
    _, logs = demo(tmp_path, "audit")
    path = one_file(logs, "audit-*.jsonl")
    events = lines_of(path)
    for event in events:
        tap.check_line(event)
    assert path.stat().st_mode & 0o777 == 0o600
    call, = calls(events)
    assert call["status"] == "error" and call["environ"] == JOB and call["exe"] == DEMO and "cgroup" in call
    assert call["args"]["size"] == 64 << 30
    # the others were not even recorded
    stop = events[-1]["calls"]
    assert stop["emitted"] == 1 and stop["filtered"] > CALLS


# ---- pages ----

def samples():
    """Each page's blocks of configuration, fenced or indented. docs/profiles.md has parts of files and wrong ones."""
    for page in sorted(tap.ROOT.glob("docs/*.md")) + [tap.ROOT / "README.md"]:
        text = page.read_text()
        fenced = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        indented = (textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n)+", text, re.MULTILINE))
        known = r"(?:sinks|fields|filter|sample|families|processes|libraries|reload|ring|open_after):(?: |$)"
        if page.name != "profiles.md":
            yield page.stem, fenced + [block for block in indented if re.match(known, block, re.MULTILINE)]


@pytest.mark.parametrize("blocks", [pytest.param(blocks, id=name) for name, blocks in samples() if blocks])
def test_samples_of_pages(blocks):
    """What is shown can be pasted."""
    for block in blocks:
        done = subprocess.run([tap.CUDATAP, "check", "-c", "-"], input=block, capture_output=True, text=True)
        assert done.returncode == 0, block + done.stderr


# ---- systemd ----

def unit():
    return (EXAMPLES / "systemd/cudatap.service").read_text()


def settings(text):
    found = collections.defaultdict(list)
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[key] += value.split()
    return found


def test_unit_is_clean(tmp_path):
    """systemd-analyze has no word to say; and it holds the service for well guarded."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    path = tmp_path / "cudatap.service"
    text = unit().replace("/usr/local/bin/cudatap", str(tap.CUDATAP))
    path.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True)
    said = [line for line in (done.stdout + done.stderr).splitlines() if "cudatap" in line]
    assert not said and done.returncode == 0, done.stderr
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=40", path], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout[-600:]


def test_unit_reads_its_file_and_reloads():
    found = settings(unit())
    assert found["ExecReload"] == ["/bin/kill", "-HUP", "$MAINPID"] and found["RuntimeDirectory"] == ["cudatap"]
    assert found["Restart"] == ["on-failure"] and found["RestartPreventExitStatus"] == ["2"]
    given = {word.removeprefix("CAP_") for word in found["AmbientCapabilities"]}
    assert given == {word.removeprefix("CAP_") for word in found["CapabilityBoundingSet"]} == CAPABILITIES


def stripped(tmp_path):
    """The words that run a program as the service does: another user, the unit's capabilities and no others, no new
    privileges."""
    had = int(re.search(r"^CapBnd:\s+(\w+)", pathlib.Path("/proc/self/status").read_text(), re.MULTILINE)[1], 16)
    # a container may lack CAP_SYS_RESOURCE, which is for old kernels
    names = [name for name in settings(unit())["AmbientCapabilities"] if name != "CAP_SYS_RESOURCE" or had & 1 << 24]
    plus = ",".join("+" + name.removeprefix("CAP_").lower() for name in names)
    tmp_path.chmod(0o755)
    (tmp_path / "logs").mkdir()
    os.chown(tmp_path / "logs", 65534, 65534)
    return ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", f"-all,{plus}",
            "--ambient-caps", f"-all,{plus}", "--no-new-privs"]


def serve(tmp_path, *before):
    """cudatap as a service while another user's demo runs: its events, after a reload and its end."""
    config = tmp_path / "cudatap.yaml"
    log = tmp_path / "logs/cuda.jsonl"
    config.write_text(f"libraries: [{tap.FAKE}/libcudart.so.13]\nsinks: {{disk: {{type: file, path: {log}}}}}\n")
    manager = tap.Manager(tmp_path / "notify")
    with open(tmp_path / "err", "wb") as err:
        process = subprocess.Popen([*before, tap.CUDATAP, "-c", config], stdin=subprocess.DEVNULL, stderr=err,
                                   env={**os.environ, "NOTIFY_SOCKET": manager.name})
    try:
        assert manager.told() == "READY=1", (tmp_path / "err").read_text()
        for _ in range(2):
            subprocess.run([DEMO], check=True, stdout=subprocess.DEVNULL, env=tap.environment({"FAKE_CUDA_NESTED": "0"}))
            process.send_signal(1)
            time.sleep(0.05)
        assert process.poll() is None
        process.terminate()
        assert manager.told() == "STOPPING=1"
        assert process.wait(30) == 0, (tmp_path / "err").read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return lines_of(log)


def test_service_with_its_capabilities_alone(tmp_path):
    """Where systemd is not there to start it, setpriv gives it the same rights."""
    if not shutil.which("setpriv"):
        pytest.skip("no setpriv")
    events = serve(tmp_path, *stripped(tmp_path))
    assert len(calls(events)) == 2 * CALLS and statuses(events)["error"] == 2
    assert {call["exe"] for call in calls(events)} == {DEMO} and {call["uid"] for call in calls(events)} == {0}
    assert events[-1]["type"] == "stop" and (tmp_path / "logs/cuda.jsonl").stat().st_uid == 65534


def allowed_calls():
    """What the unit's SystemCallFilter lets through, by systemd's own sets."""
    allowed, open_sets = set(), list(settings(unit())["SystemCallFilter"])
    while open_sets:
        word = open_sets.pop()
        if not word.startswith("@"):
            allowed.add(word)
            continue
        listing = subprocess.run(["systemd-analyze", "syscall-filter", word], capture_output=True, text=True, check=True)
        open_sets += [line.strip() for line in listing.stdout.splitlines()[1:] if line.strip() and "#" not in line]
    return allowed


def test_unit_allows_the_system_calls_that_are_made(tmp_path):
    if not (shutil.which("systemd-analyze") and shutil.which("strace")):
        pytest.skip("no systemd-analyze, or no strace")
    (tmp_path / "logs").mkdir()
    serve(tmp_path, "strace", "-D", "-f", "-o", tmp_path / "trace", "-e", "signal=none")
    daemon.wait_until(lambda: "+++ exited with 0 +++" in (tmp_path / "trace").read_text().splitlines()[-1], "strace's end")
    made = set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)", (tmp_path / "trace").read_text(), re.MULTILINE))
    assert "bpf" in made and len(made) > 30
    assert not made - allowed_calls() - {"execve"}, made - allowed_calls()


# ---- logrotate ----

def test_logrotate(tmp_path):
    """The real logrotate, by the example, while cudatap writes: all is there."""
    if not shutil.which("logrotate"):
        pytest.skip("no logrotate")
    logs, config = tmp_path / "logs", tmp_path / "logrotate.conf"
    logs.mkdir()
    text = (EXAMPLES / "logrotate/cudatap").read_text()
    for old, new in (("/var/log/cudatap/", f"{logs}/"), ("su cudatap cudatap", "su root root"),
                     ("systemctl kill -s HUP cudatap.service", f"kill -HUP $(cat {tmp_path}/pid)")):
        assert old in text
        text = text.replace(old, new)
    config.write_text(text)
    path = tap.config(tmp_path, f"families: []\ninclude: [cudaMemset]\nsinks: {{disk: {{type: file, path: {logs}/cuda.jsonl}}}}\n")
    with tap.running(["-c", path, "--", tap.program("scenes"), "loop"], tmp_path, events=None,
                     env={"FAKE_CUDA_NESTED": "0"}) as running:
        (tmp_path / "pid").write_text(str(running.pid))
        for i in range(3):
            daemon.wait_until(lambda: (logs / "cuda.jsonl").exists() and '"call"' in (logs / "cuda.jsonl").read_text(),
                              f"calls before rotation {i}")
            done = subprocess.run(["logrotate", "-f", "-s", tmp_path / "state", config], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        daemon.wait_until(lambda: (logs / "cuda.jsonl").exists(), "the new file")
        child, = subprocess.run(["pgrep", "-P", str(running.pid), "scenes"], capture_output=True, text=True).stdout.split()
        os.kill(int(child), 9)
        running.process.wait(tap.TIMEOUT)
    text = b""
    for name in ("cuda.jsonl.3.gz", "cuda.jsonl.2.gz", "cuda.jsonl.1", "cuda.jsonl"):
        data = (logs / name).read_bytes()
        text += subprocess.run(["zcat", logs / name], capture_output=True, check=True).stdout if name.endswith("gz") else data
    numbers = [json.loads(line)["seq"] for line in text.splitlines()]
    assert numbers == list(range(1, len(numbers) + 1))


# ---- Kubernetes ----

def manifest():
    return yaml.safe_load((EXAMPLES / "kubernetes/daemonset.yaml").read_text())


@pytest.mark.parametrize("version", ["1.30", "1.34"])
def test_daemonset_by_the_schema(version):
    validate = pytest.importorskip("kubernetes_validate")
    validate.validate(manifest(), version, strict=True)
    wrong = manifest()
    wrong["spec"]["template"]["spec"]["hostPid"] = True
    with pytest.raises(Exception, match="hostPid"):
        validate.validate(wrong, version, strict=True)


def test_daemonset_is_the_service():
    """The same rights as the unit's; what it mounts is there; the profile it runs is in examples/profiles."""
    pod = manifest()["spec"]["template"]["spec"]
    container, = pod["containers"]
    security = container["securityContext"]
    assert pod["hostPID"] and not security["privileged"] and security["capabilities"]["drop"] == ["ALL"]
    assert set(security["capabilities"]["add"]) == CAPABILITIES
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    environment = {one["name"]: one for one in container["env"]}
    assert environment["NODE_NAME"]["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    profile = (EXAMPLES / "profiles/cluster.yaml").read_text()
    assert all("${" + name + ":-" in profile for name in environment)
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert environment["CUDATAP_LOGS"]["value"] in writable
    assert {"/var/log/" + name for name in settings(unit())["LogsDirectory"]} | {
        "/var/lib/" + name for name in settings(unit())["StateDirectory"]} == writable
    entry = re.search(r'ENTRYPOINT \["(.*)"\]', (EXAMPLES / "kubernetes/Dockerfile").read_text())
    assert entry[1] == "/cudatap" and "COPY cudatap /cudatap" in (EXAMPLES / "kubernetes/Dockerfile").read_text()


@pytest.mark.parametrize("path", [*PROFILES, EXAMPLES / "profiles.yaml", tap.ROOT / "docs/spool.md"], ids=lambda path: path.stem)
def test_spools_are_where_the_service_can_write(path):
    """Also the page's: who copies it starts the service with it."""
    for spool in re.findall(r"spool: \{path: ([^,}]*)", path.read_text()):
        assert spool.startswith("/var/lib/cudatap/spool/")


# ---- shippers that cannot be run here ----

@pytest.mark.parametrize("name, index", [("fluent-bit/fluent-bit.yaml", r"^      index: (.*)$"),
                                         ("vector/vector.yaml", r'index: "(.*)"')])
def test_documents_in_json_go_past_the_templates(name, index):
    """The templates are those of `ecs` and refuse every other field."""
    name = re.search(index, (EXAMPLES / name).read_text(), re.MULTILINE)[1]
    for template in EXAMPLES.glob("*/cudatap-template.json"):
        for pattern in json.loads(template.read_text())["index_patterns"]:
            assert not fnmatch.fnmatch(name, pattern)


@pytest.mark.parametrize("name", ["filebeat/filebeat.yml", "fluent-bit/fluent-bit.yaml", "vector/vector.yaml",
                                  "otelcol/otlp.yaml", "otelcol/json-filelog.yaml"])
def test_syntax_of_yaml(name):
    assert isinstance(yaml.safe_load((EXAMPLES / name).read_text()), dict)


def test_configurations_in_comments():
    """What the examples say that cudatap is to be given is right."""
    found = 0
    for path in sorted(EXAMPLES.glob("*/*")):
        if path.suffix in (".jq", ".md", ".json") or path.parent.name in ("profiles", "systemd", "kubernetes", "logrotate"):
            continue
        block = re.findall(r"^#\tsinks:\n(?:#\t  .*\n)+", path.read_text(), re.MULTILINE)
        for text in block:
            found += 1
            done = subprocess.run([tap.CUDATAP, "check", "-c", "-"], input=re.sub(r"^#\t", "", text, flags=re.MULTILINE),
                                  capture_output=True, text=True)
            assert done.returncode == 0, (path, done.stderr)
    assert found >= 8
