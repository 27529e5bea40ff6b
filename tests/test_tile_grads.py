"""Gradients over vectors by CUDA kernels, on the emulator, against those of CPUs in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import vector_cases as vc
from support.emulated import EMULATED
from support.tile_cases import close, drawn
from support.tiles import emulate

import fusegen as fg
from fusegen.library.vector_run import Run

pytestmark = EMULATED

Q, K, V = drawn(2, 2, 21, 16), drawn(2, 1, 40, 16, seed=1), drawn(2, 1, 40, 24, seed=2)
CASES: dict[str, tuple[Any, tuple[str, ...], tuple[Any, ...], dict[str, Any]]] = {
    "attention": (fg.library.attention, ("q", "k", "v"),
                  (drawn(2, 2, 21, 24, seed=3), Q, K, V), {"scale": 0.3, "causal": True}),
    "loss": (vc.linear_cross_entropy, ("h", "w"),
             (drawn(21), Q[0, 0], K[0, 0], np.arange(21) % 7), {}),
}


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def results(self: Run, pipeline: Any, arrays: Any, options: Any) -> Any:
        return tuple(emulate(pipeline, *arrays, **self._numbers, **options).values())

    monkeypatch.setattr(Run, "_results", results)
    monkeypatch.setattr(Run, "each_alone", property(lambda self: True, lambda self, value: None),
                        raising=False)


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
