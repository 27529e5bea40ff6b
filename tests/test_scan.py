"""The scan of random shapes, where it needs no GPU: its cells, and two of them on processors."""

from __future__ import annotations

import pytest
from scans.draws import ITEMSIZE, LAYOUTS, MIB, WORKS, Cell, cells_of_run, drawn

torch = pytest.importorskip("torch")
LANES = {name: 16 // size for name, size in ITEMSIZE.items()}


def test_cells_come_from_the_seed_and_lie_within_bounds() -> None:
    cells = drawn(5, 60, [*WORKS], 8 * MIB)
    assert cells == drawn(5, 60, [*WORKS], 8 * MIB) != drawn(6, 60, [*WORKS], 8 * MIB)
    assert {(c.work, c.dtype, c.layout) for c in cells} == {
        (w, d, lay) for w in WORKS for d in ITEMSIZE for lay in LAYOUTS}
    for c in cells:
        size = c.rows * c.cols * ITEMSIZE[c.dtype]
        assert 32 <= c.cols <= 1_000_000
        assert size <= 8 * MIB or c.rows == 1
        assert bool(c.k) == WORKS[c.work].lists
        assert c.k <= min(c.cols, 1024)
        assert c.row_stride == c.cols or c.row_stride % LANES[c.dtype] == 0


@pytest.mark.long
def test_a_cell_is_measured_on_processors() -> None:
    from scans.hosts import HostBench

    bench = HostBench(("torch",), warm=True, threads=1)
    for name in ("softmax", "add_rms_norm", "layer_norm"):
        found = bench.measure(Cell(name, 33, 65, "float32", "wider"))
        assert found["status"] == "ok"
        assert min(found["floor_us"], found["share"], found["peers"]["torch"]) > 0


@pytest.mark.long
def test_plain_loops_move_all_bytes_but_the_last_few() -> None:
    from scans.hosts import _mover

    a, b = (torch.arange(1 << 16) * n for n in (3, 5))
    for past in (0, 1):
        to = [torch.zeros_like(a) for _ in "ab"]
        _mover()(2, [a, b], to, a.nbytes, past)
        assert all(torch.equal(t, a ^ b) for t in to)


@pytest.mark.long
def test_pictures_have_a_point_for_every_cell() -> None:
    pytest.importorskip("matplotlib")
    from scans.plots import scattered

    run = {"seed": 3, "cells": 4, "target": "gpu", "warm": False}
    cells = [{"key": c.key, "work": c.work, "share": 0.5} for c in cells_of_run(run)]
    failed = {**cells[0], "key": cells[1]["key"]}
    del failed["share"]
    found = scattered([{"runs": [run], "cells": c} for c in ([cells[0], failed], cells)])
    panels = [a for a in found.axes if a.collections]
    points = [sum(len(c.get_offsets()) for c in a.collections) for a in panels]
    assert points == [5, *[4] * (len(WORKS) - 1)]
    assert panels[0].get_title() == "softmax\nmedian 50 %, worst 50 %"
