"""GPU functions of an exported library, called with arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fusegen.backend.cuda.plain.memory import has_cupy
from fusegen.backend.cuda.plain.sources import ready_on, stream_of
from fusegen.backend.executable import Progress
from fusegen.backend.exported import number_name
from fusegen.backend.words import word
from fusegen.ir.codec import decoded
from fusegen.ir.errors import BackendError
from fusegen.ir.kernel import Program


class PrebuiltExecutable:
    """See `Executable`. The library chooses the kernel, and takes memory beside the arrays from the
    GPU's own pool. Raises BackendError where it refuses.

    stream: on which work with an array like the first is queued, and with copies of these arrays.
    """

    def __init__(
        self, library: Any, record: Mapping[str, Any], name: str, stream: Stream
    ) -> None:
        self.program: Program = decoded(record["program"].encode(), Program)
        self.schedule = None
        params = {p.name: p for p in (*self.program.inputs, *self.program.outputs)}
        self._params = [params[n] for n in record["order"]]
        self._numbers = [number_name(n) for n in record["constants"]]
        self._function = self._found(library, record["function"], 1)
        self._strips = self._found(library, f"{record['function']}_side_by_side", 2) if (
            record["side_by_side"]) else None
        self._error = library.function(f"{name}_error", result=ctypes.c_char_p)
        self._stream = stream

    def _found(self, library: Any, name: str, n_strides: int) -> Any:
        """A function of the library's C ABI."""
        types: list[Any] = []
        for p in self._params:
            types += [ctypes.c_void_p] + n_strides * [ctypes.c_int64] * (p.shape == "element")
        types += [ctypes.c_double for _ in self._numbers]
        sizes = (1 + n_strides) * [ctypes.c_int64]
        return library.function(name, *types, *sizes, ctypes.c_void_p, result=ctypes.c_int)

    @property
    def takes_side_by_side(self) -> bool:
        """Has the library kernels for rows that lie so?"""
        return self._strips is not None

    def __call__(
        self, arrays: Mapping[str, Any], n_rows: int, n_cols: int, *, first_column: int = 0,
        like: Any = None, copies: Sequence[Any] = (), threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Queue the launches; arrays: CuPy's, or Views."""
        words: list[int | float] = []
        inner = 0  # rows side by side
        for p in self._params:
            array = arrays[p.name]
            words.append(word(array))
            if p.shape == "element" and array.ndim == 3:
                words += [s // array.itemsize for s in array.strides[:2]]
                inner = int(array.shape[2])
            elif p.shape == "element":
                words.append(array.strides[0] // array.itemsize if n_rows > 1 else n_cols)
        words += [float(arrays[n]) for n in self._numbers]
        stream = self._stream(like, arrays, copies)
        sizes = (n_rows // inner, n_cols, inner) if inner else (n_rows, n_cols)
        function: Any = self._strips if inner else self._function
        if function(*words, *sizes, stream):
            raise BackendError(self._error().decode())


Stream = Callable[[Any, Mapping[str, Any], Sequence[Any]], int]


def _of_library(like: Any, arrays: Mapping[str, Any], copies: Sequence[Any]) -> int:
    """What the arrays' own library says."""
    stream = stream_of(like)
    ready_on(stream, arrays.values())
    return stream


def prebuilt(library: Any, records: Sequence[Mapping[str, Any]]) -> PrebuiltExecutable:
    """All parts for GPUs have one function."""
    record = records[0]
    name = record["function"].removesuffix(f"_{record['variant']}_cuda")
    if not has_cupy():
        return PrebuiltExecutable(library, record, name, _of_library)
    from fusegen.backend.cuda.run.queued import Queued

    return PrebuiltExecutable(library, record, name, Queued())
