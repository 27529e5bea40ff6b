"""Tests that go side by side up to the kernels they need, which are then compiled together.

Most of what the emulator's kernels are made of, they have in common; compiled as one, a score of
them takes a third of the time. So the first of some tests marked `batched` starts those that follow
it in its file, each in a thread of its own. One runs at a time, to its end or until it asks for a
kernel that is not built; when all have stopped, what they ask for is built, and they go on. What
becomes of a test is told when its turn comes, as that test's outcome. Only tests that take nothing
but parameters can be marked: fixtures are not set up for those that start before their turn.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from simt import toolchain

MOST = 48
"""Tests side by side."""

_OUTCOMES: dict[str, BaseException | None] = {}


def call(item: pytest.Function) -> None:
    """Run the test's function, or tell what became of it."""
    if item.nodeid not in _OUTCOMES:
        _run([_Body(one) for one in _from(item)])
    outcome = _OUTCOMES.pop(item.nodeid)
    if outcome is not None:
        raise outcome


def takes(item: pytest.Function) -> bool:
    """Is this test marked, and does it take nothing but parameters?"""
    if item.get_closest_marker("batched") is None or item.get_closest_marker("skip") is not None:
        return False
    if not _parameters(item).keys() >= set(item._fixtureinfo.argnames):
        return False
    return all(_outlives(item, name) for name in _fixtures(item))


def _parameters(item: pytest.Function) -> dict[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _fixtures(item: pytest.Function) -> set[str]:
    return set(item.fixturenames) - set(_parameters(item))


def _outlives(item: pytest.Function, fixture: str) -> bool:
    """Is it more than this test's own?"""
    found = item._fixtureinfo.name2fixturedefs.get(fixture)
    return found is not None and found[-1].scope != "function"


def _from(item: pytest.Function) -> list[pytest.Function]:
    """The test, and those behind it that can start with it."""
    items = item.session.items
    start = items.index(item)
    near = [one for one in items[start : start + 2 * MOST] if one.path == item.path]
    able = [one for one in near if isinstance(one, pytest.Function) and takes(one)
            and one.nodeid not in _OUTCOMES and _fixtures(one) <= _fixtures(item)]
    return able[:MOST]


def _run(bodies: list[_Body]) -> None:
    while bodies:
        for body in bodies:
            body.step()
        bodies = [body for body in bodies if body.is_alive()]
        for check in (True, False):
            wanted = [body.source for body in bodies if body.check == check]
            toolchain.build_together(wanted, check=check)


class _Body(threading.Thread):
    """A test's function, which stops where it asks for a kernel."""

    def __init__(self, item: pytest.Function) -> None:
        super().__init__(daemon=True)
        self.item = item
        self.going, self.stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.source, self.check = "", True

    def step(self) -> None:
        """Start, or go on, up to the end or the next kernel."""
        if self.ident is None:
            self.start()
        self.going.release()
        self.stopped.acquire()
        if self.item.nodeid in _OUTCOMES:
            self.join()

    def run(self) -> None:
        self.going.acquire()
        toolchain.asked.to_build = self.ask
        outcome: BaseException | None = None
        try:
            given = _parameters(self.item)
            self.item.obj(**{name: given[name] for name in self.item._fixtureinfo.argnames})
        except BaseException as error:
            outcome = error
        _OUTCOMES[self.item.nodeid] = outcome
        self.stopped.release()

    def ask(self, source: str, check: bool) -> None:
        self.source, self.check = source, check
        self.stopped.release()
        self.going.acquire()
