"""Every example is a program that ends in an assertion, and is run as one."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import pytest

NEEDS = {"accumulate_beam": "apache_beam", "column_statistics": "dask.array",
         "vocabulary_parallel": "torch"}
TESTS = Path(__file__).parent
EXAMPLES = sorted((TESTS.parent / "examples").glob("*.py"))
STARTED = os.pathsep.join(map(str, (TESTS / "support" / "started", TESTS, TESTS.parent)))
"""On the path of processes that examples start."""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_example(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "assert" in example.read_text()
    first = example.stem.partition("_")[0]
    library = first if first in ("jax", "torch") else NEEDS.get(example.stem)
    if library is not None:
        pytest.importorskip(library, reason=f"{library} is not installed")
    monkeypatch.setattr(sys, "argv", [str(example)])
    monkeypatch.setenv("PYTHONPATH", STARTED, prepend=os.pathsep)
    runpy.run_path(str(example), run_name="__main__")


def test_the_table_of_trees_is_covered() -> None:
    names = {p.stem for p in EXAMPLES}
    assert names >= {
        "naive_softmax", "safe_softmax", "online_softmax", "parallel_merge", "block_online",
        "softmax_topk", "split_rows", "own_reduction", "refused",
    }
