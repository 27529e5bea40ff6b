"""Float constants as arguments of kernels: one text, one proof, one kernel for all such values."""

from __future__ import annotations

import itertools
import math
import re
import types
from typing import Any

import numpy as np
import pytest
from support import fake_cupy, nvrtc
from support.cuda_cases import Case, assert_close
from support.emulated import emulated
from support.schedules import kinds_of
from support.strip_cases import StripCase

import fusegen as fg
from fusegen.backend.cpu import toolchain
from fusegen.ir.derivation import RefusalKind
from fusegen.ir.varying import magnitude_of
from fusegen.pipeline.traces import Traces

needs_compiler = pytest.mark.skipif(toolchain.find_compiler() is None, reason="no C++ compiler")
compiles = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))

X = (np.random.default_rng(0).standard_normal((3, 700)) * 3).astype(np.float32)


def cooled(x, *, t=1.0):
    """The moves of its pivot depend on t."""
    m = fg.max(x)
    p = fg.exp((x - m) / t)
    return fg.sum(p), fg.sum(p * x) / fg.sum(p), fg.topk(p / fg.sum(p), 3)


def spread(x, *, t=1.0):
    """Those of its pivot do not."""
    y = x / t
    e = fg.exp(y - fg.max(y))
    return e / fg.sum(e)


def scaled(x, *, t=1.0):
    """Python computes with t before the text does."""
    s = 1 / t
    return fg.sum(x * s) + (2 * s + 0.25) ** 2


def branched(x, *, t=1.0):
    if t > 2:
        return fg.sum(x) * t
    return fg.max(x) + t


def normed(x, *, t=1e-5):
    return (x - fg.mean(x)) * fg.rsqrt(fg.var(x) + t)


def two_of_three(x, *, a=1.5, b=1.5, c=1.5):
    return fg.sum(x * b) + a


TEXTS = {f.__name__: f for f in (cooled, spread, scaled, branched, normed)}


def flat(found: Any) -> list[np.ndarray]:
    if isinstance(found, tuple | list):
        return [a for part in found for a in flat(part)]
    return [np.asarray(found)]


def flat_arrays(found: Any) -> list[Any]:
    """Arrays of any library."""
    return [a for part in found for a in flat_arrays(part)] if isinstance(found, tuple) else [found]


def near(got: Any, want: Any, tolerance: float = 3e-5, columns: bool = True) -> None:
    for a, b in zip(flat(got), flat(want), strict=True):
        if not columns and b.dtype.kind == "i":
            continue  # of values that have all become 0
        size = np.max(np.abs(b[np.isfinite(b)]), initial=1e-3) if b.dtype.kind == "f" else 1
        np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=tolerance,
                                   atol=tolerance * size)


def same(got: Any, want: Any) -> None:
    for a, b in zip(flat(got), flat(want), strict=True):
        np.testing.assert_array_equal(a, b)


def made(traces: Traces) -> int:
    """Executables of a text."""
    return sum(len(v.by_schedule) for v in traces.variants._held.values())


@needs_compiler
@pytest.mark.parametrize("name", TEXTS)
def test_one_kernel_for_a_hundred_values(name: str) -> None:
    """Traced, derived and compiled once for each set of answers; every value's result is the
    text's, and the bits are those of a kernel that has the number in it, as far as it is used there
    as the text has it."""
    p, before = fg.pipeline(TEXTS[name]), 0
    values = [float(v) for v in np.geomspace(0.3, 40, 100)]
    for number, t in enumerate(values):
        got = p(X, t=t)
        if number % 20 == 0:
            near(got, p.reference(X, t=t))
        before = before or made(p.traces)
    answers = 2 if name == "branched" else 1
    assert before == 1
    assert made(p.traces) == len(p.traces.variants) == answers
    assert not p.traces.settled
    fixed = types.FunctionType(TEXTS[name].__code__, globals(), name)
    fixed.__kwdefaults__, fixed.__annotations__ = {"t": 1.0}, {"t": fg.Constant}
    # Numbers within moves are simplified, and those that stand outside of a maximum inverted.
    equal = near if name in ("cooled", "spread") else same
    equal(p(X, t=values[7]), fg.pipeline(fixed)(X, t=values[7]))


HOSTILE = (0.0, -0.0, -1.5, math.inf, -math.inf, math.nan, 1e-40, 5e-324, 1e30, -1e30, 1e300)


@pytest.mark.filterwarnings("ignore:.*the merge of")
@pytest.mark.parametrize("target", ["numpy", pytest.param("cpu", marks=needs_compiler)])
@pytest.mark.parametrize("name", TEXTS)
def test_hostile_values(name: str, target: str) -> None:
    """Zeros, infinities, NaN and what float32 does not hold in full are as they were: part of the
    kernel. Python's own errors come as they are. Others follow in between."""
    p = fg.pipeline(TEXTS[name])
    wide = X.astype(np.float64)
    hostile = HOSTILE if target == "numpy" else HOSTILE[[*TEXTS].index(name) % 2::2]  # in turn
    for t in (0.7, *hostile, 0.8):
        if name == "cooled" and 0 < t < 1e-300:
            continue  # its reciprocal is no number
        try:
            want = p.reference(X, t=t)
        except ArithmeticError as error:
            with pytest.raises(type(error)):
                p.compile(X, t=t, target=target)(X)
            continue
        with np.errstate(all="ignore"):
            near(p.compile(wide, t=t, target=target)(wide), want, columns=False)
            if magnitude_of(t) and abs(t) < 1e20:
                near(p.compile(X, t=t, target=target)(X), want)
    assert [*map(magnitude_of, (0.7, -1e30, 1e-5, 1e-40, 1))] == [2, -3, 1, 0, 0]


@needs_compiler
def test_per_row_arrays_and_numbers_give_the_same_bits() -> None:
    def per_row(x, t: fg.PerRow):
        y = x / t
        return y - fg.max(y), fg.sum(y)

    def spread(x, *, t=1.0):
        y = x / t
        return y - fg.max(y), fg.sum(y)

    for t in (0.5, 1.7, 30.0):
        for target in ("cpu", "numpy"):
            column = np.full(3, t, np.float32)
            rows = fg.pipeline(per_row)
            number = fg.pipeline(spread).compile(X, t=float(np.float32(t)), target=target)(X)
            same(rows.compile(X, column, target=target)(X, column), number)


@pytest.mark.long
def test_merges_are_proved_for_every_positive_number() -> None:
    found = fg.pipeline(cooled).derivation(t=0.3)
    assert not fg.pipeline(cooled).work(t=0.3).derivation.refusals
    assert "S₁′ = exp(δ / t)·S₁" in str(found)
    assert fg.pipeline(cooled).plan(t=0.3).sweeps == 1
    assert fg.check(fg.pipeline(cooled), t=0.3)
    below = fg.pipeline(cooled)
    assert below.plan(t=-0.3).sweeps > 1  # exp((x − m)/t) then grows away from the maximum


# ---- what the text asks ----


def test_constants_that_the_text_asks_for() -> None:
    """A number that is an exponent, a key, a word, NumPy's or math's is part of the kernel."""
    texts = {
        "exponent": lambda x, *, t=2.5: fg.sum(fg.abs(x) ** t),
        "key": lambda x, *, t=2.5: fg.sum(x) * {2.5: 1.0, 3.5: 2.0}[t],
        "word": lambda x, *, t=2.5: fg.sum(x) * len(f"{t}"),
        "math": lambda x, *, t=2.5: fg.sum(x) * math.sqrt(t),
        "NumPy": lambda x, *, t=2.5: fg.sum(x) * np.exp(t),
        "NumPy's number": lambda x, *, t=2.5: fg.sum(x) * (np.float64(2) * t),
        "whole": lambda x, *, t=2.5: fg.sum(x) * int(t),
        "floor": lambda x, *, t=2.5: fg.sum(x) * (t // 1),
        "its type": lambda x, *, t=2.5: fg.sum(x) * (2 if type(t) is float else 3),
        "method": lambda x, *, t=2.5: fg.sum(x) * t.as_integer_ratio()[0],
    }
    for name, text in texts.items():
        p = fg.pipeline(text)
        for t in (2.5, 3.5):
            near(p.compile(X, t=t, target="numpy")(X), p.reference(X, t=t))
        assert "t" in p.traces.settled, name
        assert "part of the kernel" in str(p.explain(t=2.5)), name


def test_questions_have_answers_that_graphs_are_kept_by() -> None:
    texts = {
        "compared": lambda x, *, t=2.5: fg.sum(x) * (1 if 1 < t <= 3 else 2),
        "equal": lambda x, *, t=2.5: fg.sum(x) if t == 3.5 else fg.sum(x) * t,
        "greater": lambda x, *, t=2.5: fg.sum(x) * max(t, 3.0),
        "true": lambda x, *, t=2.5: fg.sum(x) * t if t else fg.sum(x),
        "a float": lambda x, *, t=2.5: fg.sum(x) * (t if isinstance(t, float) else 1),
        "difference": lambda x, *, t=2.5: fg.sum(x) * (t - 3),
        "a condition": lambda x, *, t=2.5: fg.count(x > t),
    }
    for name, text in texts.items():
        p = fg.pipeline(text)
        for t in (2.5, 3.5, 2.75, 0.5, 3.0, 2.5, 3.5):
            near(p.compile(X, t=t, target="numpy")(X), p.reference(X, t=t))
        assert not p.traces.settled, name
        assert len(p.traces.variants) <= 4, name


def test_what_is_a_whole_number_or_a_flag_is_part_of_the_text() -> None:
    @fg.pipeline
    def mixed(x, *, k=2, t=0.5, wide=True):
        values, _ = fg.topk(x * t, k)
        return values if wide else fg.sum(values)

    asked = ((2, 0.5, True), (3, 0.5, True), (2, 0.7, True), (2, 3, False), (2, 3.0, True))
    for k, t, wide in asked:
        same(mixed.compile(X, k=k, t=t, wide=wide, target="numpy")(X).dtype.name, "float32")
        near(mixed.compile(X, k=k, t=t, wide=wide, target="numpy")(X),
             mixed.reference(X, k=k, t=t, wide=wide))
    assert len(mixed.traces.variants) == 3


def test_monoids_are_of_numbers() -> None:
    @fg.pipeline
    def weighed(x, *, t=0.5):
        total = fg.monoid({"s": 0.0}, lambda v: {"s": v * t},
                          lambda a, b: {"s": a["s"] + b["s"]}, lambda s: s["s"])
        return fg.reduce(total, x)

    for t in (0.5, 0.75):
        near(weighed.compile(X, t=t, target="numpy")(X), weighed.reference(X, t=t))


def test_pipelines_hand_numbers_on() -> None:
    inner = fg.pipeline(cooled)

    @fg.pipeline
    def outer(x, *, t=1.0):
        return inner(x, t=2 * t), fg.library.layer_norm(x, eps=t)

    for t in (0.5, 0.75, 1.5):
        near(outer.compile(X, t=t, target="numpy")(X), outer.reference(X, t=t))
    assert len(outer.traces.variants) == 1


def test_gradients_take_them_too() -> None:
    gradient = fg.grad(fg.pipeline(spread), "x")
    g = np.cos(X)
    for t in (0.5, 2.0, 3.0):
        near(gradient.compile(g, X, t=t, target="numpy")(g, X), gradient.reference(g, X, t=t))
    assert len(gradient.traces.variants) == 1, [k[:2] for k in gradient.traces.variants._held]


# ---- what annotations say ----


def test_positive_constants_are_checked_where_they_are_passed() -> None:
    @fg.pipeline
    def warm(x, *, t: fg.Positive = 1.0):
        return fg.sum(fg.exp((x - fg.max(x)) / t))

    line = warm.fn.__code__.co_firstlineno + 1
    for wrong in (0, 0.0, -1.0, math.nan, math.inf, "hot", True, None):
        with pytest.raises(fg.ArgumentError, match=r"t is .*, no finite number above 0") as caught:
            warm(X, t=wrong)
        assert f"test_varying.py:{line}" in str(caught.value)
    near(warm.compile(X, t=2, target="numpy")(X), warm.reference(X, t=2.0))


@pytest.mark.parametrize(("t", "seen"), [(1e-50, "0"), (1e39, "inf")])
def test_positive_constants_are_positive_in_the_type_that_computes(t, seen) -> None:
    @fg.pipeline
    def warm(x, *, t: fg.Positive = 1.0):
        return fg.sum(fg.exp((x - fg.max(x)) / t))

    line = warm.fn.__code__.co_firstlineno + 1
    match = rf"test_varying.py:{line}: warm: t is {t}, which is {seen} in float32"
    for ask in (warm, warm.compile, lambda x, t: warm.source(target="cpu", t=t)):
        with pytest.raises(fg.ArgumentError, match=re.escape(match)):
            ask(X.astype("f4"), t=t)
    wide = X.astype("f8")
    near(warm.compile(wide, t=t, target="numpy")(wide), warm.reference(wide, t=t))


@pytest.mark.parametrize("t", [1e-40, 1e-45, 1e39])
def test_merges_are_not_proved_with_numbers_that_floats_do_not_hold(t) -> None:
    """1 / 1e-40 is infinite in float32, and 0 · inf no number."""
    def warm(x, *, t=1.0):
        return fg.sum(fg.exp((x - fg.max(x)) / t))

    p = fg.Pipeline(warm)
    (refused,) = p.work(t=t).typed.derivation.refusals
    assert refused.kind is RefusalKind.RANGE
    assert "proved for constants with which all such numbers are 1.175e-38 … 3.403e+38" in \
        refused.why
    for held in (2e-38, 1e38):
        assert not p.work(t=held).typed.derivation.refusals


def test_annotations_are_read_as_text_too() -> None:
    def text(x, *, t: "fg.Positive" = 1.0, s: "fg.Constant" = 0.5):  # noqa: UP037
        return fg.sum(x) * t * s

    p = fg.pipeline(text)
    assert p.signature.fixed == {"s"}
    assert [*p.signature.positive] == ["t"]

    def wrong(x, *, t: "fg.Positiv" = 1.0):  # noqa: UP037
        return x * t

    with pytest.raises(fg.TraceError, match=r"fg\.Positive"):
        fg.pipeline(wrong)


def test_explain_says_what_is_part_of_the_kernel() -> None:
    shown = str(fg.pipeline(cooled).explain(t=0.3))
    assert "t > 0" in shown.splitlines()[0]
    assert "one kernel and one proof for 2^-13 ≤ t ≤ 2^13" in shown
    assert "t = 0.0: part of the kernel" in str(fg.pipeline(cooled).explain(t=0.0))


# ---- calls ----


@pytest.mark.long
@needs_compiler
def test_calls_with_other_values_are_remembered(served_by: str, looks: list[Any]) -> None:
    """A new value is no new kind of call; questions and zeros are."""
    p = fg.pipeline(cooled)
    same(p(X, t=0.5), p.compile(X, t=0.5)(X))
    looks.clear()
    for t in (0.6, 0.7, 1.5, 33.0, 0.5):
        near(p(X, t=t), p.reference(X, t=t))
    assert not looks
    near(p(X, t=-0.5), p.reference(X, t=-0.5))
    near(p(X), p.reference(X))
    near(p(X, t=1), p.reference(X, t=1))
    near(p(X, t=0.9), p.reference(X, t=0.9))
    q = fg.pipeline(branched)
    for t in (1.0, 3.0, 1.5, 2.5, 1.0, 3.0):
        near(q(X, t=t), q.reference(X, t=t))
    r = fg.pipeline(scaled)
    for t in (1.0, 3.0, 0.5, 1.0, 3.0):
        near(r(X, t=t), r.reference(X, t=t))


@pytest.mark.long
@needs_compiler
@pytest.mark.usefixtures("served_by")
def test_numbers_are_told_apart_where_others_stay_behind() -> None:
    """Zeros, whole numbers, flags, and what the kernel does not read, in any place of a call."""
    p, x = fg.pipeline(two_of_three), np.linspace(-1, 2, 24, dtype=np.float32).reshape(3, 8)
    for a, order in itertools.product((1.5, 0.0, 2, True, math.inf, 0.75), ("abc", "cba", "bca")):
        for b, c in ((0.5, 1.5), (2.5, 7.5), (-1.25, 3.25), (0.0, 0.5)):
            values = {"a": a, "b": b, "c": c}
            for _ in range(2):
                near(p(x, **{n: values[n] for n in order}), (x * np.float32(b)).sum(-1) + a)


@needs_compiler
@pytest.mark.usefixtures("served_by")
def test_float64_takes_all_its_digits() -> None:
    p, x = fg.pipeline(spread), X.astype(np.float64)
    for t in (1 / 3, 0.1, 1 / 7):
        for _ in range(2):
            near(p(x, t=t), p.reference(x, t=t), 1e-13)


# ---- GPUs ----


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("rows", "n_cols"), [(100_000, 300), (100_000, 9000), (2, 9000)])
def test_every_level_has_the_numbers_of_the_call(rows: int, n_cols: int) -> None:
    x = (np.random.default_rng(1).standard_normal((2, n_cols)) * 3).astype(np.float32)
    for t in (0.7,):
        case = Case(fg.pipeline(cooled), {"x": x}, 2, n_cols, {"t": t}, varied=True)
        for schedule in kinds_of(case, True, rows).values():
            assert_close(case.emulate(schedule=schedule), flat(case.reference()), 1e-5)


def weighted_spread(x, *, t=1.0):
    """A pivot that depends on sums about another one: sums of two levels move, both by t."""
    weight = fg.exp((x - fg.max(x)) * t)
    nu = fg.sum(weight * x) / fg.sum(weight)
    return fg.sum(weight * (x - nu) ** 2) / fg.sum(weight)


@pytest.mark.long
@emulated
def test_every_level_of_pivots_has_them() -> None:
    x = (np.random.default_rng(3).standard_normal((3, 300)) * 3).astype(np.float32)
    case = Case(fg.pipeline(weighted_spread), {"x": x}, 3, 300, {"t": 0.7}, varied=True)
    assert_close(case.emulate(), flat(case.reference()), 1e-5)


def test_arrays_alone_say_whether_functions_need_few_digits() -> None:
    """Numbers of the call have 32 bits, whatever the arrays have."""
    source = {d: fg.pipeline(spread).source(target="sm_90", n_cols=4096, dtype=d)
              for d in ("bfloat16", "float32")}
    assert "= exp_narrow((x - max_x) * steps_t)" in source["bfloat16"]
    assert "= expf((x - max_x) * steps_t)" in source["float32"]


@pytest.mark.long
@emulated
def test_rows_side_by_side_have_them() -> None:
    def sums(x, *, t=1.0):
        p = fg.exp((x - fg.max(x)) / t)
        return fg.sum(p), p / fg.sum(p)

    x = (np.random.default_rng(2).standard_normal((72, 200)) * 3).astype(np.float32)
    case = StripCase(Case(fg.pipeline(sums), {"x": x}, 72, 200, {"t": 0.7}, varied=True), 2)
    found = {s.kind: s for s in case.schedules(case.work([]))
             if s.blocks <= 16 and s.blocks * s.threads <= 8192}
    assert len(found) > 1
    for schedule in found.values():
        got = case.emulate(pick=lambda _, one=schedule: one)
        assert_close(got, flat(case.case.reference()), 1e-5)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_calls_on_gpus_hand_numbers_over(gpu: Any, dtype: str) -> None:
    x, p = fake_cupy.array(X[:, :90].astype(dtype)), fg.pipeline(cooled)
    for t in (0.5, 1 / 3, 7.0, -2.0):
        near([a.get() for a in flat_arrays(p(x, t=t))], p.reference(x.get(), t=t))
    assert len(p.traces.variants) == 2


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    p, x = fg.pipeline(cooled), cupy.asarray(X)
    for t in (0.5, 1 / 3, 7.0, -2.0):
        near([a.get() for a in flat_arrays(p(x, t=t))], p.reference(X, t=t))
    assert len(p.traces.variants) == 2


@pytest.mark.long
@compiles
def test_compilers_take_it() -> None:
    for target, n_cols in (("sm_90", 25_000), ("sm_80", 300)):
        source = fg.pipeline(cooled).source(target=target, n_cols=n_cols, t=0.5)
        assert "float t" in source
        assert "2^-13 ≤ t ≤ 2^13" in source
        nvrtc.valid_for(source, target)
    nvrtc.valid_for(fg.pipeline(weighted_spread).source(target="sm_90", t=0.5), "sm_90")
