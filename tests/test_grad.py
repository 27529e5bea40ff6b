"""fg.grad: against finite differences of the reference, torch's autograd, and the text itself."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import nvrtc
from support.cases import leaves, rows

import fusegen as fg
from fusegen.ir.ops import OPS
from fusegen.library.texts import softmax
from fusegen.rewrite.adjoint.rules import RULES

L = fg.library
RNG = np.random.default_rng(7)


@fg.pipeline
def nll(x, labels: fg.PerRow):
    return -fg.take(L.log_softmax(x), labels)


@fg.pipeline
def attention(scores, values, *, scale=0.5):
    return fg.sum(softmax(scores * scale) * values)


@fg.pipeline
def contrast(x, y):
    """Kullback-Leibler divergence of two softmaxes."""
    p = softmax(x)
    return fg.sum(p * (L.log_softmax(x) - L.log_softmax(y)))


@fg.pipeline
def gelu_norm(x):
    y = 0.5 * x * (1 + fg.erf(x / 2**0.5))
    return L.rms_norm(y), fg.mean(fg.abs(y))


@fg.pipeline
def tempered(x, temperature: fg.PerRow):
    return L.logsumexp(x / temperature)


@fg.pipeline
def several(x):
    return {"p": softmax(x), "top": fg.max(x), "where": fg.argmax(x)}


@fg.pipeline
def range_over_scale(x):
    return (fg.max(x) - fg.min(x)) / fg.sqrt(fg.var(x))


FORWARD = {
    "softmax": (softmax, (4, 9)), "log_softmax": (L.log_softmax, (4, 9)),
    "naive_softmax": (L.naive_softmax, (4, 9)), "logsumexp": (L.logsumexp, (4, 9)),
    "cross_entropy": (L.cross_entropy, (4, 9)), "nll": (nll, (4, 9)),
    "layer_norm": (L.layer_norm, (4, 9)), "rms_norm": (L.rms_norm, (4, 9)),
    "norm2": (L.norm2, (4, 9)), "entropy": (L.entropy, (4, 9)), "var_mean": (L.var_mean, (4, 9)),
    "weighted_mean": (L.weighted_mean, (4, 9)), "attention": (attention, (4, 9)),
    "contrast": (contrast, (4, 9)), "gelu_norm": (gelu_norm, (3, 2, 7)),
    "tempered": (tempered, (4, 9)), "several": (several, (4, 9)),
    "range_over_scale": (range_over_scale, (4, 9)),
}


def inputs_of(pipeline, shape, rng=RNG, dtype="float64"):
    """An array for every parameter, by its annotation and name."""
    found = []
    for name, parameter in inspect.signature(pipeline.fn).parameters.items():
        shown = str(parameter.annotation)
        if parameter.kind is parameter.KEYWORD_ONLY:
            continue
        if name == "labels":
            found.append(rng.integers(0, shape[-1], shape[:-1]))
        elif "PerRow" in shown:
            found.append(rng.uniform(0.5, 2, shape[:-1]).astype(dtype))
        else:
            size = shape[-1:] if "PerColumn" in shown else shape
            found.append(rng.normal(0, 1.5, size).astype(dtype))
    return found


def cotangents_of(results, rng=RNG):
    floats = [r for r in leaves(results) if r.dtype.kind == "f"]
    return [rng.normal(0, 1, r.shape).astype(r.dtype) for r in floats]


def differences(pipeline, arrays, cotangents, position, step=1e-5, **constants):
    """The gradient by central differences of the reference, in float64."""

    def value(moved):
        args = [moved if i == position else a for i, a in enumerate(arrays)]
        results = leaves(pipeline.reference(*args, **constants))
        floats = [r for r in results if r.dtype.kind == "f"]
        return sum(np.sum(c * r) for c, r in zip(cotangents, floats, strict=True))

    x = arrays[position]
    found = np.empty(x.shape)
    for at in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[at] += step
        down[at] -= step
        found[at] = (value(up) - value(down)) / (2 * step)
    return found


@pytest.mark.parametrize("name", FORWARD)
def test_every_input_against_finite_differences(name):
    pipeline, shape = FORWARD[name]
    arrays = inputs_of(pipeline, shape)
    cotangents = cotangents_of(pipeline.reference(*arrays))
    for position, (parameter, array) in enumerate(zip(pipeline.signature.arrays, arrays,
                                                      strict=True)):
        if array.dtype.kind != "f":
            continue
        backward = fg.grad(pipeline, wrt=parameter)
        is_row = isinstance(backward, fg.Gradient)
        found = (backward.reference if is_row else backward)(*cotangents, *arrays)
        wanted = differences(pipeline, arrays, cotangents, position)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7, err_msg=parameter)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(["softmax", "logsumexp", "norm2", "entropy", "var_mean", "contrast"]),
    n_rows=st.integers(1, 3), n_cols=st.integers(2, 12), seed=st.integers(0, 2**31),
)
def test_random_shapes(name, n_rows, n_cols, seed):
    pipeline, _ = FORWARD[name]
    rng = np.random.default_rng(seed)
    arrays = inputs_of(pipeline, (n_rows, n_cols), rng)
    cotangents = cotangents_of(pipeline.reference(*arrays), rng)
    found = fg.grad(pipeline, wrt="x").reference(*cotangents, *arrays)
    wanted = differences(pipeline, arrays, cotangents, 0)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", ["safe", "unfused"])
@pytest.mark.parametrize("name", ["softmax", "norm2", "layer_norm"])
def test_every_form_gives_the_same(name, form):
    pipeline, _ = FORWARD[name]
    arrays = inputs_of(pipeline, (3, 130))
    cotangents = cotangents_of(pipeline.reference(*arrays))
    backward = fg.grad(pipeline, wrt="x")
    found = backward(*cotangents, *arrays, form=form)
    wanted = backward.reference(*cotangents, *arrays)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


# ---- torch ----


def torch_forward(torch):
    nn = torch.nn.functional
    return {
        "softmax": lambda x: torch.softmax(x, -1),
        "log_softmax": lambda x: torch.log_softmax(x, -1),
        "logsumexp": lambda x: torch.logsumexp(x, -1),
        "cross_entropy": lambda x, labels: nn.cross_entropy(x, labels, reduction="none"),
        "nll": lambda x, labels: nn.cross_entropy(x, labels, reduction="none"),
        "layer_norm": lambda x, w, b: nn.layer_norm(x, x.shape[-1:], w, b),
        "rms_norm": lambda x, w: nn.rms_norm(x, x.shape[-1:], w, 1e-6),
        "norm2": lambda x: torch.linalg.vector_norm(x, dim=-1),
        "entropy": lambda x: -(torch.softmax(x, -1) * torch.log_softmax(x, -1)).sum(-1),
        "var_mean": lambda x: torch.var_mean(x, -1, correction=0),
        "weighted_mean": lambda s, v: (torch.softmax(s, -1) * v).sum(-1),
    }


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "cross_entropy", "nll",
                                  "layer_norm", "rms_norm", "norm2", "entropy", "var_mean",
                                  "weighted_mean"])
def test_as_torch(name, dtype):
    torch = pytest.importorskip("torch", reason="torch is the peer here")
    pipeline = FORWARD[name][0]
    given = [torch.from_numpy(a) for a in inputs_of(pipeline, (5, 40), dtype=dtype)]
    arrays = [a.clone().requires_grad_(a.is_floating_point()) for a in given]
    results = torch_forward(torch)[name](*arrays)
    results = results if isinstance(results, tuple) else (results,)
    cotangents = [torch.randn_like(r) for r in results]
    torch.autograd.backward(results, cotangents)
    tight = {"rtol": 1e-4, "atol": 2e-6} if dtype == "float32" else {"rtol": 1e-8, "atol": 1e-11}
    for parameter, array in zip(pipeline.signature.arrays, arrays, strict=True):
        if array.grad is not None:
            backward = fg.grad(pipeline, wrt=parameter)
            if dtype == "float64" and isinstance(backward, fg.Gradient):
                found = torch.from_numpy(backward.reference(*cotangents, *given))
            else:
                found = backward(*cotangents, *given)
            assert isinstance(found, torch.Tensor)
            torch.testing.assert_close(found, array.grad, **tight)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "cross_entropy"])
def test_masked_elements_get_torchs_gradient(name):
    torch = pytest.importorskip("torch", reason="torch is the peer here")
    pipeline = FORWARD[name][0]
    x, *rest = (torch.from_numpy(a) for a in inputs_of(pipeline, (4, 9)))
    x[:, 2], x[1, 5], x[2, :7] = -np.inf, -np.inf, -np.inf
    rest = [torch.full((4,), 8) for _ in rest]
    moving = x.clone().requires_grad_()
    result = torch_forward(torch)[name](moving, *rest)
    cotangent = torch.randn_like(result)
    result.backward(cotangent)
    found = fg.grad(pipeline)(cotangent, x, *rest)
    torch.testing.assert_close(found, moving.grad, rtol=1e-9, atol=1e-12)
    assert torch.isfinite(found).all()


def test_entropy_has_gradient_zero_where_a_probability_is():
    x = rows((3, 8), dtype="float64")
    x[0, 1], x[1, :5] = -np.inf, -np.inf
    found = fg.grad(L.entropy)(np.ones(3), x)
    assert np.all(found[np.isinf(x)] == 0)
    kept = x[0, np.isfinite(x[0])][None]
    wanted = differences(L.entropy, [kept], [np.ones(1)], 0)
    np.testing.assert_allclose(found[0, np.isfinite(x[0])], wanted[0], rtol=1e-7, atol=1e-9)


def test_divergence_of_masked_rows_is_finite():
    @fg.pipeline
    def jensen_shannon(x, y):
        p, q = softmax(x), softmax(y)
        m = (p + q) / 2
        return fg.sum(fg.xlogy(p, p) + fg.xlogy(q, q) - fg.xlogy(p, m) - fg.xlogy(q, m)) / 2

    x, y = rows((2, 6), dtype="float64"), rows((2, 6), 1, "float64")
    kept = np.ones(6, bool)
    kept[[1, 4]] = False
    wanted = differences(jensen_shannon, [x[:, kept], y[:, kept]], [np.ones(2)], 0)
    x[:, ~kept] = y[:, ~kept] = -np.inf
    found = fg.grad(jensen_shannon, wrt="x").reference(np.ones(2), x, y)
    np.testing.assert_array_equal(found[:, ~kept], 0)
    np.testing.assert_allclose(found[:, kept], wanted, rtol=1e-6, atol=1e-9)


def test_guards_and_ties_follow_torch():
    zero = np.array([[0.0, 0, 0], [3, 0, 4]])
    np.testing.assert_allclose(fg.grad(L.norm2)(np.ones(2), zero), [[0, 0, 0], [0.6, 0, 0.8]])
    top = fg.grad(fg.pipeline(lambda_max))
    np.testing.assert_array_equal(top(np.ones(2), np.array([[1.0, 1, 0], [0, 2, 1]])),
                                  [[0.5, 0.5, 0], [0, 1, 0]])
    assert np.isnan(top(np.ones(1), np.array([[1.0, np.nan, 0]]))).all()
    clip = fg.grad(fg.pipeline(clipped))
    np.testing.assert_array_equal(clip(np.ones((1, 3)), np.array([[-1.0, 0, 2]])), [[0, 0.5, 1]])
    bad = fg.grad(L.logsumexp)(np.ones(2), np.array([[-np.inf, -np.inf], [np.inf, 1]]))
    assert np.isnan(bad[0]).all()
    assert np.isnan(bad[1, 0])


def lambda_max(x):
    return fg.max(x)


def clipped(x):
    return fg.maximum(x, 0.0)


def test_a_where_keeps_what_it_excludes_out_of_the_gradient():
    @fg.pipeline
    def nan_log_sum(x):
        return fg.sum(fg.where(x > 0, fg.log(x), 0.0)) + fg.sum(fg.where(fg.isnan(x), 0.0, x))

    x = np.array([[2.0, 0.0, -1.0, np.nan, 4.0]])
    np.testing.assert_allclose(fg.grad(nan_log_sum)(np.ones(1), x), [[1.5, 1, 1, 0, 1.25]])


def test_a_label_outside_the_row_gives_nan_as_its_loss_does():
    x, labels = rows((3, 6), dtype="float64"), np.array([2, 6, -1])
    for loss in (L.cross_entropy, nll):
        found = fg.grad(loss)(np.ones(3), x, labels)
        assert np.isfinite(found[0]).all()
        assert np.isnan(found[1:]).all()


# ---- what is derived ----


@pytest.mark.parametrize(
    "pipeline", [softmax, L.log_softmax, L.logsumexp, L.cross_entropy, L.norm2, L.entropy,
                 L.layer_norm, L.rms_norm, nll, L.var_mean], ids=lambda p: p.name,
)
def test_backward_takes_one_sweep_of_sums_and_one_of_stores(pipeline):
    backward = fg.grad(pipeline, wrt="x")
    plan = backward.plan(form="online", inputs=tuple(backward.signature.optional))
    assert plan.sweeps == 2
    assert plan.stages[1].algorithm == "map"
    elements = 2 if "grad" in plan.stages[1].reads else 1
    assert plan.reads_per_element == 2 * elements
    assert plan.writes_per_element == 1
    assert not backward.derivation().refusals


@pytest.mark.parametrize("name", ["softmax", "logsumexp", "layer_norm", "norm2", "entropy",
                                  "cross_entropy", "contrast"])
def test_check_proves_and_replays_backward_pipelines(name):
    report = fg.check(fg.grad(FORWARD[name][0], wrt="x"))
    assert report.merges > 100
    assert not report.refusals


FORMULAS = {
    "softmax": "grad_x = div·(grad - Σ(grad·div))",
    "log_softmax": "grad_x = grad - exp(x - m)·Σ(grad) / Σ(exp(x - m))",
    "logsumexp": "grad_x = exp(x - max(x))·grad / Σ(exp(x - max(x)))",
    "entropy": "grad_x = (p·Σ(xlogy(p, p)) - xlogy(p, p))·grad",
    "norm2": "grad_x = where(a == 0, 0, x / a·grad / sqrt(Σ((x / a)^2)))",
    "rms_norm": "grad_x = (grad·weight - y·rsqrt_·mean(grad·x·weight))·rsqrt_",
    "layer_norm": "grad_x = (grad·weight - (x - mean(x))·rsqrt_·rsqrt_·"
                  "mean(grad·weight·(x - mean(x))) - mean(grad·weight))·rsqrt_",
}


@pytest.mark.parametrize("name", FORMULAS)
def test_the_text_is_an_experts(name):
    backward = fg.grad(FORWARD[name][0])
    optional = backward.signature.optional & {"weight"}
    assert backward.formula(inputs=optional).splitlines()[-1] == FORMULAS[name]
    assert FORMULAS[name] in str(backward.explain(inputs=optional))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "cross_entropy",
                                  "entropy", "norm2", "nll"])
def test_stabilisers_are_proved_to_cancel(name):
    (proof,) = fg.grad(FORWARD[name][0]).proofs()
    assert (proof.name, proof.status) == ("stationary", "proved")
    assert "∂" in proof.statement


def test_a_maximum_that_matters_is_not_dropped():
    assert fg.grad(range_over_scale).proofs() == ()
    # of two outputs, only the one that does not move with the maximum drops it
    assert [p.statement for p in fg.grad(several).proofs()] == ["∂div/∂m = 0"]


def test_a_row_value_reaches_every_position():
    @fg.pipeline
    def total(x, bias: fg.PerRow):
        return fg.sum(x) + bias

    x, cotangent = rows((3, 300)), np.array([1, 2, 3], np.float32)
    found = fg.grad(total)(cotangent, x, cotangent)
    np.testing.assert_array_equal(found, np.broadcast_to(cotangent[:, None], x.shape))
    np.testing.assert_array_equal(fg.grad(total, wrt="bias")(cotangent, x, cotangent), cotangent)


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize("name", ["layer_norm", "cross_entropy", "several"])
def test_gradients_compile_for_gpus(name):
    backward = fg.grad(FORWARD[name][0], wrt="x")
    source = backward.source("sm_90", n_cols=4096, inputs=backward.signature.optional)
    assert all(r.spill_bytes == 0 for r in nvrtc.compile_for(source, "sm_90").reports)


# ---- the table ----


POINTS = {"log": (0.2, 3), "log2": (0.2, 3), "log1p": (-0.5, 3), "sqrt": (0.2, 3),
          "rsqrt": (0.2, 3), "pow": (0.3, 2), "xlogy": (0.2, 3)}


def test_every_operation_has_a_rule_or_says_that_it_has_none():
    assert set(RULES) == set(OPS)


@pytest.mark.parametrize("op", [n for n, rule in RULES.items() if callable(rule)])
def test_rules_against_finite_differences(op):
    from fusegen.lang.value import apply

    low, high = POINTS.get(op, (-2, 2))
    arity = OPS[op].arity

    def one(x):
        return apply(op, x)

    def two(x, y):
        return apply(op, x, y)

    def three(x, y, z):
        return apply(op, x > 0, y, z)

    pipeline = fg.pipeline({1: one, 2: two, 3: three}[arity])
    rng = np.random.default_rng(len(op))
    arrays = [rng.uniform(low, high, (2, 6)) for _ in range(arity)]
    cotangent = rng.normal(size=(2, 6))
    for position, name in enumerate(pipeline.signature.arrays):
        if op == "where" and position == 0:
            continue
        found = fg.grad(pipeline, wrt=name).reference(cotangent, *arrays)
        wanted = differences(pipeline, arrays, [cotangent], position)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)


@fg.pipeline
def saturating(a, b, c, d):
    return fg.sum(fg.sigmoid(a) + fg.expm1(b) + fg.log1p(c) + fg.exp(d))


def test_slopes_far_out_keep_their_digits():
    """No difference of nearly equal numbers: 1 − sigmoid(x) is 0 in float32 from x = 17 on."""
    x = np.array([[-60, -30, -17, -8, -1, 1e-6, 8, 17, 30, 60]], "f4")
    c = np.expm1(x / 4 - 1).astype("f4") + np.float32(1e-6)
    slopes = fg.grad(saturating, wrt=("a", "b", "c", "d"))
    found = slopes(np.ones(1, "f4"), x, x, c, x)
    wide = x.astype("f8")
    exp = np.exp(wide)
    wanted = (1 / (4 * np.cosh(wide / 2) ** 2), exp, 1 / (1 + c.astype("f8")), exp)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=3e-6)


@pytest.mark.parametrize("exponent", [0.5, 1, 2, 3, -1, -2.5, 5])
def test_constant_powers(exponent):
    @fg.pipeline
    def raised(x, *, by):
        return fg.sum(x**by)

    x = np.abs(rows((2, 5), dtype="float64")) + 0.1
    found = fg.grad(raised, by=exponent).reference(np.ones(2), x, by=exponent)
    np.testing.assert_allclose(found, exponent * x ** (exponent - 1), rtol=1e-12)


# ---- the face ----


def test_several_inputs_come_as_a_tuple_in_their_order():
    backward = fg.grad(L.weighted_mean)
    s, v, cotangent = rows((3, 7)), rows((3, 7), 1), np.ones(3, np.float32)
    ds, dv = backward(cotangent, s, v)
    again_v, again_s = fg.grad(L.weighted_mean, wrt=("values", "scores"))(cotangent, s, v)
    np.testing.assert_array_equal(ds, again_s)
    np.testing.assert_array_equal(dv, again_v)
    assert backward.signature.arrays == ("grad", "scores", "values")


def test_cotangents_are_named_by_the_outputs():
    backward = fg.grad(several)
    assert backward.signature.arrays == ("grad_p", "grad_top", "x")
    assert list(inspect.signature(backward).parameters) == ["grad_p", "grad_top", "x"]
    x = rows((3, 5), dtype="float64")
    found = backward(np.zeros((3, 5)), np.ones(3), x)
    np.testing.assert_array_equal(found, x == x.max(1, keepdims=True))


def test_outputs_that_depend_on_constants():
    @fg.pipeline
    def norms(x, *, both):
        return (L.norm2(x), fg.sum(fg.abs(x))) if both else L.norm2(x)

    x, one = rows((2, 5), dtype="float64"), np.ones(2)
    assert len(fg.grad(norms, both=True).signature.arrays) == 3
    found = fg.grad(norms, both=True)(one, one, x, both=True)
    np.testing.assert_allclose(found, x / L.norm2(x)[:, None] + np.sign(x), rtol=1e-12)
    with pytest.raises(fg.TraceError, match="other outputs"):
        fg.grad(norms, both=True)(one, one, x, both=False)
    np.testing.assert_array_equal(fg.grad(norms)(one, one, x, both=True), found)
    with pytest.raises(fg.ArgumentError, match="needs the constant both"):
        fg.grad(norms)(one, one, x)


def test_any_axis_and_shape():
    x, cotangent = rows((2, 6, 3)), rows((2, 6, 3), 1)
    found = fg.grad(softmax)(cotangent, x, axis=1)
    turned = fg.grad(softmax)(np.moveaxis(cotangent, 1, 2), np.moveaxis(x, 1, 2))
    np.testing.assert_allclose(found, np.moveaxis(turned, 2, 1), rtol=1e-6)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_column_gradients_sum_over_all_rows(axis):
    x, cotangent = rows((4, 5, 6), dtype="float64"), rows((4, 5, 6), 1, "float64")
    n = x.shape[axis]
    w, b = RNG.normal(size=n), RNG.normal(size=n)
    found_w = fg.grad(L.layer_norm, wrt="weight")(cotangent, x, w, b, axis=axis)
    found_b = fg.grad(L.layer_norm, wrt="bias")(cotangent, x, w, b, axis=axis)
    moved, c = np.moveaxis(x, axis, -1), np.moveaxis(cotangent, axis, -1)
    normal = L.layer_norm.reference(moved)
    np.testing.assert_allclose(found_w, np.sum(c * normal, (0, 1)), rtol=1e-10)
    np.testing.assert_allclose(found_b, np.sum(c, (0, 1)), rtol=1e-10)


def test_both_stages_of_a_column_gradient_are_pipelines():
    backward = fg.grad(L.layer_norm, wrt="weight")
    x, cotangent = rows((50, 8)), rows((50, 8), 1)
    w, b = np.ones(8, np.float32), np.zeros(8, np.float32)
    statistics = backward.rows(x)
    assert {s.shape for s in statistics.values()} == {(50,)}
    found = backward.columns(*statistics.values(), cotangent, x, axis=0)
    np.testing.assert_array_equal(found, backward(cotangent, x, w, b))
    assert backward.rows.plan().sweeps == 1
    assert backward.columns.plan().sweeps == 1
    assert fg.grad(L.layer_norm, wrt="bias").rows is None


def test_half_precision_statistics_stay_in_float32():
    x = (rows((300, 16)) + 30).astype(np.float16)
    cotangent = rows((300, 16), 1).astype(np.float16)
    w = np.ones(16, np.float16)
    found = fg.grad(L.layer_norm, wrt="weight")(cotangent, x, w)
    assert found.dtype == np.float16
    wide = [a.astype(np.float64) for a in (cotangent, x, w)]
    np.testing.assert_allclose(found, fg.grad(L.layer_norm, wrt="weight")(*wide), rtol=2e-3,
                               atol=2e-2)


def test_gradients_inside_pipelines_and_of_gradients():
    @fg.pipeline
    def step(x, labels: fg.PerRow, *, rate=0.1):
        ones = labels * 0 + 1
        return x - rate * fg.grad(L.cross_entropy)(fg.cast(ones, "float32"), x, labels)

    x, labels = rows((3, 6), dtype="float64"), np.array([1, 0, 5])
    wanted = x - 0.1 * fg.grad(L.cross_entropy)(np.ones(3), x, labels)
    np.testing.assert_allclose(step(x, labels), wanted, rtol=1e-12)

    second = fg.grad(fg.grad(L.logsumexp), wrt="x")
    cotangent, v = np.ones(3), rows((3, 6), 1, "float64")
    p = softmax.reference(x)
    hessian_v = p * (v - np.sum(p * v, 1, keepdims=True))
    np.testing.assert_allclose(second(v, cotangent, x), hessian_v, rtol=1e-9)


def test_equal_arguments_inside_a_pipeline_are_told_apart():
    @fg.pipeline
    def outer(g, x):
        return fg.grad(L.weighted_mean, wrt="values")(fg.sum(g), x, x)

    cotangent, x = rows((2, 5), dtype="float64"), rows((2, 5), 1, "float64")
    wanted = softmax.reference(x) * cotangent.sum(1, keepdims=True)
    np.testing.assert_allclose(outer(cotangent, x), wanted, rtol=1e-12)


# ---- errors ----


def product(x):
    return fg.prod(x)


def rounded(x):
    return fg.round(x)


def best_values(x):
    return fg.topk(x, 2)[0]


@pytest.mark.parametrize(("fn", "what"), [(product, "fg.prod"), (best_values, "top-K")])
def test_what_has_no_gradient_is_refused_at_its_line(fn, what):
    backward = fg.grad(fg.pipeline(fn))
    cotangent = rows((3, 2)) if fn is best_values else np.ones(3)
    with pytest.raises(fg.TraceError, match=what) as caught:
        backward.reference(cotangent, rows((3, 5)))
    lines, first = inspect.getsourcelines(fn)
    assert caught.value.where.file == __file__
    assert first <= caught.value.where.line < first + len(lines)
    assert caught.value.fix


def weighted(x, y, r: fg.PerRow, w: fg.PerColumn, *, b=0.5):
    return fg.sum(x * w) + b * (fg.sum(y * x * w) + r)


def unused(x, y, r: fg.PerRow, w: fg.PerColumn, *, b=0.5):
    return fg.sum(x) + (b * fg.sum(y * w) * r if b else 0.0)


def jumping(x, y, r: fg.PerRow, w: fg.PerColumn, *, b=0.5):
    return fg.sum(x) + fg.round(r) + fg.sum(fg.floor(y) * fg.sign(w)) + b


@pytest.mark.parametrize("fn", [weighted, unused, jumping])
def test_a_gradient_that_vanishes_is_zeros_of_the_shape_of_any_other(fn):
    """Also where the row has what 0 times it would make NaN of."""
    p, x = fg.pipeline(fn), rows((3, 5))
    y, r, w = np.full((3, 5), np.inf, np.float32), rows((3, 1))[:, 0], np.full(5, np.nan, "f4")
    finite = (x, rows((3, 5), 2), r, np.ones(5, np.float32))
    for name, at in (("y", 1), ("r", 2), ("w", 3)):
        usual = fg.grad(p, name)(np.ones(3, np.float32), *finite)
        if fn is weighted and name == "w":
            continue  # it has another term
        found = fg.grad(p, name)(np.ones(3, np.float32), x, y, r, w, b=0.0)
        assert (found.shape, found.dtype) == (usual.shape, finite[at].dtype)
        np.testing.assert_array_equal(found, 0)
    both = fg.grad(p, ("x", "y"))(np.ones(3, np.float32), *finite, b=0.0)
    assert both[0].any()
    np.testing.assert_array_equal(both[1], 0)


def test_arguments_are_checked():
    with pytest.raises(fg.ArgumentError, match="Did you mean 'weight'"):
        fg.grad(L.layer_norm, wrt="weigth")
    with pytest.raises(fg.ArgumentError, match="no gradient"):
        fg.grad(L.cross_entropy, wrt="labels")
    with pytest.raises(fg.ArgumentError, match="alone"):
        fg.grad(L.layer_norm, wrt=("x", "weight"))
    with pytest.raises(fg.ArgumentError, match="each once"):
        fg.grad(softmax, wrt=("x", "x"))
    with pytest.raises(fg.ArgumentError, match="takes a pipeline"):
        fg.grad(rounded)
    with pytest.raises(fg.TraceError, match="whole numbers"):
        fg.grad(L.argmax)
    with pytest.raises(fg.TraceError, match="inside a pipeline"):
        fg.pipeline(lambda x: fg.grad(L.rms_norm, wrt="weight")(x, x))(rows())
    first = r"(?s)misses weight.*come first: grad, x, weight"
    with pytest.raises(fg.ArgumentError, match=first):
        fg.grad(L.rms_norm, wrt="weight")(rows(), rows())


def test_column_gradients_follow_what_a_text_uses():
    factor = 2.0

    @fg.pipeline
    def scaled(x, weight: fg.PerColumn):
        return fg.sum(x * weight * factor)

    x, weight, one = np.ones((2, 3)), np.ones(3), np.ones(2)
    by_weight = fg.grad(scaled, wrt="weight")
    for factor in (2.0, 3.0):
        np.testing.assert_allclose(by_weight(one, x, weight), 2 * factor * one[0] * np.ones(3))


def test_column_gradients_of_weights_with_several_axes():
    x, weight, bias = (RNG.normal(0, 1, s) for s in ((5, 4, 3), (4, 3), (4, 3)))
    cotangent = RNG.normal(0, 1, (5, 4, 3))
    found = fg.grad(L.layer_norm, wrt="weight")(cotangent, x, weight, bias, axis=(1, 2))
    flat = fg.grad(L.layer_norm, wrt="weight")(
        *(a.reshape(*a.shape[:-2], 12) for a in (cotangent, x, weight, bias)))
    np.testing.assert_allclose(found, flat.reshape(4, 3), rtol=1e-12)


# ---- constants without a default ----


@fg.pipeline
def over(x, *, t):
    p = fg.exp((x - fg.max(x)) / t)
    return p / fg.sum(p)


@pytest.mark.long
def test_constants_come_to_grad_or_to_the_call() -> None:
    d, x = np.random.default_rng(3).standard_normal((2, 4, 16))
    p = np.exp(x / 2) / np.exp(x / 2).sum(-1, keepdims=True)
    want = p * (d - (d * p).sum(-1, keepdims=True)) / 2
    opened = fg.grad(over, "x")

    @fg.pipeline
    def within(d, x, *, t):
        return opened(d, x, t=t)

    @fg.pipeline
    def by_default(d, x, *, t):
        return fg.grad(over, "x", t=t)(d, x)

    for found in (opened(d, x, t=2.0), fg.grad(over, "x", t=2.0)(d, x),
                  fg.grad(over, "x", t=5.0)(d, x, t=2.0), opened(d.T, x.T, axis=0, t=2.0).T):
        np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-14)
    for text in (within, by_default):
        for t in (3.0, 2.0):  # one kernel may serve both
            np.testing.assert_allclose(text(d, x, t=t), opened(d, x, t=t), rtol=1e-12, atol=1e-14)
    assert "2" in fg.grad(over, "x", t=2.0).formula()
    with pytest.raises(fg.ArgumentError, match="needs the constant t"):
        opened(d, x)


def test_the_constant_of_a_column_gradient() -> None:
    @fg.pipeline
    def norm(x, w: fg.PerColumn, *, eps):
        return x * fg.rsqrt(fg.mean(x * x) + eps) * w

    d, x = np.random.default_rng(4).standard_normal((2, 4, 16))
    want = (d * x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.5)).sum(0)
    for found in (fg.grad(norm, "w")(d, x, np.ones(16), eps=0.5),
                  fg.grad(norm, "w", eps=0.5)(d, x, np.ones(16))):
        np.testing.assert_allclose(found, want, rtol=1e-12)
