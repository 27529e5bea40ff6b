"""What `pytest` runs of itself, and when it runs everything."""

from __future__ import annotations

from math import ceil
from types import SimpleNamespace
from typing import Any

import pytest
from support import slices

NAMES = [f"tests/test_{f}.py::test_{t}[{c}]" for f in "ab" for t in "xyz" for c in range(100)]
Source = pytest.Config.ArgsSource


def test_of_every_test_some_cases() -> None:
    alone = ["tests/test_a.py::test_alone", "tests/test_a.py::test_one[only]"]
    kept = slices.slice_of([*NAMES, *alone])
    assert kept.issuperset(alone)
    of_each = [sum(n.startswith(test) for n in kept) for test in {n[:24] for n in NAMES}]
    assert of_each == [ceil(100 / slices.ONE_IN)] * 6


def test_order_picks_nothing_and_a_new_case_moves_one_at_most() -> None:
    kept = slices.slice_of(NAMES)
    assert slices.slice_of(reversed(NAMES)) == kept
    for new in range(100, 110):
        more = slices.slice_of([*NAMES, f"tests/test_a.py::test_x[{new}]"])
        assert len(kept - more) <= 1


def _config(source: Source, **options: Any) -> Any:
    usual = {"all": False, "keyword": "", "markexpr": ""}
    return SimpleNamespace(args_source=source, option=SimpleNamespace(**usual | options))


@pytest.mark.parametrize(("source", "options", "everything"), [
    (Source.TESTPATHS, {}, False), (Source.ARGS, {}, True), (Source.TESTPATHS, {"all": True}, True),
    (Source.TESTPATHS, {"keyword": "topk"}, True), (Source.TESTPATHS, {"markexpr": "gpu"}, True),
])
def test_what_is_asked_for_runs_as_a_whole(
    source: Source, options: dict[str, Any], everything: bool
) -> None:
    config = _config(source, **options)
    slices.decide(config)
    assert config.option.all is everything
    node = SimpleNamespace(workerinput={}, config=config)
    slices.tell(node)
    worker = _config(Source.ARGS)  # whatever it is called with
    worker.workerinput = node.workerinput
    slices.decide(worker)
    assert worker.option.all is everything


def test_what_is_left_out_is_said() -> None:
    said: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: said.extend(items))
    config: Any = SimpleNamespace(option=SimpleNamespace(all=False), hook=hook)
    items: list[Any] = [
        SimpleNamespace(nodeid=name, get_closest_marker=lambda mark, long=i % 2: long or None)
        for i, name in enumerate(NAMES)
    ]
    every = list(items)
    slices.leave_out(config, items)
    assert sorted(map(id, [*items, *said])) == sorted(map(id, every))
    assert items
    assert not any(i.get_closest_marker("long") for i in items)
