"""Elements made of vectors: attention, neighbours, losses, against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fuzz.vectors import FORMS as FUZZED
from fuzz.vectors import case_of
from support.vector_cases import (
    MASKED,
    MASKS,
    assigned,
    attended,
    attention,
    causal,
    differences,
    gaussian,
    linear_cross_entropy,
    nearest,
    statistics,
)

import fusegen as fg
from fusegen.ir.expr import text as text_of

FORMS = ("auto", "safe", "unfused")


def softmax(s: Any) -> Any:
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def close(found: Any, want: Any, dtype: str = "float32") -> None:
    tolerance = {"float64": 1e-12, "float32": 3e-5, "float16": 6e-3, "bfloat16": 5e-2}[dtype]
    np.testing.assert_allclose(np.asarray(found, np.float64), want, rtol=tolerance,
                               atol=4 * tolerance)


def of_type(array: Any, dtype: str) -> Any:
    return array.astype(fg.ir.dtypes.dtype_of(dtype).numpy)


SHAPES = [  # rows, columns, length of q and k, length of v
    (1, 1, 1, 1), (1, 700, 17, 3), (5, 1, 1, 2), (50, 257, 100, 33), (200, 31, 3, 65),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(("rows", "columns", "d", "width"), SHAPES)
def test_attention(rows: int, columns: int, d: int, width: int, dtype: str) -> None:
    q, k = (of_type(a / d**0.25, dtype) for a in (drawn(rows, d), drawn(columns, d, seed=1)))
    v = of_type(drawn(columns, width, seed=2), dtype)
    want = softmax(q.astype("f8") @ k.astype("f8").T) @ v.astype("f8")
    found = attention(q, k, v)
    assert found.dtype == q.dtype
    assert found.shape == (rows, width)
    close(found, want, dtype)
    close(attention.reference(q, k, v), want, "float64")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", ["cpu", "numpy", "x86-64"])
def test_forms_and_targets(form: str, target: str) -> None:
    q, k, v = (a.astype("f4") for a in (drawn(30, 9), drawn(300, 9), drawn(300, 5)))
    s = 0.5 * q.astype("f8") @ k.T
    run = attention.compile(q, k, v, scale=0.5, form=form, target=target)
    close(run(q, k, v), softmax(s) @ v)
    x = nearest.compile(q, k, k=12, form=form, target=target)(q, k)
    distance = ((q[:, None].astype("f8") - k) ** 2).sum(-1)
    order = np.argsort(distance, -1, kind="stable")[:, :12]
    assert (x.indices == order).all()
    close(x.values, np.take_along_axis(distance, order, -1))


def test_scores_are_read_from_nowhere() -> None:
    """One sweep, and no array of rows times columns."""
    plan = attention.plan()
    assert plan.sweeps == 1
    assert plan.accesses_per_element == 0
    assert set(plan.stages[0].reads) == {"q", "k", "v"}
    assert "read-out: p·v = v·exp(u)" in str(attention.explain())


def test_a_plan_says_what_is_not_stored() -> None:
    """And reads of vectors, each array once, however it broadcasts."""
    plan = attention.plan(n_rows=100, n_cols=300).unstored
    assert (plan.not_stored, plan.stored) == (4 * 100 * 300, 0)
    assert dict(plan.reads) == {"q": 100 * 256, "k": 300 * 256, "v": 300 * 256}
    spec = [fg.Spec(s, "bfloat16") for s in ((4, 8, 100, 64), (4, 1, 300, 64), (4, 1, 300, 32))]
    for form, others in (("auto", 0), ("unfused", 8 * 4 * 8 * 100 * 300)):
        plan = attention.compile(*spec, form=form, target="cpu").plan
        assert plan.unstored.not_stored == 4 * 4 * 8 * 100 * 300
        assert plan.unstored.stored == others
        assert dict(plan.unstored.reads)["k"] == 2 * 4 * 300 * 64
        assert "4 × 8 × 100 rows, 300 columns" in str(plan)
        assert "3.8 MB of q·k not stored" in str(plan)
    assert fg.library.softmax.plan(n_rows=3, n_cols=5).unstored is None
    scores = fg.library.linear_cross_entropy.plan(form="unfused", n_rows=100, n_cols=300)
    assert (scores.writes_per_element, scores.unstored.made) == (1, ())
    assert "120.0 kB of elements stored" in str(scores)
    assert "made of x and y where folded, and never stored" in str(nearest.plan())


def test_a_plan_says_what_masks_leave_out() -> None:
    for mask in ("window", "sink", "exactly", "everything", "from_the_right"):
        seen = MASKS[mask](np.arange(90), np.arange(100)[:, None], 7)
        found = MASKED[mask].plan(n_rows=100, n_cols=90).unstored
        assert found.left_out == pytest.approx(1 - seen.mean()), mask
        assert f"{100 * found.left_out:.0f} % are left out" in str([*found.lines()])
    ragged = MASKED["ragged"].plan(n_rows=100, n_cols=90).unstored
    assert ragged.left_out is None
    assert "column < lengths alone count: tiles" in str([*ragged.lines()])
    half = causal.explain(n_rows=64, n_cols=64)
    assert "column < row + 1 alone count: 49 % are left out" in str(half)
    window = fg.library.attention.plan(scale=1.0, causal=True, window=8, n_rows=64, n_cols=64)
    assert window.unstored.masks == ("column >= row - 8 + 1", "column < row + 1")
    assert window.unstored.left_out == pytest.approx(1 - (8 * 64 - 28) / 64**2)


def test_lines_are_the_users() -> None:
    nodes = attention.work().graph.nodes
    assert {node.loc.file for node in nodes} == {MASKS["sink"].__code__.co_filename}


def test_what_a_mask_empties_is_not_computed() -> None:
    """Vectors of columns that no row of a tile attends to are not even looked at."""
    v = drawn(600, 4)
    q, k = drawn(600, 8), drawn(600, 8)
    want = causal(q, k, v)[0]
    v[300:], k[300:] = np.nan, np.nan
    found = causal(q, k, v)[0]
    np.testing.assert_array_equal(found[:240], want[:240])
    first, end = causal.work(target="cpu").program.sweeps[0].span
    assert first is None
    assert text_of(end) == "row_numbers + 1"


@pytest.mark.parametrize("heads", [(), (2,), (2, 3)])
def test_leading_axes_broadcast(heads: tuple[int, ...]) -> None:
    """Heads; and grouped queries, which share the columns of a head."""
    q, k = drawn(*heads, 7, 5), drawn(*heads, 40, 5)
    v, bias = drawn(40, 6), drawn(7, 40)
    want = softmax(q @ np.swapaxes(k, -1, -2) + bias) @ v
    close(attention(q, k, v, bias), want, "float64")
    if heads:
        grouped = k[..., :1, :, :] if len(heads) > 1 else k[:1]
        close(attention(q, grouped, v), softmax(q @ np.swapaxes(grouped, -1, -2)) @ v, "float64")


@fg.pipeline
def padded(q: fg.RowVector, k: fg.ColumnVector, shift: fg.PerColumn, kept: fg.PerColumn):
    s = fg.where(kept, fg.dot(q, k) + shift, -np.inf)
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * k) / fg.sum(p)


@pytest.mark.parametrize("target", ["cpu", "numpy"])
@pytest.mark.parametrize("lead", [(), (3,), (2, 1), (2, 3)])
def test_columns_have_numbers_of_their_batch(lead: tuple[int, ...], target: str) -> None:
    q, k, shift = drawn(2, 3, 5, 4), drawn(2, 1, 70, 4), drawn(*lead, 70)
    kept = np.random.default_rng(0).random((2, 1, 70)) < 0.7
    s = np.where(kept[..., None, :], q @ np.swapaxes(k, -1, -2) + shift[..., None, :], -np.inf)
    run = padded.compile(q, k, shift, kept, target=target)
    close(run(q, k, shift, kept), softmax(s) @ k, "float64")
    close(padded.reference(q, k, shift, kept), softmax(s) @ k, "float64")
    with pytest.raises(fg.ShapeError, match="leading axes broadcast"):
        run(q, k, drawn(4, 70), kept)


def test_any_strides() -> None:
    q, k, v = drawn(2, 20, 8), drawn(2, 60, 8), drawn(2, 60, 4)
    want = attention(q, k, v)
    apart = [np.asfortranarray(a) for a in (q, k, v)]
    np.testing.assert_array_equal(attention(*apart), want)
    wide = [np.repeat(np.repeat(a, 2, -1), 3, -2)[..., ::3, ::2] for a in (q, k, v)]
    np.testing.assert_array_equal(attention(*wide), want)
    back = [a[..., ::-1, :][..., ::-1, :] for a in (q, k, v)]
    np.testing.assert_array_equal(attention(*back), want)


def test_causal_scores_need_row_numbers() -> None:
    q, k, v = drawn(2, 3, 70, 8), drawn(2, 3, 70, 8), drawn(2, 3, 70, 4)
    s = np.where(np.tri(70, dtype=bool), q @ np.swapaxes(k, -1, -2), -np.inf)
    found, lse = causal(q, k, v)
    close(found, softmax(s) @ v, "float64")
    m = s.max(-1)
    close(lse, m + np.log(np.exp(s - m[..., None]).sum(-1)), "float64")


@pytest.mark.parametrize("target", ["cpu", "x86-64"])
@pytest.mark.parametrize("mask", MASKS)
def test_masks(mask: str, target: str) -> None:
    """Rows of which nothing is left are NaN, and −inf, as the text says."""
    q, k, v = drawn(300, 5), drawn(570, 5, seed=1), drawn(570, 3, seed=2)
    lengths = np.random.default_rng(0).integers(0, 571, 300)
    lengths[:3] = 0, 1, 570
    s = np.where(MASKS[mask](np.arange(570), np.arange(300)[:, None], lengths[:, None]),
                 q @ k.T, -np.inf)
    run = MASKED[mask].compile(q, k, v, lengths, target=target)
    with np.errstate(invalid="ignore", divide="ignore"):
        m = s.max(-1, keepdims=True)
        p = np.exp(s - m)
        want, lse = p @ v / p.sum(-1, keepdims=True), m[:, 0] + np.log(p.sum(-1))
    found, found_lse = run(q, k, v, lengths)
    close(found, want, "float64")
    close(found_lse, np.where(np.isneginf(m[:, 0]), -np.inf, lse), "float64")
    spans = [sweep.span for sweep in run.work.program.sweeps]
    assert (mask in ("sink", "exactly")) == all(span == (None, None) for span in spans)


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_which_nothing_is_left(form: str) -> None:
    """Every form computes what the text says of them: exp(−∞ − −∞), whether columns are skipped in
    other rows or not."""
    def left(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, lengths: fg.PerRow):
        """Two sweeps in any form, for a vector is subtracted."""
        s = fg.ragged(fg.dot(q, k), lengths)
        s = fg.where((fg.index(s) < 2) | (fg.index(s) > fg.row(s)), s, -np.inf)
        m = fg.max(s)
        p = fg.exp(s - m)
        lse = m + fg.log(fg.sum(p))
        return (lse, fg.sum(p), fg.sum(p * v), fg.sum(p * p),
                fg.sum(fg.exp(s - lse) * (v - fg.mean(v)) ** 2))

    q, k, v = drawn(60, 5), drawn(300, 5, seed=1), drawn(300, 3, seed=2)
    lengths = np.arange(60) % 7 * 50
    run = fg.pipeline(left).compile(q, k, v, lengths, form=form, target="cpu")
    wanted = fg.pipeline(left).reference(q, k, v, lengths)
    assert np.isnan(wanted[0][::7]).all()
    for found, want in zip(run(q, k, v, lengths), wanted, strict=True):
        close(found, want, "float64")
    if form != "unfused":
        last = run.work.program.sweeps[-1]
        assert last.span != (None, None)
        assert last.only is not None


@pytest.mark.parametrize("k", [1, 8, 9, 64, 70])
def test_neighbours_are_exact(k: int) -> None:
    x, y = drawn(60, 3).astype("f4"), drawn(500, 3, seed=1).astype("f4")
    y[100:110] = y[90]  # ties go to the lowest column
    distance = np.zeros((60, 500), "f4")
    for i in range(3):
        distance += (x[:, None, i] - y[None, :, i]) ** 2
    values, columns = nearest(x, y, k=k)
    want = np.argsort(distance.astype("f8"), -1, kind="stable")[:, :k]
    close(values, np.take_along_axis(distance, want, -1))
    assert (columns == want).mean() > 0.99
    assert (np.diff(values, axis=-1) >= 0).all()


def test_other_distances() -> None:
    x, y = drawn(90, 30), drawn(400, 30, seed=1)
    want = np.abs(x[:, None] - y).sum(-1).argmin(-1)
    assert (assigned(x, y) == want).all()


def test_logits_that_are_never_stored() -> None:
    h, w = drawn(40, 64).astype("f4") / 4, drawn(999, 64, seed=1).astype("f4")
    label = np.random.default_rng(0).integers(0, 999, 40)
    s = h.astype("f8") @ w.T
    want = np.log(np.exp(s - s.max(-1, keepdims=True)).sum(-1)) + s.max(-1) - s[range(40), label]
    close(linear_cross_entropy(h, w, label), want)
    label[3] = 999  # no column
    found = linear_cross_entropy(h, w, label)
    assert np.isnan(found[3])
    assert np.isfinite(found[4])


def test_kernel_sums() -> None:
    x, y, b = drawn(50, 3), drawn(333, 3, seed=1), drawn(333)
    distance = ((x[:, None] - y) ** 2).sum(-1)
    close(gaussian(x, y, b, s=0.7), (np.exp(-distance / (2 * 0.49)) * b).sum(-1), "float64")


@pytest.mark.parametrize("form", FORMS)
def test_many_folds_at_once(form: str) -> None:
    q, k, v = drawn(45, 6), drawn(310, 6, seed=1), drawn(310, 4, seed=2)
    lengths = np.random.default_rng(0).integers(1, 311, 45)
    s = np.where(np.arange(310) < lengths[:, None], q @ k.T, -np.inf)
    p = softmax(s)
    found = statistics(q, k, v, lengths, form=form)
    close(found["mean"], np.broadcast_to(v.mean(0), (45, 4)), "float64")
    close(found["most"], np.broadcast_to(v.max(0), (45, 4)), "float64")
    close(found["drift"], q - p @ k, "float64")
    close(found["norm"], (q**2).sum(-1), "float64")
    with np.errstate(divide="ignore", invalid="ignore"):
        close(found["entropy"], -np.where(p > 0, p * np.log(p), 0).sum(-1), "float64")
    assert (found["leader"] == s.argmax(-1)).all()


@pytest.mark.parametrize("form", FORMS)
def test_vectors_of_elements_are_never_stored(form: str) -> None:
    q, k, v = drawn(45, 6), drawn(310, 6, seed=1), drawn(310, 4, seed=2)
    p = softmax(q @ k.T)
    for found, want in zip(differences(q, k, v, form=form), (p @ v, q - p @ k), strict=True):
        close(found, want, "float64")


def test_scores_that_are_wanted_are_stored() -> None:
    q, k = drawn(33, 7), drawn(270, 7, seed=1)
    close(attended(q, k), softmax(q @ k.T), "float64")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_random_texts(seed: int) -> None:
    """`python -m tests.fuzz.vectors` has more of them."""
    case = case_of(seed)
    assert {how: case.differs(how) for how in FUZZED} == dict.fromkeys(FUZZED, "")


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    q, k, v = (torch.from_numpy(drawn(2, n, d)).float() for n, d in ((9, 8), (50, 8), (50, 4)))
    found = attention(q, k, v, scale=0.25)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.25)
    assert isinstance(found, torch.Tensor)
    torch.testing.assert_close(found, want)


# ---- vectors of rows as results ----


def row_values(x: fg.RowVector, y: fg.ColumnVector, t: fg.PerRow):
    return x * 2 + t, x / fg.sqrt(fg.inner(x * x)), fg.take(y, t) - x


def residual(x: fg.RowVector, y: fg.ColumnVector, t: fg.PerRow):
    p = fg.exp(fg.dot(x, y) - fg.max(fg.dot(x, y)))
    return 0.5 * x + 0.5 * fg.sum(p * y) / fg.sum(p), x * 2 + fg.sum(y), fg.sum(y) - x


def codes(x: fg.RowVector, y: fg.ColumnVector, t: fg.PerRow):
    """Vector quantisation; the score of the nearest, and those of the two nearest."""
    s, near = fg.dot(x, y), fg.topk(fg.sqdist(x, y), 2, largest=False).indices
    return (fg.take(y * 2 + 1, fg.argmin(fg.sqdist(x, y))), fg.take(s, fg.argmin(fg.sqdist(x, y))),
            fg.take(s, near), fg.library.cross_entropy(s, t))


def counted(x: fg.RowVector, y: fg.ColumnVector, t: fg.PerRow):
    return fg.any(y > 0), fg.count(y > 0), fg.sum(fg.dot(x, y)) + t, fg.min(y)


def later(x: fg.RowVector, y: fg.ColumnVector, t: fg.PerRow):
    """Vectors of finished rows in further sweeps: moments about vectors, and what is taken."""
    s = fg.dot(x, y)
    p = fg.exp(s - fg.max(s))
    p = p / fg.sum(p)
    centre, far = fg.sum(p * y), fg.max(y)
    return (fg.sum(p * (y - centre) ** 2), fg.sum(fg.where(y == far, 1, 0) + p * far),
            fg.sum(fg.abs(y - fg.take(y, fg.argmax(s)))), centre - fg.mean(y))


def finished(x: fg.RowVector, y: fg.ColumnVector, t: fg.PerRow):
    """Sums over the index of what a row makes: row values, and elements of a later sweep."""
    s = fg.dot(x, y)
    p = fg.exp(s - fg.max(s))
    o, centre = fg.sum(p * y) / fg.sum(p), fg.mean(y)
    again = fg.dot(o, y)
    r = fg.exp(again - fg.max(again))
    return (o / fg.sqrt(fg.inner(o * o)), fg.dot(x, o) + t, fg.sum(fg.sqdist(y, centre)),
            fg.argmin(fg.sqdist(y, o)), fg.sum(r * y) / fg.sum(r),
            fg.topk(s, 2).values * fg.inner(o * centre), fg.dot(fg.take(y + 1, fg.argmax(s)), x))


def _wanted(name: str, x: Any, y: Any, t: Any) -> tuple[Any, ...]:
    s, n = x @ y.T, len(x)
    distance = ((x[:, None] - y) ** 2).sum(-1)
    near = np.argsort(distance, -1, kind="stable")[:, :2]
    match name:
        case "row_values":
            return x * 2 + t[:, None], x / np.sqrt((x * x).sum(-1, keepdims=True)), y[t] - x
        case "residual":
            return 0.5 * x + 0.5 * softmax(s) @ y, x * 2 + y.sum(0), y.sum(0) - x
        case "codes":
            m = s.max(-1, keepdims=True)
            lse = (m + np.log(np.exp(s - m).sum(-1, keepdims=True)))[:, 0]
            picked = np.take_along_axis(s, near, -1)
            return y[near[:, 0]] * 2 + 1, picked[:, 0], picked, lse - s[np.arange(n), t]
        case "later":
            p = softmax(s)
            centre, far = p @ y, y.max(0)
            picked = np.abs(y - y[s.argmax(-1)][:, None]).sum(1)
            variance = (p[..., None] * (y - centre[:, None]) ** 2).sum(1)
            return variance, np.ones_like(x) + far, picked, centre - y.mean(0)
        case "finished":
            o, centre = softmax(s) @ y, y.mean(0)
            best = np.take_along_axis(s, np.argsort(-s, -1, kind="stable")[:, :2], -1)
            return (o / np.sqrt((o * o).sum(-1, keepdims=True)), (x * o).sum(-1) + t,
                    np.full(n, ((y - centre) ** 2).sum()),
                    ((y - o[:, None]) ** 2).sum(-1).argmin(-1), softmax(o @ y.T) @ y,
                    best * (o @ centre)[:, None], (x * (y[s.argmax(-1)] + 1)).sum(-1))
        case _:
            each = [np.broadcast_to(a, (n, a.shape[-1]))
                    for a in ((y > 0).any(0), (y > 0).sum(0), y.min(0))]
            return each[0], each[1], s.sum(-1) + t, each[2]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize("text", [row_values, residual, codes, counted, later, finished],
                         ids=lambda t: t.__name__)
def test_results_that_are_vectors(text: Any, d: int, form: str) -> None:
    x, y = drawn(30, d), drawn(290, d, seed=1)
    t = np.random.default_rng(0).integers(0, 290, 30)
    p = fg.pipeline(text)
    for found, want in zip(p(x, y, t, form=form), _wanted(text.__name__, x, y, t), strict=True):
        close(found, want, "float64")


@fg.pipeline
def variance(x: fg.RowVector, y: fg.ColumnVector):
    s = fg.dot(x, y)
    p = fg.exp(s) / fg.sum(fg.exp(s))
    return fg.sum(p * y * y) - fg.sum(p * y) ** 2, fg.sqrt(fg.sum(y * y))


@pytest.mark.long
def test_naive_texts_are_made_safe() -> None:
    """The proof is about any one number of a vector; deviations from a vector take a sweep."""
    x, y = drawn(30, 4), drawn(290, 4, seed=1)
    safe, page = fg.stabilize(variance), variance.explain()
    assert "fg.stabilize(variance) writes it safely: 2 of 2 results proved equal" in str(page)
    assert safe.plan().sweeps == 2
    with np.errstate(over="ignore", invalid="ignore"):
        assert np.isnan(variance(1000 * x, y)[0]).any()
        assert np.isinf(variance(x, 1e200 * y)[1]).all()
    p = softmax(1000 * x @ y.T)
    wanted = (p[..., None] * (y - (p @ y)[:, None]) ** 2).sum(1)
    close(safe(1000 * x, y)[0], wanted, "float64")
    norm = np.broadcast_to(np.sqrt((y * y).sum(0)), (30, 4))
    close(safe(x, 1e200 * y)[1] / 1e200, norm, "float64")
    for text in (fg.library.attention, nearest, statistics, causal):
        constants = {"scale": 0.5} if text is fg.library.attention else {}
        assert "Proof" in str(text.explain(**constants))


@pytest.mark.long
def test_vectors_are_no_pivots() -> None:
    """A refusal says so, and the kernels are one for each sweep."""
    p = fg.pipeline(later)
    why = [r.why for r in p.work().derivation.refusals]
    assert any("is a vector, and a state keeps" in line for line in why), why
    plan = p.plan()
    assert (plan.sweeps, plan.kernels) == (2, 2)
    assert "refuted" not in str(fg.check(p))


def test_no_such_column() -> None:
    x, y, t = drawn(4, 3), drawn(9, 3, seed=1), np.array([0, 9, -1, 8])
    taken = fg.pipeline(row_values)(x, y, t)[2]
    assert np.isnan(taken[1:3]).all()
    close(taken[[0, 3]], y[[0, 8]] - x[[0, 3]], "float64")


@pytest.mark.parametrize("mask", ["ragged", "window", "sink"])
def test_what_is_masked_has_no_effect(mask: str) -> None:
    """NaN in columns that a row leaves out: whatever other rows do, and however many there are."""
    q, k, v = drawn(300, 5), drawn(570, 5, seed=1), drawn(570, 3, seed=2)
    lengths = np.random.default_rng(0).integers(1, 300, 300)
    seen = MASKS[mask](np.arange(570), np.arange(300)[:, None], lengths[:, None])
    p, bad = MASKED[mask], np.zeros(570, bool)
    bad[[260, 299, 420]] = True
    want = p(q, k, v, lengths)[0]
    v[bad], k[420] = np.nan, np.inf
    found = p(q, k, v, lengths)[0]
    clean = ~(seen & bad).any(-1)
    assert clean.any()
    np.testing.assert_array_equal(found[clean], want[clean])
    assert np.isnan(found[~clean]).all()


# ---- what is refused ----


def text(body: Any, *given: Any) -> Any:
    def made(q: fg.RowVector, k: fg.ColumnVector):
        return body(q, k)

    return fg.pipeline(made)(*(given or (np.ones((3, 4)), np.ones((5, 4)))))


@pytest.mark.parametrize(("body", "error", "said"), [
    (lambda q, k: q * k, fg.TraceError, "a vector for every row and column"),
    (lambda q, k: fg.topk(q * k, 2), fg.TraceError, "topk of vectors"),
    (lambda q, k: fg.argmax(k), fg.TraceError, "argmax of vectors"),
    (lambda q, k: fg.inner(fg.dot(q, k)), fg.TraceError, "inner of an element"),
    (lambda q, k: fg.reduce(fg.monoid(0.0, lambda x: x, lambda a, b: a + b), q * k),
     fg.TraceError, "of vectors"),
    (lambda q, k: fg.dot(q, 2), fg.TraceError, "dot needs two vectors"),
    (lambda q, k: fg.take(k, fg.topk(fg.dot(q, k), 2).indices), fg.TraceError, "at a list"),
    (lambda q, k: fg.inner(fg.mean(k) * fg.dot(q, k)), fg.PipelineError, "out of the sum"),
    (lambda q, k: fg.dot(fg.take(k, fg.argmax(fg.dot(q, k))), fg.take(k, 1)), fg.PipelineError,
     "taken of one column"),
    (lambda q, k: fg.inner(q * k * fg.dot(q, k)), fg.PipelineError, "out of the sum"),
    (lambda q, k: fg.sum(fg.dot(q, k) * (k - fg.take(k, 3))), fg.PipelineError,
     "taken of one column"),
])
def test_texts_that_no_kernel_does(body: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        text(body)


@pytest.mark.parametrize(("q", "k", "said"), [
    (np.ones((3, 4)), np.ones((5, 3)), "vectors of 4 numbers"),
    (np.ones((3, 4)), np.ones(4), "a vector per column"),
    (np.ones((3, 0)), np.ones((5, 0)), "one number at least"),
    (np.ones((2, 3, 4)), np.ones((3, 5, 4)), "do not broadcast"),
    (np.ones((3, 4)), np.ones((0, 4)), "zero columns"),
])
def test_shapes_that_do_not_fit(q: Any, k: Any, said: str) -> None:
    with pytest.raises(fg.ShapeError, match=said):
        nearest(q, k, k=1)


def test_vectors_are_floats() -> None:
    with pytest.raises(fg.DTypeError, match="floating-point"):
        nearest(np.ones((3, 4), int), np.ones((5, 4), int), k=1)


def test_axes_are_the_last() -> None:
    with pytest.raises(fg.ShapeError, match="Their columns are the last"):
        attention(np.ones((3, 4)), np.ones((5, 4)), np.ones((5, 4)), axis=0)
    kept = attention(np.ones((3, 4)), np.ones((5, 4)), np.ones((5, 2)), keepdims=True)
    assert kept.shape == (3, 1, 2)


def test_no_rows() -> None:
    assert attention(np.ones((0, 4)), np.ones((5, 4)), np.ones((5, 2))).shape == (0, 2)


@fg.pipeline
def taken_twice(x: fg.RowVector, y: fg.ColumnVector, label: fg.PerRow):
    t = fg.take(y, label)
    return fg.sum(fg.dot(x, y)), t, t * x


def test_two_results_take_one_vector() -> None:
    x, y = np.arange(12.0).reshape(4, 3), np.arange(18.0).reshape(6, 3)
    label = np.array([0, 5, 6, -1])
    _, found, times = taken_twice(x, y, label)
    want = np.where((label[:, None] < 6) & (label[:, None] >= 0), y[label % 6], np.nan)
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(times, want * x)


@fg.pipeline
def at_columns(x: fg.RowVector, y: fg.ColumnVector, label: fg.PerRow):
    return fg.inner(fg.take((x - y) ** 2, label)), fg.dot(x, fg.take(y * 2, label))


def test_what_vectors_make_is_taken_of_one_column() -> None:
    x, y = np.arange(12.0).reshape(4, 3), np.arange(18.0).reshape(6, 3) ** 1.5
    label = np.array([0, 5, 2, 6])
    apart, dots = at_columns(x, y, label)
    np.testing.assert_allclose(apart[:3], ((x - y[label % 6])[:3] ** 2).sum(-1))
    np.testing.assert_allclose(dots[:3], (x * 2 * y[label % 6]).sum(-1)[:3])
    assert np.isnan((apart[3], dots[3])).all()


@pytest.mark.parametrize(("made", "said"), [
    (lambda y, a, b: fg.inner(fg.take(y, a) * fg.take(y, b)), "of two columns of y"),
    (lambda y, a, b: fg.sum(fg.inner(y * fg.take(y, a))), "of one column of y and of every"),
])
def test_vectors_of_an_array_are_of_every_column_or_of_one(made: Any, said: str) -> None:
    """Kernels have one vector of an array at a time: others would stand in its place."""
    @fg.pipeline
    def text(x: fg.RowVector, y: fg.ColumnVector, a: fg.PerRow, b: fg.PerRow):
        return fg.sum(fg.dot(x, y)), made(y, a, b)

    with pytest.raises(fg.PipelineError, match=f"test_vectors.py:\\d+: .*{said}"):
        text.plan()


@pytest.mark.long
def test_numbers_of_rows_and_of_the_call_in_a_sum_over_the_index() -> None:
    @fg.pipeline
    def text(x: fg.RowVector, y: fg.ColumnVector, s: fg.PerRow, n: fg.PerRow, *, t=1.0):
        close = fg.inner(fg.exp(x - y * s) * t / fg.sqrt(n + 1))
        return fg.sum(close), fg.max(fg.dot(x, y)), fg.logsumexp(fg.inner(fg.abs(y - s)))

    for d in (1, 5, 33):
        x, y, s = drawn(70, d), drawn(600, d, seed=1), drawn(70, seed=2)
        n = np.arange(70)
        for form in ("auto", "safe", "unfused"):
            found = text(x, y, s, n, t=0.3, form=form)
            for f, w in zip(found, text.reference(x, y, s, n, t=0.3), strict=True):
                np.testing.assert_allclose(f, w, rtol=3e-5)
    with pytest.raises(fg.BackendError, match=r"test_vectors.py:\d+ .*\n.*s is one of each row"):
        text.source("sm_90")


@pytest.mark.parametrize(("made", "said"), [
    (lambda x, y, o: fg.inner((x * 2 + fg.mean(y)) * o), "made of x and y has vectors of 4"),
    (lambda x, y, o: fg.sum(fg.inner(x * y * fg.inner(x * x))), "a number per element"),
])
def test_mistakes_name_what_the_user_gave(made: Any, said: str) -> None:
    @fg.pipeline
    def text(x: fg.RowVector, y: fg.ColumnVector, o: fg.RowVector):
        return made(x, y, o), fg.sum(fg.dot(x, y))

    with pytest.raises(fg.PipelineError, match=f"test_vectors.py:\\d+: .*{said}"):
        text(np.ones((3, 4)), np.ones((5, 4)), np.ones((3, 2)))


def test_sums_of_vectors_that_move_with_sums_that_stay() -> None:
    @fg.pipeline
    def apart(x: fg.RowVector, y: fg.ColumnVector):
        s = fg.dot(x, y)
        return fg.sum(fg.abs(s - fg.max(s)) * y)

    x, y = (np.random.default_rng(n).standard_normal((n, 5)) for n in (6, 900))
    s = x @ y.T
    np.testing.assert_allclose(apart(x, y), abs(s - s.max(-1, keepdims=True)) @ y, rtol=1e-9)
