"""Constants and whole numbers: exact, told apart by class and value, spelled by fusegen alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.cuda_cases import Case

import fusegen as fg
from fusegen.backend.cpu import toolchain
from fusegen.ir.errors import TraceError
from fusegen.ir.literals import constant_key, plain, rounded, spelled

needs_compiler = pytest.mark.skipif(toolchain.find_compiler() is None, reason="no C++ compiler")


class Short(float):
    """Shows, equals and hashes as 1, whatever it is."""

    def __repr__(self) -> str: return "1.0"
    __str__ = __repr__
    def __format__(self, how: str) -> str: return "1.0"
    def __hash__(self) -> int: return 1
    def __eq__(self, other: object) -> bool: return True
    def __float__(self) -> float: return 1.0


class Loud(int):
    def __repr__(self) -> str: return "0; } int x = system("
    __str__ = __repr__
    def __format__(self, how: str) -> str: return repr(self)
    def __hash__(self) -> int: return 1
    def __eq__(self, other: object) -> bool: return True
    def __index__(self) -> int: return 7
    __int__ = __index__


class Level(int, Enum):
    LOW = 2
    HIGH = 5


class Rate(float, Enum):
    SLOW = 0.5
    FAST = 2.5


class Step(IntEnum):
    ONE = 1
    THREE = 3


@dataclass(frozen=True)
class Scale:
    by: Any


NUMBERS = [
    (Short(2.5), 2.5), (Loud(3), 3), (Level.HIGH, 5), (Rate.FAST, 2.5), (Step.THREE, 3), (True, 1),
    (np.float64(0.1), 0.1), (np.float32(0.1), 0.10000000149011612), (np.float16(0.5), 0.5),
    (ml_dtypes.bfloat16(1.5), 1.5), (np.longdouble(0.25), 0.25), (np.int8(-7), -7),
    (np.uint64(2**40), 2**40), (np.array(3.5), 3.5), (2**70, 2.0**70), (-0.0, -0.0),
]


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.linspace(-1, 1, 7, dtype=np.float32)[None]


@needs_compiler
def test_numbers_mean_what_they_are(x: np.ndarray) -> None:
    """As captured values, on either side, and as what a pipeline returns."""
    numbers = [n for n, _ in NUMBERS if n is not True]

    @fg.pipeline
    def scaled(x):
        return tuple(fg.max(x * n) for n in numbers), tuple(numbers)

    products, alone = scaled(x)
    wanted = [w for n, w in NUMBERS if n is not True]
    for got, one, want in zip(products, alone, wanted, strict=True):
        np.testing.assert_array_equal(got, np.max(x * np.float32(want), axis=1))
        np.testing.assert_allclose(one, np.float32(want), rtol=0)
    assert "system" not in scaled.source()


@needs_compiler
@pytest.mark.parametrize(("one", "other"), [
    (Short(2.5), Short(3.5)), (Loud(2), Loud(3)), (Rate.SLOW, Rate.FAST),
    ((Short(1.5),), (Short(4.5),)), (Scale(Short(1.5)), Scale(Short(2.5))),
])
def test_another_constant_is_another_kernel(one: Any, other: Any, x: np.ndarray) -> None:
    """In this process and on disk: what a constant says it equals is not asked."""

    def number(c: Any) -> Any:
        return number(c[0]) if isinstance(c, tuple) else getattr(c, "by", c)

    def text(x, *, c):
        return fg.max(x * number(c))

    for given in (one, other, one):
        for pipeline in (fg.pipeline(text), fg.pipeline(text)):
            np.testing.assert_array_equal(pipeline(x, c=given), np.float32(plain(number(given))))


def test_keys_tell_constants_apart() -> None:
    """By class and exact value: 1, 1.0 and True; 0.0 and -0.0; inside tuples and records."""
    distinct = [1, 1.0, True, 0, 0.0, -0.0, False, None, "1", math.inf, Short(1.0), Short(2.0),
                Loud(1), Loud(2), Level.LOW, Rate.SLOW, Step.ONE, math.nan]
    for wrap in (lambda c: c, lambda c: (c,), Scale, lambda c: frozenset([c]), lambda c: (0, (c,))):
        keys = [constant_key(wrap(c)) for c in distinct]
        assert len(set(keys)) == len(distinct)
        assert keys == [constant_key(wrap(c)) for c in distinct]
    assert constant_key(math.nan) == constant_key(float("nan"))


@pytest.mark.parametrize("wrong", [
    Fraction(1, 3), Decimal("0.1"), np.timedelta64(3, "s"), np.datetime64(5, "ns"), 1j,
    np.longdouble(1) / 3, np.array([1.0, 2.0]), "2", None, np.complex64(1),
], ids=repr)
def test_what_is_no_plain_number_is_refused(wrong: Any, x: np.ndarray) -> None:
    assert plain(wrong) is None

    @fg.pipeline
    def scaled(x):
        return fg.max(x * wrong)

    with pytest.raises(TraceError, match=r"pipeline can compute with|array"):
        scaled(x)


@pytest.mark.parametrize("huge", [10**400, -(10**400), 2**1024])
def test_what_no_float_is_near_is_refused(huge: int, x: np.ndarray) -> None:
    @fg.pipeline
    def scaled(x):
        return fg.max(x * huge)

    with pytest.raises(TraceError, match="greatest float"):
        scaled(x)


def test_whole_numbers_beyond_64_bits_are_floats(x: np.ndarray) -> None:
    @fg.pipeline
    def shifted(x):
        return fg.max(x + 2**63)

    np.testing.assert_allclose(shifted(x.astype(np.int64)), 2.0**63, rtol=1e-6)
    assert "9.223372e+18" in shifted.source()


def literals(x):
    i, n = fg.index(x), fg.length(x)
    return (fg.max(x * 0) + 16777217.0, fg.max(x) * 0 + 1 / 3, fg.min(x * 0) - 1e300, x * 1e-45,
            fg.where(fg.max(x) < 3e38, 2.5e-38, 1e400), fg.min(i) + -(2**63), fg.max(i) + 2**62,
            fg.max(fg.where(x < 2, 2147483647, 5) + fg.where(x < 1, 3, 4)), n * n * n,
            fg.sum(i * i), fg.max(i * 3_000_000), fg.sum(fg.where(x > 0, i * n, 0)),
            fg.where(fg.max(x) < 9, 2147483647, 5) * fg.where(fg.max(x) < 9, 3, 4))


def wanted_literals(x: np.ndarray) -> tuple[Any, ...]:
    n = x.shape[1]
    i, f, rows = np.arange(n, dtype=np.int64), np.float32, np.ones(len(x), np.int64)
    with np.errstate(over="ignore"):
        return (f(16777217.0), f(1 / 3), f(-1e300), x * f(1e-45), f(2.5e-38), rows * -(2**63),
                rows * (n - 1 + 2**62), 2147483647 + np.where((x >= 1).any(axis=1), 4, 3),
                rows * n**3, rows * (i * i).sum(), rows * 3_000_000 * (n - 1),
                ((x > 0) * i * n).sum(axis=1), rows * 2147483647 * 3)


def check_literals(got: tuple[Any, ...], x: np.ndarray) -> None:
    for place, (found, want) in enumerate(zip(got, wanted_literals(x), strict=True)):
        np.testing.assert_array_equal(found, want, err_msg=str(place))


ROWS = np.linspace(-1, 1.5, 3 * 50_000, dtype=np.float32).reshape(3, -1)


@needs_compiler
def test_numbers_are_exact_on_the_cpu() -> None:
    check_literals(fg.pipeline(literals)(ROWS), ROWS)


def test_numbers_are_exact_on_gpus() -> None:
    """Whole numbers have 64 bits also where they are made of columns alone."""
    case = Case(fg.pipeline(literals), {"x": ROWS}, *ROWS.shape)
    check_literals(case.emulate(), ROWS)
    assert case.work().schedule.wide_columns
    small = Case(fg.pipeline(literals), {"x": ROWS[:, :500]}, 3, 500)
    assert not small.work().schedule.wide_columns


def test_floats_are_spelled_as_they_are_rounded() -> None:
    rng = np.random.default_rng(0)
    for value in rng.integers(0, 2**64, 2000, np.uint64).view(np.float64):
        if math.isfinite(value):
            assert float(spelled(value, single=False)) == value
        near = rounded(value, single=True)
        if math.isfinite(near):
            assert np.float32(spelled(value, single=True)) == np.float32(near)


def over(x, *, t=1.0):
    return fg.sum(fg.exp((x - fg.max(x)) / t))


def times(x, *, t=1.0):
    return fg.sum(fg.exp((x - fg.max(x)) * t))


def twice(x, *, t=1.0):
    return fg.sum(fg.exp((x - fg.max(x)) * t / 3.0 * t))


def twice_over(x, *, t: fg.Positive = 1.0):
    return fg.sum(fg.exp((x - fg.max(x)) / t / 3.0 / t))


@pytest.mark.parametrize("t", [5e-324, 1e-310, 2.3e-308, 1e-200, 1e308])
@pytest.mark.parametrize("text", [over, times, twice, twice_over])
def test_constants_at_the_ends_of_floats(text, t):
    """One over them, and their squares, may be no floats; the text does without these."""
    p = fg.Pipeline(text)
    x = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 1e-310], [-1e-200, 0.0, 2e-308], [2.0, 2.0, 2.0]])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(p(x, t=t), p.reference(x, t=t), rtol=1e-12)
