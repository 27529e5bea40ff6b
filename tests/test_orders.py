"""Greatest and least of rows of every type, by NumPy's orders: what is found, and where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.cuda_cases import Case

import fusegen as fg
from fusegen.backend.cpu import toolchain
from fusegen.ir.dtypes import dtype_of

GROUPS = {
    "single": ("float32", "float16", "bfloat16", "int8", "uint8", "bool"),
    "double": ("float64", "int16", "uint16", "int32", "uint32", "int64"),
}
LENGTHS = (*range(1, 131), 1000)
LISTS = {"one": (1,), "few": (3,), "many": (12,)}


def orders_of(x: Any, ks: tuple[int, ...], kind: str) -> tuple[Any, ...]:
    """Everything that is ordered, of one input."""
    condition = x if kind == "bool" else x > 0
    found = [fg.argmax(condition), fg.argmin(condition), fg.argmax(x), fg.argmin(x)]
    if kind != "bool":
        found += [fg.max(x), fg.min(x)]
        found += [part for k in ks for best in (True, False) for part in fg.topk(x, k, best)]
    if kind == "float":
        found += [fg.argmax(fg.isnan(x)), fg.argmin(fg.isfinite(x))]
    return tuple(found)


def pipeline_of(types: tuple[str, ...], ks: tuple[int, ...]) -> fg.Pipeline:
    kinds = [dtype_of(t).kind for t in types]

    @fg.pipeline
    def ordered(a, b, c, d, e, f):
        return tuple(orders_of(x, ks, k) for x, k in zip((a, b, c, d, e, f), kinds, strict=True))

    return ordered


def wanted(x: np.ndarray, ks: tuple[int, ...]) -> list[np.ndarray]:
    """The same by sorting in NumPy, stable: ties go to the lowest column."""
    kind = {"f": "float", "V": "float", "b": "bool"}.get(x.dtype.kind, "int")
    wide = x.astype(np.float64) if kind == "float" else x.astype(np.int64)
    nan = np.isnan(wide) if kind == "float" else np.zeros(x.shape, bool)
    condition = x if kind == "bool" else wide > 0
    down = np.lexsort((-wide if kind == "float" else ~wide, ~nan), axis=1)  # NaN leads
    up = np.argsort(wide, axis=1, kind="stable")  # NaN comes last
    least = np.where(nan.any(axis=1), down[:, 0], up[:, 0])
    found = [np.argmax(condition, 1), np.argmin(condition, 1), down[:, 0], least]

    def pick(columns: np.ndarray) -> np.ndarray:
        return np.take_along_axis(x, columns, 1)

    if kind != "bool":
        found += [pick(down[:, :1])[:, 0], pick(least[:, None])[:, 0]]
        for k in ks:
            found += [pick(down[:, :k]), down[:, :k], pick(up[:, :k]), up[:, :k]]
    if kind == "float":
        found += [np.argmax(nan, 1), np.argmin(np.isfinite(wide), 1)]
    return found


def special_values(dtype: str) -> list[Any]:
    kind = dtype_of(dtype).kind
    if kind == "bool":
        return [False, True]
    if kind == "int":
        info = np.iinfo(dtype)
        return [info.min, info.min + 1, 0, 1, info.max - 1, info.max]
    tiny = {"float16": 6e-8, "bfloat16": 1e-40, "float32": 1e-45, "float64": 5e-324}[dtype]
    return [-np.inf, np.inf, np.nan, 0.0, -0.0, tiny, -tiny, 1.0]


def hard_rows(n: int, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Every two of the special values, one of them alone, here and there; ties; rows of one."""
    special = np.array(special_values(dtype)).astype(dtype_of(dtype).numpy)
    places = np.unique(np.r_[0, n - 1, rng.integers(0, n, 3)])
    value, other, place = np.meshgrid(range(len(special)), range(len(special)), places)
    rows = np.repeat(other.reshape(-1, 1), n, axis=1)
    rows[np.arange(len(rows)), place.ravel()] = value.ravel()
    return special[np.r_[rows, rng.integers(0, len(special), (20, n))]]


def arrays_of(n: int, group: str) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    found = [hard_rows(n, t, rng) for t in GROUPS[group]]
    most = max(len(x) for x in found)
    return [x[np.arange(most) % len(x)] for x in found]


def check(got: tuple[Any, ...], arrays: list[np.ndarray], ks: tuple[int, ...]) -> None:
    for results, x in zip(got, arrays, strict=True):
        for place, (found, want) in enumerate(zip(results, wanted(x, ks), strict=True)):
            said = f"{x.dtype}, {x.shape[1]} columns, result {place}"
            if found.dtype.kind in "fV":
                found, want = found.astype(np.float64), want.astype(np.float64)
                zeros = (found == 0) & (want == 0) & (place > 5)  # of lists
                # The K greatest are elements of the row, sign and all; the least come with +0.
                minus = np.signbit(want) if place % 4 == 2 else False
                assert not (zeros & (np.signbit(found) != minus)).any(), said
            np.testing.assert_array_equal(found, want, err_msg=said)


@pytest.mark.long
@pytest.mark.skipif(toolchain.find_compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("lists", LISTS)
@pytest.mark.parametrize("group", GROUPS)
def test_orders_on_the_cpu(group: str, lists: str) -> None:
    ks = LISTS[lists]
    ordered = pipeline_of(GROUPS[group], ks)
    for n in LENGTHS[[*LISTS].index(lists)::len(LISTS)]:  # in turn: each ends anywhere in a vector
        if n >= max(ks):
            arrays = arrays_of(n, group)
            check(ordered(*arrays), arrays, ks)


@pytest.mark.parametrize(("dtype", "n"), [
    ("float32", 3), ("float32", 130), ("float16", 33), ("int8", 33), ("bool", 130),
])
def test_orders_on_gpus(dtype: str, n: int) -> None:
    """The generated CUDA, emulated."""

    @fg.pipeline
    def ordered(x):
        return orders_of(x, (3,), dtype_of(dtype).kind)

    x = hard_rows(n, dtype, np.random.default_rng(n))[:60]
    check((Case(ordered, {"x": x}, *x.shape).emulate(),), [x], (3,))
