"""Gradients over vectors by CUDA kernels, on the emulator, against those of CPUs in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import nvrtc
from support import vector_cases as vc
from support.emulated import EMULATED
from support.pairs import pairwise
from support.tile_cases import close, drawn
from support.tiles import emulate, prepared

import fusegen as fg
from fusegen.backend.target import CUDA_TARGETS
from fusegen.library.gradient.vectors.run import Run

pytestmark = EMULATED

Q, K, V = drawn(2, 2, 21, 16), drawn(2, 1, 40, 16, seed=1), drawn(2, 1, 40, 24, seed=2)
CASES: dict[str, tuple[Any, tuple[str, ...], tuple[Any, ...], dict[str, Any]]] = {
    "attention": (fg.library.attention, ("q", "k", "v"),
                  (drawn(2, 2, 21, 24, seed=3), Q, K, V), {"scale": 0.3, "causal": True}),
    "distances": (vc.gaussian, ("x", "y", "b"),
                  (drawn(21), Q[0, 0, :, :3], K[0, 0, :, :3], drawn(40)), {"s": 1.5}),
    "loss": (vc.linear_cross_entropy, ("h", "w"),
             (drawn(21), Q[0, 0], K[0, 0], np.arange(21) % 7), {}),
}
FEW: dict[str, tuple[Any, tuple[str, ...], tuple[Any, ...], dict[str, Any]]] = {
    "few rows": (fg.library.attention, ("q", "k", "v"),
                 (drawn(5, 100, seed=3), drawn(5, 100), drawn(257, 100, seed=1),
                  drawn(257, 100, seed=2), None, None, 50 * np.arange(5)),
                 {"scale": 0.1, "causal": True}),
    "few columns": (fg.library.attention, ("q", "k", "v"),
                    (drawn(300, 100, seed=3), drawn(300, 112), drawn(9, 112, seed=1),
                     drawn(9, 100, seed=2)), {"scale": 0.1}),
    "few classes": (vc.linear_cross_entropy, ("h", "w"),
                    (drawn(512), drawn(512, 80) / 4, drawn(15, 80, seed=1), np.arange(512) % 15),
                    {}),
}


# ---- two dots by the wgmma engine ----


@fg.pipeline
def of_rows(q: fg.RowVector, do: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector,
            m: fg.PerRow, delta: fg.PerRow, *, causal=False):
    p = fg.exp(fg.dot(q, k) - m)
    if causal:
        p = fg.where(fg.index(p) <= fg.row(p), p, 0.0)
    return fg.sum(p * (fg.dot(do, v) - delta) * k)


@fg.pipeline
def of_columns(k: fg.RowVector, v: fg.RowVector, q: fg.ColumnVector, do: fg.ColumnVector,
               m: fg.PerColumn, delta: fg.PerColumn, *, causal=False):
    p = fg.exp(fg.dot(k, q) - m)
    if causal:
        p = fg.where(fg.row(p) <= fg.index(p), p, 0.0)
    return fg.sum(p * (fg.dot(v, do) - delta) * q)


@fg.pipeline
def of_both(k: fg.RowVector, v: fg.RowVector, q: fg.ColumnVector, do: fg.ColumnVector,
            m: fg.PerColumn, delta: fg.PerColumn, *, causal=False):
    """Two sums of the vectors that met."""
    p = fg.exp(fg.dot(k, q) - m)
    if causal:
        p = fg.where(fg.row(p) <= fg.index(p), p, 0.0)
    return fg.sum(p * (fg.dot(v, do) - delta) * q), fg.sum(p * do)


@pytest.mark.long
@pytest.mark.parametrize(("shape", "text", "causal"), pairwise(
    [(70, 130, 24, 40), (65, 257, 128, 128), (17, 300, 16, 256), (130, 90, 104, 72)],
    [of_rows, of_columns, of_both], [False, True]))
def test_two_dots(shape: tuple[int, ...], text: Any, causal: bool) -> None:
    n, m, d, e = shape
    rows = [a.astype("bfloat16") for a in (drawn(2, n, d) / 4, drawn(2, n, e, seed=1))]
    columns = [a.astype("bfloat16") for a in (drawn(1, m, d, seed=2) / 2, drawn(2, m, e, seed=3))]
    numbers = [np.full((2, n), 3, "f4"), drawn(2, n, seed=4)]
    if text is not of_rows:
        numbers = [np.full((2, m), 3, "f4"), drawn(2, m, seed=4)]
    arrays = (*rows, *columns, *numbers)
    assert prepared(text, *arrays, causal=causal)[1].schedule.engine == "wgmma"
    want = text.reference(*(a.astype("f8") for a in arrays), causal=causal)
    made = emulate(text, *arrays, causal=causal)
    for one, exact in zip(made, want, strict=True) if text is of_both else [(made, want)]:
        np.testing.assert_allclose(np.asarray(one, "f8"), exact, atol=1e-2 * np.abs(exact).max())


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize(("text", "causal", "length"), pairwise(
    [of_rows, of_columns, of_both], [False, True], [64, 128]))
def test_two_dots_compiled(text: Any, causal: bool, length: int) -> None:
    """Registers are enough for two tiles of scores, and no product waits for the one before."""
    kinds = dict.fromkeys(text.vectors, f"bfloat16[{length}]")
    work = text.work(target="sm_90", dtype={**kinds, "m": "float32", "delta": "float32"},
                     causal=causal)
    assert work.schedule.engine == "wgmma"
    found = nvrtc.compile_for(work.source, work.schedule.arch)
    assert not found.serialised
    assert found.reports[0].spill_bytes <= 256


# ---- whole gradients ----


@pytest.fixture
def on_a_gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of so many multiprocessors."""
    multiprocessors = getattr(request, "param", 2)

    def results(self: Run, stage: Any, arrays: Any) -> Any:
        pipeline = stage.pipeline
        constants = {n: v for n, v in self._options.items() if n in pipeline.signature.constants}
        found = emulate(pipeline, *arrays, multiprocessors=multiprocessors, **constants)
        return tuple(found.values())

    def crowded(self: Run, stage: Any, like: str, sizes: Any) -> bool:
        return self.gradient.crowded(self.made, stage, self.types[like], sizes,
                                     CUDA_TARGETS["sm_90"])

    monkeypatch.setattr(Run, "_results", results)
    monkeypatch.setattr(Run, "_crowded", crowded)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, dtype: str, on_a_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, wrt, arrays, constants = CASES[name]
    kind = fg.ir.dtypes.dtype_of(dtype).numpy
    given = [a.astype(kind) if a.dtype.kind == "f" else a for a in arrays]
    gradient = fg.grad(pipeline, wrt=wrt, **constants)
    found = gradient(*given, **constants)
    monkeypatch.undo()
    wide = [a.astype(np.float64) if a.dtype.kind != "i" else a for a in given]
    close(found, gradient(*wide, **constants), {"float32": 3e-5, "bfloat16": 2e-2}[dtype])


@pytest.mark.long
@pytest.mark.parametrize("on_a_gpu", [132], indirect=True)
@pytest.mark.parametrize("name", FEW)
def test_few_rows_or_columns(name: str, on_a_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of few rows, whose columns several blocks share."""
    pipeline, wrt, arrays, constants = FEW[name]
    given = [a.astype("bfloat16") if a is not None and a.dtype.kind == "f" else a for a in arrays]
    gradient = fg.grad(pipeline, wrt=wrt, **constants)
    found = gradient(*given, **constants)
    monkeypatch.undo()
    wide = [a if a is None or a.dtype.kind == "i" else a.astype(np.float64) for a in given]
    close(found, gradient(*wide, **constants), 2e-2)
