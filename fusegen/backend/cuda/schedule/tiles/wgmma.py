"""Which kernels over vectors the wgmma engine serves (sm_90a), and in tiles of what size.

A block's memory holds a tile of rows, and tiles of columns in stages; a thread's registers hold the
scores of two rows, the weights that they become, and two rows of a sum of vectors. The sizes are
those that were fastest by hand, smaller where they do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from fusegen.backend.cuda.schedule.tiles.groups import (
    CHUNK,
    SHARED_BYTES,
    STEP,
    GroupTiles,
)
from fusegen.backend.cuda.schedule.tiles.parts import COUNT, Parts
from fusegen.backend.emit.vector_sums import VectorSum, vector_sums
from fusegen.ir.errors import InternalError
from fusegen.ir.expr import variables
from fusegen.ir.kernel import FromVectors, Kernel, Param, Sweep
from fusegen.ir.monoid import Best

MOST_LENGTH = 256  # numbers of a vector
CACHED = 32 << 20  # bytes of columns' vectors that blocks find in the second-level cache
_LIST_WORDS = 6  # registers of a row's list
_AGAIN_SPARE = 24  # registers beside scores and sums of vectors that have met
_BOTH_SPARE = 8  # registers for elements beside weights, while products read those of before
_MOST_STORED = 4  # tiles of them: more than memory takes to answer
STORED_PAD = 16  # bytes between rows of elements in shared memory: eight rows lie in other banks


Operand: TypeAlias = Literal["float16", "bfloat16", "tfloat32"]


@dataclass(frozen=True, slots=True)
class Pair:
    """What the engine multiplies: a vector per row with one per column, or two of each; and, where
    there are sums of vectors, the vectors that the folds' weights are for: `summed`, which come in
    tiles of their own, or `again`, columns' vectors of two dots, from the tiles that these read."""

    row: Param
    column: Param
    summed: Param | None
    masked: bool  # is it asked of some items, or of all, whether they contribute?
    ends: bool  # is it no more than whether they come before their row's end?
    words: int  # of a row's state
    lists: int = 0  # K-best ones of a row
    others: tuple[Param, Param] | None = None  # the row's and the column's of a second dot
    parts: Parts = ""  # of float32 vectors
    length: int = 0  # numbers of a sum of vectors
    again: tuple[Param, ...] = ()
    beside: tuple[Param, ...] = ()  # numbers of a column that its elements are made of, too
    stored: tuple[Param, ...] = ()  # elements that others are made of, as of a bias
    both: bool = False  # are elements asked for beside weights, by sums about a pivot?

    @property
    def operand(self) -> Operand:
        """Of products that make scores."""
        if self.parts == "tf32":
            return "tfloat32"
        return "float16" if self.row.dtype.number.name == "float16" else "bfloat16"

    @property
    def state_bytes(self) -> int:
        """At most, of the state that is left beside a row's lists."""
        return 8 * (self.words - _LIST_WORDS * self.lists) if self.lists else 0

    @property
    def numbers(self) -> int:
        """Of a sum of vectors, a multiple of 8; 0: there is none."""
        return -(-self.length // 8) * 8


def pair_of(kernel: Kernel) -> Pair | None:
    """None: the engine does not serve the kernel. It does where one sweep folds dots of 16-bit
    vectors of one type, and keeps at most one sum of weighted vectors."""
    if len(kernel.sweeps) != 1 or kernel.compute.itemsize != 4:
        return None
    (sweep,) = kernel.sweeps
    made = [s for s in sweep.loads if isinstance(s, FromVectors)]
    if len(made) not in (1, 2) or sweep.element_stores or sweep.monoid.own:
        return None
    if not all(s.is_dot for s in made):
        return None
    (row, column), *more = [(kernel.param(s.rows[0]), kernel.param(s.columns[0])) for s in made]
    others = more[0] if more else None
    sums = vector_sums(kernel, sweep)
    lists = len(sweep.monoid.lists)
    met = [column, others[1]] if others and not made[0].parts else []
    again = _again(kernel, sweep, sums, met)
    if (lists and (sums or others)) or (len(sums) > 1 and not again) or not all(
            s.array for s in sums):
        return None
    summed = [] if again else [kernel.param(s.array) for s in sums]
    every = (row, column, *(others or ()), *summed)
    kinds = {p.dtype.number.name for p in every}
    if len(kinds) > 1 or not kinds <= {"float16", "bfloat16"}:
        return None
    parts = cast(Parts, made[0].parts)
    most = 2 * MOST_LENGTH * COUNT[parts] if parts else MOST_LENGTH
    if any(p.k > most or p.k % 8 for p in every):  # rows begin at multiples of 16 bytes
        return None
    numbers = sweep.monoid.numbers
    words = sum(2 if isinstance(c, Best) else 1 for c in numbers.components)
    words += _LIST_WORDS * lists
    masked = sweep.only is not None or sweep.span != (None, None)
    ends = masked and sweep.only is None and sweep.counted is None and sweep.span[0] is None
    read = [kernel.param(n) for s in sweep.loads if not isinstance(s, FromVectors) for n in s.reads]
    return Pair(row, column, summed[0] if summed else None, masked, ends, words, lists,
                others, parts, sums[0].length if summed else 0, again,
                _beside(kernel, sweep) if again else (),
                stored=tuple(dict.fromkeys(p for p in read if p.shape == "element")),
                both=_both(sweep))


def _again(
    kernel: Kernel, sweep: Sweep, sums: Sequence[VectorSum], columns: Sequence[Param]
) -> tuple[Param, ...]:
    """Vectors of the dots' columns that are summed up, where that is all there is to fold."""
    numbers = sweep.monoid.numbers
    if len(numbers.components) > len(sums) or numbers.moving or len(sums) > len(columns):
        return ()
    found = tuple(p for s in sums for p in columns if p.name == s.array)
    return found if len(found) == len(sums) else ()


def _both(sweep: Sweep) -> bool:
    items = {s.name for s in sweep.loads} | {let.name for let in sweep.lets}
    weights = {r.name for r in sweep.monoid.relatives}
    return any(items & variables(m.lift).keys() - weights
               for m in sweep.monoid.moving if m.width == 1)


def _beside(kernel: Kernel, sweep: Sweep) -> tuple[Param, ...]:
    found = [kernel.param(n) for s in sweep.loads if not isinstance(s, FromVectors)
             for n in s.reads]
    return tuple(p for p in found if p.shape in ("columns", "per_column"))


def mapped(kernel: Kernel) -> tuple[Param, ...]:
    """Arrays that the engine copies by tensor maps, in the order of its kernel's parameters; one
    map where dots and sums are made of the same vectors."""
    pair = pair_of(kernel)
    assert pair
    rows, columns = zip(*filter(None, [(pair.row, pair.column), pair.others]), strict=True)
    return tuple(dict.fromkeys((*rows, *columns, *filter(None, [pair.summed]))))


# ---- sizes ----


@dataclass(frozen=True, slots=True, kw_only=True)
class WgmmaTiles(GroupTiles):
    """Sizes of a block's tiles; `length`, `other` and `numbers` are those of vectors that meet, of
    a second dot's, and of those that are summed up (0: none are); `again` those of sums of vectors
    that have met."""

    columns: int
    numbers: int
    other: int = 0
    parts: Parts = ""  # that the length is made of
    again: tuple[int, ...] = ()
    beside: int = 0  # bytes of a column's numbers
    stored: tuple[int, ...] = ()  # bytes of stored elements that come with a tile's columns
    state: int = 0  # bytes, of each row that has a list beside it

    @property
    def count(self) -> int:
        """Of parts."""
        return COUNT[self.parts]

    @property
    def other_chunks(self) -> int:
        return -(-self.other // CHUNK)

    @property
    def other_steps(self) -> int:
        return -(-self.other // STEP)

    @property
    def items(self) -> int:
        """That are known at a time. Short ones are found early, lest their tiles come late; long
        ones are given out late, so that all blocks end together."""
        return 3 if self.numbers and self.stages > 3 else 2

    @property
    def sum_chunks(self) -> int:
        return -(-self.numbers // CHUNK) * self.count

    @property
    def steps(self) -> int:
        """Products that make a tile of scores of two parts of vectors."""
        return -(-self.length // self.count // STEP)

    @property
    def shared_bytes(self) -> int:
        return self._own_bytes + self.stored_stages * self.stored_bytes

    @property
    def _own_bytes(self) -> int:
        """Tiles, states, and 1 KiB of barriers and the item behind them."""
        row = CHUNK * 2
        met = self.chunks + self.other_chunks
        column = (met + self.sum_chunks) * row + self.beside
        rows = self.rows * (met * row + self.state)
        return rows + self.stages * self.columns * column + 1024

    @property
    def stored_bytes(self) -> int:
        """Of a tile of stored elements."""
        return self.rows * sum(self.columns * size + STORED_PAD for size in self.stored)

    @property
    def stored_stages(self) -> int:
        """Tiles of them under way: two at least, and as many as there is room for."""
        room = SHARED_BYTES - self._own_bytes
        return max(2, min(_MOST_STORED, room // self.stored_bytes)) if self.stored else 0

    def fits(self, pair: Pair, spare: int = 0) -> bool:
        """In shared memory and registers? What is known of columns takes some, too; at least
        `spare` of them are for elements."""
        if self.again:  # scores become weights before these are added
            used = self.columns + sum(self.again) // 2 + _AGAIN_SPARE
            return self.shared_bytes <= SHARED_BYTES and used <= self.consumer_registers
        sums = self.numbers // 2 + self.columns // 4 * self.count if self.numbers else 0
        sums += self.numbers // 2 if self.parts else 0  # those of a tile, on their own
        spare = max(spare, 44 if pair.masked else 20 if sums else 34)
        spare += 16 if pair.masked and self.other else 0
        spare += _BOTH_SPARE if pair.both and sums else 0
        scores = self.columns // 2 * (2 if self.other else 1)
        used = scores + sums + 4 * pair.words + spare
        return self.shared_bytes <= SHARED_BYTES and used <= self.consumer_registers


def sized(
    pair: Pair, warpgroups: int, columns: int, stages: int, *, brings: bool = False
) -> WgmmaTiles:
    """The engine's sizes for what it multiplies; brings: see `TileSchedule`. Raises InternalError
    for columns that products of weights would leave out."""
    if columns % STEP:
        raise InternalError(f"tiles of {columns} columns: weights are multiplied {STEP} at a time")
    other = pair.others[0].k if pair.others else 0
    return WgmmaTiles(warpgroups=warpgroups, columns=columns, stages=stages, length=pair.row.k,
                      numbers=pair.numbers, other=other, parts=pair.parts,
                      again=tuple(-(-p.k // 8) * 8 for p in pair.again),
                      beside=sum(p.dtype.itemsize for p in pair.beside), state=pair.state_bytes,
                      stored=tuple(p.dtype.itemsize for p in pair.stored) if brings else ())
