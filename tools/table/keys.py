"""Normalised keys: the little language of keys.txt, checked against each row's parameters."""

import re
from dataclasses import dataclass

from . import model
from .rows import IN, OUT, glob, read_lines

KEYS = "bytes direction device stream kernel_handle grid block shared_bytes ptr src_ptr".split()
VALUE, PRODUCT, FIRST_NONZERO, DIM, KIND, FIXED, MEMTYPES, SUM, PITCHED, LOCATION, PLACE = range(11)
MODE_NAMES = "VALUE PRODUCT FIRST_NONZERO DIM KIND FIXED MEMTYPES SUM PITCHED LOCATION PLACE".split()
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


@dataclass(frozen=True)
class Key:
    key: int
    mode: int
    operands: tuple


class Misfit(Exception):
    """The row has no such parameter or field."""


def find_param(row, name):
    for i, param in enumerate(row.params):
        if param.name == name:
            return i, param
    raise Misfit(name)


def find_field(kind, path):
    """(type, offset) of a field given by its dotted path in a structure type."""
    offset = 0
    for name in path:
        if kind is None or kind.kind != model.STRUCT:
            raise Misfit(".".join(path))
        field = next((f for f in kind.ref.fields if f.name == name), None)
        if field is None:
            raise Misfit(".".join(path))
        kind, offset = field.type, offset + field.offset
    return kind, offset


def operand(row, text):
    text = text.strip()
    if text.isdigit():
        return Operand(FROM_CONST, 0, None, int(text))
    out = re.match(r"out\((\w+)\)((?:\.\w+)*)$", text)
    if out:
        i, param = find_param(row, out.group(1))
        if param.deref != OUT:
            raise Misfit(text)
        kind, offset = find_field(param.pointee, [p for p in out.group(2).split(".") if p])
        return Operand(FROM_OUT, i, kind, offset)
    name, *path = text.split(".")
    i, param = find_param(row, name)
    if not path:
        return Operand(FROM_ARG, i, param.type, 0)
    if param.deref == OUT:
        raise Misfit(text)
    kind, offset = find_field(param.pointee if param.deref == IN else param.type, path)
    return Operand(FROM_FIELD, i, kind, offset)


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
                if key in keys:
                    continue
                try:
                    keys[key] = parse(row, key, where)
                    self.used.add((number, key))
                except Misfit:
                    pass
        for key, found in (("stream", stream(row)), ("device", device(row))):
            if found and key not in keys:
                keys[key] = Key(KEYS.index(key), VALUE, (found,))
        row.keys = [keys[k] for k in KEYS if k in keys]

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
