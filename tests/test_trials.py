"""Merges tried in floats on hard rows: what is wrong is found and not used; what is right is."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from support.accepted import ACCEPTED

import fusegen as fg
from fusegen.algebra import merge as algebra_merge
from fusegen.algebra.derive import derive
from fusegen.algebra.floats.judge import Verdict
from fusegen.compile.lower.online import online_kernel
from fusegen.compile.trials import first
from fusegen.compile.trials import floats as trial
from fusegen.compile.trials.trees import try_trees
from fusegen.ir.derivation import Dependent, RefusalKind, Refused
from fusegen.ir.dtypes import FLOAT32
from fusegen.oracle.bank import Bank
from fusegen.oracle.replay import RowsReplay, chain
from fusegen.oracle.replay.states import Folder

pytestmark = pytest.mark.usefixtures("own_cache")

RIGHT = {p.name: p for p in (*fg.library.PIPELINES.values(), *ACCEPTED.values())}


# Each is equal to its text over the reals, and wrong in float32 on finite rows.
WRONG = {
    "the greatest of other data": lambda x, y: fg.sum(fg.exp(x - fg.max(y))),
    "the mean of other data": lambda x, y: fg.sum((x - fg.mean(y)) ** 2),
    "a moment about other data": lambda x, y: fg.sum((x - fg.max(y)) ** 2),
    "a third moment about other data": lambda x, y: fg.sum((x - fg.min(y)) ** 3),
    "other weights": lambda x, y: fg.mean(
        (x - fg.sum(fg.abs(y) * x) / fg.sum(fg.abs(y))) ** 2),
    "a scale of other data": lambda x, y: fg.sum((x / fg.max(fg.abs(y))) ** 2),
    "small differences": lambda x: fg.sum(fg.expm1(x - fg.max(x))),
    "not infinite": lambda x: fg.sum(fg.where(fg.isinf(x), 0.0, fg.exp(x - fg.max(x)))),
    "a range as scale": lambda x: fg.sum((x / (fg.max(x) - fg.min(x))) ** 2),
}


@pytest.fixture
def no_rule(monkeypatch):
    """The algebra as it would be if its rule about floats let everything pass."""
    monkeypatch.setattr(algebra_merge, "judge", lambda *_, **__: Verdict())


def _graph(text):
    pipeline = fg.pipeline(text)
    return pipeline.traced(frozenset(pipeline.signature.arrays), {}).graph


def _dependents(derivation):
    return [e for e in derivation if isinstance(e, Dependent)]


@pytest.mark.parametrize("pipeline", RIGHT.values(), ids=lambda p: p.name)
def test_what_is_right_is_used(pipeline):
    inputs = tuple(pipeline.signature.optional)
    for dtype in ("float32", "bfloat16"):
        work = pipeline.work(form="online", dtype=dtype, inputs=inputs)
        derivation = work.result("derive")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert first.tried(work.graph, derivation, work.dtypes) is derivation


@pytest.mark.parametrize("pipeline", RIGHT.values(), ids=lambda p: p.name)
def test_no_tree_gives_a_false_alarm(pipeline):
    work = pipeline.work(form="online", inputs=tuple(pipeline.signature.optional))
    derivation = work.result("derive")
    rows = try_trees(work.graph, derivation, work.dtypes)
    assert bool(rows) == bool(_dependents(derivation))


def test_what_is_computed_in_float64_is_tried_in_float64():
    """Also where the inputs are float32: a scaled difference loses no digit before the cast."""
    @fg.pipeline
    def in_float64(x, y: fg.PerColumn, z: fg.PerColumn):
        return fg.cast(fg.sum(fg.exp((y - x) / 0.5 - fg.max((y - x) / 0.5))), "float64"), fg.sum(z)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _dependents(in_float64.work(form="online").derivation)


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_what_is_wrong_in_floats_is_found_and_not_used(text, no_rule):
    graph = _graph(text)
    derivation = derive(graph)
    assert _dependents(derivation)
    types = dict.fromkeys((i.name for i in graph.inputs), FLOAT32)
    with pytest.warns(RuntimeWarning, match="please report") as told:
        kept = first.tried(graph, derivation, types)
    defects = [e for e in kept if isinstance(e, Refused) and e.refusal.kind is RefusalKind.DEFECT]
    assert len(defects) == len(told) >= 1
    shown = str(defects[0].refusal)
    assert "test_trials.py" in shown
    assert "the merged sum gives" in shown


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_check_fails_for_what_is_wrong_in_floats(text, no_rule):
    graph = _graph(text)
    types = dict.fromkeys((i.name for i in graph.inputs), FLOAT32)
    with pytest.raises(fg.LawViolation, match="is not the text in float32") as told:
        try_trees(graph, derive(graph), types)
    assert "the merged sum gives" in str(told.value)
    assert "test_trials.py" in str(told.value)


@pytest.mark.long
def test_check_says_what_it_tried_in_floats_and_where_it_failed(no_rule):
    assert "473 hard rows along every kind of tree" in str(fg.check(fg.library.softmax))
    for name in ("a moment about other data", "other weights"):
        with (
            pytest.raises(fg.LawViolation, match="is not the text in float32"),
            warnings.catch_warnings(action="ignore"),
        ):
            fg.check(fg.pipeline(WRONG[name]))


@pytest.mark.long
@pytest.mark.parametrize("text", [
    lambda x, y: fg.mean(x * (x - fg.max(y)) ** 2),
    lambda x, y: fg.sum(y**2 * (y - fg.max(x)) ** 2),
    lambda x, y: fg.sum(fg.exp(-y) * (x - fg.max(y)) ** 2),
    lambda x, y: fg.sum(fg.exp(x - fg.max(x)) * (y - fg.max(fg.where(y > 0, y, -np.inf))) ** 2),
])
def test_a_power_that_is_0_to_the_last_digit_is_no_alarm(text):
    """Where every x is P it is what the rounding of a mean leaves: docs/special_values.md."""
    pipeline = fg.pipeline(text)
    assert pipeline.plan(form="online").sweeps == 1
    assert pipeline.derivation().repairs


def test_a_divisor_that_is_all_rounding_is_no_alarm(monkeypatch):
    """Where a mean is what is left of terms that cancel, and is 0 in another order, so is the
    text infinite in that order; an infinity for a divisor with digits is one."""
    graph = _graph(lambda x, y: fg.sum(fg.abs(y) / fg.mean(x)))
    types = dict.fromkeys(("x", "y"), FLOAT32)
    derivation = derive(graph)
    kernel = online_kernel(graph, derivation, types)
    noise = np.array([[1e5, 1, 2e-3, -1, -1e5, 1e-3]], np.float32)
    for x, alarms in ((noise, 0), (np.ones((1, 6), np.float32), 1)):
        bank = Bank(6, {"x": x, "y": np.ones((1, 6), np.float32)}, np.zeros((1, 2), int))

        class Infinite(RowsReplay):
            def run(self, make_state):
                super().run(make_state)
                self.env[graph.names[graph.outputs[0]]] = np.full((1, 1), np.inf, np.float32)
                return self.results

        monkeypatch.setattr(trial, "RowsReplay", Infinite)
        found = trial.try_floats(graph, kernel, derivation, types, bank, chain(1))
        assert len(found) == alarms


def _foreign(x, y):
    return fg.sum(fg.exp(x - fg.max(y))), fg.sum(fg.exp(x - fg.max(x)))


def test_the_sum_keeps_its_own_sweep_and_the_user_is_told(no_rule):
    pipeline = fg.pipeline(_foreign)
    x, y = np.full((1, 3), 100, np.float32), np.array([[0, 0, 110]], np.float32)
    with pytest.warns(RuntimeWarning, match=r"foreign: test_trials.py:\d+.*sum_exp"):
        foreign, own = pipeline(x, y, form="online")
    np.testing.assert_allclose(foreign, 3 * np.exp(-10.0), rtol=1e-5)
    np.testing.assert_allclose(own, 3)
    shown = str(pipeline.explain())
    assert "proved, and wrong in floats" in shown
    assert "please report" in shown
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline(x, y, form="safe")
        pipeline(x, y, form="online")


def test_a_merge_is_tried_once(monkeypatch):
    """Not again for another form, shape or type of the same range, nor by a process that finds it
    on disk, nor by a call that is warm."""
    runs = []
    right = first.try_floats
    monkeypatch.setattr(first, "try_floats", lambda *a: runs.append(1) or right(*a))

    def fresh(x):
        return fg.sum(fg.exp(x - fg.max(x)) * 1.732050808)

    x = np.ones((2, 50), np.float32)
    pipeline = fg.pipeline(fresh)
    pipeline(x, form="online")
    tried = len(runs)
    pipeline(x)
    pipeline(x[:, :7])
    pipeline(x.astype(np.float64))
    fg.pipeline(fresh)(x)
    assert tried == len(runs) == 1
    fg.pipeline(fresh)(x, form="safe")
    assert len(runs) == tried


@pytest.mark.long
def test_trials_are_of_short_lists(monkeypatch):
    """Rows are as long as lists, and every merge sorts them: of K = 10⁹ nobody waits for a trial,
    nor for a row that shows why a sum about its last entry keeps its own sweep."""
    lengths = []

    def counted(self, a, b):
        found = merged(self, a, b)
        lengths.append({values.shape[-1] for values, _ in found.lists.values()})
        return found

    merged = Folder.merge
    monkeypatch.setattr(Folder, "merge", counted)

    @fg.pipeline
    def listed(x, *, far=10**9):
        m, held = fg.max(x), fg.topk(x, far).values
        after = fg.sum(fg.maximum(x - fg.min(held), 0)), fg.topk((x - m) ** 2, far)
        return fg.sum(fg.exp(x - m)), held, fg.topk(x, far + 1).indices, after

    listed.plan(form="online", n_cols=2 * 10**9)
    assert len(lengths) <= 3 * first.N_COLS
    assert lengths[25] == {25, 26}  # two lists of the text stay two
    monkeypatch.undo()
    assert fg.check(listed).float_rows
