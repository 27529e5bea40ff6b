"""Tensor maps as parameters of launches: made for the addresses of each, kept for the next."""

from __future__ import annotations

import ctypes
import struct
import types
from typing import Any

import numpy as np
import pytest
import simt
from simt.testing import tensor_text
from support.emulated import emulated
from support.fake_gpu import Gpu

from fusegen.backend.cuda.run.driver import Driver, Geometry, Launcher
from fusegen.backend.cuda.run.tensor_maps import MAP_BYTES, Mapped, Tiled
from fusegen.ir.errors import BackendError

KEYS = Tiled("bfloat16", 2, (3, 1000, 100), (140_000, 112), 128)


class Library:
    """A driver that encodes its arguments as they are, and reads a launch's parameters."""

    def __init__(self, n_words: int, n_maps: int) -> None:
        self.n_words, self.n_maps = n_words, n_maps
        self.encoded: list[tuple[Any, ...]] = []
        self.launched: list[tuple[list[int], list[bytes]]] = []
        self.fails = 0

    def cuTensorMapEncodeTiled(self, room: Any, kind: Any, rank: Any, at: Any, *rest: Any) -> int:
        shape, strides, box, steps, *modes = rest
        assert (room.value % 64, rank.value, list(steps)) == (0, 3, [1, 1, 1])
        self.encoded.append((kind.value, at.value, list(shape), list(strides), list(box),
                             [m.value for m in modes]))
        ctypes.memset(room.value, 0, MAP_BYTES)
        ctypes.memmove(room.value, struct.pack("q", at.value), 8)
        return self.fails

    def cuLaunchKernelEx(self, room: Any, function: Any, parameters: Any, extra: Any) -> int:
        places = list(parameters)
        assert len(places) == self.n_words + self.n_maps
        words = [ctypes.c_int64.from_address(p).value for p in places[:self.n_words]]
        maps = [ctypes.string_at(p, MAP_BYTES) for p in places[self.n_words:]]
        self.launched.append((words, maps))
        return 0


def launcher(library: Library, *maps: Mapped) -> Launcher:
    driver: Driver = types.SimpleNamespace(library=library)  # type: ignore[assignment]
    return Launcher(driver, "k", 7, Geometry(grid=1, threads=32), 2, (5, 6), maps)


def told(library: Library) -> list[tuple[list[int], list[int]]]:
    """Words of every launch, and the addresses that its maps are of."""
    return [(words, [struct.unpack_from("q", m)[0] for m in maps])
            for words, maps in library.launched]


def test_maps_follow_the_words_and_are_of_the_pointers_of_their_launch():
    library = Library(4, 2)
    one = launcher(library, Mapped(1, KEYS), Mapped(0, KEYS))
    one.launch(0, (160, 320))
    one.launch(0, (640, 320))
    one.launch(0, (160, 320))
    assert told(library) == [([160, 320, 5, 6], [320, 160]), ([640, 320, 5, 6], [320, 640]),
                             ([160, 320, 5, 6], [320, 160])]
    assert len(library.encoded) == 3  # of each address and parameter once


def test_what_the_driver_is_told():
    library = Library(4, 1)
    launcher(library, Mapped(1, KEYS)).launch(0, (160, 320))
    shape, strides, box = [100, 1000, 3], [224, 280_000], [64, 128, 1]
    assert library.encoded == [(9, 320, shape, strides, box, [0, 3, 2, 0])]


def test_strides_of_axes_of_one_are_no_matter():
    library = Library(4, 1)
    launcher(library, Mapped(1, Tiled("float16", 2, (1, 1, 8), (3, 5), 64))).launch(0, (160, 320))
    assert library.encoded[0][:4] == (6, 320, [8, 1, 1], [16, 16])


def test_there_is_nothing_to_tell_of_an_empty_array():
    library = Library(4, 1)
    launcher(library, Mapped(1, Tiled("float16", 2, (2, 0, 8), (0, 8), 64))).launch(0, (160, 0))
    assert (library.encoded, library.launched[0][1]) == ([], [bytes(MAP_BYTES)])


def test_a_map_is_kept_for_a_launch_even_if_others_are_made_meanwhile():
    """As many addresses as come, one after another: every launch has its own."""
    library = Library(4, 1)
    one = launcher(library, Mapped(0, KEYS))
    for address in range(16, 16 * 600, 16):
        one.launch(0, (address, 1))
    assert [maps for _, maps in told(library)] == [[a] for a in range(16, 16 * 600, 16)]


def test_a_driver_that_refuses_is_named():
    library = Library(4, 1)
    library.fails = 1
    with pytest.raises(BackendError, match=r"no tensor map of .*bfloat16.* at 0x140: error 1"):
        launcher(library, Mapped(1, KEYS)).launch(0, (160, 320))


COPY = """
extern "C" __global__ void copy(const unsigned short* x, unsigned short* y, long long batch,
                                const __grid_constant__ TensorMap map) {
    __shared__ __align__(1024) unsigned short box[1024];
    __shared__ __align__(8) unsigned long long barrier;
    if (threadIdx.x == 0) {
        barrier_init(shared_address(&barrier), 1);
        barriers_ready();
        barrier_expect(shared_address(&barrier), sizeof box);
        copy_tile_3d(shared_address(box), &map, shared_address(&barrier), 64, 4, (int)batch);
    }
    __syncthreads();
    barrier_wait(shared_address(&barrier), 0);
    const unsigned first = shared_address(box);
    for (int i = threadIdx.x; i < 1024; i += 32) {
        const unsigned address = first + 2 * i;
        y[i] = box[((address ^ address / 128 % 8 * 16) - first) / 2];
    }
}
"""


@emulated
def test_kernels_copy_by_the_maps_of_their_launch() -> None:
    """By way of the driver: three batches of 10 rows of 100, in rows of 112."""
    gpu = Gpu()
    gpu.current = 0
    memory = gpu.allocate(2 * 3 * 10 * 112 + 2048, 0)
    x, y = memory[:-2048].view(np.uint16).reshape(3, 10, 112), memory[-2048:].view(np.uint16)
    x[:] = np.arange(1, x.size + 1).reshape(x.shape)
    function = gpu.module_of(simt.compile_module(tensor_text(COPY)))("copy").ptr
    tiled = Tiled("bfloat16", 2, (3, 10, 100), (10 * 112, 112), 16)
    driver: Driver = types.SimpleNamespace(library=gpu)  # type: ignore[assignment]
    one = Launcher(driver, "copy", function, Geometry(grid=1, threads=32), 2, (2,),
                   (Mapped(0, tiled),))
    one.launch(0, (x.ctypes.data, y.ctypes.data))
    expected = np.zeros((16, 64), np.uint16)
    expected[:6, :36] = x[2, 4:, 64:100]
    np.testing.assert_array_equal(y.reshape(16, 64), expected)
