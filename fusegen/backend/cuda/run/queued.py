"""Work of an exported library among CuPy's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusegen.backend.cuda.run.device import bind_context, device_index
from fusegen.backend.cuda.run.driver import driver
from fusegen.backend.cuda.run.families import cupy_family


class Queued:
    """CuPy's current stream, as `prebuilt.Stream`; what a graph captures there stays."""

    def __init__(self) -> None:
        self._captured: list[Any] = []

    def __call__(self, like: Any, arrays: Mapping[str, Any], copies: Sequence[Any]) -> int:
        bind_context()
        stream = cupy_family().stream(device_index())
        if copies and driver().capturing(stream):
            self._captured += copies  # they are the graph's
        return stream
