"""Kernels over vectors on a GPU, against the texts in float64: every case of the emulator's tests,
and more rows and columns than it has time for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.cases import leaves
from support.tile_cases import CASES, DATA, assigned, close, drawn, most_alike
from support.vector_cases import attention, causal, nearest

pytestmark = pytest.mark.gpu


def on_gpu(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    import cupy

    return tuple(cupy.asarray(a) for a in arrays)


def brought(found: Any) -> tuple[Any, ...]:
    import cupy

    return tuple(cupy.asnumpy(f) for f in leaves(found))


@pytest.mark.parametrize("form", ["auto", "unfused"])
@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, form: str) -> None:
    text, arrays, constants = CASES[name]
    found = brought(text(*on_gpu(arrays), form=form, **constants))
    close(found, tuple(leaves(text.reference(*arrays, **constants))))


LONG = {  # rows, columns, length of q and k, of v
    "one row": (1, 70_001, 64, 64), "one column": (300, 1, 64, 64),
    "short vectors": (500, 900, 1, 3), "odd": (333, 777, 100, 33),
    "long vectors": (65, 300, 512, 512), "few rows": (5, 20_000, 128, 128),
    "float32 in parts": (2050, 8200, 96, 40),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("shape", LONG)
@pytest.mark.parametrize("text", [attention, causal], ids=["full", "causal"])
def test_attention(text: Any, shape: str, dtype: str) -> None:
    """A sum's weights are rounded as 16-bit vectors are."""
    import fusegen as fg

    rows, columns, d, width = LONG[shape]
    kind = fg.ir.dtypes.dtype_of(dtype).numpy
    size = d**-0.25
    arrays = tuple(a.astype(kind) for a in (
        drawn(rows, d) * size, drawn(columns, d, seed=1) * size, drawn(columns, width, seed=2)))
    if dtype == "bfloat16":
        torch = pytest.importorskip("torch", reason="CuPy has no bfloat16, torch is not installed")
        given = tuple(torch.from_numpy(a.astype("f4")).bfloat16().cuda() for a in arrays)
        found = tuple(f.float().cpu().numpy() for f in leaves(text(*given)))
    else:
        found = brought(text(*on_gpu(arrays)))
    tolerance = {"float64": 1e-12, "float32": 3e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    close(found, tuple(leaves(text.reference(*arrays))), tolerance)


@pytest.mark.parametrize("bad", [1e-40, np.inf, np.nan])
@pytest.mark.parametrize("place", ["row", "column", "summed"])
def test_float32_that_is_no_sum_of_parts(place: str, bad: float) -> None:
    """Rows that have none of it are as ever."""
    q, k, v = (drawn(n, 64, seed=i).astype("f4") for i, n in enumerate((2050, 8200, 8200)))
    q[1500, 5] = 1  # a score of -inf would have the weight 0
    (q if place == "row" else k if place == "column" else v)[1500, 5] = bad
    q /= 8
    found = brought(causal(*on_gpu((q, k, v))))
    before = tuple(leaves(causal.reference(q[:1500], k[:1500], v[:1500])))
    close(tuple(f[:1500] for f in found), before, 3e-5)
    if abs(bad) < 1:
        after = leaves(causal.reference(q, k, v))
        close(found, tuple(after), 3e-5)
    else:
        assert not np.isfinite(found[place != "summed"][1500]).all()


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("text", [nearest, most_alike, assigned], ids=lambda t: t.name)
def test_rankings(text: Any, data: str) -> None:
    """Repeated until columns are so many that rounded scores are filtered: the same columns as on
    the CPU, which does not filter."""
    x, y = DATA[data]
    y = np.tile(y, (9000 // len(y) + 1, 1))
    size = np.abs(y).max(initial=0, where=np.isfinite(y))
    y += np.arange(len(y), dtype="f4")[:, None] * 1e-6 * size
    constants = {} if text is assigned else {"k": 10}
    found, want = brought(text(*on_gpu((x, y)), **constants)), leaves(text(x, y, **constants))
    if len(found) == 2:
        np.testing.assert_allclose(found[0], want[0], rtol=3e-6)
    score = np.sum((x[:, None].astype("f8") - y[None]) ** 2, -1) if text is not most_alike else -(
        x.astype("f8") @ y.T.astype("f8"))
    rows = np.arange(len(x))[:, None]
    picked, wanted = (np.reshape(a[-1], (len(x), -1)) for a in (found, want))
    np.testing.assert_allclose(score[rows, picked], score[rows, wanted], rtol=1e-5)
