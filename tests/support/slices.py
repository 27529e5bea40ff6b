"""What `pytest` runs of itself: a slice of all tests, in minutes.

Most tests say one thing about many cases: texts, types, shapes, schedules. A slice has one case in
`ONE_IN` of each, and at least one, whichever a hash of its name picks; it leaves out tests marked
`long`. All run with --all, and where files, names or marks are asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any
from zlib import crc32

import pytest

ONE_IN = 16


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="every case of every test, not a slice")


def decide(config: pytest.Config) -> None:
    """Workers are told what was decided where the command was given."""
    told = getattr(config, "workerinput", None)
    asked = config.args_source is pytest.Config.ArgsSource.ARGS
    here = config.option.all or asked or config.option.keyword or config.option.markexpr
    config.option.all = told["all"] if told else bool(here)


def tell(node: Any) -> None:
    """A worker of pytest-xdist's, before it begins."""
    node.workerinput["all"] = node.config.option.all


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.all:
        return
    kept = slice_of([i.nodeid for i in items if i.get_closest_marker("long") is None])
    config.hook.pytest_deselected(items=[i for i in items if i.nodeid not in kept])
    items[:] = [i for i in items if i.nodeid in kept]


def say(config: pytest.Config, terminal: pytest.TerminalReporter) -> None:
    if not config.option.all:
        terminal.write_line(f"a slice of the tests: one case in {ONE_IN} of each; --all runs all")


def slice_of(names: Iterable[str]) -> frozenset[str]:
    """Some cases of each test, the same ones in every process."""
    tests: dict[str, list[str]] = defaultdict(list)
    for name in names:
        tests[name.split("[")[0]].append(name)
    return frozenset(name for cases in tests.values() for name in _some(cases))


def _some(cases: Sequence[str]) -> Sequence[str]:
    """A new case moves others only where it takes their place."""
    picked = sorted(cases, key=lambda name: crc32(name.encode()))
    return picked[:ceil(len(cases) / ONE_IN)]
