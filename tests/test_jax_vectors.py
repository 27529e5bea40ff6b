"""Pipelines over vectors as JAX meets them: jit, vmap, derivatives, types, meshes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from support import vector_peers as vp
from support.precisions import precisions_used

import fusegen as fg

jax = pytest.importorskip("jax", reason="JAX is not installed")
from support.jax_cases import close, loss, run  # noqa: E402

jnp = jax.numpy
library = fg.library


@pytest.fixture(scope="module", autouse=True)
def lightly_compiled() -> Any:
    """What XLA makes of its own operations is not the matter here, and takes longest."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with jax.default_device(jax.devices("cpu")[0]):
        yield


@pytest.fixture
def wide() -> Any:
    with jax.enable_x64(True):
        yield


def given(name: str, *shape: int, **more: Any) -> list[Any]:
    return [jnp.asarray(a) for a in vp.arguments(name, *shape, **more)]


def ours(name: str) -> Any:
    return partial(library.OVER_VECTORS[name], **vp.CONSTANTS[name])


def theirs(name: str) -> Any:
    peers = vp.Peers(jnp, jax.lax.top_k)
    return lambda *arrays: peers.call(name, arrays)


def both(how: Any, name: str) -> tuple[Any, Any]:
    """What `how` makes of ours, as it is called, and of theirs, compiled as one: one operation
    after the other takes XLA far longer."""
    return how(ours(name)), jax.jit(how(theirs(name)))


def floats(arrays: Any) -> tuple[int, ...]:
    return tuple(i for i, a in enumerate(arrays) if jnp.issubdtype(a.dtype, jnp.floating))


@pytest.mark.parametrize("name", vp.NAMES)
def test_under_jit(name: str) -> None:
    """As NumPy's arrays give it, without Python in the program; heads are leading axes."""
    arrays = vp.arguments(name, dtype="float32", lead=(2, 3))
    want, function = ours(name)(*arrays), jax.jit(ours(name))
    found = function(*map(jnp.asarray, arrays))
    assert jax.tree.structure(found) == jax.tree.structure(want)
    close(found, want, 1e-6, 1e-6)
    close(ours(name)(*map(jnp.asarray, arrays)), want, 1e-6, 1e-6)
    text = function.lower(*map(jnp.asarray, arrays)).as_text()
    assert "@fusegen_cpu" in text
    assert "callback" not in text


@pytest.mark.long
@pytest.mark.parametrize("name", vp.DIFFERENTIABLE)
def test_derivatives(name: str, wide: None) -> None:
    arrays = given(name)
    wrt = floats(arrays)
    mine, wanted = (jax.jit(jax.grad(loss(f), wrt))(*arrays) for f in (ours(name), theirs(name)))
    close(mine, wanted, 1e-9, 1e-10)
    tangents = [a * 0.5 for a in (arrays[i] for i in wrt)]

    def of_floats(function: Any) -> Any:
        def moved(*some: Any) -> Any:
            every = dict(enumerate(arrays)) | dict(zip(wrt, some, strict=True))
            return loss(function)(*every.values())

        return moved

    mine, wanted = (f([arrays[i] for i in wrt], tangents) for f in both(
        lambda f: lambda at, along: jax.jvp(of_floats(f), at, along), name))
    close(mine, wanted, 1e-9, 1e-10)


@pytest.mark.long
@pytest.mark.parametrize("name", [n for n in vp.DIFFERENTIABLE if n != "nearest"])
def test_derivatives_of_derivatives(name: str, wide: None) -> None:
    arrays = given(name, 3, 5)
    mine, wanted = (jax.jit(twice)(*arrays) for twice in both(
        lambda f: jax.grad(lambda *a: sum((g * g).sum() for g in jax.grad(
            loss(f), (0, 1))(*a)), (0, 1)), name))
    close(mine, wanted, 1e-8, 1e-9)


@pytest.mark.long
@pytest.mark.parametrize("name", vp.NAMES)
def test_vmap(name: str, wide: None) -> None:
    """Of the rows' arrays, the columns', the last, all of them; and the gradients of each."""
    one, all_of = given(name), given(name, lead=(3,))
    n, wrt = len(one), floats(one)
    for dims in ((0, *[None] * (n - 1)), (None, 0, *[None] * (n - 2)), (*[None] * (n - 1), 0),
                 (1,) * n):
        arrays = [a if d is None else jnp.moveaxis(b, 0, d)
                  for a, b, d in zip(one, all_of, dims, strict=True)]
        if name in vp.DIFFERENTIABLE:  # of a loss, whose gradient has the values in it
            close(*(f(*arrays) for f in both(
                lambda f, dims=dims: jax.vmap(jax.grad(loss(f), wrt), dims), name)), 1e-9, 1e-10)
        if name not in vp.DIFFERENTIABLE or None not in dims:
            close(*(f(*arrays) for f in both(lambda f, dims=dims: jax.vmap(f, dims), name)),
                  1e-9, 1e-10)


@pytest.mark.long
def test_options() -> None:
    """Masks, lengths, numbers of rows, which have 64 bits, and elements beside vectors."""
    q, k, v = (a.astype(np.float32) for a in vp.arguments("attention", 33, 33, lead=(2,)))
    lengths = np.arange(66).reshape(2, 33) % 34
    bias = np.linspace(-1, 1, 33 * 33, dtype=np.float32).reshape(33, 33)
    for more in ({"causal": True}, {"window": 5, "lengths": lengths}, {"bias": bias},
                 {"causal": True, "with_lse": True, "keepdims": True}):
        want = library.attention(q, k, v, scale=0.3, **more)
        moved = {n: jnp.asarray(a) if isinstance(a, np.ndarray) else a for n, a in more.items()}
        found = jax.jit(partial(library.attention, scale=0.3, **moved))(q, k, v=jnp.asarray(v))
        close(found, want, 1e-5, 1e-6)
    padded = np.where(np.arange(33) < np.array([[20], [33]]), 0, -np.inf).astype(np.float32)
    head = jax.jit(lambda h, w, b: library.head_topk(h, w, b, k=4))
    close(head(q, k, padded), library.head_topk(q, k, padded, k=4), 1e-5, 1e-6)


@pytest.mark.long
def test_sixteen_bits() -> None:
    h, w, labels = given("linear_cross_entropy", 40, 99, dtype="float32")
    narrow = h.astype(jnp.bfloat16), w.astype(jnp.bfloat16), labels
    for f in (ours("linear_cross_entropy"), jax.jit(ours("linear_cross_entropy"))):
        slope = jax.grad(lambda *a, f=f: f(*a).astype(jnp.float32).sum(), (0, 1))(*narrow)
        want = jax.grad(lambda *a: theirs("linear_cross_entropy")(*a).sum(), (0, 1))(
            *(a.astype(jnp.float32) for a in narrow[:2]), labels)
        assert {s.dtype for s in slope} == {jnp.dtype(jnp.bfloat16)}
        close(slope, want, 2e-2, 2e-3)


def test_mistakes_say_what_to_do() -> None:
    x, y = jnp.ones((4, 9)), jnp.ones((20, 9))
    with pytest.raises(fg.ShapeError, match="vectors of 9 numbers"):
        jax.jit(library.nearest)(x, y[:, :8])
    with pytest.raises(fg.ShapeError, match="topk of 30"):
        jax.jit(partial(library.nearest, k=30))(x, y)
    with pytest.raises(fg.ShapeError, match="do not broadcast"):
        library.nearest(x[:, None], jnp.ones((3, 20, 9)), k=3)
    with pytest.raises(fg.ArgumentError, match="traced by JAX"):
        jax.jit(lambda s: library.attention(x, y, y, scale=s))(1.0)


def test_without_a_compiler_python_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    from fusegen.jax import ready

    def missing(*_: Any) -> Any:
        raise fg.BackendError("no C++ compiler was found")

    monkeypatch.setattr(ready, "_handler", missing)
    arrays = vp.arguments("attention", 13, 13, dtype="float32")
    causal = partial(library.attention, scale=0.7, causal=True, with_lse=True, sinks=None)
    close(jax.jit(lambda *a: causal(*a))(*arrays), causal(*arrays), 1e-5, 1e-6)


IN_PARTS = """
import fusegen as fg
import support.light
import jax, numpy as np
from functools import partial
from support import vector_peers as vp
from jax.sharding import PartitionSpec as P
mesh = jax.make_mesh((2,), ("parts",), axis_types=(jax.sharding.AxisType.Auto,))
attention = partial(fg.library.attention, scale=0.3)
arrays = vp.arguments("attention", 8, 10, dtype="float32", lead=(4,))
every, alone = P("parts"), P()

def slopes(function):
    return jax.grad(lambda *a: (function(*a) ** 2).sum(), (0, 1, 2))

for function, given, specs, at, gathers in (
    (attention, arrays, (every, every, every), every, False),  # heads
    (attention, (arrays[0], *(a[0] for a in arrays[1:])), (P(None, "parts"), alone, alone),
     P(None, "parts"), False),  # rows of each head
    (partial(attention, causal=True), arrays, (P(None, "parts"), alone, alone), None, True),
    (attention, arrays, (alone, P(None, "parts"), P(None, "parts")), None, True),  # columns
    (partial(fg.library.kmeans_assign, index_dtype="int32"), (arrays[0][0], arrays[1][0]),
     (every, alone), every, False),
):
    lie = [jax.device_put(a, jax.NamedSharding(mesh, s)) for a, s in zip(given, specs)]
    made = jax.jit(function)
    found = made(*lie)
    np.testing.assert_allclose(found, function(*given), rtol=1e-5, atol=1e-6)
    assert at is None or found.sharding.spec == at, found.sharding
    assert gathers or "all-gather" not in made.lower(*lie).compile().as_text()
    if len(given) == 3:
        for f, w in zip(jax.jit(slopes(function))(*lie), slopes(function)(*given)):
            np.testing.assert_allclose(f, w, rtol=1e-4, atol=1e-5)
explicit = jax.make_mesh((2,), ("parts",), axis_types=(jax.sharding.AxisType.Explicit,))
with jax.set_mesh(explicit):
    lie = [jax.device_put(a, jax.NamedSharding(explicit, every)) for a in arrays]
    for f, w in zip(jax.jit(slopes(attention))(*lie), slopes(attention)(*arrays)):
        assert jax.typeof(f).sharding.spec[0] == "parts"
        np.testing.assert_allclose(f, w, rtol=1e-4, atol=1e-5)
"""


@pytest.mark.long
def test_rows_in_parts_stay_where_they_are() -> None:
    """Heads, and rows that share columns; those with numbers, and columns, come together first."""
    run(IN_PARTS)


def test_every_dot_of_a_call_and_its_gradient_has_its_precision(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    used = precisions_used(monkeypatch)
    attention = fg.Pipeline(library.attention.fn)
    q, k, v = (jnp.ones((2, 6, 8)) * i for i in range(3))
    precise = fg.jax.op(attention, scale=0.3, precision="tf32")
    jax.jit(jax.grad(lambda q: precise(q, k, v).sum()))(q)
    jax.vmap(partial(attention, scale=0.3, precision="tf32"))(q, k, v)
    assert len(used) >= 3
    assert {*used} == {"tf32"}
    for call in (lambda: library.softmax(q, precision="tf32"),
                 lambda: fg.jax.op(library.softmax, precision="tf32")):
        with pytest.raises(fg.ArgumentError, match=r"softmax was .*multiplies no vectors"):
            call()
    with pytest.raises(fg.ArgumentError, match="unknown precision 'tf33'"):
        precise(q, k, v, precision="tf33")


@fg.pipeline
def unguarded(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
    """Causal attention whose exponentials are about no maximum."""
    s = fg.dot(q, k)
    p = fg.exp(fg.where(fg.index(s) <= fg.row(s), s, -np.inf))
    return fg.sum(p * v) / fg.sum(p)


@pytest.mark.long
@pytest.mark.parametrize("text", [partial(library.attention, scale=1.0, causal=True), unguarded])
def test_forward_mode_beside_masks(text: Any, wide: Any) -> None:
    """The transpose of a gradient is taken where its cotangents are 0, and its sums with them."""
    q, k, v, tangent = (jnp.asarray(np.random.default_rng(i).standard_normal((5, 3)))
                        for i in range(4))

    def peer(q: Any) -> Any:
        s = jnp.where(jnp.tril(jnp.ones((5, 5), bool)), q @ k.T, -jnp.inf)
        return jax.nn.softmax(s) @ v

    found = jax.jvp(lambda q: text(q, k, v), (q,), (tangent,))
    close(found, jax.jvp(peer, (q,), (tangent,)), 1e-9)
    curved = jax.hessian(lambda q: (text(q, k, v) ** 2).sum())(q)
    close(curved, jax.hessian(lambda q: (peer(q) ** 2).sum())(q), 1e-8)
