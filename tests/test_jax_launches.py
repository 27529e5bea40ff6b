"""What JAX's programs for GPUs run: lowered here, called as XLA calls it, on emulated devices."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from support.fake_gpu import Gpu

import fusegen as fg

jax = pytest.importorskip("jax", reason="JAX is not installed")
from support.xla_call import Machine  # noqa: E402

from fusegen.jax import ready  # noqa: E402

SOURCE = np.random.default_rng(0)


@pytest.fixture
def machine(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Two devices; nothing is recalled of other machines'."""
    monkeypatch.setattr(ready, "_devices", lambda memory: [0] if memory.single else [0, 1])
    return Machine(gpu, monkeypatch)


def program(function, *arrays):
    """The program's text for a GPU."""
    like = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays]
    traced = jax.jit(lambda *a: function(*a)).trace(*like)
    return traced.lower(lowering_platforms=("cuda",)).as_text()


def handler():
    return ready._handler("cuda")[0].run


def fresh(name, **constants):
    """Nothing that ran on another test's machine."""
    return partial(fg.Pipeline(getattr(fg.library, name).fn), **constants)


def normal(*shape):
    return SOURCE.standard_normal(shape, dtype=np.float32)


CASES = {
    "aligned rows": ("softmax", {}, [normal(6, 128)]),
    "any rows": ("logsumexp", {}, [normal(5, 37)]),
    "a row over many blocks": ("logsumexp", {}, [normal(1, 120_000)]),
    "blocks that hold a row together": ("softmax", {}, [normal(1, 40_000)]),
    "parameters": ("layer_norm", {}, [normal(4, 64), normal(64), normal(64)]),
    "labels": ("cross_entropy", {}, [normal(4, 33), np.arange(4, dtype=np.int32)]),
    "lists": ("softmax_topk", {"k": 3}, [normal(3, 200)]),
    "rows side by side": ("softmax", {"axis": 0}, [normal(40, 64)]),
    "between kernels": ("softmax", {"form": "unfused"}, [normal(4, 48)]),
}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_programs_for_gpus(machine, name):
    pipeline, named, arrays = CASES[name]
    call = fresh(pipeline, **named)
    text = program(call, *arrays)
    assert "callback" not in text
    operands = [a.reshape(1, *a.shape) if "side" in name else a for a in arrays]
    for device in (0, 1):
        found = machine.call(text, handler(), operands, device)
        want = call.func.reference(*arrays, **{k: v for k, v in named.items() if k != "form"})
        wanted = want if isinstance(want, tuple) else (want,)
        for f, w in zip(found, wanted, strict=False):
            np.testing.assert_allclose(f.reshape(w.shape), w, rtol=1e-5, atol=1e-6)
        assert {n["device"] for n in machine.gpu.launched} == {device}
        assert {n["stream"] for n in machine.gpu.launched} == {0x100 + device}
        machine.gpu.launched.clear()


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "causal"), [("float16", False), ("float32", True)])
def test_programs_over_vectors(machine, dtype, causal):
    """Tensor maps are written for the addresses of each run; rows' numbers come by their halves."""
    q, k, v = (normal(2, n, 64).astype(dtype) for n in (70, 90, 90))
    call = fresh("attention", scale=0.3, causal=causal)
    text = program(call, q, k, v)
    numbers = np.stack([np.tile(np.arange(70), 2), np.zeros(140, int)], -1).astype("u4")
    want = call.func.reference(q, k, v, scale=0.3, causal=causal).reshape(140, 64)
    for device in (0, 1, 0):
        operands = [q.reshape(140, 64), k, v, *([numbers] if causal else [])]
        found, *_ = machine.call(text, handler(), operands, device)
        np.testing.assert_allclose(found, want, atol=4e-3 if dtype == "float16" else 1e-5)
    assert (machine.encoded > 0) == (dtype == "float16")


@pytest.mark.long
def test_numbers_of_a_call_are_part_of_a_gpus_program(machine):
    @fg.pipeline
    def tempered(x, *, t=1.0):
        e = fg.exp((x - fg.max(x)) / t)
        return e / fg.sum(e)

    x, texts = normal(4, 96), set()
    for t in (0.5, 0.75, 3.0):
        texts.add(text := program(partial(tempered, t=t), x))
        for device in (0, 1):
            (found,) = machine.call(text, handler(), [x], device)
            np.testing.assert_allclose(found, tempered.reference(x, t=t), rtol=1e-5, atol=1e-6)
    assert len(texts) == 3
    assert len(tempered.traces.variants) == 1


def test_counters_are_zeroed_by_every_call(machine):
    """They lie in memory that XLA gives out again."""
    pipeline, _, arrays = CASES["a row over many blocks"]
    text = program(fresh(pipeline), *arrays)
    for _ in range(3):
        before = len(machine.gpu.zeroed)
        found, *_ = machine.call(text, handler(), arrays)
        np.testing.assert_allclose(found, np.log(np.exp(arrays[0].astype("f8")).sum(1)), rtol=1e-6)
        assert len(machine.gpu.zeroed) > before


def test_what_goes_wrong_is_said(machine):
    pipeline, _, arrays = CASES["aligned rows"]
    text = program(fresh(pipeline), *arrays)
    with pytest.raises(RuntimeError, match="begin on a multiple of 16 bytes"):
        machine.call(text, handler(), arrays, shift=1)
    machine.gpu.fails = 719
    with pytest.raises(RuntimeError, match="CUDA_ERROR_719"):
        machine.call(text, handler(), arrays)
    machine.gpu.fails = 0
    other = text.replace('key = "', 'key = "a')
    with pytest.raises(RuntimeError, match="does not know the run a"):
        machine.call(other, handler(), arrays)


def test_there_is_no_program_for_a_gpu_without_one():
    if jax.default_backend() == "gpu":
        pytest.skip("JAX has a GPU here")
    with pytest.raises(fg.BackendError, match="cannot be made here"):
        program(fresh("softmax"), normal(2, 3))
