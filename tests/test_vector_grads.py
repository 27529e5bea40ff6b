"""Gradients of texts over vectors, beside torch's in float64, and finite differences in NumPy."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from support import vector_cases as texts

import fusegen as fg

library = fg.library


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def close(found: Any, want: Any, tolerance: float = 1e-11) -> None:
    found, want = np.asarray(found, np.float64), np.asarray(want, np.float64)
    assert found.shape == want.shape
    np.testing.assert_allclose(found, want, rtol=tolerance,
                               atol=tolerance * (1 + np.nanmax(np.abs(want), initial=0)))


def several(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


# ---- texts, and what they are in torch ----


@fg.pipeline
def sinkhorn(x: fg.RowVector, y: fg.ColumnVector, potential: fg.PerColumn, *, eps=1.0):
    return -eps * fg.logsumexp((potential - fg.sqdist(x, y)) / eps)


@fg.pipeline
def manhattan(x: fg.RowVector, y: fg.ColumnVector, t: fg.PerRow):
    distance = fg.inner(fg.abs(x - y))
    return fg.logsumexp(-distance * t), fg.min(distance)


@fg.pipeline
def row_values(x: fg.RowVector, y: fg.ColumnVector, t: fg.PerRow):
    near = fg.take(y, fg.argmin(fg.sqdist(x, y)))
    return x * 2 + t, x / fg.sqrt(fg.inner(x * x)), near * 2 - x


@fg.pipeline
def selected(x: fg.RowVector, y: fg.ColumnVector):
    s, distance = fg.dot(x, y), fg.sqdist(x, y)
    near = fg.argmin(distance)
    return fg.take(y * 2 + 1, near), fg.take(s, near), fg.max(s), fg.sum(y), fg.min(distance)


@fg.pipeline
def bent(q: fg.RowVector, k: fg.ColumnVector):
    """What goes on with a vector of a finished row."""
    p = fg.exp(fg.dot(q, k) - fg.max(fg.dot(q, k)))
    return fg.tanh(fg.sum(p * k) / fg.sum(p)) * q


@fg.pipeline
def sums(q: fg.RowVector, k: fg.ColumnVector, w: fg.PerColumn, t: fg.PerRow):
    """Gradients that are numbers where vectors are asked for, and the other way about."""
    return fg.inner(q), fg.sum(fg.inner(k) * w), fg.inner(q * 0 + t), fg.sum(w), fg.sum(k * t)


@fg.pipeline
def counts(q: fg.RowVector, k: fg.ColumnVector):
    """Whole numbers, and conditions, of each of a vector's numbers and of all of them."""
    s, n = fg.dot(q, k), fg.count(k > 0)
    near = fg.sum(s * fg.inner(fg.where(k > q, 1, 0)))
    mean = fg.sum(s * k) / fg.maximum(n, 1)
    return fg.where(fg.any(k > 1), mean, q), near * fg.inner(n * q), fg.sum(fg.dot(n * q, k))


def distance(x: Any, y: Any) -> Any:
    return ((x[..., :, None, :] - y[..., None, :, :]) ** 2).sum(-1)


def attended(q: Any, k: Any, v: Any, bias: Any = 0, *, scale: float = 1.0, causal: bool = False,
             window: int | None = None, softcap: float | None = None, **_: Any) -> Any:
    import torch

    s = scale * q @ k.mT
    s = s if softcap is None else softcap * torch.tanh(s / softcap)
    row = torch.arange(s.shape[-2])[:, None] if s.ndim > 1 else 0
    column = torch.arange(s.shape[-1])
    seen = (column <= row) if causal else (column >= 0)
    seen = seen if window is None else seen & (column > row - window)
    s = torch.where(seen, s + bias, -math.inf)
    return torch.softmax(s, -1) @ v, torch.logsumexp(s, -1)


def many(q: Any, k: Any, v: Any, lengths: Any) -> Any:
    import torch

    p = torch.softmax(torch.where(torch.arange(len(k)) < lengths[:, None], q @ k.T, -math.inf), -1)
    entropy = -torch.where(p > 0, p * torch.log(torch.where(p > 0, p, 1.0)), 0.0).sum(-1)
    rows = 0 * q[:, :1]
    return v.mean(0) + rows, v.amax(0) + rows, q - p @ k, entropy, (q * q).sum(-1)


def entropy_of(s: Any, labels: Any) -> Any:
    return s.logsumexp(-1) - s.gather(-1, labels[:, None])[:, 0]


def cosines(x: Any, y: Any) -> Any:
    return x / x.norm(dim=-1, keepdim=True) @ (y / y.norm(dim=-1, keepdim=True)).T


def by_torch(name: str, *a: Any, **constants: Any) -> Any:
    import torch

    match name, a:
        case "attention" | "causal", _:
            both = attended(*a, **{"causal": name == "causal", **constants})
            whole = name == "causal" or constants.get("with_lse")
            return both if whole else both[0]
        case "statistics", _:
            return many(*a)
        case "differences", (q, k, v):
            p = torch.softmax(q @ k.T, -1)
            return p @ v, q - p @ k
        case "attended", (q, k):
            return torch.softmax(q @ k.T, -1)
        case "linear_cross_entropy", (h, w, labels):
            return entropy_of(h @ w.T, labels)
        case "contrastive", (x, y):
            s = cosines(x, y) if constants.get("normalize") else x @ y.T
            return entropy_of(s / constants["temperature"], torch.arange(len(x)))
        case "gaussian_sum", (x, y, b):
            return torch.exp(-distance(x, y) / (2 * constants["bandwidth"] ** 2)) @ b
        case "gaussian", (x, y, b):
            return (torch.exp(-distance(x, y) / (2 * constants["s"] ** 2)) * b).sum(-1)
        case "sinkhorn", (x, y, potential):
            s = (potential[..., None, :] - distance(x, y)) / constants["eps"]
            return -constants["eps"] * s.logsumexp(-1)
        case "manhattan", (x, y, t):
            apart = (x[:, None] - y).abs().sum(-1)
            return (-apart * t[:, None]).logsumexp(-1), apart.min(-1).values
    return rows_by_torch(name, *a)


def rows_by_torch(name: str, *a: Any) -> Any:
    """Texts whose results are vectors of rows."""
    import torch

    match name, a:
        case "row_values", (x, y, t):
            near = y[distance(x, y).argmin(-1)]
            return x * 2 + t[:, None], x / x.norm(dim=-1, keepdim=True), near * 2 - x
        case "selected", (x, y):
            s, near = x @ y.T, distance(x, y).argmin(-1)
            return (2 * y[near] + 1, s[range(len(x)), near], s.max(-1).values,
                    y.sum(0) + 0 * x, distance(x, y).min(-1).values)
        case "bent", (q, k):
            return torch.tanh(torch.softmax(q @ k.T, -1) @ k) * q
        case _, (q, k, w, t):
            return (q.sum(-1), (k.sum(-1) * w).sum() + 0 * t, q.shape[-1] * t, w.sum() + 0 * t,
                    k.sum(0) * t[:, None])
    raise AssertionError(name)


def beside_torch(
    pipeline: Any, wrt: tuple[str, ...], arrays: tuple[Any, ...], **constants: Any
) -> None:
    """The gradients, from cotangents drawn at random, are torch's."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    names = pipeline.signature.arrays
    given = {n: torch.tensor(a, requires_grad=n in wrt)
             for n, a in zip(names, arrays, strict=False)}
    outputs = several(by_torch(pipeline.name, *given.values(), **constants))
    cotangents = [torch.tensor(drawn(*o.shape, seed=9)) for o in outputs]
    want = torch.autograd.grad(outputs, [given[n] for n in wrt], cotangents, allow_unused=True)
    gradient = fg.grad(pipeline, wrt=wrt, **constants)
    found = several(gradient(*(c.numpy() for c in cotangents), *arrays, **constants))
    for name, mine, theirs in zip(wrt, found, want, strict=True):
        assert mine.dtype == np.float64
        close(mine, np.zeros(given[name].shape) if theirs is None else theirs.numpy())


QKV = ("q", "k", "v")


@pytest.mark.long
@pytest.mark.parametrize("shapes", [
    ((2, 9, 5), (2, 40, 5), (2, 40, 3)),
    ((2, 3, 4, 9, 5), (2, 3, 1, 40, 5), (2, 1, 1, 40, 3)),  # queries of a group; shared values
    ((2, 3, 9, 5), (3, 40, 5), (40, 3)),
    ((9, 5), (2, 3, 40, 5), (2, 1, 40, 3)),  # rows that are the same in every batch
    ((1, 5), (40, 5), (40, 3)), ((5,), (40, 5), (40, 3)), ((7, 1), (1, 1), (1, 1)),
    ((7, 1), (300, 1), (300, 1)), ((50, 100), (257, 100), (257, 17)),
])
def test_attention(shapes: tuple[tuple[int, ...], ...]) -> None:
    arrays = tuple(drawn(*shape, seed=i) for i, shape in enumerate(shapes))
    beside_torch(texts.attention, QKV, arrays, scale=shapes[0][-1] ** -0.5)


@pytest.mark.long
@pytest.mark.parametrize("constants", [
    {"causal": True, "window": 5}, {"softcap": 2.0}, {"causal": True, "with_lse": True},
], ids=lambda c: "-".join(c))
def test_masks_and_caps(constants: dict[str, Any]) -> None:
    q, k, v = drawn(2, 3, 30, 8), drawn(2, 1, 30, 8, seed=1), drawn(2, 3, 30, 4, seed=2)
    beside_torch(library.attention, QKV, (q, k, v), scale=0.4, **constants)


@pytest.mark.long
def test_bias() -> None:
    arrays = drawn(2, 9, 5), drawn(2, 40, 5), drawn(2, 40, 3), drawn(9, 40)
    beside_torch(texts.attention, (*QKV, "bias"), arrays)


@pytest.mark.long
@pytest.mark.parametrize(("pipeline", "wrt", "arrays", "constants"), [
    (texts.causal, QKV, (drawn(30, 5), drawn(40, 5), drawn(40, 3)), {}),
    (texts.differences, QKV, (drawn(45, 6), drawn(310, 6), drawn(310, 4)), {}),
    (texts.attended, ("q", "k"), (drawn(33, 7), drawn(270, 7)), {}),
    (texts.gaussian, ("x", "y", "b"), (drawn(50, 3), drawn(333, 3), drawn(333)), {"s": 0.7}),
    (library.gaussian_sum, ("x", "y", "b"), (drawn(50, 3), drawn(333, 3), drawn(333, 2)),
     {"bandwidth": 0.7}),
    (library.contrastive, ("x", "y"), (drawn(30, 8), drawn(30, 8, seed=1)), {"temperature": 0.3}),
    (library.contrastive, ("x", "y"), (drawn(30, 8), drawn(30, 8, seed=1)),
     {"temperature": 0.3, "normalize": True}),
    (sinkhorn, ("x", "y", "potential"), (drawn(3, 20, 4), drawn(3, 30, 4), drawn(3, 30)),
     {"eps": 0.5}),
    (manhattan, ("x", "y", "t"), (drawn(20, 4), drawn(30, 4), np.abs(drawn(20))), {}),
    (row_values, ("x", "y", "t"), (drawn(20, 4), drawn(30, 4), drawn(20)), {}),
    (selected, ("x", "y"), (drawn(20, 4), drawn(30, 4)), {}),
    (bent, ("q", "k"), (drawn(20, 4), drawn(30, 4)), {}),
    (sums, ("q", "k", "w", "t"), (drawn(20, 4), drawn(30, 4), drawn(30), drawn(20)), {}),
], ids=lambda x: getattr(x, "name", None))
def test_beside_torch(
    pipeline: Any, wrt: tuple[str, ...], arrays: tuple[Any, ...], constants: dict[str, Any]
) -> None:
    beside_torch(pipeline, wrt, arrays, **constants)


@pytest.mark.long
def test_lengths() -> None:
    lengths = np.random.default_rng(0).integers(1, 311, 45)
    beside_torch(texts.statistics, QKV, (drawn(45, 6), drawn(310, 6), drawn(310, 4), lengths))


@pytest.mark.parametrize("rows", [1, 40])
def test_logits_that_are_never_stored(rows: int) -> None:
    labels = np.random.default_rng(0).integers(0, 99, rows)
    labels[-3:] = labels[0]  # what several rows add to
    arrays = drawn(rows, 16), drawn(99, 16), labels
    beside_torch(library.linear_cross_entropy, ("h", "w"), arrays)
    stages = fg.grad(library.linear_cross_entropy, wrt=("h", "w")).stages()
    assert [stage.plan().sweeps for stage in stages] == [1, 1]


# ---- finite differences ----


def differences(
    pipeline: Any, name: str, arrays: dict[str, Any], cotangents: list[Any], **constants: Any
) -> Any:
    """∂ Σ cotangent · output / ∂ array, by central differences of the text in float64."""
    found, step = np.zeros(arrays[name].shape), 1e-6
    for place in np.ndindex(found.shape):
        ends = []
        for sign in (1, -1):
            moved = arrays[name].copy()
            moved[place] += sign * step
            outputs = several(pipeline.reference(**{**arrays, name: moved}, **constants))
            ends.append(sum((c * o).sum() for c, o in zip(cotangents, outputs, strict=True)))
        found[place] = (ends[0] - ends[1]) / (2 * step)
    return found


@pytest.mark.long
@pytest.mark.parametrize(("pipeline", "arrays", "constants"), [
    (library.attention, {"q": drawn(2, 2, 4, 3), "k": drawn(2, 1, 5, 3), "v": drawn(2, 5, 2)},
     {"scale": 0.6, "causal": True, "softcap": 3.0}),
    (texts.gaussian, {"x": drawn(2, 3, 2), "y": drawn(4, 2), "b": drawn(4)}, {"s": 0.8}),
    (bent, {"q": drawn(3, 4), "k": drawn(5, 4)}, {}),
    (counts, {"q": drawn(3, 4), "k": drawn(9, 4)}, {}),
], ids=["attention", "gaussian", "bent", "counts"])
def test_finite_differences(
    pipeline: Any, arrays: dict[str, Any], constants: dict[str, Any]
) -> None:
    outputs = several(pipeline.reference(**arrays, **constants))
    cotangents = [drawn(*o.shape, seed=5) for o in outputs]
    gradient = fg.grad(pipeline, wrt=tuple(arrays), **constants)
    found = several(gradient(*cotangents, **arrays, **constants))
    for name, one in zip(arrays, found, strict=True):
        close(one, differences(pipeline, name, arrays, cotangents, **constants), 1e-6)


# ---- types, sizes, special values ----


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_types(dtype: str) -> None:
    """Longer than a tile: the last vector of a row's span goes beyond its tile."""
    kind = fg.ir.dtypes.dtype_of(dtype).numpy
    arrays = [a.astype(kind) for a in (drawn(300, 20, seed=4), drawn(300, 16), drawn(300, 16),
                                       drawn(300, 20))]
    gradient = fg.grad(library.attention, wrt=QKV, scale=1.0)
    options = {"scale": 0.8, "causal": True}
    want = gradient(*(a.astype(np.float64) for a in arrays), **options)
    for found, right in zip(gradient(*arrays, **options), want, strict=True):
        assert found.dtype == kind
        close(found, right, {"float32": 3e-5, "float16": 2e-3, "bfloat16": 1.5e-2}[dtype])


@pytest.mark.long
def test_each_gradient_has_the_type_of_its_input() -> None:
    do, q = drawn(9, 4).astype("f4"), drawn(9, 5).astype("f2")
    k, v = drawn(40, 5).astype("f4"), drawn(40, 4)
    want = fg.grad(texts.attention, wrt=QKV)(*(a.astype("f8") for a in (do, q, k, v)))
    found = fg.grad(texts.attention, wrt=QKV)(do, q, k, v)
    assert [a.dtype.name for a in found] == ["float16", "float32", "float64"]
    for mine, right, tolerance in zip(found, want, (2e-3, 1e-6, 1e-12), strict=True):
        close(mine, right, tolerance)


@pytest.mark.long
def test_rows_and_columns_that_nothing_is_left_of() -> None:
    """They get zeros and give none to the others, whatever stands in them."""
    q, k, v, do = drawn(30, 5), drawn(300, 5), drawn(300, 4), drawn(30, 4)
    lengths = np.arange(30) * 7
    gradient = fg.grad(library.attention, wrt=QKV, scale=1.0)
    dq, dk, dv = gradient(do, q, k, v, lengths=lengths, scale=1.0)
    _, dk_of_others, dv_of_others = gradient(do[1:], q[1:], k, v, lengths=lengths[1:], scale=1.0)
    close(dk, dk_of_others)
    close(dv, dv_of_others)
    assert not dk[203:].any()
    assert not dv[203:].any()
    assert not dq[0].any()
    assert np.isfinite(dq).all()
    k[203:], v[203:] = np.nan, np.inf
    for found, want in zip(gradient(do, q, k, v, lengths=lengths, scale=1.0)[1:], (dk, dv),
                           strict=True):
        np.testing.assert_array_equal(found[:203], want[:203])


@pytest.mark.long
def test_hard_rows() -> None:
    """Duplicates, and vectors so long that one column has all the weight."""
    q, k, v = drawn(20, 8), drawn(50, 8), drawn(50, 3)
    k[10:20], q[5:9] = k[10], q[5]
    q[3] *= 1e6
    beside_torch(texts.attention, QKV, (q, k, v))
    do, narrow = drawn(20, 3), [a.astype("f4") for a in (q * 1e3, k, v)]
    found = fg.grad(texts.attention, wrt="v")(do.astype("f4"), *narrow)
    close(found, fg.grad(texts.attention, wrt="v")(do, *(a.astype("f8") for a in narrow)), 2e-3)
    x, y = np.repeat(drawn(4, 3), 5, 0) + 1e6, np.repeat(drawn(6, 3), 5, 0) + 1e6
    found = fg.grad(library.gaussian_sum)(drawn(20), x, y)
    near = fg.grad(library.gaussian_sum)(drawn(20), x - 1e6, y - 1e6)
    close(found[0], near[0], 1e-8)


def test_no_rows() -> None:
    gradient = fg.grad(texts.attention, wrt=QKV)
    dq, dk, dv = gradient(np.ones((0, 2)), np.ones((0, 4)), np.ones((5, 4)), np.ones((5, 2)))
    assert dq.shape == (0, 4)
    assert not dk.any()
    assert (dk.shape, dv.shape) == ((5, 4), (5, 2))


@pytest.mark.long
def test_one_at_a_time() -> None:
    q, k, v, do = drawn(2, 9, 5), drawn(2, 40, 5), drawn(2, 40, 3), drawn(2, 9, 3)
    w, t = drawn(40), drawn(9)
    close(fg.grad(sums, wrt="w")(*[np.ones(9)] * 4, np.ones((9, 5)), q[0], k[0], w, t),
          9 * (k[0].sum(-1) + 1))
    every = fg.grad(texts.attention)(do, q, k, v)
    for name, want in zip(QKV, every, strict=True):
        close(fg.grad(texts.attention, wrt=name)(do, q, k, v), want)


@pytest.mark.long
def test_constants_that_vary() -> None:
    q, k, v, do = drawn(9, 5), drawn(40, 5), drawn(40, 3), drawn(9, 3)
    gradient = fg.grad(texts.attention)
    for scale in (0.5, 0.25, 0.0, -1.0):
        (dq, *_), h = gradient(do, q, k, v, scale=scale), 1e-6
        ahead = (texts.attention(q + h * q, k, v, scale=scale) * do).sum()
        behind = (texts.attention(q - h * q, k, v, scale=scale) * do).sum()
        close((dq * q).sum(), (ahead - behind) / (2 * h), 1e-6)


def test_numbers_of_rows_of_which_nothing_is_left() -> None:
    """Their gradients are 0, over stored rows and over vectors."""
    @fg.pipeline
    def stored(x, t: fg.PerRow, n: fg.PerRow):
        s = fg.where(fg.index(x) < n, x * t, -math.inf)
        return fg.logsumexp(s)

    @fg.pipeline
    def made(q: fg.RowVector, k: fg.ColumnVector, t: fg.PerRow, n: fg.PerRow):
        s = fg.dot(q, k) * t
        p = fg.where(fg.index(s) < n, s, -math.inf)
        return fg.logsumexp(p)

    q, k, t, n = drawn(3, 4), drawn(5, 4), drawn(3), np.array([0, 2, 5])
    of_stored = fg.grad(stored, wrt="t")(np.ones(3), q @ k.T, t, n)
    of_made = fg.grad(made, wrt="t")(np.ones(3), q, k, t, n)
    assert of_stored[0] == of_made[0] == 0
    close(of_made, of_stored)
    assert (of_made[1:] != 0).all()


@fg.pipeline
def above(x: fg.RowVector, y: fg.ColumnVector):
    total = fg.sum(fg.dot(x, y) * y)
    return fg.sum(fg.inner(fg.where(total > 0, y * x, x)) ** 2)


@fg.pipeline
def rounded_above(x: fg.RowVector, y: fg.ColumnVector):
    total = fg.cast(fg.sum(fg.dot(x, y) * y), "int64")
    return fg.sum(fg.inner(fg.where(total > 1, y * x, x)) ** 2)


@fg.pipeline
def at_least_one(x: fg.RowVector, y: fg.ColumnVector):
    s = fg.dot(x, y)
    total = fg.maximum(fg.sum(fg.exp(s) * fg.abs(y) ** 3), 1)
    return fg.sum(fg.dot(total, y) ** 2) / fg.max(s)


@pytest.mark.long
@pytest.mark.parametrize("text", [above, rounded_above, at_least_one])
def test_conditions_on_numbers_of_vectors_of_whole_rows(text: Any) -> None:
    x, y = drawn(6, 5), drawn(9, 5) / 2
    scores = x @ y.T
    sums = (scores @ y if text is not at_least_one else np.exp(scores) @ abs(y) ** 3)[:, None]
    each = {above: lambda: np.where(sums > 0, y * x[:, None], x[:, None]).sum(-1),
            rounded_above: lambda: np.where(np.trunc(sums) > 1, y * x[:, None],
                                            x[:, None]).sum(-1),
            at_least_one: lambda: (np.maximum(sums, 1) * y).sum(-1)}[text]()
    divisor = scores.max(-1) if text is at_least_one else 1
    close(text(x, y), (each**2).sum(-1) / divisor)
    step, found = 1e-6, fg.grad(text)(np.ones(6), x, y)
    for i, one in enumerate((x, y)):
        aside = step * drawn(*one.shape, seed=3)
        ahead, behind = ([a + sign * aside if j == i else a for j, a in enumerate((x, y))]
                         for sign in (1, -1))
        want = (text(*ahead).sum() - text(*behind).sum()) / (2 * step)
        close((several(found)[i] * aside).sum() / step, want, 1e-6)


def test_nothing_of_the_size_of_the_pairs_is_stored() -> None:
    for pipeline in (texts.attention, texts.causal, library.linear_cross_entropy, bent):
        for stage in fg.grad(pipeline).stages():
            plan = stage.plan()
            assert plan.accesses_per_element == 0 or not stage.vectors
            assert plan.sweeps == 1


def test_a_mask_is_a_span_of_columns_and_of_rows() -> None:
    rows, columns = fg.grad(texts.causal).stages()[-2:]
    (first, end), = (s.span for s in rows.work(target="cpu").program.sweeps)
    assert first is None
    assert end is not None
    (first, end), = (s.span for s in columns.work(target="cpu").program.sweeps)
    assert first is not None
    assert end is None


def test_nothing_is_asked_within_a_span() -> None:
    """The causal condition, which has a name where several elements ask it, is true of all."""
    text = fg.grad(texts.causal, wrt=("q", "k", "v"))
    for stage in (s for s in text.stages() if s.vectors):
        assert "contributing(" in stage.source("cpu")
        assert "fg::column_numbers" not in stage.source("cpu")


def test_the_derived_text() -> None:
    gradient = fg.grad(texts.attention, wrt=QKV)
    shown = gradient.formula()
    assert [stage.name for stage in gradient.stages()] == [
        "attention_grad_forward", "attention_grad_numbers", "attention_grad_rows",
        "attention_grad_columns"]
    assert "Σ(p·(inner(v·grad) - dot_3)·k)" in shown
    assert "∂" in str(gradient.proofs()[0])


def test_torch_tensors_and_copies() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    arrays = drawn(2, 4, 9, 3), drawn(2, 4, 9, 5), drawn(2, 1, 40, 5), drawn(2, 1, 40, 3)
    gradient = pickle.loads(pickle.dumps(fg.grad(texts.attention, wrt=("k", "q"))))
    found = gradient(*(torch.tensor(a) for a in arrays))
    for mine, want in zip(found, gradient(*arrays), strict=True):
        assert isinstance(mine, torch.Tensor)
        close(mine.numpy(), want)


# ---- what is refused ----


def text(body: Any) -> Any:
    def made(q: fg.RowVector, k: fg.ColumnVector):
        return body(q, k)

    return fg.pipeline(made)


@pytest.mark.parametrize(("body", "said"), [
    (lambda q, k: fg.prod(fg.dot(q, k)), "fg.prod has no gradient"),
    (lambda q, k: fg.topk(fg.dot(q, k), 2).values, "the values of a top-K"),
    (lambda q, k: fg.sum(fg.topk(fg.dot(q, k), 2).values), "the values of a top-K"),
    (lambda q, k: fg.argmin(fg.sqdist(q, k)), "whole numbers and conditions only"),
    (lambda q, k: fg.reduce(fg.monoid(0.0, lambda x: x, lambda a, b: a + b), fg.dot(q, k)),
     "a monoid of one's own has no gradient"),
])
def test_what_has_no_gradient(body: Any, said: str) -> None:
    pipeline = text(body)
    with pytest.raises(fg.TraceError, match=said):
        fg.grad(pipeline)(np.ones(3), np.ones((3, 4)), np.ones((5, 4)))


@pytest.mark.parametrize(("shapes", "said"), [
    (((3, 1), (3, 4), (5, 4)), "vectors of"), (((2, 4), (3, 4), (5, 4)), "shaped like its output"),
    (((2, 3, 4), (3, 4), (5, 4)), "shaped like its output"),
    (((3, 4), (3, 4), (5, 3)), "vectors of"),
])
def test_cotangents_are_like_their_outputs(shapes: Any, said: str) -> None:
    do, q, k = map(np.ones, shapes)
    with pytest.raises(fg.ShapeError, match=said):
        fg.grad(bent)(do, q, k)


def test_calls_that_are_refused() -> None:
    q, k = np.ones((3, 4)), np.ones((5, 4))
    with pytest.raises(fg.ArgumentError, match="no array 'z'"):
        fg.grad(bent, wrt="z")
    with pytest.raises(fg.ArgumentError, match="misses k"):
        fg.grad(bent)(q, q)
    with pytest.raises(fg.ArgumentError, match="labels holds int64"):
        fg.grad(library.linear_cross_entropy, wrt="labels")
    with pytest.raises(fg.TraceError, match="called inside a pipeline"):
        text(lambda q, k: fg.grad(bent)(q, q, k))(q, k)


# ---- constants ----


@fg.pipeline
def scaled(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, *, scale):
    s = scale * fg.dot(q, k)
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p)


@pytest.mark.long
@pytest.mark.parametrize("pipeline", [scaled, library.attention], ids=lambda p: p.name)
def test_constants_come_to_grad_or_to_the_call(pipeline: Any) -> None:
    do, q, k, v = drawn(5, 6), drawn(5, 8), drawn(20, 8), drawn(20, 6)
    want = fg.grad(texts.attention, wrt=QKV)(do, 0.125 * q, k, v)
    opened = fg.grad(pipeline, wrt=QKV)
    for found in (opened(do, q, k, v, scale=0.125),
                  pickle.loads(pickle.dumps(opened))(do, q, k=k, v=v, scale=0.125),
                  fg.grad(pipeline, wrt=QKV, scale=0.125)(do, q, k, v),
                  pickle.loads(pickle.dumps(fg.grad(pipeline, QKV, scale=0.125)))(do, q, k, v),
                  fg.grad(pipeline, wrt=QKV, scale=3.0)(do, q, k, v, scale=0.125)):
        close(found[0] / 0.125, want[0])
        close(found[1], want[1])
        close(found[2], want[2])
    with pytest.raises(fg.ArgumentError, match="needs the constant scale"):
        opened(do, q, k, v)
    with pytest.raises(AttributeError, match=r"scale is not known\n  Write fg.grad\(.*scale=…\)"):
        opened.stages()
    with pytest.raises(fg.ArgumentError, match="no array 'z'"):
        fg.grad(pipeline, wrt="z")
    with pytest.raises(fg.ArgumentError, match="no parameter 'scael'"):
        fg.grad(pipeline, scael=1.0)
    with pytest.raises(fg.ArgumentError, match=r"inner fg\.grad"):
        fg.grad(opened)


def test_outputs_of_constants_that_come_at_the_call() -> None:
    a = drawn(5, 6), drawn(5), drawn(5, 8), drawn(20, 8), drawn(20, 6)
    found = fg.grad(library.attention, wrt="q")(*a, scale=0.3, with_lse=True)
    close(found, fg.grad(library.attention, wrt="q", scale=0.3, with_lse=True)(*a))


def test_outputs_that_come_at_the_call_of_a_gradient_without_them() -> None:
    a = drawn(5, 6), drawn(5, 8), drawn(20, 8), drawn(20, 6)
    gradient = fg.grad(library.attention, wrt="q", scale=0.3)
    with pytest.raises(fg.TraceError, match="returns other outputs than those that its gradient"):
        gradient(*a, with_lse=True)
    with pytest.raises(fg.TraceError, match="returns other outputs than those that its gradient"):
        gradient.formula(with_lse=True)
    assert np.isfinite(gradient(*a)).all()


def test_positive_constants_are_checked_in_the_type_that_computes() -> None:
    a = drawn(5, 6), drawn(5, 8), drawn(20, 8), drawn(20, 6)
    gradient = fg.grad(library.attention, wrt="q", scale=1.0)
    assert np.isfinite(gradient(*a, softcap=1e-50)).all()
    with pytest.raises(fg.ArgumentError, match="which is 0 in float32"):
        gradient(*(x.astype("f4") for x in a), softcap=1e-50)
