"""Values that take long to make, or of several arrays: made once by threads that hold a row."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import nvrtc
from support.cuda_cases import Case
from support.emulated import EMULATED

import fusegen as fg
from fusegen.backend.cuda.emit.source import cuda_source
from fusegen.backend.cuda.schedule.cuda import MAX_ITEMS, CudaSchedule
from fusegen.backend.cuda.schedule.homes import Band, Registers
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.compile.passes import Work
from fusegen.ir.dtypes import dtype_of

pytestmark = EMULATED


@fg.pipeline
def capped(x):  # type: ignore[no-untyped-def]
    """Logits that are capped before their softmax, as Gemma 2 has them."""
    y = 30 * fg.tanh(x / 30)
    e = fg.exp(y - fg.max(y))
    return e / fg.sum(e)


@fg.pipeline
def silu_norm(x):  # type: ignore[no-untyped-def]
    y = x * fg.sigmoid(x)
    return y * fg.rsqrt(fg.mean(y * y) + 1e-6)


@fg.pipeline
def gelu_norm(x):  # type: ignore[no-untyped-def]
    y = x * 0.5 * (1 + fg.erf(x * 0.7071067811865476))
    return (y - fg.mean(y)) * fg.rsqrt(fg.var(y) + 1e-5)


@fg.pipeline
def residual_norm(x, r):  # type: ignore[no-untyped-def]
    s = x + r
    return s, (s - fg.mean(s)) * fg.rsqrt(fg.var(s) + 1e-5)


@fg.pipeline
def beside_itself(x):  # type: ignore[no-untyped-def]
    """What is made is not all that results need."""
    y = fg.tanh(x)
    return x * y * fg.rsqrt(fg.mean(y * y) + 1e-6)


def _erf(x: np.ndarray) -> np.ndarray:
    import math

    return np.vectorize(math.erf)(x)


def _normed(y: np.ndarray, eps: float) -> np.ndarray:
    d = y - y.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + eps)


def _capped(x: np.ndarray) -> tuple[np.ndarray, ...]:
    y = 30 * np.tanh(x / 30)
    e = np.exp(y - y.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True),)


def _silu(x: np.ndarray) -> tuple[np.ndarray, ...]:
    y = x / (1 + np.exp(-x))
    return (y / np.sqrt((y * y).mean(-1, keepdims=True) + 1e-6),)


ORACLES: dict[str, tuple[Any, Callable[..., tuple[np.ndarray, ...]]]] = {
    "capped": (capped, _capped),
    "silu": (silu_norm, _silu),
    "gelu": (gelu_norm, lambda x: (_normed(x * 0.5 * (1 + _erf(x / np.sqrt(2))), 1e-5),)),
    "residual": (residual_norm, lambda x, r: (x + r, _normed(x + r, 1e-5))),
}
MADE = {"capped": "tanhf(", "silu": "sigmoid(", "gelu": "erff(", "residual": "= x + r_;"}


def case_of(name: str, n_rows: int, n_cols: int, dtype: str) -> Case:
    pipeline, _ = ORACLES[name]
    rng = np.random.default_rng(n_cols)
    kind = dtype_of(dtype).numpy
    return Case(pipeline, {a: (rng.standard_normal((n_rows, n_cols)) * 4).astype(kind)
                           for a in pipeline.signature.arrays}, n_rows, n_cols)


def holders(work: Work) -> list[CudaSchedule]:
    """Those whose threads hold so little of a row that they keep what they make."""
    found = candidates(work.program, work.problem, work.target)
    return [c.schedule for c in found
            if isinstance(c.schedule.home, Registers | Band) and c.schedule.items <= MAX_ITEMS]


def kernel_of(work: Work, one: CudaSchedule) -> str:
    """Its text without comments, which quote users' lines."""
    return re.sub(r"//.*", "", cuda_source(work.program, one).text().split("below: the kernel")[1])


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("n_cols", [37, 300, 1000, 4096, 4099])
@pytest.mark.parametrize("name", ORACLES)
def test_results_are_those_of_doubles(name: str, n_cols: int, dtype: str) -> None:
    """By lanes, by bands, by blocks and by clusters, whatever keeps a value and what does not."""
    case = case_of(name, 3, n_cols, dtype)
    wanted = ORACLES[name][1](*(a.astype(np.float64) for a in case.inputs.values()))
    work = case.work(n_rows=100_000, aligned=n_cols % 8 == 0)
    kept = {(s.home.kind, s.team): s for s in reversed(holders(work))}
    others = [c.schedule for c in candidates(work.program, work.problem, work.target)][:2]
    for one in dict.fromkeys([*list(kept.values())[:4], *others]):
        found = case.emulate(schedule=one, aligned=n_cols % 8 == 0)
        for a, w in zip(found, wanted, strict=True):
            slack = 2e-5 if dtype == "float32" else 1e-2
            np.testing.assert_allclose(a.astype(np.float64), w, rtol=slack, atol=slack,
                                       err_msg=one.describe())


@pytest.mark.long
@pytest.mark.parametrize("n_cols", [300, 4096, 12_000])
@pytest.mark.parametrize("name", ORACLES)
def test_it_is_made_once(name: str, n_cols: int) -> None:
    work = case_of(name, 1, n_cols, "bfloat16").work(n_rows=4000, aligned=n_cols % 8 == 0)
    found = holders(work)
    assert found
    for one in found:
        text = kernel_of(work, one)
        assert text.count(MADE[name]) == 1, (one.describe(), text)


@pytest.mark.long
def test_what_needs_more_than_the_value_makes_it_again() -> None:
    x = np.zeros((1, 4096), np.float32)
    work = Case(beside_itself, {"x": x}, 1, 4096).work(n_rows=4000)
    for one in holders(work):
        assert kernel_of(work, one).count("tanhf(") == 2


@pytest.mark.parametrize("n_cols", [3000, 8191, 12_000, 24_000])
@pytest.mark.parametrize("name", ["capped", "silu", "gelu"])
def test_rows_stay_where_it_is_kept(name: str, n_cols: int) -> None:
    """Making it again takes longer than reading the row does: two to three times as long."""
    work = case_of(name, 1, n_cols, "bfloat16").work(n_rows=4000, aligned=n_cols % 8 == 0)
    assert work.schedule in holders(work), work.schedule.describe()


@pytest.mark.parametrize("name", ["capped", "silu", "gelu"])
def test_few_long_rows_are_kept_too(name: str) -> None:
    """Threads that hold more than they can keep take up to 2.4 times as long."""
    work = case_of(name, 1, 200_000, "bfloat16").work(n_rows=16, aligned=True)
    assert work.schedule in holders(work), work.schedule.describe()


@fg.pipeline
def weighted(x, weight: fg.PerColumn, bias: fg.PerColumn):  # type: ignore[no-untyped-def]
    y = x * fg.sigmoid(x)
    return (y - fg.mean(y)) * fg.rsqrt(fg.var(y) + 1e-5) * weight + bias


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("n_cols", [300, 4096, 4099])
def test_beside_what_all_rows_share(n_cols: int, dtype: str) -> None:
    """Right, made once, and nothing that threads hold goes through memory."""
    kind, rng = dtype_of(dtype).numpy, np.random.default_rng(1)
    arrays = {"x": rng.standard_normal((3, n_cols)).astype(kind),
              "weight": rng.standard_normal(n_cols).astype(kind),
              "bias": rng.standard_normal(n_cols).astype(kind)}
    case = Case(weighted, arrays, 3, n_cols)
    x, weight, bias = (a.astype(np.float64) for a in arrays.values())
    wanted = _normed(x / (1 + np.exp(-x)), 1e-5) * weight + bias
    work = case.work(n_rows=4000, aligned=n_cols % 8 == 0)
    for one in holders(work)[:4]:
        (found,) = case.emulate(schedule=one, aligned=n_cols % 8 == 0)
        slack = 2e-5 if dtype == "float32" else 3e-2
        np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=slack, atol=slack)
        assert kernel_of(work, one).count("sigmoid(") == 1
        if not nvrtc.available():
            source = cuda_source(work.program, one).text()
            (report,) = nvrtc.compile_for(source, "sm_90").reports
            assert report.spill_bytes <= 64, (one.describe(), report)


# ---- beside what else a text folds, and numbers of rows ----


def _tanh_and_squares(x):  # type: ignore[no-untyped-def]
    y = fg.tanh(x)
    return y - fg.max(y), fg.max(x * x)


def _of_a_let_that_is_folded(x):  # type: ignore[no-untyped-def]
    u = fg.tanh(x)
    y = x * (1 + u)
    return y * fg.rsqrt(fg.mean(y * y) + 1e-6), fg.max(u)


def _of_a_let_that_is_summed(x):  # type: ignore[no-untyped-def]
    u = fg.exp(-fg.abs(x))
    y = fg.log(u + 1.5)
    return y - fg.mean(y), fg.sum(u * u)


def _nested(x):  # type: ignore[no-untyped-def]
    y = fg.erf(fg.tanh(x) * 2)
    return y - fg.max(y), y * fg.sum(y)


def _of_a_sum_that_is_summed(x, r):  # type: ignore[no-untyped-def]
    s = x + r
    t = fg.tanh(s)
    return t - fg.max(t), fg.sum(s)


def _of_a_product_that_is_summed(x, r):  # type: ignore[no-untyped-def]
    y = x * fg.abs(x)
    s = y + r
    return s - fg.max(s), fg.sum(y)


def _by_columns(x, w: fg.PerColumn):  # type: ignore[no-untyped-def]
    s = x * w
    return s - fg.max(s), fg.max(x)


def _by_rows(x, b: fg.PerRow):  # type: ignore[no-untyped-def]
    y = fg.tanh(x * b)
    return y - fg.max(y)


def _by_rows_of_two(x, r, b: fg.PerRow):  # type: ignore[no-untyped-def]
    s = x * b + r
    return s - fg.max(s)


def _by_a_number(x, *, cap=30.0):  # type: ignore[no-untyped-def]
    y = cap * fg.tanh(x / cap)
    return y - fg.mean(y)


def _ragged(x, n: fg.PerRow):  # type: ignore[no-untyped-def]
    y = fg.tanh(fg.ragged(x, n))
    return y - fg.max(y)


def _numbered(x):  # type: ignore[no-untyped-def]
    y = fg.tanh(x)
    return y - fg.max(y), fg.argmax(y)


def _whole(x, r):  # type: ignore[no-untyped-def]
    s = x * r
    return s, fg.max(s) - s


BESIDE: tuple[Any, ...] = (
    _tanh_and_squares, _of_a_let_that_is_folded, _of_a_let_that_is_summed, _nested,
    _of_a_sum_that_is_summed, _of_a_product_that_is_summed, _by_columns, _by_rows, _by_rows_of_two,
    _by_a_number, _ragged, _numbered, _whole)


def _given(text: Any, n_rows: int, n_cols: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    known = {"x": (n_rows, n_cols), "r": (n_rows, n_cols), "w": (n_cols,), "b": (n_rows,)}
    kind = np.int32 if text is _whole else np.float32
    found = {a: (rng.standard_normal(known[a]) * 2).astype(kind)
             for a in fg.pipeline(text).signature.arrays if a in known}
    if "n" in fg.pipeline(text).signature.arrays:
        found["n"] = np.array([n_cols - 2 * r for r in range(n_rows)])
    return found


@pytest.mark.parametrize("n_cols", [300, 4096])
@pytest.mark.parametrize("text", BESIDE, ids=lambda t: t.__name__)
def test_beside_what_else_is_folded(text: Any, n_cols: int) -> None:
    """Everything is declared once, before what is made of it, and every number is at hand."""
    constants = {"cap": 30.0} if text is _by_a_number else {}
    case = Case(fg.pipeline(text), _given(text, 3, n_cols), 3, n_cols, constants,
                varied=bool(constants))
    work = case.work(n_rows=4000)
    wanted = case.reference()  # NumPy, in the text's own order
    for one in [*holders(work)[:2], work.schedule]:
        for a, w in zip(case.emulate(schedule=one), wanted, strict=True):
            np.testing.assert_allclose(a, w, rtol=3e-5, atol=3e-5, err_msg=one.describe())


@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0)])
def test_zeros_of_either_sign_are_two_texts(zeros: tuple[float, float]) -> None:
    """Kernels are found again by what they say: 0 and -0 are equal, and their inverses are not."""
    x = np.random.default_rng(0).standard_normal((2, 300)).astype(np.float32)
    for zero in zeros:
        def text(x):  # type: ignore[no-untyped-def]
            y = fg.tanh(x)
            return fg.where(y < fg.max(y), zero, y)  # noqa: B023

        (found,) = Case(fg.pipeline(text), {"x": x}, 2, 300).emulate()
        assert (np.signbit(found[found == 0]) == np.signbit(zero)).all()
        assert (found == 0).sum() == 2 * 299


@pytest.mark.parametrize("n_cols", [300, 4096])
def test_of_several_the_last_is_kept(n_cols: int) -> None:
    @fg.pipeline
    def two(x):  # type: ignore[no-untyped-def]
        t = fg.tanh(x)
        y = fg.erf(t * 2)
        return y - fg.max(y), fg.sum(t)

    x = np.zeros((1, n_cols), np.float32)
    work = Case(two, {"x": x}, 1, n_cols).work(n_rows=4000)
    for one in holders(work):
        text = kernel_of(work, one)
        assert (text.count("tanhf("), text.count("erff(")) == (1, 1), one.describe()
