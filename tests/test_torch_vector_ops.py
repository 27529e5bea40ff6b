"""Pipelines over vectors in torch's registry: graphs, export, fake tensors, vmap, torch.func."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support import vector_peers as vp
from support.precisions import precisions_used

import fusegen as fg

torch = pytest.importorskip("torch", reason="torch is not installed")
library = fg.library


def drawn(*shape: int, seed: int = 0) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def given(name: str, *shape: int, dtype: str = "float64", **more: Any) -> list[Any]:
    return [torch.from_numpy(a) for a in vp.arguments(name, *shape, dtype=dtype, **more)]


def moving(arrays: Any) -> list[Any]:
    return [a.requires_grad_() for a in arrays if a.is_floating_point()]


def ours(name: str) -> Any:
    return partial(library.OVER_VECTORS[name], **vp.CONSTANTS[name])


def theirs(name: str) -> Any:
    peers = vp.Peers(torch, torch.topk)
    return lambda *arrays: peers.call(name, arrays)


def loss(function: Any) -> Any:
    """A number that all float results take part in, each its own way."""
    def total(*arrays: Any) -> Any:
        found = function(*arrays)
        every = found if isinstance(found, tuple) else (found,)
        return sum((r * r * (i + r.cos())).sum() for i, r in enumerate(every)
                   if r.is_floating_point())

    return total


@pytest.fixture(autouse=True)
def fresh_graphs() -> None:
    """The tests of one function share its lines, of which torch compiles few graphs."""
    torch.compiler.reset()


def graph_of(function: Any) -> Any:
    return torch.compile(function, fullgraph=True, backend="aot_eager")


@pytest.mark.long
@pytest.mark.parametrize("name", vp.NAMES)
def test_compiled_in_one_graph(name: str) -> None:
    """Forward and backward; other numbers of rows and columns compile once more, and no more."""
    function, peer = ours(name), theirs(name)
    counter = import_module("torch._dynamo.testing").CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda x, *more: function(x * 2, *more), fullgraph=True,
                             backend=counter)
    for shape in ((5, 33), (6, 34), (7, 35)):
        arrays = given(name, *shape)
        inputs = moving(arrays)
        found, want = compiled(*arrays), peer(arrays[0] * 2, *arrays[1:])
        torch.testing.assert_close(found, want)
        if name in vp.DIFFERENTIABLE:
            mine, wanted = (torch.autograd.grad(loss(lambda o=o: o)(), inputs)
                            for o in (found, want))
            torch.testing.assert_close(mine, wanted)
    assert counter.frame_count == 2


@pytest.mark.long
@pytest.mark.parametrize("name", vp.NAMES)
def test_opcheck(name: str) -> None:
    overload = fg.torch.op(library.OVER_VECTORS[name], **vp.CONSTANTS[name]).overload
    arrays = given(name, lead=(2,))
    if name != "kmeans_assign":
        moving(arrays)
    torch.library.opcheck(overload, tuple(arrays), dict(vp.CONSTANTS[name]))
    torch.library.opcheck(overload, tuple(given(name)),
                          {**vp.CONSTANTS[name], "keepdims": True})


@pytest.mark.parametrize("name", vp.NAMES)
def test_tensors_without_memory(name: str) -> None:
    real = given(name, dtype="float32", lead=(2, 3))
    for keepdims in (False, True):
        found, want = (ours(name)(*arrays, keepdims=keepdims)
                       for arrays in ([a.to("meta") for a in real], real))
        for f, w in zip(*(o if isinstance(o, tuple) else (o,) for o in (found, want)),
                        strict=True):
            assert (f.shape, f.dtype, f.stride()) == (w.shape, w.dtype, w.stride())
            assert f.is_meta


@pytest.mark.parametrize("name", vp.NAMES)
def test_vmap(name: str) -> None:
    """Of the rows' arrays, the columns', the last, all of them; and the gradients of each."""
    function, peer = ours(name), theirs(name)
    one, all_of = given(name), given(name, lead=(3,))
    n = len(one)
    for dims in ((0, *[None] * (n - 1)), (None, 0, *[None] * (n - 2)), (*[None] * (n - 1), 0),
                 (1,) * n):
        arrays = [a if d is None else b.movedim(0, d)
                  for a, b, d in zip(one, all_of, dims, strict=True)]
        torch.testing.assert_close(torch.func.vmap(function, dims)(*arrays),
                                   torch.func.vmap(peer, dims)(*arrays))
        if name in vp.DIFFERENTIABLE:
            wrt = tuple(i for i, a in enumerate(one) if a.is_floating_point())
            mine, wanted = (torch.func.vmap(torch.func.grad(loss(f), wrt), dims)(*arrays)
                            for f in (function, peer))
            torch.testing.assert_close(mine, wanted)
            mine, wanted = (torch.func.grad(loss(torch.func.vmap(f, dims)), wrt)(*arrays)
                            for f in (function, peer))
            torch.testing.assert_close(mine, wanted)


def test_vmap_of_a_row_that_is_alone() -> None:
    """Vectors (d,) have no axis of rows: each batch is a row, and has columns of its own."""
    q, k, v = drawn(7, 4), drawn(7, 9, 4), drawn(9, 3)
    lengths = torch.tensor([3, 9, 1, 2, 9, 5, 4])

    def attention(q: Any, k: Any, lengths: Any) -> Any:
        return library.attention(q, k, v, None, lengths, scale=0.5, causal=True)

    for dims in ((0, None, None), (None, 0, None), (0, 0, 0), (None, None, 0)):
        arrays = [a if d == 0 else a[4] for a, d in zip((q, k, lengths), dims, strict=True)]
        want = [attention(*(a if d is None else a[i] for a, d in zip(arrays, dims, strict=True)))
                for i in range(7)]
        torch.testing.assert_close(torch.func.vmap(attention, dims)(*arrays), torch.stack(want))


@pytest.mark.long
def test_vmap_of_numbers_of_columns_and_elements() -> None:
    h, w, labels = given("linear_cross_entropy")
    bias, mask = drawn(3, 20), drawn(3, 9, 20)
    found = torch.func.vmap(lambda b: library.linear_cross_entropy(h, w, labels, b))(bias)
    want = [vp.Peers(torch, None).cross_entropy(h @ w.mT + b, labels) for b in bias]
    torch.testing.assert_close(found, torch.stack(want))
    batch = drawn(3, 9)
    q, k, v = given("attention")
    found = torch.func.vmap(lambda m: library.attention(q, k, v, m, scale=1.0))(mask)
    torch.testing.assert_close(found, torch.softmax(q @ k.mT + mask, -1) @ v)
    found = torch.func.vmap(lambda s: library.attention(q, k, v, sinks=s, scale=1.0))(batch)
    assert found.shape == (3, 9, 4)
    torch.testing.assert_close(found[1], library.attention(q, k, v, sinks=batch[1], scale=1.0))


@pytest.mark.long
@pytest.mark.parametrize("name", vp.DIFFERENTIABLE)
def test_jacobians(name: str) -> None:
    arrays = given(name, 4, 6)
    mine, wanted = (torch.func.jacrev(loss(f), (0, 1))(*arrays)
                    for f in (ours(name), theirs(name)))
    torch.testing.assert_close(mine, wanted)


@pytest.mark.long
@pytest.mark.parametrize("name", [n for n in vp.DIFFERENTIABLE if n != "nearest"])
def test_derivatives_of_derivatives(name: str) -> None:
    """Eager, and by torch.func."""
    arrays = given(name, 4, 6)
    inputs = moving(arrays)

    def twice(function: Any) -> Any:
        made = torch.autograd.grad(loss(function)(*arrays), inputs, create_graph=True)
        return torch.autograd.grad(sum((g * g).sum() for g in made), inputs)

    torch.testing.assert_close(twice(ours(name)), twice(theirs(name)))


@pytest.mark.long
@pytest.mark.parametrize("name", ["attention", "gaussian_sum", "linear_cross_entropy"])
def test_hessians_by_func(name: str) -> None:
    arrays = given(name, 3, 4)
    mine, wanted = (torch.func.jacrev(torch.func.grad(loss(f)))(*arrays)
                    for f in (ours(name), theirs(name)))
    torch.testing.assert_close(mine, wanted)


class Library(torch.nn.Module):
    """Every entry, of arrays by its name."""

    def forward(self, every: Any) -> Any:
        return {name: ours(name)(*every[name]) for name in vp.NAMES}


@pytest.mark.long
def test_export(tmp_path: Path) -> None:
    """The whole library as one program: traced, saved, loaded, run on other rows and columns."""
    rows, columns = torch.export.Dim("rows"), torch.export.Dim("columns", min=3)
    dims = {name: [{0: columns} if i == 1 or n in ("v", "b") else {0: rows} for i, n in enumerate(
        library.OVER_VECTORS[name].signature.arrays[: len(given(name))])]
        for name in vp.NAMES}
    first, other = ({name: given(name, *shape) for name in vp.NAMES}
                    for shape in ((6, 30), (8, 41)))
    program = torch.export.export(Library(), (first,), dynamic_shapes=(dims,))
    called = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert sum(c.startswith("fusegen.") for c in called) == len(vp.NAMES)
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    torch.testing.assert_close(loaded(other), Library()(other))


@pytest.mark.long
def test_losses_are_wide_under_autocast() -> None:
    """As torch's own: in a graph, under torch.func and in eager mode alike."""
    h, w, labels = given("linear_cross_entropy", dtype="float32")
    h, w = h.bfloat16().requires_grad_(), w.bfloat16()

    def run(h: Any, w: Any) -> Any:
        return library.linear_cross_entropy(h, w, labels), library.attention(h, w, w, scale=1.0)

    want = torch.nn.functional.cross_entropy(h.float() @ w.float().T, labels, reduction="none")
    for called in (run, graph_of(run)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found, weighed = called(h, w)
        assert (found.dtype, weighed.dtype) == (torch.float32, torch.bfloat16)
        torch.testing.assert_close(found, want, rtol=1e-5, atol=1e-5)
        (slope,) = torch.autograd.grad(found.sum(), h)
        assert slope.dtype == torch.bfloat16


def test_mistakes_in_shapes_are_named_without_memory_too() -> None:
    x, y = torch.empty(4, 9, device="meta"), torch.empty(20, 9, device="meta")
    with pytest.raises(fg.ShapeError, match="topk of 30"):
        library.nearest(x, y, k=30)
    with pytest.raises(fg.ShapeError, match="vectors of 9 numbers"):
        library.nearest(x, y[:, :8])
    with pytest.raises(fg.ShapeError, match="do not broadcast"):
        library.nearest(x[:, None], y.expand(3, 20, 9), k=3)


@pytest.mark.long
@pytest.mark.parametrize("way", ["eager", "graph", "op", "module", "func", "vmap"])
def test_every_dot_of_a_call_and_its_gradient_has_its_precision(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = precisions_used(monkeypatch)
    attention = fg.Pipeline(library.attention.fn)
    q, k, v = (drawn(2, 6, 8, seed=i).float().requires_grad_() for i in range(3))
    asked: dict[str, Any] = {"precision": "tf32", "scale": 0.3}
    if way == "op":
        fg.torch.op(attention, name="precise_attention", **asked)(q, k, v).sum().backward()
    elif way == "module":
        layer = fg.torch.module(attention, v=v, **asked)
        assert "precision='tf32'" in repr(layer)
        layer(q, k).sum().backward()
    elif way == "func":
        torch.func.grad(lambda q: attention(q, k, v, **asked).sum())(q)
    elif way == "vmap":
        torch.func.vmap(lambda q: attention(q, k, v, **asked))(q[:, None]).sum().backward()
    else:
        call = attention if way == "eager" else graph_of(attention)
        call(q, k, v, **asked).sum().backward()
    assert len(used) >= 2  # forward and backward
    assert {*used} == {"tf32"}


def test_precisions_that_mean_nothing_are_said_by_every_way() -> None:
    q = drawn(5, 8).float().requires_grad_()
    softmax, attention = library.softmax, partial(library.attention, scale=1.0)
    for call in (lambda: softmax(q, precision="tf32"),
                 lambda: fg.torch.op(softmax, precision="tf32"),
                 lambda: fg.torch.module(softmax, precision="tf32")):
        with pytest.raises(fg.ArgumentError, match=r"softmax .*multiplies no vectors"):
            call()
    with pytest.raises(fg.ArgumentError, match="unknown precision 'tf33'"):
        attention(q, q, q, precision="tf33")
    with pytest.raises(fg.DTypeError, match=r"attention was .* no vectors of float32"):
        attention(q.double(), q.double(), q.double(), precision="tf32")
    with pytest.raises(torch._dynamo.exc.Unsupported, match="multiplies no vectors"):
        graph_of(softmax)(q, precision="tf32")
    with pytest.raises(RuntimeError, match="unknown precision 'tf33'"):
        graph_of(attention)(q, q, q, precision="tf33")
