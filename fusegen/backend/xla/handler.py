"""Handlers of XLA's foreign function interface: C++ that runs what Python has prepared.

Compiled against the headers of the XLA that calls them, by the host's compiler, and kept in the
cache. A handler finds a run by its key, which is the same in every process; addresses are told to
it as long as the process lives.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from fusegen.backend.cache.entries import artifact
from fusegen.backend.cpu.loaded import loaded_by
from fusegen.backend.cpu.toolchain import build, find_compiler, unusable, version
from fusegen.backend.executable import Record
from fusegen.backend.own_files import merged
from fusegen.ir.errors import BackendError, CompilerError, InternalError

LEARN, RUN = "fusegen_learn", "fusegen_run"
BOUNDARY = 256  # bytes: a workspace begins on one, wherever what XLA gives for it begins
_PLATFORMS = {"cpu": "cpu", "cuda": "CUDA"}  # of memories, as XLA calls them


class Handler:
    """One for arrays of one memory. `run`: the C function that XLA calls."""

    def __init__(self, library: Any, platform: str) -> None:
        self.run, self.platform = library[RUN], platform
        self._learn = library[LEARN]
        self._learn.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64)
        self._kept: dict[tuple[str, int], Record] = {}

    def learn(self, records: Sequence[Record]) -> str:
        """The key of a run, on one device after another; known as long as the process lives."""
        told = "\n".join(r.told for r in records)
        key = hashlib.sha256(told.encode()).hexdigest()[:32]
        for i, record in enumerate(records):
            n = len(record.words)
            words = (ctypes.c_int64 * n)(*record.words)
            if not self._learn(key.encode(), words, n):
                raise BackendError(f"the handler for XLA does not understand run {key}")
            self._kept[key, i] = record
        return key


@cache
def handler(memory: str, include: str, headers: str) -> Handler:
    """The handler for arrays in the memory of that name. include: the folder of XLA's headers;
    headers: their version.

    Raises BackendError without a compiler, CompilerError, InternalError."""
    compiler = find_compiler()
    if compiler is None:
        raise BackendError("no C++ compiler was found. Install g++ or clang++, or set CXX to one.")
    flags = ("-O1", "-pthread", "-fvisibility=hidden", f"-I{include}")
    text = merged(f"xla/{memory}.cpp")
    key = ("xla", text, headers, *compiler.command(flags), version(compiler))

    def make(cancelled: Callable[[], bool]) -> bytes:
        return build(compiler, flags, text, [LEARN, RUN], cancelled)

    try:
        data = artifact(key, f"XLA handler {memory}", make)
    except CompilerError as error:
        if not error.refused or unusable(compiler, ()):
            raise
        raise InternalError(f"the handler for XLA does not compile\n{error}") from error
    return Handler(loaded_by(ctypes.CDLL, data), _PLATFORMS[memory])
