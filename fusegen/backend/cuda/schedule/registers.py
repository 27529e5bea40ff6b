"""How many registers the threads of a schedule may use: what they need, or so few that other rows
are on their way meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusegen.backend.cuda.schedule.bounds import BOUNDS, HELD, RegisterLimit
from fusegen.backend.cuda.schedule.collected import makes_keys, together_of
from fusegen.backend.cuda.schedule.cuda import MAX_WIDTH, VECTOR_BYTES, CudaSchedule
from fusegen.backend.cuda.schedule.kept_values import keeps_value
from fusegen.backend.target import WARP
from fusegen.ir.monoid import KBest

_LIMITS: tuple[tuple[int, RegisterLimit], ...] = ((84, 64), (92, 80), (150, 128), (10**6, 255))
"""Words that a thread has to hold at a time, by a rough count, and registers that do for them."""
_FOLDED: tuple[int, tuple[tuple[int, RegisterLimit], ...]] = 25, (
    (34, 56), (48, 64), (56, 72), (10**6, 80))
"""Elements of 16 bits that a lane folds one by one, from which on few registers are best, and the
fewest that do for so many at most: of one array, with a state that is not the largest."""
_LIGHT_STATE = 24  # registers beyond a pair of numbers, with which these and the next suffice
_COLLECTED: tuple[tuple[int, RegisterLimit], ...] = (
    (16, 40), (24, 48), (28, 56), (40, 64), (44, 72), (60, 80))
_OF_CLUSTERS: tuple[tuple[int, RegisterLimit], ...] = ((40, 64), (48, 80))  # if two blocks fit so
_MOST_HELD = 84  # items, with which 128 registers suffice
_LIST_STATE = 4  # what a list is of a state
_DENSE: RegisterLimit = 64
"""Registers that hold the items of a thread that collects a list, of a warp's with their peaks, and
all that do for so many; of a cluster's; what does at least where keys are made of all. With fewer,
loads wait for those before them: there is no register that they could go to. A few values of 36 and
more go through memory, once a row: another block of 256 threads is worth more."""
_SLICED: RegisterLimit = 64
"""Of threads that map a row out of shared memory with other arrays."""
_OTHERS, _FEWEST, _EASY_STATE = 0.8, 40, 16
"""Registers of another array's words, for each of a row that lies as they do: fewer, as some of a
row are done with when these come; what any such thread gets; and beyond a pair of numbers those of
a state that leaves as many. For 2 to 8 vectors of norms and one or two other arrays no other limit
was faster by more than 2 %; of larger states, and values that take long, much goes to memory."""
_SCHEDULERS = 4
"""Of a multiprocessor: each has registers of its own, for whole warps."""
_BASE, _BESIDE, _UNPACKED, _WORK, _AT_ONCE = 17, 2, 4, 10, 12
"""Registers beside a row's words; words of a vector that are written, not held; registers for every
vector of 16-bit elements where there are several arrays; those for making a value that takes long;
for a vector of an array that all rows share, with the words around it: about the least with which
ptxas spills nothing of 2 to 8 vectors a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a program's threads have to hold, in registers."""

    state: int  # beyond a pair of numbers
    words: int  # of a vector in all arrays
    lists: tuple[KBest, ...]
    stores: bool  # are arrays of the rows' size written?
    inputs: int  # arrays and numbers of rows that are read
    kept_bytes: int  # of a vector in the arrays that stay from sweep to sweep
    extra: int  # arrays beside these that one sweep reads
    narrow: bool  # do all elements have 16 bits?
    wide: bool  # are numbers of 8 bytes?
    calls: bool  # are functions called?
    seeks: bool  # are columns of extremes sought, and no sums made about a pivot?
    heavy: bool  # is a value kept that takes long to make?
    more: bool  # and is more held beside it than such a value needs?
    rows: int | None  # of a call, where they are known

    def limit(self, one: CudaSchedule) -> CudaSchedule:
        """As many registers as a thread needs: fewer make room for more threads."""
        if one.home.steady:
            return replace(one, registers=128 if one.per_sm == 1 else 64)
        need = 24 + self.state + one.vectors * self.words + (56 if self.wide else 0)
        if one.home.next_chunk and self.words > VECTOR_BYTES // 4:  # there twice, of several arrays
            need += one.vectors * self.words
        if self.heavy and not keeps_value(one):  # made several at a time, where they are used
            need += 3 * _WORK
        collected = one.lists == "collected" and not one.in_warp
        need += (32 if collected else 16) * max(0, len(self.lists) - 1)
        need += 32 * any(best.kind == "int" for best in self.lists)
        by_vector = one.home.threads_keep and not (one.in_warp or self.lists or self.seeks)
        if one.width == MAX_WIDTH and not (collected and self.state <= _LIGHT_STATE):
            # Unpacked, beside what is packed.
            need += one.width if by_vector else 32 if one.items >= 32 else one.items
        one = replace(one, registers=next(n for most, n in _LIMITS if need <= most))
        one = replace(one, registers=self._tight(one) or one.registers)
        folded = self._by_elements(one)
        if folded is not None:
            one = replace(one, registers=folded)
            return replace(one, fixed=True, per_sm=_room(one))
        if one.fixed and self.lists:
            return replace(one, per_sm=min(one.per_sm, _room(one)))
        return one

    def _tight(self, one: CudaSchedule) -> RegisterLimit | None:
        """For rows that blocks keep and write: few registers, so that other rows are read and
        written meanwhile. None: compilers take what they like."""
        if self.wide or self.calls:
            return None
        if not one.home.threads_keep:
            return self._from_slice(one)
        if one.lists == "collected" and len(self.lists) == 1 and self.state <= _LIGHT_STATE:
            return self._collecting(one)
        if one.in_warp or not self.stores or self.lists or self.more:
            return None
        words, shared = max(self.words - _BESIDE, self.kept_bytes // 4), 0
        if self.extra and self.kept_bytes == VECTOR_BYTES:
            words = VECTOR_BYTES // 4
            if not one.has_edges:
                held = int(one.vectors * words * (1 + _OTHERS * self.extra))
                return self._least(one, max(_FEWEST, _BASE + held)) if self._easy else None
            # What all rows share comes a vector at a time (on_chip.mapped_at_once).
            shared = _AT_ONCE * (1 + self.extra) // 2
        several = words > VECTOR_BYTES // 4
        if several and _room(one) > 1:
            return None
        need = _BASE + self.state + one.vectors * words + shared
        if self.heavy:
            need += _WORK + (one.items - one.vectors * words if keeps_value(one) else _WORK)
        if several and one.width == MAX_WIDTH:
            need += _UNPACKED * one.vectors
        return self._least(one, need)

    @property
    def _easy(self) -> bool:
        """Do elements and states leave registers to a row and what comes beside it?"""
        return not self.heavy and self.state <= _EASY_STATE

    def _from_slice(self, one: CudaSchedule) -> RegisterLimit | None:
        """For rows in shared memory that are written with other arrays beside them."""
        beside = self.stores and self.extra and self.kept_bytes == VECTOR_BYTES
        if not one.home.slice_vectors or not beside or one.home.ahead or not self._easy:
            return None
        return _SLICED if one.registers > _SLICED else None

    def _collecting(self, one: CudaSchedule) -> RegisterLimit | None:
        """For lists of rows in registers: as few as hold the items; where blocks of a grid share a
        row, as many as there are for so few. None: as usual, as where several arrays take more."""
        k, items = self.lists[0].k, one.vectors * self.words
        if self.narrow and self.state > _LIST_STATE:  # what is unpacked lies beside it
            items += self.state
        if one.blocks == 1:
            if one.in_warp:
                peaks = one.vectors // together_of(k, one, pairs=self.narrow)
                items += peaks if peaks > 1 else 0
            found = next((n for most, n in _COLLECTED if items <= most), None)
            dense = found is not None and found < _DENSE and makes_keys(k, one)
            return _DENSE if dense else found
        if one.clustered:
            half = one.target.registers_per_sm // 2
            these = (n for most, n in _OF_CLUSTERS if items <= most and one.threads * n <= half)
            return next(these, 128 if items <= _MOST_HELD else 255)
        if self.rows is None:
            return None
        wanted = -(-self.rows * one.blocks // one.target.multiprocessors)
        fit = [n for n in HELD if n >= one.registers and
               _room(replace(one, registers=n)) >= min(wanted, one.per_sm, _room(one))]
        return max(fit, default=None)

    @staticmethod
    def _least(one: CudaSchedule, need: int) -> RegisterLimit | None:
        fit = ((n, b) for n, b in BOUNDS.items() if need <= n < one.registers)
        here = one.target.threads_per_sm
        return next((n for n, b in fit if one.fixed or
                     (one.threads <= b.threads and b.threads * b.blocks <= here)), None)

    def _by_elements(self, one: CudaSchedule) -> RegisterLimit | None:
        """For short rows of 16 bits that lanes hold element by element and fold. None: as usual."""
        folded = one.in_warp and one.home.of_threads and not self.stores and not self.lists
        light = 0 < self.state <= _LIGHT_STATE and self.inputs == 1
        alone = one.width == 1 and self.narrow and light and not self.calls
        if not folded or not alone or one.items < _FOLDED[0]:
            return None
        return next(n for most, n in _FOLDED[1] if one.items <= most)


def _room(one: CudaSchedule) -> int:
    """Blocks of a multiprocessor that its registers suffice for."""
    warps = one.target.registers_per_sm // (_SCHEDULERS * WARP * one.registers) * _SCHEDULERS
    return max(1, min(warps * WARP, one.target.threads_per_sm) // one.threads)
