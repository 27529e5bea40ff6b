"""A seeded slice of the attacks, and proof that what is wrong would be seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import simt
from attack.draws import FAMILIES, attack
from attack.engines import ENGINES, machine
from attack.judge import differences
from attack.layouts import Plan, lay
from attack.report import Report, many

EACH, SECONDS = 4, 600  # the slice ends by its number


@pytest.mark.parametrize("engine", [
    "cpu", pytest.param("emulated", marks=pytest.mark.skipif(
        simt.available() is not None, reason=str(simt.available()))),
])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_slice(family: str, engine: str) -> None:
    report = Report()
    with machine(engine) as ready:
        small = replace(ready, most=3000)
        many(report, small, 0, range(EACH), (family,), SECONDS, shown=False)
    assert report.findings == [], "\n".join(map(str, report.findings))
    assert sum(report.ran.values()) >= EACH - 1, str(report)


def test_attacks_are_their_seeds() -> None:
    for family in FAMILIES:
        (one, same), other = (attack(5, 7, family, 3000) for _ in range(2)), \
            attack(5, 8, family, 3000)
        assert one.words == same.words != other.words
        for name, laid in one.arrays.items():
            assert (laid.raw == same.arrays[name].raw).all()


def test_a_number_that_is_off_is_found() -> None:
    seen = 0
    for number in range(80):
        drawn = attack(1, number, "rows", 500)
        if drawn.text.name not in ("softmax", "logsumexp", "norm2") or drawn.out is not None:
            continue
        (found,) = ENGINES["cpu"].run(drawn).results
        assert not [*differences(drawn, [found])]
        wrong = found.copy()
        known = np.argwhere(np.isfinite(wrong) & (np.abs(wrong.astype("f8")) > 1e-3))
        if len(known):
            wrong[tuple(known[-1])] *= 1.125
            (said,) = differences(drawn, [wrong])
            assert "result 0: 1 of" in said
            seen += 1
    assert seen > 2


def test_a_byte_beside_an_array_is_found() -> None:
    plan = Plan(order=(1, 0), gaps=(3, 2), back=(True, False), repeats=(False, False), off=5)
    laid = lay(plan, (7, 9), np.dtype("f4"))
    laid.view()[...] = 1
    assert not laid.strayed(laid.raw)
    assert np.count_nonzero(laid.raw != 0xFF) == laid.view().nbytes
    behind = laid.raw.copy()
    behind[0] = 0
    assert laid.strayed(behind) == 1
