"""Calls over vectors on an emulated machine with a GPU: the whole way of a call, remembered ones
with other arrays too. Tensor maps, rows' numbers and memory beside the arrays are each call's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.cases import leaves
from support.emulated import EMULATED
from support.fake_cupy import array
from support.tile_cases import close
from support.vector_cases import attention, causal, nearest

import fusegen as fg
from fusegen.backend.cuda.schedule.tiles import select

pytestmark = [*EMULATED]


def drawn(*shape: int, seed: int, dtype: str) -> Any:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("text", [attention, causal, nearest], ids=lambda t: t.name)
def test_calls_again_and_again(gpu: Any, text: Any, dtype: str) -> None:
    for turn in range(3):
        shapes = ((2, 1, 9, 16), (2, 1, 40, 16), (2, 1, 40, 8))
        arrays = [drawn(*s, seed=3 * turn + i, dtype=dtype) for i, s in enumerate(shapes)]
        arrays = arrays[: len(arrays) - (text is nearest)]
        found = text(*map(array, arrays))
        close(tuple(f.get() for f in leaves(found)), tuple(leaves(text.reference(*arrays))),
              4e-3 if dtype == "float16" else 3e-5)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_of_sixteen_bits(gpu: Any, dtype: str) -> None:
    """Also of the type that CuPy holds as integers."""
    q, k, v, do = (drawn(*s, seed=i, dtype="float32").astype(dtype) for i, s in enumerate(
        ((2, 9, 16), (2, 40, 16), (2, 40, 8), (2, 9, 8))))
    back = fg.grad(fg.library.attention, wrt=("q", "k", "v"))
    found = back(*map(array, (do, q, k, v)), scale=0.3)
    wide = (a.astype("f8") for a in (do, q, k, v))
    for f, like, want in zip(found, (q, k, v), back(*wide, scale=0.3), strict=True):
        assert f.dtype == like.dtype
        np.testing.assert_allclose(f.get().astype("f8"), want, atol=3e-2 * np.abs(want).max())


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_vectors_that_lie_the_other_way_round(
    gpu: Any, monkeypatch: pytest.MonkeyPatch, dtype: str, which: int
) -> None:
    """Tensor maps know no such strides."""
    monkeypatch.setattr(select, "LITTLE", -1)  # as for many rows
    q, k, v = (drawn(*s, seed=i, dtype=dtype) for i, s in enumerate(
        ((80, 64), (300, 64), (300, 64))))
    given = [array(a) for a in (q, k, v)]
    given[which] = array((q, k, v)[which][::-1].copy())[::-1]
    assert given[which].strides[0] < 0
    found = fg.Pipeline(attention.fn)(*given, scale=0.1)
    close(found.get(), attention.reference(q, k, v, scale=0.1),
          4e-3 if dtype == "float16" else 3e-5)


def test_rows_of_other_calls(gpu: Any) -> None:
    """The rows' numbers are those of each call's own axes."""
    for lead in ((9,), (3, 3), (9, 1), (9,)):
        q, k, v = (drawn(*s, seed=i, dtype="float32") for i, s in enumerate(
            ((*lead, 4), (12, 4), (12, 4))))
        found = causal(array(q), array(k), array(v))
        close(tuple(f.get() for f in leaves(found)), tuple(leaves(causal.reference(q, k, v))))


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_same_bits_among_any_number_of_rows(gpu: Any, dtype: str) -> None:
    q, k, v = (drawn(*s, seed=i, dtype=dtype) for i, s in enumerate(
        ((150, 16), (900, 16), (900, 8))))
    many = attention(array(q), array(k), array(v), deterministic=True).get()
    for rows in (slice(0, 1), slice(70, 73), slice(149, 150)):
        few = attention(array(q[rows].copy()), array(k), array(v), deterministic=True).get()
        np.testing.assert_array_equal(few, many[rows])
