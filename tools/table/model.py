"""From C types as clang spells them to the table's own types, enumerations and structures."""

import re
from dataclasses import dataclass, field

VOID, HEX, INT, UINT, FLOAT, ENUM, STRUCT, DIM3, STRING, CHARS, BYTES, UNION = range(12)
KIND_NAMES = "VOID HEX INT UINT FLOAT ENUM STRUCT DIM3 STRING CHARS BYTES UNION".split()

BUILTINS = {
    "void": (VOID, 0),
    "char": (INT, 1),
    "signed char": (INT, 1),
    "unsigned char": (UINT, 1),
    "_Bool": (UINT, 1),
    "short": (INT, 2),
    "unsigned short": (UINT, 2),
    "int": (INT, 4),
    "unsigned int": (UINT, 4),
    "long": (INT, 8),
    "unsigned long": (HEX, 8),
    "long long": (INT, 8),
    "unsigned long long": (HEX, 8),
    "float": (FLOAT, 4),
    "double": (FLOAT, 8),
}
# Types whose printed form is not what their C type says.
SPECIAL = {
    "size_t": (UINT, 8),
    "CUdeviceptr_v1": (HEX, 4),
}
RESERVED = re.compile(r"reserved|padding|^pad\d*$|^__", re.IGNORECASE)


def plain(spelled):
    """A C type without the words struct, enum, union: how the table spells it."""
    return re.sub(r"\b(struct|enum|union) ", "", spelled)


def strip_const(spelled):
    """The type without a const of its own (not of what it points to)."""
    spelled = spelled.strip()
    if "*" in spelled:
        return re.sub(r"\*\s*(const|restrict|__restrict)$", "*", spelled).strip()
    return re.sub(r"\b(const|volatile)\b ?", "", spelled).strip()


def is_function_pointer(spelled):
    return "(*" in spelled


def pointee(spelled):
    """What a pointer type points to, as (C type, is it const)."""
    spelled = spelled.strip()
    cut = spelled.rindex("*")
    target = spelled[:cut].strip()
    if "*" in target:
        const = target.endswith("const")
        return (target[:-5].strip() if const else target), const
    const = bool(re.search(r"\bconst\b", target))
    return strip_const(target), const


@dataclass(frozen=True)
class Type:
    """One entry of table_types[]. `ref` is an Enum, a Struct, a Union or None."""

    name: str
    kind: int
    size: int
    ref: object = None

    def shape(self):
        """What two majors must agree on for their rows to be one row."""
        return (self.kind, self.size, self.ref.shape() if self.ref else None)


@dataclass(frozen=True)
class Enum:
    name: str
    enumerators: tuple  # of (value, name), ascending

    def shape(self):
        return None


@dataclass(frozen=True)
class Field:
    name: str
    type: Type
    offset: int
    count: int


@dataclass(frozen=True)
class Struct:
    name: str
    size: int
    fields: tuple

    def shape(self):
        return (self.size, tuple((f.name, f.offset, f.count, f.type.shape()) for f in self.fields))


@dataclass(frozen=True)
class Union:
    """A union whose member is told by another field of the structure around it; offsets are that structure's."""

    name: str
    tag: Field
    members: tuple  # of (value of the tag, Field), ascending

    def shape(self):
        return (self.tag.offset, tuple((v, f.name, f.offset, f.count, f.type.shape()) for v, f in self.members))


@dataclass
class Choice:
    """Which member of a union is printed: always the same, or by the tag's enumerators."""

    member: str = ""
    tag: str = ""
    members: dict = field(default_factory=dict)  # enumerator -> member

    def paths(self, name, record):
        """(path, C type) of the members that a header's union has."""
        for member in dict.fromkeys(self.members.values() if self.tag else [self.member]):
            if member in dict(record.fields):
                yield f"{name}.{member}".strip("."), dict(record.fields)[member]


class Resolver:
    """Turns the C types of one major's headers into table types."""

    def __init__(self, headers, unions, enumerators):
        self.headers = headers
        self.unions = unions  # (record, union field) -> Choice
        self.enumerators = enumerators  # enum name -> ((value, name), ...) over all majors
        self.cache = {}

    def base(self, spelled):
        """Follow typedefs; returns (last typedef name or tag, what it names)."""
        spelled = strip_const(spelled)
        while True:
            if "*" in spelled or "(" in spelled:
                return spelled
            bare = plain(spelled)
            if spelled != bare or bare in self.headers.records or bare in self.headers.enums:
                return bare
            if spelled in BUILTINS or spelled not in self.headers.typedefs:
                return spelled
            spelled = strip_const(self.headers.typedefs[spelled])

    def record(self, spelled):
        return self.headers.records.get(self.base(spelled))

    def special(self, spelled):
        """The nearest typedef on the way that has a form of its own."""
        spelled = strip_const(spelled)
        while spelled not in SPECIAL and spelled in self.headers.typedefs:
            spelled = strip_const(self.headers.typedefs[spelled])
        return SPECIAL.get(spelled)

    def resolve(self, spelled):
        """The table type of a C type, or None for an incomplete one or a union."""
        if spelled not in self.cache:
            self.cache[spelled] = self._resolve(spelled)
        return self.cache[spelled]

    def _resolve(self, spelled):
        name = plain(strip_const(spelled))
        special = self.special(spelled)
        if special:
            return Type(name, *special)
        base = self.base(spelled)
        if "*" in base or "(" in base:
            if "*" not in base.split("(")[0] and not is_function_pointer(base):
                return None  # a function
            text = not is_function_pointer(base) and pointee(base) == ("char", True)
            return Type(plain(spelled) if text else name, STRING if text else HEX, 8)
        if base in BUILTINS:
            return Type(name, *BUILTINS[base])
        if base in self.headers.enums:
            return Type(name, ENUM, 4, Enum(base, self.enumerators[base]))
        record = self.headers.records.get(base)
        if record is None or record.union:
            return None
        return self.structure(name, spelled, record)

    def structure(self, name, spelled, record):
        c_type = strip_const(spelled)
        size = self.headers.layouts[(c_type, "")][1]
        if record.key in ("dim3", "uint3"):
            return Type(name, DIM3, size)
        if len(record.fields) == 1 and re.match(r"(unsigned )?char\[\d+\]$", record.fields[0][1]):
            return Type(name, BYTES, size)
        fields = []
        for field_name, offset, field_type in self.walk(c_type, record):
            if isinstance(field_type, Choice):
                fields.append(self.union(c_type, record, field_name, field_type, fields))
                continue
            made = self.field(field_name, offset, field_type)
            if made is not None:
                fields.append(made)
        return Type(name, STRUCT, size, Struct(record.key, size, tuple(fields)))

    def field(self, name, offset, field_type):
        """A field of a structure, or None for what is not printed."""
        count = 0
        array = re.match(r"(.*?)\[(\d+)\]$", field_type)
        if array:
            field_type, count = array.group(1).strip(), int(array.group(2))
        base = self.base(field_type)
        if array and base == "char":
            kind = Type(f"char[{count}]", CHARS, count)
            count = 0
        elif array and base == "unsigned char":
            kind = Type(f"unsigned char[{count}]", BYTES, count)
            count = 0
        else:
            kind = self.resolve(field_type)
        return None if kind is None else Field(name, kind, offset, count)

    def union(self, c_type, record, name, choice, before):
        """The field that stands for a union with a tag, which is among the fields before it."""
        union = self.headers.records[self.base(dict(record.fields)[name])]
        made = {}
        for path, member_type in choice.paths(name, union):
            member = path.rsplit(".", maxsplit=1)[-1]
            made[member] = self.field(member, self.headers.layouts[(c_type, path)][0], member_type)
        values = {self.headers.values.get(enumerator): made.get(m) for enumerator, m in choice.members.items()}
        members = tuple(sorted((v, f) for v, f in values.items() if v is not None and f is not None))
        tag = next(f for f in before if f.name == choice.tag)
        assert tag.type.kind == ENUM, (record.key, choice.tag)
        size = max(f.type.size for _, f in members)
        kind = Type(f"{record.key}.{name}".strip("."), UNION, size, Union(record.key, tag, members))
        return Field(name, kind, min(f.offset for _, f in members), 0)

    def walk(self, c_type, record, path="", union_of=None):
        """Fields of a record that are printed: (name, offset, C type); unions by their chosen member, or as a
        Choice where that depends on a tag."""
        for name, field_type in record.fields:
            if RESERVED.search(name):
                continue
            if "[" in field_type and re.search(r"\]\[", field_type):
                continue
            full = f"{path}.{name}".strip(".") if name else path
            nested = self.headers.records.get(self.base(field_type))
            if nested is not None and nested.union:
                choice = self.unions.get((record.key, name), Choice())
                if choice.tag:
                    yield name, 0, choice
                    continue
                for member_path, member_type in choice.paths(name, nested):
                    yield choice.member, self.headers.layouts[(c_type, member_path)][0], member_type
                continue
            if not name or field_type.startswith("@"):
                continue  # a nameless structure
            yield name, self.headers.layouts[(c_type, full)][0], field_type

    # -- which layouts clang is asked for

    def wanted(self, spelled, found):
        """Add the (C type, path) pairs that resolve() will need for a type."""
        spelled = strip_const(spelled)
        while "*" in spelled and not is_function_pointer(spelled):
            spelled = strip_const(pointee(spelled)[0])
        spelled = re.sub(r"(\[\d+\])+$", "", spelled).strip()
        base = self.base(spelled)
        if "*" in base and base != spelled:
            return self.wanted(base, found)
        record = self.headers.records.get(base)
        if record is None or record.union or (spelled, "") in found or spelled.startswith("@"):
            return None
        found.add((spelled, ""))
        for name, field_type in record.fields:
            nested = self.headers.records.get(self.base(field_type))
            if nested is not None and nested.union:
                for path, member_type in self.unions.get((record.key, name), Choice()).paths(name, nested):
                    found.add((spelled, path))
                    self.wanted(member_type, found)
                continue
            if name:
                found.add((spelled, name))
                if "*" not in field_type:
                    self.wanted(field_type, found)
        return None
