"""Names of namespace fg: who prints one says it here, so that a program gets what it calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_SAID: ContextVar[set[str] | None] = ContextVar("names of fg that a program says", default=None)


def fg(name: str) -> str:
    """`fg::name`, noted as used by the program that is being printed."""
    said = _SAID.get()
    if said is not None:
        said.add(name)
    return f"fg::{name}"


@contextmanager
def noted_names() -> Iterator[set[str]]:
    """The names that are said inside."""
    said: set[str] = set()
    before = _SAID.set(said)
    try:
        yield said
    finally:
        _SAID.reset(before)
