"""Accumulators: blocks of any size, any order, any engine's combiner."""

from __future__ import annotations

import pickle
import threading
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from support import state_cases as cases
from support import state_rows as rows
from support.state_cases import cuts_of, flat, near

import fusegen as fg

L = fg.library.PIPELINES
ENDS = fg.pipeline(cases.ends)
SCALED = rows.scaled


def blocks(x: np.ndarray, cuts: list[int]) -> list[tuple[int, np.ndarray]]:
    return [(i, x[..., i:j]) for i, j in pairwise(cuts)]


def of(p: fg.Pipeline, parts: list[tuple[int, np.ndarray]], at: bool = True) -> fg.Accumulator:
    total = p.accumulator()
    for first, part in parts:
        total.update(part, at=first if at else None)
    return total


@pytest.mark.long
@pytest.mark.parametrize("name", ["logsumexp", "softmax_topk", "argmax", "var_mean", "norm2"])
def test_blocks_of_any_size(name):
    """Columns number themselves; out of order they are said."""
    p, rng = L[name], np.random.default_rng(4)
    x = rng.normal(20, 3, (3, 90)).astype("f4")
    want = p.reference(x)
    for cuts in ([0, 90], [*range(91)], cuts_of(90, rng), [0, 0, 1, 1, 40, 90, 90]):
        total = of(p, blocks(x, cuts), at=False)
        assert (total.n_cols, total.columns) in ((90, ((0, 90),)), (90, ()))
        near(total.finish(), want)
        parts = [blocks(x, cuts)[i] for i in rng.permutation(len(cuts) - 1)]
        total = of(p, parts)
        assert total.columns == ((0, 90),)
        near(total.finish(), want)
        near(total.finish(), p.finish(total.states))


@pytest.mark.long
def test_as_a_combiner():
    """create, add input, merge, extract: in pickles and in bytes, empty ones among them."""
    p, rng = L["softmax_topk"], np.random.default_rng(1)
    x = np.round(rng.normal(0, 4, (4, 60))).astype("f4")  # ties
    parts = blocks(x, [0, 7, 8, 30, 30, 60])
    for ship in (lambda a: pickle.loads(pickle.dumps(a)),
                 lambda a: fg.Accumulator.from_bytes(p, a.to_bytes())):
        held = [ship(of(p, [part])) for part in parts] + [ship(p.accumulator(k=5))]
        rng.shuffle(held)
        total = reduce(lambda a, b: ship(a.merge(b)), held, ship(p.accumulator()))
        assert total.columns == ((0, 60),)
        near(total.finish(), p.reference(x))


@pytest.mark.long
def test_what_has_an_order_keeps_it():
    x = np.random.default_rng(0).normal(0, 1, (2, 300)).astype("f4")
    parts = blocks(x, [*range(0, 301, 2)])
    order = np.random.default_rng(2).permutation(len(parts))
    total = of(ENDS, [parts[i] for i in order])
    assert len(total._held) <= 128
    near(total.finish(), (x[:, 0], x[:, -1]))
    left, right = of(ENDS, parts[::2]), of(ENDS, parts[1::2])
    near(left.merge(right).finish(), (x[:, 0], x[:, -1]))
    again = fg.Accumulator.from_bytes(ENDS, of(ENDS, parts[1::2]).to_bytes())
    near(again.finish(), (x[:, 2], x[:, -1]))


@pytest.mark.long
def test_few_states_are_held_and_sums_stay_sharp():
    p = L["var_mean"]
    x = np.random.default_rng(0).normal(1000, 1, (1, 4000)).astype("f4")
    total = p.accumulator()
    for i in range(0, 4000, 4):
        total.update(x[:, i : i + 4])
        assert len(total._held) <= (i // 4 + 1).bit_length()
    near(total.finish(), p.reference(x), 1e-6)


@pytest.mark.long
def test_full_rows_and_labels():
    p, rng = L["cross_entropy"], np.random.default_rng(3)
    x, label = rng.normal(0, 3, (4, 50)).astype("f4"), np.array([0, 49, 7, 50])
    total = p.accumulator()
    for _, part in blocks(x, [0, 9, 9, 41, 50]):
        total.update(part, label)
    near(total.finish(), p.reference(x, label))
    p = L["softmax"]
    total = of(p, blocks(x, [0, 20, 50]), at=False)
    near(np.concatenate([total.finish(x[:, :20]), total.finish(x[:, 20:])], -1), p.reference(x))


def test_constants_and_inputs_of_rows():
    x, by = np.random.default_rng(3).normal(0, 3, (4, 50)).astype("f4"), np.ones(4, "f4")
    total = SCALED.accumulator(t=0.25).update(x[:, :9], by).update(x=x[:, 9:], by=by)
    near(total.finish(by=by), SCALED.reference(x, by, t=0.25))
    again = fg.Accumulator.from_bytes(SCALED, SCALED.accumulator(t=0.25).to_bytes())
    near(again.merge(total).finish(by=by), SCALED.reference(x, by, t=0.25))


def test_threads_may_share_one():
    p, x = L["topk"], np.random.default_rng(3).normal(0, 3, (2, 400)).astype("f4")
    total = p.accumulator()
    parts = blocks(x, [*range(0, 401, 10)])

    def work(i: int) -> None:
        for first, part in parts[i::4]:
            total.update(part, at=first)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    near(total.finish(), p.reference(x))


def test_tensors():
    torch = pytest.importorskip("torch")
    x = torch.randn(3, 40)
    total = L["logsumexp"].accumulator().update(x[:, :4]).update(x[:, 4:])
    torch.testing.assert_close(total.finish(), torch.logsumexp(x, -1))
    again = fg.Accumulator.from_bytes(L["logsumexp"], total.to_bytes(), like=x)
    torch.testing.assert_close(again.finish(), torch.logsumexp(x, -1))


X = np.ones((2, 6), np.float32)


@pytest.mark.parametrize(("make", "kind", "words"), [
    (lambda a: a.finish(), fg.ArgumentError, "has got no block"),
    (lambda a: a.update(X).update(X[:1]), fg.ShapeError, r"rows \(1,\) .* of rows \(2,\)"),
    (lambda a: a.update(X).update(X.astype("f8")), fg.DTypeError, "types"),
    (lambda a: a.update(X).update(X, at=5), fg.ArgumentError, "seen the same columns: 5 … 5"),
    (lambda a: a.update(X, at=-1), fg.ArgumentError, "at"),
    (lambda a: a.merge(L["argmax"].accumulator(index_dtype="int32")), fg.ArgumentError,
     "is for .* what is merged for"),
    (lambda a: a.merge(X), fg.ArgumentError, "ndarray, no states"),
    (lambda a: a.merge(L["norm2"].states(X)), fg.ArgumentError, "not of argmax"),
    (lambda a: L["argmax"].accumulator(k=3), fg.ArgumentError, "k"),
    (lambda a: fg.Accumulator.from_bytes(L["argmax"], b"abc"), fg.ArgumentError, "no accumulator"),
    (lambda a: fg.Accumulator.from_bytes(L["norm2"], a.update(X).to_bytes()), fg.ArgumentError,
     "states of argmax, not of norm2"),
    (lambda a: fg.Accumulator.from_bytes(L["norm2"], a.to_bytes()), fg.ArgumentError,
     "states of argmax, not of norm2"),
])
def test_what_does_not_fit_is_refused_and_changes_nothing(make, kind, words):
    total = L["argmax"].accumulator()
    with pytest.raises(kind, match=words):
        make(total)
    if total.n_cols:
        np.testing.assert_array_equal(flat(total.finish())[0], [0, 0])
        assert total.n_cols == 6


def test_no_byte_may_be_lost_or_changed():
    data = of(ENDS, [(0, X[:, :1]), (4, X[:, :1])]).to_bytes()  # two parts
    for end in range(0, len(data), 5):
        with pytest.raises(fg.ArgumentError):
            fg.Accumulator.from_bytes(ENDS, data[:end])
    cases.no_byte_may_change(lambda changed: fg.Accumulator.from_bytes(ENDS, changed), data)
