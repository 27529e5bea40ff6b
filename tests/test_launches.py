"""Launches on a machine whose kernels do nothing: geometry, arguments, scratch memory, tickets."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support import fake_gpu, fake_torch
from support.fake_cupy import array
from test_calls import rows

import fusegen as fg
from fusegen.backend.cuda.run import executable as ex
from fusegen.backend.cuda.run import tickets
from fusegen.backend.cuda.run.driver import Driver, Geometry, Launcher
from fusegen.backend.cuda.schedule.launch import Launch
from fusegen.backend.cuda.schedule.tiles.scratch import Scratch
from fusegen.ir.errors import BackendError, InternalError

Change = Callable[[tuple[Launch, ...]], tuple[Launch, ...]]


@pytest.fixture
def gpu(gpu: fake_gpu.Gpu, monkeypatch: pytest.MonkeyPatch) -> fake_gpu.Gpu:
    """Kernels without code: what a launch says is all that counts."""
    empty = types.SimpleNamespace(load=lambda _: None, get_function=gpu.module_of(None))
    monkeypatch.setattr(sys.modules["cupy"].cuda.function, "Module", lambda: empty)
    return gpu


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., fg.Pipeline]:
    """A row sum whose launch is another one in these fields."""

    def make(**fields: Any) -> fg.Pipeline:
        plain = ex.launches
        monkeypatch.setattr(
            ex, "launches", lambda *a: tuple(replace(n, **fields) for n in plain(*a)))

        @fg.pipeline
        def total(x: Any) -> Any:
            return fg.sum(x)

        return total

    return make


def test_arguments_are_pointers_scratch_strides_and_sizes(gpu):
    x = array(rows(9, 50))[::2][:, :33]
    out = array(np.zeros(5, "f4"))
    w = array(rows(33, seed=1))
    p = fg.pipeline(weighted)
    for _ in range(2):
        p(x, w, out=out)
        (seen,) = gpu.launched
        assert seen["words"] == [x.data.ptr, w.data.ptr, out.data.ptr, 100, 5, 33]
        gpu.launched.clear()


def weighted(x: Any, w: fg.PerColumn) -> Any:
    return fg.sum(x * w)


def test_a_cluster_that_does_not_fit_is_named(gpu, changed):
    gpu.fits = 8
    total = changed(rows_per_block=1, grid_rows=16, cluster=16)
    with pytest.raises(BackendError, match="needs 16 blocks at once, this device holds 0"):
        total(array(rows(3, 5000)))


def test_a_launch_has_its_geometry_and_attributes(gpu, changed):
    gpu.fits = 16
    total = changed(threads=256, rows_per_block=1, grid_rows=16, shared_bytes=100_000, cluster=16)
    for _ in range(2):
        total(array(rows(3, 5000)))
        seen = gpu.launched[-1]
        assert (seen["grid"], seen["threads"], seen["shared"]) == (48, 256, 100_000)
        assert seen["attributes"] == {4: (16, 1, 1)}
    (function,) = gpu.functions
    assert gpu.attributes == {(function, 8): 100_000, (function, 14): 1}


def test_executables_of_one_source_share_its_functions_permissions(gpu):
    driver = Driver(gpu)
    driver.allow(7, 48_000, 1)
    assert not gpu.attributes
    for wanted in (49_000, 90_000, 60_000, 0):
        driver.allow(7, wanted, 1)  # beside 400 bytes of static shared memory
        assert gpu.attributes[7, 8] >= wanted
    assert gpu.attributes == {(7, 8): 90_000}


def test_blocks_that_wait_for_one_another_fit_the_device(gpu, changed):
    gpu.fits = 10
    total = changed(rows_per_block=1, grid_rows=4, together=True)
    total(array(rows(3, 5000)))
    seen = gpu.launched[-1]
    assert seen["grid"] == 8  # two rows at a time
    assert seen["attributes"] == {2: (1, 0, 0)}
    gpu.fits = 2
    with pytest.raises(BackendError, match=r"needs 4 blocks at once, this device holds 2"):
        total(array(rows(4, 5000)))


def test_clusters_that_wait_for_one_another_fit_the_device(gpu, changed):
    gpu.fits = 17
    total = changed(rows_per_block=1, grid_rows=4, cluster=4, together=True)
    total(array(rows(100, 5000)))
    seen = gpu.launched[-1]
    assert seen["grid"] == 16
    assert seen["attributes"] == {4: (4, 1, 1), 2: (1, 0, 0)}


def test_blocks_come_in_whole_clusters(gpu, changed):
    with pytest.raises(InternalError, match="3 blocks in clusters of 2"):
        changed(rows_per_block=1, grid_rows=1, cluster=2)(array(rows(3, 50)))


def test_scratch_lies_in_one_allocation_apart_and_aligned(gpu, changed):
    scratch = (Scratch("states", "states", "row", 3, 8), Scratch("slots", "slots", "team", 5, 16))
    total = changed(scratch=scratch, rows_per_block=1, threads=128)
    for kind in (array, fake_torch.tensor):
        for _ in range(2):
            total(kind(rows(2, 5000)))
            _, _, states, slots, *_ = gpu.launched[-1]["words"]
            assert states % 256 == 0
            assert slots - states == 256  # 2 rows × 3 × 8 bytes, rounded up


def test_an_error_is_named(gpu, changed):
    total = changed()
    x = array(rows(3, 50))
    total(x)
    gpu.fails = 719
    with pytest.raises(BackendError, match=r"launching .*: CUDA_ERROR_719"):
        total(x)


def test_a_driver_that_is_too_old_is_named():
    with pytest.raises(BackendError, match="cuGetErrorName: it is older than CUDA 12"):
        Driver(object())


def test_a_launch_inside_a_launch_has_arguments_of_its_own(gpu):
    """A finalizer may run between two lines of a launch."""
    gpu.current = 0
    gpu.functions[7] = (None, "outer", 0)
    launcher = Launcher(Driver(gpu), "outer", 7, Geometry(grid=1, threads=32), 1, (5, -6))
    inner = iter([1])

    class Eleven:
        def __index__(self) -> int:
            for _ in inner:
                launcher.launch(0, [22])
            return 11

    launcher.launch(0, [Eleven()])
    assert [n["words"] for n in gpu.launched] == [[22, 5, -6], [11, 5, -6]]


# ---- tickets ----

TURNS = (Scratch("turns", "tickets", "row", 2, 8),)


def turns(gpu: fake_gpu.Gpu) -> int:
    """Address of the tickets in the latest launch."""
    return int(gpu.launched[-1]["words"][2])


def test_tickets_are_zeroed_once_per_stream_and_geometry(gpu, changed):
    total = changed(scratch=TURNS, rows_per_block=1)
    x = array(rows(3, 5000))
    found = {}
    for handle in (0, 0x51, 0, 0x51):
        with gpu.on_stream(handle):
            total(x)
            found.setdefault(handle, set()).add(turns(gpu))
    assert [len(s) for s in found.values()] == [1, 1]
    assert found[0] != found[0x51]
    ours = [z for z in gpu.zeroed if z[0] in found[0] | found[0x51]]
    assert [(size, stream) for _, size, stream in ours] == [(48, 0), (48, 0x51)]
    total(array(rows(4, 5000)))
    assert turns(gpu) not in found[0] | found[0x51]
    with gpu.on_stream(0x51, "torch"):
        total(fake_torch.tensor(rows(3, 5000)))
    assert turns(gpu) in found[0x51]


def test_a_handle_that_recurs_is_another_stream(gpu, changed):
    total = changed(scratch=TURNS, rows_per_block=1)
    x = array(rows(3, 5000))
    with gpu.on_stream(0x51):
        total(x)
        before = turns(gpu)
        gpu.stream_ids[0x51] = 1234
        total(x)
    assert turns(gpu) != before


def test_captured_launches_have_tickets_of_their_own(gpu, changed, monkeypatch):
    monkeypatch.setattr(tickets, "ARENA_BYTES", 600)
    total = changed(scratch=TURNS, rows_per_block=1)
    x = array(rows(3, 5000))
    with gpu.on_stream(0x51):
        total(x)
        eager = turns(gpu)
        (arena,) = [z[0] for z in gpu.zeroed if z[1] == 600]
        with gpu.capture(0x51) as graph:
            seen = []
            for _ in range(4):
                total(x)
                seen.append(turns(gpu))
        total(x)
    assert turns(gpu) == eager
    assert seen[:2] == [arena, arena + 256]
    assert len({eager, *seen}) == 5
    assert len(graph) == 4 + 2  # what the arena does not hold is zeroed by nodes of the graph
    gpu.replay(graph)  # their memory is still there


def test_tickets_of_many_streams_start_afresh(gpu, changed, monkeypatch):
    monkeypatch.setattr(tickets, "_MOST_COUNTERS", 4)
    total = changed(scratch=TURNS, rows_per_block=1)
    x = array(rows(3, 5000))
    for handle in range(100, 120):
        with gpu.on_stream(handle):
            total(x)
    assert sum(z[1] == 48 for z in gpu.zeroed) == 20
    assert len(total.traces.recall._ready) == 1


# ---- graphs ----


def test_scratch_of_captured_launches_is_kept(gpu):
    """Replays come when the call is long over; memory given back would be another's."""
    p = fg.Pipeline(fg.library.softmax.fn)
    x = array(rows(3, 5000))
    p(x, form="unfused")
    eager = gpu.launched[0]["words"]
    out = array(np.zeros((3, 5000), "f4"))
    p(x, form="unfused", out=out)
    gpu.launched.clear()
    with gpu.on_stream(0x51), gpu.capture(0x51) as graph:
        p(x, form="unfused", out=out)
    assert len(graph) > 1
    assert eager
    for seen in gpu.launched:
        pointers = [w for w in seen["words"] if w > 1 << 32]
        assert all(gpu.reach(pointer, 0) for pointer in pointers)


def test_copies_of_captured_launches_are_kept(gpu):
    p = fg.Pipeline(fg.library.logsumexp.fn)
    x = array(rows(3, 80))[:, ::2]
    p(x)
    with gpu.on_stream(0x51), gpu.capture(0x51):
        p(x)
    read = gpu.launched[-1]["words"][0]
    assert read != x.data.ptr
    assert gpu.reach(read, 0)
