"""Facts about hardware: docs/targets.md has the source of each figure; nothing here is a choice."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from fusegen.ir.errors import ArgumentError
from fusegen.ir.nearest import nearest

WARP = 32  # lanes


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaTarget:
    """One compute capability, and a product that has it; docs/targets.md names the sources.

    Where a device is there, its own counts stand in the product's place (`on`).
    """

    arch: str
    product: str  # whose counts follow the limits
    shared_per_block: int  # bytes a block may opt in to
    shared_per_sm: int  # bytes
    threads_per_sm: int
    blocks_per_sm: int
    multiprocessors: int
    l2_bytes: int
    bandwidth: float  # of device memory, bytes per second
    largest_cluster: int = 1  # blocks; 1: none
    registers_per_sm: int = 65536  # 32-bit
    static_shared: int = 49152  # bytes without opting in
    max_block_threads: int = 1024

    @property
    def name(self) -> str:
        return self.arch

    @property
    def backend(self) -> str:
        return "cuda"

    @property
    def elsewhere(self) -> str:
        """The architecture, without this machine's counts."""
        return self.arch

    @property
    def clusters(self) -> bool:
        """Can blocks form clusters and read one another's shared memory?"""
        return self.largest_cluster > 1

    @property
    def cluster_sizes(self) -> tuple[int, ...]:
        """Blocks of the clusters worth a thought. A multiprocessor in a part of the chip that is
        switched off is no cluster's."""
        most = min(self.largest_cluster, self.multiprocessors // 2)
        return tuple(n for n in (2, 4, 8, 16) if n <= most)

    @property
    def ampere(self) -> bool:
        """Are there copies to shared memory that nobody waits for, and reductions of a warp?"""
        return int(self.arch[3:]) >= 80

    def on(
        self, product: str, multiprocessors: int, l2_bytes: int, bandwidth: float | None = None
    ) -> CudaTarget:
        """The same limits with a device's own counts. bandwidth: of its memory, by clock and width
        of the bus, in bytes per second; None: not told. A part of a device has no more of it than
        its part of the multiprocessors."""
        share = self.bandwidth * multiprocessors / self.multiprocessors
        return replace(self, product=product, multiprocessors=multiprocessors, l2_bytes=l2_bytes,
                       bandwidth=min(share, bandwidth or share))


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTarget:
    """One instruction-set level of a CPU family."""

    name: str
    vector_bytes: int
    flags: tuple[str, ...]  # for gcc and clang

    @property
    def backend(self) -> str:
        return "cpu"

    @property
    def elsewhere(self) -> str:
        """Whatever the other machine has."""
        return "cpu"


CUDA_TARGETS = {
    t.arch: t
    for t in (
        CudaTarget(arch="sm_75", product="Quadro RTX 8000", shared_per_block=65536,
                   shared_per_sm=65536, threads_per_sm=1024, blocks_per_sm=16,
                   multiprocessors=72, l2_bytes=6 << 20, bandwidth=672e9),
        CudaTarget(arch="sm_80", product="A100 80GB SXM", shared_per_block=166912,
                   shared_per_sm=167936, threads_per_sm=2048, blocks_per_sm=32,
                   multiprocessors=108, l2_bytes=40 << 20, bandwidth=2039e9),
        CudaTarget(arch="sm_86", product="A40", shared_per_block=101376,
                   shared_per_sm=102400, threads_per_sm=1536, blocks_per_sm=16,
                   multiprocessors=84, l2_bytes=6 << 20, bandwidth=696e9),
        CudaTarget(arch="sm_89", product="RTX 6000 Ada", shared_per_block=101376,
                   shared_per_sm=102400, threads_per_sm=1536, blocks_per_sm=24,
                   multiprocessors=142, l2_bytes=96 << 20, bandwidth=960e9),
        CudaTarget(arch="sm_90", product="H200 SXM", shared_per_block=232448,
                   shared_per_sm=233472, threads_per_sm=2048, blocks_per_sm=32,
                   multiprocessors=132, l2_bytes=50 << 20, bandwidth=4800e9, largest_cluster=16),
        CudaTarget(arch="sm_100", product="B200", shared_per_block=232448,
                   shared_per_sm=233472, threads_per_sm=2048, blocks_per_sm=32,
                   multiprocessors=148, l2_bytes=126 << 20, bandwidth=8000e9, largest_cluster=16),
        CudaTarget(arch="sm_103", product="B300", shared_per_block=232448,
                   shared_per_sm=233472, threads_per_sm=2048, blocks_per_sm=32,
                   multiprocessors=148, l2_bytes=126 << 20, bandwidth=8000e9, largest_cluster=8),
        CudaTarget(arch="sm_120", product="RTX PRO 6000 Blackwell", shared_per_block=101376,
                   shared_per_sm=102400, threads_per_sm=1536, blocks_per_sm=24,
                   multiprocessors=188, l2_bytes=128 << 20, bandwidth=1792e9, largest_cluster=8),
    )
}

# System V x86-64 psABI levels: v3 adds AVX2 and FMA, v4 AVX-512.
CPU_TARGETS = {
    t.name: t
    for t in (
        CpuTarget(name="x86-64-v4", vector_bytes=64,
                  flags=("-march=x86-64-v4", "-mprefer-vector-width=512")),
        CpuTarget(name="x86-64-v3", vector_bytes=32, flags=("-march=x86-64-v3",)),
        CpuTarget(name="x86-64", vector_bytes=16, flags=()),
        CpuTarget(name="aarch64", vector_bytes=16, flags=()),
        CpuTarget(name="generic", vector_bytes=16, flags=()),
    )
}

_V3 = {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
_V4 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@cache
def host_cpu() -> CpuTarget:
    """The level of this machine's CPU, read from the operating system."""
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        flags = _cpu_flags()
        level = "x86-64"
        if flags >= _V3:
            level = "x86-64-v4" if flags >= _V4 else "x86-64-v3"
        return CPU_TARGETS[level]
    return CPU_TARGETS["aarch64" if machine in ("aarch64", "arm64") else "generic"]


def runnable(host: CpuTarget) -> tuple[CpuTarget, ...]:
    """The levels whose code this CPU runs, the one that knows most of it first."""
    x86 = [t for t in CPU_TARGETS.values() if t.name.startswith("x86-64")]
    levels = x86[x86.index(host) :] if host in x86 else [host]
    generic = CPU_TARGETS["generic"]
    return tuple(levels if host == generic else [*levels, generic])


def _cpu_flags() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(ln.split(":", 1)[1].split()) for ln in lines if ln.startswith("flags")), set())


def gpu_named(name: str) -> CudaTarget | None:
    """The GPU of that architecture; None: it is no name of one. Raises ArgumentError."""
    if name not in CUDA_TARGETS and name.startswith("sm_") and name[3:].isdigit():
        return _unknown_gpu(name)
    return CUDA_TARGETS.get(name)


_OTHERS = frozenset((87, 88, 101, 110))  # GPUs that CUDA knows and that have no entry


def _unknown_gpu(arch: str) -> CudaTarget:
    """A GPU without an entry: the smallest limits any supported GPU has, the shared memory that
    every block has, no clusters, and so no blocks that wait for one another."""
    number = int(arch[3:])
    if number < 75:
        raise ArgumentError(f"{arch} is too old", why="Kernels need compute capability 7.5.")
    if number not in _OTHERS and number < max(int(known[3:]) for known in CUDA_TARGETS):
        raise ArgumentError(f"there is no {arch}", why=f"Known GPUs: {', '.join(CUDA_TARGETS)}.",
                            fix=nearest(arch, CUDA_TARGETS))
    return CudaTarget(arch=arch, product="unknown", shared_per_block=49152, shared_per_sm=65536,
                      threads_per_sm=1024, blocks_per_sm=16, multiprocessors=40, l2_bytes=4 << 20,
                      bandwidth=320e9)


def on_device(wanted: CudaTarget, here: CudaTarget) -> CudaTarget:
    """The wanted architecture's limits with the counts of the device that is there. Raises
    ArgumentError where the device is older."""
    if int(wanted.arch[3:]) > int(here.arch[3:]):
        raise ArgumentError(f"compiled for {wanted.arch}, the device is {here.arch}",
                            why="It lacks what the newer architecture has.",
                            fix="Leave target out: then the device is asked.")
    return wanted.on(here.product, here.multiprocessors, here.l2_bytes, here.bandwidth)
