"""Pipelines as JAX meets them: jit, vmap, derivatives, types, mistakes; for the whole library."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import fusegen as fg

jax = pytest.importorskip("jax", reason="JAX is not installed")
from support.jax_cases import (  # noqa: E402
    DIFFERENTIABLE,
    EVERY,
    PEERS,
    L,
    arguments,
    close,
    is_float,
    loss,
    run,
)

from fusegen.jax import asked, calls  # noqa: E402
from fusegen.pipeline import traces  # noqa: E402

jnp = jax.numpy
X = np.random.default_rng(1).standard_normal((6, 40), dtype=np.float32)


@pytest.fixture(scope="module", autouse=True)
def lightly_compiled():
    """What XLA makes of its own operations is not the matter here, but for the tests of processes:
    it takes longest to optimise them."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(autouse=True)
def on_the_host():
    with jax.default_device(jax.devices("cpu")[0]):
        yield


@pytest.fixture
def wide():
    with jax.enable_x64(True):
        yield


# ---- calls ----


@pytest.mark.parametrize("name", EVERY)
def test_every_pipeline_under_jit(name):
    """As NumPy's arrays give it, in JAX's arrays, nested alike, without Python in the program."""
    pipeline, arrays = L.PIPELINES[name], arguments(name)
    wanted = pipeline(*arrays)
    function = jax.jit(pipeline)
    found = function(*arrays[:1], *map(jnp.asarray, arrays[1:]))
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    close(found, wanted, 1e-6, 1e-7)
    close(pipeline(*map(jnp.asarray, arrays)), wanted, 1e-6, 1e-7)
    for f, w in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert isinstance(f, jax.Array)
        assert f.dtype == ("int32" if w.dtype == np.int64 else w.dtype)
    text = function.lower(*map(jnp.asarray, arrays)).as_text()
    assert "@fusegen_cpu" in text
    assert "callback" not in text


@pytest.mark.long
@pytest.mark.parametrize(
    ("axis", "keepdims"), [(-1, True), (0, False), (1, True), ((0, 2), False), (None, True)])
def test_axes(axis, keepdims):
    x = jnp.asarray(np.random.default_rng(2).standard_normal((3, 4, 5), dtype=np.float32))
    peers = {"softmax": partial(jax.nn.softmax, axis=axis),
             "logsumexp": partial(jax.nn.logsumexp, axis=axis, keepdims=keepdims)}
    for name, peer in peers.items():
        call = partial(L.PIPELINES[name], axis=axis, keepdims=keepdims)
        close(jax.jit(call)(x), jax.jit(peer)(x))
        close(*(jax.jit(jax.grad(loss(f)))(x) for f in (call, peer)), 1e-4, 1e-5)
    top = partial(L.topk, k=3, axis=axis, keepdims=keepdims)
    close(jax.jit(top)(x), top(np.asarray(x)))


@fg.pipeline
def mixed(x, y, shift: fg.PerRow, scale: fg.PerColumn):
    return {"total": fg.sum((x + y) * scale) + shift, "row": ((x - fg.mean(x)) * scale + y,),
            "above": x > y, "count": fg.count(x > 0)}


def test_broadcast_inputs_results_of_every_kind_and_empty_ones():
    source = np.random.default_rng(3)
    x, shift = source.standard_normal((3, 4, 5)), source.standard_normal(4)
    shapes = [(5,), (4, 5), (3, 1, 5), (3, 4, 1)]
    with jax.enable_x64(True):
        for shape in shapes:
            arrays = x, source.standard_normal(shape), shift, source.standard_normal(5)
            found = jax.jit(mixed)(*map(jnp.asarray, arrays))
            wanted = mixed(*arrays)
            assert list(found) == sorted(wanted)
            assert found["above"].dtype == bool
            close(found, wanted, 1e-12, 1e-12)
    none = jax.jit(L.softmax_topk)(jnp.zeros((0, 7)))
    assert [r.shape for r in none] == [(0, 5), (0, 5)]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "uint16", "int32", "bool"])
def test_types(dtype):
    x = jnp.asarray(X * 9).astype(dtype)
    text = fg.pipeline(lambda x: (fg.max(fg.where(x > 0, x, 0)), fg.mean(x * 1.0), x))
    narrow = {"int64": "int32"}  # what was picked from narrower integers fits
    found, wanted = jax.jit(text)(x), text(np.asarray(x))
    assert [f.dtype for f in found] == [narrow.get(w.dtype.name, w.dtype) for w in wanted]
    close(found, wanted, 1e-6)


@pytest.mark.long
def test_lengths_of_rows():
    @fg.pipeline
    def masked(x, lengths: fg.PerRow):
        return fg.logsumexp(fg.ragged(x, lengths))

    lengths = np.array([1, 40, 7, 3, 12, 39], np.int32)
    found = jax.jit(masked)(X, lengths)
    close(found, np.array([np.log(np.exp(x[:n].astype("f8")).sum())
                           for x, n in zip(X, lengths, strict=True)]))
    peer = jax.vmap(lambda x, n: jax.nn.logsumexp(jnp.where(jnp.arange(40) < n, x, -jnp.inf)))
    close(jax.grad(lambda x: masked(x, lengths).sum())(jnp.asarray(X)),
          jax.grad(lambda x: peer(x, lengths).sum())(jnp.asarray(X)))


@pytest.mark.long
def test_long_rows_on_several_threads(monkeypatch):
    monkeypatch.setenv("FUSEGEN_THREADS", "3")
    x = np.random.default_rng(4).standard_normal((2, 600_001), dtype=np.float32)
    for rows in (x, x.reshape(1, -1), x[:, :600_000].reshape(-1, 100)):
        close(jax.jit(lambda x: L.softmax_topk(x * 1))(rows), L.softmax_topk(rows), 1e-6)
    y = x[:, :600_000].reshape(-1, 4)  # pieces of rows that are not stored are nobody's
    close(jax.jit(lambda y: L.nearest(y[:1], y, k=3))(y), L.nearest(y[:1], y, k=3), 1e-6)


def test_one_trace_serves_all_values_and_one_compilation_all_calls():
    traces = []

    @partial(jax.jit, static_argnames="k")
    def function(x, k):
        traces.append(k)
        return L.topk(L.softmax(x), k=k)

    from fusegen.jax.operators import _run

    for k in (3, 4, 3):
        for scale in (1, 2, 3):
            close(function(X * scale, k), L.topk(L.softmax(X * scale), k=k), 1e-6)
    assert traces == [3, 4]
    L.softmax(jnp.asarray(X))
    before = _run._cache_size()
    for scale in (1, 2, 3):
        L.softmax(jnp.asarray(X) * scale)
    assert _run._cache_size() == before


@fg.pipeline
def tempered(x, w: fg.PerColumn, *, t: fg.Positive = 1.0, s=0.5):
    """Python computes with one of the numbers, and asks for it."""
    e = fg.exp((x - fg.max(x)) / t)
    y = e / fg.sum(e) * w
    return y + 2 * s if s > 1 else y * s


def _tempered(x, w, t, s):
    y = jax.nn.softmax(x / t) * w
    return y + 2 * s if s > 1 else y * s


@pytest.mark.long
@pytest.mark.parametrize("alone", [True, False])
def test_other_numbers_cost_no_trace_of_the_text(alone, monkeypatch):
    """Nor a proof, nor a compiler, which begin with one; on hosts alone no trace of JAX's either.
    Beside GPUs they are part of a program."""
    monkeypatch.setattr(asked, "on_hosts_alone", lambda: alone)
    monkeypatch.setattr(calls, "on_hosts_alone", lambda: alone)
    call = fg.Pipeline(tempered.fn)
    x, w = jnp.asarray(X), jnp.linspace(0.5, 2, 40)

    def check(t, s, eager=False):
        close(call(x, w, t=t, s=s), _tempered(x, w, t, s), 1e-5, 1e-6)
        if eager:
            return
        for function in (lambda f, x=x: jax.jit(f)(x), lambda f, x=x: jax.vmap(f)(x),
                         lambda f, x=x: jax.jit(jax.grad(loss(f)))(x),
                         lambda f, x=x: jax.grad(loss(f))(x),
                         lambda f, x=x: jax.jvp(f, (x,), (x,))[1]):
            theirs = jax.jit(lambda x, f=function: f(lambda x: _tempered(x, w, t, s)))(x)
            close(function(lambda x: call(x, w, t=t, s=s)), theirs, 1e-4, 1e-5)
        close(jax.grad(lambda w: loss(lambda x: call(x, w, t=t, s=s))(x))(w),
              jax.jit(jax.grad(lambda w: loss(lambda x: _tempered(x, w, t, s))(x)))(w), 1e-4, 1e-5)

    kinds = (0.5, 0.25), (2.0, 1.5)
    for t, s in kinds:
        check(t, s)
    made, looked = [], []
    trace, variants = traces.trace_pipeline, asked.Asked.variants
    monkeypatch.setattr(traces, "trace_pipeline", lambda *a: made.append(a) or trace(*a))
    monkeypatch.setattr(asked.Asked, "variants", lambda *a: looked.append(a) or variants(*a))
    for t, s in kinds:
        check(1.5 * t, 1.25 * s, eager=True)
    assert bool(looked) is not alone
    for t, s in kinds:
        check(1.25 * t, 1.5 * s)
    assert not made
    with jax.enable_x64(True):  # in all digits
        wide = jnp.asarray(X, jnp.float64)
        for t in (1 / 3, 1 / 7):
            close(call(wide, w, t=t), _tempered(wide, w, t, 0.5), 1e-12, 1e-13)


def test_donated_buffers():
    function = jax.jit(L.softmax, donate_argnums=0)
    for _ in range(3):
        x = jnp.asarray(X) + 0
        close(function(x), L.softmax(X), 1e-6)


@pytest.mark.long
def test_calls_remembered_see_what_changed():
    """Other types, shapes, constants, options, and another text."""
    scale = [2.0]

    @fg.pipeline
    def scaled(x, *, k=2):
        return fg.topk(x * scale[0], k).values

    for _ in range(2):
        for x in (jnp.asarray(X), jnp.asarray(X, "bfloat16"), jnp.asarray(X[0])):
            for k in (2, 3):
                found = scaled(x, k=k)
                assert (found.shape[-1], found.dtype) == (k, x.dtype)
                assert scaled(x, k=k, axis=0).shape == (k, *x.shape[1:])
        scale[0] += 1
        close(scaled(jnp.asarray(X), k=1)[:, 0], X.max(1) * scale[0])
    with pytest.raises(fg.ArgumentError, match="keepdims must be True or False"):
        L.softmax(jnp.asarray(X), keepdims="no")
    with pytest.raises(fg.ArgumentError, match="form"):
        L.softmax(jnp.asarray(X), form="fast")
    with jax.disable_jit():
        close(L.softmax(jnp.asarray(X)), L.softmax(X))
        close(jax.jvp(L.logsumexp, (X,), (X,))[1], (L.softmax(X) * X).sum(1), 1e-5, 1e-5)


@pytest.mark.long
def test_inside_loops_and_checkpoints():
    def looped(x):
        return jax.lax.scan(lambda c, _: (L.softmax(c * 3), L.logsumexp(c)), x, None, length=3)

    def peer(x):
        return jax.lax.scan(lambda c, _: (jax.nn.softmax(c * 3), jax.nn.logsumexp(c, -1)), x,
                            None, length=3)

    x = jnp.asarray(X)
    close(jax.jit(looped)(x), peer(x), 1e-5)
    close(jax.grad(loss(looped))(x), jax.grad(loss(peer))(x), 1e-4, 1e-5)
    close(jax.grad(loss(jax.checkpoint(looped)))(x), jax.grad(loss(peer))(x), 1e-4, 1e-5)


# ---- vmap ----


@pytest.mark.parametrize("name", EVERY)
def test_vmap(name):
    pipeline = L.PIPELINES[name]
    batch = [tuple(map(jnp.asarray, arguments(name, (4, 17), seed=i))) for i in range(3)]
    stacked = [jnp.stack(a) for a in zip(*batch, strict=True)]
    close(jax.vmap(pipeline)(*stacked), jax.tree.map(lambda *r: jnp.stack(r),
                                                     *[pipeline(*b) for b in batch]), 1e-6)
    more = (None,) * (len(stacked) - 1)
    shared = jax.jit(jax.vmap(pipeline, (1, *more)))(jnp.moveaxis(stacked[0], 0, 1), *batch[0][1:])
    for i, arrays in enumerate(batch):
        close(jax.tree.map(lambda r, i=i: r[i], shared), pipeline(arrays[0], *batch[0][1:]), 1e-6)


DIMS = [(0, None, None, None), (None, 0, None, None), (None, None, 0, None),
        (None, None, None, 0), (2, 1, 1, 1), (None, 0, 0, 1)]


@pytest.mark.parametrize("axis", [-1, 0, None])
@pytest.mark.parametrize("dims", DIMS, ids=str)
def test_vmap_of_every_kind_of_input(dims, axis):
    shape, n, source = (4, 5), 3, np.random.default_rng(5)
    stays, cols = {-1: ((4,), 5), 0: ((5,), 4), None: ((), 20)}[axis]
    sizes = [shape, (5,) if axis == -1 else shape, stays, (cols,)]
    dims = tuple(None if d is None else min(d, len(s)) for s, d in zip(sizes, dims, strict=True))
    arrays = [source.standard_normal(s if d is None else (*s[:d], n, *s[d:])).astype(np.float32)
              for s, d in zip(sizes, dims, strict=True)]
    call = partial(mixed, axis=axis)
    found = jax.vmap(call, dims)(*map(jnp.asarray, arrays))
    for i in range(n):
        one = [a if d is None else a.take(i, d) for a, d in zip(arrays, dims, strict=True)]
        close(jax.tree.map(lambda r, i=i: r[i], found), call(*one), 1e-5, 1e-5)


# ---- derivatives ----


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.usefixtures("wide")
def test_derivatives_are_those_of_the_text_in_jnp(name):
    """grad, per-sample gradients and tangents, by every input of floats, in float64."""
    arrays = [jnp.asarray(a) for a in arguments(name, (4, 17), np.float64)]
    numbers = tuple(i for i, a in enumerate(arrays) if is_float(a))
    if name == "moe_gate":
        numbers = (0,)  # the bias only chooses
    ours, peer = loss(L.PIPELINES[name]), loss(PEERS[name])
    found = jax.jit(jax.grad(ours, numbers))(*arrays)
    close(found, jax.jit(jax.grad(peer, numbers))(*arrays), 1e-9, 1e-10)
    batched = [jnp.stack([a, a[::-1]]) if i == 0 or not is_float(a) else a
               for i, a in enumerate(arrays)]
    dims = tuple(0 if b.ndim > a.ndim else None for a, b in zip(arrays, batched, strict=True))
    each, theirs = (how(jax.vmap(jax.grad(f, numbers), dims))(*batched)
                    for f, how in ((ours, lambda f: f), (peer, jax.jit)))
    close(each, theirs, 1e-9, 1e-10)
    moves = [jnp.cos(a) if is_float(a) else np.zeros(a.shape, jax.dtypes.float0) for a in arrays]
    if name == "moe_gate":
        moves[1] = jnp.zeros_like(arrays[1])
    tangents = jax.jvp(L.PIPELINES[name], arrays, moves)[1]
    theirs = jax.jit(lambda *arrays: jax.jvp(PEERS[name], arrays, (*moves,))[1])(*arrays)
    for f, t in zip(jax.tree.leaves(tangents), jax.tree.leaves(theirs), strict=True):
        if f.dtype != jax.dtypes.float0:
            close(f, t, 1e-9, 1e-10)


@pytest.mark.long
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "logsumexp"])
@pytest.mark.usefixtures("wide")
def test_derivatives_of_derivatives(name):
    from jax.test_util import check_grads

    arrays = [jnp.asarray(a) for a in arguments(name, (2, 7), np.float64)]
    check_grads(jax.jit(L.PIPELINES[name]), arrays, order=2)


@pytest.mark.long
@pytest.mark.usefixtures("wide")
def test_jacobians_and_hessians():
    row, rows = jnp.asarray(X[0], "f8"), jnp.asarray(X, "f8")
    wanted = jax.jacrev(jax.nn.softmax)(row)
    close(jax.jacrev(L.softmax)(row), wanted, 1e-10, 1e-12)
    close(jax.jacfwd(L.softmax)(row), wanted, 1e-10, 1e-12)
    wanted = jax.vmap(jax.hessian(jax.nn.logsumexp))(rows)
    for twice in (jax.hessian, lambda f: jax.jacrev(jax.jacrev(f))):
        close(jax.jit(jax.vmap(twice(L.logsumexp)))(rows), wanted, 1e-9, 1e-12)


def test_what_is_kept_for_the_gradient():
    """softmax keeps its result alone; a sum keeps nothing."""
    x = jnp.asarray(X)
    for pipeline, wanted in ((L.softmax, 1), (fg.pipeline(lambda x: fg.sum(x)), 0)):
        result, backwards = jax.vjp(pipeline, x)
        kept = {id(leaf): leaf for leaf in jax.tree.leaves(backwards)}
        kept = [a for a in kept.values() if a.shape == x.shape]
        assert len(kept) == wanted
        assert all(np.array_equal(a, result) for a in kept)


@pytest.mark.long
def test_weights_of_zero_hold_inputs():
    pipeline = fg.pipeline(lambda x, y, *, a=1.5: fg.sum(x * x) * a + fg.sum(y - y))
    x, ones = jnp.asarray(X), jnp.ones(X.shape[-1])
    for a in (0.0, 1.5):
        found = jax.grad(lambda x, y, a=a: pipeline(x, y, a=a).sum(), argnums=(0, 1))(x, ones)
        close(found[0], 2 * a * x, 1e-6, 0)
        assert not found[1].any()


# ---- mistakes ----


def test_mistakes_say_what_to_do():
    from jax import export

    x = jnp.asarray(X)
    text = fg.pipeline(lambda x, *, t=1.0: fg.sum(x * t))
    with pytest.raises(fg.ArgumentError, match="constant t is traced by JAX"):
        jax.jit(lambda x, t: text(x, t=t))(x, 2.0)
    with pytest.raises(fg.ArgumentError, match="out= cannot be said"):
        jax.jit(lambda x: L.softmax(x, out=x))(x)
    with pytest.raises(fg.ArgumentError, match="device= cannot be said"):
        jax.jit(lambda x: L.softmax(x, device="cpu"))(x)
    with pytest.raises(fg.ShapeError, match="topk of 50"):
        jax.jit(lambda x: L.topk(x, k=50))(x)
    with pytest.raises(fg.ShapeError, match="weight has shape"):
        jax.jit(L.layer_norm)(x, x[0, :3])
    with pytest.raises(fg.DTypeError, match="complex64"):
        jax.jit(L.softmax)(x + 1j)
    rows = jax.ShapeDtypeStruct(export.symbolic_shape("rows, 9"), "float32")
    with pytest.raises(fg.ShapeError, match="x has the symbolic shape"):
        export.export(jax.jit(L.softmax))(rows)
    with pytest.raises(fg.TraceError, match="prod"):
        jax.grad(lambda x: fg.pipeline(lambda x: fg.prod(x))(x).sum())(x)
    with pytest.raises(fg.BackendError, match="no kernels for tpu: there are some for cuda, cpu"):
        jax.jit(lambda x: L.softmax(x)).trace(x).lower(lowering_platforms=("tpu",))
    with pytest.raises(fg.ArgumentError, match="op takes a pipeline"):
        fg.jax.op(jax.nn.softmax)
    with pytest.raises(fg.ArgumentError, match="no parameter 'q'"):
        fg.jax.op(L.topk, q=3)


def test_types_of_64_bits_that_jax_has_not():
    whole = fg.pipeline(lambda x: fg.sum(x))
    x = jnp.arange(12).reshape(3, 4)
    with pytest.raises(fg.DTypeError, match="result of int64, which JAX has not"):
        jax.jit(whole)(x)
    assert whole(x).dtype == "int32"  # in eager mode the values can be looked at
    with pytest.raises(fg.DTypeError, match="does not hold"):
        whole(jnp.full((2, 3), 2**30))
    with pytest.raises(fg.DTypeError, match="weight holds float64"):
        L.rms_norm(jnp.asarray(X), np.full(40, 1 / 3))
    with jax.enable_x64(True):
        assert jax.jit(whole)(jnp.full((2, 3), 2**40)).tolist() == [3 * 2**40] * 2
        assert jax.jit(L.argmax)(X).dtype == "int64"


def test_a_text_that_changed_after_it_was_traced():
    scale = [2.0]

    @fg.pipeline
    def scaled(x):
        return fg.sum(x) * scale[0]

    x = jnp.asarray(X)
    traced = jax.jit(scaled).trace(x)
    close(scaled(x), X.sum(1) * 2, 1e-4, 1e-4)
    scale[0] = 3.0
    close(scaled(x), X.sum(1) * 3, 1e-4, 1e-4)
    with pytest.raises(fg.PipelineError, match="has changed since JAX traced"):
        traced.lower()


# ---- op ----


def test_op_takes_other_arrays_and_constants():
    top = fg.jax.op(L.topk, k=3)
    for found, k in ((top(X), 3), (top(X.tolist(), k=2), 2), (jax.jit(top)(X), 3)):
        assert all(isinstance(r, jax.Array) and r.shape == (6, k) for r in found)
        close(found, L.topk(X, k=k))
    assert "topk" in repr(top)
    out = np.empty_like(X)
    assert L.softmax(jnp.asarray(X), out=out) is out
    close(out, L.softmax(X))


# ---- processes ----

HEAD = """
import sys
import fusegen as fg
import support.light
assert "jax" not in sys.modules
import jax, numpy as np
from jax.sharding import PartitionSpec as P
assert "fusegen.jax" not in sys.modules
mesh = jax.make_mesh((2,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
x = np.random.default_rng(0).standard_normal((8, 33), dtype=np.float32)
wanted = fg.library.softmax(x)
parted = jax.device_put(x, jax.NamedSharding(mesh, P("rows")))

def function(x):
    return fg.library.softmax(x)
"""

KEPT = HEAD + """
own = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P("rows"), out_specs=P("rows")))
found = own(parted)
assert found.sharding.spec == P("rows")
np.testing.assert_allclose(found, wanted, rtol=1e-6)
text = own.lower(parted).compile().as_text()
assert "all-gather" not in text and "fusegen_cpu" in text
w = np.linspace(1, 2, 33, dtype=np.float32)
norm = fg.library.rms_norm
both = jax.grad(lambda x, w: (norm(function(x), w)**2).sum(), (0, 1))
own = jax.shard_map(both, mesh=mesh, in_specs=(P("rows"), P()), out_specs=(P("rows"), P()))
for found, right in zip(jax.jit(own)(parted, w), both(x, w)):
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)
"""

IN_PARTS = HEAD + """
automatic = jax.jit(function)
found = automatic(parted)
np.testing.assert_allclose(found, wanted, rtol=1e-6)
assert found.sharding.spec == P("rows"), found.sharding
text = automatic.lower(parted).compile().as_text()
assert "all-gather" not in text and "fusegen_cpu" in text
labels = np.arange(8, dtype=np.int32)
along = jax.device_put(x.T, jax.NamedSharding(mesh, P(None, "rows")))
for text, given, at in (
    (lambda x: fg.library.softmax_topk(x, k=3), (parted,), P("rows")),
    (fg.library.cross_entropy, (parted, labels), P("rows")),
    (lambda x: fg.library.softmax(x, axis=0), (along,), P(None, "rows")),
    (jax.grad(lambda x: (fg.library.softmax(x) ** 2).sum()), (parted,), P("rows")),
    (jax.vmap(fg.library.logsumexp, in_axes=1), (along,), P("rows")),
):
    for f, w in zip(jax.tree.leaves(jax.jit(text)(*given)),
                    jax.tree.leaves(text(*(np.asarray(a) for a in given)))):
        np.testing.assert_allclose(f, w, rtol=1e-5, atol=1e-6)
        assert f.sharding.spec == at, (f.sharding, at)
    assert "all-gather" not in jax.jit(text).lower(*given).compile().as_text()
both = jax.device_put(x[:, :32], jax.NamedSharding(mesh, P(None, "rows")))  # rows are whole
np.testing.assert_allclose(jax.jit(function)(both), function(x[:, :32]), rtol=1e-6)
explicit = jax.make_mesh((2,), ("rows",), axis_types=(jax.sharding.AxisType.Explicit,))
with jax.set_mesh(explicit):
    given = jax.device_put(x, jax.NamedSharding(explicit, P("rows")))
    found = jax.jit(function)(given)
    assert jax.typeof(found).sharding.spec[0] == "rows"
    def total(x):
        return (function(x) ** 2).sum()

    for f, w in zip((jax.jit(jax.grad(total))(given), *jax.jvp(function, (given,), (given,))),
                    (jax.grad(total)(x), *jax.jvp(function, (x,), (x,)))):
        assert jax.typeof(f).sharding.spec[0] == "rows"
        np.testing.assert_allclose(f, w, rtol=1e-5, atol=1e-5)
    try:
        function(jax.device_put(x[:, :32], jax.NamedSharding(explicit, P(None, "rows"))))
    except fg.ArgumentError as error:
        assert "sharded explicitly" in str(error) and "shard_map" in str(error)
    else:
        raise AssertionError
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    found = jax.sharding.auto_axes(function, out_sharding=P("rows"))(given)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
"""


@pytest.mark.long
def test_rows_in_parts_stay_where_they_are():
    run(IN_PARTS)


@pytest.mark.long
def test_parted_arrays_and_programs_kept_on_disk(tmp_path):
    """The second process runs the programs that the first one compiled."""
    kept = []
    for _ in range(2):
        run(KEPT, JAX_COMPILATION_CACHE_DIR=str(tmp_path),
            JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
            JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1")
        kept.append(sorted(p.name for p in tmp_path.glob("*-cache")))
    assert kept[0] == kept[1] != []


@pytest.mark.long
def test_without_a_compiler_python_is_called(monkeypatch):
    """On the CPU alone, and it says so."""
    from fusegen.jax import ready

    def missing(*_):
        raise fg.BackendError("no C++ compiler was found")

    monkeypatch.setattr(ready, "_handler", missing)
    text = fg.pipeline(lambda x, y: (fg.sum(x * y), x - fg.max(y)))
    with pytest.warns(RuntimeWarning, match="go back into Python here: no C"):
        found = jax.jit(text)(X, X[0])
    close(found, text(X, X[0]), 1e-6)
    close(jax.jit(jax.grad(loss(text)))(X, X[0]), jax.grad(loss(text))(jnp.asarray(X), X[0]))


@pytest.mark.parametrize("how", [
    L.logsumexp, jax.jit(L.logsumexp), jax.vmap(L.logsumexp),
    jax.grad(lambda x: L.logsumexp(x).sum()), lambda x: L.logsumexp(x, axis=0),
], ids=["eager", "jit", "vmap", "grad", "axis"])
def test_debugging_of_specials_says_so(how):
    """JAX calls what made one again, operation by operation."""
    ones, kinds = jnp.ones((2, 3)), ((jax.debug_nans, np.nan), (jax.debug_infs, -np.inf))
    given = [jnp.asarray(np.full((2, 3), value, np.float32)) for _, value in kinds]
    for (debugging, _), special in zip(kinds, given, strict=True):
        with debugging(True):
            for _ in range(2):
                assert np.isfinite(how(ones)).all()
                with pytest.raises(FloatingPointError):
                    how(special)
