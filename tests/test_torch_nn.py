"""fusegen.torch.nn beside torch.nn: results, gradients, state, errors; swaps; processes."""

from __future__ import annotations

import copy
import itertools
import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import fusegen as fg

torch = pytest.importorskip("torch", reason="torch is not installed")
from support.torch_cases import L, graph_of  # noqa: E402

F = torch.nn.functional
ours, theirs = fg.torch.nn, torch.nn
TESTS = Path(__file__).parent


@pytest.fixture(autouse=True)
def fresh_graphs():
    torch.compiler.reset()


LAYERS = {
    "Softmax": [((), {"dim": -1}), ((), {"dim": 1})],
    "LogSoftmax": [((), {"dim": -1}), ((0,), {})],
    "LayerNorm": [((9,), {}), (((7, 9),), {"eps": 1e-3}), ((9,), {"elementwise_affine": False}),
                  ((9,), {"bias": False})],
    "RMSNorm": [((9,), {}), (((7, 9),), {"eps": 1e-3}), ((9,), {"elementwise_affine": False})],
}
CASES = [(name, args, kwargs) for name, made in LAYERS.items() for args, kwargs in made]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("name", "args", "kwargs"), CASES, ids=str)
def test_layers_are_torchs(name, args, kwargs, dtype):
    mine, peer = (getattr(n, name)(*args, **kwargs).to(dtype) for n in (ours, theirs))
    for parameter in peer.parameters():
        torch.nn.init.uniform_(parameter, 0.5, 1.5)
    mine.load_state_dict(peer.state_dict())
    assert mine.state_dict().keys() == peer.state_dict().keys()
    assert isinstance(mine, type(peer))
    assert repr(mine) == repr(peer)
    x = torch.randn(5, 7, 9, dtype=torch.float64).to(dtype)
    tolerance = {torch.float64: 1e-10, torch.float32: 2e-5, torch.bfloat16: 4e-2}[dtype]
    found, wanted = [], []
    for layer, results in ((mine, found), (peer, wanted)):
        moved = x.clone().requires_grad_()
        y = layer(moved)
        (y * y.detach().cos()).sum().backward()
        results += [y, moved.grad, *(p.grad for p in layer.parameters())]
    for f, w in zip(found, wanted, strict=True):
        assert f.dtype == w.dtype
        torch.testing.assert_close(f, w, rtol=tolerance,
                                   atol=tolerance * float(w.abs().max()))


def wrong_calls():
    x = torch.randn(4, 9)
    yield "Softmax", (), {"dim": 2}, (x,)
    yield "Softmax", (), {"dim": 0}, (torch.ones(3, dtype=torch.int64),)
    yield "LayerNorm", (8,), {}, (x,)
    yield "LayerNorm", ((2, 9),), {}, (x[0],)
    yield "RMSNorm", (8,), {}, (x,)
    yield "CrossEntropyLoss", (), {}, (x, torch.tensor([0, 1, 2, 9]))
    yield "CrossEntropyLoss", (), {}, (x, torch.tensor([0, 1, 2]))
    yield "CrossEntropyLoss", (), {}, (x, torch.rand(4, 8))
    yield "CrossEntropyLoss", (torch.ones(8),), {}, (x, torch.tensor([0, 1, 2, 3]))
    yield "CrossEntropyLoss", (), {}, (x, torch.tensor([0, 1, 2, 3], dtype=torch.int32))


@pytest.mark.parametrize("case", range(len([*wrong_calls()])))
def test_errors_are_torchs(case):
    name, args, kwargs, given = [*wrong_calls()][case]
    with pytest.raises(Exception) as wanted:  # noqa: PT011 (whatever torch raises)
        getattr(theirs, name)(*args, **kwargs)(*given)
    with pytest.raises(wanted.type) as found:
        getattr(ours, name)(*args, **kwargs)(*given)
    assert str(found.value) == str(wanted.value)


# ---- cross entropy ----

SHAPES = {"one": (11,), "rows": (6, 11), "pixels": (3, 11, 4, 2), "none": (0, 11)}


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_is_torchs(shape, reduction):
    size = SHAPES[shape]
    axis = min(len(size) - 1, 1)
    x = torch.randn(size, dtype=torch.float64)
    stays = tuple(n for i, n in enumerate(size) if i != axis)
    labels = torch.randint(0, 11, stays)
    ignored = torch.where(torch.rand(stays) < 0.3, -1, labels)
    shares = torch.softmax(torch.randn(size, dtype=torch.float64), axis)
    weight = torch.rand(11, dtype=torch.float64)
    for target, w, smoothing in itertools.product((labels, ignored, shares), (None, weight),
                                                  (0.0, 0.2)):
        options = {"weight": w, "ignore_index": -1, "label_smoothing": smoothing,
                   "reduction": reduction}
        found, wanted = [], []
        for namespace, results in ((ours, found), (theirs, wanted)):
            moved = x.clone().requires_grad_()
            loss = namespace.CrossEntropyLoss(**options)(moved, target)
            results += [loss, *torch.autograd.grad(loss.sum(), moved)]
        for f, t in zip(found, wanted, strict=True):
            torch.testing.assert_close(f, t, rtol=1e-10, atol=1e-12, equal_nan=True)


def test_cross_entropy_of_16_bit_logits_sums_in_float32():
    x = torch.randn(4096, 50).bfloat16()
    labels = torch.randint(0, 50, (4096,))
    exact = F.cross_entropy(x.double(), labels)
    found = ours.CrossEntropyLoss()(x, labels)
    assert found.dtype == torch.bfloat16
    assert abs(found.double() - exact) <= 2**-8 * exact
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = ours.CrossEntropyLoss()(x, labels)
    assert found.dtype == torch.float32
    assert abs(found.double() - exact) <= 1e-5 * exact


@pytest.mark.long
@pytest.mark.parametrize("kind", ["labels", "shares"])
def test_z_loss_and_softcap(kind):
    x = (10 * torch.randn(6, 11, dtype=torch.float64)).requires_grad_()
    target = torch.randint(0, 11, (6,)) if kind == "labels" else torch.rand(6, 11).double()
    loss = ours.CrossEntropyLoss(z_loss=1e-2, softcap=4.0, label_smoothing=0.1)(x, target)
    capped = 4 * torch.tanh(x / 4)
    wanted = F.cross_entropy(capped, target, label_smoothing=0.1) + \
        1e-2 * torch.logsumexp(capped, -1).square().mean()
    torch.testing.assert_close(loss, wanted)
    for f, w in zip(torch.autograd.grad(loss, x), torch.autograd.grad(wanted, x), strict=True):
        torch.testing.assert_close(f, w)
    with pytest.raises(fg.ArgumentError, match="z_loss and softcap do not go with"):
        ours.CrossEntropyLoss(z_loss=1.0)(x, target[:5])


def test_cross_entropy_reads_its_logits_once():
    from fusegen.torch.losses import cross_entropy_loss

    plan = cross_entropy_loss.plan(label_smoothing=0.1, z_loss=1e-4, softcap=30.0,
                                   inputs=("weight",))
    assert (plan.sweeps, plan.reads_per_element) == (1, 1)


def test_hard_rows_of_cross_entropy():
    inf = float("inf")
    x = torch.tensor([[0.0, -inf, 1e4], [-1e4, 1e4, 0.0], [5.0, 5.0, 5.0]], dtype=torch.float64,
                     requires_grad=True)
    labels = torch.tensor([0, 1, 2])
    for f, w in zip(*((loss, *torch.autograd.grad(loss.sum(), x)) for loss in (
            n.CrossEntropyLoss(reduction="none")(x, labels) for n in (ours, theirs))),
            strict=True):
        torch.testing.assert_close(f, w)


# ---- mixture of experts, layers of pipelines ----


def test_moe_gate_trains_and_has_torchs_gradient():
    gate = ours.MoEGate(16, 3, bias=True)
    assert {*gate.state_dict()} == {"bias"}
    x = torch.randn(8, 16, dtype=torch.float64, requires_grad=True)
    gates, experts = gate(x)
    scores = torch.softmax(x, -1)
    wanted = scores.gather(-1, experts)
    wanted = wanted / wanted.sum(-1, keepdim=True)
    torch.testing.assert_close(gates, wanted)
    torch.testing.assert_close(torch.autograd.grad(gates.square().sum(), x),
                               torch.autograd.grad(wanted.square().sum(), x))
    assert not experts.requires_grad


def test_modules_of_pipelines():
    layer = fg.torch.module(L.layer_norm, weight=torch.rand(9), bias=torch.rand(9), eps=1e-3)
    peer = torch.nn.LayerNorm(9, eps=1e-3)
    peer.load_state_dict(layer.state_dict())
    x = torch.randn(4, 9)
    torch.testing.assert_close(layer(x), peer(x))
    torch.testing.assert_close(layer(x.t(), axis=0).t(), peer(x))
    for f, w in zip(*(torch.autograd.grad(m(x).square().sum(), tuple(m.parameters()))
                      for m in (layer, peer)), strict=True):
        torch.testing.assert_close(f, w, rtol=1e-4, atol=1e-4)
    again = pickle.loads(pickle.dumps(layer))
    torch.testing.assert_close(again(x), peer(x))
    torch.testing.assert_close(copy.deepcopy(layer)(x), peer(x))
    assert "layer_norm, eps=0.001" in repr(layer)
    with pytest.raises(fg.ArgumentError, match="has no parameter 'epsilon'"):
        fg.torch.module(L.layer_norm, epsilon=1e-3)
    with pytest.raises(fg.ArgumentError, match="weight is list, no tensor"):
        fg.torch.module(L.layer_norm, weight=[1.0])
    with pytest.raises(fg.ArgumentError, match="takes x here, got 2 arrays"):
        layer(x, x)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        norm = torch.nn.LayerNorm(9)
        self.layers = torch.nn.Sequential(torch.nn.Linear(9, 9), norm, torch.nn.GELU(), norm)
        self.head = torch.nn.Softmax(-1)
        self.loss = torch.nn.CrossEntropyLoss(label_smoothing=0.1)

    def forward(self, x, labels):
        y = self.layers(x)
        return self.loss(y, labels) + self.head(y).square().sum()


def test_patched_models_say_what_was_swapped_and_compute_the_same(caplog):
    model = Model()
    seen = []
    model.layers[1].register_forward_hook(lambda *_: seen.append(1))
    x, labels = torch.randn(4, 9), torch.randint(0, 9, (4,))
    parameters, plain = list(model.parameters()), model(x, labels)
    wanted = torch.autograd.grad(plain, parameters)
    with caplog.at_level(logging.INFO, "fusegen"):
        swapped = fg.torch.patch(model)
    assert [s.name for s in swapped] == ["layers.1", "head", "loss"]
    assert "layers.1: torch.nn.LayerNorm; head: torch.nn.Softmax" in caplog.text
    assert [id(p) for p in model.parameters()] == [id(p) for p in parameters]
    assert isinstance(model.layers[3], ours.LayerNorm)  # the same layer twice
    found = model(x, labels)
    torch.testing.assert_close(found, plain)
    for f, w in zip(torch.autograd.grad(found, parameters), wanted, strict=True):
        torch.testing.assert_close(f, w, rtol=1e-4, atol=1e-5)
    assert len(seen) == 4
    assert fg.torch.patch(model) == []
    alone = torch.nn.Softmax(-1)
    assert [str(s) for s in fg.torch.patch(alone)] == ["the model: torch.nn.Softmax"]
    with pytest.raises(fg.ArgumentError, match=r"patch takes a torch\.nn\.Module"):
        fg.torch.patch("model")


def test_patched_models_compile_in_one_graph():
    model = Model()
    fg.torch.patch(model)
    x, labels = torch.randn(4, 9), torch.randint(0, 9, (4,))
    wanted = model(x, labels)
    found = graph_of(model)(x, labels)
    torch.testing.assert_close(found, wanted)
    for f, w in zip(*(torch.autograd.grad(r, tuple(model.parameters())) for r in (found, wanted)),
                    strict=True):
        torch.testing.assert_close(f, w, rtol=1e-4, atol=1e-5)


# ---- several processes ----

@pytest.mark.long
def test_two_processes_train_as_with_torch(tmp_path):
    """By gloo, in both of torch's ways to train side by side; what they train: support/ranks.py."""
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("this torch has no gloo")
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent}"}
    started = [subprocess.Popen([sys.executable, "-m", "support.ranks", str(rank),
                                 str(tmp_path / "meeting")], stderr=subprocess.PIPE, text=True,
                                env=environment) for rank in range(2)]
    said = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], "\n".join(said)


@pytest.mark.parametrize("name", ["z_loss", "softcap"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), True, "1"])
def test_what_a_loss_adds_is_finite_and_not_below_0(name, value):
    with pytest.raises(fg.ArgumentError, match=rf"(?s){name} is .*0 is none"):
        ours.CrossEntropyLoss(**{name: value})
