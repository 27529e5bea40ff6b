"""Lists of which bounds leave scores out are those of the text: the same bits as where every column
is scored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.vector_cases import nearest

import fusegen as fg
from fusegen.backend.target import CPU_TARGETS, host_cpu, runnable

WIDE, OTHER = "x86-64-v4", "x86-64-v3"

BOUNDED = "fold_bounded"


@pytest.fixture(autouse=True)
def _rows_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few are not worth bounds, and are not bounded."""
    monkeypatch.setenv("FUSEGEN_THREADS", "1")


both = pytest.mark.skipif(host_cpu().name != WIDE, reason=f"this is no {WIDE}")


@fg.pipeline
def nearest_one(x: fg.RowVector, y: fg.ColumnVector):
    return fg.argmin(fg.sqdist(x, y))


@fg.pipeline
def nearest_by_root(x: fg.RowVector, y: fg.ColumnVector, *, k):
    return fg.topk(fg.sqrt(fg.sqdist(x, y)), k, largest=False)


@fg.pipeline
def most_alike(x: fg.RowVector, y: fg.ColumnVector, *, k):
    return fg.topk(fg.dot(x, y), k)


@fg.pipeline
def most_alike_one(x: fg.RowVector, y: fg.ColumnVector):
    return fg.argmax(fg.dot(x, y))


def drawn(rows: int, columns: int, d: int) -> tuple[Any, Any]:
    rng = np.random.default_rng((rows, columns, d))
    return tuple(rng.standard_normal((n, d), np.float32) for n in (rows, columns))


def _cases() -> dict[str, tuple[Any, Any]]:
    """Rows and columns that bounds are hard for."""
    rng = np.random.default_rng(7)
    x, y = drawn(59, 3001, 33)
    scales = np.float32(10.0) ** rng.integers(-25, 25, (len(y), 1)).astype("f4")
    order = np.argsort(-((y - x[:1]) ** 2).sum(-1))
    odd_x, odd_y = x.copy(), y.copy()
    odd_x[3, 5], odd_x[4, 0], odd_x[5] = np.nan, np.inf, 3e38
    odd_y[1500, 2], odd_y[1600, 2], odd_y[1700], odd_y[2900] = np.nan, -np.inf, -3e38, 1e19
    near = x[rng.integers(0, len(x), len(y))]
    return {
        "usual": (x, y), "long": drawn(25, 2100, 200), "short": drawn(30, 1300, 8),
        "equal": (x, np.repeat(y[:50], 60, 0)), "zeros": (0 * x, 0 * y),
        "far": (x + 3e4, y + 3e4), "apart": (x + 100, y - 100), "clusters": (x, near + y / 1000),
        "scales": (x, scales * y), "scales of both": (x * scales[: len(x)], scales * y),
        "huge": (x * 1e20, y * 1e19), "tiny": (x * 1e-22, y * 1e-22),
        "subnormal": (x * 1e-39, y * 1e-39), "less": (x * 1e-30, y * 1e-12),
        "nearest last": (x, y[order]), "nearest first": (x, y[order[::-1]]),
        "unusual": (odd_x, odd_y),
    }


CASES = _cases()


def same(text: Any, x: Any, y: Any, **constants: Any) -> None:
    found, want = (text.compile(x, y, target=target, **constants)(x, y) for target in (WIDE, OTHER))
    for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (found, want)), strict=True):
        np.testing.assert_array_equal(a, b)


@both
@pytest.mark.parametrize("case", CASES)
def test_bounds_leave_out_nothing_that_counts(case: str) -> None:
    x, y = CASES[case]
    same(nearest, x, y, k=7)
    same(nearest_one, x, y)
    same(nearest_by_root, x, y, k=7)
    same(most_alike, x, y, k=7)
    same(most_alike_one, x, y)


@both
@pytest.mark.parametrize("k", [1, 64])
def test_lists_of_any_length(k: int) -> None:
    x, y = CASES["usual"]
    same(nearest, x, y, k=k)
    same(most_alike, x, y, k=k)


@both
def test_batches_and_other_types() -> None:
    """Rows of a batch have columns of their own; vectors of 16 bits are no less exact."""
    x, y = drawn(100, 2600, 16)
    same(nearest, x.reshape(2, 50, 16), y.reshape(2, 1300, 16), k=5)
    same(nearest, x.astype("f2"), y.astype("f2"), k=5)
    same(nearest, x, y.astype("f2"), k=5)


def source_of(text: Any, target: str, vectors: str = "float32[16]", **constants: Any) -> str:
    """Of any processor: none of its code is run."""
    kinds = dict.fromkeys(text.vectors, vectors)
    return text.work(dtype=kinds, n_rows=9, n_cols=2000, target=target, **constants).source


def test_what_is_bounded() -> None:
    """Lists of dots and distances in float32, kept in order, where processors may have bfloat16."""
    for text, constants in ((nearest, {"k": 64}), (nearest_one, {}), (nearest_by_root, {"k": 3}),
                            (most_alike, {"k": 3}),
                            (most_alike_one, {})):
        assert BOUNDED in source_of(text, WIDE, **constants)
        assert BOUNDED not in source_of(text, OTHER, **constants)
    assert BOUNDED not in source_of(nearest, WIDE, k=65)
    assert BOUNDED not in source_of(nearest, WIDE, "float64[16]", k=3)
    assert BOUNDED not in source_of(nearest, WIDE, "float32[7]", k=3)


def test_levels_are_known() -> None:
    assert {WIDE, OTHER} <= {*CPU_TARGETS}
    assert OTHER in {t.name for t in runnable(CPU_TARGETS[WIDE])}
