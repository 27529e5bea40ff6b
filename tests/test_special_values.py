"""The table of special values: what infinities, NaN and ties give, beside torch and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import TARGETS, leaves

import fusegen as fg
from fusegen.backend.registry import target_named
from fusegen.pipeline.variants import Choices

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
X = np.array([*ROWS.values()], np.float32)
HUGE = ("huge",)
WHERE = pytest.mark.parametrize("target", TARGETS)


def run(name, x, target, form="auto", **constants):
    choices = Choices(form=form, target=target_named(target))
    arrays = x if isinstance(x, tuple) else (x,)
    call = fg.library.PIPELINES[name].prepare(arrays, constants, choices=choices)
    call.run()
    return call.hand_back()


def assert_rows(found, wanted, but=()):
    """Results for all of X beside what is due, to float32; names every row that is wrong."""
    wrong = []
    for got, want in zip(leaves(found), leaves(wanted), strict=True):
        # A float64 result beyond float32 is stored as an infinity.
        with np.errstate(over="ignore"):
            due = np.asarray(want).astype(got.dtype).reshape(got.shape)
        same = np.isclose(got, due, rtol=2e-6, atol=0, equal_nan=True).reshape(len(X), -1).all(1)
        wrong += [f"{row}: got {got[k]}, due {due[k]}"
                  for k, row in enumerate(ROWS) if not same[k] and row not in but]
    assert wrong == []


def _row(values):
    return np.array([values], np.float32)


@WHERE
@pytest.mark.parametrize("form", ["online", "safe", "unfused"])
@pytest.mark.parametrize("name", ["softmax", "logsumexp", "argmax", "norm2", "var_mean"])
def test_special_rows_follow_the_text(target, form, name):
    # The float32 sum of the huge row overflows where the text in float64 does not.
    but = HUGE if name == "var_mean" else ()
    assert_rows(run(name, X, target, form), fg.library.PIPELINES[name].reference(X), but)


@WHERE
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_a_row_alone_is_as_among_others(row, target):
    at = [*ROWS.values()].index(row)
    for name in ("softmax", "logsumexp", "argmax", "norm2", "var_mean"):
        alone, among = (leaves(run(name, x, target)) for x in (_row(row), X))
        for one, many in zip(alone, among, strict=True):
            np.testing.assert_allclose(one[0], many[at], rtol=2e-6, err_msg=name)


@WHERE
def test_softmax_and_topk_are_torchs(target):
    torch = pytest.importorskip("torch")
    given = torch.from_numpy(X)
    assert_rows(run("softmax", X, target), torch.softmax(given, -1).numpy())
    values, indices = run("topk", X, target, k=3)
    assert_rows(values, torch.topk(given, 3)[0].numpy())
    assert_rows(np.take_along_axis(X, indices, 1), values)


TORCHS = {
    "log_softmax": lambda torch, x: torch.log_softmax(x, -1),
    "logsumexp": lambda torch, x: torch.logsumexp(x, -1),
    "entropy": lambda torch, x: torch.special.entr(torch.softmax(x, -1)).sum(-1),
    "norm2": lambda torch, x: torch.linalg.vector_norm(x.double(), dim=-1),
    "var_mean": lambda torch, x: (torch.var(x, -1, correction=0), torch.mean(x, -1)),
}


@WHERE
@pytest.mark.parametrize("name", TORCHS)
def test_row_values_are_torchs(target, name):
    torch = pytest.importorskip("torch")
    # The squares of the huge row overflow; torch and the text then differ in inf and NaN.
    but = HUGE if name == "var_mean" else ()
    wanted = [found.numpy() for found in leaves(TORCHS[name](torch, torch.from_numpy(X)))]
    assert_rows(run(name, X, target), tuple(wanted), but)


@WHERE
def test_argmax_is_numpys(target):
    """torch's where there is one greatest element; ties are numpy's and torch documents none."""
    found = run("argmax", X, target)
    assert_rows(found, np.argmax(X, axis=1))
    torch = pytest.importorskip("torch")
    at = torch.argmax(torch.from_numpy(X), -1).numpy()
    assert_rows(np.take_along_axis(X, at[:, None], 1)[:, 0], X.max(axis=1))


@WHERE
@pytest.mark.parametrize("label", [0, 1, 3])
def test_cross_entropy_is_torchs(target, label):
    torch = pytest.importorskip("torch")
    labels = np.full(len(X), label)
    wanted = torch.nn.functional.cross_entropy(
        torch.from_numpy(X), torch.from_numpy(labels), reduction="none"
    )
    # The difference of two huge logits overflows: inf here, NaN in torch.
    assert_rows(run("cross_entropy", (X, labels), target), wanted.numpy(), HUGE)


@WHERE
def test_logsumexp_softmax_and_entropy_are_scipys(target):
    special = pytest.importorskip("scipy.special")
    wide = X.astype(float)
    with np.errstate(all="ignore"):
        p = special.softmax(wide, axis=1)
        wanted = {
            "logsumexp": special.logsumexp(wide, axis=1),
            "softmax": p, "entropy": special.entr(p).sum(axis=1),
        }
    for name, want in wanted.items():
        assert_rows(run(name, X, target), want)


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
