"""What clang says about the CUDA headers of one major: functions, types, enumerators, layouts."""

import json
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ANONYMOUS = re.compile(r"\((?:unnamed|anonymous)[^)]*\)")


@dataclass
class Function:
    name: str
    ret: str
    params: list  # of (name, C type)


@dataclass
class Record:
    key: str  # tag, typedef name of a nameless one, or "@id"
    union: bool
    fields: list = field(default_factory=list)  # of (name, C type or "@id")


@dataclass
class Headers:
    """The declarations of one major, by name."""

    major: int
    functions: dict = field(default_factory=dict)
    typedefs: dict = field(default_factory=dict)  # name -> C type
    records: dict = field(default_factory=dict)  # key -> Record
    enums: dict = field(default_factory=dict)  # tag or typedef name -> [enumerator name]
    values: dict = field(default_factory=dict)  # enumerator -> value
    layouts: dict = field(default_factory=dict)  # (C type, path) -> (offset, size)
    include: list = field(default_factory=list)


def clang_arguments(include):
    return ["clang", "-x", "c", "-std=gnu17", "-D__CUDA_API_VERSION_INTERNAL"] + [
        f"-I{d}" for d in [*include, HERE / "stubs"]
    ]


def run(arguments):
    done = subprocess.run(arguments, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"mktable: {' '.join(map(str, arguments))} failed:\n{done.stderr.decode()}")
    return done.stdout


def c_type(node):
    return node["type"]["qualType"]


def read_record(node, headers):
    """A struct or union, and those nested in it without a name."""
    record = Record(node.get("name", "@" + node["id"]), node.get("tagUsed") == "union")
    nested = None
    for inner in node.get("inner", []):
        if inner["kind"] == "RecordDecl":
            nested = read_record(inner, headers)
        elif inner["kind"] == "FieldDecl" and not inner.get("isBitfield"):
            spelled = c_type(inner)
            if ANONYMOUS.search(spelled):
                array = re.search(r"(\[\d+\])*$", spelled).group(0)
                spelled = nested.key + array
            record.fields.append((inner.get("name", ""), spelled))
    if node.get("completeDefinition"):
        headers.records[record.key] = record
    return record


def read_function(node):
    ret = node["type"]["qualType"].split("(", 1)[0].strip()
    params = [
        (p.get("name", ""), c_type(p)) for p in node.get("inner", []) if p["kind"] == "ParmVarDecl"
    ]
    return Function(node["name"], ret, params)


def read_typedef(node, headers):
    headers.typedefs[node["name"]] = c_type(node)
    for inner in node.get("inner", []):
        owned = inner.get("ownedTagDecl")
        if owned and not owned.get("name"):
            key = "@" + owned["id"]
            for known in (headers.records, headers.enums):
                if key in known:
                    known[node["name"]] = known.pop(key)
            if node["name"] in headers.records:
                headers.records[node["name"]].key = node["name"]
            headers.typedefs.pop(node["name"])


def read_headers(major, include):
    """Parse all headers of a major found in the directories `include`."""
    headers = Headers(major, include=include)
    tree = json.loads(
        run([*clang_arguments(include), "-fsyntax-only", "-Xclang", "-ast-dump=json", HERE / "all.h"])
    )
    for node in tree["inner"]:
        kind = node["kind"]
        if kind == "FunctionDecl" and node.get("storageClass") != "static":
            headers.functions.setdefault(node["name"], read_function(node))
        elif kind == "TypedefDecl":
            read_typedef(node, headers)
        elif kind == "RecordDecl":
            read_record(node, headers)
        elif kind == "EnumDecl":
            headers.enums[node.get("name", "@" + node["id"])] = [
                e["name"] for e in node.get("inner", []) if e["kind"] == "EnumConstantDecl"
            ]
    return headers


def evaluate(headers, expressions):
    """Let clang compute constant expressions; a dict expression -> int."""
    expressions = list(dict.fromkeys(expressions))
    source = f'#include "{HERE / "all.h"}"\n#include <stddef.h>\nlong cudatap_values[] = {{\n'
    source += "".join(f"(long)({e}),\n" for e in expressions) + "};\n"
    with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
        file.write(source)
        file.flush()
        text = run([*clang_arguments(headers.include), "-S", "-emit-llvm", "-o", "-", file.name]).decode()
    line = next(t for t in text.splitlines() if t.startswith("@cudatap_values"))
    if "zeroinitializer" in line:
        return dict.fromkeys(expressions, 0)
    numbers = [int(n) for n in re.findall(r"i64 (-?\d+)", line.split("[", 2)[2])]
    assert len(numbers) == len(expressions), (len(numbers), len(expressions))
    return dict(zip(expressions, numbers))


def read_values(headers):
    """Values of every enumerator."""
    names = [n for enum in headers.enums.values() for n in enum]
    found = evaluate(headers, names)
    headers.values = {n: found[n] for n in names}
