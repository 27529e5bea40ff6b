"""Machine code of CUDA sources: by nvcc where it is there, else by NVRTC."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from fusegen.backend.cache.entries import artifact
from fusegen.backend.cpu.process import run, scratch
from fusegen.backend.cpu.toolchain import failed
from fusegen.backend.exported import Image
from fusegen.backend.settings import compile_seconds
from fusegen.ir.errors import BackendError, CompilerError

Cancelled = Callable[[], bool]

_NONE = b"\0"  # no PTX of its own
_OPTIONS = ("--fatbin", "-std=c++17", "-Wno-deprecated-gpu-targets")


def files(image: Image) -> dict[str, bytes]:
    """Its files by name. Raises BackendError where nothing can compile, CompilerError."""
    nvcc = find_nvcc()
    code, ptx = (_by_nvrtc(image), _ptx(image)) if nvcc is None else (_by_nvcc(nvcc, image), _NONE)
    return {f"{image.name}.code": code, f"{image.name}.ptx": ptx}


def find_nvcc() -> str | None:
    """On PATH, or in $CUDA_HOME or $CUDA_PATH."""
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    places = [shutil.which("nvcc"), *(shutil.which("nvcc", path=f"{h}/bin") for h in homes if h)]
    return next((p for p in places if p), None)


def _by_nvcc(nvcc: str, image: Image) -> bytes:
    """A fat binary: code for the architecture, and PTX for what comes after it."""
    compute = image.arch.replace("sm_", "compute_")
    target = f"-gencode=arch={compute},code=[{image.arch},{compute}]"
    known = Path(nvcc).stat()  # another nvcc may make other code

    def make(cancelled: Cancelled) -> bytes:
        with scratch() as room:
            text, made = room / "kernel.cu", room / "kernel.fatbin"
            text.write_text(image.source, encoding="utf-8")
            command = (nvcc, *_OPTIONS, target, "-o", str(made), str(text))
            try:
                ended = run(command, room / "log", compile_seconds(), cancelled)
            except OSError as error:
                raise CompilerError(command, f"cannot be run: {error.strerror or error}") from error
            if ended.status != 0:
                raise failed(command, ended, compile_seconds())
            return made.read_bytes()

    key = ("fatbin", image.source, nvcc, str(known.st_mtime_ns), str(known.st_size), target)
    return artifact(key, f"machine code {image.name}", make)


def _by_nvrtc(image: Image) -> bytes:
    return _nvrtc(image, f"-arch={image.arch}")


def _ptx(image: Image) -> bytes:
    found = _nvrtc(image, f"-arch={image.arch.replace('sm_', 'compute_')}")
    return found if found.endswith(_NONE) else found + _NONE


def _nvrtc(image: Image, arch: str) -> bytes:
    from fusegen.backend.cuda.run.nvrtc import code_for

    try:
        return code_for(image.source, arch, image.name)
    except BackendError as error:
        raise BackendError(f"{image.arch} needs nvcc or NVRTC. {error}") from error
