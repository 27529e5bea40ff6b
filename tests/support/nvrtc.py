"""Generated CUDA through the real compiler, without a GPU: cubin and resource report by NVRTC."""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from simt.built import building, digest, folder

from fusegen.backend.cuda.run.nvrtc import includes
from fusegen.backend.emit.headers import include_dir
from support.compilers import bare
from support.pace import within

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
    serialised: bool = False  # do products of a warpgroup wait for one another?
    warnings: tuple[str, ...] = ()

    @property
    def quick(self) -> bool:
        """Was it compiled within the budget?"""
        return self.within(MOST_SECONDS)

    def within(self, budget: float) -> bool:
        """Did it take no longer, in processor seconds, than it may where a network of 64 numbers
        takes `_USUAL_SECONDS`? Beside other work compilers slow down more than Python does."""
        return within(self.seconds, budget, _slowness)


def available() -> str | None:
    """None if NVRTC can compile here, else why not."""
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
    except Exception as error:  # CuPy raises RuntimeError, ImportError, or its own
        return f"NVRTC is not here ({error}); install the cuda12 extra"
    return None


def compile_for(source: str, arch: str) -> Compiled:
    """Compile for `sm_NN`, each text once; raises AssertionError with the log for invalid text."""
    return _compiled(source, arch)


def valid_for(source: str, arch: str) -> Compiled:
    """As compile_for, with little optimisation: where neither registers, spills nor time matter."""
    from cupy.cuda import nvrtc

    return _compiled(source, arch, *(_LITTLE if nvrtc.getVersion() >= (12, 9) else ()))


def check_names(source: str, arch: str) -> None:
    """Have the compiler read a text, templates that it uses included, and make no code of it: where
    names and types alone matter. Raises AssertionError with the log."""
    warnings_of(source, arch)


def warnings_of(source: str, arch: str) -> tuple[str, ...]:
    """Likewise: what it warns of, as of what is declared and never used."""
    from cupy.cuda import nvrtc

    return _compiled(source, arch, *(_READ if nvrtc.getVersion() >= (12, 9) else ())).warnings


def within_budget(sources: Mapping[str, str], check: Callable[[str, str], None]) -> None:
    """Hold a program for several GPUs against its budgets: `check(source, arch)` once for each
    text. Where a text for one GPU is also that for another, the other's compiler has only to take
    it: what a text asks for is the text's.
    """
    texts: dict[str, str] = {}
    for arch in sorted(sources, key=lambda arch: arch != MAIN):
        first = texts.setdefault(bare(sources[arch]), arch)
        if first == arch:
            check(sources[arch], arch)
        else:
            assert valid_for(sources[arch], arch).reports, f"ptxas reported no kernel for {arch}"


MAIN = "sm_90"
_USUAL_SECONDS = 0.42
_NETWORK = """
extern "C" __global__ void sorted(float* x)
{
    float own[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) own[i] = x[i * blockDim.x + threadIdx.x];
#pragma unroll
    for (int size = 2; size <= 64; size *= 2) {
#pragma unroll
        for (int step = size / 2; step > 0; step /= 2) {
#pragma unroll
            for (int i = 0; i < 64; ++i) {
                const int other = i ^ step;
                if (other < i) continue;
                const float low = fminf(own[i], own[other]), high = fmaxf(own[i], own[other]);
                own[i] = i & size ? high : low;
                own[other] = i & size ? low : high;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 64; ++i) x[i * blockDim.x + threadIdx.x] = own[i];
}
"""

_READ = ("--fdevice-syntax-only",)  # a tenth of the time
_LITTLE = ("--Ofast-compile=mid",)  # of NVRTC 12.9: half the time, and "max" takes longer again


def _slowness() -> float:
    options = ("-std=c++17", f"-arch={MAIN}", "--ptxas-options=-v")
    return _compiled_once(_NETWORK, options).seconds / _USUAL_SECONDS


def _compiled(source: str, arch: str, *how: str) -> Compiled:
    from cupy.cuda import nvrtc

    options = ("-std=c++17", f"-arch={arch}", "--ptxas-options=-v", f"-I{include_dir()}",
               *includes(), *how)
    version = ".".join(map(str, nvrtc.getVersion()))
    product = folder() / f"{digest(version, *options, bare(source))}.nvrtc"
    if not product.exists():
        with building(product) as scratch:
            if scratch is not None:
                found = _compile(source, options)
                (scratch / product.name).write_bytes(pickle.dumps(found))
    found = pickle.loads(product.read_bytes())
    assert isinstance(found, Compiled)
    return found


def _compile(source: str, options: tuple[str, ...]) -> Compiled:
    """The least of three where it takes long: what others do slows a processor for some seconds."""
    found = _compiled_once(source, options)
    for _ in range(2):
        if found.seconds > MOST_SECONDS:
            found = min(found, _compiled_once(source, options), key=lambda one: one.seconds)
    return found


def _compiled_once(source: str, options: tuple[str, ...]) -> Compiled:
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(source, "kernel.cu", (), ())
    start = time.process_time()  # of this process alone: other work must not fail a budget
    try:
        nvrtc.compileProgram(program, options)
        seconds = time.process_time() - start
        log = nvrtc.getProgramLog(program)
    except nvrtc.NVRTCError as error:
        raise AssertionError(nvrtc.getProgramLog(program)) from error
    finally:
        nvrtc.destroyProgram(program)
    return Compiled(seconds, _reports(log), "wgmma.mma_async instructions are serialized" in log,
                    tuple(re.findall(r"warning #\S+: .*", log)))


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
                            int(shared[1]) if shared else 0))
    return tuple(found)
