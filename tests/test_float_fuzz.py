"""A seeded slice of the float fuzz, and proof that its oracle sees what it is there to see."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz.float_campaign import report, run_campaign, seeds_of
from fuzz.float_judge import merged_sums
from fuzz.float_oracle import Reading, magnitude, quantum, schedules
from fuzz.float_page import page, table
from fuzz.float_rows import TREES, execute
from fuzz.float_texts import random_text
from fuzz.float_yardstick import Text

import fusegen as fg
from fusegen.algebra import merge
from fusegen.algebra.derive import derive
from fusegen.algebra.floats.judge import Verdict
from fusegen.oracle.bank import Bank

SLICE, FIRST = 16, 500


@pytest.fixture(scope="module")
def found():
    return report(run_campaign(FIRST, SLICE))


@pytest.mark.long
def test_what_is_merged_is_never_worse_in_floats_than_the_text_may_be(found):
    assert found["exceptions"] == []
    assert found["wrong"] == [], table(found)
    assert found["sums"]["accepted"] > SLICE // 2
    assert found["worst_accepted"]["max"] <= 1


@pytest.mark.long
def test_little_of_what_can_be_merged_is_refused(found):
    assert found["missed_share"] < 0.35, table(found)  # of few; benchmarks/float_fuzz.md has many
    assert found["sums"].get("caught", 0) <= 1


@pytest.mark.long
def test_the_figures_are_told(found):
    shown = page(found, FIRST)
    assert f"{SLICE} different random texts" in shown
    assert "| of these wrong | 0 |" in shown


def test_texts_differ_and_come_again():
    texts = [str(random_text(s)) for s in seeds_of(0, 300)]
    assert len({*texts}) == 300
    assert texts == [str(random_text(s)) for s in seeds_of(0, 300)]
    for word in ("fg.min", "fg.where", "== fg.max", ", z", "r)", "fg.expm1", "fg.sqrt"):
        assert any(word in t for t in texts), word


# ---- the oracle ----


def _graph(text, names):
    pipeline = fg.pipeline(text)
    return pipeline.traced(frozenset(names), {}).graph


WRONG = {
    "other data": lambda x, y: fg.sum(fg.exp(x - fg.max(y))),
    "other mean": lambda x, y: fg.sum((x - fg.mean(y)) ** 2),
    "other weights": lambda x, y: fg.sum((x - fg.sum(fg.abs(y) * x) / fg.sum(fg.abs(y))) ** 2),
    "other scale": lambda x, y: fg.sum((x / fg.max(fg.abs(y))) ** 2),
    "cancels": lambda x, y: fg.sum(y * 0 + fg.expm1(x - fg.max(x))),
    "foreign square": lambda x, y: fg.sum(y**2 * (x - fg.mean(x)) ** 2),
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_the_oracle_sees_what_is_wrong(text, monkeypatch):
    monkeypatch.setattr(merge, "judge", lambda *_, **__: Verdict())
    graph = _graph(text, ("x", "y"))
    derivation = derive(graph)
    sums = merged_sums(graph, derivation)
    assert sums
    assert max(w.excess for w in execute(graph, derivation, sums, TREES, 1, [0]).values()) > 2


def test_the_oracle_knows_how_wrong_the_text_may_be():
    """What float32 makes of random texts is within the schedules and magnitudes it is given."""
    rng = np.random.default_rng(2)
    for seed in range(200, 240):
        graph = random_text(seed).graph()
        inputs = {i.name: rng.normal(1, 2, (20, 40 if i.name != "r" else 1)).astype(np.float32)
                  for i in graph.inputs}
        right = Reading(graph, inputs, 40)
        single = next(iter(schedules(graph, inputs, 40)))
        for node in graph.outputs:
            with np.errstate(all="ignore"):
                bound = magnitude(right, node) + magnitude(right, node, quantum)
                off = np.abs(single[node].astype(float) - right.values[node])
                within = off <= 8 * 2.0**-24 * bound
            known = np.isfinite(off) & np.isfinite(bound) & (bound < 1e36)
            assert np.all(within[np.broadcast_to(known, within.shape)]), str(random_text(seed))


def test_an_infinity_is_wrong_unless_the_divisor_is_all_rounding():
    graph = _graph(lambda x, y: fg.sum(fg.abs(y) / fg.mean(x)), ("x", "y"))
    (name,) = (graph.names[o] for o in graph.outputs)
    x = np.array([[1e5, 1, 2e-3, -1, -1e5, 1e-3], [1, 2, 3, -1, -2, -2]], np.float32)
    bank = Bank(6, {"x": x, "y": np.ones_like(x)}, np.zeros((2, 2), int))
    for row, excess in ((0, 0.0), (1, np.inf)):
        merged = np.full((1, 1), np.inf, np.float32)
        assert Text(graph, [name], bank.only(row)).worst(name, merged, "").excess == excess


def test_the_yardstick_has_errors_of_both_signs():
    """Row values that are off may make up for each other in one direction, and not in the other."""
    graph = _graph(lambda x: fg.sum(x) + 0 * fg.mean(x), ("x",))
    x = np.full((1, 24), 1.5, np.float32)
    (total,) = graph.outputs
    found = [float(v[total][0, 0]) - 36 for v in schedules(graph, {"x": x}, 24)]
    assert min(found) < 0 < max(found)
    assert min(found) == pytest.approx(-max(found), rel=1e-3)
