"""States whose bits depend on the row alone: the same for any number of shards, in any order."""

from __future__ import annotations

import itertools
import pickle

import ml_dtypes
import numpy as np
import pytest
from support import state_cases as cases
from support import state_rows as rows
from support.emulated import emulated
from support.state_cases import flat, near

import fusegen as fg
from fusegen.backend.cpu.backend import CpuBackend

L = fg.library.PIPELINES
P = 64
TEXTS = {n: fg.pipeline(cases.TEXTS[n]) for n in ("logsumexp", "softmax_topk", "var_mean", "many",
                                                   "places", "tempered")}
TEXTS["ends"] = fg.pipeline(cases.ends)


def shards(n: int, count: int, rng: np.random.Generator) -> list[int]:
    """Cuts between pieces; some shards may have no column."""
    inner = rng.integers(0, n // P + 1, count - 1) * P
    return sorted([0, n, *map(int, inner)])


def sharded(
    p: fg.Pipeline, given: list[np.ndarray], cuts: list[int], rng: np.random.Generator,
    place=np.ascontiguousarray, n: int = 0,
) -> fg.PiecedStates:
    """Each shard an array of its own; merged along a random tree."""
    n = n or cuts[-1]
    parts = [p.states(*rows.cut(p, given, n, i, j, place), at=i, deterministic=True, pieces=P)
             for i, j in itertools.pairwise(cuts)]
    while len(parts) > 1:
        i, j = sorted(rng.choice(len(parts), 2, replace=False))
        parts[i] = fg.merge(p, parts[i], parts.pop(j))
    return parts[0]


def bits(found: object) -> list[bytes]:
    return [a.tobytes() for a in flat(found)]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("where", ["cpu", "numpy"])
def test_the_same_bits_for_any_number_of_shards(name, where, monkeypatch):
    p, rng = fg.pipeline(TEXTS[name].fn), np.random.default_rng(8)
    if where == "numpy":
        monkeypatch.setattr(CpuBackend, "hindrance", lambda *_, **__: "a wish")
    for n in (11 * P + 13, 8 * P, 40):
        x = rng.normal(3, 5, (3, n)).astype("f4")
        given = cases.arguments(name, x)
        one = p.finish(p.states(*given, at=0, deterministic=True, pieces=P))
        near(one, p.reference(*given), 2e-5)
        for count in (1, 2, 3, 4, 7):
            whole = sharded(p, given, shards(n, count, rng), rng)
            assert whole.columns == ((0, n),)
            assert bits(p.finish(whole)) == bits(one), (n, count)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "cross_entropy_grad", "absmax_quantize"])
def test_the_same_bits_of_full_rows(name):
    p, make = rows.CASES[name]
    rng, n = np.random.default_rng(2), 9 * P + 5
    given = make(rng.normal(0, 3, (3, n)).astype("f4"), rng)
    found = []
    for count in (1, 2, 3, 4, 7):
        cuts = shards(n, count, rng)
        whole = sharded(p, given, cuts, rng)
        parts = [flat(p.finish(whole, *rows.cut(p, given, n, i, j, np.asarray), at=i))
                 for i, j in itertools.pairwise(cuts)]
        found.append([np.concatenate(parts, -1) if parts[0].ndim == 2 else parts[0]
                      for parts in zip(*parts, strict=True)])
        rows.same_as(parts, p.reference(*given), 2e-5)
    assert all(bits(tuple(f)) == bits(tuple(found[0])) for f in found)


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16, "float64", "int32"])
def test_the_same_bits_wherever_rows_begin_in_memory(dtype):
    p, rng = TEXTS["var_mean"], np.random.default_rng(5)
    x = rng.normal(0, 9, (4, 5 * P + 7)).astype(dtype)
    wide = np.zeros((4, x.shape[1] + 3), x.dtype)
    wide[:, 1:-2] = x
    turned = np.asfortranarray(x)
    found = [p.states(a, deterministic=True, pieces=P) for a in (x, wide[:, 1:-2], turned)]
    found.append(p.states(x[::-1].copy()[::-1], deterministic=True, pieces=P))
    assert len({p.finish(s)[0].tobytes() for s in found}) == 1


def test_few_runs_are_handed_on_and_they_travel():
    p, rng = TEXTS["softmax_topk"], np.random.default_rng(3)
    x = rng.normal(0, 3, (2, 100 * P)).astype("f4")
    s = p.states(x[:, 3 * P : 90 * P], at=3 * P, deterministic=True, pieces=P)
    assert len(s.runs) <= 2 * 7
    assert s.columns == ((3 * P, 90 * P),)
    rest = [p.states(x[:, : 3 * P], deterministic=True, pieces=P),
            p.states(x[:, 90 * P :], at=90 * P, deterministic=True, pieces=P)]
    one = p.finish(p.states(x, deterministic=True, pieces=P))
    for ship in (lambda a: fg.PiecedStates.from_bytes(p, a.to_bytes()),
                 lambda a: pickle.loads(pickle.dumps(a))):
        assert bits(p.finish(fg.merge(p, ship(rest[1]), ship(s), ship(rest[0])))) == bits(one)
    with pytest.raises(fg.ArgumentError, match="cut off, or changed"):
        fg.PiecedStates.from_bytes(p, s.to_bytes()[:-8])


def test_tensors_and_vectors():
    torch = pytest.importorskip("torch")
    x = torch.randn(2, 5 * P)
    p = L["logsumexp"]
    one = p.finish(p.states(x, deterministic=True, pieces=P))
    two = fg.merge(p, p.states(x[:, 2 * P :], at=2 * P, deterministic=True, pieces=P),
                   p.states(x[:, : 2 * P], at=0, deterministic=True, pieces=P))
    assert torch.equal(p.finish(two), one)
    torch.testing.assert_close(one, torch.logsumexp(x, -1))
    p, n = fg.library.attention, 3 * P + 9
    q, k, v = torch.randn(4, 16), torch.randn(n, 16), torch.randn(n, 8)

    def part(i: int, j: int) -> fg.PiecedStates:
        return p.states(q, k[i:j], v[i:j], at=i, deterministic=True, pieces=P, scale=0.25)

    one = p.finish(part(0, n))
    assert torch.equal(p.finish(fg.merge(p, part(2 * P, n), part(0, P), part(P, 2 * P))), one)
    torch.testing.assert_close(one, torch.softmax(q @ k.T * 0.25, -1) @ v, rtol=1e-5, atol=1e-5)


def test_holders_of_nothing_may_be_at_a_rows_end():
    x, p = np.random.default_rng(7).normal(0, 2, (3, 2 * P + 9)).astype("f4"), L["logsumexp"]
    parts = [p.states(x[:, i:j], at=i, deterministic=True, pieces=P)
             for i, j in ((0, P), (P, 2 * P + 9), (2 * P + 9, 2 * P + 9), (5, 5))]
    one = p.finish(p.states(x, deterministic=True, pieces=P))
    assert p.finish(fg.merge(p, *parts)).tobytes() == one.tobytes()


X = np.ones((2, 3 * P), np.float32)


def part(i: int, j: int, pieces: int = P) -> fg.PiecedStates:
    return L["argmax"].states(X[:, i:j], at=i, deterministic=True, pieces=pieces)


@pytest.mark.parametrize(("make", "words"), [
    (lambda p: part(10, 2 * P), "at=10 is inside a piece of 64 columns"),
    (lambda p: part(0, P, 100), "pieces=100 is no power of two"),
    (lambda p: part(0, P, 32), "pieces=32 is no power of two from 64 on"),
    (lambda p: p.states(X, pieces=64), "without deterministic=True"),
    (lambda p: fg.merge(p, part(0, P + 3), part(2 * P, 3 * P)), "a piece that ends at 67"),
    (lambda p: fg.merge(p, part(0, 2 * P), part(P, 3 * P)), "seen the same columns: 64 … 127"),
    (lambda p: fg.merge(p, part(0, P), p.states(X[:, P:], at=P)), "of no pieces, and states in"),
    (lambda p: fg.merge(p, part(0, 128, 128), part(128, 192)), "pieces of 64 .* pieces of 128"),
    (lambda p: p.finish(fg.merge(p, part(0, P), part(2 * P, 3 * P))), "do not make rows"),
    (lambda p: p.finish(part(P, 3 * P)), "do not make rows"),
])
def test_cuts_that_no_tree_has_are_refused(make, words):
    with pytest.raises(fg.ArgumentError, match=words):
        make(L["argmax"])


@emulated
@pytest.mark.parametrize("name", ["softmax_topk", "var_mean"])
def test_gpus(name, gpu):
    from support import fake_cupy

    p, rng = fg.pipeline(TEXTS[name].fn), np.random.default_rng(1)
    n = 5 * P + 13
    x = rng.normal(3, 5, (2, n)).astype("f4")
    found = []
    for cuts in ([0, n], [0, 2 * P, n], [0, P, 3 * P, 3 * P, n]):
        whole = sharded(p, [x], cuts, rng, lambda a: fake_cupy.array(np.ascontiguousarray(a)))
        found.append(p.finish(whole))
    near(found[0], p.reference(x), 2e-5)
    assert bits(found[0]) == bits(found[1]) == bits(found[2])
