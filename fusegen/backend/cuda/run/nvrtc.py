"""Generated CUDA to machine code by NVRTC, kept on disk.

CuPy's own way from a source to a module asks for -ftz=true, which takes subnormal numbers for
zeros. Here no number is taken for another.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import ModuleType

from fusegen.backend.cache.entries import artifact
from fusegen.backend.cuda.run.device import cupy_module
from fusegen.backend.notices import LOG
from fusegen.ir.errors import BackendError

_OPTIONS = ("-std=c++17",)


def machine_code(source: str, name: str = "", *, own_features: bool = False) -> bytes:
    """What the current device can load, from the cache if it is there; own_features: of devices of
    its compute capability alone, such as wgmma. Raises BackendError if NVRTC refuses the source."""
    capability = cupy_module().cuda.Device().compute_capability
    return code_for(source, f"{_architecture(capability)}{'a' if own_features else ''}", name)


def code_for(source: str, arch: str, name: str) -> bytes:
    """Machine code for -arch=sm_…, PTX for -arch=compute_…; needs no device. Raises BackendError
    without NVRTC, or if it refuses the source."""
    options = (*_OPTIONS, arch, *includes())
    version = ".".join(map(str, _nvrtc().getVersion()))
    return artifact(("cuda", source, version, *options), f"machine code {name}",
                    lambda _: _compiled(source, options))


def includes() -> tuple[str, ...]:
    """Options that say where the toolkit's headers are: types of 16 bits come from there."""
    cupy = cupy_module()
    home, prefix = Path(str(cupy.__file__)).parent, Path(sys.prefix)
    toolkit = os.environ.get("CUDA_PATH") or cupy.cuda.get_cuda_path()
    folders = [home.parent / "nvidia" / "cuda_runtime" / "include",  # as pip installs it
               home.parent / "nvidia" / "cu13" / "include",
               prefix / "targets" / "x86_64-linux" / "include",  # as conda does
               *([Path(toolkit) / "include"] if toolkit else [])]
    found = [home / "_core" / "include" / "cupy" / "_cccl" / "libcudacxx",
             *(p for p in folders if (p / "cuda_fp16.h").is_file())]
    return tuple(f"-I{p}" for p in found)


def _architecture(capability: str) -> str:
    """Code for the device; where NVRTC is older, code that its driver translates."""
    known = [int(a) for a in _nvrtc().getSupportedArchs() if int(a) <= int(capability)]
    if not known:
        raise BackendError(
            f"this NVRTC has no code for devices of compute capability {capability}. "
            "Install the CuPy that fits the driver: fusegen doctor"
        )
    return f"-arch={'sm' if max(known) == int(capability) else 'compute'}_{max(known)}"


def _compiled(source: str, options: tuple[str, ...]) -> bytes:
    nvrtc, start = _nvrtc(), time.perf_counter()
    program = nvrtc.createProgram(source, "kernel.cu", (), ())
    try:
        nvrtc.compileProgram(program, options)
        native = any(o.startswith("-arch=sm") for o in options)
        code = nvrtc.getCUBIN(program) if native else nvrtc.getPTX(program)
    except nvrtc.NVRTCError as error:
        raise BackendError("NVRTC refused the generated source: "
                           f"{nvrtc.getProgramLog(program) or error}") from error
    finally:
        nvrtc.destroyProgram(program)
    LOG.info("compiled by NVRTC: %d bytes in %.2f s", len(code), time.perf_counter() - start)
    return code if isinstance(code, bytes) else str(code).encode()


def _nvrtc() -> ModuleType:
    return cupy_module().cuda.nvrtc  # type: ignore[no-any-return]
