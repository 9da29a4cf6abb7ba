#!/usr/bin/env python3
"""Generates the API table (streamer/table/*.c) from the CUDA headers and libraries.

Input are the headers of several majors, the names that real libraries export, and the
data files in tools/table/. Output is the same for the same input. See docs/architecture.md.

    tools/mktable.py --headers 13=DIR[:DIR...] --library 13=libcudart.so.13 \\
                     --exports 13=tests/data/exports/libcudart-13.0.txt \\
                     --driver-exports tests/data/exports/libcuda-580.txt --output streamer/table
"""

import argparse
import re
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

from table import clangast, emit, errors, keys, model, rows

DATA = Path(__file__).parent / "table"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    pair = {"action": "append", "default": [], "metavar": "MAJOR=PATH"}
    parser.add_argument("--headers", **pair, help="directories with a major's headers, separated by colons")
    parser.add_argument("--library", **pair, help="a libcudart.so: its exports and its error texts")
    parser.add_argument("--exports", **pair, help="a further list of a libcudart's exports")
    parser.add_argument("--driver-exports", type=Path, required=True, help="a list of libcuda's exports")
    parser.add_argument("--output", type=Path, required=True, help="directory for the generated C")
    return parser.parse_args()


def pairs(arguments):
    for argument in arguments:
        major, path = argument.split("=", 1)
        yield int(major), path


def exported_by(path):
    """Names of functions in a shared library's dynamic symbol table, without versions."""
    text = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    names = (line.split()[-1].split("@")[0] for line in text.splitlines() if line.split()[-2] in "TW")
    return {n for n in names if re.match(r"_*cu", n)}


def read_exports(arguments):
    """Runtime exports by major."""
    exports = {}
    for major, path in pairs(arguments.library):
        exports.setdefault(major, set()).update(exported_by(path))
    for major, path in pairs(arguments.exports):
        exports.setdefault(major, set()).update(Path(path).read_text().split())
    return exports


def read_all_headers(arguments, unions):
    """Headers and resolvers of all majors, newest first."""
    majors = []
    for major, path in sorted(pairs(arguments.headers), reverse=True):
        headers = clangast.read_headers(major, path.split(":"))
        clangast.read_values(headers)
        majors.append(headers)
    enumerators = all_enumerators(majors)
    resolvers = {}
    for headers in majors:
        resolver = model.Resolver(headers, unions, enumerators)
        read_layouts(headers, resolver)
        resolvers[headers.major] = resolver
    return majors, resolvers


def all_enumerators(majors):
    """Enumeration -> ((value, name), ...): the newest header's first name of each value.

    A name whose value moves from major to major only marks the end: it is left out.
    """
    merged, moved, seen = {}, set(), {}
    for headers in majors:
        moved.update(n for n, value in headers.values.items() if seen.setdefault(n, value) != value)
    for headers in majors:
        for enum, names in headers.enums.items():
            values = merged.setdefault(enum, {})
            for name in (n for n in names if n not in moved):
                values.setdefault(headers.values[name], name)
    return {enum: tuple(sorted(values.items())) for enum, values in merged.items()}


def is_cuda(name):
    return re.match(r"(__)?cu(da)?[A-Z_]", name) is not None


def read_layouts(headers, resolver):
    """Ask clang for the offsets and sizes of the structures that parameters use."""
    found = set()
    for name, function in headers.functions.items():
        if is_cuda(name):
            for c_type in [function.ret] + [t for _, t in function.params]:
                resolver.wanted(c_type, found)
    asked = {}
    for c_type, path in sorted(found):
        where = f"__builtin_offsetof({c_type}, {path})" if path else "0"
        size = f"sizeof((({c_type} *)0)->{path})" if path else f"sizeof({c_type})"
        asked[(c_type, path)] = (where, size)
    values = clangast.evaluate(headers, [e for both in asked.values() for e in both])
    headers.layouts = {k: (values[where], values[size]) for k, (where, size) in asked.items()}


def read_unions(path):
    unions = {}
    for record, field, what, *pairs in rows.read_lines(path):
        choice = model.Choice(member=what)
        if pairs:
            members = dict(pair.split("=") for pair in " ".join(pairs).split())
            choice = model.Choice(tag=what.removeprefix("by "), members=members)
        unions[(record, "" if field == "-" else field)] = choice
    return unions


def check_unions(unions, majors):
    """Every word of unions.txt is one of some header."""
    known = {n for h in majors for n in [*h.values, *(f for r in h.records.values() for f, _ in r.fields)]}
    words = {w for c in unions.values() for w in [c.member, c.tag, *c.members, *c.members.values()] if w}
    if words - known:
        raise SystemExit(f"mktable: unions.txt: no header has {' '.join(sorted(words - known))}")


def no_rows(path):
    return [parts[0] for parts in rows.read_lines(path)]


def base_prototype(functions, symbol):
    """A symbol's prototype; a per-thread variant without one of its own has its base's."""
    return functions.get(symbol) or functions.get(rows.PER_THREAD.sub("", symbol))


def runtime_rows(majors, builders, exports):
    """One row per exported runtime function and shape."""
    result = []
    for symbol in sorted(set().union(*exports.values())):
        built = []
        for headers in majors:
            if symbol not in exports.get(headers.major, ()):
                continue
            nearest = sorted(majors, key=lambda h: (abs(h.major - headers.major), h.major))
            for source in nearest:
                prototype = base_prototype(source.functions, symbol)
                if prototype:
                    row = builders[source.major].row(symbol, rows.RUNTIME, prototype)
                    row.majors = 1 << (headers.major - 11)
                    built.append(row)
                    break
        result.extend(rows.merge(built))
    return result


def driver_rows(majors, builders, exports):
    """One row per driver function that is exported or declared: its shape never changes."""
    declared = {n for h in majors for n in h.functions if is_cuda(n) and not n.lstrip("_").startswith("cuda")}
    result = []
    for symbol in sorted(declared | exports):
        bits = 0
        newest = None
        for headers in majors:
            prototype = base_prototype(headers.functions, symbol)
            if prototype:
                bits |= 1 << (headers.major - 11)
                newest = newest or (headers, prototype)
        if newest:
            row = builders[newest[0].major].row(symbol, rows.DRIVER, newest[1])
            row.majors = bits
            result.append(row)
    return result


def read_twins(path):
    return [(parts[0].split(), parts[1].split()) for parts in rows.read_lines(path)]


def set_twins(row, rules, driver_symbols):
    """Driver symbols that a runtime row may call."""
    if row.api != rows.RUNTIME:
        return
    for functions, patterns in rules:
        if rows.glob(functions, row.func):
            break
    else:
        return
    if patterns[0].startswith("="):
        suffix = rows.PER_THREAD.search(row.symbol)
        row.twins = (patterns[0][1:].format(suffix=suffix.group(0) if suffix else ""),)
        return
    patterns = [p.format(row.func.removeprefix("__").removeprefix("cuda")) for p in patterns]
    row.twins = tuple(s for s in driver_symbols if rows.glob(patterns, s))


def check_exports(all_rows, exports, driver_exports):
    """Every export has a row, or a reason."""
    without = no_rows(DATA / "no-row.txt")
    for api, names in ((rows.RUNTIME, set().union(*exports.values())), (rows.DRIVER, driver_exports)):
        have = {r.symbol for r in all_rows if r.api == api}
        missing = [n for n in sorted(names - have) if not any(fnmatchcase(n, p) for p in without)]
        if missing:
            raise SystemExit(f"mktable: no row and no reason in no-row.txt for: {' '.join(missing)}")


def main():
    arguments = parse_arguments()
    exports = read_exports(arguments)
    driver_exports = set(arguments.driver_exports.read_text().split())
    unions = read_unions(DATA / "unions.txt")
    majors, resolvers = read_all_headers(arguments, unions)
    check_unions(unions, majors)
    param_rules = rows.read_param_rules(DATA / "params.txt")
    builders = {h.major: rows.Builder(h, resolvers[h.major], param_rules) for h in majors}
    all_rows = runtime_rows(majors, builders, exports) + driver_rows(majors, builders, driver_exports)
    families = rows.read_families(DATA / "families.txt")
    key_rules = keys.Rules(DATA / "keys.txt")
    twin_rules = read_twins(DATA / "twins.txt")
    driver_symbols = [r.symbol for r in all_rows if r.api == rows.DRIVER]
    for row in all_rows:
        rows.finish(row, families)
        key_rules.apply(row)
        set_twins(row, twin_rules, driver_symbols)
    check_exports(all_rows, exports, driver_exports)
    for line in key_rules.unused():
        print(f"mktable: keys.txt: fits no function: {line}", file=sys.stderr)
    libraries = [path for _, path in sorted(pairs(arguments.library), reverse=True)]
    table_errors = errors.tables(majors, libraries, errors.read_messages(DATA / "driver-messages.txt"))
    arguments.output.mkdir(parents=True, exist_ok=True)
    table = emit.Table(all_rows, families, table_errors)
    emit.write_c(table, arguments.output)
    print(f"mktable: {len(all_rows)} rows, {len(table.types.items)} types, {len(table.params.items)} parameters")


if __name__ == "__main__":
    main()
