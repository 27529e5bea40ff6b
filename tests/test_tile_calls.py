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


def test_rows_of_other_calls(gpu: Any) -> None:
    """The rows' numbers are those of each call's own axes."""
    for lead in ((9,), (3, 3), (9, 1), (9,)):
        q, k, v = (drawn(*s, seed=i, dtype="float32") for i, s in enumerate(
            ((*lead, 4), (12, 4), (12, 4))))
        found = causal(array(q), array(k), array(v))
        close(tuple(f.get() for f in leaves(found)), tuple(leaves(causal.reference(q, k, v))))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_same_bits_among_any_number_of_rows(gpu: Any, dtype: str) -> None:
    q, k, v = (drawn(*s, seed=i, dtype=dtype) for i, s in enumerate(
        ((150, 16), (900, 16), (900, 8))))
    many = attention(array(q), array(k), array(v), deterministic=True).get()
    for rows in (slice(0, 1), slice(70, 73), slice(149, 150)):
        few = attention(array(q[rows].copy()), array(k), array(v), deterministic=True).get()
        np.testing.assert_array_equal(few, many[rows])
