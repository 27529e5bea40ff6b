"""Every example is a program that ends in an assertion, and is run as a user would run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_example(example: Path) -> None:
    assert "assert" in example.read_text()
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_table_of_trees_is_covered() -> None:
    names = {p.stem for p in EXAMPLES}
    assert names >= {
        "naive_softmax", "safe_softmax", "online_softmax", "parallel_merge", "block_online",
        "softmax_topk", "split_rows", "own_reduction", "refused",
    }  # fmt: skip
