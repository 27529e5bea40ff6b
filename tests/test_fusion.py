"""Sweeps and accesses per element: the paper's own counts, and the plan's faces."""

from __future__ import annotations

import pytest

import fusegen as fg

L = fg.library


@pytest.mark.parametrize(
    ("pipeline", "form", "accesses"),
    [
        # Milakov & Gimelshein 2018, section 3: naive 3, safe 4, online 3 accesses per element.
        (L.naive_softmax, "safe", 3), (L.naive_softmax, "unfused", 3),
        (L.naive_softmax, "online", 3),
        (L.softmax, "safe", 4), (L.softmax, "unfused", 4), (L.softmax, "online", 3),
        # Section 4: softmax followed by top-K 5, safe fused 2, online fused 1.
        (L.softmax_topk, "unfused", 5), (L.softmax_topk, "safe", 2), (L.softmax_topk, "online", 1),
    ],
    ids=lambda v: getattr(v, "name", str(v)),
)
def test_accesses_per_element_are_the_papers(pipeline, form, accesses):
    assert pipeline.plan(form=form).accesses_per_element == accesses


STATISTICS = ("logsumexp", "topk", "argmax", "softmax_topk", "entropy", "cross_entropy", "var_mean",
              "norm2", "moe_gate")
WHOLE_ROWS = (
    "softmax",
    "naive_softmax",
    "log_softmax",
    "layer_norm",
    "rms_norm",
    "absmax_quantize",
)


@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_read_every_element_once(name):
    plan = L.PIPELINES[name].plan(form="online")
    assert (plan.reads_per_element, plan.writes_per_element, plan.sweeps) == (1, 0, 1)


@pytest.mark.parametrize("name", WHOLE_ROWS)
def test_whole_rows_are_read_twice_and_written_once(name):
    plan = L.PIPELINES[name].plan(form="online")
    assert (plan.reads_per_element, plan.writes_per_element, plan.sweeps) == (2, 1, 2)


def test_weighted_mean_reads_each_of_its_two_inputs_once():
    assert L.weighted_mean.plan(form="online").reads_per_element == 2
    assert L.weighted_mean.plan(form="safe").reads_per_element == 3


def test_optional_inputs_join_only_when_present():
    plain, full = L.layer_norm.plan(), L.layer_norm.plan(inputs=("weight", "bias"))
    assert "weight" not in plain.stages[-1].reads
    assert {"weight", "bias"} <= set(full.stages[-1].reads)


def test_plan_names_the_algorithms():
    assert "naive" in L.naive_softmax.plan(form="safe").algorithm
    assert "safe" in L.softmax.plan(form="safe").algorithm
    assert "unfused" in L.softmax.plan(form="unfused").algorithm
    assert "block online" in L.softmax.plan(form="online").algorithm
    assert "one element at a time" in L.softmax.plan(form="online", chunk=1).algorithm


def test_plan_stages_say_what_is_read_folded_and_stored():
    first, second = L.softmax.plan(form="online").stages
    assert first.folds == ("m", "sum_exp")
    assert first.reads == second.reads == ("x",)
    assert second.stores == ("div",)
    assert "sweep" in str(L.softmax.plan())


def test_derivation_says_state_and_proof():
    found = L.softmax_topk.derivation(k=3)
    assert found.proved
    assert [type(e).__name__ for e in found] == ["Base", "Dependent", "Commuted"]


def test_graph_has_names_labels_places_and_extents():
    graph = L.softmax_topk.graph(k=3)
    assert graph.nodes["m"]["label"] == "max"
    assert graph.nodes["m"]["extent"] == "row value"
    assert graph.nodes["values"]["output"]
    assert ":" in graph.nodes["m"]["loc"]
    assert list(graph.successors("x"))


def test_forms_are_checked():
    with pytest.raises(fg.ArgumentError, match="Did you mean 'online'"):
        L.softmax.plan(form="onlin")
