"""The yardstick of the float fuzz: what it knows of rounding, and which rows it hears."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz.float_judge import judge_text, merged_sums
from fuzz.float_oracle import ROUNDINGS, UNIT, Chance, Reading, Shaken, magnitude, quantum
from fuzz.float_rows import TREES, execute, rows_for
from fuzz.float_texts import random_text
from fuzz.float_yardstick import Text

import fusegen as fg
from fusegen.algebra import merge
from fusegen.algebra.derive import derive
from fusegen.algebra.floats.judge import Verdict
from fusegen.ir.dtypes import FLOAT32

INF = float("inf")
RNG = np.random.default_rng(11)


def _graph(text, *names):
    return fg.pipeline(text).traced(frozenset(names), {}).graph


def _rows(*shape):
    return RNG.normal(1, 2, shape).astype(np.float32)


# ---- rounding by chance ----


def test_chance_rounds_to_either_neighbour_and_to_each_as_often():
    graph = _graph(lambda x, y: fg.sum(x * y), "x", "y")
    inputs = {"x": _rows(50, 40), "y": _rows(50, 40)}
    (out,) = graph.outputs
    exact = inputs["x"].astype(float) * inputs["y"]
    near = exact.astype(np.float32)
    found = [Chance(graph, inputs, 40, seed).values[out.arg] for seed in range(4)]
    for values in found:
        assert np.all(values == values.astype(np.float32))
        up = np.nextafter(near, np.float32(INF)), np.nextafter(near, np.float32(-INF))
        assert np.all((values == near) | (values == up[0]) | (values == up[1]))
        assert np.all(abs(values - exact) < abs(np.spacing(near)))  # the neighbour on its side
        assert 0.4 < np.mean(values != near) < 0.6
    assert len({values.tobytes() for values in found}) == 4


def test_chance_leaves_what_is_exact_and_what_is_infinite():
    graph = _graph(lambda x, y: fg.sum(x * y), "x", "y")
    whole = np.arange(-20, 20, dtype=np.float32)[None]
    huge = np.full((1, 40), 1e30, np.float32)
    for x, y in ((whole, np.float32(0.5) + whole), (huge, huge)):
        values = Chance(graph, {"x": x, "y": y}, 40, 0).values[graph.outputs[0].arg]
        with np.errstate(over="ignore"):
            assert np.array_equal(values, (x.astype(float) * y).astype(np.float32))


def test_chance_stays_within_what_rounding_explains():
    for seed in range(300, 330):
        graph = random_text(seed).graph()
        inputs = {i.name: _rows(20, 40 if i.name != "r" else 1) for i in graph.inputs}
        right, chance = Reading(graph, inputs, 40), Chance(graph, inputs, 40, 1)
        for node in graph.outputs:
            with np.errstate(all="ignore"):
                # Results below the normal numbers round by as much as the least of these.
                bound = magnitude(right, node) + magnitude(right, node, quantum)
                off = abs(chance.values[node] - right.values[node])
                within = off <= 16 * UNIT * bound  # a rounding by chance is twice one to nearest
            known = np.isfinite(off) & np.isfinite(bound) & (bound < 1e36)
            assert np.all(within[np.broadcast_to(known, within.shape)]), str(random_text(seed))


# ---- elements as far off as a mean rounds ----


@pytest.mark.parametrize("n_cols", [2, 40])
def test_shaken_elements_are_off_by_what_their_sum_rounds_by(n_cols):
    graph = _graph(lambda x: fg.sum((x - fg.mean(x)) ** 2), "x")
    inputs = {"x": np.full((5, n_cols), 2.75, np.float32)}
    right = Reading(graph, inputs, n_cols)
    shaken = Shaken(right, graph)
    term = graph.outputs[0].arg
    off = max(ROUNDINGS, n_cols) * UNIT * 2.75
    assert not right.values[term].any()
    assert shaken.values[term] == pytest.approx(np.full((5, n_cols), off**2), rel=1e-6)
    (x,) = graph.inputs
    signs = np.sign(shaken.values[x] - right.values[x])
    assert set(np.unique(signs)) == {-1, 1}


def test_shaken_keeps_row_values_exponentials_and_conditions():
    def text(x):
        return fg.sum(fg.where(x < fg.mean(x), fg.exp(x - fg.max(x)), 0.0) * x)

    graph = _graph(text, "x")
    inputs = {"x": _rows(20, 30)}
    right = Reading(graph, inputs, 30)
    shaken = Shaken(right, graph)
    kept = [n for n in graph.nodes if getattr(n, "op", "") in ("exp", "lt") or hasattr(n, "fold")]
    assert len(kept) == 5
    for node in kept:
        assert np.array_equal(shaken.values[node], right.values[node])
    assert not np.array_equal(shaken.values[graph.inputs[0]], inputs["x"])


def test_another_pivot_is_allowed_its_rounding_where_the_text_is_exactly_0_and_no_more_elsewhere():
    graph = _graph(lambda x, y: fg.sum((x - fg.max(y)) ** 2), "x", "y")
    name = graph.names[graph.outputs[0]]
    bank = rows_for(graph, {"x": FLOAT32, "y": FLOAT32}, 24, 1)
    (_, own, judged, _), (_, moved, _, _) = (
        Text(graph, [name], bank, 0.0, names).known[name] for names in ((), (name,)))
    both = judged & np.isfinite(moved)
    zero = np.array([bank.label(k) == "constant | constant" for k in range(len(bank))])
    assert np.all(moved[both] >= own[both])
    assert np.median(moved[both] / own[both]) < 1.001
    if zero.any():
        assert np.all(moved[zero] > own[zero])


# ---- which rows are heard ----


def _bare(text, monkeypatch, *names):
    """The sums of a text, merged whatever the rule about floats says."""
    monkeypatch.setattr(merge, "judge", lambda *_, **__: Verdict())
    monkeypatch.setattr(merge, "obligations_of", lambda *_, **__: ())
    graph = _graph(text, *names)
    derivation = derive(graph, witnesses=False)
    name = graph.names[graph.outputs[0]]
    assert name in merged_sums(graph, derivation)
    return execute(graph, derivation, [name], TREES, 1, [0])[name]


def test_nothing_is_said_of_a_text_that_never_has_a_value(monkeypatch):
    worst = _bare(lambda x: fg.sum(((x - x) / fg.mean(x - x)) ** 2), monkeypatch, "x")
    assert (worst.rows, worst.excess) == (0, 0)
    assert _bare(lambda x: fg.sum((x - fg.max(x)) ** 2), monkeypatch, "x").rows > 200


def test_the_judgement_of_such_a_text_is_silence():
    silent = [v for s in (565, 2078) for v in judge_text(s).verdicts]
    assert {v.judgement for v in silent} == {"silent"}


INFINITE = {
    "a pivot that is infinite alone": (
        lambda x, y: fg.sum(fg.exp(x - fg.max(fg.abs(x))) + 0 * y), False),
    "terms about infinities": (
        lambda x, y: fg.sum(fg.where(fg.isinf(x), 0.0, fg.exp(x - fg.max(x))) + 0 * y), False),
    "left out by a condition": (
        lambda x, y: fg.sum(fg.where(y > 0, fg.exp(x - fg.max(x)), 0.0)), True),
}


@pytest.mark.parametrize("name", INFINITE)
def test_nan_for_a_number_is_wrong_on_rows_with_infinities_but_where_documented(name, monkeypatch):
    text, excepted = INFINITE[name]
    worst = _bare(text, monkeypatch, "x", "y")
    assert (worst.excess <= 1) is excepted, str(worst)
