"""Rows: one per exported symbol and shape, from the prototypes of all majors."""

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from . import abi, model

MAX_SLOT = 256  # bytes of one read, REC_MAX_SLOT
MAX_OPS = 8  # reads of one call, REC_MAX_OPS

NO_DEREF, IN, OUT = range(3)
DEREF_NAMES = ("NO_DEREF", "IN", "OUT")
RUNTIME, DRIVER = range(2)
API_NAMES = ("RUNTIME", "DRIVER")
STATUS, POINTER, STRING, RET_VOID, VALUE, SRET = range(6)
RET_NAMES = ("STATUS", "POINTER", "STRING", "VOID", "VALUE", "SRET")
PER_THREAD_STREAM, REPORTS_ERROR, TAIL, BRINGS_NAMES, OF_GRAPH = 1, 2, 4, 8, 16

SUFFIX = re.compile(r"(_v\d+)?(_pt[sd][sz])?$")
PER_THREAD = re.compile(r"_pt[sd][sz]$")


VOID = model.Type("void", model.VOID, 0)


@dataclass
class Param:
    name: str
    type: model.Type
    c_type: str  # as the header spells it
    deref: int = NO_DEREF
    pointee: model.Type = None
    count: int = None
    count_is_pointer: bool = False
    places: tuple = ()

    def shape(self):
        read = (self.deref, self.pointee.shape(), self.count) if self.deref else None
        return (self.type.shape(), read, self.places)


@dataclass
class Row:
    symbol: str
    api: int
    majors: int
    ret: int
    ret_type: model.Type
    params: list
    resolver: model.Resolver
    family: int = 0
    flags: int = 0
    keys: list = field(default_factory=list)
    twins: tuple = ()

    @property
    def func(self):
        return SUFFIX.sub("", self.symbol)

    def shape(self):
        return (self.ret, self.ret_type.shape(), tuple(p.shape() for p in self.params))


def glob(patterns, name):
    """Do any of the patterns match, and none of those after a `!`?"""
    yes = any(fnmatchcase(name, p) for p in patterns if not p.startswith("!"))
    return yes and not any(fnmatchcase(name, p[1:]) for p in patterns if p.startswith("!"))


def read_lines(path):
    """Lines of a data file split at tabs, without comments."""
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            yield [part.strip() for part in line.split("\t") if part.strip()]


@dataclass
class ParamRule:
    functions: list
    params: list
    what: str
    count: str = ""


def read_param_rules(path):
    return [
        ParamRule(parts[0].split(), parts[1].split(), *parts[2:]) for parts in read_lines(path)
    ]


class Builder:
    """Builds the rows of one major."""

    def __init__(self, headers, resolver, rules):
        self.headers = headers
        self.resolver = resolver
        self.rules = rules

    def row(self, symbol, api, prototype):
        params = [self.param(i, n, t) for i, (n, t) in enumerate(prototype.params)]
        ret, ret_type = self.result(prototype.ret)
        row = Row(symbol, api, 1 << (self.headers.major - 11), ret, ret_type, params, self.resolver)
        for param in params:
            self.set_deref(row.func, params, param)
        places = [place([p.type for p in params], ret == SRET) for place in abi.PLACES]
        for i, param in enumerate(params):
            param.places = tuple(p[i] for p in places)
        reads = [p for p in params if p.deref]
        for param in reads[MAX_OPS:]:
            param.deref, param.pointee, param.count = NO_DEREF, None, None
        return row

    def param(self, i, name, c_type):
        kind = self.resolver.resolve(c_type)
        if kind is None:
            raise SystemExit(f"mktable: no layout for parameter type {c_type}")
        return Param(name or f"arg{i}", kind, c_type)

    def result(self, c_type):
        kind = self.resolver.resolve(c_type)
        if kind.name in ("cudaError_t", "CUresult"):
            return STATUS, kind
        if kind.kind == model.STRING:
            return STRING, kind
        if kind.kind == model.VOID:
            return RET_VOID, kind
        if "*" in kind.name:
            return POINTER, kind
        return (SRET if kind.size > 16 else VALUE), kind

    def set_deref(self, func, params, param):
        """Decide what is read through one pointer parameter."""
        c_type = param.c_type
        base = self.resolver.base(c_type)
        if "*" not in c_type or model.is_function_pointer(base):
            return
        target, const = model.pointee(c_type)
        rule = self.find_rule(func, params, param.name)
        if rule is None:
            self.default_deref(param, target, const)
            return
        if rule.what == "-":
            return
        if rule.what == "text":
            param.deref, param.pointee = OUT, model.Type(f"char[{MAX_SLOT}]", model.CHARS, MAX_SLOT)
        else:
            kind = self.readable(target)
            if kind is None:
                return
            param.deref, param.pointee = (IN if rule.what == "in" else OUT), kind
        if rule.count:
            name = rule.count.lstrip("*")
            param.count = next(i for i, p in enumerate(params) if p.name == name)
            param.count_is_pointer = rule.count.startswith("*")

    def find_rule(self, func, params, name):
        names = {p.name: p for p in params}
        for rule in self.rules:
            if name not in rule.params or not glob(rule.functions, func):
                continue
            count = rule.count.lstrip("*")
            if count and (count not in names or ("*" in names[count].c_type) != rule.count.startswith("*")):
                continue
            return rule
        return None

    def readable(self, target):
        """The table type of what a pointer leads to, if it can be read and printed."""
        kind = self.resolver.resolve(target)
        if kind is None or kind.kind == model.VOID or kind.size > MAX_SLOT:
            return None
        if kind.kind == model.STRUCT and not kind.ref.fields:
            return None
        return kind

    def default_deref(self, param, target, const):
        if param.type.kind == model.STRING:
            param.deref, param.pointee = IN, param.type
            return
        kind = self.readable(target)
        if kind is None or (kind.kind == model.INT and kind.size == 1):
            return
        if const and kind.kind not in (model.STRUCT, model.BYTES, model.DIM3):
            return
        param.deref, param.pointee = (IN if const else OUT), kind


def fits(new, old):
    """Can a newer major's type stand for an older one's? Where only what is not printed differs, yes."""
    if new.shape() == old.shape():
        return True
    if new.kind != model.STRUCT or old.kind != model.STRUCT:
        return False
    fields = {(f.name, f.offset, f.count): f.type for f in new.ref.fields}
    known = all(fits(fields.get((f.name, f.offset, f.count), VOID), f.type) for f in old.ref.fields)
    return known and (new.size == old.size or len(new.ref.fields) == len(old.ref.fields))


def absorb(row, older):
    """Make one row stand for an older major's as well, if their shapes allow it."""
    if (row.ret, row.ret_type.shape(), len(row.params)) != (older.ret, older.ret_type.shape(), len(older.params)):
        return False
    shrunk = []
    for new, old in zip(row.params, older.params):
        if new.shape() == old.shape():
            continue
        same = (new.type.shape(), new.places, new.deref, new.count) == (
            old.type.shape(), old.places, old.deref, old.count)
        if not same or not new.deref or not fits(new.pointee, old.pointee):
            return False
        if new.pointee.size != old.pointee.size:
            if new.count is not None:
                return False  # the size is an array's stride
            shrunk.append((new, old.pointee))
    for param, pointee in shrunk:
        param.pointee = pointee  # the smaller one holds all that is printed
    row.majors |= older.majors
    return True


def merge(rows):
    """Rows of one symbol, newest major first, to one row per shape."""
    merged = []
    for row in rows:
        if not any(absorb(known, row) for known in merged):
            merged.append(row)
    return merged


def finish(row, families):
    """Family and flags; the same for every variant of a function."""
    for number, patterns in families.rules:
        if glob(patterns, row.func):
            row.family = number
            break
    else:
        raise SystemExit(f"mktable: no family for {row.symbol}")
    if PER_THREAD.search(row.symbol):
        row.flags |= PER_THREAD_STREAM
    if row.func in ("cudaGetLastError", "cudaPeekAtLastError"):
        row.flags |= REPORTS_ERROR
    if row.func == "__cudaLaunchKernel":
        row.flags |= TAIL
    if row.ret == STRING or any(p.deref and p.pointee.kind == model.STRING for p in row.params):
        row.flags |= BRINGS_NAMES
    if families.names[row.family][0] == "graph":
        row.flags |= OF_GRAPH


@dataclass
class Families:
    names: list  # of (name, in default, about)
    rules: list  # of (family number, patterns), first match decides


def read_families(path):
    names, rules = [], []
    for parts in read_lines(path):
        if parts[0].startswith("family "):
            names.append((parts[0].split()[1], parts[1] == "default", parts[2]))
        else:
            number = next(i for i, n in enumerate(names) if n[0] == parts[0])
            rules.append((number, parts[1].split()))
    return Families(names, rules)
