"""Tests that go side by side: what each asks for is built with the others', and each has its own
outcome."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from simt import toolchain
from support import batches


def body(work: Any, **given: Any) -> batches._Body:
    item: Any = SimpleNamespace(
        nodeid=given["name"], obj=work, callspec=SimpleNamespace(params=given),
        _fixtureinfo=SimpleNamespace(argnames=tuple(given)),
    )
    return batches._Body(item)


def test_each_stops_where_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[list[str]] = []
    steps: list[tuple[str, int]] = []
    monkeypatch.setattr(toolchain, "build_together",
                        lambda sources, check: built.append(sorted(sources)) if check else None)

    def work(name: str, kernels: int) -> None:
        for kernel in range(kernels):
            steps.append((name, kernel))
            toolchain.asked.to_build(f"{name} {kernel}", True)
        if name == "b":
            pytest.fail("b alone")
        if name == "c":
            pytest.skip("c alone")

    batches._run([body(work, name=n, kernels=k) for n, k in (("a", 2), ("b", 1), ("c", 3))])
    assert steps == [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("c", 1), ("c", 2)]
    assert [*filter(None, built)] == [["a 0", "b 0", "c 0"], ["a 1", "c 1"], ["c 2"]]
    found = {name: batches._OUTCOMES.pop(name) for name in "abc"}
    assert found["a"] is None
    assert isinstance(found["b"], pytest.fail.Exception)
    assert isinstance(found["c"], pytest.skip.Exception)


@pytest.mark.batched
@pytest.mark.parametrize("number", [1, 2])
def test_what_takes_parameters_alone_goes_side_by_side(number: int) -> None:
    assert hasattr(toolchain.asked, "to_build")


@pytest.mark.batched
def test_what_has_fixtures_of_its_own_waits_for_them(tmp_path: Any) -> None:
    assert not hasattr(toolchain.asked, "to_build")
