"""The best of a chunk, by which lists and leaders are filtered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fusegen.ir.monoid import Best, Folded, KBest, Monoid


@dataclass(frozen=True)
class Peaks:
    """Of the lists and leaders of a sweep: a fold of their own, or a folded component that is that
    already."""

    monoid: Monoid
    ranked: tuple[Best | KBest, ...]

    def own(self, best: Best | KBest) -> Folded | None:
        """The fold that finds the chunk's best; None if a folded component is that already."""
        if self._twins(best):
            return None
        return Folded(f"{best.name}_peak", _fold(best), best.lift, best.kind)

    def fold(self, best: Best | KBest) -> Folded:
        """Whichever finds it."""
        return self.own(best) or self._twins(best)[0]

    @property
    def lone(self) -> bool:
        """Is one list all that elements go to? Once it is full they are read once."""
        counts = all(f.counts for f in self.monoid.folded)
        return counts and len(self.ranked) == 1 and isinstance(self.ranked[0], KBest)

    @property
    def owns(self) -> list[Folded]:
        return [own for c in self.ranked if (own := self.own(c)) is not None]

    @property
    def shared(self) -> set[str]:
        """Folded components whose value over the chunk alone is needed."""
        return {self.fold(c).name for c in self.ranked if self.own(c) is None}

    def of_chunk(self, best: Best | KBest) -> str:
        """The chunk's own best value, for the filter."""
        return f"chunk_{self.fold(best).name}"

    def _twins(self, best: Best | KBest) -> list[Folded]:
        return [f for f in self.monoid.folded if f.fold == _fold(best) and f.lift == best.lift]


def _fold(best: Best | KBest) -> Literal["max", "min"]:
    return "max" if isinstance(best, KBest) or best.largest else "min"
