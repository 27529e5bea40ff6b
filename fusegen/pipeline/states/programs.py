"""Programs of one role on arrays: run once, or bound for all arrays that lie alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusegen.backend.arrays.phases import phase_of
from fusegen.backend.executable import Bindable, Bound, Executable
from fusegen.backend.memory import Adopted
from fusegen.backend.problem import Phase
from fusegen.backend.words import Place, address, word
from fusegen.pipeline.variants import Key, Variants


@dataclass(frozen=True, slots=True)
class Run:
    """A program of one role where its arrays lie, by parameter name.

    given: inputs as the caller has them, by the same names; what is read elsewhere is a copy. kept:
    other arrays that replays of a graph need, and nobody else may keep. lies: what the program may
    assume of how rows lie to 16 bytes, if not what they do."""

    variants: Variants
    arrays: Mapping[str, Any]
    shape: tuple[int, int]
    like: Adopted
    first_column: int = 0
    given: Mapping[str, Any] | None = None
    kept: Sequence[Any] = ()
    lies: Phase | None = None

    @property
    def copies(self) -> list[Any]:
        """What is read in place of the caller's memory."""
        given = self.given or {}
        return [self.arrays[n] for n, a in given.items()
                if n in self.arrays and address(self.arrays[n]) != address(a)]

    def executable(self) -> Executable:
        lies = self.lies or phase_of(self.variants.params, self.arrays)
        return self.variants.executable(Key(self.like.memory, self.like.index, self.shape, lies))

    def now(self) -> None:
        """Run, while the memory is being worked in."""
        if self.shape[0]:
            self.executable()(
                self.arrays, *self.shape, first_column=self.first_column, like=self.like.given,
                copies=() if self.like.memory.single else [*self.kept, *self.copies])

    def again(
        self, places: Mapping[str, Place], makers: Mapping[str, Callable[[], Any]] | None = None
    ) -> Again | None:
        """For arrays that lie like these. places: of those whose addresses will differ; makers: of
        results. None where programs cannot be bound, or do not read the caller's own memory."""
        executable = self.executable() if self.shape[0] and not self.copies else None
        if not isinstance(executable, Bindable):
            return None
        made = dict(makers or {})
        order = [n for n in self.arrays if n not in made]
        bound = executable.bound(self.arrays, *self.shape, (*order, *made), self.like.given,
                                 tuple(made.values()), self.first_column)
        kept = {n: self.arrays[n] for n in order if n not in places}
        return Again(bound, tuple(places.get(n) or (-1, word(kept[n])) for n in order), kept)


@dataclass(frozen=True, slots=True)
class Again:
    """A run but for the addresses that differ."""

    bound: Bound
    words: tuple[Place, ...]  # of every array
    kept: Mapping[str, Any]  # arrays and numbers that come with every run

    def run(self, addresses: Sequence[int]) -> list[Any]:
        """Run, and return what was made."""
        return self.bound.run([w if i < 0 else addresses[i] + w for i, w in self.words])


