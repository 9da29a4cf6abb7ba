"""The parameters of graphs' nodes as CUDA's headers lay them out, by hand: bytes for a program to pass, and
what a trace must show of them."""

import itertools
import struct

SIZES = {"p": 8, "x": 8, "s": 8, "u": 4, "i": 4, "e": 4, "3": 4, "h": 2, "b": 1}


class Filled:
    """Fields with a value of its own each, laid out as C does: `bytes`, and `shown` as an event has it."""

    def __init__(self, fields, numbers, offset=0):
        self.bytes, self.shown, self.align = b"", {}, 1
        for name, kind in fields:
            self._add(name, kind, numbers, offset)
        self.bytes += b"\0" * (-(offset + len(self.bytes)) % self.align)

    def _room(self, align, offset):
        self.align = max(self.align, align)
        self.bytes += b"\0" * (-(offset + len(self.bytes)) % align)

    def _add(self, name, kind, numbers, offset):
        if isinstance(kind, int):  # reserved
            self.bytes += b"\0" * kind
        elif isinstance(kind, list):
            align = Filled(kind, itertools.count(1)).align
            self._room(align, offset)
            inner = Filled(kind, numbers, offset + len(self.bytes))
            self.bytes += inner.bytes
            self.shown[name] = inner.shown
        elif isinstance(kind, tuple):
            self._room(4, offset)
            self.bytes += struct.pack("<i", kind[0])
            self.shown[name] = kind[1]
        else:
            self._room(SIZES[kind], offset)
            self._value(name, kind, numbers)

    def _value(self, name, kind, numbers):
        value = next(numbers)
        if kind in "px":
            value += 0x7f0000000000 if kind == "p" else 1 << 60
            self.shown[name] = hex(value)
            self.bytes += struct.pack("<Q", value)
        elif kind == "3":
            values = [value, next(numbers), next(numbers)]
            self.shown[name] = values
            self.bytes += struct.pack("<III", *values)
        else:
            value = -value if kind == "i" else value
            self.shown[name] = value
            self.bytes += struct.pack("<" + {"s": "Q", "u": "I", "i": "i", "h": "H", "b": "B"}[kind], value)


POS = [("x", "s"), ("y", "s"), ("z", "s")]
PITCHED = [("ptr", "p"), ("pitch", "s"), ("xsize", "s"), ("ysize", "s")]
EXTENT = [("width", "s"), ("height", "s"), ("depth", "s")]
MEMCPY3D = [("srcArray", "p"), ("srcPos", POS), ("srcPtr", PITCHED), ("dstArray", "p"), ("dstPos", POS),
            ("dstPtr", PITCHED), ("extent", EXTENT), ("kind", (2, "cudaMemcpyDeviceToHost"))]
MEMSET = [("dst", "p"), ("pitch", "s"), ("value", "u"), ("elementSize", "u"), ("width", "s"), ("height", "s")]
BATCH = [("count", "s"), ("dsts", "p"), ("srcs", "p"), ("sizes", "p"), ("attrs", "p"), ("attrsIdxs", "p"),
         ("numAttrs", "s")]
SEMAPHORES = [("extSemArray", "p"), ("paramsArray", "p"), ("numExtSems", "u")]
POOL = [("allocType", (1, "cudaMemAllocationTypePinned")), ("handleTypes", (1, "cudaMemHandleTypePosixFileDescriptor")),
        ("location", [("type", (1, "cudaMemLocationTypeDevice")), ("id", "u")]), ("win32SecurityAttributes", "p"),
        ("maxSize", "s"), ("usage", "h"), ("reserved", 54)]
KERNEL = [("func", "p"), ("gridDim", "3"), ("blockDim", "3"), ("sharedMemBytes", "u"), ("kernelParams", "p"),
          ("extra", "p")]
CONDITIONAL = [("handle", "x"), ("type", (2, "cudaGraphCondTypeSwitch")), ("size", "u"), ("phGraph_out", "p")]
CONTEXT = [("ctx", "p")]
RUNTIME12 = {
    (0, "cudaGraphNodeTypeKernel"): ("kernel", KERNEL),
    (1, "cudaGraphNodeTypeMemcpy"): ("memcpy", [("flags", "i"), ("reserved", 12), ("copyParams", MEMCPY3D)]),
    (2, "cudaGraphNodeTypeMemset"): ("memset", MEMSET),
    (3, "cudaGraphNodeTypeHost"): ("host", [("fn", "p"), ("userData", "p")]),
    (4, "cudaGraphNodeTypeGraph"): ("graph", [("graph", "p"), ("ownership", (1, "cudaGraphChildGraphOwnershipMove"))]),
    (5, "cudaGraphNodeTypeEmpty"): None,
    (6, "cudaGraphNodeTypeWaitEvent"): ("eventWait", [("event", "p")]),
    (7, "cudaGraphNodeTypeEventRecord"): ("eventRecord", [("event", "p")]),
    (8, "cudaGraphNodeTypeExtSemaphoreSignal"): ("extSemSignal", SEMAPHORES),
    (9, "cudaGraphNodeTypeExtSemaphoreWait"): ("extSemWait", SEMAPHORES),
    (10, "cudaGraphNodeTypeMemAlloc"): ("alloc", [("poolProps", POOL), ("accessDescs", "p"), ("accessDescCount", "s"),
                                                  ("bytesize", "s"), ("dptr", "p")]),
    (11, "cudaGraphNodeTypeMemFree"): ("free", [("dptr", "p")]),
    (13, "cudaGraphNodeTypeConditional"): ("conditional", CONDITIONAL),
    (77, "cudaGraphNodeType(77)"): None,
}
RUNTIME13 = RUNTIME12 | {
    (0, "cudaGraphNodeTypeKernel"): ("kernel", [*KERNEL, *CONTEXT,
                                                ("functionType", (1, "cudaKernelFunctionTypeDeviceEntry"))]),
    (1, "cudaGraphNodeTypeMemcpy"): ("memcpy", [("flags", "i"), ("reserved", 4), *CONTEXT, ("copyParams", MEMCPY3D)]),
    (2, "cudaGraphNodeTypeMemset"): ("memset", [*MEMSET, *CONTEXT]),
    (3, "cudaGraphNodeTypeHost"): ("host", [("fn", "p"), ("userData", "p"), ("syncMode", "u"), *CONTEXT]),
    (7, "cudaGraphNodeTypeEventRecord"): ("eventRecord", [("event", "p"), *CONTEXT]),
    (8, "cudaGraphNodeTypeExtSemaphoreSignal"): ("extSemSignal", [*SEMAPHORES, *CONTEXT]),
    (9, "cudaGraphNodeTypeExtSemaphoreWait"): ("extSemWait", [*SEMAPHORES, *CONTEXT]),
    (13, "cudaGraphNodeTypeConditional"): ("conditional", [*CONDITIONAL, *CONTEXT]),
    (14, "cudaGraphNodeTypeMemcpyBatch"): ("memcpyBatch", [*BATCH, *CONTEXT]),
    (17, "cudaGraphNodeTypeExternalEngine"): None,
}


def memcpy_place(side):
    return [(f"{side}XInBytes", "s"), (f"{side}Y", "s"), (f"{side}Z", "s"), (f"{side}LOD", "s"),
            (f"{side}MemoryType", (1, "CU_MEMORYTYPE_HOST") if side == "src" else (2, "CU_MEMORYTYPE_DEVICE")),
            (f"{side}Host", "p"), (f"{side}Device", "p"), (f"{side}Array", "p"), ("reserved", 8),
            (f"{side}Pitch", "s"), (f"{side}Height", "s")]


DRIVER_POOL = [("allocType", (2, "CU_MEM_ALLOCATION_TYPE_MANAGED")), ("handleTypes", (8, "CU_MEM_HANDLE_TYPE_FABRIC")),
               ("location", [("type", (1, "CU_MEM_LOCATION_TYPE_DEVICE")), ("id", "u")]),
               ("win32SecurityAttributes", "p"), ("maxSize", "s"), ("usage", "h"), ("gpuDirectRDMACapable", "b"),
               ("reserved", 53)]
DRIVER = {
    (0, "CU_GRAPH_NODE_TYPE_KERNEL"): ("kernel", [
        ("func", "p"), *[(f"{what}Dim{axis}", "u") for what in ("grid", "block") for axis in "XYZ"],
        ("sharedMemBytes", "u"), ("kernelParams", "p"), ("extra", "p"), ("kern", "p"), ("ctx", "p")]),
    (1, "CU_GRAPH_NODE_TYPE_MEMCPY"): ("memcpy", [
        ("flags", "i"), ("reserved", 4), ("copyCtx", "p"),
        ("copyParams", [*memcpy_place("src"), *memcpy_place("dst"), ("WidthInBytes", "s"), ("Height", "s"),
                        ("Depth", "s")])]),
    (2, "CU_GRAPH_NODE_TYPE_MEMSET"): ("memset", [*MEMSET, *CONTEXT]),
    (3, "CU_GRAPH_NODE_TYPE_HOST"): ("host", [("fn", "p"), ("userData", "p"), ("syncMode", "u")]),
    (4, "CU_GRAPH_NODE_TYPE_GRAPH"): ("graph", [("graph", "p"),
                                               ("ownership", (0, "CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE"))]),
    (5, "CU_GRAPH_NODE_TYPE_EMPTY"): None,
    (6, "CU_GRAPH_NODE_TYPE_WAIT_EVENT"): ("eventWait", [("event", "p")]),
    (7, "CU_GRAPH_NODE_TYPE_EVENT_RECORD"): ("eventRecord", [("event", "p")]),
    (8, "CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL"): ("extSemSignal", SEMAPHORES),
    (9, "CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT"): ("extSemWait", SEMAPHORES),
    (10, "CU_GRAPH_NODE_TYPE_MEM_ALLOC"): ("alloc", [("poolProps", DRIVER_POOL), ("accessDescs", "p"),
                                                     ("accessDescCount", "s"), ("bytesize", "s"), ("dptr", "p")]),
    (11, "CU_GRAPH_NODE_TYPE_MEM_FREE"): ("free", [("dptr", "p")]),
    (12, "CU_GRAPH_NODE_TYPE_BATCH_MEM_OP"): ("memOp", [("ctx", "p"), ("count", "u"), ("paramArray", "p"),
                                                        ("flags", "u")]),
    (13, "CU_GRAPH_NODE_TYPE_CONDITIONAL"): ("conditional", [
        ("handle", "x"), ("type", (1, "CU_GRAPH_COND_TYPE_WHILE")), ("size", "u"), ("phGraph_out", "p"), *CONTEXT]),
    (14, "CU_GRAPH_NODE_TYPE_MEMCPY_BATCH"): ("memcpyBatch", BATCH),
    (18, "CU_GRAPH_NODE_TYPE_FABRIC_CPY_BATCH"): ("fabricCpyBatch", [("numOps", "s"), ("opList", "p"), ("flags", "x")]),
    (-5, "CUgraphNodeType_enum(-5)"): None,
}


def node(tag, member):
    """A node's 256 bytes, and what an event shows of them."""
    numbers = itertools.count(11)
    head, shown = struct.pack("<i12x", tag[0]), {"type": tag[1]}
    if member:
        filled = Filled(member[1], numbers, len(head))
        head += filled.bytes
        shown[member[0]] = filled.shown
    assert len(head) <= 248
    return head.ljust(256, b"\0"), shown


def keys(shown):
    """The normalised keys that belong to a node: of kernels, copies, fills, allocated and freed memory."""
    def place(side, copy):
        return copy[f"{side}Host" if copy[f"{side}MemoryType"].endswith("HOST") else f"{side}Device"]

    kernel, copy, fill = shown.get("kernel"), shown.get("memcpy", {}).get("copyParams"), shown.get("memset")
    if kernel:
        grid, block = (kernel.get(f"{what}Dim") or [kernel[f"{what}Dim{axis}"] for axis in "XYZ"]
                       for what in ("grid", "block"))
        return {"kernel_handle": kernel["func"], "grid": grid, "block": block,
                "shared_bytes": kernel["sharedMemBytes"]}
    if copy and "kind" in copy:  # arrays take part: the width counts elements
        return {"direction": "d2h", "ptr": copy["dstPtr"]["ptr"], "src_ptr": copy["srcPtr"]["ptr"]}
    if copy:
        return {"bytes": copy["WidthInBytes"] * copy["Height"] * copy["Depth"], "direction": "h2d",
                "ptr": place("dst", copy), "src_ptr": place("src", copy)}
    if fill:
        return {"bytes": fill["elementSize"] * fill["width"] * fill["height"], "ptr": fill["dst"]}
    if "alloc" in shown:
        return {"bytes": shown["alloc"]["bytesize"], "device": shown["alloc"]["poolProps"]["location"]["id"]}
    return {"ptr": shown["free"]["dptr"]} if "free" in shown else {}
