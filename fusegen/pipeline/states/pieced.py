"""States whose bits depend on the row alone, not on who holds which of its columns.

The row is cut into canonical pieces of a power of two of columns. Each is folded by itself, by a
schedule that depends on its length, the types and the device; then states meet along the binary
tree of their places: pieces 2i and 2i + 1 on the first level, runs of 2, 4, 8, … on the next. At
the end of the row a run without a neighbour goes up as it is. A holder of some pieces merges what
that tree merges among them, and hands on the rest: at most two runs of a length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, overload

from fusegen.backend.arrays.adopt import adopt_all, one_memory
from fusegen.backend.arrays.layout import lay_out_piece
from fusegen.backend.arrays.spans import begin_on_vectors
from fusegen.backend.arrays.vectors import types_of
from fusegen.backend.memory import Adopted
from fusegen.backend.problem import Phase
from fusegen.ir import graph as g
from fusegen.ir.errors import ArgumentError
from fusegen.lang.blame import blames
from fusegen.lang.signature import check_count, check_flag
from fusegen.pipeline.states.columns import Spans, together
from fusegen.pipeline.states.framed import framed, unframed
from fusegen.pipeline.states.record import States
from fusegen.pipeline.states.roles import Pipeline, roles_for
from fusegen.pipeline.states.runs import folded
from fusegen.pipeline.states.runs import merge as merge_states

PIECES = 8192  # columns of a piece, where nothing is said
LEAST = 64  # columns of a piece: whole vectors of every type
_MAGIC = b"\x93fgpiece"


@dataclass(frozen=True, slots=True, eq=False)
class PiecedStates:
    """What a pipeline knows of canonical pieces of rows: `runs` of them, by rising columns, that
    the tree has not brought together yet. `pieces`: columns of a piece."""

    runs: tuple[States, ...]
    pieces: int

    @property
    def pipeline(self) -> str:
        """The name of the one whose states they are."""
        return self.runs[0].pipeline

    @property
    def n_cols(self) -> int:
        """How many columns of each row have been seen."""
        return sum(s.n_cols for s in self.runs)

    @property
    def columns(self) -> Spans:
        """Which they were; see `States.columns`."""
        return together(self.pipeline, [s.columns for s in self.runs])

    def __repr__(self) -> str:
        return (f"<states of {self.pipeline} in pieces of {self.pieces}: {self.n_cols} columns "
                f"seen, in {len(self.runs)} runs>")

    @blames
    def to_bytes(self) -> bytes:
        """As `States.to_bytes`."""
        return framed(_MAGIC, [(self.pieces, s.to_bytes()) for s in self.runs])

    @staticmethod
    @blames
    def from_bytes(
        pipeline: Pipeline, data: Any, like: Any = None, **constants: Any
    ) -> PiecedStates:
        """As `States.from_bytes`."""
        parts = unframed(_MAGIC, "states in pieces", data)
        runs = [States.from_bytes(pipeline, part, like, **constants) for _, part in parts]
        return PiecedStates(tuple(runs), parts[0][0])


# ---- made ----


def pieced_states_of(
    pipeline: Pipeline, present: Mapping[str, Any], constants: dict[str, Any], at: int,
    pieces: int,
) -> PiecedStates:
    """States of a block whose first column is number `at`, a multiple of `pieces`; where it does
    not end at one, the row ends there."""
    check_pieces(pieces)
    taken = adopt_all(present)
    one_memory(taken)
    like = next(iter(taken.values()))
    roles = roles_for(pipeline, types_of(taken, pipeline.vectors), constants)
    with like.memory.working(like):
        taken = {i.name: taken[i.name] for i in roles.graph.inputs if i.name in taken}
        rows, _ = lay_out_piece(roles.graph, taken, like)
        _check_cut(at, rows.n_cols, pieces)
        blocks = [*_pieces(roles.graph, taken, rows.n_cols, pieces)]
    runs = [folded(roles, roles.steady_fold, piece, at + i, lies) for i, lies, piece in blocks]
    return PiecedStates(_met(pipeline, runs, pieces), pieces)


def _check_cut(at: int, n_cols: int, pieces: int) -> None:
    """Raises ArgumentError. A block without columns may be at a row's end, wherever that is."""
    if n_cols and at % pieces:
        raise ArgumentError(f"at={at} is inside a piece of {pieces} columns",
                            why="Bits that depend on the row alone need cuts between its pieces.",
                            fix=f"Cut at multiples of {pieces}, or choose smaller pieces.")


def asked_pieces(deterministic: bool, pieces: int | None) -> int | None:
    """Columns of canonical pieces, None where bits may depend on who holds what. Raises
    ArgumentError."""
    size = check_count("pieces", pieces)
    if check_flag("deterministic", deterministic):
        return size or PIECES
    if size is not None:
        raise ArgumentError(f"pieces={size} without deterministic=True",
                            why="Any cut will do where bits may depend on it.")
    return None


def check_pieces(pieces: int) -> int:
    """A number of columns of a piece. Raises ArgumentError."""
    if pieces < LEAST or pieces & (pieces - 1):
        raise ArgumentError(f"pieces={pieces} is no power of two from {LEAST} on",
                            why="The tree of a row is of pieces of so many columns.",
                            fix=f"pieces={max(LEAST, 1 << (pieces - 1).bit_length())}, say.")
    return pieces


def _pieces(
    graph: g.Graph, taken: Mapping[str, Adopted], n_cols: int, pieces: int
) -> Iterator[tuple[int, Phase | None, dict[str, Adopted]]]:
    """(first column, how rows are said to lie, arrays) of each piece; of a block without columns
    that block. A whole piece is read from 16-byte boundaries, from a copy where it does not lie so;
    of a part of one, at the end of a row, nothing is assumed. Vectors lie as packed ones do."""
    axes, vectors = {i.name: i.axis for i in graph.inputs}, g.have_vectors(graph.inputs)
    for i in range(0, max(n_cols, 1), pieces):
        j = min(i + pieces, n_cols)
        whole, found = j - i == pieces, {}
        for name, one in taken.items():
            array = _cut(one.array, axes[name], i, j, n_cols)
            settled = vectors or (whole and array is not one.array)
            if settled and not begin_on_vectors(array):
                array = array.copy(order="C")
            found[name] = replace(one, array=array)
        yield i, None if vectors else Phase(whole, whole, whole), found


def _cut(array: Any, axis: g.Axis, i: int, j: int, n_cols: int) -> Any:
    """Those columns of an array that has them; others as they are."""
    match axis:
        case g.Axis.ELEMENT if array.shape[-1] == n_cols:
            return array[..., i:j]
        case g.Axis.PER_COLUMN:
            return array[..., i:j]
        case g.Axis.COLUMN_VECTOR:
            return array[..., i:j, :]
        case _:
            return array


# ---- merged ----


@overload
def merge(pipeline: Pipeline, *states: States) -> States: ...


@overload
def merge(pipeline: Pipeline, *states: PiecedStates) -> PiecedStates: ...


@blames
def merge(pipeline: Pipeline, *states: Any) -> States | PiecedStates:
    """⊕: the states of all these pieces of the same rows together, given in any order; a monoid
    with commutative=False merges them in that of their columns.

    Raises ArgumentError for states of other pipelines, types or constants, for those that have seen
    the same columns, and for those in pieces beside others, or in pieces of other lengths;
    ShapeError for those of other rows.
    """
    lengths = sorted({s.pieces if isinstance(s, PiecedStates) else 0 for s in states})
    if len(lengths) > 1:
        shown = [f"in pieces of {n} columns" if n else "of no pieces" for n in lengths]
        raise ArgumentError(f"states {shown[0]}, and states {shown[1]}",
                            why="Each length has a tree of its own.", fix="Choose one for all.")
    if not any(lengths):
        return merge_states(pipeline, *states)
    runs = [s for p in states for s in p.runs]
    together(pipeline.name, [s.columns for s in runs])
    there = [s for s in runs if s.n_cols] or runs[:1]
    there.sort(key=lambda s: s.columns[:1])
    return PiecedStates(_met(pipeline, there, lengths[0]), lengths[0])


def whole_of(pipeline: Pipeline, parts: PiecedStates) -> States:
    """One state of rows whose pieces have all met. Raises ArgumentError where one is missing."""
    seen = parts.columns
    if len(seen) > 1 or (seen and seen[0][0] != 0):
        raise ArgumentError(f"{parts!r} do not make rows", why=f"They have seen {seen}.",
                            fix="Merge the states of all pieces.")
    found = parts.runs[-1]
    for run in reversed(parts.runs[:-1]):
        found = merge_states(pipeline, run, found)
    return found


def _met(pipeline: Pipeline, runs: Iterable[States], pieces: int) -> tuple[States, ...]:
    """Runs by rising columns, neighbours in the tree brought together."""
    found: list[States] = []
    for one in runs:
        if found and found[-1].columns[0][1] % pieces:
            raise ArgumentError(
                f"columns of {pipeline.name} from {one.columns[0][0]} on, and a piece that ends at "
                f"{found[-1].columns[0][1]}",
                why=f"Only the last of a row's pieces has fewer than {pieces} columns.",
                fix=f"Cut at multiples of {pieces}.")
        while found and _are_siblings(found[-1], one, pieces):
            one = merge_states(pipeline, found.pop(), one)
        found.append(one)
    return tuple(found)


def _are_siblings(left: States, right: States, pieces: int) -> bool:
    """Are they of as many pieces, and the two halves of a run of the tree?"""
    (first, end), (begin, _) = left.columns[0], right.columns[0]
    count = (end - first) // pieces
    same = count == -(-right.n_cols // pieces)
    return same and end == begin and first // pieces % (2 * count) == 0
