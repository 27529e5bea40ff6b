"""Pipelines in torch on a real GPU: gradients, operators, graphs, streams, autocast, layers."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest

import fusegen as fg

pytestmark = pytest.mark.gpu

torch = pytest.importorskip("torch", reason="torch is not installed")
from support.torch_cases import (  # noqa: E402
    DIFFERENTIABLE,
    PEERS,
    L,
    floats,
    graph_of,
    tensors,
)

EVERY = sorted(L.PIPELINES)
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}


@pytest.fixture(autouse=True)
def needs_cuda():
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    torch.compiler.reset()


def there(arrays):
    return tuple(a.detach().cuda().requires_grad_(a.requires_grad) for a in arrays)


def flat(result):
    return list(result) if isinstance(result, tuple) else [result]


def gradients(function, arrays):
    """For cotangents that every type holds exactly."""
    moved = [a.detach().clone().requires_grad_(a.is_floating_point()) for a in arrays]
    chance = torch.Generator("cuda").manual_seed(0)
    total = sum((r * torch.randn(r.shape, generator=chance, device="cuda").bfloat16().to(r)).sum()
                for r in floats(function(*moved)))
    return torch.autograd.grad(total, [a for a in moved if a.requires_grad], allow_unused=True)


@pytest.mark.parametrize("shape", [(5, 33), (64, 4096), (3, 70_000)], ids=str)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name, dtype, shape):
    arrays = there(tensors(name, shape, dtype))
    if name in ("topk", "softmax_topk"):  # ties are no one's
        n = min(shape[-1], 256)
        row = torch.full(shape, -30.0)
        row[:, :n] = torch.stack([torch.randperm(n) for _ in range(shape[0])]) / 8
        arrays = (row.to(dtype).cuda(),)
    exact = [a.double() if a.is_floating_point() else a for a in arrays]
    for f, w in zip(gradients(L.PIPELINES[name], arrays), gradients(PEERS[name], exact),
                    strict=True):
        if w is None or f is None:
            assert f is None or not f.any()
            continue
        torch.testing.assert_close(f.double(), w, rtol=TOLERANCES[dtype],
                                   atol=TOLERANCES[dtype] * float(w.abs().max()))


@pytest.mark.parametrize("name", EVERY)
def test_opcheck(name):
    moving = name not in ("argmax", "absmax_quantize")
    torch.library.opcheck(fg.torch.op(L.PIPELINES[name]).overload,
                          there(tensors(name, grad=moving)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", EVERY)
def test_one_graph(name):
    pipeline = L.PIPELINES[name]
    compiled = graph_of(lambda x, *rest: pipeline(x * 2, *rest))
    for n_rows in (5, 6, 7):
        arrays = there(tensors(name, (n_rows, 33), grad=True))
        found, wanted = flat(compiled(*arrays)), flat(pipeline(arrays[0] * 2, *arrays[1:]))
        for f, w in zip(found, wanted, strict=True):
            torch.testing.assert_close(f, w)
        if name in DIFFERENTIABLE:
            torch.testing.assert_close(*(torch.autograd.grad(
                sum(r.square().sum() for r in floats(tuple(o))), arrays[0])
                for o in (found, wanted)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_inductor(mode):
    x, w, b = there(tensors("layer_norm", (64, 1024), grad=True))
    compiled = torch.compile(lambda x, w, b: L.layer_norm(x * 2, w, b).relu(), fullgraph=True,
                             mode=mode)
    for _ in range(4):  # the third and later replay a graph
        found = compiled(x, w, b)
        wanted = torch.nn.functional.layer_norm(x * 2, (1024,), w, b).relu()
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(torch.autograd.grad(found.sum(), (x, w)),
                                   torch.autograd.grad(wanted.sum(), (x, w)), rtol=1e-3, atol=1e-3)


def test_a_training_step_in_a_graph_replays():
    """Forward and backward captured once, on data that change."""
    x = torch.randn(64, 1000, device="cuda", requires_grad=True)
    w = torch.rand(1000, device="cuda", requires_grad=True)

    def step():
        return torch.autograd.grad(L.rms_norm(x, w).square().mul(0.5).sum(), (x, w))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    for _ in range(3):
        with torch.no_grad():
            x.copy_(torch.randn_like(x))
        graph.replay()
        for f, t in zip(found, step(), strict=True):
            torch.testing.assert_close(f, t)


def test_gradients_on_another_stream():
    x = torch.randn(512, 4096, device="cuda")
    for _ in range(5):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = (x * 2).requires_grad_()
            (found,) = torch.autograd.grad(L.logsumexp(y).sum(), y)
        torch.cuda.current_stream().wait_stream(side)
        torch.testing.assert_close(found, torch.softmax(x * 2, -1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_autocast(name):
    arrays = there(tensors(name, dtype=torch.bfloat16, grad=True))
    pipeline = L.PIPELINES[name]
    wide = fg.torch.op(pipeline).autocast == "float32"
    with torch.autocast("cuda", dtype=torch.bfloat16):
        found = floats(pipeline(*arrays))
    for f, p in zip(found, floats(pipeline(*arrays)), strict=True):
        assert f.dtype == (torch.float32 if wide else p.dtype)
        torch.testing.assert_close(f.to(p.dtype), p)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "topk"])
def test_func(name):
    arrays = there(tensors(name, (6, 65), torch.float64))
    stacked = [torch.stack([a, a.flip(0)]) for a in arrays]
    found = floats(torch.func.vmap(L.PIPELINES[name])(*stacked))
    for i in range(2):
        for f, w in zip(found, floats(PEERS[name](*(s[i] for s in stacked))), strict=True):
            torch.testing.assert_close(f[i], w)
    total = [lambda *a, p=p: sum(r.square().sum() for r in floats(p(*a)))
             for p in (L.PIPELINES[name], PEERS[name])]
    torch.testing.assert_close(*(torch.func.grad(t)(*arrays) for t in total))


def test_deterministic():
    x, w, b = there(tensors("layer_norm", (4096, 257), grad=True))
    torch.use_deterministic_algorithms(True)
    try:
        runs = [torch.autograd.grad(L.layer_norm(x, w, b).square().sum(), (x, w, b))
                for _ in range(3)]
    finally:
        torch.use_deterministic_algorithms(False)
    for run in runs[1:]:
        assert all(torch.equal(f, s) for f, s in zip(runs[0], run, strict=True))


def test_losses_and_patched_layers():
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.LayerNorm(256), torch.nn.GELU(),
                                torch.nn.Linear(256, 1000)).cuda()
    patched = copy.deepcopy(model)
    assert len(fg.torch.patch(patched)) == 1
    x, labels = torch.randn(512, 64, device="cuda"), torch.randint(0, 1000, (512,), device="cuda")
    labels[::7] = -100
    found, wanted = ([loss, *torch.autograd.grad(loss, [*m.parameters()])] for m, loss in (
        (m, n.CrossEntropyLoss(label_smoothing=0.1)(m(x), labels))
        for m, n in ((patched, fg.torch.nn), (model, torch.nn))))
    for f, t in zip(found, wanted, strict=True):
        torch.testing.assert_close(f, t, rtol=1e-3, atol=1e-5)
    narrow = torch.randn(64, 1000, device="cuda", dtype=torch.bfloat16)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert fg.torch.nn.CrossEntropyLoss()(narrow, labels[:64]).dtype == torch.float32


def test_a_decoding_step_keeps_less_than_torch():
    """Memory at the peak of softmax and top-K of many logits: no full row of probabilities."""
    x = torch.randn(64, 128_000, device="cuda")
    L.softmax_topk(x, k=8)

    def peak(function):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        function()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    ours, theirs = peak(lambda: L.softmax_topk(x, k=8)), peak(
        lambda: torch.topk(torch.softmax(x, -1), 8))
    assert ours < theirs / 10


NCCL = """
import sys, torch, torch.distributed as dist, fusegen as fg
rank = int(sys.argv[1])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.LayerNorm(64)).cuda()
fg.torch.patch(model)
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
x = torch.randn(32, 64, device="cuda")
fg.torch.nn.CrossEntropyLoss()(model(x), x.argmax(-1)).backward()
seen = [torch.empty_like(model.module[1].weight.grad) for _ in range(2)]
dist.all_gather(seen, model.module[1].weight.grad)
assert torch.equal(*seen)
dist.destroy_process_group()
"""


def test_two_gpus_train_together(tmp_path):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    started = [subprocess.Popen([sys.executable, "-c", NCCL, str(rank), str(tmp_path / "meeting")],
                                stderr=subprocess.PIPE, text=True) for rank in range(2)]
    for process in started:
        said = process.communicate(timeout=240)[1]
        assert process.returncode == 0, said
