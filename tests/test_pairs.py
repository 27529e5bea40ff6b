"""Thinned products of test cases: nothing that two choices hold together is lost."""

from __future__ import annotations

import itertools

import pytest
from support.pairs import pairwise


@pytest.mark.parametrize("sizes", [
    (2, 2), (3, 3, 3), (12, 3, 5), (9, 7, 2), (2, 4, 5, 3), (1, 6, 2)])
def test_any_two_choices_meet(sizes: tuple[int, ...]) -> None:
    axes = [[(axis, choice) for choice in range(size)] for axis, size in enumerate(sizes)]
    found = pairwise(*axes)
    assert found == pairwise(*axes)
    assert all(len(one) == len(axes) for one in found)
    for left, right in itertools.combinations(axes, 2):
        for a, b in itertools.product(left, right):
            assert any(a in one and b in one for one in found), (a, b)
    longest, second, *_ = sorted(sizes)[::-1]
    assert longest * second <= len(found) <= 1.5 * longest * second
