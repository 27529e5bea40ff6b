"""Numbers that a message holds against each other have as many digits as show how they differ."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import fusegen as fg
from fusegen.algebra.numbers import LN2, digits_apart, spelled
from fusegen.ir.witness import Disorder, Row, Stray, told_apart

ROW = Row((("x", (Fraction(1),)),))


def bent(by: float, **more: object) -> fg.OwnMonoid:
    """A sum that is bent a little, so that no grouping gives what another gives."""
    return fg.monoid(
        identity={"v": 0.0, **dict.fromkeys(more, 0.0)},
        lift=lambda x: {"v": x, **dict.fromkeys(more, x)}, project=lambda s: s["v"],
        merge=lambda p, q: {"v": p["v"] + q["v"] + by * p["v"] * p["v"] * q["v"],
                            **{n: p[n] + q[n] for n in more}},
    )


def sides_of(monoid: fg.OwnMonoid) -> tuple[str, str, str]:
    """Both sides of the law, and what is said beside them."""
    with pytest.raises(fg.LawViolation) as caught:
        fg.check(monoid)
    *_, left, right = caught.value.counterexample.text[-1].split("; ")
    if not right.startswith("they differ"):
        return left.split(" = ")[1], right.split(" = ")[1], ""
    *_, left, right, beside = caught.value.counterexample.text[-1].split("; ")
    return left.split(" = ")[1], right.split(" = ")[1], beside


@pytest.mark.parametrize("by", [0.5, 1e-5, 1e-9, 1e-12, 1e-15, 1e-25])
def test_the_sides_of_a_law_differ_in_print(by):
    left, right, beside = sides_of(bent(by))
    assert left != right
    assert not beside


def test_what_no_digits_show_is_shown_by_itself():
    left, right, beside = sides_of(bent(1e-200))
    assert left == right == "{v: 3}"
    assert beside == "they differ by 2.0e-200"
    assert sides_of(bent(1e-90, n=0))[2] == "they differ by 2.0e-90 in v"


def test_digits_of_exact_numbers():
    third = Fraction(1, 3)
    assert digits_apart([third], [Fraction(1, 2)]) == 6
    assert spelled(third, 20) == "1/3"
    near = third + Fraction(1, 10**14)
    digits = digits_apart([third, near], [third, near + Fraction(1, 10**18)])
    assert spelled(near, digits) != spelled(near + Fraction(1, 10**18), digits)
    assert spelled(LN2 + Fraction(1, 10**25), 50).startswith("0.693147180559945309417232221")


def test_floats_are_told_apart():
    assert told_apart((1.0, 2.0)) == ("1", "2")
    assert told_apart((1.0, 1.0)) == ("1", "1")
    assert told_apart((1.0, math.nextafter(1.0, 2))) == ("1", "1.0000000000000002")
    assert told_apart((1e-5, 1.0001e-5), 3) == ("1e-05", "1.0001e-05")
    assert told_apart((math.nan, math.inf, math.nan)) == ("nan", "inf", "nan")


def test_witnesses_tell_their_numbers_apart():
    stray = str(Stray((("x", (1.0,)),), "", 1.0, 1.0000001))
    assert "gives 1, the text 1.0000001." in stray
    disorder = Disorder(ROW, "x", (), ((1.0, 2.0), (1.00000001, 2.00000001)), (1,), (1,), (0,))
    assert "f(1) = 2, f(1.00000001) = 2.00000001;" in str(disorder)
