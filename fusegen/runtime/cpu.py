"""Compiling generated C++ and running it on threads.

The tree of merges of a row is fixed by the number of columns (see schedule/cpu.py), so results do
not depend on the number of threads, whether a thread owns whole rows or threads share one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from fusegen.errors import BackendError, CompilerError, InternalError
from fusegen.kernel import Kernel, Param, Program, Sweep
from fusegen.runtime.cache.entries import artifact
from fusegen.runtime.cache.folder import opened
from fusegen.runtime.elf import flaw
from fusegen.runtime.loaded import Library, library
from fusegen.runtime.notices import LOG
from fusegen.runtime.threads import share, thread_count
from fusegen.runtime.toolchain import build, find_compiler, known_unusable, unusable, version
from fusegen.schedule.cpu import PIECE_COLUMNS, CpuSchedule
from fusegen.schedule.target import CpuTarget, host_cpu, runnable

Array = np.ndarray[Any, Any]
Progress = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""

_BLOCKS_PER_THREAD = 8  # so that no thread waits long for the last
_CACHE_LINE = 64
_BLOCK_ELEMENTS = 1 << 16  # of a thread's turn at least: 10 µs of work for 1 µs of Python


class CpuExecutable:
    """A program compiled for this machine."""

    def __init__(self, program: Program, schedule: CpuSchedule, source: str) -> None:
        """Compile, or load from the cache; raises what `compiled` does."""
        self.program, self.schedule = program, schedule
        wanted = [f"{kernel.name}_rows" for kernel in program.kernels]
        library = compiled(source, schedule.target, program.name, wanted)
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

    def __init__(self, kernel: Kernel, library: Library) -> None:
        self.kernel, self._library = kernel, library
        number, pointer = ctypes.c_int64, ctypes.c_void_p

        def entry(name: str, *types: Any) -> Any:
            return library.function(f"{kernel.name}_{name}", *types)

        def size(name: str) -> int:
            function = library.function(f"{kernel.name}_{name}", result=number)
            return 0 if function is None else int(function())

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
        # As long as a thread has the table, the memory and the code are there.
        table.held = (self._library, *arrays.values())
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
    return (ctypes.c_int64 * (len(words) + 1))(*words, n_cols)


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


def compiled(source: str, target: CpuTarget, name: str, functions: Iterable[str]) -> Library:
    """The source as a library with these functions, from the cache if it is there.

    Raises BackendError, CompilerError, or InternalError for source that a compiler which is sound
    otherwise refuses.
    """
    _check_target(target)
    compiler = find_compiler()
    if compiler is None:
        raise BackendError(
            "no C++ compiler was found. Install g++ or clang++, or set CXX to one."
        )
    key = ("cpu", source, *compiler.command(target.flags), version(compiler))
    wanted, tried = tuple(functions), list[Library]()  # held, so as to be loaded once

    def make(cancelled: Callable[[], bool]) -> bytes:
        made = build(compiler, target.flags, source, wanted, cancelled)
        tried.append(_loaded(made, name))  # what cannot be loaded is not kept
        return made

    def good(data: bytes) -> bool:
        return _good(data, name, wanted, tried)

    try:
        return _loaded(artifact(key, f"library {name}", make, good), name)
    except CompilerError as error:
        if not error.refused or unusable(compiler, target.flags):
            raise
        raise InternalError(
            f"generated source does not compile; it is kept in {_kept(source, name)}\n{error}"
        ) from error


def _good(data: bytes, name: str, functions: Iterable[str], tried: list[Library]) -> bool:
    """Is what was kept of use here? What is not is made again."""
    wrong = flaw(data, functions)
    try:
        if not wrong:
            tried.append(_loaded(data, name))
    except BackendError as error:
        wrong = str(error)
    if wrong:
        LOG.warning("cache: the library of %s is made again: %s", name, wrong)
    return not wrong


def _loaded(data: bytes, name: str) -> Library:
    try:
        return library(data, name)
    except OSError as error:
        raise BackendError(f"the compiled library of {name} cannot be loaded: {error}") from error


def _kept(source: str, name: str) -> str:
    """Where the source can be read; in the message itself where nothing can be written."""
    try:
        with opened() as folder:
            folder.write(f"failed_{name}.cpp", source.encode())
            return str(folder.path / f"failed_{name}.cpp")
    except (BackendError, OSError) as error:
        return f"no file: {error}"


def hindrance(target: CpuTarget, *, failed: bool = False) -> str:
    """Why nothing can be compiled here; "" where it can. Found out when a compiler has `failed`,
    and known from then on."""
    compiler = find_compiler()
    if compiler is None:
        return "no C++ compiler was found. Install gcc or clang"
    tried = failed or known_unusable(compiler, target.flags)
    return unusable(compiler, target.flags) if tried else ""


def _check_target(target: CpuTarget) -> None:
    host = host_cpu()
    if target not in runnable(host):
        raise BackendError(f"this machine is {host.name}: it cannot run code for {target.name}.")
