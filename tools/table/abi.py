"""Where the two ABIs put parameters (System V x86-64 psABI 3.2.3; AAPCS64 6.8.2)."""

from . import model

REG, STACK, REF, STACKREF, UNREADABLE = range(5)
WHERE_NAMES = "REG STACK REF STACKREF UNREADABLE".split()
BY_VALUE_STRUCTS = (model.STRUCT, model.DIM3, model.BYTES)


def words(kind):
    return (kind.size + 7) // 8


def is_struct(kind):
    return kind.kind in BY_VALUE_STRUCTS


def has_float(kind):
    """A structure with a floating-point member would travel in vector registers."""
    if kind.kind == model.FLOAT:
        return True
    return kind.kind == model.STRUCT and any(has_float(f.type) for f in kind.ref.fields)


def x86_64(kinds, sret):
    """Places of parameters of these types; a hidden result pointer takes the first register."""
    reg, stack, places = int(sret), 0, []
    for kind in kinds:
        if kind.kind == model.FLOAT:
            places.append((UNREADABLE, 0, 0))
            continue
        assert not (is_struct(kind) and kind.size <= 16 and has_float(kind)), kind.name
        n = words(kind)
        if n <= 2 and reg + n <= 6:
            places.append((REG, reg, n))
            reg += n
        else:
            places.append((STACK, stack, n))
            stack += n
    return places


def aarch64(kinds, _sret):
    """The same for aarch64: x8 holds a hidden result pointer, so nothing shifts."""
    reg, stack, places = 0, 0, []
    for kind in kinds:
        if kind.kind == model.FLOAT:
            places.append((UNREADABLE, 0, 0))
            continue
        assert not (is_struct(kind) and has_float(kind)), kind.name
        by_reference = is_struct(kind) and kind.size > 16
        n = 1 if by_reference else words(kind)
        if reg + n <= 8:
            places.append((REF if by_reference else REG, reg, n))
            reg += n
        else:
            reg = 8  # once one is on the stack, so are all that follow
            places.append((STACKREF if by_reference else STACK, stack, n))
            stack += n
    return places


PLACES = (x86_64, aarch64)
