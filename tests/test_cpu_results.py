"""Full rows of results that go past the caches: the same bits wherever arrays lie."""

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np
import pytest
from support.cpu_cases import executable

import fusegen as fg
from fusegen.backend.cpu import past
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.target import host_cpu, runnable
from fusegen.ir import dtypes as dt

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")

LINE = 64
LENGTHS = (1, 7, 255, 256, 257, 300, 513, 1021, 1024, 1031, 2500)
BEFORE = 0xA5


def softmax(x):
    e = fg.exp(x - fg.max(x))
    return e / fg.sum(e)


def centred(x):
    """Two arrays of one type, one of them in the first sweep."""
    return {"twice": x + x, "centred": x - fg.mean(x)}


def whole(n, b):
    """Elements of eight bytes, of four and of one in one sweep."""
    m = fg.max(n)
    return {"short": fg.cast(m - n, "int32"), "long": n - m, "is_most": (n == m) & b}


def quantised(x):
    """Of an eighth of what is computed with, where that is float64."""
    a = fg.max(fg.abs(x))
    return {"q": fg.cast(fg.round(x / a * 127), "int8"), "a": a}


def _floats(rng, shape, dtype):
    return (rng.normal(0, 3, shape).astype(dtype),)


CASES = {
    **{f"softmax {np.dtype(t).name}": (softmax, partial(_floats, dtype=t))
       for t in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)},
    "centred": (centred, partial(_floats, dtype=np.float32)),
    "centred bfloat16": (centred, partial(_floats, dtype=ml_dtypes.bfloat16)),
    "whole": (whole, lambda rng, shape: (rng.integers(-9, 9, shape), rng.random(shape) < 0.5)),
    "quantised": (quantised, partial(_floats, dtype=np.float64)),
}


def _room(shape, dtype, gap, offset):
    """(All bytes, an array of this shape among them): rows are so many elements further apart than
    they are long, and begin so many elements behind a line."""
    rows, cols = shape
    size = np.dtype(dtype).itemsize
    held = np.full((rows * (cols + gap) + offset) * size + 3 * LINE, BEFORE, np.uint8)
    first = -held.ctypes.data % LINE + LINE + offset * size
    part = held[first : first + rows * (cols + gap) * size].view(dtype)
    return held, part.reshape(rows, cols + gap)[:, :cols]


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_and_no_others(name, monkeypatch):
    """Rows one after the other and apart, at every place of a line, arrays in step or not, by one
    thread and by several: what is written past the caches, and what lies around it."""
    text, make = CASES[name]
    rng = np.random.default_rng(len(name))
    for cols in LENGTHS:
        inputs = make(rng, (5, cols))
        monkeypatch.setattr(past, "last_cache", lambda: 1 << 60)
        want = fg.pipeline(text)(*inputs)
        monkeypatch.setattr(past, "last_cache", lambda: -1)
        p = fg.pipeline(text)
        wanted = want if isinstance(want, dict) else {"": want}
        for gap, offset, later in ((0, 0, 0), (0, 1, 1), (3, 5, 2), (64, 0, 8)):
            rooms = {n: _room(w.shape, w.dtype, gap, offset + i * later)
                     for i, (n, w) in enumerate(wanted.items()) if w.ndim == 2}
            monkeypatch.setenv("FUSEGEN_THREADS", "3" if gap else "1")
            out = {n: a for n, (_, a) in rooms.items()} | {
                n: np.empty_like(w) for n, w in wanted.items() if w.ndim < 2}
            p(*inputs, out=out if isinstance(want, dict) else out[""])
            for n, w in wanted.items():
                assert out[n].tobytes() == w.tobytes(), (cols, gap, offset, n)
            for held, array in rooms.values():
                array[...] = np.full(1, BEFORE, np.uint8).repeat(array.itemsize).view(array.dtype)
                assert (held == BEFORE).all(), (cols, gap, offset)


LEVELS = {t.vector_bytes: t for t in reversed(runnable(host_cpu()))}  # one of each width
TYPES = (dt.BOOL, dt.INT8, dt.UINT8, dt.INT16, dt.INT32, dt.INT64, dt.FLOAT16, dt.BFLOAT16,
         dt.FLOAT32, dt.FLOAT64)


@pytest.mark.parametrize("target", LEVELS.values(), ids=lambda t: t.name)
@pytest.mark.parametrize("compute", [dt.FLOAT32, dt.FLOAT64], ids=str)
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_every_type_goes_past_from_vectors_of_every_width(kind, compute, target, monkeypatch):
    """A vector of results may be wider than a store of the processor, or narrower."""
    monkeypatch.setattr(past, "last_cache", lambda: -1)

    def text(v, x):
        return {"copied": v, "scaled": x * 0.5}

    found = executable(text, dtypes=(("v", kind), ("x", compute)), target=target)
    rng, cols = np.random.default_rng(1), 4096 + 13
    v = rng.integers(0, 2 if kind is dt.BOOL else 100, (3, cols)).astype(kind.numpy)
    x = rng.normal(size=(3, cols)).astype(compute.numpy)
    made = {p.name: _room(x.shape, p.dtype.numpy, 0, 0)[1] for p in found.program.outputs}
    found({"v": v, "x": x, **made}, 3, cols)
    for name, want in (("copied", v), ("scaled", x * x.dtype.type(0.5))):
        np.testing.assert_array_equal(made[name], want.astype(made[name].dtype))


def test_one_long_row_in_pieces(monkeypatch):
    """Threads share it; each tells the others what it has written."""
    x = np.random.default_rng(0).normal(size=(1, 600_001)).astype("f4")
    want = fg.pipeline(softmax)(x)
    monkeypatch.setattr(past, "last_cache", lambda: -1)
    monkeypatch.setenv("FUSEGEN_THREADS", "3")
    assert fg.pipeline(softmax)(x).tobytes() == want.tobytes()


def test_only_results_of_many_bytes_go_past():
    """Bytes that are written, of all rows."""
    p = fg.pipeline(centred)
    rows = past.last_cache() // (past.SHARE * 2 * 4 * 1000)  # two arrays are written
    for n, goes_past in ((rows - 1, False), (rows + 1, True)):
        made = p.prepare((np.empty((n, 1000), "f4"),), {}).executable
        each = past.column_bytes(made.program.kernels[0])
        assert past.outgrow_caches(n * 1000 * each) is goes_past
