"""JAX's programs on a real GPU: the whole library, derivatives, loops, several devices."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")
from support.jax_cases import DIFFERENTIABLE, EVERY, PEERS, L, arguments, close, loss  # noqa: E402

pytestmark = pytest.mark.gpu
jnp = jax.numpy


@pytest.fixture(autouse=True)
def on_gpu():
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("shape", [(40, 1024), (7, 37)])
def test_every_pipeline(name, shape):
    arrays = arguments(name, shape)
    function = jax.jit(L.PIPELINES[name])
    found = function(*map(jnp.asarray, arrays))
    close(found, L.PIPELINES[name](*arrays), 2e-5, 1e-6)
    assert {d.platform for r in jax.tree.leaves(found) for d in r.devices()} == {"gpu"}
    assert "callback" not in function.lower(*map(jnp.asarray, arrays)).as_text()


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name):
    arrays = [jnp.asarray(a) for a in arguments(name, (6, 300))]
    ours, peer = loss(L.PIPELINES[name]), loss(PEERS[name])
    close(jax.jit(jax.grad(ours))(*arrays), jax.grad(peer)(*arrays), 1e-3, 1e-4)


@pytest.mark.parametrize("shape", [(1, 2_000_000), (2, 300_001), (4096, 8192), (65536, 16)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_shapes_again_and_again(shape, dtype):
    """Counters are zeroed by every run, also where XLA makes a graph of the loop."""
    x = jax.random.normal(jax.random.key(0), shape, dtype)
    rtol = 1e-5 if dtype == "float32" else 2e-2
    close(jax.jit(L.softmax)(x), jax.nn.softmax(x.astype("float32")), rtol, 1e-6)

    @jax.jit
    def looped(x):
        return jax.lax.scan(lambda c, _: (c, L.logsumexp(c)), x, None, length=20)[1]

    wanted = jax.nn.logsumexp(x.astype("float32"), -1)
    close(looped(x), jnp.broadcast_to(wanted, (20, shape[0])), rtol, 1e-5)


def test_axis_0_and_vmap():
    x = jax.random.normal(jax.random.key(1), (500, 640))
    close(jax.jit(lambda x: L.softmax(x, axis=0))(x), jax.nn.softmax(x, axis=0), 1e-5, 1e-7)
    close(jax.jit(jax.vmap(L.softmax, 1, 1))(x), jax.nn.softmax(x, axis=0), 1e-5, 1e-7)


def test_every_device():
    mesh = jax.make_mesh((len(jax.devices()),), ("rows",))
    spec = jax.sharding.PartitionSpec("rows")
    x = jax.random.normal(jax.random.key(2), (8 * len(jax.devices()), 3000))
    x = jax.device_put(x, jax.sharding.NamedSharding(mesh, spec))  # axes are explicit by default
    function = jax.jit(jax.shard_map(lambda x: L.softmax_topk(x), mesh=mesh, in_specs=spec,
                                     out_specs=spec))
    close(function(x), L.softmax_topk(np.asarray(x)), 1e-5, 1e-7)
