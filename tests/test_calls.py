"""Calls on GPU arrays: remembered, laid out, on the right device and stream (fake_gpu.py)."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import simt
from support import fake_cupy, fake_torch
from support.fake_cupy import array

import fusegen as fg
from fusegen.pipeline import by_torch
from fusegen.pipeline import remembered as recall

pytestmark = [
    pytest.mark.skipif(simt.available() is not None, reason=str(simt.available())),
    pytest.mark.usefixtures("gpu_served_by"),
]


def fresh(name: str = "softmax") -> fg.Pipeline:
    """A library pipeline that remembers nothing yet."""
    return fg.Pipeline(getattr(fg.library, name).fn)


def rows(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def same(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got.get().astype(float), want, rtol=3e-6, atol=1e-7)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", [array, fake_torch.tensor])
def test_a_call_like_an_earlier_one_takes_no_full_look(gpu, looks, kind, compiled):
    p = fresh()
    call = p.compile(kind(rows(5, 70))) if compiled else p
    for seed in range(3):
        x = rows(5, 70, seed=seed)
        given = kind(x)
        got = call(given)
        assert type(got) is type(given)
        same(got, p.reference(x))
    assert len(looks) == 1 + compiled


def test_the_helper_serves_what_it_was_taught(gpu, gpu_served_by, monkeypatch):
    asked, python = [], recall.Recall.find
    monkeypatch.setattr(recall.Recall, "find", lambda *a: asked.append(a) or python(*a))
    for name, constants in (("softmax", {}), ("topk", {"k": 3}), ("layer_norm", {"eps": 0.5})):
        p, sides = fresh(name), [array(rows(120))] * 2 if name == "layer_norm" else []
        for _ in range(2):
            p(array(rows(5, 120)), *sides, **constants)
        asked.clear()
        for seed in range(3):
            x = rows(5, 120, seed=seed)
            got = p(array(x), *sides, **constants)
            want = p.reference(x, *(s.get() for s in sides), **constants)
            results = (r if isinstance(r, tuple) else (r,) for r in (got, want))
            for g, w in zip(*results, strict=True):
                np.testing.assert_allclose(g.get(), w, rtol=3e-6, atol=3e-6)
        assert len(asked) == (0 if gpu_served_by == "helper" else 3)
        gpu.fails = 719
        with pytest.raises(fg.BackendError, match="CUDA_ERROR_719"):
            p(array(rows(5, 120)), *sides, **constants)
        gpu.fails = 0


def test_what_looks_otherwise_is_looked_at(gpu, looks):
    p = fresh()
    for given in (array(rows(5, 70)), array(rows(5, 70), shift=1), array(rows(5, 71)),
                  array(rows(5, 70).astype("f8")), array(rows(5, 140))[:, :70],
                  array(rows(5, 70), index=1), fake_torch.tensor(rows(5, 70)),
                  array(rows(5, 70).astype("f2"))):
        before, want = len(looks), p.reference(given.get())
        for _ in range(2):
            np.testing.assert_allclose(p(given).get(), want, rtol=2e-3, atol=1e-4)
        assert len(looks) == before + 1


@pytest.mark.long
def test_constants_axes_and_names_are_told_apart(gpu, looks):
    p, x = fresh("topk"), rows(6, 9)
    for call in ({"k": 2}, {"k": 3}, {"k": 3, "axis": 0}):
        wanted = p.reference(x, **call)
        for _ in range(2):
            for got, want in zip(p(array(x), **call), wanted, strict=True):
                np.testing.assert_array_equal(got.get(), want)
    assert len(looks) == 2 + 2  # axis 0 needs a copy, so it is looked at each time
    before = len(looks)
    norm = fresh("layer_norm")
    w, b = rows(9, seed=1), rows(9, seed=2)
    for _ in range(2):
        same(norm(array(x), weight=array(w), bias=array(b)), norm.reference(x, w, b))
        same(norm(array(x), weight=array(b), bias=array(w)), norm.reference(x, b, w))
        same(norm(array(x), array(w), array(b), eps=0.5), norm.reference(x, w, b, eps=0.5))
        same(norm(array(x), None, array(b)), norm.reference(x, None, b))
        same(norm(array(x), array(b)), norm.reference(x, b))
        same(norm(array(x), array(w), array(b), eps=1e-5), norm.reference(x, w, b, eps=1e-5))
    assert len(looks) - before == 5
    with pytest.raises(fg.ArgumentError, match="constant eps is list"):
        norm(array(x), eps=[1.0])


def test_an_axis_that_needs_no_copy_is_remembered(gpu, looks):
    p, x = fresh("topk"), rows(9, 6)
    lying = array(x).transpose(1, 0)
    for kind in (lambda: lying, lambda: fake_torch.tensor(x).permute((1, 0))):
        for _ in range(2):
            for got, want in zip(p(kind(), k=2, axis=0), p.reference(x.T, k=2, axis=0),
                                 strict=True):
                assert got.shape == want.shape
                np.testing.assert_array_equal(got.get(), want)
    assert len(looks) == 2


def test_results_are_written_where_out_says(gpu, looks):
    p, x = fresh("topk"), rows(4, 33)
    wanted = p.reference(x, k=2)
    for _ in range(2):
        values, indices = array(np.zeros((4, 2), "f4")), array(np.zeros((4, 2), "i8"))
        got = p(array(x), k=2, out=(values, indices))
        assert got[0] is values
        assert got[1] is indices
        np.testing.assert_array_equal(values.get(), wanted[0])
        np.testing.assert_array_equal(indices.get(), wanted[1])
        got = p(array(x), k=2, out=(None, indices))
        assert got[1] is indices
        np.testing.assert_array_equal(got[0].get(), wanted[0])
        with pytest.raises(fg.ShapeError, match="has shape"):
            p(array(x), k=2, out=(array(np.zeros((4, 3), "f4")), indices))
        with pytest.raises(fg.ArgumentError, match="a tuple of 2"):
            p(array(x), k=2, out={0: values, 1: indices})
        with pytest.raises(fg.ArgumentError, match="a tuple of 2"):
            p(array(x), k=2, out=(values, indices, None))
    assert len(looks) == 2 + 3 * 2

    @fg.pipeline
    def named(x: Any) -> Any:
        return {"least": fg.min(x), "most": fg.max(x)}

    before = len(looks)
    for _ in range(2):
        most = array(np.zeros(4, "f4"))
        got = named(array(x), out={"least": None, "most": most})
        assert got["most"] is most
        np.testing.assert_array_equal(got["least"].get(), x.min(1))
        np.testing.assert_array_equal(most.get(), x.max(1))
    assert len(looks) == before + 1

    one, out = fresh("logsumexp"), array(np.zeros(4, "f4"))
    for _ in range(2):
        assert one(array(x), out=out) is out
        same(out, one.reference(x))


def test_out_that_overlaps_is_refused_however_often(gpu, looks):
    p, memory = fresh(), array(rows(12, 64))
    x, apart = memory[:5], memory[6:11]
    for _ in range(2):
        same(p(x, out=apart), p.reference(x.get()))
    for overlapping in (memory[4:9], memory[:5], memory[1:6]):
        with pytest.raises(fg.ArgumentError, match="overlaps the input x"):
            p(x, out=overlapping)
    before = len(looks)
    for _ in range(2):  # rows in turn share nothing
        same(p(memory[::2], out=memory[1::2]), p.reference(memory[::2].get()))
    assert len(looks) == before + 1
    two = fresh("topk")
    values = array(np.zeros((4, 2), "f4"))
    indices = array(np.zeros((9, 2), "i8"))
    two(array(rows(4, 33)), k=2, out=(values, indices[:4]))
    half = Overlap.of(indices)
    with pytest.raises(fg.ArgumentError, match="overlap"):
        two(array(rows(4, 33)), k=2, out=(half, indices[:4]))


class Overlap:
    @staticmethod
    def of(indices: Any) -> Any:
        """float32 values in the memory of the first indices."""
        return indices[:2].view(np.float32).reshape(4, 2)


def test_negated_views_are_refused_and_gradients_torchs_however_often(gpu, monkeypatch):
    class Helper:
        @staticmethod
        def call(pipeline, arrays, named, out, rest):
            return "recorded"

    monkeypatch.setattr(by_torch, "_find", [lambda: Helper])
    p, x = fresh(), rows(3, 40)
    tensor = fake_torch.tensor
    for _ in range(2):
        same(p(tensor(x)), p.reference(x))
        same(p(tensor(x, kind=fake_torch.Parameter)), p.reference(x))
        assert p(tensor(x, requires_grad=True)) == "recorded"
        with pytest.raises(fg.ArgumentError, match="requires a gradient"):
            p(tensor(x), out=tensor(x, requires_grad=True))
        with pytest.raises(fg.ArgumentError, match="negates"):
            p(tensor(x, negated=True))
        with monkeypatch.context() as patch:
            patch.setattr(fake_torch.Tensor, "recording", False)  # torch.no_grad()
            same(p(tensor(x, kind=fake_torch.Parameter, requires_grad=True)), p.reference(x))


def test_bfloat16_comes_back_as_it_went_in(gpu, looks):
    p, x = fresh(), rows(3, 40).astype(ml_dtypes.bfloat16)
    want = p.reference(x)
    for _ in range(2):
        got = p(array(x))
        assert got.dtype == x.dtype
        np.testing.assert_allclose(got.get().astype(float), want, rtol=2e-2)
        given = fake_torch.tensor(x.view(np.int16)).view(sys.modules["torch"].bfloat16)
        tensor = p(given)
        assert tensor.dtype is given.dtype
        np.testing.assert_allclose(tensor.get().view(x.dtype).astype(float), want, rtol=2e-2)
    assert len(looks) == 2


def test_launches_follow_the_arrays_device(gpu):
    """Device 1 while 0 is current, and threads that have not met any device."""
    p, x = fresh(), rows(3, 40)

    def call(kind: Any, index: int) -> None:
        assert gpu.current == 0
        same(p(kind(x, index)), p.reference(x))
        assert gpu.launched[-1]["device"] == index
        assert gpu.current == 0

    for kind in (array, fake_torch.tensor):
        for index in (1, 0, 1):
            call(kind, index)
            in_thread(call, kind, index)
    with pytest.raises(fg.ArgumentError, match="x on GPU 0, weight on GPU 1"):
        fresh("layer_norm")(array(x), array(rows(40), index=1))
    with pytest.raises(fg.ArgumentError, match="out is on GPU 1, the inputs on GPU 0"):
        p(array(x), out=array(x, index=1))


def in_thread(work: Any, *args: Any) -> None:
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work(*args)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def test_launches_go_to_the_callers_stream(gpu):
    p, x = fresh(), rows(3, 40)
    for _ in range(2):
        with gpu.on_stream(0x51), gpu.on_stream(0x52, "torch"), gpu.on_stream(0x53, index=1):
            p(array(x))
            p(fake_torch.tensor(x))
            p(array(x, index=1))
    assert [n["stream"] for n in gpu.launched] == 2 * [0x51, 0x52, 0x53]


def test_threads_do_not_share_arguments(gpu):
    """Launches that let go of the lock while others are made: the fake reads arguments twice."""
    p, gpu.pause = fresh("logsumexp"), 0.002
    xs = [rows(2, 36, seed=s) for s in range(4)]
    wanted = [p.reference(x) for x in xs]
    p(array(xs[0]))
    failed = []

    def work(i: int) -> None:
        try:
            for _ in range(8):
                same(p(array(xs[i])), wanted[i])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


@pytest.mark.long
def test_memory_of_calls_is_bounded(gpu, looks, monkeypatch):
    monkeypatch.setattr(recall, "_MOST_CALLS", 3)
    p = fresh("logsumexp")
    for n in range(30, 40):
        p(array(rows(2, n)))
    assert len(p.traces.recall._ready) <= 3


def test_zero_rows_and_other_libraries_arrays_take_the_full_look(gpu, looks):
    p = fresh()
    for _ in range(2):
        assert p(array(rows(0, 7))).shape == (0, 7)
    assert len(looks) == 2
    assert not gpu.launched
    x = rows(3, 40)
    for index in (1, 0):
        for _ in range(2):
            got = p(Other(x, index))
            assert type(got) is fake_cupy.Array
            assert gpu.launched[-1]["device"] == index
            same(got, p.reference(x))
    assert len(looks) == 2 + 4


class Other:
    """Another library's array: all that is known of it is where its memory is."""

    def __init__(self, values: np.ndarray, index: int) -> None:
        self._array = array(values, index)
        self.host, self.index = self._array.host, index
        self.__cuda_array_interface__ = self._array.__cuda_array_interface__


@pytest.mark.long
def test_nothing_is_unloaded_while_a_stream_is_captured(gpu, monkeypatch):
    """The garbage collector may run at any time."""
    loaded, x = weakref.WeakSet(), array(rows(5, 120))
    functions = sys.modules["cupy"].cuda.function

    class Module(functions.Module):
        def __init__(self):
            loaded.add(self)

    monkeypatch.setattr(functions, "Module", Module)
    stays, goes = fresh(), fresh("logsumexp")
    for p in (stays, goes, stays, goes):
        p(x)
    del p, goes
    with gpu.on_stream(0x51), gpu.capture(0x51):
        stays(x)
        gc.collect()
        assert len(loaded) == 2
    fresh("entropy")(x)
    assert len(loaded) == 2


@pytest.mark.long
@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_what_a_graph_launches_stays_when_its_pipeline_is_gone(gpu, looks, monkeypatch, library):
    """Also what compiled calls launch: a captured stream is the full look's."""
    loaded, x = weakref.WeakSet(), rows(5, 120)
    functions = sys.modules["cupy"].cuda.function

    class Module(functions.Module):
        def __init__(self):
            loaded.add(self)

    monkeypatch.setattr(functions, "Module", Module)
    static = {"cupy": array, "torch": fake_torch.tensor}[library](x)
    p = fresh()
    p(static)
    p(static)
    with gpu.on_stream(0x51, library), gpu.capture(0x51):
        made = p(static)
    del p
    gc.collect()
    fresh("entropy")(array(x))  # the next that is loaded unloads what is gone
    gc.collect()
    assert len(loaded) == 2
    del made


def test_a_graph_replays_on_new_data(gpu, looks):
    p, x, y = fresh(), rows(3, 40), rows(3, 40, seed=1)
    for kind, library in ((array, "cupy"), (fake_torch.tensor, "torch")):
        static, out = kind(x), kind(np.zeros_like(x))
        p(static, out=out)
        with gpu.on_stream(0x77, library), gpu.capture(0x77) as graph:
            p(static, out=out)
            made = p(static)
        static.host[...] = y
        gpu.replay(graph)
        same(out, p.reference(y))
        same(made, p.reference(y))


@pytest.mark.parametrize("form", ["auto", "unfused"])
def test_blocks_that_share_rows_serve_calls_and_graphs_in_turn(gpu, looks, form):
    """Whatever they leave behind for one another is right again for the next launch."""
    p, x = fresh("softmax_topk"), array(rows(1, 70_001))
    out = values, indices = array(np.zeros((1, 5), "f4")), array(np.zeros((1, 5), "i8"))
    p(x, k=5, out=out, form=form)
    with gpu.on_stream(0x77), gpu.capture(0x77) as graph:
        p(x, k=5, out=out, form=form)
    assert max(n["grid"] for n in gpu.launched) > 1
    for seed in range(3):
        x[...] = rows(1, 70_001, seed=seed)
        wanted = p.reference(x.get(), k=5)
        for write in (lambda: p(x, k=5, out=out, form=form), lambda: gpu.replay(graph)):
            values[...], indices[...] = np.float32(-1), -1
            write()
            same(values, wanted[0])
            np.testing.assert_array_equal(indices.get(), wanted[1])
    assert len(looks) == 1


def test_what_is_compiled_may_be_captured_at_once(gpu):
    p, x = fresh(), array(rows(3, 40), index=1)
    out = array(np.zeros((3, 40), "f4"), index=1)
    compiled = p.compile(x)
    assert not gpu.launched
    with gpu.on_stream(0x77, index=1), gpu.capture(0x77) as graph:
        compiled(x, out=out)
    gpu.replay(graph)
    same(out, p.reference(x.get()))
    assert p.compile(x, target="cpu").source
    assert p.compile(x[:0]).source


def test_compiling_during_a_capture_is_refused(gpu):
    p, x = fresh(), array(rows(3, 40))
    refused = pytest.raises(fg.BackendError, match=r"during a graph capture\. Call it once")
    with gpu.on_stream(0x77), gpu.capture(0x77), refused:
        p(x)
    p(x)
    with gpu.on_stream(0x77), gpu.capture(0x77):
        p(x)
