"""Pipelines called with torch's tensors in eager mode: gradients, types, layouts, modes."""

from __future__ import annotations

import gc
import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import fusegen as fg
from fusegen.backend.host import readers
from fusegen.backend.host.memory import check_tensor
from fusegen.library.gradient.grad import Gradient
from fusegen.pipeline import by_torch, traces

torch = pytest.importorskip("torch", reason="torch is not installed")
from support.torch_cases import DIFFERENTIABLE, PEERS, L, floats, tensors  # noqa: E402

TOLERANCES = {torch.float64: 1e-10, torch.float32: 2e-5, torch.bfloat16: 4e-2, torch.float16: 5e-3}


def gradients(function, arrays, seed=3):
    """Of a weighted sum of all float results, by each float argument."""
    moved = [a.detach().clone().requires_grad_(a.is_floating_point()) for a in arrays]
    results = floats(function(*moved))
    source = torch.Generator().manual_seed(seed)
    weights = [torch.randn(r.shape, generator=source, dtype=torch.float64).to(r.dtype)
               for r in results]
    total = sum((r * w).sum() for r, w in zip(results, weights, strict=True))
    return torch.autograd.grad(total, [a for a in moved if a.requires_grad], allow_unused=True)


def close(found, wanted, tolerance):
    assert (found is None) == (wanted is None)
    if wanted is None:
        return
    assert found.dtype == wanted.dtype or wanted.dtype == torch.float64
    torch.testing.assert_close(found.double(), wanted.double(), rtol=tolerance,
                               atol=tolerance * float(wanted.abs().max().double()))


@pytest.mark.parametrize(("name", "dtype"), [
    (name, dtype) for at, name in enumerate(DIFFERENTIABLE) for dtype in TOLERANCES
    if dtype is not (torch.float16, torch.bfloat16)[at % 2]], ids=str)
def test_gradients_are_torchs(name, dtype):
    """Against torch's own in float64, on the very values, which differ: ties are no one's. The
    types of 16 bits take turns."""
    arrays = tensors(name, dtype=dtype)
    if name in ("topk", "softmax_topk"):
        arrays = (torch.stack([torch.randperm(33) for _ in range(5)]).div(8).to(dtype),)
    exact = [a.double() if a.is_floating_point() else a for a in arrays]
    found, wanted = gradients(L.PIPELINES[name], arrays), gradients(PEERS[name], exact)
    for array, f, w in zip((a for a in arrays if a.is_floating_point()), found, wanted,
                           strict=True):
        assert f is None or f.dtype == array.dtype
        close(f, w, TOLERANCES[dtype])


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_first_and_second_derivatives_by_differences(name):
    arrays = tensors(name, (3, 7), torch.float64, grad=True, seed=5)

    def of_floats(*arrays):
        return tuple(floats(L.PIPELINES[name](*arrays)))

    assert torch.autograd.gradcheck(of_floats, arrays)
    assert torch.autograd.gradgradcheck(of_floats, arrays)


LAYOUTS = {
    "transposed": lambda x: x.t().contiguous().t(),
    "every other row": lambda x: x.repeat_interleave(2, 0)[::2],
    "columns of a wider array": lambda x: torch.nn.functional.pad(x, (3, 2))[:, 3:-2],
    "one row for all": lambda x: x[:1].expand(x.shape),
    "reversed": lambda x: x.flip(0).flip(0),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "softmax_topk"])
def test_any_layout(name, layout):
    x, *rest = tensors(name, dtype=torch.float64)
    laid = LAYOUTS[layout](x)
    found, wanted = (gradients(lambda x, *r, f=f: f(LAYOUTS[layout](x), *r), (x, *rest))
                     for f in (L.PIPELINES[name], PEERS[name]))
    for f, w in zip(found, wanted, strict=True):
        close(f, w, 1e-10)
    for f, w in zip(floats(L.PIPELINES[name](laid, *rest)), floats(PEERS[name](laid, *rest)),
                    strict=True):
        torch.testing.assert_close(f, w)


@pytest.mark.parametrize("axis", [0, 1, -1, (0, 2), None])
@pytest.mark.parametrize("keepdims", [False, True])
def test_any_axis(axis, keepdims):
    x = tensors("softmax", (3, 4, 5), torch.float64)[0]
    dims = (0, 1, 2) if axis is None else axis

    def peer(x):
        return torch.logsumexp(x, dims, keepdim=keepdims)

    def ours(x):
        return L.logsumexp(x, axis=axis, keepdims=keepdims)

    torch.testing.assert_close(ours(x), peer(x))
    for f, w in zip(gradients(ours, (x,)), gradients(peer, (x,)), strict=True):
        close(f, w, 1e-10)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_lists_along_any_axis(axis, keepdims):
    x = tensors("softmax", (6, 7, 8), torch.float64)[0]
    found = gradients(lambda x: L.topk(x, k=3, axis=axis, keepdims=keepdims)[0], (x,))
    wanted = gradients(lambda x: torch.topk(x, 3, axis)[0], (x,))
    close(found[0], wanted[0], 1e-12)


@fg.pipeline
def shifted(x, y, shift: fg.PerRow, scale: fg.PerColumn):
    """Every kind of input; x and y broadcast."""
    return fg.sum((x + y) * scale) + shift


def test_gradients_have_the_shapes_of_inputs_that_were_broadcast():
    x, y = torch.randn(4, 5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    shift, scale = torch.randn(1, dtype=torch.float64), torch.randn(5, dtype=torch.float64)

    def peer(x, y, shift, scale):
        return ((x + y) * scale).sum(-1) + shift

    for f, w in zip(gradients(shifted, (x, y, shift, scale)),
                    gradients(peer, (x, y, shift, scale)), strict=True):
        assert f.shape == w.shape
        close(f, w, 1e-12)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_no_rows(name):
    arrays = tensors(name, (0, 33))
    for array, found in zip((a for a in arrays if a.is_floating_point()),
                            gradients(L.PIPELINES[name], arrays), strict=True):
        assert found is None or (found.shape == array.shape and not found.any())


HARD = {
    "masked": [0.0, 1.0, -np.inf, 2.0], "one": [-np.inf, 3.0, -np.inf, -np.inf],
    "large": [1e4, 1e4 - 1, 0.0, -1e4], "equal": [2.0, 2.0, 2.0, 2.0],
}


@pytest.mark.parametrize("row", HARD)
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "topk"])
def test_hard_rows(name, row):
    x = torch.tensor([HARD[row]] * 3, dtype=torch.float64)
    ours, peer = L.PIPELINES[name], PEERS[name]
    if name == "topk":
        ours, peer = (lambda x: L.topk(x, k=1)[0]), (lambda x: torch.topk(x, 1)[0])
    if name == "topk" and row == "equal":
        peer = lambda x: x[:, :1] * 1.0  # noqa: E731 (ties go to the lowest column)
    if name == "log_softmax":  # one cotangent of −inf is NaN in torch too: sums of finite ones
        ours, peer = (lambda x: L.softmax(x)[:, :2]), (lambda x: torch.softmax(x, -1)[:, :2])
    close(*gradients(ours, (x,)), *gradients(peer, (x,)), 1e-9)


# ---- what is kept ----


def saved_by(result):
    """Addresses and numbers of bytes of what a result keeps for its gradient."""
    node = result.grad_fn
    return {t.data_ptr(): t.untyped_storage().nbytes() for t in node.saved_tensors}


def test_softmax_keeps_its_result_and_not_its_input():
    x = torch.randn(8, 64, requires_grad=True)
    middle = x * 2
    y = L.softmax(middle)
    assert saved_by(y) == {y.data_ptr(): y.untyped_storage().nbytes()}
    gone = weakref.ref(middle)
    del middle
    gc.collect()
    assert gone() is None


def test_layer_norm_keeps_its_input_and_weight_and_nothing_new():
    x, w, b = tensors("layer_norm", (8, 64), grad=True)
    assert {*saved_by(L.layer_norm(x, w, b))} == {x.data_ptr(), w.data_ptr()}


def test_a_sum_keeps_nothing():
    @fg.pipeline
    def total(x):
        return fg.sum(x)

    x = torch.randn(8, 64, requires_grad=True)
    y = total(x)
    assert saved_by(y) == {}
    y.sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))


def test_top_k_keeps_columns_alone():
    x = torch.randn(8, 64, requires_grad=True)
    values, columns = L.topk(x, k=4)
    assert {*saved_by(values)} == {columns.data_ptr()}
    assert not columns.requires_grad


@pytest.mark.long
def test_a_text_traced_again_has_its_columns_from_the_call():
    """Those of the same text in another trace are the same."""
    factor = 2.0

    @fg.pipeline
    def best(x):
        return fg.topk(L.softmax(x) * factor, 3)

    x = torch.randn(8, 64, requires_grad=True)
    for factor in (2.0, 3.0, 2.0):
        values, columns = best(x)
        assert columns.data_ptr() in saved_by(values)
        close(*torch.autograd.grad(values.sum(), x, retain_graph=True),
              *torch.autograd.grad((torch.softmax(x, -1).gather(-1, columns) * factor).sum(), x),
              1e-5)


# ---- what has no gradient, and modes ----


def test_what_has_no_gradient_says_so():
    @fg.pipeline
    def product(x):
        return fg.prod(x)

    x = torch.randn(4, 9, requires_grad=True)
    with pytest.raises(fg.TraceError, match=r"fg\.prod has no gradient"):
        product(x)
    assert product(x.detach()).shape == (4,)
    with torch.no_grad():
        assert product(x).shape == (4,)
    assert not L.argmax(x).requires_grad
    long = torch.randn(2, 200, requires_grad=True)
    with pytest.raises(fg.TraceError, match="list of 100 has no gradient"):
        L.topk(long, k=100)
    with pytest.raises(fg.ArgumentError, match="out= has no gradient"):
        L.softmax(x, out=torch.empty(4, 9))


@pytest.mark.parametrize("zero", [("a",), ("b",), ("c",), ("a", "b"), ("a", "b", "c")])
def test_weights_of_zero_hold_inputs(zero):
    """Their gradients are zeros then, as torch's; what takes no part has none; the others have
    theirs."""
    def weighted(x, y, w, idle, total, round, a=1.5, b=0.5, c=2.0):
        found = total(x * x) * a + total(y) * b + total(x * w) * c
        return found + total(round(y)), total(1.0 * (idle > 0)) + (total(idle) * c if c else 0)

    @fg.pipeline
    def pipeline(x, y, w: fg.PerColumn, idle, *, a=1.5, b=0.5, c=2.0):
        return weighted(x, y, w, idle, fg.sum, fg.round, a, b, c)

    arrays = torch.randn(4, 9), torch.randn(4, 9), torch.randn(9), torch.randn(4, 9)
    constants = dict.fromkeys(zero, 0.0)
    moved = [a.requires_grad_() for a in arrays]
    assert pipeline(*moved, **constants)[1].requires_grad is ("c" not in zero)

    def ours(*given):
        return tuple(r for r in pipeline(*given, **constants) if r.requires_grad)

    def torchs(*given):
        found = weighted(*given, lambda e: e.sum(-1), torch.round, **constants)
        return tuple(r for r in found if r.requires_grad)

    found, wanted = gradients(ours, arrays), gradients(torchs, arrays)
    for one, other in zip(found, wanted, strict=True):
        close(one, other, 2e-5)


@fg.pipeline
def tempered(x, w: fg.PerColumn, *, t: fg.Positive = 1.0, s=0.5):
    """Gradients by rows and by columns; Python computes and asks."""
    m = fg.max(x)
    e = fg.exp((x - m) / t)
    y = e / fg.sum(e) * w
    return y + 2 * s if s > 1 else y * s


CONSTANTS = {
    "tempered": (lambda x, w, v: tempered(x, w, t=v, s=v / 8), (0.5, 2.0, 8.5, 16.0)),
    "layer_norm": (lambda x, w, v: L.layer_norm(x, w, w, eps=v), (1e-5, 3e-6)),
    "rms_norm": (lambda x, w, v: L.rms_norm(x, w, eps=v), (1e-5, 1e-6)),
    "moe_gate": (lambda x, w, v: L.moe_gate(x, k=3, scale=v)[0], (1.5, 2.5)),
    "CrossEntropyLoss": (lambda x, w, v: fg.torch.nn.CrossEntropyLoss(
        torch.ones(12, dtype=w.dtype), label_smoothing=v, z_loss=v / 64, softcap=8 * v,
        reduction="none")(x, torch.arange(5)), (0.25, 0.5)),
}


@pytest.mark.long
@pytest.mark.parametrize("name", CONSTANTS)
def test_other_constants_cost_no_trace_in_either_direction(name, monkeypatch):
    """Nor a proof or a compiler, which begin with a trace; derivatives are those of the number."""
    run, values = CONSTANTS[name]
    arrays = [torch.randn(5, 12, dtype=torch.float64), torch.randn(12, dtype=torch.float64)]
    for value in values:
        gradients(lambda *a, v=value: run(*a, v), arrays)
    made = []
    monkeypatch.setattr(traces, "trace_pipeline", lambda *a: made.append(a))
    for value in values:
        for near in (1.125 * value, 1.25 * value):
            moved = [a.clone().requires_grad_() for a in arrays]
            assert torch.autograd.gradcheck(lambda *a, v=near: run(*a, v), moved)
    assert not made


@pytest.mark.parametrize("asks", [lambda t: int(8 * t) % 2 == 0, lambda t: t > 0.9])
def test_a_gradient_that_asks_for_more_than_its_text(asks, monkeypatch):
    """What is remembered of one number serves no other, where that is so."""
    plain = Gradient._text

    def factor(t):
        return 2.0 if asks(t) else 1.0

    def asking(self, *arrays, **constants):
        return plain(self, *arrays, **constants) * factor(constants["t"])

    monkeypatch.setattr(Gradient, "_text", asking)
    p = fg.pipeline(lambda x, *, t=1.0: fg.sum(x * x) * t)
    x = torch.randn(3, 5)
    for t in (0.5, 0.625, 1.0, 1.125, 0.5, 0.625):
        moved = x.clone().requires_grad_()
        p(moved, t=t).sum().backward()
        torch.testing.assert_close(moved.grad, 2 * t * x * factor(t))


@pytest.mark.long
def test_calls_alike_share_a_tape_and_others_have_their_own():
    """Remembered calls with gradients: types, shapes, which inputs ask, options, constants."""
    def run(x, w, **named):
        found = gradients(lambda x: tempered(x, w, **named), (x,))[0]
        wanted = gradients(
            lambda x: _tempered(x, w, **named), (x,))[0]
        close(found, wanted, 1e-5)

    x, w = torch.randn(6, 6), torch.rand(6)
    for _ in range(2):
        for dtype in (torch.float32, torch.float64):
            for axis in (0, 1):
                for given in (x, x[:4] if axis else x[:, :4], x.t(), x.expand(3, 6, 6)):
                    for s in (0.5, 2.0, 0.0, 1, 3):
                        at = axis - 2
                        run(given.to(dtype), w.to(dtype), s=s, axis=at)
    both = torch.randn(3, 6, requires_grad=True), torch.rand(6, requires_grad=True)
    for x_asks, w_asks in ((True, False), (False, True), (True, True)) * 2:
        given = [a if asks else a.detach() for a, asks in zip(both, (x_asks, w_asks), strict=True)]
        y = tempered(*given)
        found = torch.autograd.grad(y.sum(), [a for a in given if a.requires_grad])
        assert len(found) == x_asks + w_asks


SMALL = {
    "layer_norm": lambda x, w: L.layer_norm(x, w, w), "softmax": lambda x, w: L.softmax(x),
    "gradient": lambda x, w: fg.grad(L.logsumexp)(L.logsumexp(x), x),
    "moe_gate": lambda x, w: L.moe_gate(x, w, k=3)[0],
    "CrossEntropyLoss": lambda x, w: fg.torch.nn.CrossEntropyLoss()(x, torch.arange(16)),
    "RMSNorm": lambda x, w: fg.torch.nn.RMSNorm(48)(x),
    "operator": lambda x, w: fg.torch.op(L.rms_norm).overload(x, w),
}


@pytest.mark.parametrize("name", SMALL)
def test_recorded_calls_are_looked_at_once(name, looks):
    """Every pipeline that a call or its gradient runs is served as a remembered call is, also
    where the cotangent was broadcast."""
    x, w = torch.randn(16, 48, requires_grad=True), torch.rand(48, requires_grad=True)
    for _ in range(3):
        looks.clear()
        torch.autograd.grad(SMALL[name](x, w).sum(), (x, w), allow_unused=True)
    assert not looks


def _tempered(x, w, t=1.0, s=0.5, axis=-1):
    shape = [1] * x.dim()
    shape[axis] = -1
    y = torch.softmax(x / t, axis) * w.reshape(shape)
    return y + 2 * s if s > 1 else y * s


def test_forward_mode_is_refused_and_never_silently_zero():
    x = torch.randn(4, 9)
    for _ in range(2):  # also where the call is remembered
        L.softmax(x)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
            with pytest.raises(NotImplementedError, match="softmax has no forward-mode"):
                L.softmax(dual)
        with pytest.raises(NotImplementedError, match="softmax has no forward-mode"):
            torch.func.jvp(L.softmax, (x,), (x,))


def test_eager_calls_without_gradients_go_past_the_dispatcher(monkeypatch):
    asked = []
    monkeypatch.setattr(by_torch, "_find", [lambda: asked.append(1)])
    x = torch.randn(4, 9)
    for _ in range(2):
        L.softmax(x)
        L.layer_norm(x, torch.nn.Parameter(torch.ones(9)).detach())
        with torch.no_grad():
            L.softmax(torch.nn.Parameter(x))
        with torch.inference_mode():
            assert L.softmax(torch.randn(4, 9)).is_inference()
    assert not asked


@pytest.mark.parametrize("name", L.PIPELINES)
def test_inference_mode(name):
    """Results are of that mode, also where torch's registry is asked; and may be used in it."""
    pipeline, arrays = L.PIPELINES[name], tensors(name)
    wanted = pipeline(*arrays)
    with torch.inference_mode():
        for found in (pipeline(*arrays), fg.torch.op(pipeline).overload(*arrays),
                      pipeline(arrays[0] * 1, *arrays[1:])):
            torch.testing.assert_close(found, wanted)
            for result in found if isinstance(found, tuple) else (found,):
                assert result.is_inference()
                result.add_(1)


def test_what_watches_is_that_of_the_torch_there_is(monkeypatch):
    """Tests for GPUs have another: what it says is no word about this one."""
    other = SimpleNamespace(
        Tensor=object, autograd=SimpleNamespace(forward_ad=SimpleNamespace(_current_level=-1)),
        _C=SimpleNamespace(**dict.fromkeys(readers.TORCH_WATCHERS, lambda: False)))
    readers._torch_watcher.cache_clear()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch", other)
        readers.torch_watcher()
    assert not readers.torch_watcher()()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert readers.torch_watcher()()


def test_dispatch_modes_see_the_operator():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seeing(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    seen, x = [], torch.randn(4, 9)
    for _ in range(2):
        L.softmax(x)  # remembered
        with Seeing():
            found = L.softmax(x)
        torch.testing.assert_close(found, torch.softmax(x, -1))
    assert seen == ["fusegen.softmax.default"] * 2


@pytest.mark.long
@pytest.mark.parametrize("name", L.PIPELINES)
def test_autocast_follows_the_policy(name):
    grad = name in DIFFERENTIABLE
    arrays = tensors(name, dtype=torch.bfloat16, grad=grad)
    pipeline = L.PIPELINES[name]
    wide = fg.torch.op(pipeline).autocast == "float32"
    plain = pipeline(*arrays)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = pipeline(*arrays)
        by_operator = fg.torch.op(pipeline).overload(*arrays)
        if grad:
            sum(f.sum() for f in floats(found)).backward()
    of_one = (plain, found, by_operator)
    for p, f, o in zip(*of_one, strict=True) if isinstance(plain, tuple) else [of_one]:
        assert f.dtype == o.dtype
        assert f.dtype == (torch.float32 if wide and p.is_floating_point() else p.dtype)
        torch.testing.assert_close(f, o)
        torch.testing.assert_close(f.to(p.dtype), p)
    assert not grad or arrays[0].grad.dtype == torch.bfloat16


@pytest.mark.parametrize("grad", [False, True])
def test_calls_under_autocast_are_remembered(looks, grad):
    x = torch.randn(5, 70, dtype=torch.bfloat16, requires_grad=grad)
    seen = []
    for _ in range(4):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = L.softmax(x)
            assert found.dtype == torch.float32
            if grad:
                found.square().sum().backward()  # also in here
        seen.append(len(looks))
    assert seen[1:] == [seen[1]] * 3


def test_autocast_can_be_chosen():
    @fg.pipeline
    def mean(x):
        return fg.mean(x)

    x = torch.randn(4, 9).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert mean(x).dtype == torch.bfloat16
        fg.torch.op(mean, autocast="float32")
        assert mean(x).dtype == torch.float32
        assert mean(x.double()).dtype == torch.float64
    with pytest.raises(fg.ArgumentError, match="autocast is 'wide'"):
        fg.torch.op(mean, autocast="wide")


def test_deterministic_algorithms():
    x, w, b = tensors("layer_norm", (64, 257), grad=True)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        runs = [torch.autograd.grad(L.layer_norm(x, w, b).square().sum(), (x, w, b))
                for _ in range(3)]
    finally:
        torch.use_deterministic_algorithms(before)
    for run in runs[1:]:
        assert all(torch.equal(f, s) for f, s in zip(runs[0], run, strict=True))


def test_other_arrays_beside_a_tensor_that_requires_a_gradient():
    x = torch.randn(3, 5, requires_grad=True)
    loss = L.cross_entropy(x, torch.tensor([1, 2, 3]))
    again = L.cross_entropy(x, labels=np.array([1, 2, 3]))
    torch.testing.assert_close(loss, again)


@pytest.mark.long
def test_a_text_that_changes_has_the_new_gradient():
    factor = 2.0

    @fg.pipeline
    def scaled(x, weight: fg.PerColumn):
        return fg.sum(x * weight * factor)

    x, weight = torch.ones(2, 3, requires_grad=True), torch.ones(3, requires_grad=True)
    for factor in (2.0, 3.0):
        by_x, by_weight = torch.autograd.grad(scaled(x, weight).sum(), (x, weight))
        assert by_x.eq(factor).all()
        assert by_weight.eq(2 * factor).all()


def test_tensors_of_other_kinds_are_refused_wherever_they_live() -> None:
    """By the check that tensors on CPUs and GPUs pass: no library's own error comes out."""
    plain = torch.ones(2, 2)
    for tensor, kind, words in (
            (plain.to_sparse(), fg.ArgumentError, "to_dense"),
            (plain.to(torch.float8_e4m3fn), fg.DTypeError, r"to\(torch.float32\)"),
            (plain.to(torch.complex64), fg.DTypeError, "complex64")):
        with pytest.raises(kind, match=words):
            check_tensor("x", tensor)
