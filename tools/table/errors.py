"""Error tables: names from the headers, texts from the runtime libraries themselves."""

import ctypes
from dataclasses import dataclass


@dataclass(frozen=True)
class Error:
    code: int
    name: str
    message: str


def runtime_texts(libraries, codes):
    """What cudaGetErrorName and cudaGetErrorString say; the newest library that knows a code decides."""
    texts = {}
    for path in libraries:
        library = ctypes.CDLL(str(path))
        for function in (library.cudaGetErrorName, library.cudaGetErrorString):
            function.restype = ctypes.c_char_p
        unknown = library.cudaGetErrorString(-1)
        for code in codes:
            text = library.cudaGetErrorString(code)
            if code not in texts and text != unknown:
                texts[code] = (library.cudaGetErrorName(code).decode(), text.decode())
    return texts


def enumerators(majors, enum):
    """Value -> name over the headers of all majors, the newest deciding."""
    found = {}
    for headers in majors:  # newest first
        for name in headers.enums[enum]:
            found.setdefault(headers.values[name], name)
    return found


def read_messages(path):
    """Texts that no library gives: code, text."""
    messages = {}
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            code, text = line.split("\t", 1)
            messages[int(code)] = text.strip()
    return messages


def tables(majors, libraries, own):
    """The two error tables, runtime and driver, ascending by code."""
    names = enumerators(majors, "cudaError")
    texts = runtime_texts(libraries, sorted(names))
    runtime = []
    for code, name in sorted(names.items()):
        if code not in texts and code not in own:
            raise SystemExit(f"mktable: no text for {name} ({code})")
        reported, text = texts.get(code, (name, own.get(code)))
        if reported not in {n for h in majors for n in h.enums["cudaError"]}:
            raise SystemExit(f"mktable: the library calls {code} {reported}, the headers {name}")
        runtime.append(Error(code, reported, text))
    known = {e.code: e.message for e in runtime}
    driver = []
    for code, name in sorted(enumerators(majors, "cudaError_enum").items()):
        text = own.get(code, known.get(code))
        if text is None:
            raise SystemExit(f"mktable: no text for {name} ({code}) in driver-messages.txt")
        driver.append(Error(code, name, text))
    return runtime, driver
