"""Compiles CUDA C++ kernels for the CPU, launches them, and raises what went wrong.

Threads run as fibers, so every interleaving is reproducible: a launch depends only on its inputs
and on ``seed``.  See ``README.md`` for what is checked and what is not.
"""

from __future__ import annotations

import ctypes
import math
import re
import threading
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any

from simt import stacks
from simt.arguments import Argument, PackedArgument, Parameter, pack_arguments
from simt.assembly import AssemblyError, translate_assembly
from simt.source import find_kernels
from simt.toolchain import (
    Built,
    CompileError,
    available,
    build_alone,
    build_module,
    source_lines,
)

_MAX_THREADS_PER_BLOCK = 1024
_MAX_BLOCKS_PER_CLUSTER = 16
_MAX_BLOCKS_TOGETHER = 64
_MAX_THREADS_TOGETHER = 24 * 1024  # each stack takes two of the 65530 maps a process may have
_MAX_DESCRIPTION_BYTES = 64 * 1024  # of a kernel's parameters, which CUDA limits to 32 KiB

# Fault handlers and alternate signal stacks belong to the process: one launch at a time.
_launch_lock = threading.Lock()


class SimtError(AssertionError):
    """A kernel does not compile, or does what CUDA leaves undefined.

    ``block`` and ``thread`` are the indices of the thread that was caught, and ``line`` is the line
    of the kernel source, each as far as it is known.
    """

    def __init__(
        self,
        message: str,
        *,
        block: tuple[int, ...] | None = None,
        thread: tuple[int, ...] | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(message)
        self.block = block
        self.thread = thread
        self.line = line


def compile_module(source: str, *, check: bool = True) -> SimtModule:
    """Compile a CUDA translation unit with one or more ``extern "C"`` kernels.

    Without ``check`` kernels run faster, and only guard pages, read-only pages and the rules of
    barriers and warp collectives are left to catch errors.
    """
    reason = available()
    if reason is not None:
        raise SimtError(reason)
    if not find_kernels(source):
        raise SimtError("the source has no __global__ function")
    try:
        built = build_module(translate_assembly(source), check=check)
    except AssemblyError as error:
        message = f"line {error.line}: inline assembly: {error}"
        raise SimtError(message, line=error.line) from None
    except CompileError as error:
        raise SimtError(f"the kernel does not compile:\n{error}") from None
    return SimtModule(source, built, check=check)


class SimtModule:
    """A compiled CUDA source, made by :func:`compile_module`."""

    def __init__(self, source: str, built: Built, *, check: bool) -> None:
        self.kernels = find_kernels(source)
        """The names of the kernels."""
        self._source = source
        self._built = built
        self._foreign = (ctypes.c_size_t * (2 * len(built.foreign)))(*chain(*built.foreign))
        try:
            self._library = ctypes.CDLL(str(built.library))
        except OSError as error:  # a function that is declared, and nowhere defined
            raise SimtError(f"the kernel does not link: {error}") from None
        self._check = check
        self._parameters = {name: self._describe(name) for name in self.kernels}

    def launch(
        self,
        kernel: str,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Argument],
        *,
        outputs: Collection[int] = (),
        initialised: Collection[int] = (),
        shared_bytes: int = 0,
        seed: int = 0,
        cluster: int = 1,
        together: bool = False,
    ) -> None:
        """Run a kernel over a grid; the results are in the output arrays afterwards.

        ``args`` are in the order of the kernel's parameters.  An array is passed as a pointer to a
        copy that has the same address modulo 64; None is a null pointer.  An array passed twice is
        one buffer, as in an in-place operation.  ``outputs`` are the indices of arrays that may be
        written; a kernel may not read what it has not written there, unless the index is also in
        ``initialised``.

        Seed 0 runs blocks and threads in order, every other seed in a random order of its own.
        ``cluster`` consecutive blocks along x form a cluster.

        Blocks, or clusters, run one after another, and one that waits for a later one is reported.
        ``together`` runs all of them at once: what one writes to global memory, others may wait for
        in a loop of volatile, ``ld.relaxed``, ``ld.acquire`` or atomic accesses. Without checks,
        the volatile ones are not seen, and such a loop never ends.

        Raises SimtError on the first violation, and leaves the arrays as they were.
        """
        packed = pack_arguments(self._parameters_of(kernel), args, outputs, initialised)
        request = self._request(kernel, packed, grid, block)
        request.cluster_size, request.together = cluster, together
        request.shared_bytes, request.seed = shared_bytes, seed
        _validate(request)
        self._run(kernel, request)

    def _request(
        self, kernel: str, packed: Sequence[PackedArgument], grid: tuple[int, ...],
        block: tuple[int, ...],
    ) -> _Request:
        """A launch as the library takes it."""
        return _Request(
            kernel=ctypes.cast(self._function("run", kernel), ctypes.c_void_p),
            arguments=(PackedArgument * len(packed))(*packed),
            argument_count=len(packed),
            grid=_extent(grid, "grid"),
            block=_extent(block, "block"),
            checking=self._check,
            wgmma=self._check and "wgmma.mma_async" in self._source,
            foreign=ctypes.cast(self._foreign, ctypes.c_void_p),
            foreign_count=len(self._built.foreign),
        )

    def _run(self, kernel: str, request: _Request) -> None:
        failure = _Failure()
        with _launch_lock, stacks.ready(self._library, _threads_at_once(request)) as ready:
            request.stacks = ctypes.pointer(ready)
            failed = self._library.simt_launch(ctypes.byref(request), ctypes.byref(failure))
        if failed and self._built.mark:
            self._run_alone(kernel, request)
        if failed:
            raise self._error(kernel, failure)

    def _run_alone(self, kernel: str, request: _Request) -> None:
        """Again, without other sources: lines and places in shared memory are the source's own."""
        built = build_alone(translate_assembly(self._source), check=self._check)
        alone = SimtModule(self._source, built, check=self._check)
        request.kernel = ctypes.cast(alone._function("run", kernel), ctypes.c_void_p)
        request.foreign_count = 0
        alone._run(kernel, request)

    def _function(self, what: str, kernel: str) -> Any:
        return self._library[f"simt_{what}_{kernel}{self._built.mark}"]

    def _error(self, kernel: str, failure: _Failure) -> SimtError:
        library = self._built.library
        line: int | None = failure.line or None
        if line is None and failure.instruction:
            line = next(iter(source_lines(library, [failure.instruction])), None)
        block = tuple(failure.block) if failure.has_thread else None
        thread = tuple(failure.thread) if failure.has_thread else None
        place = kernel
        if failure.has_thread:
            place += f": block {block}, thread {thread}"
        if line is not None:
            place += f", line {line}"
        text = re.sub(r"<((?:[0-9a-f]+,)*)>", self._spelled, failure.text.decode(errors="replace"))
        message = f"{place}: {text}"
        calls = dict.fromkeys(source_lines(library, [*filter(None, failure.callers)]))
        lines = self._source.splitlines()
        for number in [line, *(call for call in calls if call != line)]:
            if number is not None and number <= len(lines):
                message += f"\n    {number} | {lines[number - 1].strip()}"
        return SimtError(message, block=block, thread=thread, line=line)

    def _spelled(self, calls: re.Match[str]) -> str:
        """The lines of calls, given as offsets in the library, the innermost first."""
        found = source_lines(self._built.library, [int(c, 16) for c in calls[1].split(",") if c])
        return f"line {', from line '.join(map(str, dict.fromkeys(found)))}"

    def _describe(self, kernel: str) -> list[Parameter]:
        text = ctypes.create_string_buffer(_MAX_DESCRIPTION_BYTES)
        self._function("describe", kernel)(text)
        return [Parameter.parse(item) for item in text.value.decode().split(";") if item]

    def _parameters_of(self, kernel: str) -> list[Parameter]:
        if kernel not in self._parameters:
            raise ValueError(f"no kernel {kernel!r}, only {', '.join(self.kernels)}")
        return self._parameters[kernel]


class _Request(ctypes.Structure):
    """Mirrors LaunchRequest in launch.cpp."""

    _fields_ = (
        ("kernel", ctypes.c_void_p),
        ("arguments", ctypes.POINTER(PackedArgument)),
        ("argument_count", ctypes.c_size_t),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("cluster_size", ctypes.c_uint),
        ("checking", ctypes.c_int),
        ("together", ctypes.c_int),
        ("wgmma", ctypes.c_int),
        ("shared_bytes", ctypes.c_size_t),
        ("seed", ctypes.c_uint64),
        ("stacks", ctypes.POINTER(stacks.Stacks)),
        ("foreign", ctypes.c_void_p),
        ("foreign_count", ctypes.c_size_t),
    )


class _Failure(ctypes.Structure):
    """Mirrors Failure in machine.h."""

    _fields_ = (
        ("text", ctypes.c_char * 4096),
        ("has_thread", ctypes.c_int),
        ("block", ctypes.c_uint * 3),
        ("thread", ctypes.c_uint * 3),
        ("line", ctypes.c_int),
        ("instruction", ctypes.c_uint64),
        ("callers", ctypes.c_uint64 * 16),
    )


def _extent(extent: tuple[int, ...], name: str) -> ctypes.Array[ctypes.c_uint]:
    if not 1 <= len(extent) <= 3 or min(extent) < 1:
        raise ValueError(f"{name} must be one to three positive integers, not {extent}")
    return (ctypes.c_uint * 3)(*extent, *[1] * (3 - len(extent)))


def _threads_at_once(request: _Request) -> int:
    blocks = math.prod(request.grid) if request.together else request.cluster_size
    return blocks * math.prod(request.block)


def _validate(request: _Request) -> None:
    threads = request.block[0] * request.block[1] * request.block[2]
    if threads > _MAX_THREADS_PER_BLOCK:
        raise ValueError(f"a block has at most {_MAX_THREADS_PER_BLOCK} threads, not {threads}")
    blocks = request.grid[0] * request.grid[1] * request.grid[2]
    too_many = blocks > _MAX_BLOCKS_TOGETHER or blocks * threads > _MAX_THREADS_TOGETHER
    if request.together and too_many:
        limits = f"{_MAX_BLOCKS_TOGETHER} blocks and {_MAX_THREADS_TOGETHER} threads"
        message = f"at most {limits} run together, not {blocks} blocks of {threads} threads"
        raise ValueError(message)
    if request.cluster_size > _MAX_BLOCKS_PER_CLUSTER:
        raise ValueError(f"a cluster has at most {_MAX_BLOCKS_PER_CLUSTER} blocks of the grid")
    if request.cluster_size < 1 or request.grid[0] % request.cluster_size:
        raise ValueError("the grid's x extent must be a multiple of the cluster size")
