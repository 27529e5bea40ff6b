"""Passes, and what they made of one subject: each result known, on disk, or made now."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from fusegen.backend.cache.results import kept
from fusegen.backend.host.threads import load
from fusegen.backend.notices import LOG
from fusegen.compile.dumps import DUMPED, dump, wants_dump
from fusegen.ir.shared import steady


class Subject(Protocol):
    """What passes are run on; results stay in `made`, by the name of the pass."""

    @property
    def made(self) -> dict[str, Any]: ...

    @property
    def name(self) -> str:
        """The pipeline's, for the log."""

    @property
    def settled(self) -> bool:
        """May results be kept? Not what a busy machine had no time to decide."""


_S = TypeVar("_S", bound=Subject)


@dataclass(frozen=True, slots=True)
class Pass(Generic[_S]):
    """`run` makes the result, a `kind`; `key` names it on disk, None: not kept."""

    name: str
    run: Callable[[_S], Any]
    key: Callable[[_S], tuple[str, ...]] | None = None
    kind: Any = None
    needs: tuple[str, ...] = ()  # of others' modules
    verify: Callable[[Any], None] = lambda _: None


def result(subject: _S, passes: Mapping[str, Pass[_S]], name: str) -> Any:
    """The result of a pass for this subject."""
    if name not in subject.made:
        one = passes[name]
        key = None if one.key is None or DUMPED else (name, *one.key(subject))
        make = functools.partial(_run, one, subject)
        subject.made[name] = found = (
            make() if key is None
            else kept(key, make, lambda _: subject.settled, one.kind, subject.name)
        )
        if wants_dump(name):
            dump(name, found)
    return subject.made[name]


def _run(one: Pass[_S], subject: _S) -> Any:
    start = time.perf_counter()
    load(*one.needs)
    with steady():
        subject.made[one.name] = found = one.run(subject)
    LOG.debug("%s %s: %.1f ms", one.name, subject.name, 1e3 * (time.perf_counter() - start))
    one.verify(found)
    return found
