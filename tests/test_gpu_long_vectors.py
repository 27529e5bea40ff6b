"""Long vectors on a GPU: texts that wgmma folds in chunks, elements that cuBLAS makes in pieces,
and gradients as products of tables, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.cases import leaves

import fusegen as fg
from fusegen.backend.cuda.schedule import products, select_vectors
from fusegen.library.gradient.vectors import products as vector_products

pytestmark = pytest.mark.gpu
TOLERANCE = {"float32": 2e-5, "float16": 3e-3, "bfloat16": 2e-2}


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng((seed, *shape)).standard_normal(shape) / 8


def on_gpu(*arrays: Any) -> tuple[Any, ...]:
    """torch's tensors: CuPy has no bfloat16."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    return tuple(torch.from_numpy(np.ascontiguousarray(a)).cuda() for a in arrays)


def typed(dtype: str, *arrays: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """(on the GPU in this type, the same numbers in float64)."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    there = tuple(a.to(getattr(torch, dtype)) for a in on_gpu(*arrays))
    return there, tuple(a.double().cpu().numpy() for a in there)


def close(found: Any, want: Any, dtype: str) -> None:
    for f, w in zip(leaves(found), leaves(want), strict=True):
        got = f.double().cpu().numpy()
        size = max(1.0, float(np.nanmax(np.abs(w))))
        np.testing.assert_allclose(got, w, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * size)


@fg.pipeline
def head(h: fg.RowVector, w: fg.ColumnVector, label: fg.PerRow, b: fg.PerColumn):
    s = fg.dot(h, w) + b
    return fg.logsumexp(s) - fg.take(s, label), fg.max(s), fg.min(fg.abs(s))


SHAPES = [(1, 5000, 4096), (16, 70_001, 264), (64, 40_000, 1000), (65, 9000, 4096),
          (300, 33_333, 520), (3000, 5000, 1024)]


@pytest.mark.parametrize(("shape", "dtype", "form"), [
    *((s, "bfloat16", form) for s in SHAPES for form in ("auto", "online")),
    *((s, dtype, "auto") for s in SHAPES[1:4] for dtype in ("float16", "float32"))])
def test_folds(shape: tuple[int, int, int], dtype: str, form: str) -> None:
    rows, columns, length = shape
    arrays = drawn(rows, length), drawn(columns, length, seed=1)
    (h, w), (rows_of, columns_of) = typed(dtype, *arrays)
    label = np.random.default_rng(0).integers(-1, columns + 1, rows)
    bias = drawn(columns, seed=2).astype("f4")
    found = head(h, w, *on_gpu(label, bias), form=form)
    close(found, head.reference(rows_of, columns_of, label, bias.astype("f8")), dtype)


@pytest.mark.parametrize("rows", [1, 16, 64, 700])
@pytest.mark.parametrize("stored", [True, False])
def test_lists(rows: int, stored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces of 128 rows, or of what there are."""
    if stored:
        monkeypatch.setattr(select_vectors, "_RATES", dict.fromkeys(select_vectors._RATES, 1.0))
    monkeypatch.setattr(products, "PIECE_BYTES", 4 * 30_000 * 128)
    (h, w), (rows_of, columns_of) = typed("bfloat16", 8 * drawn(rows, 1024),
                                          drawn(30_000, 1024, seed=1))
    text = fg.pipeline(fg.library.head_topk.fn)
    values, columns = text(h, w, k=7, form="auto" if stored else "online")
    scores = rows_of @ columns_of.T
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    want = -np.sort(-shares, 1)[:, :7]
    np.testing.assert_allclose(values.double().cpu().numpy(), want, rtol=2e-2)
    picked = np.take_along_axis(shares, columns.cpu().numpy(), 1)
    np.testing.assert_allclose(picked, want, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("small", [True, False], ids=["small pieces", "pieces"])
def test_gradients(dtype: str, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if small:
        monkeypatch.setattr(vector_products, "PIECE_BYTES", 8 * 640 * 300)
        monkeypatch.setattr(vector_products, "MOST_ROWS", 300)
    (h, w), (rows_of, columns_of) = typed(dtype, drawn(700, 1024), drawn(5000, 1024, seed=1))
    label, cotangent = np.random.default_rng(0).integers(0, 5000, 700), drawn(700, seed=3)
    scores = rows_of @ columns_of.T
    p = np.exp(scores - scores.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(700), label] -= 1
    p *= cotangent[:, None]
    gradient = fg.grad(fg.library.linear_cross_entropy, wrt=("h", "w"))
    for f, want in zip(gradient(*on_gpu(cotangent.astype("f4")), h, w, *on_gpu(label)),
                       (p @ columns_of, p.T @ rows_of), strict=True):
        error = np.linalg.norm(f.double().cpu().numpy() - want) / np.linalg.norm(want)
        assert error < TOLERANCE[dtype]


def test_autograd() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    (h, w), _ = typed("bfloat16", drawn(600, 2048), drawn(7000, 2048, seed=1))
    (label,) = on_gpu(np.random.default_rng(0).integers(0, 7000, 600))
    h.requires_grad_(), w.requires_grad_()
    ours = fg.library.linear_cross_entropy(h, w, label).float().mean()
    theirs = torch.nn.functional.cross_entropy((h.float() @ w.float().T), label)
    for f, want in zip(torch.autograd.grad(ours, (h, w)), torch.autograd.grad(theirs, (h, w)),
                       strict=True):
        assert (f.float() - want.float()).norm() < 1e-2 * want.float().norm()
