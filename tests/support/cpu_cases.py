"""Pipelines for the CPU backend, each with what it means in plain NumPy float64."""

from __future__ import annotations

import inspect
from functools import cache

import numpy as np

from fusegen.algebra.derive import derive
from fusegen.backend.cpu.emit import cpu_source
from fusegen.backend.cpu.run import made as executable_of
from fusegen.backend.cpu.schedule import select_cpu
from fusegen.backend.problem import Problem
from fusegen.backend.target import host_cpu
from fusegen.compile.fusion import fuse
from fusegen.compile.lower.program import lower
from fusegen.ir import dtypes as dt
from fusegen.ir.kinds import infer_kinds
from fusegen.lang import lang as fg
from fusegen.lang.trace import trace
from fusegen.lang.value import PerColumn, PerRow


class Traced:
    """What `trace` needs of a pipeline."""

    def __init__(self, fn):
        self.fn, self.name, self.allow_cancellation = fn, fn.__name__, False
        self.like = ()


def inputs_of(fn):
    parameters = inspect.signature(fn).parameters.values()
    return [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]


@cache
def program(fn, form="online", dtypes=(), constants=()):
    """`dtypes`: pairs (input, DType) for those that are not float32."""
    types = dict.fromkeys(inputs_of(fn), dt.FLOAT32) | dict(dtypes)
    graph = trace(Traced(fn), frozenset(types), dict(constants))
    derivation = derive(graph)
    grouping = "sweeps" if form == "unfused" else "rows"
    fusion = fuse(graph, derivation, form, infer_kinds(graph, types))
    return lower(graph, derivation, fusion, types, grouping)


def source(made, chunk=None, target=None):
    schedule = select_cpu(made, Problem(dtypes={}), target or host_cpu(), chunk)
    return schedule, cpu_source(made, schedule).text()


@cache
def executable(fn, form="online", chunk=None, dtypes=(), constants=(), target=None):
    made = program(fn, form, dtypes, constants)
    return executable_of(made, *source(made, chunk, target))


def outputs_for(made, n_rows, n_cols):
    shapes = {"element": (n_rows, n_cols), "row": (n_rows,)}
    return {
        p.name: np.zeros(shapes.get(p.shape, (n_rows, p.k)), p.dtype.numpy) for p in made.outputs
    }


def run(found, arrays, n_cols, **options):
    """Results in the order of the pipeline's outputs."""
    n_rows = next(a.shape[0] for a in arrays.values() if a.ndim == 2)
    results = outputs_for(found.program, n_rows, n_cols)
    found({**arrays, **results}, n_rows, n_cols, **options)
    return tuple(results.values())


# ---- pipelines ----


def softmax(x):
    m = fg.max(x)
    return fg.exp(x - m) / fg.sum(fg.exp(x - m))


def softmax_topk(x, *, k=5):
    return fg.topk(softmax(x), k)


def topk(x, *, k=5):
    return fg.topk(x, k)


def logsumexp(x):
    return fg.logsumexp(x)


def entropy(x):
    p = softmax(x)
    return -fg.sum(fg.xlogy(p, p))


def var_mean(x):
    mu = fg.mean(x)
    return fg.mean((x - mu) ** 2), mu


def layer_norm(x, weight: PerColumn, bias: PerColumn):
    mu = fg.mean(x)
    return (x - mu) * fg.rsqrt(fg.mean((x - mu) ** 2) + 1e-5) * weight + bias


def cross_entropy(x, labels: PerRow):
    return fg.logsumexp(x) - fg.take(x, labels)


def extremes(x):
    return fg.argmax(x), fg.argmin(x), fg.max(x), fg.min(x)


def moe_gate(x, *, k=2):
    values, indices = fg.topk(softmax(x), k)
    return values / fg.sum(values), indices


def quantize(x):
    scale = fg.max(fg.abs(x)) / 127
    return fg.cast(fg.round(x / scale), "int8"), scale


def norm(x):
    a = fg.max(fg.abs(x))
    return fg.where(a > 0, a * fg.sqrt(fg.sum((x / a) ** 2)), 0.0)


def conditions(x):
    big = x > 0.5
    return fg.count(big & (x < 2)), fg.any(big), fg.all(fg.isfinite(x)), x > fg.mean(x)


def centre_of_mass(x):
    weight = fg.abs(x)
    at = fg.cast(fg.index(x), "float32")
    return fg.sum(weight * at) / fg.sum(weight)


def np_softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def np_topk(x, k=5):
    """NaN first, then descending, ties to the lowest column."""
    nan = np.isnan(x)
    columns = np.broadcast_to(np.arange(x.shape[1]), x.shape)
    order = np.lexsort((columns, -np.where(nan, 0, x), ~nan), axis=1)[:, :k]
    return np.take_along_axis(x, order, 1), order


def np_logsumexp(x):
    m = x.max(1)
    safe = np.where(np.isfinite(m), m, 0)
    return np.where(np.isinf(m), m, safe + np.log(np.exp(x - safe[:, None]).sum(1)))


def np_entropy(x):
    p = np_softmax(x)
    return (-(p * np.log(np.where(p == 0, 1, p))).sum(1),)


def np_moe_gate(x):
    values, indices = np_topk(np_softmax(x), 2)
    return values / values.sum(1, keepdims=True), indices


def np_layer_norm(x, weight, bias):
    spread = np.sqrt(x.var(1, keepdims=True) + 1e-5)
    return ((x - x.mean(1, keepdims=True)) / spread * weight + bias,)


def np_conditions(x):
    big = x > 0.5
    return (big & (x < 2)).sum(1), big.any(1), np.isfinite(x).all(1), x > x.mean(1, keepdims=True)


def np_centre_of_mass(x):
    return ((abs(x) * np.arange(x.shape[1])).sum(1) / abs(x).sum(1),)


def np_quantize(x):
    scale = (abs(x).max(1) / 127).astype("f4")
    return np.rint(x.astype("f4") / scale[:, None]).astype("int8"), scale


def np_cross_entropy(x, labels):
    return (np_logsumexp(x) - np.take_along_axis(x, labels[:, None], 1)[:, 0],)


ORACLES = {
    softmax: lambda x: (np_softmax(x),),
    softmax_topk: lambda x: np_topk(np_softmax(x)),
    topk: np_topk,
    logsumexp: lambda x: (np_logsumexp(x),),
    entropy: np_entropy,
    var_mean: lambda x: (x.var(1), x.mean(1)),
    layer_norm: np_layer_norm,
    cross_entropy: np_cross_entropy,
    extremes: lambda x: (x.argmax(1), x.argmin(1), x.max(1), x.min(1)),
    moe_gate: np_moe_gate,
    quantize: np_quantize,
    norm: lambda x: (np.sqrt((x**2).sum(1)),),
    conditions: np_conditions,
    centre_of_mass: np_centre_of_mass,
}
LEAST_COLUMNS = {softmax_topk: 5, topk: 5, moe_gate: 2}


# ---- data ----


def arrays_for(fn, n_rows, n_cols, seed=0, dtype="float32"):
    rng = np.random.default_rng(seed)
    found = {"x": rng.normal(0, 2, (n_rows, n_cols)).astype(dtype)}
    for name in inputs_of(fn)[1:]:
        if name == "labels":
            found[name] = rng.integers(0, n_cols, n_rows)
        else:
            found[name] = rng.normal(0, 1, n_cols).astype(dtype)
    return found


def expected(fn, arrays):
    wide = {
        n: a if a.dtype.kind == "i" and n == "labels" else a.astype(np.float64)
        for n, a in arrays.items()
    }
    with np.errstate(all="ignore"):
        return ORACLES[fn](**wide)


def assert_close(got, want, rtol=1e-5, atol=1e-6):
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        if g.dtype.kind in "ib":
            np.testing.assert_array_equal(g, w)
        else:
            np.testing.assert_allclose(g.astype(np.float64), w, rtol=rtol, atol=atol)
