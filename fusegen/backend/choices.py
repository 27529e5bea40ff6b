"""What a backend says of its choices for a program, and of what they cost."""

from __future__ import annotations

from typing import Any, Protocol

from fusegen.ir.forms import Grouping


class Schedule(Protocol):
    """A backend's choices for a program. Hashable; repr() says all of them."""

    @property
    def target(self) -> Any: ...

    @property
    def algorithm(self) -> str:
        """What the field calls the tree of merges; "" where there is none."""

    @property
    def grouping(self) -> Grouping: ...

    @property
    def stored(self) -> str:
        """How elements made of vectors are stored all the same, and why; "": not by the choice."""

    @property
    def crowded(self) -> bool: ...  # had its sums of vectors better be made apart, for room?

    def describe(self) -> str:
        """The choices, for people."""


class PlainSchedule:
    """What most of them answer: one program, whose kernels fold rows as they come."""

    __slots__ = ()

    @property
    def grouping(self) -> Grouping:
        """See `Schedule`."""
        return "rows"

    @property
    def stored(self) -> str:
        """See `Schedule`."""
        return ""

    @property
    def crowded(self) -> bool:
        """See `Schedule`."""
        return False


class Price(Protocol):
    """What a schedule is expected to cost: named parts that add up, or factors."""

    @property
    def parts(self) -> tuple[tuple[str, float], ...]: ...

    @property
    def adds(self) -> bool: ...

    @property
    def total(self) -> float: ...


class Candidate(Protocol):
    """A schedule with its price."""

    @property
    def schedule(self) -> Any: ...

    @property
    def price(self) -> Price: ...

    @property
    def note(self) -> str:
        """What else is known of a choice, for people; "" of others."""

    @property
    def kind(self) -> str:
        """What sets it apart most, for people: the best of each kind are worth a measurement."""

    @property
    def short(self) -> str:
        """The schedule in as few words as tell it from the others."""
