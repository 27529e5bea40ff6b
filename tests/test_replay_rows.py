"""Replays of many rows at once say what replays of one row, and compiled kernels, say."""

from __future__ import annotations

import numpy as np
import pytest
from support.accepted import ACCEPTED
from support.own_cases import first_number, max_count, recurrence, welford

import fusegen as fg
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.compile.trials.rows import FAMILIES, values
from fusegen.ir import graph as g
from fusegen.library.check import lowered, reducing
from fusegen.oracle.replay import RowReplay, RowsReplay, balanced, chain

N_COLS, N_ROWS = 19, 9
TREES = {
    "left": chain(1), "right": chain(7, forward=False), "long": chain(256), "pairs": balanced(3),
}


@fg.pipeline
def listed(x, y):
    """Lists, leaders and gathers beside sums."""
    top, columns = fg.topk(fg.exp(x - fg.max(x)), 3)
    least = fg.argmin(x)
    return fg.sum(top), fg.take(y, columns), columns, fg.take(x, least + 40), fg.argmax(y)


OWN = [reducing(m) for m in (first_number, max_count, recurrence, welford)]
PIPELINES = {p.name: p for p in (*fg.library.PIPELINES.values(), *ACCEPTED.values(), *OWN, listed)}


def _inputs(graph, dtypes):
    """Arrays by parameter name; rows of every kind, with −inf, NaN and ties in some."""
    rng = np.random.default_rng(3)
    found = {}
    for node in (*graph.inputs, *graph.scalars):
        kinds = [values(node, N_COLS, dtypes, f, rng)
                 for f in (*FAMILIES.values(), FAMILIES["ties"], FAMILIES["ties"])]
        same = node.axis in (g.Axis.PER_COLUMN, g.Axis.SCALAR)  # in every row
        rows = np.stack(kinds[2:3] if same else kinds)
        if node.axis is g.Axis.ELEMENT and rows.dtype.kind == "f":
            rows[-1, ::5], rows[-2, 3::7] = -np.inf, np.nan
        found[graph.names[node]] = rows
    return found


def _row(array, i):
    """One row of an array, as RowReplay takes it."""
    own = array[0 if len(array) == 1 else i]
    return own[0] if array.shape[-1] == 1 else own


@pytest.mark.parametrize("pipeline", PIPELINES.values(), ids=lambda p: p.name)
def test_in_float64_every_row_is_as_if_it_were_alone(pipeline):
    work = pipeline.work(form="online", dtype="float64", inputs=tuple(pipeline.signature.optional))
    kernel = lowered(work, work.derivation)
    inputs = _inputs(work.graph, work.dtypes)
    for name, tree in TREES.items():
        together = RowsReplay(kernel, inputs, N_COLS).run(tree)
        for i in (2, N_ROWS - 2, N_ROWS - 1):
            alone = RowReplay(kernel, {n: _row(a, i) for n, a in inputs.items()}, N_COLS).run(tree)
            for output, want in alone.items():
                got = together[output][i]
                want = np.broadcast_to(want, got.shape)
                np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-14,
                                           err_msg=f"{name} {output} row {i}")


@pytest.mark.skipif(not find_compiler(), reason="no C++ compiler")
@pytest.mark.parametrize("name", ["softmax_moments", "fourth_moment", "attention"])
def test_in_float32_it_is_the_compiled_kernel_to_rounding(name):
    pipeline = ACCEPTED[name]
    work = pipeline.work(form="online", dtype="float32")
    kernel = lowered(work, work.derivation)
    assert kernel.compute.name == "float32"
    rng = np.random.default_rng(5)
    names = pipeline.signature.arrays
    inputs = {n: rng.normal(3, 2, (50, 300)).astype(np.float32) for n in names}
    made = pipeline(*inputs.values(), form="online")
    made = made if isinstance(made, tuple) else (made,)
    for tree in (chain(1), balanced(7)):
        found = RowsReplay(kernel, inputs, 300).run(tree)
        assert all(v.dtype == np.float32 for v in found.values())
        for got, want in zip(found.values(), made, strict=True):
            np.testing.assert_allclose(got[:, 0], want, rtol=2e-5)
