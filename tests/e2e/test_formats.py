"""The formats with real receivers: lines of a traced program, and of every function of the API table, indexed by an
OpenSearch under the shipped template, read by an OpenTelemetry Collector, and tailed by its filelog receiver. What
arrives is held against the lines in the format `json` of the same run."""

import collections
import datetime
import json
import os
import pathlib
import subprocess
import sys

import pytest
import tap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from receivers import daemon, opensearch, otelcol  # noqa: E402

EXAMPLES = tap.ROOT / "examples"
ROWS = tap.BUILD / "tests/test_encode_formats"


def nanoseconds(ts):
    """Unix time of RFC 3339 text with any number of digits."""
    seconds, _, fraction = ts.removesuffix("Z").partition(".")
    moment = datetime.datetime.fromisoformat(seconds).replace(tzinfo=datetime.timezone.utc)
    return int(moment.timestamp()) * 10**9 + int(fraction.ljust(9, "0"))


def lines_of(path):
    """Not splitlines(): that splits at U+2028 and its like, too."""
    return path.read_text().split("\n")[:-1] if path.exists() else []


def available(make, *arguments):
    try:
        return make(*arguments)
    except daemon.Unavailable as why:
        pytest.skip(str(why))


class Run:
    """The demo program, with calls inside calls, in all formats at once."""

    def __init__(self, directory):
        self.paths = {name: directory / f"{name}.jsonl" for name in ("ecs", "otlp")}
        sinks = "".join(f"  {name}: {{type: file, path: {path}, format: {name}}}\n" for name, path in self.paths.items())
        path = tap.config(directory, f"families: all\nnested: true\nfields: {{static: {{cluster: a, job.id: 7}}}}\n"
                                     f"sinks:\n  json: {{type: file, path: {directory}/json.jsonl}}\n{sinks}")
        with tap.running(["-c", path, "--", str(tap.FAKE / "demo")], directory, events=None) as running:
            running.events_path = directory / "json.jsonl"
            running.sink = "file"
            # the schema is strict: constant fields are not in it
            running.text = lambda: (directory / "json.jsonl").read_text().replace(',"cluster":"a","job.id":"7"', "")
            result = running.finish()
        assert result.code == 0, result.stderr
        result.assert_clean()
        self.events, self.calls = result.events, result.calls
        self.ecs, self.otlp = map(lines_of, self.paths.values())
        assert len(self.ecs) == len(self.otlp) == len(self.events) > 30

    def where(self, **wanted):
        return [call for call in self.calls if all(call.get(key) == value for key, value in wanted.items())]


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    return Run(tmp_path_factory.mktemp("formats"))


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Lines of random calls of every function: (ecs, otlp)."""
    if not ROWS.exists():
        pytest.skip(f"no {ROWS}")
    directory = tmp_path_factory.mktemp("rows")
    paths = directory / "ecs.jsonl", directory / "otlp.jsonl"
    subprocess.run([ROWS], check=True, cwd=tap.ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env={**os.environ, "CUDATAP_ECS_LINES": str(paths[0]), "CUDATAP_OTLP_LINES": str(paths[1])})
    return [lines_of(path) for path in paths]


# ---- fields ----

def test_fields_of_sinks(tmp_path):
    """Each sink has its own choice; what is redacted is nowhere."""
    sinks = {"few": "{only: [func, bytes, status], rename: {ts: '@timestamp', func: name}}",
             "most": "{drop: [args, out, comm]}", "all": "{}", "none": "{args: false, redact: [size]}"}
    text = "".join(f"  {name}: {{type: file, path: {tmp_path}/{name}.jsonl, fields: {fields}}}\n"
                   for name, fields in sinks.items())
    path = tap.config(tmp_path, f"fields: {{redact: [devPtr]}}\nsinks:\n{text}")
    done = tap.run_plain("-c", path, "--", tap.FAKE / "demo")
    assert done.returncode == 0, done.stderr
    events = {name: [json.loads(line) for line in lines_of(tmp_path / f"{name}.jsonl")] for name in sinks}
    assert len({len(one) for one in events.values()}) == 1
    calls = {name: [event for event in one if event["type"] == "call"] for name, one in events.items()}
    for few, most, full, none in zip(*calls.values(), strict=True):
        assert few == {"type": "call", "run": full["run"], "seq": full["seq"], "@timestamp": full["ts"],
                       "name": full["func"], **{key: full[key] for key in ("status", "bytes") if key in full}}
        assert most == {key: value for key, value in full.items() if key not in ("args", "out", "comm")}
        sized = "size" in full.get("args", {}) and "bytes" in full
        assert none == {key: value for key, value in full.items()
                        if key not in ("args", "out") and not (sized and key == "bytes")}
        if full["func"] in ("cudaMalloc", "cudaFree"):
            assert full["args"]["devPtr"] == "redacted" and "ptr" not in full
    others = [event for event in events["few"] if event["type"] != "call"]
    assert [{**event, "ts": event["@timestamp"]} for event in others] == \
        [{**event, "@timestamp": event["ts"]} for event in events["all"] if event["type"] != "call"]


# ---- ecs: OpenSearch ----

@pytest.fixture(scope="module")
def index(tmp_path_factory, traced):
    node = available(opensearch.OpenSearch, tmp_path_factory.mktemp("opensearch"))
    with node:
        node.call("PUT", "/_index_template/cudatap",
                  json.loads((EXAMPLES / "opensearch/cudatap-template.json").read_text()))
        assert node.index("cudatap-demo", traced.ecs) == []
        yield node


def found(index, query, **more):
    """Sequence numbers of the documents that a query finds."""
    hits = index.search("cudatap-demo", query, **more)["hits"]
    assert hits["total"]["value"] == len(hits["hits"])
    return [hit["_source"]["event"]["sequence"] for hit in hits["hits"]]


def sequence(events):
    return sorted(event["seq"] for event in events)


def call_documents(*conditions):
    return {"bool": {"filter": [{"term": {"event.dataset": "cudatap.call"}}, *conditions]}}


def test_documents_are_the_events(index, traced):
    """As many, and in the order of time they are in the order of `ts`, to the nanosecond."""
    assert sorted(found(index, {"match_all": {}})) == sequence(traced.events)
    hits = index.search("cudatap-demo", call_documents(), sort=[{"@timestamp": "asc"}, {"event.sequence": "asc"}],
                        docvalue_fields=[{"field": "@timestamp", "format": "strict_date_optional_time_nanos"}])
    got = [(nanoseconds(hit["fields"]["@timestamp"][0]), hit["_source"]["event"]["sequence"])
           for hit in hits["hits"]["hits"]]
    assert got == sorted((nanoseconds(call["ts"]), call["seq"]) for call in traced.calls)


def test_find_failures(index, traced):
    failed = traced.where(status="error")
    assert failed and sorted(found(index, {"term": {"event.outcome": "failure"}})) == sequence(failed)


def test_find_error_by_name_and_text(index, traced):
    failed = traced.where(error="cudaErrorMemoryAllocation")
    assert failed and sorted(found(index, {"term": {"error.type": "cudaErrorMemoryAllocation"}})) == sequence(failed)
    assert sorted(found(index, {"bool": {"filter": [{"match": {"error.message": "memory"}},
                                                     {"term": {"cuda.api": "runtime"}}]}})) == sequence(failed)


def test_find_slowest(index, traced):
    hits = index.search("cudatap-demo", call_documents(), sort=[{"event.duration": "desc"}])["hits"]["hits"]
    slowest = max(call["duration_ns"] for call in traced.calls)
    assert hits[0]["_source"]["event"]["duration"] == slowest
    slow = [call for call in traced.calls if call["duration_ns"] >= 5000]
    assert sorted(found(index, call_documents({"range": {"event.duration": {"gte": 5000}}}))) == sequence(slow)


def test_sum_of_allocated_bytes(index, traced):
    answer = index.search("cudatap-demo", call_documents({"term": {"event.action": "cudaMalloc"}},
                                                         {"term": {"event.outcome": "success"}}),
                          aggs={"bytes": {"sum": {"field": "cuda.bytes"}}})
    assert answer["aggregations"]["bytes"]["value"] == sum(call["bytes"] for call in
                                                           traced.where(func="cudaMalloc", status="ok")) > 0


def test_calls_by_function_and_family(index, traced):
    answer = index.search("cudatap-demo", call_documents(), aggs={
        "function": {"terms": {"field": "event.action", "size": 1000}},
        "family": {"terms": {"field": "cuda.family", "size": 100}}})
    for name, key in (("function", "func"), ("family", "family")):
        counts = {one["key"]: one["doc_count"] for one in answer["aggregations"][name]["buckets"]}
        assert counts == collections.Counter(call[key] for call in traced.calls)


def test_find_launches_by_kernel_and_grid(index, traced):
    launches = [call for call in traced.calls if "kernel" in call]
    name = launches[0]["kernel"]
    wanted = [call for call in launches if call["kernel"] == name]
    assert sorted(found(index, {"term": {"cuda.kernel": name}})) == sequence(wanted)
    large = [call for call in traced.calls if call.get("grid", [0])[0] > 1000]
    assert large and sorted(found(index, {"range": {"cuda.grid.x": {"gt": 1000}}})) == sequence(large)
    assert sorted(found(index, {"wildcard": {"cuda.kernel": name[:3] + "*"}})) == \
        sequence(call for call in launches if call["kernel"].startswith(name[:3]))


def test_find_by_argument(index, traced):
    """`cuda.args` is flattened: its leaves are found as strings."""
    to_device = [call for call in traced.calls if call.get("args", {}).get("kind") == "cudaMemcpyHostToDevice"]
    assert to_device and sorted(found(index, {"term": {"cuda.args.kind": "cudaMemcpyHostToDevice"}})) == \
        sequence(to_device)
    size = traced.where(func="cudaMalloc", status="ok")[0]["args"]["size"]
    assert sorted(found(index, {"term": {"cuda.args.size": str(size)}})) == \
        sequence(call for call in traced.calls if call.get("args", {}).get("size") == size)


def test_find_what_became_of_an_allocation(index, traced):
    pointer = traced.where(func="cudaMalloc", status="ok")[0]["out"]["devPtr"]
    wanted = [call for call in traced.calls if pointer in (call.get("ptr"), call.get("src_ptr"))]
    assert {"cudaMalloc", "cudaFree"} <= {call["func"] for call in wanted}
    assert sorted(found(index, {"bool": {"should": [{"term": {"cuda.ptr": pointer}},
                                                     {"term": {"cuda.src_ptr": pointer}}]}})) == sequence(wanted)
    assert found(index, {"term": {"cuda.out.devPtr": pointer}})


def test_find_by_process(index, traced):
    call = traced.calls[0]
    assert sorted(found(index, call_documents(
        {"term": {"process.name": call["comm"]}}, {"term": {"process.pid": call["pid"]}},
        {"term": {"host.name": call["host"]}}, {"term": {"user.id": str(os.geteuid())}},
        {"term": {"labels.cluster": "a"}}, {"term": {"labels.job_id": "7"}}))) == sequence(traced.calls)


def test_find_inner_calls(index, traced):
    inner = [call for call in traced.calls if call.get("parent") == "cudaMalloc"]
    assert inner and sorted(found(index, {"term": {"cuda.parent": "cudaMalloc"}})) == sequence(inner)


def test_find_the_end_of_the_run(index, traced):
    stop = traced.events[-1]
    hits = index.search("cudatap-demo", {"term": {"event.dataset": "cudatap.stop"}})["hits"]["hits"]
    document, = (hit["_source"] for hit in hits)
    assert document["process"]["exit_code"] == stop["exit_code"] == 0
    assert document["cuda"]["details"]["calls"]["emitted"] == str(stop["calls"]["emitted"])
    assert found(index, {"term": {"cuda.details.calls.emitted": str(stop["calls"]["emitted"])}}) == [stop["seq"]]
    assert document["event"]["id"] == f"{stop['run']}-{stop['seq']}"


def test_mapping_is_closed(index):
    """So that the tests above and below say something: a further key is refused, a wrong type too."""
    before = index.search("cudatap-demo", {"match_all": {}})["hits"]["total"]["value"]
    head = '{"@timestamp":"2026-11-29T16:21:03.123456789Z",'
    errors = index.index("cudatap-demo", [head + '"cuda":{"further":1}}', head + '"further":1}',
                                          head + '"cuda":{"bytes":"many"}}', head + '"event":{"further":"x"}}'])
    assert len(errors) == 4
    assert index.search("cudatap-demo", {"match_all": {}})["hits"]["total"]["value"] == before


def test_every_function_is_indexed(index, rows):
    """Random calls of every row of the API table, with hostile names, the largest numbers, every status."""
    ecs, _ = rows
    for start in range(0, len(ecs), 1000):
        part = ecs[start:start + 1000]
        assert index.index("cudatap-rows", part) == []
    assert index.call("GET", "/cudatap-rows/_count")["count"] == len(ecs) > 3000
    mappings = index.call("GET", "/cudatap-rows/_mapping")["cudatap-rows"]["mappings"]
    labels = mappings["properties"].pop("labels")["properties"]
    assert set(labels) == {"env", "job_id"}
    template = json.loads((EXAMPLES / "opensearch/cudatap-template.json").read_text())["template"]["mappings"]
    template["properties"].pop("labels")
    assert mappings["properties"] == template["properties"], "documents have changed the mapping"


def test_truncated_documents(index, traced):
    """As a sink cuts a line that is too long for it."""
    line = next(line for line in traced.ecs if '"args":' in line)
    cut = line[:line.index(',"args":')] + '},"truncated":true}'
    assert index.index("cudatap-cut", [cut]) == []


def test_elasticsearch_template():
    """No Elasticsearch runs here: its template is OpenSearch's, with the names that its types have there."""
    text = (EXAMPLES / "elasticsearch/cudatap-template.json").read_text()
    assert '"type": "flattened"' in text and '"type": "match_only_text"' in text
    assert json.loads(text.replace('"flattened"', '"flat_object"').replace('"match_only_text"', '"text"')) == \
        json.loads((EXAMPLES / "opensearch/cudatap-template.json").read_text())


# ---- otlp: the Collector ----

def example(name, directory, **replaced):
    """An example's text with the places of this test."""
    text = (EXAMPLES / "otelcol" / name).read_text()
    for old, new in {"/var/lib/otelcol": "{directory}", "127.0.0.1:4318": "127.0.0.1:{http}", **replaced}.items():
        assert old in text or old == "127.0.0.1:4318"
        text = text.replace(old, new)
    return text.replace("service:\n", "service:\n  telemetry: {metrics: {level: none}}\n")


def signal_of(line):
    return "logs" if line.startswith('{"resourceLogs"') else "traces"


def without_empty(value):
    """What is absent and what is empty are the same in OTLP."""
    if isinstance(value, (list, tuple)):
        return [without_empty(one) for one in value]
    if isinstance(value, dict):
        return {key: without_empty(one) for key, one in value.items() if one not in ([], {}) or key.endswith("Value")}
    return value


def records(lines):
    """Spans and log records with what stands around them, by kind, in order."""
    found = collections.defaultdict(list)
    for line in lines:
        for outer, middle, inner in (("resourceSpans", "scopeSpans", "spans"), ("resourceLogs", "scopeLogs", "logRecords")):
            # a double may be written without point and exponent; 64-bit integers are strings
            for one in json.loads(line, parse_int=float).get(outer, []):
                for scope in one[middle]:
                    for record in scope[inner]:
                        found[inner].append(without_empty((one["resource"], scope["scope"], record)))
    return found


class Collected:
    def __init__(self, directory, lines):
        collector = available(otelcol.Collector, directory, example("otlp.yaml", directory))
        with collector:
            for line in lines:
                status, answer = collector.post(signal_of(line), line)
                assert status == 200 and answer == {"partialSuccess": {}}, (status, answer, line[:2000])
            assert collector.post("traces", lines[-1].replace('"resource', '"resource" '))[0] == 400
        self.records = records(lines_of(directory / "traces.jsonl") + lines_of(directory / "logs.jsonl"))


@pytest.fixture(scope="module")
def collected(tmp_path_factory, traced):
    return Collected(tmp_path_factory.mktemp("otelcol"), traced.otlp)


def plain(value):
    """AnyValue as Python has it."""
    (kind, inner), = value.items()
    if kind == "intValue":
        return int(inner)
    if kind == "arrayValue":
        return [plain(one) for one in inner.get("values", [])]
    if kind == "kvlistValue":
        return {one["key"]: plain(one["value"]) for one in inner.get("values", [])}
    return inner


def attributes(record):
    pairs = [(one["key"], plain(one["value"])) for one in record["attributes"]]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def test_collector_reads_what_was_written(collected, traced):
    """Every record, with its ids, times, attributes and status, as it was sent."""
    sent = records(traced.otlp)
    assert len(collected.records["spans"]) == len(traced.calls)
    assert len(collected.records["logRecords"]) == len(traced.events) - len(traced.calls)
    for inner in ("spans", "logRecords"):
        for (resource, scope, record), (sent_resource, sent_scope, sent_record) in zip(collected.records[inner], sent[inner],
                                                                                       strict=True):
            assert (resource, scope, record) == (sent_resource, sent_scope, sent_record)


def test_spans_are_the_calls(collected, traced):
    spans = {attributes(span)["cuda.seq"]: (attributes(resource), span) for resource, _, span in collected.records["spans"]}
    for call in traced.calls:
        resource, span = spans[call["seq"]]
        found = attributes(span)
        assert span["name"] == call["func"] and span["kind"] == 1
        assert int(span["startTimeUnixNano"]) == nanoseconds(call["ts"])
        assert int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) == call["duration_ns"]
        assert resource == {"service.name": "cudatap", "service.instance.id": call["run"], "host.name": call["host"],
                            "cluster": "a", "job.id": "7", "process.pid": call["pid"],
                            "process.executable.name": call["comm"], "process.user.id": os.geteuid(),
                            "process.executable.path": call["exe"]}
        assert found["thread.id"] == call["tid"]
        for key in ("api", "family", "symbol", "depth", "parent", "ret", "status", "bytes", "direction", "device",
                    "stream", "kernel", "kernel_handle", "grid", "block", "shared_bytes", "ptr", "src_ptr"):
            assert found.get(f"cuda.{key}") == call.get(key), key
        for name in ("args", "out"):
            prefix = f"cuda.{name}."
            assert {key.removeprefix(prefix): value for key, value in found.items() if key.startswith(prefix)} == \
                call.get(name, {})
        failed = call["status"] == "error"
        assert span.get("status") == ({"code": 2, "message": call["error_message"]} if failed else None)
        assert found.get("error.type") == (call["error"] if failed else None)


def test_inner_calls_are_children(collected, traced):
    spans = {attributes(span)["cuda.seq"]: span for _, _, span in collected.records["spans"]}
    by_id = {span["spanId"]: span for span in spans.values()}
    assert len(by_id) == len(spans), "ids of spans are not unique"
    children = [call for call in traced.calls if call["depth"]]
    assert children
    for call in traced.calls:
        span = spans[call["seq"]]
        if not call["depth"]:
            assert "parentSpanId" not in span
            continue
        parent = by_id[span["parentSpanId"]]
        assert parent["name"] == call["parent"]
        assert int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
        assert int(parent["endTimeUnixNano"]) >= int(span["endTimeUnixNano"])
        if call["depth"] == 1:
            assert parent["traceId"] == span["traceId"]


def test_other_events_are_log_records(collected, traced):
    logs = {attributes(record)["cuda.seq"]: record for _, _, record in collected.records["logRecords"]}
    for event in traced.events:
        if event["type"] == "call":
            continue
        record, found = logs[event["seq"]], attributes(logs[event["seq"]])
        assert plain(record["body"]) == event["type"]
        assert int(record["timeUnixNano"]) == nanoseconds(event["ts"])
        for key in set(event) - {"type", "run", "seq", "ts", "host"}:
            assert found["process.pid" if key == "pid" else f"cuda.{key}"] == event[key]


def test_every_function_is_read(rows, tmp_path):
    _, otlp = rows
    lines = otlp[::3]  # one of each function
    read = Collected(tmp_path, lines)
    assert len(read.records["spans"]) == len(lines) > 1000
    for got, sent in zip(read.records["spans"], records(lines)["spans"], strict=True):
        assert got == sent


# ---- json: the Collector's filelog receiver ----

def filelog(directory, path):
    text = example("json-filelog.yaml", directory, **{"/var/log/cudatap/cuda.jsonl": str(path)})
    return available(otelcol.Collector, directory, text)


def log_records(directory):
    return records(lines_of(directory / "cudatap.jsonl"))["logRecords"]


def test_filelog_reads_what_was_written(traced, tmp_path):
    """Numbers stay integers, time and severity come from the event."""
    path = tmp_path / "cuda.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in traced.events))
    with filelog(tmp_path / "otelcol", path):
        daemon.wait_until(lambda: len(log_records(tmp_path / "otelcol")) >= len(traced.events), "the log records", 30)
    got = log_records(tmp_path / "otelcol")
    assert len(got) == len(traced.events)
    for event, (resource, _, record) in zip(traced.events, got, strict=True):
        found = attributes(record)
        found.pop("log.file.name")
        assert {**found, **{key: value for key, value in event.items() if key == "host"}} == event
        assert attributes(resource) == {"host.name": event["host"]}
        assert int(record["timeUnixNano"]) == nanoseconds(event["ts"])
        if event["type"] == "call":
            assert record["severityNumber"] == (17 if event["status"] == "error" else 9)
