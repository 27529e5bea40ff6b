"""One kernel of a library on threads: its entry points, and how its rows are shared.

The tree of merges of a row is fixed by the number of columns (see schedule.py), so results do not
depend on the number of threads, whether a thread owns whole rows or threads share one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from fusegen.backend.cpu.loaded import Library
from fusegen.backend.cpu.schedule import BLOCK_ROWS, PART_ROWS
from fusegen.backend.cpu.table import aligned
from fusegen.backend.executable import Progress
from fusegen.backend.host.threads import share
from fusegen.ir.kernel import FIRST_COLUMN, Kernel, Sweep
from fusegen.ir.kernel_walk import names_in

_BLOCKS_PER_THREAD = 8  # so that no thread waits long for the last
_FEWER_BLOCKS = 4  # of rows that bring the same vectors into order, block by block
_BLOCK_ELEMENTS = 1 << 16  # of a thread's turn at least: 10 µs of work for 1 µs of Python


class Launch:
    """The library and its functions are there as long as this is."""

    def __init__(self, kernel: Kernel, library: Library, piece: int) -> None:
        """piece: columns of one, of a row that threads share."""
        self.kernel, self._library, self.piece = kernel, library, piece
        number, pointer = ctypes.c_int64, ctypes.c_void_p

        def entry(name: str, *types: Any) -> Any:
            return library.function(f"{kernel.name}_{name}", *types)

        def size(name: str) -> int:
            function = library.function(f"{kernel.name}_{name}", result=number)
            return 0 if function is None else int(function())

        self.numbered = FIRST_COLUMN.name in names_in(kernel)  # is that number in the struct?
        self.multiple = PART_ROWS if kernel.has_vectors else 1  # of rows, that are best together
        self.rows = entry("rows", pointer, number, number, pointer)
        self.begin = entry("begin", pointer, number, pointer) if kernel.prelude else None
        self.known_bytes = size("known_bytes")
        self.state_bytes = {s.number: size(f"state_bytes_{s.number}") for s in kernel.sweeps}
        self._scratch = library.function(f"{kernel.name}_scratch_bytes", number, result=number)
        self.folds = {
            s.number: entry(f"fold_{s.number}", pointer, number, number, number, pointer, pointer)
            for s in kernel.sweeps if visits(s)
        }
        self.finishes = {
            s.number: entry(f"finish_{s.number}", pointer, number, number, pointer, pointer)
            for s in kernel.sweeps if finishes(s)
        }

    def scratch_bytes(self, n_cols: int) -> int:
        """Of the memory that a thread needs for rows of this length."""
        return 0 if self._scratch is None else int(self._scratch(n_cols))

    def addresses(self) -> tuple[int, int, int, int]:
        """(rows, bytes of its scratch memory, begin, bytes of what begin finds out); 0: none."""
        return (_address(self.rows), _address(self._scratch), _address(self.begin),
                self.known_bytes)

    def sweeps(self) -> tuple[tuple[int, int, int], ...]:
        """Of each: (fold, finish, bytes of a state); 0: none. No sweeps: threads share no row."""
        if not self.in_pieces:
            return ()
        return tuple((_address(self.folds.get(s.number)), _address(self.finishes.get(s.number)),
                      self.state_bytes[s.number]) for s in self.kernel.sweeps)

    def is_for_one(self, n_rows: int, n_cols: int) -> bool:
        """So little work that no second thread would get a part?"""
        return n_rows * n_cols <= _BLOCK_ELEMENTS

    @property
    def in_pieces(self) -> bool:
        """Can threads share a row? Not that of a merge, whose columns are states."""
        return None not in self.folds.values()

    def run(
        self, table: Any, n_rows: int, n_cols: int, team: int, progress: Progress | None = None
    ) -> None:
        """All rows of the arrays that the struct `table` (see table.py) names."""
        if self.in_pieces and worth_pieces(n_rows, n_cols, self.piece, team):
            self._run_pieces(table, n_rows, n_cols, team, progress)
        else:
            self._run_rows(table, n_rows, n_cols, team, progress)

    def _run_rows(
        self, table: Any, n_rows: int, n_cols: int, team: int, progress: Progress | None
    ) -> None:
        """A thread owns the rows of a block."""
        least = -(-_BLOCK_ELEMENTS // max(1, n_cols))
        block = max(least, even_part(self.multiple, n_rows, team))
        blocks = -(-n_rows // block)

        size = self.scratch_bytes(n_cols)

        def work(i: int) -> None:
            room = aligned(size)
            self.rows(table, i * block, min(n_rows, (i + 1) * block), room)

        share(blocks, work, team, _counted(progress, blocks))

    def _run_pieces(
        self, table: Any, n_rows: int, n_cols: int, team: int, progress: Progress | None
    ) -> None:
        """Threads share the pieces of every row, sweep by sweep; one merges them in order."""
        pieces = -(-n_cols // self.piece)
        known = [ctypes.create_string_buffer(self.known_bytes) for _ in range(n_rows)]
        if self.begin is not None:
            for row in range(n_rows):
                self.begin(table, row, known[row])
        for step, sweep in enumerate(self.kernel.sweeps):
            size = self.state_bytes[sweep.number]
            states = [aligned(size * pieces) for _ in range(n_rows)]
            fold = self.folds.get(sweep.number)
            if fold is not None:
                report = None if progress is None else part_of(
                    progress, step, len(self.kernel.sweeps)
                )

                def work(i: int, fold: Any = fold, size: int = size, states: Any = states) -> None:
                    row, piece = divmod(i, pieces)
                    begin = piece * self.piece
                    end = min(n_cols, begin + self.piece)
                    fold(table, row, begin, end, known[row],
                         ctypes.byref(states[row], piece * size))

                total = n_rows * pieces
                share(total, work, team, _counted(report, total))
            if sweep.number in self.finishes:
                for row in range(n_rows):
                    self.finishes[sweep.number](table, row, pieces, known[row], states[row])


def worth_pieces(n_rows: int, n_cols: int, piece: int, team: int) -> bool:
    """Has no thread as much to do if all share the pieces of every row, as if each had whole rows?
    Of these terms are kept from sweep to sweep, and lie in its caches."""
    whole = -(-n_rows // team) * n_cols
    shared = -(-n_rows * -(-n_cols // piece) // team) * piece
    return n_cols > piece and 3 * shared < 2 * whole


def even_part(multiple: int, n_rows: int, team: int) -> int:
    """Rows of a block, so that threads have the same number of blocks."""
    full = -(-n_rows // (team * BLOCK_ROWS))
    blocks = _BLOCKS_PER_THREAD if multiple == 1 else max(full, _FEWER_BLOCKS)
    return -(-n_rows // (team * blocks * multiple)) * multiple


def _address(function: Any) -> int:
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


def visits(sweep: Sweep) -> bool:
    """Does the sweep go over the row at all?"""
    return not sweep.monoid.is_empty or bool(sweep.element_stores)


def finishes(sweep: Sweep) -> bool:
    ends = sweep.steps or sweep.row_stores or sweep.list_stores
    return not sweep.monoid.is_empty or bool(ends)


# ---- progress ----


def part_of(progress: Progress, step: int, steps: int) -> Progress:
    return lambda share_done: progress((step + share_done) / steps)


def _counted(progress: Progress | None, total: int) -> Callable[[int], None] | None:
    return None if progress is None else lambda done: progress(done / total)
