"""Lists beside results of a row's size: what rows keep for a second sweep, and what lists keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support import nvrtc

import fusegen as fg
from fusegen.backend.cpu.toolchain import find_compiler

Rows = NDArray[np.float64]
SHORT, LONG = 50, 700


def shifted(x: Rows) -> Rows:
    return np.exp(x - x.max(-1, keepdims=True))


def share(e: Rows) -> Rows:
    return e / e.sum(-1, keepdims=True)


def of_the_best(x: Rows, k: int) -> Rows:
    return share(np.where(x >= np.sort(x, -1)[:, -k, None], shifted(x), 0))


def best_of(values: Any, x: Any) -> Any:
    """Softmax of what is among the best: top-K sampling."""
    z = fg.where(x >= fg.min(values), x, -np.inf)
    e = fg.exp(z - fg.max(z))
    return e / fg.sum(e)


WRITTEN: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Rows, int], Rows]]] = {
    "softmax": (lambda v, x: fg.library.softmax(x), lambda x, k: share(shifted(x))),
    "log_softmax": (lambda v, x: fg.library.log_softmax(x),
                    lambda x, k: np.log(share(shifted(x)))),
    "rms_norm": (lambda v, x: x * fg.rsqrt(fg.mean(x * x) + 1e-6),
                 lambda x, k: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)),
    "shifted": (lambda v, x: fg.exp(x - fg.max(x)), lambda x, k: shifted(x)),
    "weighted": (lambda v, x: fg.library.softmax(x) * (x - fg.mean(x)),
                 lambda x, k: share(shifted(x)) * (x - x.mean(-1, keepdims=True))),
    "best_of": (best_of, of_the_best),
}
"""What is written, from a list's values and the row, and the same of NumPy."""


def pipeline(name: str, k: int) -> Any:
    @fg.pipeline
    def both(x):  # type: ignore[no-untyped-def]
        values, indices = fg.topk(x, k)
        return values, indices, WRITTEN[name][0](values, x)

    return both


@pytest.mark.long
@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
@pytest.mark.usefixtures("lightly_optimised")
@pytest.mark.parametrize("k", [3, 9, 40])
@pytest.mark.parametrize("name", WRITTEN)
def test_both_are_right(name: str, k: int) -> None:
    both = pipeline(name, k)
    for n_cols, dtype in ((SHORT, "float32"), (LONG, "float32"), (LONG, "float64")):
        x = np.random.default_rng(k).standard_normal((7, n_cols)).astype(dtype)
        values, indices, written = both(x)
        wide = x.astype(np.float64)
        order = np.argsort(-wide, axis=-1, kind="stable")[:, :k]
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, -1))
        np.testing.assert_allclose(written, WRITTEN[name][1](wide, k), rtol=2e-5, atol=1e-6)


@pytest.mark.long
@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize("name", WRITTEN)
def test_both_compile_for_gpus(name: str) -> None:
    for n_cols, k in ((SHORT, 9), (LONG, 40), (20_000, 9)):
        compiled = pipeline(name, k).compile(fg.Spec((4000, n_cols)), target="sm_90")
        assert nvrtc.valid_for(compiled.source, "sm_90").reports
