"""Generated CUDA through the real compiler, without a GPU: cubin and resource report by NVRTC."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Report:
    """What ptxas says of one entry point."""

    kernel: str
    registers: int
    stack_bytes: int
    spill_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class Compiled:
    seconds: float
    reports: tuple[Report, ...]


def available() -> str | None:
    """None if NVRTC can compile here, else why not."""
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
    except Exception as error:  # CuPy raises RuntimeError, ImportError, or its own
        return f"NVRTC is not here ({error}); install the cuda12 extra"
    return None


def compile_for(source: str, arch: str) -> Compiled:
    """Compile for `sm_NN`; raises cupy's NVRTCError with the log for invalid source."""
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(source, "kernel.cu", (), ())
    options = ("-std=c++17", f"-arch={arch}", "--ptxas-options=-v", *_includes())
    start = time.perf_counter()
    try:
        nvrtc.compileProgram(program, options)
        seconds = time.perf_counter() - start
        log = nvrtc.getProgramLog(program)
    except nvrtc.NVRTCError as error:
        raise AssertionError(nvrtc.getProgramLog(program)) from error
    finally:
        nvrtc.destroyProgram(program)
    return Compiled(seconds, _reports(log))


def _includes() -> tuple[str, ...]:
    import cupy

    found = [Path(cupy.__file__).parent / "_core" / "include" / "cupy" / "_cccl" / "libcudacxx"]
    site = Path(cupy.__file__).parents[1]
    found += [site / "nvidia" / "cuda_runtime" / "include", site / "nvidia" / "cu13" / "include"]
    home = os.environ.get("CUDA_PATH")
    found += [Path(home) / "include"] if home else []
    return tuple(f"-I{p}" for p in found if p.is_dir())


_ENTRY = re.compile(
    r"Function properties for (?P<name>\w+)\s*\n[^\d\n]*(?P<stack>\d+) bytes stack frame, "
    r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads\s*\n"
    r".*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)"
)


def _reports(log: str) -> tuple[Report, ...]:
    found = []
    for m in _ENTRY.finditer(log):
        shared = re.search(r"(\d+) bytes smem", m["rest"])
        spilled = int(m["stores"]) + int(m["loads"])
        found.append(Report(m["name"], int(m["registers"]), int(m["stack"]), spilled,
                            int(shared[1]) if shared else 0))  # fmt: skip
    return tuple(found)
