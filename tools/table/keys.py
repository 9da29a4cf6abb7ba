"""Normalised keys: the little language of keys.txt, checked against each row's parameters."""

import re
from dataclasses import dataclass

from . import model
from .rows import IN, OUT, glob, read_lines

KEYS = "bytes direction device stream kernel_handle grid block shared_bytes ptr src_ptr".split()
VALUE, PRODUCT, FIRST_NONZERO, DIM, KIND, FIXED, MEMTYPES, SUM, PITCHED, LOCATION, PLACE, EQUAL = range(12)
MODE_NAMES = "VALUE PRODUCT FIRST_NONZERO DIM KIND FIXED MEMTYPES SUM PITCHED LOCATION PLACE EQUAL".split()
FROM_ARG, FROM_FIELD, FROM_OUT, FROM_CONST = range(4)
SOURCE_NAMES = "ARG FIELD OUT CONST".split()
DIRECTIONS = "h2h h2d d2h d2d default p2p".split()
DEVICE_NAMES = ("device", "dev", "deviceId", "dstDevice", "cudaDevice", "hDev")


@dataclass(frozen=True)
class Operand:
    source: int
    param: int
    type: model.Type
    offset: int
    when: tuple = ()  # two operands: it means something where they are equal (member of a union with a tag)


@dataclass(frozen=True)
class Key:
    key: int
    mode: int
    operands: tuple

    @property
    def when(self):
        conditions = {o.when for o in self.operands if o.when}
        assert len(conditions) < 2, self
        return conditions.pop() if conditions else ()


class Misfit(Exception):
    """The row has no such parameter or field."""


def find_param(row, name):
    for i, param in enumerate(row.params):
        if param.name == name:
            return i, param
    raise Misfit(name)


def find_field(kind, path):
    """(type, offset, condition) of a field given by its dotted path in a structure type; the condition is the
    (type, offset, value) of a tag, if a union's member is on the way."""
    offset, condition = 0, None
    for name in path:
        if kind is None or kind.kind != model.STRUCT:
            raise Misfit(".".join(path))
        field, tag = find_member(kind.ref, name)
        if field is None:
            raise Misfit(".".join(path))
        if tag:
            assert condition is None, path
            condition = (tag[0].type, offset + tag[0].offset, tag[1])
        kind, offset = field.type, offset + field.offset
    return kind, offset, condition


def find_member(struct, name):
    """(field, None) of a structure, or (member, (tag, value)) of a union in it."""
    for field in struct.fields:
        if field.type.kind == model.UNION:
            for value, member in field.type.ref.members:
                if member.name == name:
                    return member, (field.type.ref.tag, value)
        elif field.name == name:
            return field, None
    return None, None


def from_field(source, param, kind, path):
    kind, offset, condition = find_field(kind, path)
    when = ()
    if condition:
        when = (Operand(source, param, *condition[:2]), Operand(FROM_CONST, 0, None, condition[2]))
    return Operand(source, param, kind, offset, when)


def operand(row, text):
    text = text.strip()
    if text.isdigit():
        return Operand(FROM_CONST, 0, None, int(text))
    out = re.match(r"out\((\w+)\)((?:\.\w+)*)$", text)
    if out:
        i, param = find_param(row, out.group(1))
        if param.deref != OUT:
            raise Misfit(text)
        return from_field(FROM_OUT, i, param.pointee, [p for p in out.group(2).split(".") if p])
    name, *path = text.split(".")
    i, param = find_param(row, name)
    if not path:
        return Operand(FROM_ARG, i, param.type, 0)
    if param.deref == OUT:
        raise Misfit(text)
    return from_field(FROM_FIELD, i, param.pointee if param.deref == IN else param.type, path)


def parse(row, key, where):
    """One KEY=WHERE of a row."""
    number = KEYS.index(key)
    if where in DIRECTIONS:
        return Key(number, FIXED, (Operand(FROM_CONST, 0, None, DIRECTIONS.index(where)),))
    call = re.match(r"(dim|kind|memtypes|place|sum|location)\((.*)\)$", where)
    if call:
        if call.group(1) == "location":
            fields = (f"{call.group(2)}.type", f"{call.group(2)}.id")
            return Key(number, LOCATION, tuple(operand(row, t) for t in fields))
        mode = {"dim": DIM, "kind": KIND, "memtypes": MEMTYPES, "place": PLACE, "sum": SUM}[call.group(1)]
        operands = tuple(operand(row, t) for t in call.group(2).split(","))
        if mode == SUM and not (row.params[operands[0].param].deref == IN):
            raise Misfit(where)
        return Key(number, mode, operands)
    if " unless " in where:
        product, tests = where.split(" unless ")
        factors = tuple(operand(row, t) for t in product.split("*"))
        assert len(factors) == 3, where
        return Key(number, PITCHED, factors + tuple(operand(row, t) for t in tests.split(",")))
    if "*" in where:
        return Key(number, PRODUCT, tuple(operand(row, t) for t in where.split("*")))
    if "|" in where:
        return Key(number, FIRST_NONZERO, tuple(operand(row, t) for t in where.split("|")))
    return Key(number, VALUE, (operand(row, where),))


class Rules:
    def __init__(self, path):
        self.lines = []
        for parts in read_lines(path):
            self.lines.append((parts[0].split(), [p.split("=", 1) for p in parts[1:]]))
        self.used = set()

    def apply(self, row):
        """Set the keys of a row."""
        keys = {}
        for number, (functions, wheres) in enumerate(self.lines):
            if not glob(functions, row.func):
                continue
            for key, where in wheres:
                try:
                    made = parse(row, key, where)
                except Misfit:
                    continue
                if (made.when, key) not in keys:
                    keys[(made.when, key)] = made
                    self.used.add((number, key))
        for key, found in (("stream", stream(row)), ("device", device(row))):
            if found and ((), key) not in keys:
                keys[((), key)] = Key(KEYS.index(key), VALUE, (found,))
        conditions = sorted({when for when, _ in keys}, key=lambda when: [o.offset for o in when])
        row.keys = [keys[(when, k)] for when in conditions for k in KEYS if (when, k) in keys]

    def unused(self):
        return [
            f"{' '.join(functions)}: {key}={where}"
            for number, (functions, wheres) in enumerate(self.lines)
            for key, where in wheres
            if (number, key) not in self.used
        ]


def stream(row):
    """The stream a call works on: passed, or made by it."""
    for i, param in enumerate(row.params):
        if row.resolver.base(param.c_type) == "struct CUstream_st *":
            return Operand(FROM_ARG, i, param.type, 0)
    for i, param in enumerate(row.params):
        if param.deref == OUT and row.resolver.base(model.pointee(param.c_type)[0]) == "struct CUstream_st *":
            return Operand(FROM_OUT, i, param.pointee, 0)
    return None


def device(row):
    """The device ordinal that a call names or returns."""
    for i, param in enumerate(row.params):
        if param.type.name == "CUdevice" or (param.type.name == "int" and param.name in DEVICE_NAMES):
            return Operand(FROM_ARG, i, param.type, 0)
    for i, param in enumerate(row.params):
        if param.deref == OUT and param.count is None and (
            param.pointee.name == "CUdevice" or (param.pointee.name == "int" and param.name in DEVICE_NAMES)
        ):
            return Operand(FROM_OUT, i, param.pointee, 0)
    return None
