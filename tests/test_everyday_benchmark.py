"""The parts of the benchmark of everyday texts that need no GPU: its texts, shapes and oracles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import everyday as bench  # noqa: E402
from scans import everyday  # noqa: E402


@pytest.mark.parametrize("name", everyday.OURS)
def test_a_text_is_what_torch_makes_of_it(name: str) -> None:
    for axis, shape in ((1, (5, 300)), (0, (300, 6))):
        cell = everyday.Cell(name, shape, axis, "float32")
        inputs = everyday.inputs_of(cell, "cpu")
        found = everyday.OURS[name].reference(*(x.numpy() for x in inputs), axis=axis)
        outs = found if isinstance(found, tuple) else (found,)
        held = tuple(torch.from_numpy(np.array(a)) for a in outs)
        assert everyday.error_of(cell, inputs, held) < 1e-4
        for wrong in (2, float("nan")):
            off = tuple(a + wrong if a.is_floating_point() else (a + 1) % 5 for a in held)
            assert everyday.error_of(cell, inputs, off) > 0.1


def test_an_index_is_right_if_what_it_names_is() -> None:
    cell = everyday.Cell("extremes", (1, 4), 1, "float32")
    x = torch.tensor([[1.0, 3.0, 3.0, 1.0]])
    found = tuple(torch.tensor([n]) for n in (3.0, 2, 1.0, 3))
    assert everyday.error_of(cell, (x,), found) == 0
    assert everyday.error_of(cell, (x,), (*found[:3], torch.tensor([1]))) > 0.1


def test_cells_have_keys_of_their_own_and_rows_of_one_size() -> None:
    cells = everyday.cells()
    assert len({c.key for c in cells}) == len(cells)
    many = [c for c in cells if c.axis and c.shape[0] > 16]
    size = {"float32": 4, "bfloat16": 2}
    assert all(0.99 < c.shape[0] * c.shape[1] * size[c.dtype] / everyday.BYTES <= 1 for c in many)


def test_a_report_has_a_line_a_text_and_names_what_is_wrong() -> None:
    one = everyday.Cell("mean", (4, 8), 1, "float32")
    right = {"key": one.key, "work": "mean", "share": 0.91, "status": "ok"}
    wrong = {"key": replace(one, axis=0).key, "work": "mean", "status": "WRONG", "error": 3.0}
    text = bench.report([right, wrong])
    assert text.splitlines()[0].split() == ["mean", "91", "ERR"]
    assert "WRONG mean: 4 × 8 float32, along axis 0 3.0" in text
