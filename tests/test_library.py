"""Every library pipeline, in every form, on every backend here, against the reference."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import FORMS, TARGETS, arguments, leaves, rows

import fusegen as fg
from fusegen.backend.registry import target_named
from fusegen.cli.compare import compare
from fusegen.pipeline.variants import Choices

pytestmark = pytest.mark.usefixtures("users_flags")

L = fg.library.PIPELINES
SHAPES = [(1, 9), (3, 64), (7, 129), (2, 1000), (2, 3, 33)]
FLOATS = ["float16", ml_dtypes.bfloat16, "float32", "float64"]


def agreement(pipeline, args, form="auto", target="cpu", chunk=None, **constants):
    choices = Choices(form=form, chunk=chunk, target=target_named(target))
    call = pipeline.prepare(args, constants, choices=choices)
    call.run()
    return compare(call)


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", L)
def test_every_form_equals_the_reference(name, form, target):
    for i, shape in enumerate(SHAPES):
        found = agreement(L[name], arguments(name, rows(shape, i)), form, target)
        assert found.worst is None, f"{shape}: {found.worst}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("name", "dtype"), [
    (name, dtype) for at, name in enumerate(L) for dtype in (FLOATS[at % 2], *FLOATS[2:])],
    ids=lambda d: d if isinstance(d, str) else np.dtype(d).name)
def test_every_float_type(name, dtype, target, lightly_optimised):
    """Those of 16 bits, which differ in how they are read and rounded alone, in turn; what -O3
    makes of types, `test_cpu_types` holds."""
    x = rows((4, 130), dtype=dtype)
    found = agreement(L[name], arguments(name, x), target=target)
    assert found.worst is None, str(found.worst)
    results = leaves(L[name](*arguments(name, x)))
    floats = [r for r in results if r.dtype.kind not in "iu"]
    assert all(r.dtype == np.dtype(dtype) for r in floats)


@pytest.mark.parametrize("target", [t for t in TARGETS if t != "numpy"])
@pytest.mark.parametrize("chunk", [1, 64, None])
@pytest.mark.parametrize("name", ["softmax", "softmax_topk", "var_mean", "entropy", "norm2"])
def test_every_chunk_of_the_tree(name, chunk, target, lightly_optimised):
    for shape in ((2, 1), (3, 63), (2, 3001)):
        if shape[1] < 5 and name == "softmax_topk":
            continue
        found = agreement(L[name], (rows(shape),), "online", target, chunk)
        assert found.worst is None, f"{shape}: {found.worst}"


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(L)),
    n_rows=st.integers(1, 5),
    n_cols=st.integers(6, 300),
    seed=st.integers(0, 2**31),
    scale=st.sampled_from([1e-3, 1.0, 30.0]),
)
def test_random_rows(target, name, n_rows, n_cols, seed, scale):
    x = rows((n_rows, n_cols), seed) * np.float32(scale)
    found = agreement(L[name], arguments(name, x), target=target)
    if name == "naive_softmax" and scale == 30.0:
        return  # it overflows float32, as its text says
    assert found.worst is None, str(found.worst)


def test_results_are_those_of_torch():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(rows((4, 50)))
    close = torch.testing.assert_close
    close(fg.library.softmax(x), torch.softmax(x, -1))
    close(fg.library.log_softmax(x), torch.log_softmax(x, -1))
    close(fg.library.logsumexp(x), torch.logsumexp(x, -1))
    close(fg.library.topk(x, k=3), tuple(torch.topk(x, 3)))
    close(fg.library.argmax(x), torch.argmax(x, -1))
    close(fg.library.var_mean(x), torch.var_mean(x, -1, correction=0))
    w, b = torch.rand(50), torch.rand(50)
    close(fg.library.layer_norm(x, w, b), torch.nn.functional.layer_norm(x, (50,), w, b))
    close(fg.library.layer_norm(x, bias=b), torch.nn.functional.layer_norm(x, (50,), None, b))
    close(fg.library.rms_norm(x, w), torch.nn.functional.rms_norm(x, (50,), w, 1e-6))
    labels = torch.tensor([3, 0, 49, 7])
    wanted = torch.nn.functional.cross_entropy(x, labels, reduction="none")
    close(fg.library.cross_entropy(x, labels), wanted)


def test_logsumexp_is_torchs_where_the_greatest_is_0():
    """And not SciPy's log1p of the others: what its text says."""
    torch = pytest.importorskip("torch")
    assert "SciPy's takes log1p" in fg.library.logsumexp.fn.__doc__
    for row in ([0.0, -40.0], [-40.0, 0.0, -50.0], [0.0, -10.0]):
        found = float(fg.library.logsumexp(np.array(row)))
        assert found == pytest.approx(float(torch.logsumexp(torch.tensor(row).double(), 0)))
        assert found == pytest.approx(np.log(np.exp(row).sum()))


def test_norm2_neither_overflows_nor_underflows():
    for scale in (1e-25, 1.0, 1e25):
        x = np.array([[3, 4]], np.float32) * np.float32(scale)
        np.testing.assert_allclose(fg.library.norm2(x), [5 * scale], rtol=1e-6)
    x = np.array([[0, 0], [np.inf, 1], [np.nan, 1]], np.float32)
    np.testing.assert_array_equal(fg.library.norm2(x), [0, np.inf, np.nan])


def test_quantized_rows_scale_back():
    x = rows((4, 100))
    x[2] = 0
    q, scale = fg.library.absmax_quantize(x)
    assert q.dtype == np.int8
    assert np.abs(q).max(axis=1).tolist() == [127, 127, 0, 127]
    assert np.all(np.abs(q * scale[:, None] - x) <= 0.51 * scale[:, None] + 1e-12)


def test_gates_sum_to_one():
    gates, experts = fg.library.moe_gate(rows((9, 16)), k=3)
    np.testing.assert_allclose(gates.sum(axis=1), 1, rtol=1e-6)
    assert experts.shape == (9, 3)
