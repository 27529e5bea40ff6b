"""Exported libraries, called through their C ABI by ctypes."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simt import built

import fusegen as fg
from fusegen.backend.export import build
from fusegen.backend.exported import Image

FAKE = Path(__file__).parent / "cuda" / "fake_driver.cpp"


def named_images(patch: pytest.MonkeyPatch) -> None:
    """Machine code is its name, as the fake driver reads it."""
    def named(image: Image) -> dict[str, bytes]:
        return {f"{image.name}.code": image.name.encode() + b"\0", f"{image.name}.ptx": b"\0"}

    patch.setattr(build, "files", named)


def fake_driver() -> Path:
    """The folder of a libcuda.so.1 that takes notes."""
    text = FAKE.read_text(encoding="utf-8")
    folder = built.folder() / f"fake-driver-{built.digest(text)}"
    folder.mkdir(exist_ok=True)
    product = folder / "libcuda.so.1"
    with built.building(product) as place:
        if place is not None:
            command = ["c++", "-std=c++17", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1",
                       "-o", str(place / product.name), str(FAKE)]
            subprocess.run(command, check=True, capture_output=True)
    return folder


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
                 else ctypes.c_void_p(None) if a is None
                 else ctypes.c_double(a) if isinstance(a, float) else ctypes.c_int64(a)
                 for a in rest]
        return int(self.functions[f"{self.name}_{function}"](*words, ctypes.c_int(last)))

    def error(self) -> str:
        return bytes(self._error()).decode()
