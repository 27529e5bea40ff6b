"""Watches on values that a text used when it was traced.

Each holds the place where a value was found, and the very object that stood there. A look at a
place is one C call or attribute and one comparison, so every call can afford it; where something
else stands now, the text is traced again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

_T = TypeVar("_T")

PLAIN = (bool, int, float, complex, str, bytes, type(None))
_GONE = (LookupError, AttributeError, ValueError, RuntimeError)  # nothing stands there now


@dataclass(frozen=True, slots=True)
class Watches:
    """Places where values were found, and the values."""

    items: tuple[tuple[Mapping[str, Any], str, Any], ...] = ()  # held[name] is value
    others: tuple[tuple[Callable[[Any], Any], Any, Any], ...] = ()  # read(place) is value

    def __add__(self, more: Watches) -> Watches:
        return Watches(_joined(self.items, more.items, lambda i: (id(i[0]), i[1])),
                       _joined(self.others, more.others, _read_of))

    def changed(self) -> bool:
        """Does anything else stand where a value was found? Asked at every call."""
        try:
            for held, name, value in self.items:
                if held[name] is not value:
                    return True
            for read, place, value in self.others:
                if read(place) is not value:
                    return True
        except _GONE:
            return True
        return False

    def renewed(self) -> Watches | None:
        """The same watches, if equal numbers took the place of equal ones and that is all."""
        try:
            items = [(held, name, value, held[name]) for held, name, value in self.items]
            others = [(read, place, value, read(place)) for read, place, value in self.others]
        except _GONE:
            return None
        if not all(_same(*found[2:]) for found in (*items, *others)):
            return None
        return Watches(
            tuple((held, name, now) for held, name, _, now in items),
            tuple((read, place, now) for read, place, _, now in others),
        )


def _joined(
    some: tuple[_T, ...], more: tuple[_T, ...], place: Callable[[_T], Hashable]
) -> tuple[_T, ...]:
    """Each place once: calls should not get slower with every text that is traced."""
    known = {place(one): one for one in (*more, *some)}
    return tuple(known.values())


def _read_of(other: tuple[Callable[[Any], Any], Any, Any]) -> Hashable:
    read, place, _ = other
    return getattr(read, "__func__", read), id(place)


def _same(value: object, now: object) -> bool:
    plain = type(now) is type(value) and isinstance(now, PLAIN)
    return now is value or (plain and repr(now) == repr(value))
