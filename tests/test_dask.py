"""Pipelines over Dask's arrays: any chunks, the results of whole rows, nothing computed early."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest
from support import state_cases as cases
from support import state_rows
from support.state_cases import flat, near

import fusegen as fg
from fusegen.backend.host import limits

dask = pytest.importorskip("dask", reason="Dask is not installed")
da = pytest.importorskip("dask.array", reason="Dask is not installed")

L = fg.library.PIPELINES
PIPELINES: dict[str, fg.Pipeline] = {
    **{n: L[n] for n in cases.LIBRARY},
    **{n: fg.Pipeline(t) for n, t in cases.TEXTS.items() if n not in cases.LIBRARY},
    "ends": fg.Pipeline(cases.ends),
}


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def cut(x, rng, most=5):
    """A Dask array of these values in random chunks, some of them empty."""
    chunks = tuple(tuple(np.diff(cases.cuts_of(n, rng, most)).tolist()) for n in x.shape)
    return da.from_array(x, chunks=chunks, asarray=False)


def computed(found):
    """Results as arrays, in the pipeline's nesting."""
    (found,) = dask.compute(found)
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", PIPELINES)
def test_any_chunks(name):
    """Uneven and empty ones, other ones for every input, ties across them, trees of many shapes."""
    rng, p = np.random.default_rng(3), PIPELINES[name]
    for trial in range(3):
        x = rng.normal(rng.choice([0.0, 50.0]), 3, (5, int(rng.integers(20, 90)))).astype("f4")
        if trial == 1:
            x = np.round(x)
        given = cases.arguments(name, x)
        found = fg.dask.apply(p, *(cut(a, rng) for a in given), split_every=2 + trial)
        want = p.reference(*given)
        near(computed(found), want)
        for lazy, whole in zip(found.values() if isinstance(found, dict) else
                               found if isinstance(found, tuple) else [found], flat(want),
                               strict=True):
            assert isinstance(lazy, da.Array)
            assert lazy.shape == whole.shape
            assert isinstance(lazy._meta, np.ndarray)


@pytest.mark.long
@pytest.mark.parametrize("name", cases.HARD_TEXTS)
def test_special_values_are_those_of_a_call(name):
    x, rng, p = cases.hard_rows(), np.random.default_rng(2), PIPELINES[name]
    with np.errstate(all="ignore"):
        whole = p(x)
        for _ in range(3):
            near(computed(fg.dask.apply(p, cut(x, rng))), whole)


@pytest.mark.parametrize("axis", [0, 1, (0, 2), (2, 1), None])
def test_any_axes(axis):
    """Lists number the columns of the whole row, where several axes are cut, too."""
    rng = np.random.default_rng(5)
    x = np.round(rng.normal(0, 9, (6, 4, 10))).astype("f4")
    for name, keepdims in (("topk", False), ("topk", True), ("var_mean", True), ("ends", False)):
        p = PIPELINES[name]
        constants = {"k": 3} if name == "topk" else {}
        found = fg.dask.apply(p, cut(x, rng), axis=axis, keepdims=keepdims, **constants)
        got, want = computed(found), p.reference(x, axis=axis, keepdims=keepdims, **constants)
        near(got, want)
        for lazy, whole in zip(found, flat(want), strict=True):
            assert lazy.shape == whole.shape


@pytest.mark.long
def test_inputs_broadcast():
    """As NumPy's do, whatever axes are reduced; one value per column, and per row."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(6, 4, 10)).astype("f4")
    weights = rng.random((4, 1)).astype("f4")
    for axis in (-1, 0, 1, (0, 1)):
        p = PIPELINES["weighted_mean"]
        near(computed(fg.dask.apply(p, cut(x, rng), cut(weights, rng), axis=axis)),
             p.reference(x, weights, axis=axis))
    p, columns = PIPELINES["many"], rng.random(40).astype("f4")
    near(computed(fg.dask.apply(p, cut(x, rng), columns, axis=(1, 2))),
         p.reference(x, columns, axis=(1, 2)))
    p, label = PIPELINES["labelled"], rng.integers(0, 10, (6, 1, 10))
    near(computed(fg.dask.apply(p, cut(x, rng), cut(label, rng), axis=1)),
         p.reference(x, label, axis=1))
    p, label = PIPELINES["labelled"], rng.integers(0, 10, 4)
    near(computed(fg.dask.apply(p, cut(x, rng), cut(label, rng))), p.reference(x, label))


def test_chunks_of_whole_rows_are_calls():
    """So that texts without states have them, too."""
    rng = np.random.default_rng(7)
    x, w = rng.normal(size=(9, 40)).astype("f4"), rng.random(40).astype("f4")
    rows = da.from_array(x, chunks=((4, 0, 5), -1))
    near(computed(fg.dask.apply(L["softmax"], rows)), L["softmax"].reference(x))
    near(computed(fg.dask.apply(L["layer_norm"], rows, w, w)), L["layer_norm"].reference(x, w, w))
    columns = da.from_array(x, chunks=(-1, 7))
    near(computed(fg.dask.apply(L["softmax"], columns, axis=0)), L["softmax"].reference(x, axis=0))
    got = fg.dask.apply(L["topk"], columns, axis=0, k=3)
    assert got[0].chunks == ((3,), columns.chunks[1])
    near(computed(got), L["topk"].reference(x, axis=0, k=3))


@pytest.mark.parametrize("name", [
    "softmax", "layer_norm", "cross_entropy", "listed", "numbered", "rags", "cross_entropy_grad"])
def test_full_rows(name):
    """A second pass over the chunks, which may be made again for it; row values beside them, and
    results that are made of inputs of rows."""
    rng, (p, made) = np.random.default_rng(9), state_rows.CASES[name]
    x = rng.normal(0, 3, (4, 40)).astype("f4")
    given = made(x, rng)
    cuts = [cut(a, rng) for a in given]
    found, again = (fg.dask.apply(p, *cuts, reread=r) for r in (False, True))
    want = p.reference(*given)
    near(computed(found), want)
    for a, b in zip(flat(computed(found)), flat(computed(again)), strict=True):
        assert a.tobytes() == b.tobytes()
    near(computed(fg.dask.apply(p, *(cut(np.moveaxis(a, -1, 0) if a.ndim == 2 else a, rng)
                                     for a in given), axis=0)),
         p.reference(*(np.moveaxis(a, -1, 0) if a.ndim == 2 else a for a in given), axis=0))


def test_full_rows_of_several_axes():
    rng = np.random.default_rng(10)
    x = rng.normal(0, 3, (6, 4, 10)).astype("f4")
    for axis in ((0, 2), None):
        for name in ("softmax", "numbered"):
            p = state_rows.CASES[name][0]
            near(computed(fg.dask.apply(p, cut(x, rng), axis=axis)), p.reference(x, axis=axis))


@pytest.mark.parametrize(("name", "axis"), [
    ("many", -1), ("topk", 0), ("listed", -1), ("norm2", None)])
def test_bits_do_not_depend_on_chunks_where_that_is_asked(name, axis):
    """Rows in one chunk, in many, along any tree."""
    rng = np.random.default_rng(11)
    p = PIPELINES.get(name) or state_rows.CASES[name][0]
    x = rng.normal(50, 3, (4, 500)).astype("f4")
    given = cases.arguments(name, x if axis != 0 else x.T.copy())
    found = set()
    for trial in range(4):
        cuts = [cut(a, rng) if trial else da.from_array(a) for a in given]
        got = computed(fg.dask.apply(p, *cuts, axis=axis, deterministic=True, pieces=64,
                                     split_every=2 + trial))
        near(got, p.reference(*given, axis=axis))
        found.add(b"".join(a.tobytes() for a in flat(got)))
    assert len(found) == 1


def test_chunks_are_not_kept_for_a_second_pass_where_they_are_made_again():
    made = []

    def chunk(block):
        made.append(1)
        return block

    x = da.map_blocks(chunk, da.ones((4, 30), chunks=(4, 10), dtype="f4"), dtype="f4",
                      meta=np.empty((0, 0), "f4"))
    for reread, times in ((False, 3), (True, 6)):
        made.clear()
        computed(fg.dask.apply(L["softmax"], x, reread=reread))
        assert len(made) == times


@pytest.mark.long
def test_vectors():
    """A data base in chunks, queries in memory; causal attention, whose columns are numbered."""
    rng = np.random.default_rng(8)
    q, k, v = (rng.normal(size=s).astype("f4") for s in ((2, 5, 8), (40, 8), (2, 40, 6)))
    p = fg.library.nearest
    near(computed(fg.dask.apply(p, q[0], cut(k, rng), k=4)), p.reference(q[0], k, k=4))
    p = fg.library.attention
    found = fg.dask.apply(p, cut(q, rng), cut(k, rng), cut(v, rng), scale=0.3, causal=True)
    near(computed(found), p.reference(q, k, v, scale=0.3, causal=True), rtol=1e-5)


def test_nothing_is_computed_before_it_is_asked_for():
    def never(block):
        raise AssertionError("computed")

    x = da.map_blocks(never, da.zeros((4, 30), chunks=(2, 7), dtype="f4"), dtype="f4",
                      meta=np.empty((0, 0), "f4"))
    values, columns = fg.dask.apply(L["topk"], x, k=2)
    with pytest.raises(AssertionError, match="computed"):
        dask.compute(values, columns)


def test_names_are_those_of_the_text():
    """For the dashboard; and equal for equal work, in every process."""
    x = da.zeros((4, 30), chunks=(2, 7), dtype="f4")
    a, b = fg.dask.apply(L["logsumexp"], x), fg.dask.apply(L["logsumexp"], x)
    assert a.name == b.name
    assert {n.rpartition("-")[0] for n in a.dask.layers} >= {
        "logsumexp", "logsumexp-fold", "logsumexp-states-aggregate"}
    scaled = PIPELINES["tempered"]
    assert (fg.dask.apply(scaled, x, t=0.5)[0].name != fg.dask.apply(scaled, x, t=0.6)[0].name)
    one, other = fg.pipeline(lambda x: fg.sum(x)), fg.pipeline(lambda x: fg.sum(x * x))
    assert fg.dask.apply(one, x).name != fg.dask.apply(other, x).name


def test_tasks_have_one_thread(monkeypatch):
    from fusegen.dask import tasks

    monkeypatch.delenv("FUSEGEN_THREADS", raising=False)
    said = []
    p = fg.pipeline(cases.many)
    real = type(p).states
    monkeypatch.setattr(type(p), "states", lambda *a, **k: (
        said.append(limits.threads()), real(*a, **k))[1])
    x = np.ones((2, 20), "f4")
    computed(fg.dask.apply(p, da.from_array(x, chunks=(2, 7)), x[0]))
    assert said == [1, 1, 1]
    assert tasks._THREADS.get() == sys.maxsize


def _unmerged(x):
    return fg.sum(fg.tanh(x - fg.mean(x)))


@pytest.mark.parametrize(("made", "error", "said"), [
    (lambda x: fg.dask.apply(L["logsumexp"], x[x[:, 0] >= 0]), fg.ShapeError, "unknown sizes"),
    (lambda x: fg.dask.apply(L["logsumexp"], np.ones((2, 3))), fg.ArgumentError, "no Dask array"),
    (lambda x: fg.dask.apply(fg.library.texts, x), fg.ArgumentError, "takes a pipeline"),
    (lambda x: fg.dask.apply(L["topk"], x, k=31), fg.ShapeError, "topk of 31"),
    (lambda x: fg.dask.apply(L["logsumexp"], x, axis=2), fg.ShapeError, "axis 2"),
    (lambda x: fg.dask.apply(L["logsumexp"], x.astype("c8")), fg.DTypeError, "complex64"),
    (lambda x: fg.dask.apply(PIPELINES["many"], x, np.ones(29)), fg.ShapeError, "29"),
    (lambda x: fg.dask.apply(L["topk"], x, kk=3), fg.ArgumentError, "kk"),
    (lambda x: fg.dask.apply(L["topk"], x, pieces=64), fg.ArgumentError, "without deterministic"),
    (lambda x: fg.dask.apply(L["topk"], x, deterministic=True, pieces=96), fg.ArgumentError,
     "no power of two"),
    (lambda x: fg.dask.apply(L["topk"], x, split_every=1), fg.ArgumentError, "split_every"),
    (lambda x: fg.dask.apply(fg.pipeline(_unmerged), x), fg.PipelineError, r"rechunk\({1: -1}\)"),
], ids=lambda v: v if isinstance(v, str) else "")
def test_errors_come_with_the_graph(made, error, said):
    with pytest.raises(error, match=said) as raised:
        made(da.zeros((4, 30), chunks=(2, 7), dtype="f4"))
    assert "test_dask.py" in str(raised.value)


def test_arrays_that_have_no_graph_are_refused(monkeypatch):
    monkeypatch.setattr(da, "array_expr_enabled", lambda: True)
    with pytest.raises(fg.ArgumentError, match="query-planning"):
        fg.dask.apply(L["logsumexp"], da.zeros((4, 30), dtype="f4"))


def test_labels_are_not_lost():
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    x = da.zeros((4, 30), chunks=(2, 7), dtype="f4")
    with pytest.raises(fg.ArgumentError, match=r"\.data"):
        fg.dask.apply(L["weighted_mean"], x, xarray.DataArray(np.ones((4, 30), "f4")))


# ---- workers ----


def inner(x):
    return fg.exp(x - fg.max(x))


def test_pipelines_of_the_main_program_travel_by_value(monkeypatch):
    """With those that their texts call; others by name."""
    from fusegen.dask.shipped import arrived, shipped

    assert arrived(shipped(L["logsumexp"])) is L["logsumexp"]
    main = sys.modules["__main__"]
    called = fg.pipeline(inner)
    called.__module__, called.__qualname__ = "__main__", "called"
    monkeypatch.setattr(main, "called", called, raising=False)

    def total(x):
        return fg.sum(called(x))

    total.__module__ = "__main__"
    there = fg.pipeline(total)
    there.__qualname__ = "there"
    monkeypatch.setattr(main, "there", there, raising=False)
    assert there.__reduce__() == "there"
    data = shipped(there)
    monkeypatch.undo()
    x = np.random.default_rng(0).normal(size=(3, 50)).astype("f4")
    found = arrived(data)
    assert found is not there
    assert arrived(data) is found
    np.testing.assert_array_equal(found(x), there(x))
    lock = __import__("threading").Lock()
    with pytest.raises(fg.ArgumentError, match="cannot be sent"):
        shipped(fg.pipeline(lambda x: fg.sum(x) if lock else x))


def test_workers_run_no_other_text():
    text = _text_of(fg.dask.apply(L["logsumexp"], da.zeros((4, 9), chunks=3, dtype="f4")))
    again = pickle.loads(pickle.dumps(text))
    assert again.pipeline is text.pipeline
    with pytest.raises(fg.ArgumentError, match="another text"):
        replace(again, meaning="of a file that was edited").variants("fold")


def test_texts_mean_the_same_where_their_files_are_not():
    """A function that comes by value has another file's name, or none, and no lines."""
    def total(x):
        return fg.sum(inner(x))

    here = _text_of(fg.dask.apply(fg.pipeline(total), da.zeros((4, 9), chunks=3, dtype="f4")))
    code = total.__code__.replace(co_filename="<elsewhere>", co_firstlineno=7)
    there = replace(here, pipeline=fg.pipeline(FunctionType(code, total.__globals__)))
    texts = [t.pipeline.traced(frozenset(t.present), {}) for t in (here, there)]
    assert texts[0].digest != texts[1].digest
    assert there.variants("fold").graph.loc != here.variants("fold").graph.loc
    other = replace(here, pipeline=fg.pipeline(lambda x: fg.sum(x) + 1))
    with pytest.raises(fg.ArgumentError, match="another text"):
        other.variants("fold")


def _text_of(found):
    from fusegen.dask.text import Text

    seen = []
    for task in dict(found.dask).values():
        keywords = getattr(getattr(task, "func", None), "keywords", {})
        seen += [v for v in keywords.values() if isinstance(v, Text)]
    return seen[0]


def test_states_have_the_size_of_their_bytes():
    from dask.sizeof import sizeof

    states = L["topk"].states(np.ones((1000, 100), "f4"), k=3)
    assert sizeof(states) >= states.array.nbytes


def slow(block, folder=""):
    """A chunk that takes a while, and leaves a mark."""
    time.sleep(0.02)
    (Path(folder) / f"{time.time_ns()}-{os.getpid()}").touch()
    return block


@pytest.mark.long
def test_a_lost_worker_changes_no_bit(tmp_path):
    """Two workers, one of them killed in the middle: the bits of one process alone. Three processes
    start, and one again, which is what most of this file's time goes to."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    x = np.random.default_rng(1).normal(50, 3, (64, 3000)).astype("f4")
    p = fg.pipeline(lambda x: (fg.argmax(x), fg.var(x), fg.logsumexp(x)))
    chunks = da.from_array(x, chunks=(32, 100))
    want = computed(fg.dask.apply(p, chunks))
    slowly = chunks.map_blocks(slow, folder=str(tmp_path), dtype=x.dtype, meta=chunks._meta)
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50,
        preload=["support.light"])
    with cluster, distributed.Client(cluster) as client:
        workers = list(client.run(os.getpid).values())
        lost = client.compute(fg.dask.apply(p, slowly))
        deadline = time.monotonic() + 60
        while len(marks := list(tmp_path.iterdir())) < 10:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(workers[0], signal.SIGKILL)
        got = [one.result(timeout=60) for one in lost]
        assert len(marks) < 60 <= len(list(tmp_path.iterdir()))
    for g, w in zip(got, want, strict=True):
        assert g.tobytes() == w.tobytes()


# ---- GPUs ----


@pytest.mark.gpu
def test_chunks_of_cupy():
    cupy = pytest.importorskip("cupy")
    x = np.random.default_rng(0).normal(size=(50, 400)).astype("f4")
    given = da.from_array(cupy.asarray(x), chunks=(20, 130), asarray=False)
    values, columns = fg.dask.apply(L["topk"], given, k=3)
    assert isinstance(values._meta, cupy.ndarray)
    got = computed((values, columns))
    assert all(isinstance(a, cupy.ndarray) for a in got)
    near(got, L["topk"].reference(x, k=3))
