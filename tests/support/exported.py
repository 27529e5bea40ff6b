"""Exported libraries, called through their C ABI by ctypes."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

import fusegen as fg


@fg.pipeline
def string(text, unix: fg.PerColumn, threads: fg.PerRow):
    """Every shape of array; names that mean something to C, to its compilers, or to the ABI."""
    m = fg.max(text)
    e = fg.exp((text - m) * threads)
    return {"text_cpu": e / fg.sum(e) * unix, "linux": (fg.sum(e), fg.topk(text, 3))}


class CLibrary:
    """The functions of one: `f(x, …) → status`, arrays by their addresses."""

    def __init__(self, path: Path, name: str) -> None:
        self.functions, self.name = ctypes.CDLL(str(path)), name
        self._error = self.functions[f"{name}_error"]
        self._error.restype = ctypes.c_char_p

    def status(self, function: str, *args: Any) -> int:
        """Numbers are 64-bit but for the last."""
        *rest, last = args
        words = [ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray)
                 else ctypes.c_void_p(None) if a is None else ctypes.c_int64(a) for a in rest]
        return int(self.functions[f"{self.name}_{function}"](*words, ctypes.c_int(last)))

    def error(self) -> str:
        return bytes(self._error()).decode()
