"""Arrays of every kind, shape and layout."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from support.cases import rows

import fusegen as fg

pytestmark = pytest.mark.usefixtures("served_by")

softmax, topk, var_mean = fg.library.softmax, fg.library.topk, fg.library.var_mean


def same(got, want):
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=3e-6, atol=1e-7)


@pytest.mark.parametrize("axis", [-4, -3, -2, -1, 0, 1, 2, 3])
def test_any_axis_of_any_number_of_axes(axis):
    x = rows((3, 4, 5, 6))
    same(softmax(x, axis=axis), softmax.reference(x, axis=axis))
    values, indices = topk(x, k=2, axis=axis)
    wanted = topk.reference(x, k=2, axis=axis)
    same(values, wanted[0])
    np.testing.assert_array_equal(indices, wanted[1])
    assert values.shape[axis] == 2
    variance, _ = var_mean(x, axis=axis)
    same(variance, x.astype(float).var(axis=axis))


@pytest.mark.parametrize("shape", [(1999, 70), (70, 1999), (3, 50_001)])
def test_columns_of_large_arrays(shape):
    """Rows that lie side by side are copied by tiles; the last of them is narrower."""
    x = rows(shape)
    np.testing.assert_array_equal(var_mean(x, axis=0), var_mean(x.T.copy()))
    values, indices = topk(x.astype(ml_dtypes.bfloat16), k=2, axis=0)
    wanted = topk(x.T.astype(ml_dtypes.bfloat16), k=2)
    np.testing.assert_array_equal(values.T.astype("f4"), wanted[0].astype("f4"))
    np.testing.assert_array_equal(indices.T, wanted[1])


LAYOUTS = {
    "contiguous": lambda x: x,
    "fortran": np.asfortranarray,
    "every second column": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "every second row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "reversed columns": lambda x: x[:, ::-1],
    "reversed rows": lambda x: x[::-1],
    "one row broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "one column broadcast": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "shifted by one element": lambda x: np.hstack([x[:, :1], x])[:, 1:],
    "big endian": lambda x: x.astype(">f4"),
    "field of a structure": lambda x: _field(x),
    "misaligned": lambda x: _misaligned(x),
    "a matrix": lambda x: x.view(np.matrix),
}


def _field(x):
    table = np.zeros(x.shape, [("a", "i1"), ("x", "f4"), ("b", "i2")])
    table["x"] = x
    return table["x"]


def _misaligned(x):
    raw = np.zeros(x.nbytes + 1, np.uint8)
    raw[1:] = np.frombuffer(x.tobytes(), np.uint8)
    return np.frombuffer(raw.data, np.float32, x.size, 1).reshape(x.shape)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_every_layout_reads_the_same(layout):
    x = layout(rows((6, 41)))
    before = np.array(x)
    same(softmax(x), softmax.reference(np.array(x, np.float64)))
    same(fg.library.logsumexp(x), fg.library.logsumexp.reference(np.array(x, np.float64)))
    np.testing.assert_array_equal(x, before)


def test_read_only_arrays_are_read():
    x = rows()
    x.setflags(write=False)
    same(softmax(x), softmax.reference(x))


def test_one_axis_gives_numbers_and_one_column_works():
    x = rows((9,))
    assert fg.library.logsumexp(x).shape == ()
    same(fg.library.logsumexp(x), fg.library.logsumexp.reference(x))
    same(softmax(rows((3, 1))), np.ones((3, 1)))


def test_zero_rows_give_empty_results():
    x = np.zeros((0, 7), np.float32)
    assert softmax(x).shape == (0, 7)
    assert topk(x, k=3)[1].shape == (0, 3)
    assert softmax.reference(x).shape == (0, 7)
    assert fg.library.logsumexp(np.zeros((2, 0, 7), np.float32)).shape == (2, 0)


def test_element_inputs_broadcast_and_side_inputs_fit():
    scores, values = rows((4, 5, 20)), rows((20,), 1)
    wm = fg.library.weighted_mean
    same(wm(scores, values), wm.reference(scores, values))
    ce = fg.library.cross_entropy
    labels = np.arange(5)  # broadcast over the first axis
    same(ce(scores, labels), ce.reference(scores, np.broadcast_to(labels, (4, 5))))
    rms = fg.library.rms_norm
    moved = np.moveaxis(scores, -1, 0)
    same(np.moveaxis(rms(moved, values, axis=0), 0, -1), rms.reference(scores, values))


def test_integers_reduce_as_integers():
    x = np.array([[3, -7, 120, 120]], np.int8)
    values, indices = topk(x, k=2)
    assert values.dtype == np.int8
    assert indices.tolist() == [[2, 3]]

    @fg.pipeline
    def total(x):
        return fg.sum(x), fg.max(x), fg.count(x > 0)

    found = total(x)
    assert [int(v[0]) for v in found] == [236, 120, 3]
    assert found[0].dtype == np.int64


def test_out_is_written_and_returned():
    x = rows((4, 30))
    out = np.empty_like(x)
    assert softmax(x, out=out) is out
    same(out, softmax.reference(x))
    values, indices = np.empty((4, 2), np.float32), np.empty((4, 2), np.int64)
    found = topk(x, k=2, out=(values, indices))
    assert found[0] is values
    same(values, topk.reference(x, k=2)[0])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_out_may_be_strided(axis):
    x = rows((4, 6, 8))
    out = np.empty((4, 6, 16), np.float32)[:, :, ::2]
    softmax(x, axis=axis, out=out)
    same(out, softmax.reference(x, axis=axis))
    shape = [n for i, n in enumerate(x.shape) if i != axis]
    row = np.empty((*shape, 2), np.float32)[..., 0]
    fg.library.logsumexp(x, axis=axis, out=row)
    same(row, fg.library.logsumexp.reference(x, axis=axis))


def test_dict_outputs_keep_their_names():
    @fg.pipeline
    def facts(x):
        return {"low": fg.min(x), "pair": (fg.max(x), fg.sum(x))}

    x = rows()
    found = facts(x)
    assert found.keys() == {"low", "pair"}
    same(found["pair"][0], x.max(axis=1))
    out = {"low": np.empty(5, np.float32), "pair": None}
    assert facts(x, out=out)["low"] is out["low"]


def test_torch_tensors_share_memory_and_come_back():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(rows((3, 40)))
    found = softmax(x)
    assert isinstance(found, torch.Tensor)
    torch.testing.assert_close(found, torch.softmax(x, -1))
    out = torch.empty_like(x)
    assert softmax(x, out=out) is out
    torch.testing.assert_close(out, torch.softmax(x, -1))
    half = x.to(torch.bfloat16)
    found = softmax(half)
    assert found.dtype is torch.bfloat16
    torch.testing.assert_close(found, torch.softmax(half, -1))
    torch.testing.assert_close(softmax(x.T, axis=0).T, torch.softmax(x, -1))
    assert softmax(x.clone().requires_grad_()).requires_grad


def test_bfloat16_arrays():
    x = rows(dtype=ml_dtypes.bfloat16)
    assert softmax(x).dtype == ml_dtypes.bfloat16


def test_compiled_pipelines_serve_their_types():
    x = rows((4, 100))
    for compiled in (softmax.compile(x), softmax.compile(fg.Spec((4, 100), "float32"))):
        same(compiled(x), softmax.reference(x))
        same(compiled(rows((2, 3, 7))), softmax.reference(rows((2, 3, 7))))
        assert compiled.plan.reads_per_element == 2
        assert compiled.derivation.proved
        with pytest.raises(fg.ArgumentError, match="compiled for x float32"):
            compiled(x.astype("float64"))
    by_numpy = softmax.compile(x, target="numpy")
    same(by_numpy(x), softmax.reference(x))
    with pytest.raises(fg.BackendError, match="no source"):
        _ = by_numpy.source


@pytest.mark.long
def test_more_than_2_to_the_31_elements():
    row = np.linspace(-1, 1, 40000, dtype=np.float32)
    x = np.broadcast_to(row, (60000, 40000))  # one row in memory, 2.4e9 elements
    if not _has_compiler():
        pytest.skip("minutes without a compiler")
    found = fg.library.logsumexp(x)
    np.testing.assert_allclose(found[[0, -1]], fg.library.logsumexp.reference(x[:2]), rtol=3e-6)
    assert np.all(found == found[0])


def _has_compiler():
    from fusegen.backend.cpu.toolchain import find_compiler

    return find_compiler() is not None
