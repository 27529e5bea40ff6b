"""Calls on host arrays, remembered: as right, and as strict, as those looked at in full."""

from __future__ import annotations

import copy
import gc
import itertools
import os
import pickle
import re
import sys
import threading
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.cases import arguments, leaves
from support.forked import child

import fusegen as fg
from fusegen.backend.cpu import bound
from fusegen.backend.cpu.helper import _show_keys
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.pipeline import remembered
from fusegen.pipeline.remembered import Recall

pytestmark = [
    pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler"),
    pytest.mark.usefixtures("served_by"),
]


def fresh(name: str = "softmax") -> fg.Pipeline:
    """A library pipeline that remembers nothing yet."""
    return fg.Pipeline(getattr(fg.library, name).fn)


def rows(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def on_numpy(x: np.ndarray) -> np.ndarray:
    return x


def on_torch(x: np.ndarray) -> Any:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def host(found: Any) -> Any:
    """The result, or results, as NumPy has them."""
    if isinstance(found, tuple):
        return tuple(map(host, found))
    if isinstance(found, np.ndarray):
        return found
    torch = sys.modules["torch"]
    if found.dtype is torch.bfloat16:
        return found.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return found.numpy()


def same(got: Any, want: Any) -> None:
    """Bit for bit, shape and type."""
    if isinstance(want, tuple):
        assert isinstance(got, tuple)
        for g, w in zip(got, want, strict=True):
            same(g, w)
        return
    got, want = host(got), host(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.tobytes() == want.tobytes()


LIBRARIES = pytest.mark.parametrize("there", [on_numpy, on_torch], ids=["numpy", "torch"])

# ---- what is served at once is what a full look gives ----

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("softmax", {}), ("softmax", {"keepdims": True}), ("topk", {"k": 3}),
    ("softmax_topk", {"k": 2}), ("logsumexp", {"keepdims": True}), ("layer_norm", {}),
    ("softmax", {"form": "unfused"}), ("softmax", {"deterministic": True}),
    ("argmax", {}), ("logsumexp", {"axis": (0, 1)}),
)


@LIBRARIES
@pytest.mark.parametrize(("name", "options"), CALLS)
def test_a_call_like_an_earlier_one_takes_no_full_look(there, looks, name, options):
    p = fresh(name)
    given = [there(rows(5, 70, seed=seed)) for seed in range(4)]
    found = [p(one, **options) for one in given]
    assert len(looks) == 1
    for one, got in zip(given, found, strict=True):
        assert type(got[0] if isinstance(got, tuple) else got) is type(one)
        same(got, fg.Pipeline(p.fn)(one, **options))


@LIBRARIES
@pytest.mark.parametrize(("name", "options"), CALLS)
def test_the_helper_serves_what_it_was_taught(there, served_by, monkeypatch, name, options):
    asked: list[Any] = []
    python = Recall.find

    def counted(*args: Any) -> Any:
        asked.append(args)
        return python(*args)

    monkeypatch.setattr(Recall, "find", counted)
    p, shapes = fresh(name), ((5, 70), (300, 700), (3, 11))
    wanted = [p(there(rows(*shape)), **options) for shape in shapes]
    asked.clear()
    for _ in range(3):
        for shape, want in zip(shapes, wanted, strict=True):
            same(p(there(rows(*shape)), **options), want)
    assert len(asked) == (0 if served_by == "helper" else 9)


@pytest.mark.parametrize("shape", [(3, 1 << 19), (2, 3 << 18), (700, 900), (1, 40_000)])
@pytest.mark.parametrize("name", ["softmax", "logsumexp", "softmax_topk", "layer_norm"])
def test_results_do_not_depend_on_threads(monkeypatch, name, shape):
    """Rows shared by blocks, or by pieces: the same bits."""
    p, x = fresh(name), rows(*shape)
    monkeypatch.setenv("FUSEGEN_THREADS", "1")
    want = p(x)
    for threads in ("1", "2", "5", "3", "1", "8"):
        monkeypatch.setenv("FUSEGEN_THREADS", threads)
        for _ in range(2):
            same(p(x), want)


def test_few_rows_over_many_vectors_are_made_whatever_the_threads(monkeypatch):
    """Threads share the rows of no pair kernel, however long they are."""
    p = fg.Pipeline(fg.library.nearest.fn)
    x, y = rows(1, 4), rows(270_000, 4)
    far = ((x.astype(np.float64) - y) ** 2).sum(-1)
    for threads in ("1", "5", "5"):
        monkeypatch.setenv("FUSEGEN_THREADS", threads)
        distances, columns = p(x, y, k=3)
        np.testing.assert_array_equal(columns[0], np.argsort(far, kind="stable")[:3])
        np.testing.assert_allclose(distances[0], np.sort(far)[:3], 1e-5)


def test_a_number_of_threads_that_is_none_is_refused(monkeypatch):
    p, x = fresh(), rows(300, 700)
    p(x)
    monkeypatch.setenv("FUSEGEN_THREADS", "many")
    for _ in range(2):
        with pytest.raises(fg.ArgumentError, match="FUSEGEN_THREADS is 'many'"):
            p(x)


def test_many_calls_of_several_threads_share_them(monkeypatch):
    """Some find the threads taken, and work alone."""
    monkeypatch.setenv("FUSEGEN_THREADS", "3")
    p, x = fresh(), [rows(400, 300, seed=s) for s in range(3)]
    wanted = [p(one) for one in x]
    in_threads(lambda i: [same(p(x[i]), wanted[i]) for _ in range(60)], 3)


def in_threads(work: Any, count: int) -> None:
    failed: list[BaseException] = []

    def run(i: int) -> None:
        try:
            work(i)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed[0]


def test_what_is_forgotten_while_it_runs_runs_on(monkeypatch):
    """Threads meet so many shapes that the memory starts afresh all the time."""
    monkeypatch.setattr(remembered, "_MOST_CALLS", 2)
    p, x = fresh("logsumexp"), [rows(40, 300 + n) for n in range(12)]
    wanted = [p(one) for one in x]
    in_threads(lambda _: [same(p(one), want) for _ in range(15)
                          for one, want in zip(x, wanted, strict=True)], 3)


def test_what_a_pipeline_remembers_goes_with_it(served_by):
    p = fresh()
    for _ in range(3):
        p(rows(4, 8))
    gone = weakref.ref(p)
    del p
    gc.collect()
    assert gone() is None


@fg.pipeline
def largest(x):
    return fg.max(x)


@LIBRARIES
@pytest.mark.parametrize("dtype", ["f2", "bfloat16", "f4", "f8", "i4", "i8"])
def test_types_are_told_apart(there, looks, dtype):
    p, x = fg.Pipeline(largest.fn), (10 * rows(6, 33)).astype(dtype)
    for _ in range(3):
        same(p(there(x)), there(np.asarray(x).max(1)))
    assert len(looks) == 1
    p(there(rows(6, 33).astype("f4" if dtype == "f8" else "f8")))
    assert len(looks) == 2


def lying(x: np.ndarray) -> dict[str, np.ndarray]:
    """The same values, lying otherwise in memory."""
    wide = np.zeros((*x.shape[:-1], x.shape[-1] + 5), x.dtype)
    wide[..., 3:-2] = x
    bytes_ = np.zeros(x.nbytes + 1, np.uint8)
    odd = bytes_[1:].view(x.dtype).reshape(x.shape)
    odd[...] = x
    fixed = x.copy()
    fixed.setflags(write=False)
    return {
        "packed": x, "part of rows": wide[..., 3:-2], "columns first": np.asfortranarray(x),
        "backwards": x[::-1].copy()[::-1], "columns backwards": x[..., ::-1].copy()[..., ::-1],
        "odd address": odd, "swapped bytes": x.astype(x.dtype.newbyteorder()),
        "read only": fixed,
    }


def test_memory_that_lies_otherwise_is_read_as_it_lies():
    p = fresh()
    for seed in range(2):
        x = rows(7, 41, seed=seed)
        want = fg.Pipeline(p.fn)(x)
        for _ in range(2):
            for how, given in lying(x).items():
                assert p(given).tobytes() == want.tobytes(), how
    one_row = np.broadcast_to(rows(41), (7, 41))
    for _ in range(3):
        same(p(one_row), p(one_row.copy()))


@LIBRARIES
@pytest.mark.parametrize("name", sorted(fg.library.PIPELINES))
def test_the_library_is_served_as_it_is_looked_at(there, name):
    """Rows that lie in several ways, so few that one thread has them and so many that some do."""
    p, full = fresh(name), fresh(name)
    full.traces.recall.learn = lambda *_: None
    for shape in ((5, 37), (2, 3, 64), (130, 170)):
        for seed in range(3):
            for given in lying(rows(*shape, seed=seed)).values():
                if there is on_torch and (not given.flags.writeable or min(given.strides) < 0
                                          or not given.dtype.isnative):
                    continue
                arrays = tuple(map(there, arguments(name, given)))
                for got, want in zip(leaves(p(*arrays)), leaves(full(*arrays)), strict=True):
                    same(got, want)


def test_types_of_other_descriptors_are_known_again(looks):
    """An array that was unpickled has a dtype object of its own."""

    p, x = fresh(), rows(5, 70)
    want = p(x)
    assert np.dtype("f4") is x.dtype is not pickle.loads(pickle.dumps(x)).dtype
    for _ in range(4):
        same(p(pickle.loads(pickle.dumps(x))), want)
    assert len(looks) == 1


@pytest.mark.long
def test_shapes_axes_and_places_are_told_apart(looks):
    p, x = fresh("logsumexp"), rows(4, 6, 10)
    for axis in (-1, 2, 0, (1, 2), None, (0, 2)):
        for _ in range(2):
            same(p(x, axis=axis), fg.Pipeline(p.fn)(x, axis=axis))
    weights, biases = rows(10, seed=1), rows(10, seed=2)
    norm = fresh("layer_norm")
    full = norm.reference
    for _ in range(2):
        for call, want in (
            (norm(x, weight=weights, bias=biases), full(x, weights, biases)),
            (norm(x, weight=biases, bias=weights), full(x, biases, weights)),
            (norm(x, None, biases), full(x, None, biases)), (norm(x, biases), full(x, biases)),
            (norm(x, weights, biases, eps=0.5), full(x, weights, biases, eps=0.5)),
        ):
            np.testing.assert_allclose(call, want, rtol=1e-5, atol=1e-6)


@pytest.mark.long
def test_constants_are_told_apart_by_class_and_value():
    @fg.pipeline
    def shifted(x, *, by=0):
        return fg.sum(x + by) if by else fg.max(x)

    x = rows(3, 9)
    for _ in range(2):
        for by in (0, 1, 2, 1.0, True, 0.5, np.float32(0.5), np.array(2.0), np.array(3.0)):
            want = (x + float(by)).sum(1) if by else x.max(1)
            np.testing.assert_allclose(shifted(x, by=by), want, rtol=1e-4, atol=1e-5)
    changing = np.array(1.0)  # a constant whose value changes where it lies
    for value in (1.0, 4.0, 4.0, 2.0):
        changing[()] = value
        np.testing.assert_allclose(shifted(x, by=changing), (x + value).sum(1), rtol=1e-4)


def test_integers_beyond_64_bits_and_strings_are_constants():
    @fg.pipeline
    def which(x, *, how="max", n=0):
        return fg.max(x) if how == "max" else fg.min(x) + (1 if n > 2**64 else 0)

    x = rows(3, 9)
    for _ in range(3):
        same(which(x, how="max"), x.max(1))
        same(which(x, how="min"), x.min(1))
        same(which(x, how="min", n=2**70), x.min(1) + np.float32(1))
        same(which(x, how="min", n=2**70 - 2**69), x.min(1) + np.float32(1))


# ---- nothing is remembered for too long ----

SCALE = 2.0


@fg.pipeline
def scaled(x):
    return fg.sum(x * SCALE)


def test_a_global_that_changes_is_seen_at_the_next_call(monkeypatch):
    x, module = rows(3, 8), sys.modules[__name__]
    for factor in (2.0, 2.0, 5.0, 5.0, 2.0, 7.0):
        monkeypatch.setattr(module, "SCALE", factor)
        for _ in range(2):
            np.testing.assert_allclose(scaled(x), (x * factor).sum(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("asked", ["source", "derivation", "compile"])
def test_a_change_that_something_else_noticed_first_is_seen(monkeypatch, asked):
    x, module = rows(3, 8), sys.modules[__name__]
    look = {"source": lambda: scaled.source(target="cpu"), "derivation": scaled.derivation,
            "compile": lambda: scaled.compile(x)}[asked]
    for factor in (2.0, 5.0, 3.0):
        monkeypatch.setattr(module, "SCALE", factor)
        look()
        np.testing.assert_allclose(scaled(x), (x * factor).sum(1), rtol=1e-4, atol=1e-5)


def test_cells_attributes_and_items_that_change_are_seen():
    class Settings:
        factor = 2.0

    settings, table, cell = Settings(), {"shift": 1.0}, 1.0

    @fg.pipeline
    def text(x):
        return fg.sum(x * settings.factor + table["shift"] + cell)

    def set_cell(value):
        nonlocal cell
        cell = value

    x = rows(3, 8)

    def check():
        for _ in range(2):
            want = (x * settings.factor + table["shift"] + cell).sum(1)
            np.testing.assert_allclose(text(x), want, rtol=1e-4, atol=1e-4)

    check()
    for change in (lambda: setattr(settings, "factor", 3.0), lambda: set_cell(9.0),
                   lambda: table.__setitem__("shift", 4.0),
                   lambda: setattr(Settings, "factor", 8.0), lambda: delattr(settings, "factor")):
        change()
        check()


def test_inside_another_text_a_pipeline_is_traced_whatever_it_remembers():
    p, x = fresh(), rows(3, 8)
    p(x)

    @fg.pipeline
    def outer(y):
        return fg.sum(p(y) * y)

    np.testing.assert_allclose(outer(x), (p(x) * x).sum(1), rtol=1e-4)
    p(x)

    @fg.pipeline
    def wrong(y):
        return fg.sum(p(x) * y)

    with pytest.raises(fg.FusegenError):
        wrong(x)


# ---- out= ----


@LIBRARIES
def test_results_are_written_where_out_says(there, looks):
    p, x = fresh("topk"), rows(4, 33)
    wanted = p(x, k=2)
    before = len(looks)
    for _ in range(3):
        values, indices = there(np.zeros((4, 2), "f4")), there(np.zeros((4, 2), "i8"))
        got = p(there(x), k=2, out=(values, indices))
        assert got[0] is values
        assert got[1] is indices
        same((values, indices), wanted)
        indices[...] = -1
        got = p(there(x), k=2, out=(None, indices))
        assert got[1] is indices
        same(got, wanted)
        with pytest.raises(fg.ShapeError, match="has shape"):
            p(there(x), k=2, out=(there(np.zeros((4, 3), "f4")), indices))
        with pytest.raises(fg.ArgumentError, match="a tuple of 2"):
            p(there(x), k=2, out=(values, indices, None))
    assert len(looks) - before == 2 + 3 * 2


def test_named_tuples_of_results_are_written_to_again(looks):
    p, x = fresh("topk"), rows(4, 33)
    out = p(x, k=2)
    want = tuple(part.copy() for part in out)
    for _ in range(3):
        for part in out:
            part[...] = 0
        found = p(x, k=2, out=out)
        assert type(found) is type(out)
        assert found[0] is out[0]
        same(found, want)
    assert len(looks) == 2


@LIBRARIES
def test_out_that_overlaps_is_refused_however_often(there):
    p, memory = fresh(), rows(12, 64)
    for _ in range(3):
        x, apart = there(memory[:5]), there(memory[6:11])
        assert p(x, out=apart) is apart
        for overlapping in (memory[4:9], memory[:5], memory[1:6]):
            with pytest.raises(fg.ArgumentError, match="overlaps the input x"):
                p(x, out=there(overlapping))
    two, x = fresh("topk"), there(rows(4, 33))
    indices = np.zeros((9, 2), "i8")
    for _ in range(2):
        two(x, k=2, out=(there(np.zeros((4, 2), "f4")), there(indices[:4])))
        half = there(indices[:2].view(np.float32).reshape(4, 2))
        with pytest.raises(fg.ArgumentError, match="overlap"):
            two(x, k=2, out=(half, there(indices[:4])))


def test_out_that_is_fixed_by_now_is_refused():
    p, x, out = fresh(), rows(4, 33), np.empty((4, 33), "f4")
    for _ in range(2):
        assert p(x, out=out) is out
    out.setflags(write=False)
    before = out.copy()
    for _ in range(2):
        with pytest.raises(fg.ArgumentError, match="cannot be written to"):
            p(2 * x, out=out)
    same(out, before)


@LIBRARIES
def test_unused_strides_of_out_are_left_alone(there):
    p, x = fresh(), rows(4, 33)
    want = p(x)
    for _ in range(3):
        room = np.full((4, 40), 7, "f4")
        p(there(x), out=there(room)[:, 2:35])
        same(room[:, 2:35].copy(), want)
        assert (room[:, :2] == 7).all()
        assert (room[:, 35:] == 7).all()


# ---- arrays that only a full look can judge ----


def test_subclasses_of_arrays_are_looked_at_each_time(looks):
    p, x = fresh("logsumexp"), rows(5, 9)
    want = p(x)
    before = len(looks)
    for _ in range(2):
        same(p(np.matrix(x)), want)
        with pytest.raises(fg.ArgumentError, match="masked array"):
            p(np.ma.masked_array(x, x > 1))
        with pytest.raises(fg.ArgumentError, match="masked array"):
            p(x, out=np.ma.masked_array(np.empty(5, "f4")))
        same(p(x.tolist()), p(np.array(x.tolist())))
        with pytest.raises(fg.DTypeError):
            p(x.astype("c8"))
        with pytest.raises(fg.ShapeError):
            p(x, axis=2)
        with pytest.raises(fg.ArgumentError, match="no parameter 'wrong'"):
            p(x, wrong=1)
        with pytest.raises(fg.ArgumentError, match="misses x"):
            p()
    assert len(looks) > before


@fg.pipeline
def of_this_module(x):
    """torch names operators for pipelines: the library's are for tests of these."""
    e = fg.exp(x - fg.max(x))
    return e / fg.sum(e)


def test_large_results_of_torchs_allocator_lie_in_large_pages(monkeypatch, compiled_helper):
    """As the system says of their memory; NumPy sees to its own."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    maps = Path("/proc/self/smaps")
    if compiled_helper.module is None or not Path("/sys/kernel/mm/transparent_hugepage").exists():
        pytest.skip(compiled_helper.why or "the system has no large pages to give")
    monkeypatch.setattr(bound, "HELPER", compiled_helper)
    p, x = fresh(), torch.from_numpy(rows(1500, 6000))  # more than allocators keep for later
    for _ in range(3):
        found = p(x)
    middle = found.data_ptr() + found.nbytes // 2
    area = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) .*?^VmFlags:([^\n]*)$", re.MULTILINE | re.DOTALL)
    areas = area.findall(maps.read_text())
    (flags,) = [flags for low, high, flags in areas if int(low, 16) <= middle < int(high, 16)]
    assert "hg" in flags.split()


@pytest.mark.long
@pytest.mark.parametrize("shown", [True, False])
def test_torch_sees_what_it_has_to(served_by, shown, compiled_helper):
    """Whether the helper reads the keys of torch's dispatcher or calls what watches them."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seeing(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    seen, p, x = [], fresh(), torch.randn(5, 70).bfloat16()
    fg.torch.op(p, name=f"seen_by_{served_by}_{shown}", autocast="float32")
    for _ in range(3):
        assert p(x).dtype == torch.bfloat16
    if served_by == "helper" and not shown:
        compiled_helper.module.keys(0)
    with Seeing():
        assert p(x).dtype == torch.bfloat16
    assert seen == [f"fusegen.seen_by_{served_by}_{shown}.default"]
    with torch.inference_mode():
        assert p(x).is_inference()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert p(x).dtype == torch.float32
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        same(p(x), fresh()(x))
        with pytest.raises(NotImplementedError, match="forward-mode"):
            p(forward.make_dual(x, torch.ones_like(x)))
    assert p(x).dtype == torch.bfloat16
    if served_by == "helper":
        assert _show_keys(compiled_helper.module, torch) or sys.platform != "linux"


def test_tensors_that_only_a_full_look_can_judge():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    p, x = fg.Pipeline(of_this_module.fn), torch.from_numpy(rows(4, 8))
    want = p(x)

    class Own(torch.Tensor):
        pass

    def refused(given, match):
        with pytest.raises(fg.ArgumentError, match=match):
            p(given)

    for _ in range(3):
        same(p(torch.nn.Parameter(x, requires_grad=False)), want)
        same(p(x.as_subclass(Own)), want)
        refused(torch.complex(x, x).conj().imag, "negates")
        for recorded in (torch.nn.Parameter(x), x.clone().requires_grad_()):
            found = p(recorded)
            assert found.grad_fn is not None
            same(found.detach(), want)
        with torch.no_grad():
            same(p(torch.nn.Parameter(x)), want)
        with torch.inference_mode():
            same(p(x), want)
        refused(x.to_sparse(), "no plain memory")
        refused(torch._efficientzerotensor(4, 8), "no plain memory")
        assert p(torch.empty(4, 8, device="meta")).is_meta
        same(torch.func.vmap(p)(torch.stack([x, x])), torch.stack([want, want]))
    same(p(x), want)


@pytest.mark.long
def test_tensors_while_torch_traces_are_not_served_from_memory():
    pytest.importorskip("torch", reason="torch is not installed")
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    p, x = fg.Pipeline(of_this_module.fn), on_torch(rows(4, 8))
    for _ in range(3):
        p(x)
        with FakeTensorMode() as mode:
            assert type(p(mode.from_tensor(x))) is FakeTensor
            with pytest.raises((fg.ArgumentError, RuntimeError, AssertionError)):
                p(x)


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace", "ignore:Converting a tensor to")
def test_calls_that_torch_records_are_operators_of_its_program():
    """No program holds memory that a kernel once filled, however often the call was made before."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x, other, weight = (on_torch(rows(4, 8, seed=s)) for s in range(3))
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Softmax(-1), torch.nn.LayerNorm(8))
    peer = copy.deepcopy(layers)
    fg.torch.patch(layers)
    softmax, topk = fresh(), fresh("topk")
    operator, compiled = fg.torch.op(softmax), softmax.compile(x)

    def gradient(x: Any) -> Any:
        return torch.autograd.grad((softmax(x) * weight).sum(), x)[0]

    for _ in range(3):
        for grad in (False, True):
            given, asked = (t.clone().requires_grad_(grad) for t in (x, other))
            with torch.set_grad_enabled(grad):
                for ours, theirs in (
                        (softmax, lambda x: x.softmax(-1)),
                        (lambda x: operator(x), lambda x: x.softmax(-1)),
                        (lambda x: tuple(topk(x, k=3)), lambda x: tuple(x.topk(3))),
                        (lambda x: softmax(x, axis=0) * 2, lambda x: x.softmax(0) * 2),
                        (layers, peer)):
                    ours(given)
                    traced = torch.jit.trace(ours, (given,), check_trace=False)
                    assert "fusegen::" in str(traced.inlined_graph)
                    for _ in range(2):
                        torch.testing.assert_close(traced(asked), theirs(asked))
        traced, given = torch.jit.trace(softmax, (x,)), other.clone().requires_grad_()
        found, = torch.autograd.grad((traced(given) * weight).sum(), given)
        torch.testing.assert_close(found, gradient(given))
        compiled(x)
        for refused in (lambda x: compiled(x), softmax.reference,
                        lambda x: softmax.finish(softmax.states(x))):
            with pytest.raises(fg.ArgumentError, match=r"recorded by torch\.jit\.trace"):
                torch.jit.trace(refused, (x,), check_trace=False)


def test_a_transposed_result_is_as_torch_would_have_it():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    p, x = fresh("topk"), torch.from_numpy(rows(4, 9, 3))
    for _ in range(3):
        values, indices = p(x, k=2, axis=1)
        want = torch.topk(x, 2, dim=1)
        assert torch.equal(values, want.values)
        assert torch.equal(indices, want.indices)


# ---- what it costs others ----


def test_threads_have_results_of_their_own():
    p, x = fresh("softmax"), [rows(9, 64, seed=s) for s in range(4)]
    wanted = [p(one) for one in x]
    in_threads(lambda i: [same(p(x[i]), wanted[i]) for _ in range(300)], 4)


@pytest.mark.parametrize("shape", [(9, 64), (900, 640)])
def test_a_forked_child_calls_as_its_parent_does(monkeypatch, shape):
    monkeypatch.setenv("FUSEGEN_THREADS", "3")
    p, x = fresh(), rows(*shape)
    want = p(x)
    same(p(x), want)

    def again():
        for _ in range(3):
            same(p(x), want)

    assert child(again) == 0
    same(p(x), want)


@pytest.mark.long
@LIBRARIES
def test_calls_leave_nothing_behind(there):
    p, two = fresh(), fresh("topk")
    x, out = there(rows(16, 256)), there(np.empty((16, 256), "f4"))
    refs = (x, out)

    def calls(n: int) -> None:
        for _ in range(n):
            p(x)
            p(x, out=out)
            two(x, k=3)

    calls(20)
    gc.collect()
    before = [sys.getrefcount(r) for r in refs]
    tracemalloc.start()
    calls(100)
    gc.collect()
    start = tracemalloc.get_traced_memory()[0]
    calls(1000)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - start
    tracemalloc.stop()
    assert [sys.getrefcount(r) for r in refs] == before
    assert grown < 10_000, f"{grown} bytes after 3000 calls"
    held = [resident()]
    for _ in range(3):
        calls(1000)
        held.append(resident())
    # What a call leaves, every call does; an allocator takes pages now and then, for good.
    assert min(b - a for a, b in itertools.pairwise(held)) < 30_000, f"3000 calls each: {held}"


def resident() -> float:
    """Bytes of memory that the process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_memory_of_calls_is_bounded(monkeypatch, looks):
    monkeypatch.setattr(remembered, "_MOST_CALLS", 3)
    p = fresh("logsumexp")
    for _ in range(2):
        for n in range(30, 40):
            x = rows(2, n)
            np.testing.assert_allclose(p(x), p.reference(x), rtol=1e-5)
    assert len(looks) > 15
