"""Boxes of tensors: where their elements go, what lies outside, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simt import SimtError, TensorMap, available, compile_module
from simt.testing import Array, bits_of, run, tensor_text

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

COPY = """
extern "C" __global__ void k(const __grid_constant__ TensorMap map, unsigned* y, int bytes, int x0,
                             int x1, int x2, int x3, int x4) {
    extern __shared__ __align__(128) unsigned char raw[];
    const unsigned base = (shared_address(raw) + 1023) / 1024 * 1024, barrier = base + bytes;
    if (threadIdx.x == 0) {
        barrier_init(barrier, 1);
        barriers_ready();
        prefetch_map(&map);
        barrier_expect(barrier, bytes);
        COPY;
    }
    __syncthreads();
    barrier_wait(barrier, 0);
    const unsigned* words = reinterpret_cast<const unsigned*>(raw + (base - shared_address(raw)));
    for (int i = threadIdx.x; i < bytes / 4; i += 32) y[i] = words[i];
}
"""


def copied(map_: TensorMap, at: tuple[int, ...], copy: str = "") -> Array:
    """The bytes in shared memory of a box at `at`, the outermost dimension first."""
    rank = len(at)
    copy = copy or f"copy_tile_{rank}d(base, &map, barrier, " + ", ".join(
        f"x{i}" for i in range(rank)) + ")"
    y = np.zeros(map_.box_bytes, np.uint8)
    module = compile_module(tensor_text(COPY.replace("COPY;", f"{copy};")))
    module.launch("k", (1,), (32,), [map_, y.view(np.uint32), map_.box_bytes, *at[::-1],
                                     *[0] * (5 - rank)],
                  outputs={1}, shared_bytes=1024 + map_.box_bytes + 8)
    return y


def box_of(x: Array, at: tuple[int, ...], box: tuple[int, ...]) -> Array:
    """The box, zeros where it leaves the array."""
    result = np.zeros(box, x.dtype)
    for place in np.ndindex(*box):
        index = tuple(a + p for a, p in zip(at, place, strict=True))
        if all(0 <= i < n for i, n in zip(index, x.shape, strict=True)):
            result[place] = x[index]
    return result


def unswizzled(memory: Array) -> Array:
    """Rows of 128 bytes, whose 16 bytes number i lie at i ^ row % 8."""
    chunks = memory.reshape(-1, 8, 16)
    rows = np.arange(len(chunks))[:, None]
    return chunks[rows, np.arange(8) ^ rows % 8].reshape(memory.shape)


@pytest.mark.parametrize(
    ("shape", "box", "at"),
    [
        ((5, 64), (3, 16), (1, 32)),
        ((5, 64), (8, 16), (-2, 56)),
        ((3, 5, 24), (2, 4, 8), (2, 3, -4)),
        ((2, 3, 4, 8), (1, 2, 3, 8), (1, 2, 2, 0)),
        ((2, 3, 2, 4, 8), (2, 1, 2, 3, 4), (-1, 2, 0, 2, 4)),
        ((2, 3, 2, 4, 8), (1, 1, 1, 1, 4), (7, 0, 0, 0, 0)),
    ],
)
def test_boxes(shape: tuple[int, ...], box: tuple[int, ...], at: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1
    found = copied(TensorMap(x, box, swizzled=False), at)
    np.testing.assert_array_equal(found.view(np.float32).reshape(box), box_of(x, at, box))


@pytest.mark.parametrize("at", [(0, 0), (20, 64), (-3, -8)])
def test_swizzled(at: tuple[int, int]) -> None:
    """Also of an array whose rows are apart."""
    x = np.arange(30 * 200, dtype=np.uint16).reshape(30, 200)[:, :100]
    found = unswizzled(copied(TensorMap(x, (17, 64)), at))
    np.testing.assert_array_equal(found.view(np.uint16).reshape(17, 64), box_of(x, at, (17, 64)))


def test_rounded_to_tfloat32() -> None:
    x = np.random.default_rng(0).normal(size=(8, 32)).astype(np.float32)
    found = unswizzled(copied(TensorMap(x, (8, 32), tfloat32=True), (0, 0)))
    np.testing.assert_array_equal(found.view(np.uint32).reshape(8, 32), bits_of(x, "tfloat32"))


@pytest.mark.parametrize(
    ("copy", "pattern"),
    [
        ("copy_tile_2d(base + 16, &map, barrier, 0, 0)", "needs an alignment of 128 bytes"),
        ("copy_tile_3d(base, &map, barrier, 0, 0, 0)", "3 coordinates for a tensor of 2"),
        ("copy_tile_2d(base, &map, barrier, 1, 0)", "begins 2 bytes behind .* no multiple of 16"),
        ("copy_tile_2d(base + 1024, &map, barrier, 0, 0)", "out-of-bounds shared write|of dynamic"),
        ("copy_tile_2d(base, &map, barrier + 8, 0, 0)", "no mbarrier|out-of-bounds|uninitialised"),
        ("copy_tile_2d(base, reinterpret_cast<const TensorMap*>(y), barrier, 0, 0)",
         "a tensor map .* alignment of 64|no tensor map at"),
        ("barrier_expect(barrier, 0)", "more arrivals in this phase"),
        ("(void)0", "endless wait: .* lacks 0 of 1 arrivals and 2048 bytes that it expects"),
    ],
)
def test_misuse(copy: str, pattern: str) -> None:
    x = np.zeros((64, 64), np.uint16)
    with pytest.raises(SimtError, match=f"(?s){pattern}"):
        copied(TensorMap(x, (16, 64)), (0, 0), copy)


@pytest.mark.parametrize(
    ("x", "box", "more", "pattern"),
    [
        (np.zeros((300, 64), np.uint16), (257, 64), {}, "1 to 256 elements a dimension"),
        (np.zeros((8, 512), np.uint16), (8, 128), {}, "128 where it is swizzled"),
        (np.zeros((8, 512), np.uint16), (8, 12), {"swizzled": False}, "a multiple of 16"),
        (np.zeros((8, 100), np.uint16), (8, 64), {}, "multiples of 16 bytes"),
        (np.zeros((8, 128), np.uint16)[:, ::2], (8, 64), {}, "has gaps"),
        (np.zeros((8, 128), np.uint16)[:, 4:], (8, 64), {}, "multiples of 16 bytes"),
        (np.zeros((1,) * 5 + (64,), np.uint16), (1,) * 5 + (64,), {}, "1 to 5 dimensions"),
        (np.zeros((8, 64), np.uint16), (64,), {}, "1 to 5 dimensions"),
        (np.zeros((8, 64), np.uint16), (8, 64), {"tfloat32": True}, "only float32"),
    ],
)
def test_maps_that_do_not_exist(
    x: Array, box: tuple[int, ...], more: dict[str, Any], pattern: str
) -> None:
    with pytest.raises(ValueError, match=pattern):
        TensorMap(x, box, **more)


def test_nothing_is_copied_of_an_array_without_elements() -> None:
    x = np.zeros((0, 64), np.uint16)
    with pytest.raises(SimtError, match="no tensor map"):
        copied(TensorMap(x, (8, 64)), (0, 0))
    assert TensorMap.decoded(TensorMap(x, (8, 64)).encoded()).array.size == 0


def test_a_map_made_of_its_bytes() -> None:
    """Also where a dimension of one element has any stride."""
    x = np.arange(30 * 100, dtype=np.float32).reshape(30, 100)[:, None, :72]
    again = TensorMap.decoded(TensorMap(x[3:], (5, 1, 32), tfloat32=True).encoded())
    assert (again.box, again.swizzled, again.tfloat32) == ((5, 1, 32), True, True)
    np.testing.assert_array_equal(again.array, x[3:])


def test_a_map_is_no_other_argument() -> None:
    module = compile_module(tensor_text(COPY.replace("COPY;", ";")))
    map_ = TensorMap(np.zeros((8, 64), np.uint16), (8, 64))
    rest = [1024, 0, 0, 0, 0, 0]
    for args in ([map_, map_, *rest], [np.zeros(32, np.float32), np.zeros(32, np.uint32), *rest]):
        with pytest.raises(TypeError, match="argument"):
            module.launch("k", (1,), (32,), args, outputs={1})


def test_what_lies_around_the_array_is_not_read() -> None:
    """Boxes are of the array that the map was made of, and not of the one that it is a part of."""
    whole = np.full((10, 64), 7, np.uint16)
    found = copied(TensorMap(whole[2:5], (8, 64)), (-1, 0)).view(np.uint16).reshape(8, 64)
    np.testing.assert_array_equal(found.any(axis=1), [False, True, True, True, *[False] * 4])


@pytest.mark.parametrize("boundary", [16, 1024])
def test_the_dynamic_array_begins_where_it_is_declared_to(boundary: int) -> None:
    y = run(f"""
    extern __shared__ __align__({boundary}) float array[];
    __shared__ float before;
    before = 1.f;
    y[0] = __cvta_generic_to_shared(array) % {boundary} + before - 1.f;""", threads=1,
            shared_bytes=64)
    assert y[0] == 0
