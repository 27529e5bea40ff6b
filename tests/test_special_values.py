"""The table of special values: what infinities, NaN and ties give, beside torch and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from cases import TARGETS, leaves

import fusegen as fg
from fusegen.dispatch import Choices
from fusegen.schedule.target import host_cpu

INF, NAN = np.inf, np.nan
ROWS = {
    "all -inf": [-INF] * 4,
    "some -inf": [-INF, 1, 2, -INF],
    "+inf": [1, INF, 2, 3],
    "two +inf": [1, INF, INF, -INF],
    "nan": [1, NAN, 3, -INF],
    "inf and nan": [INF, NAN, -INF, 0],
    "equal": [2, 2, 2, 2],
    "zeros": [0.0, -0.0, 0, 0],
    "huge": [3e38, -3e38, 1e38, 3e38],
    "one finite": [-INF, -INF, 5, -INF],
}
CASES = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
WHERE = pytest.mark.parametrize("target", TARGETS)


def run(name, x, target, form="auto", **constants):
    choices = Choices(form=form, numpy=target == "numpy", target=host_cpu())
    call = fg.library.PIPELINES[name].prepare((x,), constants, choices=choices)
    call.run()
    return call.hand_back()


def _row(values):
    return np.array([values], np.float32)


@WHERE
@CASES
@pytest.mark.parametrize("form", ["online", "safe", "unfused"])
@pytest.mark.parametrize("name", ["softmax", "logsumexp", "argmax", "norm2", "var_mean"])
def test_special_rows_follow_the_text(row, target, form, name):
    x = _row(row)
    if name == "var_mean" and x.max() > 1e38 and np.isfinite(x).all():
        pytest.skip("its float32 sum overflows where the text in float64 does not")
    wanted = fg.library.PIPELINES[name].reference(x)
    found = run(name, x, target, form)
    for got, want in zip(np.atleast_2d(found), np.atleast_2d(wanted), strict=True):
        # A float64 result beyond float32 is stored as an infinity.
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(got, want.astype(got.dtype), rtol=2e-6)


@WHERE
@CASES
def test_softmax_and_topk_are_torchs(row, target):
    torch = pytest.importorskip("torch")
    x = _row(row)
    given = torch.from_numpy(x)
    np.testing.assert_allclose(run("softmax", x, target), torch.softmax(given, -1), rtol=2e-6)
    values, indices = run("topk", x, target, k=3)
    wanted, _ = torch.topk(given, 3)
    np.testing.assert_array_equal(values, wanted)
    np.testing.assert_array_equal(np.take_along_axis(x, indices, 1), values)


TORCHS = {
    "log_softmax": lambda torch, x: torch.log_softmax(x, -1),
    "logsumexp": lambda torch, x: torch.logsumexp(x, -1),
    "entropy": lambda torch, x: torch.special.entr(torch.softmax(x, -1)).sum(-1),
    "norm2": lambda torch, x: torch.linalg.vector_norm(x.double(), dim=-1),
    "var_mean": lambda torch, x: (torch.var(x, -1, correction=0), torch.mean(x, -1)),
}


@WHERE
@CASES
@pytest.mark.parametrize("name", TORCHS)
def test_row_values_are_torchs(row, target, name):
    torch = pytest.importorskip("torch")
    x = _row(row)
    if name == "var_mean" and np.abs(x[np.isfinite(x)]).max(initial=0) > 1e38:
        pytest.skip("squares overflow; torch and the text then differ in inf and NaN")
    wanted = TORCHS[name](torch, torch.from_numpy(x))
    for got, want in zip(np.atleast_2d(run(name, x, target)), leaves(wanted), strict=True):
        with np.errstate(over="ignore"):
            wide = want.numpy().astype(np.float32)
        np.testing.assert_allclose(got.reshape(wide.shape), wide, rtol=2e-6)


@WHERE
@CASES
def test_argmax_is_numpys(row, target):
    """torch's where there is one greatest element; ties are numpy's and torch documents none."""
    x = _row(row)
    assert run("argmax", x, target).tolist() == [np.argmax(x[0])]
    torch = pytest.importorskip("torch")
    at = torch.argmax(torch.from_numpy(x), -1).numpy()
    np.testing.assert_array_equal(np.take_along_axis(x, at[:, None], 1)[:, 0], [x[0].max()])


@WHERE
@CASES
@pytest.mark.parametrize("label", [0, 1, 3])
def test_cross_entropy_is_torchs(row, target, label):
    torch = pytest.importorskip("torch")
    x, labels = _row(row), np.array([label])
    if np.abs(x[np.isfinite(x)]).max(initial=0) > 1e38:
        pytest.skip("the difference of two logits overflows: inf here, NaN in torch")
    choices = Choices(numpy=target == "numpy", target=host_cpu())
    call = fg.library.cross_entropy.prepare((x, labels), {}, choices=choices)
    call.run()
    wanted = torch.nn.functional.cross_entropy(
        torch.from_numpy(x), torch.from_numpy(labels), reduction="none"
    )
    np.testing.assert_allclose(call.hand_back(), wanted, rtol=2e-6)


@WHERE
@CASES
def test_logsumexp_softmax_and_entropy_are_scipys(row, target):
    special = pytest.importorskip("scipy.special")
    x = _row(row)
    with np.errstate(all="ignore"):
        p = special.softmax(x.astype(float), axis=1)
        wanted = {
            "logsumexp": special.logsumexp(x.astype(float), axis=1),
            "softmax": p, "entropy": special.entr(p).sum(axis=1),
        }  # fmt: skip
    for name, want in wanted.items():
        np.testing.assert_allclose(run(name, x, target), want, rtol=2e-6, err_msg=name)


@WHERE
def test_entropy_takes_impossible_outcomes_as_zero(target):
    x = _row([-INF, 0, 0, -INF])
    np.testing.assert_allclose(run("entropy", x, target), [np.log(2)], rtol=1e-6)
    assert np.isnan(run("entropy", _row([INF, 0, 0, 0]), target)[0])


@WHERE
def test_ties_go_to_the_lowest_column_and_nan_is_greatest(target):
    x = _row([1, 7, NAN, 7, NAN, 7, -INF, 0])
    values, indices = run("topk", x, target, k=5)
    assert indices.tolist() == [[2, 4, 1, 3, 5]]
    np.testing.assert_array_equal(values, [[NAN, NAN, 7, 7, 7]])
    assert run("argmax", x, target).tolist() == [2]
    assert run("argmax", _row([3, 9, 9, 9]), target).tolist() == [1]


@WHERE
def test_every_minus_inf_row_of_a_long_matrix(target):
    x = np.full((3, 5000), -INF, np.float32)
    x[1, 4321] = 2
    np.testing.assert_array_equal(run("logsumexp", x, target), [-INF, 2, -INF])
    _, indices = run("softmax_topk", x, target, k=2)
    assert indices.tolist() == [[0, 1], [4321, 0], [0, 1]]
