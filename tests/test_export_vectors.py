"""Exported libraries of pipelines over vectors: by C's ABI, by `fg.load`, and with tensors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.exported import CLibrary

import fusegen as fg
from fusegen import ShapeError
from fusegen.ir.errors import ArgumentError


@fg.pipeline
def every(
    q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, bias: Any, mask: fg.PerColumn,
    limit: fg.PerRow, *, scale: float,
) -> Any:
    """Every shape of array that a text over vectors has, and two kernels."""
    s = scale * fg.dot(q, k) + bias
    s = fg.where((fg.index(s) <= fg.row(s) + limit) & (mask > 0), s, -math.inf)
    p = fg.exp(s - fg.max(s))
    o = fg.sum(p * v) / fg.sum(p)
    return {"o": o, "top": fg.topk(s, 2), "far": fg.sqdist(v, o)}


TYPES = {"q": "float32[12]", "k": "float32[12]", "v": "bfloat16[8]"}
LABEL = "float32_12_float32_12_bfloat16_8"
BATCH, GROUP, ROWS, COLUMNS = 2, 3, 5, 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("every")
    every.export(made, targets=("cpu",), dtypes=(TYPES,), scale=0.5)
    return made


@pytest.fixture(scope="module")
def arrays() -> dict[str, Any]:
    """Grouped queries over the columns of two batches; keys have a stride, the mask is for all."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, np.float32)

    return {
        "q": normal(BATCH, GROUP, ROWS, 12), "k": normal(BATCH, 1, COLUMNS, 20)[..., :12],
        "v": normal(BATCH, 1, COLUMNS, 8).astype(ml_dtypes.bfloat16),
        "bias": normal(BATCH, GROUP, ROWS, COLUMNS),
        "mask": rng.integers(0, 4, COLUMNS).astype(np.float32),
        "limit": np.full((BATCH, GROUP, ROWS), 30, np.int64),
    }


def oracle(a: dict[str, Any], scale: float) -> dict[str, Any]:
    q, k, v = (a[n].astype(np.float64) for n in "qkv")
    s = scale * (q @ np.swapaxes(k, -1, -2)) + a["bias"]
    columns, rows = np.arange(COLUMNS), np.arange(ROWS)[:, None]
    s = np.where((columns <= rows + a["limit"][..., None]) & (a["mask"] > 0), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    o = p @ v / p.sum(-1, keepdims=True)
    order = np.argsort(-s, axis=-1, kind="stable")[..., :2]
    far = ((v[..., None, :, :] - o[..., :, None, :]) ** 2).sum(-1)
    return {"o": o, "values": np.take_along_axis(s, order, -1), "columns": order, "far": far}


def results() -> dict[str, Any]:
    rows = BATCH, GROUP, ROWS
    return {"o": np.full((*rows, 8), 9, np.float32),
            "values": np.full((*rows, 2), 9, np.float32),
            "columns": np.full((*rows, 2), 9, np.int64),
            "far": np.full((*rows, COLUMNS), 9, np.float32)}


def check(found: dict[str, Any], want: dict[str, Any]) -> None:
    np.testing.assert_array_equal(found["columns"], want["columns"])
    np.testing.assert_allclose(found["values"], want["values"], 1e-5, 1e-5)
    np.testing.assert_allclose(found["o"], want["o"], 1e-5, 1e-5)
    np.testing.assert_allclose(found["far"], want["far"], 1e-4, 1e-4)


def words(a: dict[str, Any], out: dict[str, Any]) -> list[Any]:
    """What a function is given before constants and sizes: 15 rows of a batch share its columns."""
    shared = GROUP * ROWS
    return [a["q"], 12, a["k"], 20, 20 * COLUMNS, shared, a["v"], 8, 8 * COLUMNS, shared,
            a["bias"], COLUMNS, a["mask"], 0, shared * BATCH, a["limit"],
            out["o"], out["values"], out["columns"], out["far"], COLUMNS]


@pytest.mark.long
def test_the_c_abi_gives_the_text(folder: Path, arrays: dict[str, Any]) -> None:
    library = CLibrary(next(folder.glob("lib/*.so")), "every")
    for threads in (1, 3):
        out = results()
        given = [*words(arrays, out), 0.75, BATCH * GROUP * ROWS, COLUMNS, ROWS]
        assert library.status(f"{LABEL}_cpu", *given, threads) == 0, library.error()
        check(out, oracle(arrays, 0.75))


@pytest.mark.long
def test_few_rows_of_many_columns(folder: Path) -> None:
    """More threads than rows, which share none of them."""
    n = 270_000
    rng = np.random.default_rng(1)
    k, v = (rng.standard_normal((n, d), np.float32) for d in (12, 8))
    q, bias, mask = k[:1], np.zeros((1, n), np.float32), np.ones(n, np.float32)
    out = [np.full(s, 9, d) for s, d in (((1, 8), "f4"), ((1, 2), "f4"), ((1, 2), "i8"),
                                         ((1, n), "f4"))]
    library = CLibrary(next(folder.glob("lib/*.so")), "every")
    given = [q, 12, k, 12, 0, 1, v.astype(ml_dtypes.bfloat16), 8, 0, 1, bias, n, mask, 0, 1,
             np.full(1, n), *out, n, 0.5, 1, n, 1]
    assert library.status(f"{LABEL}_cpu", *given, 4) == 0, library.error()
    s = 0.5 * (k.astype(np.float64) @ q[0])
    p = np.exp(s - s.max())
    want = p @ v.astype(ml_dtypes.bfloat16).astype(np.float64) / p.sum()
    np.testing.assert_allclose(out[0][0], want, 1e-4, 1e-5)
    np.testing.assert_array_equal(out[2][0], np.argsort(-s, kind="stable")[:2])


@pytest.mark.parametrize(("place", "value", "said"), [
    (5, 7, "the columns of k are for 7 rows each, which do not divide 30 rows"),
    (5, 0, "the columns of k are for 0 rows each, which do not divide 30 rows"),
    (5, 10, "the columns of v are for 15 rows each, those of another array for 10"),
    (-1, 4, "last_rows is 4, which does not divide 30 rows"),
    (-1, 0, "last_rows is 0, which does not divide 30 rows"),
    (2, None, "k is null"),
])
def test_what_is_refused_is_said(
    folder: Path, arrays: dict[str, Any], place: int, value: int | None, said: str
) -> None:
    library = CLibrary(next(folder.glob("lib/*.so")), "every")
    given = [*words(arrays, results()), 0.75, BATCH * GROUP * ROWS, COLUMNS, ROWS]
    given[place] = value
    assert library.status(f"{LABEL}_cpu", *given, 1) in (1, 2)
    assert said in library.error()


def test_results_within_the_columns_are_refused(folder: Path, arrays: dict[str, Any]) -> None:
    """The last vector of the last batch is the columns' as well."""
    library = CLibrary(next(folder.glob("lib/*.so")), "every")
    whole = np.zeros(BATCH * COLUMNS * 20 + BATCH * GROUP * ROWS * COLUMNS, np.float32)
    out = {**results(), "far": whole[BATCH * COLUMNS * 20 - 9:]}
    a = {**arrays, "k": whole}
    given = [*words(a, out), 0.75, BATCH * GROUP * ROWS, COLUMNS, ROWS]
    assert library.status(f"{LABEL}_cpu", *given, 1) == 1
    assert "share memory" in library.error()
    out["far"] = whole[BATCH * COLUMNS * 20 - 8:]
    assert library.status(f"{LABEL}_cpu", *words(a, out), *given[-4:], 1) == 0, library.error()


def test_a_loaded_pipeline_is_called_as_the_pipeline(folder: Path, arrays: dict[str, Any]) -> None:
    loaded = fg.load(folder)
    for _ in range(3):  # the second and third are remembered
        found = loaded(*arrays.values(), scale=0.75)
        check({"o": found["o"], "values": found["top"][0], "columns": found["top"][1],
               "far": found["far"]}, oracle(arrays, 0.75))
    other = {**arrays, "mask": np.broadcast_to(arrays["mask"], (BATCH, 1, COLUMNS))}
    np.testing.assert_array_equal(loaded(*other.values(), scale=0.75)["far"], found["far"])
    with pytest.raises(ArgumentError, match=r"float32\[12\]"):  # of other lengths
        loaded(arrays["q"][..., :8], arrays["k"][..., :8], *list(arrays.values())[2:])
    with pytest.raises(ShapeError, match="do not broadcast"):
        loaded(arrays["q"], arrays["k"][:, :, :7], *list(arrays.values())[2:])


def test_tensors_say_their_own_batches(folder: Path, arrays: dict[str, Any]) -> None:
    torch, ffi = pytest.importorskip("torch"), pytest.importorskip("tvm_ffi")
    module = ffi.load_module(str(next(folder.glob("lib/*.so"))))

    def tensor(array: Any) -> Any:
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    given = {n: tensor(a) for n, a in arrays.items()}
    out = {n: tensor(a) for n, a in results().items()}
    module.every(*given.values(), *out.values(), 0.75, 2)
    check({n: t.float().numpy() if t.is_floating_point() else t.numpy() for n, t in out.items()},
          oracle(arrays, 0.75))
    swapped = given["q"].transpose(0, 1).contiguous().transpose(0, 1)
    with pytest.raises(ValueError, match="q has rows that are not equally far apart"):
        module.every(swapped, *list(given.values())[1:], *out.values(), 0.75)
    with pytest.raises(ValueError, match="v has another number of columns"):
        module.every(given["q"], given["k"][:, :, 1:], *list(given.values())[2:], *out.values(),
                     0.75)
    with pytest.raises(TypeError, match="vectors of these lengths"):
        module.every(given["q"][..., :8], *list(given.values())[1:], *out.values(), 0.75)


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="kernels for rows side by side"):
        every.export(tmp_path, targets=("sm_90",), dtypes=(TYPES,), side_by_side=True, scale=1.0)
    with pytest.raises(ArgumentError, match="would be called float32_8"):
        every.export(tmp_path, dtypes=({"q": "float32[8]"}, {"k": "float32[8]"}), scale=1.0)
    with pytest.raises(ArgumentError, match="no input of softmax holds vectors"):
        fg.library.softmax.export(tmp_path, dtypes=("float32[8]",))
    with pytest.raises(ShapeError, match="vectors of"):
        every.export(tmp_path, dtypes=({"q": "float32[8]"},), scale=1.0)
    with pytest.raises(ArgumentError, match="a library has no code for GPUs of every"):
        every.export(tmp_path, targets=("sm_90",), dtypes=(TYPES,), scale=1.0)
