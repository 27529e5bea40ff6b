"""The end of a row on CPUs, whatever its length: parts of vectors, parts of chunks, kept terms."""

from __future__ import annotations

import ctypes
import mmap
import sys
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from support.cpu_cases import executable, run
from support.cpu_cases import softmax as textbook_softmax
from support.forked import child

import fusegen as fg
from fusegen.backend.cpu.emit.kept import KEPT_BYTES, kept_terms
from fusegen.backend.cpu.schedule import CHUNK_BYTES
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.host.chunks import PIECE_COLUMNS
from fusegen.backend.target import host_cpu, runnable
from fusegen.ir import dtypes as dt
from fusegen.ir.expr import Var, walk
from fusegen.ir.kernel import Let

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")

CHUNK = CHUNK_BYTES // 4  # of float32
LENGTHS = (1, 2, 15, 16, 17, 31, 33, *(CHUNK + n for n in (-257, -1, 0, 1, 7, 15, 16, 17, 255)),
           2 * CHUNK, 2 * CHUNK + 16, 3 * CHUNK + 9)
TOLERANCE = {np.float32: 3e-6, np.float64: 1e-14, ml_dtypes.bfloat16: 8e-3, np.float16: 1e-3}


@fg.pipeline
def terms(x):
    """Exponentials without a division, and their sum."""
    e = fg.exp(x - fg.max(x))
    return {"e": e, "sum": fg.sum(e)}


@fg.pipeline
def weighted(x, w, m):
    """Beside other inputs, and by another name."""
    z = fg.where(m, x, -np.inf)
    e = fg.exp(z - fg.max(z))
    p = e / fg.sum(e)
    return {"p": p, "mean": fg.sum(p * w)}


@fg.pipeline
def tempered(x, t: fg.PerRow):
    """Divided by different values of the row, one of them an input."""
    y = x / t
    e = fg.exp(y - fg.max(y))
    return {"p": e / fg.sum(e), "q": e / t}


@fg.pipeline
def whole(n, b):
    """Integers and truths, whose vectors are of other lengths."""
    return {"most": fg.max(n), "sum": fg.sum(n), "hits": fg.sum(fg.where(b, 1, 0)), "twice": n * 2,
            "not": ~b}


def softmax(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda t: t.__name__)
def test_rows_of_every_length(dtype):
    """Against float64, with neighbours in memory that would be seen, and stay as they are."""
    rng, tolerance = np.random.default_rng(1), TOLERANCE[dtype]
    for n in LENGTHS:
        room = np.full((3, n + 40), np.nan).astype(dtype)
        x = room[:, 20 : 20 + n]
        x[...] = rng.normal(0, 3, x.shape).astype(dtype)
        wide = x.astype("f8")
        out = np.full((3, n + 40), 7).astype(dtype)
        fg.library.softmax(x, out=out[:, 20 : 20 + n])
        np.testing.assert_allclose(out[:, 20 : 20 + n].astype("f8"), softmax(wide),
                                   rtol=tolerance, atol=tolerance / 100)
        assert (out[:, :20] == 7).all()
        assert (out[:, 20 + n :] == 7).all()
        found = fg.library.layer_norm(x).astype("f8")
        want = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(found, want, rtol=10 * tolerance, atol=10 * tolerance)


HARD_VALUES = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 6e4)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "logsumexp", "var_mean"])
def test_rows_that_take_turns_do_not_see_each_other(name):
    """A row alone gives the same bits as in company, whatever its neighbours hold: one of many
    equal ones, in groups that are full and that are not."""
    pipeline, rng = getattr(fg.library, name), np.random.default_rng(6)
    for n in (1, 16, 71, 512, 513):
        x = rng.normal(0, 3, (27, n)).astype("f4")
        for at, value in enumerate(HARD_VALUES):
            x[3 * at] = value
            x[3 * at + 1, n // 2] = value
        for rows in (1, 7, 8, 9, 27):
            together = pipeline(x[:rows])
            for row in range(rows):
                alone = pipeline(x[row : row + 1])
                for one, other in zip(_each(together), _each(alone), strict=True):
                    np.testing.assert_array_equal(one[row], other[0])


def _each(found) -> tuple:
    return found if isinstance(found, tuple) else (found,)


@fg.pipeline
def logarithms(x):
    """In vectors, and of row values."""
    return {"each": fg.log(x), "row": fg.log(fg.max(x))}


def test_logarithms_to_an_ulp():
    """Of every exponent, subnormal numbers and those next to 1 too, and of what has none."""
    rng = np.random.default_rng(7)
    bits = rng.integers(1, 0x7F800000, 1 << 18, dtype=np.uint32)
    near = np.float32(1) + np.arange(-4096, 4096, dtype="f4") * np.float32(2**-23)
    x = np.concatenate([bits.view("f4"), near, np.arange(1, 100, dtype=np.uint32).view("f4")])
    want = np.log(x.astype("f8"))
    ulp = np.spacing(np.maximum(np.abs(want.astype("f4")), np.finfo("f4").tiny))
    found = logarithms(x[:, None])
    for one in (found["each"][:, 0], found["row"], logarithms(x[None])["each"][0]):
        assert (np.abs(one.astype("f8") - want) <= ulp).all()
    special = np.array([0.0, -0.0, -1.0, -1e-40, np.inf, -np.inf, np.nan], "f4")
    with np.errstate(all="ignore"):
        for one in _each(tuple(logarithms(special[:, None])[k].ravel() for k in ("each", "row"))):
            np.testing.assert_array_equal(one, np.log(special))


@fg.pipeline
def leaders(x):
    """The first of the greatest and of the least, beside terms that are kept."""
    e = fg.exp(x - fg.max(x))
    return {"most": fg.argmax(x), "least": fg.argmin(x), "p": e / fg.sum(e)}


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda t: t.__name__)
def test_leaders_of_rows_of_every_length(dtype):
    """What fills no vector leads nowhere: neither its zeros nor what identities are."""
    rng = np.random.default_rng(8)
    for n in LENGTHS:
        x = rng.normal(0, 3, (9, n))
        x[0] = -np.abs(x[0]) - 1
        x[1] = -x[0]
        x[2] = rng.integers(0, 3, n)
        x[3], x[4] = -np.inf, np.inf
        x[5, -1] = x[6, n // 2] = x[7, 0] = np.nan
        x[8] = np.sort(x[8])
        x = x.astype(dtype)
        found, wide = leaders(x), x.astype("f8")
        np.testing.assert_array_equal(found["most"], wide.argmax(-1))
        np.testing.assert_array_equal(found["least"], wide.argmin(-1))


@pytest.mark.parametrize("chunk", [None, 24, 48, 256])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda t: t.__name__)
def test_terms_are_kept_of_rows_of_several_pieces(dtype, chunk):
    """A chunk at the end of a piece is one in every sweep, whatever is left of the row."""
    rng, kept = np.random.default_rng(5), PIECE_COLUMNS
    for n in (kept - 1, kept, *(kept + i for i in (1, 3, 8, 9, 16, 17, 25)), 3 * kept + 5):
        x = np.sort(rng.normal(0, 3, (3, n)), -1)
        x[1], x[2] = x[1, ::-1], rng.permutation(x[2])
        p = fg.library.softmax.compile(x.astype(dtype), chunk=chunk)
        found, want = p(x.astype(dtype)), softmax(x.astype(dtype).astype("f8"))
        np.testing.assert_allclose(found.astype("f8"), want, rtol=TOLERANCE[dtype],
                                   atol=np.finfo(found.dtype).tiny if dtype is np.float64 else 6e-8)


def test_integers_and_truths_of_every_length():
    rng = np.random.default_rng(2)
    for n in LENGTHS:
        for dtype in ("i8", "i4", "i1"):
            x = rng.integers(-100, -1, (3, n)).astype(dtype)
            b = rng.random((3, n)) < 0.5
            found = whole(x, b)
            np.testing.assert_array_equal(found["most"], x.max(-1))
            np.testing.assert_array_equal(found["sum"], x.astype("i8").sum(-1))
            np.testing.assert_array_equal(found["hits"], b.sum(-1))
            np.testing.assert_array_equal(found["twice"], 2 * x.astype("i8"))
            np.testing.assert_array_equal(found["not"], ~b)


HARD = {
    "each chunk far above the last": np.repeat(np.arange(8.0) * 300, CHUNK),
    "each chunk a little above the last": np.repeat(np.arange(40.0), CHUNK // 4),
    "far below the first": np.r_[np.zeros(600), np.full(1800, -95.0), np.full(600, -103.5)],
    "far below the last": np.r_[np.full(1800, -95.0), np.full(600, -103.5), np.zeros(600)],
    "nothing at first": np.r_[np.full(1200, -np.inf), -500.0, np.full(1200, -501.0)],
    "nothing at last": np.r_[np.full(1200, -700.0), np.full(1200, -np.inf)],
    "nothing at all": np.full(1200, -np.inf),
    "infinite late": np.r_[np.full(1200, 100.0), np.inf, np.zeros(600)],
    "infinite early": np.r_[np.inf, np.full(1200, 100.0)],
    "no number late": np.r_[np.arange(1200.0), np.nan],
    "large numbers": np.r_[np.full(1400, 3e38), np.full(1400, -3e38)],
    "every length of step": np.cumsum(np.geomspace(1e-6, 60, 2000)),
}


@pytest.mark.parametrize("name", HARD)
def test_kept_terms_are_what_the_text_says(name):
    """Whether or not a chunk's terms can be moved to the row's pivot: by the same formula in
    float64 of what is stored, to the least subnormal number."""
    x = np.stack([HARD[name], HARD[name][::-1], np.roll(HARD[name], 77)]).astype("f4")
    wide, least = x.astype("f8"), 2 * np.finfo("f4").smallest_subnormal
    with np.errstate(all="ignore"):
        e = np.exp(wide - wide.max(-1, keepdims=True))
        tolerance = {"rtol": 2e-6, "atol": least}
        np.testing.assert_allclose(terms(x)["e"], e, **tolerance)
        np.testing.assert_allclose(fg.library.softmax(x), softmax(wide), **tolerance)
        m = np.random.default_rng(3).random(x.shape) < 0.7
        found = weighted(x, x, m)["p"]
        np.testing.assert_allclose(found, softmax(np.where(m, wide, -np.inf)), **tolerance)


def test_kept_terms_beside_divisors_of_any_size():
    rng = np.random.default_rng(4)
    x = rng.normal(0, 3, (6, 600)).astype("f4")
    for t in (1.0, 1e-30, 1e30, -2.0, 3e-39):
        found = tempered(x * np.float32(t), np.full(6, t, "f4"))
        with np.errstate(all="ignore"):
            y = (x * np.float32(t)).astype("f8") / np.float64(np.float32(t))
            q = np.exp(y - y.max(-1, keepdims=True)) / np.float64(np.float32(t))
        if t != 3e-39:  # where products with a subnormal number have few digits
            np.testing.assert_allclose(found["p"], softmax(y), rtol=2e-5, atol=1e-12)
            np.testing.assert_allclose(found["q"], q.astype("f4"), rtol=2e-5)


def test_terms_are_kept_for_a_sweep_that_has_them():
    """And not for one that would change because nothing needs its lets."""
    (kernel,) = fg.library.softmax.work(target="x86-64-v3").typed.program().kernels
    assert kept_terms(kernel, 256, flushes=False) is not None
    first, second = kernel.sweeps
    (store,) = second.element_stores
    x = next(e for e in walk(store.value) if isinstance(e, Var) and e.name == "x")
    without = replace(second, element_stores=(replace(store, value=x),), lets=(Let("one", x),))
    assert kept_terms(replace(kernel, sweeps=(first, without)), 256, flushes=False) is None


def test_rows_too_long_to_be_kept():
    longest = KEPT_BYTES // 4
    for n in (longest - 1, longest, longest + 1):
        x = np.random.default_rng(5).normal(0, 3, (1, n)).astype("f4")
        np.testing.assert_allclose(fg.library.softmax(x), softmax(x.astype("f8")), rtol=2e-6)


LEVELS = {t.vector_bytes: t for t in reversed(runnable(host_cpu()))}  # one of each width


@pytest.mark.parametrize("target", LEVELS.values(), ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", [dt.FLOAT32, dt.BFLOAT16, dt.FLOAT64], ids=str)
def test_ends_of_rows_on_every_width_of_vectors(dtype, target):
    """Every length of what fills no vector, beside neighbours that nobody may touch; and terms that
    are kept, subnormal ones too."""
    found = executable(textbook_softmax, dtypes=(("x", dtype),), target=target)
    (out,) = (p.name for p in found.program.outputs)
    tolerance, kind, rng = TOLERANCE[dtype.numpy.type], dtype.numpy, np.random.default_rng(9)
    for n in (*range(1, 34), 255, 257, 511, 519, 521, 1023, 1037, 1041, 1100):
        x = np.full((9, n + 16), np.nan).astype(kind)
        x[:, 8:-8] = rng.normal(0, 3, (9, n)).astype(kind)
        made = np.full((9, n + 16), 7).astype(kind)
        found({"x": x[:, 8:-8], out: made[:, 8:-8]}, 9, n)
        np.testing.assert_allclose(made[:, 8:-8].astype("f8"), softmax(x[:, 8:-8].astype("f8")),
                                   rtol=tolerance, atol=tolerance / 100)
        assert (made[:, :8] == 7).all()
        assert (made[:, -8:] == 7).all()
    for name in HARD if dtype is dt.FLOAT32 else ():
        x = np.stack([HARD[name], HARD[name][::-1], np.roll(HARD[name], 77)]).astype("f4")
        (result,) = run(found, {"x": x}, x.shape[1])
        np.testing.assert_allclose(result, softmax(x.astype("f8")), rtol=2e-6,
                                   atol=2 * np.finfo("f4").smallest_subnormal)


@pytest.mark.skipif(sys.platform != "linux", reason="protects pages as Linux does")
def test_nothing_behind_an_array_is_read_or_written():
    """The last byte of each is the last of its page; nobody may touch the next one."""
    page, libc, held = mmap.PAGESIZE, ctypes.CDLL(None), []

    def guarded(values):
        size = -(-values.nbytes // page) * page
        held.append(mmap.mmap(-1, size + page))
        start = ctypes.addressof(ctypes.c_char.from_buffer(held[-1]))
        assert libc.mprotect(ctypes.c_void_p(start + size), page, 0) == 0
        found = np.frombuffer(held[-1], values.dtype, values.size, size - values.nbytes)
        found = found.reshape(values.shape)
        found[...] = values
        return found

    def work():
        for dtype in TOLERANCE:
            for n in (1, 13, 257, 271):
                x = guarded(np.ones((2, n), dtype))
                fg.library.softmax(x, out=guarded(np.empty_like(x)))
        for n in (1, 13, 257):
            out = {"most": np.empty(1, "i1"), "sum": np.empty(1, "i8"), "hits": np.empty(1, "i8"),
                   "twice": np.empty((1, n), "i8"), "not": np.empty((1, n), "?")}
            whole(guarded(np.ones((1, n), "i1")), guarded(np.ones((1, n), "?")),
                  out={k: guarded(v) for k, v in out.items()})

    work_once = fg.library.softmax(np.ones((2, 3), "f4"))  # what is compiled is there
    assert work_once.shape == (2, 3)
    assert child(work, seconds=120) == 0
