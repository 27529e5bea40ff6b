"""Sums kept about another pivot than the text's: right in floats, in one sweep, on every tree."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.emulated import emulated
from support.merge_trees import GPU, HOST, drive, trees
from support.repair_cases import ALL, INF, Case, narrow, pairs, products, products_due

import fusegen as fg
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.problem import Problem
from fusegen.backend.target import CUDA_TARGETS
from fusegen.compile.lower.online import online_kernel
from fusegen.compile.passes import Work
from fusegen.compile.typed import Typed
from fusegen.ir.dtypes import FLOAT32
from fusegen.oracle.replay import RowsReplay, balanced, chain

UNIT = 2.0**-23
NAMES = list(ALL)
NEEDS_COMPILER = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


def due(case: Case, x, y):
    """(the sum in float64, what rounding explains): 4 times the error of the text in float32, added
    up in other orders and with row values off as their own sums may be, and 16 units of Σ|terms|;
    of exponentials also the rounding of the exponent. NaN where the text leaves the range."""
    with np.errstate(all="ignore"):
        wide = x.astype(float), y.astype(float)
        p = case.row(*wide)
        terms = np.broadcast_to(case.terms(*wide, p), x.shape)
        right, size = terms.sum(1), abs(terms).sum(1)
        q = case.row(x, y).astype(np.float32)
        off = np.zeros(len(x))
        near = (4 * UNIT * case.row(abs(x), abs(y))).astype(np.float32)
        for at in (q, q + near, q - near) if case.sums else (q,):
            t = np.broadcast_to(case.terms(x, y, at), x.shape)
            for safe in (t.sum(1), np.cumsum(t, 1)[:, -1], np.cumsum(t[:, ::-1], 1)[:, -1]):
                off = np.fmax(off, abs(safe.astype(float) - right))
                right = np.where(np.isfinite(safe) & (size < 1e37), right, np.nan)
        allowed = 4 * off + 16 * UNIT * size + 1e-36
        if case.exponent is not None:
            allowed += UNIT * abs(np.nan_to_num(case.exponent(*wide, p))).max(1) * size
    return right, allowed


def assert_due(cases, x, y, found):
    for (name, case), got in zip(cases.items(), found, strict=True):
        right, allowed = due(case, x, y)
        got = got.reshape(len(x), -1)
        judged = np.isfinite(right)
        if case.weight is not None:
            judged &= ((y == 0) | (case.weight(y) > np.finfo(np.float32).tiny)).all(1)
        assert judged.sum() > len(x) / 3 or (name, x.shape[1]) == ("range", 1)
        with np.errstate(all="ignore"):
            wrong = ~(abs(got - right[:, None]) <= allowed[:, None]) & judged[:, None]
        at = np.argwhere(wrong)
        assert not len(at), (name, len(at), divmod(int(at[0][0]), 19), got[tuple(at[0])],
                             right[at[0][0]], allowed[at[0][0]])


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_one_sweep_with_every_obligation_proved(name):
    pipeline, cases = ALL[name]
    found = pipeline.derivation()
    assert not found.refusals, str(found)
    assert found.proved
    assert pipeline.plan(form="online").sweeps == 1
    # One is a plain sum's quotient, one about the greatest of what its mask takes.
    assert len(found.repairs) == len(cases) - (name in ("quotients", "exponentials"))
    assert {r.obligation.status for r in found.repairs} == {"proved"}
    for repair in found.repairs:
        assert repair.why in str(found)
    assert pipeline.plan(form="safe").sweeps > 1  # the text as written


@pytest.mark.long
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("name", NAMES)
def test_calls_that_split_rows_lower_again_what_the_first_look_rewrote(name):
    """A call knows the passes before a target; the program of split rows is made of their nodes."""
    traced = ALL[name][0].traced(frozenset("xy"), {})
    dtypes = {i.name: FLOAT32 for i in traced.graph.inputs}
    typed = Typed(traced, dtypes, "auto")
    assert typed.program().kernels
    problem = Problem(dtypes=dtypes, n_rows=2, n_cols=300_000)
    work = Work(typed, CUDA_TARGETS["sm_90"], problem)
    assert work.derivation.repairs
    assert len(work.program.kernels) >= len(work.result("lower").kernels)
    assert work.schedule.grouping == "sweeps"


@pytest.mark.parametrize("name", NAMES)
def test_every_tree_of_hard_rows_is_as_accurate_as_the_text(name):
    pipeline, cases = ALL[name]
    work = pipeline.work(form="online", dtype="float32")
    kernel = online_kernel(work.graph, work.derivation, work.dtypes)
    for n in (1, 2, 3, 37):
        x, y = pairs(n)
        replay = RowsReplay(kernel, {"x": x, "y": y}, n)
        for tree in (chain(1), chain(1, forward=False), chain(7), balanced(1)):
            assert_due(cases, x, y, list(replay.run(tree).values()))


@pytest.mark.long
@pytest.mark.parametrize("offset", [1e4, 1e7, 1e15])
def test_exponents_are_never_added_up_from_greater_parts_than_the_text_has(offset):
    work = products.work(form="online", dtype="float32")
    assert len(work.derivation.repairs) >= 4
    kernel = online_kernel(work.graph, work.derivation, work.dtypes)
    rng = np.random.default_rng(1)
    for n in (1, 2, 5):
        steps = rng.integers(0, 4, (100, n)) * max(4 * np.spacing(np.float32(offset)), 0.25)
        x, y = (offset + steps).astype(np.float32), rng.normal(size=(100, n)).astype(np.float32)
        with np.errstate(over="ignore"):
            want = products_due(x.astype(float), y.astype(float)).astype(np.float32)
        for tree in (chain(1), balanced(1)):
            got = RowsReplay(kernel, {"x": x, "y": y}, n).run(tree)
            found = np.array(list(got.values())).reshape(want.shape)
            assert found == pytest.approx(want, rel=4e-6, abs=1e-37)


@pytest.mark.parametrize(("text", "rounded"), [
    (lambda x: fg.sum(fg.exp(x * -3 - fg.min(x * -3))), lambda x: x * np.float32(-3)),
    (lambda x: fg.sum(fg.exp(x - fg.min(x))), lambda x: x),
    (lambda x: fg.sum(fg.exp((x - fg.min(x)) * 2)), lambda x: x * np.float32(2)),
])
def test_the_scale_of_exponentials_rounds_as_little_as_their_sum(text, rounded):
    """exp(m − P) multiplies all terms alike: what m and m − P are rounded by must not be in it."""
    rng = np.random.default_rng(5)
    x = np.concatenate([1e4 + 1e-2 * rng.standard_normal((200, 96)),
                        rng.standard_normal((200, 96)) - 20 * (np.arange(96) > 47)])
    x = x.astype(np.float32)
    work = fg.pipeline(text).work(form="online", dtype="float32")
    pipeline = fg.pipeline(text)
    assert pipeline.derivation().repairs
    replay = RowsReplay(online_kernel(work.graph, pipeline.derivation(), work.dtypes), {"x": x}, 96)
    replay.run(balanced(1))
    (out,) = work.graph.outputs
    found = replay.env[work.graph.names[out]][:, 0].astype(float)
    y = rounded(x).astype(float)
    want = np.exp(y - y.min(1, keepdims=True)).sum(1)
    assert np.max(abs(found / want - 1)) < 12 * 2.0**-24


@pytest.mark.long
def test_elements_that_are_rounded_are_rounded_alike_in_the_pivot():
    """x·(−3) and x + r are rounded where the text forms them, in the row value as in the term: what
    the sum is kept about must be formed of the same numbers, or what is exactly 0 is not."""
    third = np.array([[1e25 / 7], [1.7e25], [3.3e24]], np.float32)
    p = fg.pipeline(lambda x, y: fg.sum(
        (x * -3 - fg.max(fg.where(y > 0, x * -3, -np.inf))) ** 2))
    assert p.derivation().repairs
    np.testing.assert_array_equal(p(third, np.ones_like(third)), 0)
    q = fg.pipeline(_of_sums)
    assert q.derivation().repairs
    rng = np.random.default_rng(2)
    x = (np.array([62, -60, -60]) + rng.normal(size=(200, 3)) / 4).astype(np.float32)
    r = rng.normal(size=200).astype(np.float32) / 4
    np.testing.assert_array_equal(q(x, r), 1)  # the greatest is P itself, the others vanish


def _of_sums(x, r: fg.PerRow):
    return fg.sum(fg.exp(x + r - fg.max(fg.abs(x + r))))


@pytest.mark.long
def test_moments_under_exponentials_form_no_product_that_the_text_does_not():
    """e^y·x leaves the range where e^y·(x − P)² is small: weights are e^(y − max y)."""
    p = fg.pipeline(lambda x, y: fg.sum(fg.exp(y) * (x - fg.mean(x)) ** 2))
    assert p.plan(form="online").sweeps == 1
    x = np.array([[100.0, 100.001, 99.999], [5e4, 5e4, 5e4], [3, 2, 1], [1, 2, 4]], np.float32)
    y = np.array([[88.5, 80, 88], [88.7, 60, 1], [-100, -99, -98], [-INF, -INF, -INF]], np.float32)
    work = p.work(form="online", dtype="float32")
    replay = RowsReplay(online_kernel(work.graph, p.derivation(), work.dtypes), {"x": x, "y": y}, 3)
    replay.run(chain(1))
    found = replay.env[work.graph.names[work.graph.outputs[0]]][:, 0]
    u = x.astype(float) - x.astype(float).mean(1, keepdims=True)
    want = (np.exp(y.astype(float)) * u**2).sum(1)
    np.testing.assert_allclose(found[[0, 2, 3]], want[[0, 2, 3]], rtol=1e-3, atol=1e-38)
    assert np.isfinite(found[1])


@pytest.mark.long
def test_row_values_of_several_parts_are_subtracted_part_by_part():
    """μ − max y − log S with max y = 10⁵: max y + log S would lose the digits of log S."""
    p = fg.pipeline(lambda x, y, z: fg.sum(
        fg.library.softmax(x) * (fg.abs(y) - fg.max(fg.abs(y)) - fg.log(
            fg.sum(fg.exp(fg.abs(y) - fg.max(fg.abs(y))))))
        + fg.library.softmax(z) * (z - fg.max(x)) ** 2
    ))
    x, y, z = (np.array([v], np.float32) for v in
               ([0.0, -20, -1, -2], [1e5, -1e5, 1e5, 1e5], [0.0, 0, 0, 0]))
    assert p.derivation().repairs
    work = p.work(form="online", dtype="float32")
    given = {"x": x, "y": y, "z": z}
    replay = RowsReplay(online_kernel(work.graph, p.derivation(), work.dtypes), given, 4)
    replay.run(chain(1))
    found = replay.env[work.graph.names[work.graph.outputs[0]]].item()
    assert abs(found + np.log(4)) < 1e-5


@pytest.mark.long
def test_rows_of_16_bits_keep_what_another_row_value_needs():
    """A sum that should be 0 about its mean is multiplied by the mean's distance from P."""
    work = narrow.work(form="online", dtype="bfloat16")
    assert len(work.derivation.repairs) == 4
    kernel = online_kernel(work.graph, work.derivation, work.dtypes)
    n = 24
    x = np.tile(np.linspace(-2, 1, n, dtype=np.float32), (3, 1))
    y = np.repeat(np.float32([[-9984], [0], [30208]]), n, axis=1)  # the mean itself is rounded
    wide, weights = y.astype(float), np.exp(x.astype(float) - 1)
    off = wide - (1 + wide.min(1, keepdims=True))
    want = np.array([(off**2).sum(1), (off**3).sum(1), (weights * off**2).sum(1), 0 * wide[:, 0]])
    for tree in (chain(1), chain(7), balanced(1)):
        got = RowsReplay(kernel, {"x": x, "y": y}, n).run(tree)
        found = np.array([np.ravel(v) for v in got.values()])
        assert found == pytest.approx(want, rel=1e-5, abs=1e-7)


@pytest.mark.long
@NEEDS_COMPILER
@pytest.mark.parametrize("name", NAMES)
def test_compiled_code_is_as_accurate_as_the_text(name):
    pipeline, cases = ALL[name]
    for n in (1, 3, 7, 37, 100, 200, 1300):  # up to 256 stand abreast
        x, y = pairs(n)
        assert_due(cases, x, y, list(pipeline(x, y, form="online").values()))
    driven = drive(pipeline, {"x": x, "y": y}, {}, HOST)
    x, y = pairs(3)
    assert_due(cases, x, y, driven.run({"x": x, "y": y}, trees(3)))


@pytest.mark.long
@emulated
def test_emulated_code_is_as_accurate_as_the_text():
    pipeline, cases = ALL["moments"]
    x, y = pairs(3)
    driven = drive(pipeline, {"x": x, "y": y}, {}, GPU)
    assert_due(cases, x, y, driven.run({"x": x, "y": y}, trees(3)[::7]))


@pytest.mark.parametrize("name", NAMES)
def test_infinities_nan_and_zeros_are_as_documented(name):
    """The text's, but: NaN for an infinity; 0 for an infinity times 0; an infinity for NaN where
    the text divides by 0."""
    pipeline, cases = ALL[name]
    work = pipeline.work(form="online", dtype="float32")
    kernel = online_kernel(work.graph, work.derivation, work.dtypes)
    letters = (-INF, -1, 0, 2, INF, np.nan)
    for n in (1, 2, 3):
        rows = np.array(list(itertools.product(letters, repeat=n)), np.float32)
        beside = rows if n < 3 else rows[::7]
        x, y = np.repeat(rows, len(beside), axis=0), np.tile(beside, (len(rows), 1))
        text = pipeline.reference(x, y)
        with np.errstate(all="ignore"):
            zero = [np.ravel(c.row(x.astype(float), y.astype(float)) == 0) for c in cases.values()]
        special = ~(np.isfinite(x) & np.isfinite(y)).all(axis=1)
        for tree in (chain(1), balanced(1)):
            found = RowsReplay(kernel, {"x": x, "y": y}, n).run(tree).values()
            for case, want, got, by_zero in zip(cases, text.values(), found, zero, strict=True):
                got = np.ravel(got)
                same = np.isclose(got, want, rtol=1e-5, atol=1e-6, equal_nan=True)
                same |= np.isnan(got) & np.isinf(want) & (special | by_zero)
                same |= np.isinf(got) & np.isnan(want) & by_zero
                same |= np.isnan(want) & ~np.isnan(got) & special & (case == "weighted")
                at = np.flatnonzero(~same)
                assert not len(at), (case, x[at[0]], y[at[0]], got[at[0]], want[at[0]])
