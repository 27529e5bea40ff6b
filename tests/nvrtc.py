"""Generated CUDA through the real compiler, without a GPU: cubin and resource report by NVRTC."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from pace import within

from fusegen.runtime.cuda.nvrtc import includes

MOST_SECONDS = 3.0  # to compile any kernel, whatever its K


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

    @property
    def quick(self) -> bool:
        """Was it compiled within the budget?"""
        return within(self.seconds, MOST_SECONDS)


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
    options = ("-std=c++17", f"-arch={arch}", "--ptxas-options=-v", *includes())
    start = time.process_time()  # of this process alone: other work must not fail a budget
    try:
        nvrtc.compileProgram(program, options)
        seconds = time.process_time() - start
        log = nvrtc.getProgramLog(program)
    except nvrtc.NVRTCError as error:
        raise AssertionError(nvrtc.getProgramLog(program)) from error
    finally:
        nvrtc.destroyProgram(program)
    return Compiled(seconds, _reports(log))


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
