"""Calls on a real GPU: graphs, streams, threads, devices, out=, and what a call costs the host."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegen as fg
from fusegen.ir.errors import BackendError

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("gpu_served_by")]

LAUNCH_TARGET, TORCH_TARGET = 1.5, 12.0  # bare launches; microseconds
ROUNDS = 200  # the fastest counts: others on the machine take processors away, and give none
SHAPES = ((1, 37), (40, 1024), (300, 5000), (2, 200_000))  # the last one splits its rows


def need_torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed")


def fresh(name: str) -> fg.Pipeline:
    return fg.Pipeline(getattr(fg.library, name).fn)


def rows(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def same(got: Any, want: Any) -> None:
    host = got.get() if hasattr(got, "get") else got.cpu().numpy()
    np.testing.assert_allclose(host, want, rtol=1e-5, atol=1e-7)


def on_cupy(x: np.ndarray) -> Any:
    import cupy

    return cupy.asarray(x)


def on_torch(x: np.ndarray) -> Any:
    return need_torch().from_numpy(x).cuda()


LIBRARIES = pytest.mark.parametrize("there", [on_cupy, on_torch], ids=["cupy", "torch"])


@LIBRARIES
@pytest.mark.parametrize("form", ["auto", "unfused"])
def test_calls_remembered_and_not_agree(there: Callable[..., Any], form: str) -> None:
    p = fresh("softmax")
    for shape in SHAPES:
        for seed in range(3):
            x = rows(*shape, seed=seed)
            same(p(there(x), form=form), p.reference(x))
            shifted = there(np.hstack([x[:, :1], x]))[:, 1:]
            same(p(shifted, form=form), p.reference(x))


@LIBRARIES
def test_out_is_written_and_what_overlaps_is_refused(there: Callable[..., Any]) -> None:
    p, memory = fresh("softmax"), there(rows(20, 512))
    x, out = memory[:10], memory[10:]
    want = p.reference(rows(20, 512)[:10])
    for _ in range(3):
        assert p(x, out=out) is out
        same(out, want)
        with pytest.raises(fg.ArgumentError, match="overlaps"):
            p(x, out=memory[5:15])
        with pytest.raises(fg.ArgumentError, match="overlaps"):
            p(memory[:, :200], out=memory[:, 199:399])

@LIBRARIES
@pytest.mark.parametrize("cut", [
    lambda m: (m[::2], m[1::2]), lambda m: (m[:, :200], m[:, 200:400]),
    lambda m: (m[:, 201:402], m[:, :201]),
], ids=["rows in turn", "columns side by side", "at odd places"])
def test_parts_of_one_array_that_share_nothing(there: Callable[..., Any], cut: Any) -> None:
    p, values = fresh("softmax"), rows(20, 512)
    x, out = cut(there(values.copy()))
    want = p.reference(cut(values)[0])
    for _ in range(3):
        assert p(x, out=out) is out
        same(out, want)
        same(x, cut(values)[0])



def test_gradients_are_recorded_however_often() -> None:
    torch, p = need_torch(), fresh("softmax")
    x = torch.randn(4, 100, device="cuda")
    for _ in range(3):
        assert not p(x).requires_grad
        assert p(x.clone().requires_grad_()).requires_grad


# ---- graphs ----


@pytest.mark.parametrize("form", ["auto", "unfused"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_cupy_graph_replays_on_new_data(shape: tuple[int, int], form: str) -> None:
    import cupy

    p, x = fresh("softmax"), cupy.asarray(rows(*shape))
    out = cupy.empty_like(x)
    p(x, out=out, form=form)
    p(x, form=form)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        p(x, out=out, form=form)
        made = p(x, form=form)
        graph = stream.end_capture()
    for seed in range(1, 4):
        new = rows(*shape, seed=seed)
        x.set(new)
        out.fill(cupy.nan)
        junk = [cupy.full(1 << 16, cupy.nan, "float32") for _ in range(64)]  # of memory given back
        cupy.cuda.Device().synchronize()
        graph.launch(stream)
        p(x, form=form)  # beside the graph, on another stream
        stream.synchronize()
        same(out, p.reference(new))
        same(made, p.reference(new))
        del junk


@pytest.mark.parametrize("form", ["auto", "unfused"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_torch_graph_replays_on_new_data(shape: tuple[int, int], form: str) -> None:
    torch, p = need_torch(), fresh("softmax")
    x = torch.from_numpy(rows(*shape)).cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            p(x, form=form)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first = p(x, form=form)
        second = p(first, form=form)
    for seed in range(1, 4):
        new = rows(*shape, seed=seed)
        x.copy_(torch.from_numpy(new))
        junk = [torch.full((1 << 16,), float("nan"), device="cuda") for _ in range(64)]
        graph.replay()
        torch.cuda.synchronize()
        want = p.reference(new)
        same(first, want)
        same(second, p.reference(want))
        del junk


def split_rows(seed: int) -> np.ndarray:
    """Rows that blocks share: what they leave for one another must be right for the next launch."""
    return rows(2, 200_000, seed=seed)


def test_a_torch_graph_of_many_launches() -> None:
    """More captured launches of rows that are split than any memory set aside for them."""
    torch, p, n = need_torch(), fresh("softmax_topk"), 1200
    x = torch.from_numpy(split_rows(0)).cuda()
    values = torch.empty(n, 2, 5, device="cuda")
    indices = torch.empty(n, 2, 5, device="cuda", dtype=torch.int64)
    p(x, k=5, out=(values[0], indices[0]))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(n):
            p(x, k=5, out=(values[i], indices[i]))
    x.copy_(torch.from_numpy(split_rows(5)))
    want = p.reference(split_rows(5), k=5)
    for _ in range(3):
        values.fill_(float("nan"))
        graph.replay()
        p(x, k=5)
        torch.cuda.synchronize()
        same(values, np.broadcast_to(want[0], (n, 2, 5)))
        np.testing.assert_array_equal(indices.cpu().numpy(), np.broadcast_to(want[1], (n, 2, 5)))


def test_split_rows_on_streams_and_in_a_graph_at_once() -> None:
    """A graph on one stream, ordinary calls on two others and from two threads."""
    import cupy

    p, x = fresh("softmax_topk"), cupy.asarray(split_rows(0))
    want = p.reference(split_rows(0), k=5)
    out = cupy.empty((2, 5), "float32"), cupy.empty((2, 5), "int64")
    p(x, k=5, out=out)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        for _ in range(5):
            p(x, k=5, out=out)
        graph = stream.end_capture()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with cupy.cuda.Stream(non_blocking=True) as own:
                for _ in range(20):
                    found = [p(x, k=5) for _ in range(10)]
                    own.synchronize()
                    for values, indices in found:
                        same(values, want[0])
                        np.testing.assert_array_equal(indices.get(), want[1])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for _ in range(50):
        graph.launch(stream)
        stream.synchronize()
        same(out[0], want[0])
        np.testing.assert_array_equal(out[1].get(), want[1])
    for t in threads:
        t.join()
    assert not failed, failed[0]


def test_compiling_during_a_capture_is_refused() -> None:
    import cupy

    p, x = fresh("norm2"), cupy.asarray(rows(4, 777))
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        try:
            with pytest.raises(BackendError, match="during a graph capture"):
                p(x)
        finally:
            stream.end_capture()
    same(p(x), p.reference(x.get()))


# ---- streams, threads, devices ----


@pytest.mark.parametrize("shape", SHAPES)
def test_cupy_streams(shape: tuple[int, int]) -> None:
    """What a stream has queued before is seen; two streams at a time do not disturb each other."""
    import cupy

    p, host = fresh("logsumexp"), [rows(*shape, seed=s) for s in range(4)]
    wanted = [p.reference(x) for x in host]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in host]
    x = [cupy.empty(shape, "float32") for _ in host]
    cupy.cuda.Device().synchronize()
    for _ in range(25):
        found = []
        for stream, array, values in zip(streams, x, host, strict=True):
            with stream:
                array.fill(cupy.nan)
                array.set(values, stream=stream)
                found.append(p(array))
        for stream, got, want in zip(streams, found, wanted, strict=True):
            stream.synchronize()
            same(got, want)


def test_torch_streams() -> None:
    torch, p = need_torch(), fresh("logsumexp")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for i in range(50):
            x = torch.full((64, 4096), float(i), device="cuda")
            torch.cuda._sleep(100_000)
            x += 1.0
            got = p(x)
            want = i + 1 + np.log(4096)
            assert float((got - want).abs().max()) < 1e-4


@LIBRARIES
def test_many_threads_at_once(there: Callable[..., Any]) -> None:
    """Threads with data and results of their own, on one pipeline and one stream."""
    p, host = fresh("logsumexp"), [rows(3, 4096, seed=s) for s in range(8)]
    given = [there(x) for x in host]
    wanted = [p.reference(x) for x in host]
    failed: list[BaseException] = []
    start = threading.Barrier(len(host))

    def work(i: int) -> None:
        try:
            start.wait()
            for _ in range(10):
                found = [p(given[i]) for _ in range(100)]
                for got in found[::25]:
                    same(got, wanted[i])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(host))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed[0]


def test_kernels_run_on_the_arrays_device() -> None:
    import cupy

    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two GPUs")
    p, x = fresh("softmax"), rows(30, 1000)
    want = p.reference(x)
    with cupy.cuda.Device(1):
        far = cupy.asarray(x)
    near = cupy.asarray(x)

    def both() -> None:
        for _ in range(3):
            for array, index in ((far, 1), (near, 0)):
                got = p(array)
                assert got.device.id == index
                assert cupy.cuda.Device().id == 0
                with cupy.cuda.Device(index):
                    same(got, want)

    both()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            both()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)  # which has no context yet
    thread.start()
    thread.join()
    assert not failed, failed[0]
    with pytest.raises(fg.ArgumentError, match="out is on GPU 0, the inputs on GPU 1"):
        p(far, out=cupy.empty_like(near))


def test_kernels_run_on_the_tensors_device() -> None:
    torch = need_torch()
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    p, x = fresh("softmax"), rows(30, 1000)
    torch.cuda.set_device(0)  # whatever tests before this one have left
    want, tensor = p.reference(x), torch.from_numpy(x).to("cuda:1")
    for _ in range(3):
        got = p(tensor)
        assert got.device.index == 1
        assert torch.cuda.current_device() == 0
        same(got, want)


# ---- cost ----


def test_host_cost() -> None:
    """Twice the targets, for machines differ; benchmarks/host_bench.py has the whole table."""
    import cupy
    from host_bench import bare_launch, calls_of, microseconds

    x = cupy.asarray(rows(16, 1024))
    bare = microseconds(bare_launch(), ROUNDS, min)
    for name, call in calls_of(fg.library.softmax, x, {}):
        spent = microseconds(call, ROUNDS, min)
        print(f"CuPy, {name}: {spent:.1f} µs, {spent / bare:.2f} bare launches of {bare:.1f} µs")
        assert spent <= 2 * LAUNCH_TARGET * bare, name


def test_host_cost_on_tensors() -> None:
    torch = need_torch()
    from host_bench import calls_of, microseconds

    x = torch.randn(16, 1024, device="cuda")
    for name, call in calls_of(fg.library.softmax, x, {}):
        spent = microseconds(call, ROUNDS, min)
        print(f"torch, {name}: {spent:.1f} µs")
        assert spent <= 2 * TORCH_TARGET, name
