"""Compiling generated C++ and running it on threads.

The tree of merges of a row is fixed by the number of columns (see schedule/cpu.py), so results do
not depend on the number of threads, whether a thread owns whole rows or threads share one.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fusegen.errors import BackendError, InternalError
from fusegen.kernel import Kernel, Param, Program, Sweep
from fusegen.runtime.cache import artifact, cache_dir
from fusegen.runtime.threads import share, thread_count
from fusegen.schedule.cpu import PIECE_COLUMNS, CpuSchedule
from fusegen.schedule.target import CPU_TARGETS, CpuTarget, host_cpu

Array = np.ndarray[Any, Any]
Progress = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""

# Never -ffast-math: it folds the rounding constants of exp away, and some compilers then switch
# the whole process to flushing subnormals.
FLAGS = (
    "-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fPIC",
    "-shared", "-Wno-psabi",
)  # fmt: skip

_BLOCKS_PER_THREAD = 8  # so that no thread waits long for the last
_CACHE_LINE = 64
_BLOCK_ELEMENTS = 1 << 16  # of a thread's turn at least: 10 µs of work for 1 µs of Python


def find_compiler() -> str | None:
    """Path of the C++ compiler: $CXX, else c++, g++ or clang++ on PATH; None without one."""
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return found
    return None


class CpuExecutable:
    """A program compiled for this machine."""

    def __init__(self, program: Program, schedule: CpuSchedule, source: str) -> None:
        """Compile, or load from the cache. Raises BackendError, or InternalError for bad source."""
        self.program, self.schedule = program, schedule
        self.path = compiled(source, schedule.target, program.name)
        library = ctypes.CDLL(str(self.path))
        self._launches = [_Launch(kernel, library) for kernel in program.kernels]

    def __call__(
        self, arrays: Mapping[str, Array], n_rows: int, n_cols: int, *,
        threads: int | None = None, progress: Progress | None = None,
    ) -> None:  # fmt: skip
        """Fill the output arrays of `arrays` (by parameter name).

        element: (n_rows, n_cols), neighbouring columns, any row stride. per_column: (n_cols,).
        row: (n_rows,), any stride. list: (n_rows, k) contiguous.
        """
        team = thread_count(threads)
        if n_rows == 0:
            return
        held = {p.name: _workspace(p, n_rows, n_cols) for p in self.program.workspace}
        every = {**arrays, **held}
        steps = len(self._launches)
        for i, launch in enumerate(self._launches):
            report = None if progress is None else _part_of(progress, i, steps)
            launch.run(every, n_rows, n_cols, team, report)


class _Launch:
    """One kernel of the library: its entry points, and how its rows are shared."""

    def __init__(self, kernel: Kernel, library: ctypes.CDLL) -> None:
        self.kernel = kernel
        number, pointer = ctypes.c_int64, ctypes.c_void_p

        def entry(name: str, *types: Any) -> Any:
            function = getattr(library, f"{kernel.name}_{name}")
            function.argtypes, function.restype = types, None
            return function

        def size(name: str) -> int:
            function = getattr(library, f"{kernel.name}_{name}", None)
            if function is None:
                return 0
            function.argtypes, function.restype = (), number
            return int(function())

        self.rows = entry("rows", pointer, number, number, pointer)
        self.begin = entry("begin", pointer, number, pointer) if kernel.prelude else None
        self.known_bytes = size("known_bytes")
        self.state_bytes = {s.number: size(f"state_bytes_{s.number}") for s in kernel.sweeps}
        self.folds = {
            s.number: entry(f"fold_{s.number}", pointer, number, number, number, pointer, pointer)
            for s in kernel.sweeps if _visits(s)
        }  # fmt: skip
        self.finishes = {
            s.number: entry(f"finish_{s.number}", pointer, number, number, pointer, pointer)
            for s in kernel.sweeps if _finishes(s)
        }  # fmt: skip

    def run(
        self, arrays: Mapping[str, Array], n_rows: int, n_cols: int, team: int,
        progress: Progress | None,
    ) -> None:  # fmt: skip
        table = _table(self.kernel, arrays, n_rows, n_cols)
        if n_rows < team and n_cols > PIECE_COLUMNS:
            self._run_pieces(table, n_rows, n_cols, team, progress)
        else:
            self._run_rows(table, n_rows, n_cols, team, progress)

    def _run_rows(
        self, table: Any, n_rows: int, n_cols: int, team: int, progress: Progress | None
    ) -> None:
        """A thread owns the rows of a block."""
        least = -(-_BLOCK_ELEMENTS // max(1, n_cols))
        block = max(least, -(-n_rows // (team * _BLOCKS_PER_THREAD)))
        blocks = -(-n_rows // block)
        scratch = 2 * max(self.state_bytes.values())

        def work(i: int) -> None:
            room = _aligned(scratch)
            self.rows(table, i * block, min(n_rows, (i + 1) * block), room)

        share(blocks, work, team, _counted(progress, blocks))

    def _run_pieces(
        self, table: Any, n_rows: int, n_cols: int, team: int, progress: Progress | None
    ) -> None:
        """Threads share the pieces of every row, sweep by sweep; one merges them in order."""
        pieces = -(-n_cols // PIECE_COLUMNS)
        known = [ctypes.create_string_buffer(self.known_bytes) for _ in range(n_rows)]
        if self.begin is not None:
            for row in range(n_rows):
                self.begin(table, row, known[row])
        for step, sweep in enumerate(self.kernel.sweeps):
            size = self.state_bytes[sweep.number]
            states = [_aligned(size * pieces) for _ in range(n_rows)]
            fold = self.folds.get(sweep.number)
            if fold is not None:
                report = None if progress is None else _part_of(
                    progress, step, len(self.kernel.sweeps)
                )  # fmt: skip

                def work(i: int, fold: Any = fold, size: int = size, states: Any = states) -> None:
                    row, piece = divmod(i, pieces)
                    begin = piece * PIECE_COLUMNS
                    end = min(n_cols, begin + PIECE_COLUMNS)
                    fold(table, row, begin, end, known[row],
                         ctypes.byref(states[row], piece * size))  # fmt: skip

                total = n_rows * pieces
                share(total, work, team, _counted(report, total))
            if sweep.number in self.finishes:
                for row in range(n_rows):
                    self.finishes[sweep.number](table, row, pieces, known[row], states[row])


def _aligned(size: int) -> Any:
    """Memory that starts on a cache line, as vectors in a state must; nothing is in it."""
    room = np.empty(size + _CACHE_LINE, np.uint8)
    return (ctypes.c_char * size).from_buffer(room.data, -room.ctypes.data % _CACHE_LINE)


def _visits(sweep: Sweep) -> bool:
    """Does the sweep go over the row at all?"""
    return not sweep.monoid.is_empty or bool(sweep.element_stores)


def _finishes(sweep: Sweep) -> bool:
    ends = sweep.steps or sweep.row_stores or sweep.list_stores
    return not sweep.monoid.is_empty or bool(ends)


# ---- arrays ----


def _workspace(param: Param, n_rows: int, n_cols: int) -> Array:
    shape = (n_rows, n_cols) if param.shape == "element" else (n_rows,)
    return np.empty(shape, param.dtype.numpy)


def _table(kernel: Kernel, arrays: Mapping[str, Array], n_rows: int, n_cols: int) -> Any:
    """The kernel's struct Arrays: 64-bit addresses and strides in parameter order, then n_cols."""
    words: list[int] = []
    for param in kernel.params:
        array = arrays[param.name]
        _check(param, array, n_rows, n_cols)
        words.append(array.ctypes.data)
        if param.shape in ("element", "row"):
            words.append(array.strides[0] // array.itemsize if n_rows > 1 else 0)
    table: Any = (ctypes.c_int64 * (len(words) + 1))(*words, n_cols)
    table.held = tuple(arrays.values())  # as long as a thread has the table, the memory is there
    return table


def _check(param: Param, array: Array, n_rows: int, n_cols: int) -> None:
    """The face of the package has looked at the user's arrays: here only our own slips show."""
    shapes = {
        "element": (n_rows, n_cols), "per_column": (n_cols,), "row": (n_rows,),
        "list": (n_rows, param.k),
    }  # fmt: skip
    dense = param.shape == "row" or array.shape[-1] < 2 or array.strides[-1] == array.itemsize
    whole = array.size == 0 or array.strides[0] % array.itemsize == 0
    fits = array.shape == shapes[param.shape] and array.dtype == param.dtype.numpy
    if not (fits and dense and whole):
        raise InternalError(
            f"{param.name}: {array.dtype} {array.shape} with strides {array.strides} given for "
            f"{param.dtype} {shapes[param.shape]}"
        )
    if param.shape == "list" and not array.flags.c_contiguous:
        raise InternalError(f"{param.name}: lists must be contiguous")


# ---- progress ----


def _part_of(progress: Progress, step: int, steps: int) -> Progress:
    return lambda share_done: progress((step + share_done) / steps)


def _counted(progress: Progress | None, total: int) -> Callable[[int], None] | None:
    return None if progress is None else lambda done: progress(done / total)


# ---- compiling ----


def compiled(source: str, target: CpuTarget, name: str) -> Path:
    """The shared library of the source, from the cache if it is there."""
    _check_target(target)
    compiler = find_compiler()
    if compiler is None:
        raise BackendError(
            "no C++ compiler was found. Install g++ or clang++, or set CXX to one."
        )
    command = (compiler, *FLAGS, *target.flags)
    key = ("cpu", source, *command, _version(compiler))
    return artifact(key, ".so", lambda path: _compile(source, command, path, name))


def _compile(source: str, command: tuple[str, ...], path: Path, name: str) -> None:
    text = path.with_suffix(".cpp")
    text.write_text(source)
    done = subprocess.run(
        [*command, "-o", str(path), str(text)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        kept = cache_dir() / f"failed_{name}.cpp"
        kept.write_text(source)
        raise InternalError(
            f"generated source does not compile; it is kept in {kept}\n"
            f"{' '.join(command)}\n{done.stderr.replace(str(text), str(kept))}"
        )


@cache
def _version(compiler: str) -> str:
    """The compiler's version and machine: another one may make another library."""
    done = subprocess.run(
        [compiler, "-dumpfullversion", "-dumpmachine"], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def _check_target(target: CpuTarget) -> None:
    host = host_cpu()
    levels = [t.name for t in CPU_TARGETS.values() if t.name.startswith("x86-64")]
    runs = target.name in (host.name, "generic") or (
        {target.name, host.name} <= {*levels}
        and levels.index(target.name) >= levels.index(host.name)
    )
    if not runs:
        raise BackendError(f"this machine is {host.name}: it cannot run code for {target.name}.")
