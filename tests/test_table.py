"""The API table against what it was made from: real libraries, real headers, two compilers' ABIs.

The committed table is read through a small C program, so this sees what cudatap sees. The headers
are read by gcc here and by clang when the table is made.
"""

import ctypes
import functools
import json
import re
import shutil
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXPORTS = ROOT / "tests/data/exports"
RUNTIME, DRIVER = 0, 1
MAJORS = (11, 12, 13)
LIBRARIES = {11: "libcudart.so.11.0", 12: "libcudart.so.12", 13: "libcudart.so.13"}
LISTS = {
    "libcudart-11.8": (RUNTIME, 11),
    "libcudart-12.9": (RUNTIME, 12),
    "libcudart-13.0": (RUNTIME, 13),
    "libcudart-13.5": (RUNTIME, 13),
    "libcuda-580": (DRIVER, 13),
}


def run(arguments, **options):
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{arguments}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def cuda():
    """Directory with the headers and libraries of every major."""
    home = run(["sh", "-c", 'echo "${CUDATAP_CACHE:-$HOME/.cache/cudatap}"']).strip()
    done = subprocess.run([ROOT / "tools/fetch-headers.sh", home], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"CUDA wheels cannot be had: {done.stderr.strip().splitlines()[-1:]}")
    return Path(home)


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """The committed table."""
    program = tmp_path_factory.mktemp("table") / "table_dump"
    sources = sorted((ROOT / "streamer/table").glob("*.c"))
    run(["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-o", program, ROOT / "tests/table_dump.c", *sources])
    return json.loads(run([program]))


def bit(major):
    return 1 << (major - 11)


def newest(row):
    return max(m for m in MAJORS if row["majors"] & bit(m))


def exports_of(library):
    lines = run(["nm", "-D", "--defined-only", library]).splitlines()
    names = (line.split()[-1].split("@")[0] for line in lines if line.split()[-2] in "TW")
    return {n for n in names if re.match(r"_*cu", n)}


def reasons():
    """Pattern -> reason of exports without a row."""
    lines = (ROOT / "tools/table/no-row.txt").read_text().splitlines()
    return dict(line.split("\t", 1) for line in lines if line.strip() and not line.startswith("#"))


# ---- exports ----


def without_row(table, api, names):
    have = {r["symbol"] for r in table["rows"] if r["api"] == api}
    return sorted(names - have)


@pytest.mark.parametrize("name", LISTS)
def test_exports_have_rows_or_reasons(table, name):
    api, _ = LISTS[name]
    missing = without_row(table, api, set((EXPORTS / f"{name}.txt").read_text().split()))
    print(f"{name}: without a row: {' '.join(missing) or 'none'}")
    unexplained = [n for n in missing if not any(fnmatchcase(n, p) for p in reasons())]
    assert unexplained == []


def test_reasons_are_needed(table):
    missing = set()
    for name, (api, _) in LISTS.items():
        missing.update(without_row(table, api, set((EXPORTS / f"{name}.txt").read_text().split())))
    for pattern, reason in reasons().items():
        assert len(reason.strip()) > 10, pattern
        assert any(fnmatchcase(n, pattern) for n in missing), f"{pattern}: all of these have rows"


@pytest.mark.parametrize("name,major", [("libcudart-11.8", 11), ("libcudart-12.9", 12), ("libcudart-13.5", 13)])
def test_export_lists_are_the_libraries(cuda, name, major):
    library = cuda / str(major) / "lib" / LIBRARIES[major]
    assert exports_of(library) == set((EXPORTS / f"{name}.txt").read_text().split())


def test_majors_of_runtime_rows(table):
    """A runtime row's majors are those whose library exports the symbol; shapes do not overlap."""
    exported = {}
    for name, (api, major) in LISTS.items():
        if api == RUNTIME:
            exported.setdefault(major, set()).update((EXPORTS / f"{name}.txt").read_text().split())
    seen = {}
    for row in table["rows"]:
        if row["api"] == RUNTIME:
            assert not seen.get(row["symbol"], 0) & row["majors"], row["symbol"]
            seen[row["symbol"]] = seen.get(row["symbol"], 0) | row["majors"]
    for symbol, majors in seen.items():
        assert majors == sum(bit(m) for m in MAJORS if symbol in exported[m]), symbol


def test_rows_are_sorted_and_few(table):
    keys = [(r["api"], r["symbol"].encode()) for r in table["rows"]]
    assert keys == sorted(keys)
    assert 1200 < len(keys) < 2048


# ---- headers, read by gcc ----


def gcc(cuda, major, source, tmp_path, *options):
    path = tmp_path / f"check{major}.cc"
    path.write_text(f'#include "{ROOT}/tools/table/all.h"\n{source}')
    arguments = ["g++", "-std=c++20", "-fmax-errors=30", "-w", "-D__CUDA_API_VERSION_INTERNAL"]
    arguments += [f"-I{cuda}/{major}/include", f"-I{ROOT}/tools/table/stubs", *options, path]
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


def compile_with_headers(cuda, major, source, tmp_path):
    done = gcc(cuda, major, source, tmp_path, "-fsyntax-only")
    assert done.returncode == 0, done.stderr[-6000:]


@pytest.fixture(scope="session")
def preprocessed(cuda, tmp_path_factory):
    """The text of all headers of each major."""
    directory = tmp_path_factory.mktemp("preprocessed")
    texts = {}
    for major in MAJORS:
        done = gcc(cuda, major, "", directory, "-E", "-P")
        assert done.returncode == 0, done.stderr
        texts[major] = done.stdout
    return texts


@functools.cache
def union_paths():
    """(record, printed member) -> the member's path, where a union's field has a name."""
    paths = {}
    for line in (ROOT / "tools/table/unions.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            record, field, *words = line.split()
            members = words if len(words) == 1 else {word.split("=")[1] for word in words[2:]}
            if field != "-":
                paths.update({(record, member): f"{field}.{member}" for member in members})
    return paths


# FIELD(type, path, offset, size, 0 or 1): a field is there, and where the table says; 0: it may be
# missing, as it came with a newer major in place of reserved bytes.
FIELD = """
#define FIELD(type, path, offset, size, required)                                                       \\
	static_assert([]<class T>(T *) {                                                                \\
		if constexpr (requires(T value) { value.path; })                                        \\
			return __builtin_offsetof(T, path) == offset && sizeof(((T *)0)->path) == size; \\
		else                                                                                    \\
			return !required;                                                               \\
	}((type *)0), #type "." #path)
"""


def members(table, struct):
    """A structure's fields; in the place of a union with a tag, all that it can be."""
    for field in struct["fields"]:
        kind = table["types"][field["type"]]
        if kind["kind"] == "union":
            yield from (variant["field"] for variant in table["unions"][kind["ref"]]["variants"])
        else:
            yield field


def struct_asserts(table, type_id, counted, required, words):
    """What must hold for one type and those nested in it."""
    kind = table["types"][type_id]
    name = kind["name"]
    if kind["kind"] == "struct":
        struct = table["structs"][kind["ref"]]
        end = 0
        for field in members(table, struct):
            path = union_paths().get((struct["name"], field["name"]), field["name"])
            size = table["types"][field["type"]]["size"] * (field["count"] or 1)
            yield f"FIELD({name}, {path}, {field['offset']}, {size}, {int(required)});"
            end = max(end, field["offset"] + size)
            yield from struct_asserts(table, field["type"], True, required, words)
        # a structure that grew by fields that are not printed has its smallest size
        yield f"static_assert(sizeof({name}) {'==' if counted else '>='} {kind['size']});"
        assert kind["size"] == struct["size"] >= end, name
    elif kind["kind"] not in ("void", "chars") and "[" not in name and (required or name in words):
        yield f"static_assert(sizeof({name}) == {kind['size']});"


@pytest.mark.parametrize("major", MAJORS)
def test_layouts(cuda, table, preprocessed, tmp_path, major):
    """Size of every type, offset and size of every field, as gcc sees this major's headers."""
    asserts = set()
    words = set(re.findall(r"\w+", preprocessed[major]))
    for row in table["rows"]:
        if not row["majors"] & bit(major):
            continue
        if row["api"] == DRIVER and major != newest(row):
            continue  # a driver row has the newest header's types
        for param in row["params"]:
            asserts.update(struct_asserts(table, param["type"], True, True, words))
            if param["deref"]:
                required = major == newest(row)
                asserts.update(struct_asserts(table, param["pointee"], param["count"] >= 0, required, words))
    assert len(asserts) > 300
    compile_with_headers(cuda, major, FIELD + "\n".join(sorted(asserts)), tmp_path)


def test_wrong_layout_is_noticed(cuda, tmp_path):
    right = FIELD + "FIELD(cudaMemcpy3DParms, kind, 152, 4, 1);"
    assert gcc(cuda, 13, right, tmp_path, "-fsyntax-only").returncode == 0
    for wrong in ("kind, 151, 4, 1", "kind, 152, 8, 1", "kinds, 152, 4, 1"):
        source = f"{FIELD}FIELD(cudaMemcpy3DParms, {wrong});"
        assert "static assertion failed" in gcc(cuda, 13, source, tmp_path, "-fsyntax-only").stderr


@pytest.mark.parametrize("major", MAJORS)
def test_enumerators(cuda, table, preprocessed, tmp_path, major):
    """Every enumerator has its value in each header that has it, and each value a name."""
    words = set(re.findall(r"\w+", preprocessed[major]))
    asserts = [
        f"static_assert((long long){name} == {value});"
        for enum in table["enums"]
        for name, value in enum["values"]
        if name in words
    ]
    assert len(asserts) > 900
    compile_with_headers(cuda, major, "\n".join(asserts), tmp_path)


def test_every_enumerator_is_from_a_header(table, preprocessed):
    words = set(re.findall(r"\w+", " ".join(preprocessed.values())))
    for enum in table["enums"]:
        values = [v for _, v in enum["values"]]
        assert values == sorted(set(values)), enum["name"]
        assert not [n for n, _ in enum["values"] if n not in words], enum["name"]


def test_tags_have_members(table):
    """Every enumerator of a union's tag brings a member, but for those that have nothing to show."""
    without = re.compile("(Empty|EMPTY|Reserved16|RESERVED_16|ExternalEngine|EXTERNAL_ENGINE|Invalid|INVALID|"
                         "TypeWorkqueue|TYPE_WORKQUEUE|_MAX)$")
    newest = {}
    for struct in table["structs"]:
        kinds = [table["types"][f["type"]] for f in struct["fields"]]
        for union in (table["unions"][kind["ref"]] for kind in kinds if kind["kind"] == "union"):
            tag = next(f for f in struct["fields"] if f["offset"] == union["tag"])
            assert table["types"][tag["type"]]["kind"] == "enum", struct["name"]
            newest.setdefault(struct["name"], []).append((union, table["enums"][table["types"][tag["type"]]["ref"]]))
    assert set(newest) == {"cudaGraphNodeParams", "CUgraphNodeParams_st", "cudaDevResource_st", "CUdevResource_st",
                           "CUexecAffinityParam_st"}
    for name, found in newest.items():
        known = {v["value"] for union, _ in found for v in union["variants"]}
        names = [n for n, value in found[0][1]["values"] if value not in known]
        assert not [n for n in names if not without.search(n)], name


def redeclare(table, row):
    types = table["types"]
    params = ", ".join(types[p["type"]]["name"] for p in row["params"]) or "void"
    return f'#undef {row["symbol"]}\nextern "C" {types[row["ret_type"]]["name"]} {row["symbol"]}({params});'


@pytest.mark.parametrize("major", MAJORS)
def test_prototypes(cuda, table, preprocessed, tmp_path, major):
    """Declaring every function again with the table's types: another type is a compile error."""
    rows = [r for r in table["rows"] if r["majors"] & bit(major)]
    declared = set(re.findall(r"\b(_*cu\w+)\s*\(", preprocessed[major]))
    compared = [r for r in rows if r["symbol"] in declared]
    # what a header no longer declares has an older header's prototype
    assert len(compared) >= 0.95 * len(rows), sorted({r["symbol"] for r in rows} - declared)
    compile_with_headers(cuda, major, "\n".join(redeclare(table, r) for r in compared), tmp_path)


def test_wrong_prototype_is_noticed(cuda, tmp_path):
    source = 'extern "C" cudaError_t cudaMalloc(void **, int);'
    assert "conflicting" in gcc(cuda, 13, source, tmp_path, "-fsyntax-only").stderr


@pytest.mark.parametrize("major", MAJORS)
def test_parameter_names(table, preprocessed, major):
    """The names of parameters are the header's, in its order."""
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", preprocessed[major])
    checked = 0
    for row in table["rows"]:
        if not row["majors"] & bit(major) or (row["api"] == DRIVER and major != 13):
            continue
        found = re.search(rf"\b{row['symbol']}\s*\(([^;{{]*)\)\s*;", text)
        if not found or "(" in found[1]:
            continue
        names = [re.sub(r"\[\d*\]|=.*", "", p).strip() for p in found[1].split(",")]
        names = [re.search(r"\w+$", p)[0] for p in names if p not in ("void", "")]
        ours = [p["name"] for p in row["params"]]
        assert len(ours) == len(names), row["symbol"]
        if major == newest(row):  # a row of several majors has the newest header's names
            assert ours == names, row["symbol"]
        checked += 1
    assert checked > 300


# ---- the ABIs, asked from the compilers ----

COMPILERS = {
    "x86_64": (0, ["gcc"], []),
    "aarch64": (1, ["aarch64-linux-gnu-gcc", "-static"], ["qemu-aarch64"]),
}
SCALARS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long"}


def abi_type(kind):
    """A C type that an ABI treats as it treats this one."""
    if kind["kind"] == "float":
        return "float" if kind["size"] == 4 else "double"
    if kind["kind"] in ("struct", "dim3", "bytes"):
        return f"struct {{unsigned char bytes[{kind['size']}];}}"
    return SCALARS[kind["size"]]


def abi_call(table, i, row, abi):
    """C that calls capture() as this row's function and says where its arguments must be."""
    names, lines = [], []
    kinds = [table["types"][p["type"]] for p in row["params"]]
    for j, kind in enumerate(kinds):
        lines.append(f"\ttypedef {abi_type(kind)} t{j};\n\tt{j} a{j};\n\tFILL(a{j}, {j});\n")
        names.append(f"a{j}")
    places = [p["places"][abi] for p in row["params"]]
    where = ", ".join(f"{{{w.upper()}, {n}, {k['size']}}}" for (w, n, _), k in zip(places, kinds))
    size = table["types"][row["ret_type"]]["size"]
    ret = f"struct {{char bytes[{size}];}}" if row["ret"] == "sret" else "long"
    params = ", ".join(f"t{j}" for j in range(len(kinds))) or "void"
    return (
        f"static void call{i}(void)\n{{\n\tstatic const struct expected e[] = {{{where}}};\n{''.join(lines)}"
        f"\ttypedef {ret} ret_type;\n\tcurrent = \"{row['symbol']}\";\n\texpected = e;\n\tnexpected = {len(kinds)};\n"
        f"\t((ret_type (*)({params}))capture)({', '.join(names)});\n}}\n"
    )


def run_abi(table, rows, machine, tmp_path):
    abi, compiler, runner = COMPILERS[machine]
    for tool in (compiler[0], *runner):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    source = f'#include "{ROOT}/tests/data/abi/capture.h"\n'
    source += "".join(abi_call(table, i, row, abi) for i, row in enumerate(rows))
    source += "int main(void)\n{\n" + "".join(f"\tcall{i}();\n" for i in range(len(rows)))
    source += "\treturn failures != 0;\n}\n"
    path, program = tmp_path / "abi.c", tmp_path / "abi"
    path.write_text(source)
    run([*compiler, "-w", "-O1", "-o", program, path])
    return subprocess.run([*runner, program], capture_output=True, text=True, check=False)


def distinct_shapes(table):
    """One row per list of parameter types: variants add nothing here."""
    shapes = {}
    for row in table["rows"]:
        shapes.setdefault((row["ret"] == "sret", tuple(p["type"] for p in row["params"])), row)
    return list(shapes.values())


@pytest.mark.parametrize("machine", COMPILERS)
def test_places(table, tmp_path, machine):
    """Arguments of every shape of function are where the table says, by a call that really happens."""
    rows = distinct_shapes(table)
    assert len(rows) > 400
    done = run_abi(table, rows, machine, tmp_path)
    assert done.returncode == 0, done.stdout


def test_wrong_place_is_noticed(table, tmp_path):
    row = json.loads(json.dumps(next(r for r in table["rows"] if r["symbol"] == "cudaLaunchKernel")))
    row["params"][3]["places"][0][1] -= 1
    done = run_abi(table, [row], "x86_64", tmp_path)
    assert "cudaLaunchKernel: parameter 3" in done.stdout


# ---- errors, limits, generation ----


def test_runtime_errors_are_the_libraries_words(cuda, table):
    libraries = []
    for major in reversed(MAJORS):
        library = ctypes.CDLL(str(cuda / str(major) / "lib" / LIBRARIES[major]))
        for function in (library.cudaGetErrorName, library.cudaGetErrorString):
            function.restype = ctypes.c_char_p
        libraries.append(library)
    for error in table["errors"][RUNTIME]:
        for library in libraries:
            if library.cudaGetErrorString(error["code"]) != library.cudaGetErrorString(-1):
                assert library.cudaGetErrorName(error["code"]).decode() == error["name"]
                assert library.cudaGetErrorString(error["code"]).decode() == error["message"]
                break
        else:
            pytest.fail(f"no library knows {error}")


def test_driver_errors_are_the_drivers_words(table):
    """As a real driver gave them; the header's newer codes are unknown to it."""
    ours = {e["code"]: (e["name"], e["message"]) for e in table["errors"][DRIVER]}
    lines = (ROOT / "tests/data/libcuda-580-errors.txt").read_text().splitlines()
    real = [line.split("\t") for line in lines if not line.startswith("#")]
    assert len(real) == 101
    for code, name, message in real:
        assert ours[int(code)] == (name, message)


def test_every_error_code_is_there(table, preprocessed):
    enums = {e["name"]: e for e in table["enums"]}
    for api, enum, least in ((RUNTIME, "cudaError", 134), (DRIVER, "cudaError_enum", 101)):
        codes = [e["code"] for e in table["errors"][api]]
        assert codes == sorted(set(codes))
        assert codes == [v for _, v in enums[enum]["values"]]
        assert len(codes) >= least
    runtime = {e["code"]: e for e in table["errors"][RUNTIME]}
    shared = [e for e in table["errors"][DRIVER] if e["code"] in runtime]
    assert len(shared) >= 99
    assert all(e["message"] == runtime[e["code"]]["message"] for e in shared)


def test_limits_of_a_record(table):
    for row in table["rows"]:
        reads = [p for p in row["params"] if p["deref"]]
        assert len(reads) <= 8, row["symbol"]
        for param in reads:
            assert 0 < table["types"][param["pointee"]]["size"] <= 256, (row["symbol"], param["name"])


def test_counts_are_integers(table):
    """A count is an integer parameter, or points to one that is read too."""
    for row in table["rows"]:
        for param in row["params"]:
            if param["count"] < 0:
                continue
            count = row["params"][param["count"]]
            kind = table["types"][count["pointee"] if param["count_is_pointer"] else count["type"]]
            assert kind["kind"] in ("int", "uint") and kind["size"] in (4, 8), (row["symbol"], param["name"])
            assert bool(count["deref"]) == bool(param["count_is_pointer"]), (row["symbol"], param["name"])


def test_twins_are_rows(table):
    symbols = [{r["symbol"] for r in table["rows"] if r["api"] == api} for api in (RUNTIME, DRIVER)]
    for row in table["rows"]:
        tail = row["flags"] & 4
        for twin in row["twins"]:
            assert twin in symbols[RUNTIME if tail else DRIVER], (row["symbol"], twin)
            assert row["api"] == RUNTIME


def tail_jumps(library):
    """Exports that do nothing but jump to another export, as (from, to)."""
    current, count, found = "", 0, set()
    for line in run(["objdump", "-d", "--no-show-raw-insn", library]).splitlines():
        label = re.match(r"[0-9a-f]+ <([\w]+)(?:@@.*)?>:$", line)
        if label:
            current, count = label[1], 0
            continue
        count += 1
        jump = re.search(r"\tjmp\s+[0-9a-f]+ <(\w+)@@[\w.]+>$", line)
        if jump and count <= 8:
            found.add((current, jump[1]))
    return found


@pytest.mark.parametrize("major", MAJORS)
def test_tails_are_the_functions_that_jump(cuda, table, major):
    ours = {
        (r["symbol"], r["twins"][0]) for r in table["rows"] if r["flags"] & 4 and r["majors"] & bit(major)
    }
    assert ours == tail_jumps(cuda / str(major) / "lib" / LIBRARIES[major])


def test_committed_table_is_what_the_generator_makes(cuda, tmp_path):
    if not shutil.which("clang"):
        pytest.skip("clang is not installed")
    run([ROOT / "tools/mktable.sh", tmp_path])
    for name in ("rows.c", "types.c", "names.c"):
        assert (tmp_path / name).read_bytes() == (ROOT / "streamer/table" / name).read_bytes(), name
