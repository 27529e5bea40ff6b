"""Generated C++: elements of every type beside those of every other, wherever a text has them."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from support.cpu_cases import executable, run

import fusegen as fg
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.target import CpuTarget, host_cpu, runnable
from fusegen.ir import dtypes as dt
from fusegen.ir.dtypes import DType

pytestmark = [
    pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler"),
    pytest.mark.usefixtures("own_cache"),
]

FLOATS = (dt.FLOAT16, dt.BFLOAT16, dt.FLOAT32, dt.FLOAT64)
PAIRS = [*permutations(FLOATS, 2), (dt.INT8, dt.FLOAT64), (dt.BFLOAT16, dt.INT64)]


def together(x: Any, y: Any, weight: fg.PerColumn, scale: fg.PerRow) -> Any:
    """Whole rows, what columns and rows have, an element at a place that is found."""
    total = fg.sum(x * weight + y * scale)
    return total, x + y * weight, fg.take(x, fg.argmax(y)), fg.take(fg.abs(y), fg.argmax(x))


@pytest.mark.parametrize("target", runnable(host_cpu()), ids=lambda t: t.name)
@pytest.mark.parametrize(("one", "other"), PAIRS, ids=str)
def test_types_beside_one_another(one: DType, other: DType, target: CpuTarget) -> None:
    rng = np.random.default_rng(7)

    def some(shape: tuple[int, ...], kind: DType) -> np.ndarray:
        return (rng.permutation(np.prod(shape)).reshape(shape) % 61 / 4 - 6).astype(kind.numpy)

    arrays = {"x": some((3, 37), one), "y": some((3, 37), other), "weight": some((37,), one),
              "scale": some((3,), other)}
    kinds = (("x", one), ("y", other), ("weight", one), ("scale", other))
    found = executable(together, dtypes=kinds, target=target)
    x, y, c, r = (a.astype(np.float64) for a in arrays.values())
    rows = np.arange(3)
    want = ((x * c + y * r[:, None]).sum(1), x + y * c, x[rows, y.argmax(1)],
            abs(y)[rows, x.argmax(1)])
    for got, exact in zip(run(found, arrays, 37), want, strict=True):
        step = {2: 1e-2, 4: 1e-5}.get(got.dtype.itemsize, 1e-12) if got.dtype.kind != "i" else 0
        np.testing.assert_allclose(got.astype(np.float64), exact, rtol=step, atol=step * 40)
