"""What the templates of tiles print of a sweep, decided and spelled out."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.backend.cuda.emit.state import StateView
from fusegen.backend.cuda.emit.tiles.reference import ReferenceView
from fusegen.backend.cuda.emit.tiles.scaled import GreatestView, QuickView
from fusegen.backend.emit.lines import Line


@dataclass(frozen=True)
class SumView:
    """A component that holds a vector. `lines`: where it is no sum of weights times vectors, what
    adds number i of one column."""

    name: str
    length: int
    weights: tuple[str, ...]
    array: str  # whose vectors are multiplied by the weights
    first: str  # a number of no columns
    lines: tuple[Line, ...]
    moves: bool  # is it about a pivot?
    zero_wins: bool  # may it be 0 where its factor is none?
    held: int  # numbers that a block has of it
    before: tuple[Line, ...]  # statements of a row and a column, where it is folded one by one
    joined: str  # the statement by which another block's `number` joins `sum`
    pitch: int = 0  # from one of the array's vectors to the next
    share: int = 0  # numbers that a warp finishes
    offset: str = "0"  # C++: the first of them
    found: str = ""  # where they are, in the end


@dataclass(frozen=True)
class LevelView:
    """Sums about one level of pivots, as a tile's items make them."""

    tag: str
    about: str
    anchors: tuple[tuple[str, str], ...]
    divisors: tuple[Line, ...]
    lines: tuple[Line, ...]
    weights: tuple[str, ...]  # that the lines make
    quick: QuickView | None


@dataclass(frozen=True)
class PeakView:
    """The best value of a tile, whose place is looked for only if no better one is known."""

    name: str
    first: str  # of no items
    reaches: str  # condition
    value: str  # where it belongs


@dataclass(frozen=True)
class FoldView:
    """What the template prints of how a sweep goes over tiles."""

    number: int
    real: str
    state: StateView | None
    scores: tuple[str, ...]  # names of sources
    sums: tuple[SumView, ...]
    opened: tuple[Line, ...]  # declarations of what the fold uses
    live: tuple[Line, ...]  # and what says whether an item contributes
    lines: tuple[Line, ...]  # of an item, what needs no pivot
    early: tuple[str, ...]  # weights that these make
    greatest: tuple[GreatestView, ...]
    peaks: tuple[PeakView, ...]
    search: tuple[Line, ...]  # of an item, what looks for the places of peaks
    shared: tuple[str, ...]  # statements: lanes of a row agree about what pivots are made of
    moves: tuple[tuple[str, str], ...]  # names and values that factors depend on
    factors: tuple[tuple[str, str], ...]
    levels: tuple[LevelView, ...]
    stores_opened: tuple[Line, ...]
    stores: tuple[Line, ...]  # of an item
    span: tuple[Line, ...]  # statements of which columns contribute to a row
    masked: bool  # is it asked of every item whether it contributes?
    possible: tuple[Line, ...]  # statements: may columns [begin, end) contribute?
    reference: ReferenceView | None  # what sums may be kept about instead of their maximum
    direct: bool  # is a score made where it is folded?

    @property
    def moving(self) -> tuple[SumView, ...]:
        """Sums of vectors about pivots."""
        return tuple(s for s in self.sums if s.moves)

    @property
    def visits(self) -> bool:
        """Does it look at tiles at all?"""
        return bool(self.state or self.sums or self.stores)

    @property
    def weights(self) -> tuple[str, ...]:
        return tuple(w for s in self.sums for w in s.weights)

    @property
    def params(self) -> tuple[str, ...]:
        """Of the fold."""
        real = self.real
        state = (f"{self.state.name}& state",) if self.state else ()
        return (*state, *(f"const Scores& {n}_scores" if self.direct
                           else f"const {real} (&{n}_scores)[kColumns / 2]" for n in self.scores),
                *(f"{real} (&{w})[kColumns / 2]" for w in self.weights),
                *(f"{real}& {s.name}_factor" for s in self.moving),
                "const Row& mine", "column_t lane_column", "const Given& given",
                "int first_item = 0", "int end_item = kColumns / 4")

    @property
    def held_params(self) -> str:
        return self.state.held_params if self.state else ""

    @property
    def given_args(self) -> str:
        return "".join(f", given.{n}" for n in self.state.held) if self.state else ""
