"""What the templates print of kernels and sweeps, and how their functions are called."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.backend.cpu.emit.abreast import AbreastView
from fusegen.backend.cpu.emit.dialect import KNOWN, ROW
from fusegen.backend.cpu.emit.kept import Kept
from fusegen.backend.cpu.emit.pairs import PairsView, Table
from fusegen.backend.cpu.emit.phases import Gathered, Part, Phase
from fusegen.backend.cpu.emit.state import Field, StateView
from fusegen.backend.emit.lines import Line, uses_of
from fusegen.ir.kernel import Param


@dataclass(frozen=True)
class AgainView:
    """A sweep over terms that an earlier one has kept."""

    parts: tuple[Part, ...]
    moved: str  # arguments of fg::movable and fg::factor_between


@dataclass(frozen=True)
class SweepView:
    """Everything the templates print for one sweep."""

    kernel: str
    number: int
    title: str
    state: StateView | None
    parts: tuple[Part, ...]
    partly: bool  # may the last vector be part of one?
    finish: tuple[Line, ...]
    lists: tuple[Gathered, ...]  # those too long to be kept in order
    prefetched: tuple[str, ...]  # arrays
    awaited: tuple[Param, ...]  # arrays of lists that it stores
    reads_known: bool  # do its elements meet values of earlier sweeps?
    has_known: bool  # does its kernel hand values on?
    again: AgainView | None  # the same over kept terms
    pairs: PairsView | None  # of elements made of vectors

    # Parameters and arguments of the functions of a sweep: its state if it has one, the row, and
    # the known values where they are needed.

    @property
    def visits(self) -> bool:
        """Does it go over the row at all?"""
        return bool(self.phases or self.lists)

    @property
    def phases(self) -> tuple[Phase, ...]:
        return tuple(phase for part in self.parts for phase in part.phases)

    @property
    def past_caches(self) -> list[str]:
        """Arrays of results that may go past the caches."""
        return [name for phase in self.phases for name in phase.past]

    @property
    def chunks_are_lines(self) -> bool:
        """May chunks end where lines of results do? Not where sums hang on it, or kept terms."""
        return bool(self.past_caches) and self.state is None and self.again is None

    @property
    def asking(self) -> bool:
        """Does a phase's loop ask for memory ahead, step by step? Else chunks do as a whole."""
        return any(phase.asks for phase in self.phases)

    @property
    def absorb_params(self) -> list[str]:
        return self._params("const Row& row")

    @property
    def chunk_params(self) -> list[str]:
        return self._params("const Row& shared")

    @property
    def chunk_args(self) -> list[str]:
        known = ["known"] if self.reads_known else []
        return [*(["state"] if self.state else []), "shared", *known]

    @property
    def short_args(self) -> list[str]:
        """Of the functions of a chunk, for the i-th of several short rows."""
        known = ["known[i]"] if self.reads_known else []
        return [*([f"states_{self.number}[i]"] if self.state else []), "rows[i]", *known]

    @property
    def short_finish_args(self) -> list[str]:
        own = {"state": f"states_{self.number}[i]", "row": "rows[i]", "known": "known[i]"}
        return [own[name] for name in self.finish_args]

    @property
    def absorb_args(self) -> list[str]:
        return self._args("state", known=self.reads_known)

    @property
    def part_args(self) -> list[str]:
        return self._args("part", known=self.reads_known)

    @property
    def finish_params(self) -> list[str]:
        row = ["const Row& row"] if self._finish_uses(ROW) else []
        known = ["Known& known"] if self._finish_uses(KNOWN) else []
        constant = "" if self.lists else "const "  # lists are put in order
        return [*([f"{constant}State& state"] if self.state else []), *row, *known]

    @property
    def finish_args(self) -> list[str]:
        row = ["row"] if self._finish_uses(ROW) else []
        known = ["known"] if self._finish_uses(KNOWN) else []
        return [*(["state"] if self.state else []), *row, *known]

    def _finish_uses(self, what: str) -> bool:
        return what in uses_of(self.finish)

    @property
    def run_params(self) -> list[str]:
        states = ["State* states"] if self.state else []
        return ["const Row& row", *(["Known& known"] if self.has_known else []), *states]

    @property
    def run_args(self) -> list[str]:
        states = [f"static_cast<sweep_{self.number}::State*>(scratch)"] if self.state else []
        return ["row", *(["known"] if self.has_known else []), *states]

    @property
    def merge_given(self) -> str:
        return "".join(f", {name}" for name in self.state.merge_needs) if self.state else ""

    def _merge_needs(self, what: str) -> bool:
        return self.state is not None and what in self.state.merge_needs

    def _params(self, row: str) -> list[str]:
        known = ["const Known& known"] if self.reads_known else []
        return [*(["State& state"] if self.state else []), row, *known]

    def _args(self, state: str, *, known: bool) -> list[str]:
        return [*([state] if self.state else []), "row", *(["known"] if known else [])]

    # C entry points take untyped pointers; those that a sweep has no use for stay unnamed.

    @property
    def fold_known(self) -> str:
        return "const void* known_values" if self.reads_known else "const void*"

    @property
    def fold_state(self) -> str:
        return "void* own_state" if self.state else "void*"

    @property
    def fold_casts(self) -> list[str]:
        known = "const Known& known = *static_cast<const Known*>(known_values);"
        return [known] if self.reads_known else []

    @property
    def finish_pieces(self) -> str:
        return "int64_t pieces" if self.state else "int64_t"

    @property
    def finish_known(self) -> str:
        return "void* known_values" if self.finish_needs_known else "void*"

    @property
    def finish_state(self) -> str:
        return "void* states" if self.state else "void*"

    @property
    def finish_casts(self) -> list[str]:
        row = "const Row row = row_of(*arrays, r);"
        known = "Known& known = *static_cast<Known*>(known_values);"
        state = f"auto& state = *static_cast<sweep_{self.number}::State*>(states);"
        return [
            *([row] if self.finish_needs_row else []),
            *([known] if self.finish_needs_known else []),
            *([state] if self.state else []),
        ]

    @property
    def finish_needs_row(self) -> bool:
        return self._finish_uses(ROW) or self._merge_needs(ROW)

    @property
    def finish_needs_known(self) -> bool:
        return self._finish_uses(KNOWN) or self._merge_needs(KNOWN)

    @property
    def finish_arrays(self) -> str:
        """The first parameters of the entry point."""
        table = f"const {self.kernel}::Arrays*"
        return f"{table} arrays, int64_t r" if self.finish_needs_row else f"{table}, int64_t"


@dataclass(frozen=True)
class KernelView:
    """Everything the templates print for one launch."""

    name: str
    arrays: tuple[Field, ...]
    members: tuple[Field, ...]
    addresses: tuple[str, ...]
    known: tuple[Field, ...]
    prelude: tuple[Line, ...]
    sweeps: tuple[SweepView, ...]
    numbered: bool  # do columns have the numbers of a whole row, of which this is a piece?
    writes_rows: bool
    kept: Kept | None
    kept_columns: int  # of the longest row whose terms are kept
    short_columns: int  # of the longest row that others take turns with; 0: none does
    abreast: AbreastView | None  # rows one in every lane
    pairs: bool  # does it read vectors?
    row_tables: tuple[Table, ...]  # vectors of rows
    batches: tuple[str, ...]  # arrays of columns' vectors

    @property
    def past_caches(self) -> list[str]:
        """Arrays of results that may go past the caches."""
        return [name for sweep in self.sweeps for name in sweep.past_caches]

    @property
    def tiles(self) -> tuple[str, ...]:
        """Members of rows that point into tiles."""
        views = [s.pairs for s in self.sweeps if s.pairs]
        return tuple(dict.fromkeys(
            [f"{t.name}_tile" for v in views for t in v.tiles]
            + [w for v in views for s in v.sums for w in s.weights]))

    @property
    def known_arg(self) -> str:
        return ", known" if self.known else ""

    @property
    def known_out(self) -> str:
        return ", Known& known" if self.known else ""

    @property
    def known_param(self) -> str:
        return "void* known_values" if self.known else "void*"

    @property
    def known_cast(self) -> str:
        return ", *static_cast<Known*>(known_values)" if self.known else ""

    @property
    def states(self) -> list[str]:
        """Types of the states that its sweeps have."""
        return [f"sweep_{s.number}::State" for s in self.sweeps if s.state]

    @property
    def scratch(self) -> str:
        return "void* scratch" if self.states else "void*"
