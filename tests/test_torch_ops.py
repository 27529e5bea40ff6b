"""Pipelines in torch's registry: opcheck, torch.compile, export, fake tensors, torch.func."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fusegen as fg
from fusegen.pipeline import by_torch

torch = pytest.importorskip("torch", reason="torch is not installed")
from support.torch_cases import (  # noqa: E402
    DIFFERENTIABLE,
    PEERS,
    ROWWISE,
    L,
    floats,
    graph_of,
    tensors,
)

EVERY, TESTS = sorted(L.PIPELINES), Path(__file__).parent


@pytest.fixture(autouse=True)
def fresh_graphs():
    """The tests of one function share its lines, of which torch compiles few graphs."""
    torch.compiler.reset()


def flat(result):
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", EVERY)
def test_opcheck(name, dtype):
    overload = fg.torch.op(L.PIPELINES[name]).overload
    # opcheck adds up results in the type of the first, which must not be one of integers then.
    moving = name not in ("argmax", "absmax_quantize")
    samples = [tensors(name, grad=moving, dtype=dtype), tensors(name, (2, 3, 17), dtype=dtype)]
    if dtype is torch.bfloat16:  # types of results are those of any shape and option
        torch.library.opcheck(overload, samples[0])
        return
    for arrays in samples:
        torch.library.opcheck(overload, arrays, rtol=1e-5, atol=1e-5)
    torch.library.opcheck(overload, tensors("softmax", (6, 7, 8))[:1] if name in ROWWISE
                          and len(samples[0]) == 1 else samples[1], {"keepdims": True})


@pytest.mark.parametrize("name", EVERY)
def test_compiled_in_one_graph(name):
    """Forward and backward; a second number of rows compiles once more, a third does not."""
    pipeline, peer = L.PIPELINES[name], PEERS[name]

    def ours(x, *rest):
        return pipeline(x * 2, *rest)

    compiled = graph_of(ours)
    for n_rows in (5, 6, 7):
        arrays = tensors(name, (n_rows, 33), grad=True)
        found, wanted = flat(compiled(*arrays)), flat(peer(arrays[0] * 2, *arrays[1:]))
        for f, w in zip(found, wanted, strict=True):
            torch.testing.assert_close(f, w, rtol=1e-4, atol=1e-5)
        if name in DIFFERENTIABLE:
            mine, theirs = (torch.autograd.grad(sum(r.square().sum() for r in floats(tuple(o))),
                                                arrays[0]) for o in (found, wanted))
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.long
def test_constants_axis_and_out_in_a_graph():
    def function(x, out, k):
        values, indices = L.softmax_topk(x, k=k, axis=0)
        whole = L.softmax(x, axis=(0, 1), out=out)
        named = L.layer_norm(x, bias=x[0], weight=None, eps=1e-3)
        return values, indices, whole is out, named, L.moe_gate(x, score="sigmoid", k=k)[0]

    compiled = graph_of(function)
    for k in (2, 3, 4):
        x = torch.randn(12, 9)
        out, other = torch.empty(12, 9), torch.empty(12, 9)
        found, wanted = compiled(x, out, k), function(x, other, k)
        assert found[2] is wanted[2] is True
        torch.testing.assert_close(out, other)
        for i in (0, 1, 3, 4):
            torch.testing.assert_close(found[i], wanted[i])


@fg.pipeline
def nested(x, *, scale=2.0, pair=(1.0, 2.0), kind="plain"):
    """Outputs in a dict, constants that no schema has."""
    y = fg.exp(x * scale - fg.max(x * scale)) * pair[0]
    return {"sum": fg.sum(y), "rest": [y, (fg.topk(x, 2), fg.mean(x) * pair[1])], kind: fg.max(x)}


@pytest.mark.long
def test_nested_results_and_odd_constants_in_a_graph():
    x = torch.randn(4, 9)

    def function(x, scale):
        return nested(x, scale=scale, pair=(3.0, 4.0), kind="other")

    compiled = graph_of(function)
    for scale in (1.0, 1.5, 2.5):
        found, wanted = compiled(x, scale), function(x, scale)
        assert found.keys() == wanted.keys()
        assert type(found["rest"][1][0]) is type(wanted["rest"][1][0])
        torch.testing.assert_close(found["rest"][1][0].indices, wanted["rest"][1][0].indices)
        torch.testing.assert_close(found["rest"][0], wanted["rest"][0])
        torch.testing.assert_close(found["other"], wanted["other"])


def test_a_whole_number_where_the_default_is_a_float_is_told_apart():
    overloads = {fg.torch.op(nested, scale=s).overload for s in (2.0, 3.0, 2)}
    assert len(overloads) == 2


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("refused", [
    lambda x: L.moe_gate(x, score="none"), lambda x: L.attention(x, x, x)])
def test_refusals_are_no_accidents_of_torchs(refused):
    """What is wrong is said where one graph is asked for, and raised where lines may be left."""
    x = torch.randn(4, 5)
    with pytest.raises(fg.FusegenError) as eager:
        refused(x)
    with pytest.raises(torch._dynamo.exc.Unsupported) as whole:
        graph_of(refused)(x)
    assert eager.value.what in str(whole.value)
    with pytest.raises(type(eager.value)) as left:
        torch.compile(refused, backend="aot_eager")(x)
    assert left.value.what == eager.value.what


def test_the_same_lines_with_another_pipeline_are_another_graph():
    def function(p, x):
        return p(x)

    compiled, x = graph_of(function), torch.randn(4, 9)
    for _ in range(2):
        for name in ("softmax", "logsumexp", "log_softmax"):
            torch.testing.assert_close(compiled(L.PIPELINES[name], x), PEERS[name](x))


class Library(torch.nn.Module):
    """Every pipeline, of one tensor and of what they take besides."""

    def forward(self, x, more):
        return {name: L.PIPELINES[name](x, *more[name]) for name in EVERY}


@pytest.mark.long
@pytest.mark.parametrize("strict", [True, False])
def test_export(strict, tmp_path):
    """The whole library as one program: traced, saved, loaded, run on another number of rows."""
    def given(rows):
        return torch.randn(rows, 33), {name: tensors(name, (rows, 33))[1:] for name in EVERY}

    rows = torch.export.Dim("rows")
    per_row = {name: tuple({0: rows} if a.dim() == 2 or name == "cross_entropy" else None
                           for a in more) for name, more in given(2)[1].items()}
    program = torch.export.export(Library(), given(6), dynamic_shapes=({0: rows}, per_row),
                                  strict=strict)
    called = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert [c for c in called if "fusegen" in c] == [f"fusegen.{n}.default" for n in EVERY]
    torch.export.save(program, tmp_path / "model.pt2")
    loaded, other = torch.export.load(tmp_path / "model.pt2").module(), given(9)
    torch.testing.assert_close(loaded(*other), Library()(*other))


class Lists(torch.nn.Module):
    def forward(self, x):
        return tuple(L.topk(x, k=2))


def test_export_of_rows_of_any_length():
    """A symbol is bound by what a text asks of it, and by nothing else."""
    columns = torch.export.Dim("columns", min=2)
    program = torch.export.export(Lists(), (torch.randn(6, 50),), dynamic_shapes=({1: columns},))
    for n in (2, 33):
        x = torch.randn(6, n)
        torch.testing.assert_close(program.module()(x), tuple(x.topk(2)))
    assert "4611686018427387904" not in str(program.range_constraints)


def test_tensors_with_and_without_memory_do_not_meet():
    def given(*places):
        return [torch.ones(*shape, device=place)
                for shape, place in zip([(3, 8), (8,), (8,)], places, strict=True)]

    p, places = L.layer_norm, [("cpu", "meta"), ("meta", "cpu")]
    for one, other in places:
        for arrays in (given(one, one, other), given(one, other, one), given(other, one, one)):
            for called in (p, fg.torch.op(p), fg.torch.op(p).overload):
                with pytest.raises(fg.ArgumentError, match="different devices"):
                    called(*arrays)
            with pytest.raises(fg.ArgumentError, match="different devices"):
                p(arrays[0].requires_grad_(), *arrays[1:])
        with pytest.raises(fg.ArgumentError, match="device"):
            L.softmax(torch.ones(3, 8, device=one), out=torch.ones(3, 8, device=other))
    freed = torch.ones(3, 8)
    freed.untyped_storage().resize_(0)
    with pytest.raises(fg.ArgumentError, match="It was freed"):
        L.softmax(freed)


@pytest.mark.parametrize("name", EVERY)
def test_tensors_without_memory(name):
    """Fake and meta: shapes, types and places as of the real call."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    real = tensors(name, (3, 4, 17), dtype=torch.bfloat16)
    wanted = flat(L.PIPELINES[name](*real))
    with FakeTensorMode() as mode:
        fake = flat(L.PIPELINES[name](*(mode.from_tensor(a) for a in real)))
    meta = flat(L.PIPELINES[name](*(a.to("meta") for a in real)))
    for w, *found in zip(wanted, fake, meta, strict=True):
        assert [(f.shape, f.dtype, f.stride()) for f in found] == 2 * [
            (w.shape, w.dtype, w.stride())]
    assert {f.device.type for f in meta} == {"meta"}


def test_mistakes_in_shapes_are_named_without_memory_too():
    x = torch.empty(4, 9, device="meta")
    with pytest.raises(fg.ShapeError, match="topk of 20"):
        L.topk(x, k=20)
    with pytest.raises(fg.ShapeError, match="weight has shape"):
        L.layer_norm(x, torch.empty(8, device="meta"))
    with pytest.raises(fg.ShapeError, match="axis 2"):
        L.softmax(x, axis=2)


@pytest.mark.parametrize("name", EVERY)
def test_vmap(name):
    batch = [tensors(name, (4, 17), seed=i) for i in range(3)]
    stacked = [torch.stack(a) for a in zip(*batch, strict=True)]
    wanted = [flat(L.PIPELINES[name](*arrays)) for arrays in batch]
    found = flat(torch.func.vmap(L.PIPELINES[name])(*stacked))
    shared = flat(torch.func.vmap(L.PIPELINES[name], (1, *[None] * (len(stacked) - 1)))(
        stacked[0].movedim(0, 1), *batch[0][1:]))
    for position, result in enumerate(found):
        torch.testing.assert_close(result, torch.stack([w[position] for w in wanted]))
    for i, arrays in enumerate(batch):
        again = flat(L.PIPELINES[name](arrays[0], *batch[0][1:]))
        for position, result in enumerate(shared):
            torch.testing.assert_close(result[i], again[position])


@fg.pipeline
def mixed(x, y, shift: fg.PerRow, scale: fg.PerColumn):
    return fg.sum((x + y) * scale) + shift, (x - fg.mean(x)) * scale + y


DIMS = [(0, None, None, None), (None, 0, None, None), (None, None, 0, None),
        (None, None, None, 0), (0, 0, 0, 0), (2, 1, 1, 1), (None, 0, 0, 1)]


@pytest.mark.parametrize("axis", [-1, 0, None])
@pytest.mark.parametrize("dims", DIMS, ids=str)
def test_vmap_of_every_kind_of_input(dims, axis):
    shape, n = (4, 5), 3
    stays, cols = {-1: ((4,), 5), 0: ((5,), 4), None: ((), 20)}[axis]
    y = (5,) if axis == -1 else shape
    sizes = [shape, y, stays, (cols,)]
    arrays = []
    for size, dim in zip(sizes, dims, strict=True):
        if dim is None:
            arrays.append(torch.randn(size, dtype=torch.float64))
        else:
            at = min(dim, len(size))
            arrays.append(torch.randn(*size[:at], n, *size[at:], dtype=torch.float64))
    dims = tuple(None if d is None else min(d, len(s)) for s, d in zip(sizes, dims, strict=True))

    def call(*arrays):
        return mixed(*arrays, axis=axis)

    found = torch.func.vmap(call, dims)(*arrays)
    for i in range(n):
        one = [a if d is None else a.select(d, i) for a, d in zip(arrays, dims, strict=True)]
        for f, w in zip(found, call(*one), strict=True):
            torch.testing.assert_close(f[i], w)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_func_transforms(name):
    """grad, per-sample gradients (vmap of grad), and jacobians, beside torch's own."""
    arrays = tensors(name, (4, 17), torch.float64)
    numbers = tuple(i for i, a in enumerate(arrays) if a.is_floating_point())
    if name == "moe_gate":
        numbers = (0,)

    def loss(function):
        return lambda *a: sum((r.square() * (1 + r.detach())).sum() for r in floats(function(*a)))

    ours, peer = loss(L.PIPELINES[name]), loss(PEERS[name])
    found = torch.func.grad(ours, numbers)(*arrays)
    wanted = torch.func.grad(peer, numbers)(*arrays)
    batched = [torch.stack([a, a.flip(0)]) if i == 0 or not a.is_floating_point() else a
               for i, a in enumerate(arrays)]
    dims = tuple(0 if b.dim() > a.dim() else None for a, b in zip(arrays, batched, strict=True))
    each, theirs = (torch.func.vmap(torch.func.grad(f, numbers), dims)(*batched)
                    for f in (ours, peer))
    for f, w in zip((*found, *each), (*wanted, *theirs), strict=True):
        torch.testing.assert_close(f, w, rtol=1e-9, atol=1e-10)
    if name == "softmax":
        row = arrays[0][0]
        torch.testing.assert_close(torch.func.jacrev(L.softmax)(row),
                                   torch.func.jacrev(lambda r: torch.softmax(r, -1))(row))


def _nested(p, x, w, v):
    """Derivatives of derivatives in all the ways that torch.func composes them; w, a second input
    or None, is closed over."""
    f, rest = torch.func, () if w is None else (w,)

    def loss(u):
        return p(u, *rest).pow(3).sum()

    def captured(t):
        return f.grad(lambda u: p(u + t, *rest).pow(3).sum())(v).pow(2).sum()

    def step(t):
        return loss(t - 0.1 * f.grad(loss)(t))

    def pulled(t):
        y, pull = f.vjp(lambda u: p(u, *rest), t)
        return pull(torch.ones_like(y))[0].pow(2).sum() + pull(y)[0].sum()

    yield f.grad(lambda t: f.grad(loss)(t).pow(2).sum())(x)
    if w is None:
        yield f.grad(lambda t: f.grad(lambda s: f.grad(loss)(s).pow(2).sum())(t).pow(2).sum())(x)
    yield f.jacrev(f.grad(loss))(x)
    yield f.jacrev(f.jacrev(lambda u: p(u, *rest)))(x)
    yield f.vmap(f.grad(lambda t: f.grad(loss)(t).pow(2).sum()))(torch.stack([x, v]))
    yield f.grad(lambda t: f.vmap(f.grad(loss))(torch.stack([t, v])).pow(2).sum())(x)
    yield f.grad(captured)(x)
    yield f.grad(step)(x)
    yield f.grad(pulled)(x)
    leaf = x.clone().requires_grad_()
    leaves = [leaf] if w is None else [leaf, w]
    for outer in (f.grad(loss)(leaf), f.vmap(lambda u: p(u, *rest))(leaf),
                  f.vmap(f.grad(loss))(torch.stack([leaf, v])), f.vjp(loss, leaf)[0],
                  f.vjp(loss, leaf)[1](leaf.sum())[0]):
        yield from torch.autograd.grad(outer.pow(2).sum(), leaves)
    if w is not None:
        yield from f.grad(lambda t, s: f.grad(lambda a, b: p(a, b).pow(3).sum(), 1)(t, s).pow(2)
                          .sum(), (0, 1))(x, w.detach())
        for closed in (f.grad(loss)(x), f.vmap(lambda u: p(u, *rest))(x)):
            yield from torch.autograd.grad(closed.pow(2).sum(), [w])


@pytest.mark.long
@pytest.mark.parametrize("name", ["logsumexp", "softmax", "rms_norm"])
def test_derivatives_of_derivatives_by_func(name):
    """Each transform has those further out differentiate it: beside torch's own functions."""
    x, *rest = tensors(name, (3, 5), torch.float64)
    w = rest[0].requires_grad_() if rest else None
    v = torch.linspace(-1, 1, x.numel(), dtype=x.dtype).reshape(x.shape)
    pairs = zip(_nested(L.PIPELINES[name], x, w, v), _nested(PEERS[name], x, w, v), strict=True)
    for i, (found, wanted) in enumerate(pairs):
        torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-9,
                                   msg=lambda m, i=i: f"{i}: {m}")


def test_grad_mode_of_every_transform():
    """no_grad counts inside of a transform for those further out, around it for none inside."""
    x = torch.randn(3, 5, dtype=torch.float64)

    def inside(p):
        def inner(t):
            with torch.no_grad():
                still = p(t)
            return (p(t) * still).sum()
        return torch.func.grad(lambda t: torch.func.grad(inner)(t).pow(2).sum())(x)

    def around(p):
        leaf = x.clone().requires_grad_()
        with torch.no_grad():
            return torch.func.grad(lambda t: p(t).pow(2).sum())(leaf)

    for case in (inside, around):
        found, wanted = case(L.softmax), case(PEERS["softmax"])
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10)
        assert found.requires_grad == wanted.requires_grad


@pytest.mark.parametrize("name", ["softmax", "rms_norm"])
def test_batches_of_cotangents(name):
    """torch.autograd's own: is_grads_batched, jacobian and hessian with vectorize=True."""
    arrays = tensors(name, (3, 5), torch.float64, grad=True)
    many = torch.linspace(-1, 1, 60, dtype=torch.float64).reshape(4, 3, 5)

    def every(p):
        first = torch.autograd.grad(p(*arrays), arrays, many, is_grads_batched=True,
                                    create_graph=True)
        yield from first
        yield from torch.autograd.grad(sum(g.pow(2).sum() for g in first), arrays)
        functional = torch.autograd.functional
        yield from functional.jacobian(p, tuple(arrays), vectorize=True)
        yield functional.hessian(lambda x: p(x, *arrays[1:]).pow(3).sum(), arrays[0],
                                 vectorize=True)

    for found, wanted in zip(every(L.PIPELINES[name]), every(PEERS[name]), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-9)


def test_batches_within_batches_of_cotangents_are_refused():
    x = torch.randn(3, 5, requires_grad=True)
    y = L.softmax(x)

    def both(one):
        return torch.autograd.grad(y, x, torch.stack([one, 2 * one]), is_grads_batched=True,
                                   retain_graph=True)[0]

    with pytest.raises(NotImplementedError, match="batches of cotangents within batches"):
        torch._vmap_internals._vmap(both)(torch.randn(4, 3, 5))


def test_forward_mode_of_gradients_is_refused():
    x = torch.randn(3, 5)

    def loss(x):
        return L.softmax(x).square().sum()

    for transform in (lambda: torch.func.hessian(loss)(x),
                      lambda: torch.func.jvp(torch.func.grad(loss), (x,), (x,)),
                      lambda: torch.func.grad(lambda t: torch.func.jvp(loss, (t,), (x,))[1])(x),
                      lambda: torch.func.jvp(torch.func.vmap(L.softmax), (x,), (x,)),
                      lambda: torch.func.jvp(lambda t: torch.func.grad(
                          lambda u: L.softmax(u + t).square().sum())(x), (x,), (x,))):
        with pytest.raises(NotImplementedError, match="no forward-mode derivative"):
            transform()


def test_func_transforms_in_a_graph():
    x = torch.randn(4, 17)

    def function(x):
        return torch.func.grad(lambda x: L.logsumexp(x).sum())(x), torch.func.vmap(L.softmax)(x)

    for found in graph_of(function)(x):
        torch.testing.assert_close(found, torch.softmax(x, -1))


def test_traced_and_functional():
    from torch.fx.experimental.proxy_tensor import make_fx

    x = torch.randn(4, 9)
    graph = make_fx(L.softmax)(x).graph
    assert "fusegen.softmax.default" in [str(n.target) for n in graph.nodes]
    torch.testing.assert_close(torch.func.functionalize(L.softmax)(x), torch.softmax(x, -1))


def test_checkpointed():
    from torch.utils.checkpoint import checkpoint

    x, w, b = tensors("layer_norm", grad=True)
    found = torch.autograd.grad(checkpoint(L.layer_norm, x, w, b, use_reentrant=False)
                                .square().sum(), (x, w, b))
    wanted = torch.autograd.grad(L.layer_norm(x, w, b).square().sum(), (x, w, b))
    for f, t in zip(found, wanted, strict=True):
        torch.testing.assert_close(f, t)


@pytest.mark.long
def test_compiled_by_inductor():
    """With the code generator that users have; in scalars, with fewer headers: torch's own code is
    not the matter here, and takes its compiler longest."""
    x, w, b = tensors("layer_norm", grad=True)
    compiled = torch.compile(lambda x, w, b: L.layer_norm(x * 2, w, b).relu(), fullgraph=True,
                             options={"cpp.vec_isa_ok": False,
                                      "cpp_cache_precompile_headers": False})
    found = compiled(x, w, b)
    wanted = torch.nn.functional.layer_norm(x * 2, (33,), w, b).relu()
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), (x, w)),
                               torch.autograd.grad(wanted.sum(), (x, w)))


# ---- names ----


def test_names_and_schemas():
    softmax = fg.torch.op(L.softmax)
    assert softmax.name == "fusegen::softmax"
    assert softmax.overload is torch.ops.fusegen.softmax.default
    shown = str(fg.torch.op(L.layer_norm).overload._schema)
    assert shown.startswith("fusegen::layer_norm(Tensor x, Tensor? weight=None, "
                            "Tensor? bias=None, *, float eps=1.")
    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.ops.fusegen.softmax(x, axis=[]), L.softmax(x, axis=None))
    torch.testing.assert_close(softmax(x), torch.softmax(x, -1))


def test_names_that_are_taken_or_none():
    @fg.pipeline
    def own(x):
        return fg.sum(x)

    @fg.pipeline
    def other(x):
        return fg.sum(x) + 1

    assert fg.torch.op(own, name="mine").name == "fusegen::mine"
    assert fg.torch.op(own).name == "fusegen::mine"
    with pytest.raises(fg.ArgumentError, match="another pipeline has the name fusegen::mine"):
        fg.torch.op(other, name="mine")
    with pytest.raises(fg.ArgumentError, match="is registered as fusegen::mine"):
        fg.torch.op(own, name="yours")
    with pytest.raises(fg.ArgumentError, match="is no name of an operator"):
        fg.torch.op(other, name="a b")
    with pytest.raises(fg.ArgumentError, match="op takes a pipeline"):
        fg.torch.op(torch.softmax)


@pytest.mark.long
def test_unicode_names_and_two_pipelines_of_one_name():
    def made(factor):
        @fg.pipeline
        def scaled(x, größe: fg.PerRow, *, σ=1.0):
            return fg.sum(x) * größe * σ * factor

        return scaled

    x, size = torch.randn(3, 4), torch.ones(3)
    for factor in (2.0, 3.0):
        pipeline = made(factor)
        found = graph_of(lambda x, s, p=pipeline: p(x, s, σ=0.5))(x, size)
        torch.testing.assert_close(found, x.sum(-1) * factor / 2)


def test_entries_are_found_by_name():
    graph_of(lambda x: L.softmax(x))(torch.randn(2, 3))
    assert any(n.startswith("softmax") for n in vars(by_torch.ENTRIES))


PROGRAM = """
import sys
import fusegen as fg
import support.light
assert "torch" not in sys.modules
import torch
assert "fusegen.torch" not in sys.modules
from torch._dynamo.utils import counters
torch._inductor.config.cpp_cache_precompile_headers = False  # they take longer than they save

if sys.argv[1] == "second":  # names and numbers are given in another order
    fg.torch.op(fg.library.rms_norm)

TEXT = '''
@fg.pipeline
def scaled(x, weight: fg.PerColumn):
    return fg.library.softmax(x * weight) * FACTOR
'''
x, q, k, v = (torch.linspace(-1, top, 198).reshape(6, 33).requires_grad_() for top in range(1, 5))
w = torch.linspace(0, 2, 33).requires_grad_()

def compiled(factor):
    exec(TEXT.replace("FACTOR", factor), globals())
    torch.compiler.reset()
    found, wanted = (gradients(f) for f in (torch.compile(function, fullgraph=True), function))
    for f, t in zip(found, wanted):
        torch.testing.assert_close(f, t)
    return counters["aot_autograd"]["autograd_cache_hit"]

def function(x, w, q, k, v):  # nothing is torch's own, which its compiler would take long for
    y = scaled(fg.library.layer_norm(x), w)
    return fg.library.topk(y, k=3)[0], fg.library.attention(q, k, v, scale=0.1)

def gradients(function):
    both = function(x, w, q, k, v)
    return torch.autograd.grad(both, (x, w, q, k, v), [y.detach() for y in both])

print([compiled(factor) for factor in sys.argv[2:]])
"""


@pytest.mark.long
def test_graphs_kept_on_disk_serve_other_processes(tmp_path):
    """The second process traces no gradient, but for another text. The first call is a compiled
    one, in a process where no tensor was met, and which imported fusegen first."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
                   "TORCHINDUCTOR_VEC_ISA_OK": "0", "PYTHONPATH": f"{TESTS}:{TESTS.parent}"}
    for turn, hits in ((["first", "2"], [0]), (["second", "2", "3"], [1, 1])):
        done = subprocess.run([sys.executable, "-c", PROGRAM, *turn], text=True,
                              capture_output=True, env=environment)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == str(hits)
