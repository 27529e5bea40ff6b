"""The benchmark of lists without a GPU: its table, its command, and its checks on the CPU."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import topk_bench
from streams import list_summary, supervise
from streams.lists import ALONE, FUSED, HARD, ListCell, chosen_lists, list_cells

import fusegen as fg

CELL = ListCell("alone many rows", ALONE, 4000, 25_000, 64, "float32")


# ---- the table ----


def test_every_cell_names_a_library_pipeline_and_no_other() -> None:
    every = list_cells()
    assert len({c.key for c in every}) == len(every)
    for cell in every:
        signature = fg.library.PIPELINES[cell.work].signature
        assert signature.arrays == ("x",)
        assert "k" in signature.constants
        assert cell.k <= cell.cols
        assert cell.key.startswith("alone ") == (cell.work == ALONE)


def test_top_k_alone_has_the_shapes_that_claims_are_made_for() -> None:
    alone = chosen_lists(["alone*"])
    assert {c.work for c in alone} == {ALONE}
    assert all(c.beside_torch for c in alone)
    plain = {(c.rows, c.cols, c.dtype, c.k) for c in alone if c.data == "random"}
    for rows, cols in ((4000, 129_024), (4000, 25_000), (4000, 4032), (4000, 1008), (256, 129_024),
                       (64, 129_024), (10, 129_024), (1, 129_024)):
        assert plain >= {(rows, cols, "float32", k) for k in (5, 64, 256, 1024) if k < cols}
    assert plain >= {(4000, 129_024, "bfloat16", k) for k in (5, 64, 1024)}
    hard = chosen_lists(["alone hard rows"])
    assert {(c.cols, c.data) for c in hard} == {
        (cols, data) for cols in (25_000, 129_024) for data in ("random", *HARD)}


def test_hard_rows_are_beside_random_ones_and_some_beside_torch() -> None:
    every = list_cells()
    hard = [c for c in every if c.data != "random"]
    assert {replace(c, data="random") for c in hard} <= set(every)
    assert {(c.work, c.k) for c in hard if c.beside_torch} == {(FUSED, 64), (ALONE, 64)}


def test_cells_on_the_same_array_are_together() -> None:
    arrays = [(c.group, c.rows, c.cols, c.dtype, c.data) for c in chosen_lists([])]
    changes = sum(a != b for a, b in pairwise(arrays))
    assert changes == len(set(arrays)) - 1


# ---- records ----


def record(cell: ListCell, us: float = 200.0, **more: Any) -> dict[str, Any]:
    """A made-up measurement: the limit is 100 µs, torch takes 300."""
    found = {**asdict(cell), "key": cell.key, "status": "ok", "wrong": "", "limit_us": 100.0,
             "us": us, "us_all": [us], "shape": "block 512×8×4", "schedule": ""}
    torch = {"torch_us": 300.0} if cell.beside_torch else {}
    return {**found, **torch, **more}


def test_a_line_says_what_was_measured() -> None:
    shown = list_summary.line(record(CELL))
    for word in (CELL.key, "200.0 µs", "50% of a read", "1.5× torch", "block 512×8×4"):
        assert word in shown
    assert "torch" not in list_summary.line(record(replace(CELL, work=FUSED, form="safe")))
    assert "WRONG: values" in list_summary.line(record(CELL, status="WRONG", wrong="values"))
    assert "ERROR no such" in list_summary.line(supervise.failed(CELL, "no such"))
    more = list_summary.line(record(CELL, variants=[("warp 32×4×4", 250.0, "values")]))
    assert more.endswith("250.0 µs  warp 32×4×4  WRONG")


def test_the_summary_names_the_worst_ratios_of_each_group() -> None:
    hard = replace(CELL, group="alone hard rows")
    found = [
        record(CELL), record(replace(CELL, k=5), 310.0), record(hard),
        record(replace(hard, data="equal"), 250.0),
        record(replace(hard, data="stairs"), 220.0, status="WRONG"),
        supervise.failed(replace(hard, data="outlier"), "it broke"),
        record(replace(hard, group="figure 3", work=FUSED, form="safe")),
    ]
    assert list_summary.summary(found) == [
        "alone many rows: 2 cells, all right; torch takes 0.97 (4000x25000 float32 k=5) … 1.5 ×",
        "  torch is faster, 0.97×: 4000x25000 float32 k=5",
        "alone hard rows: 4 cells, WRONG 4000x25000 float32 k=64 stairs, ERROR 4000x25000 float32 "
        "k=64 outlier; torch takes 1.20 (4000x25000 float32 k=64 equal) … 1.5 ×; hard rows at most "
        "1.25 × random ones (4000x25000 float32 k=64 equal)",
        "figure 3: 1 cells, all right",
    ]
    assert list_summary.ratios(found) == [
        "alone hard rows: 4000x25000 float32 k=64: equal 1.25  stairs 1.10"
    ]


# ---- the command ----


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The command's exit status, where a stand-in measures and nothing is compiled."""

    def records(
        cells: Sequence[ListCell], make: Callable[[], Any], seconds: float
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "environment", {"gpu": "a stand-in"}
        for cell in cells:
            yield "cell", record(cell, ends=False)

    monkeypatch.setattr(topk_bench, "records", records)
    monkeypatch.setattr("sys.argv", ["topk_bench.py", "--jobs", "0", *arguments])
    return topk_bench.main()


def test_the_command_lists_cells_and_refuses_unknown_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--list", "--only", "alone*") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "alone many rows: 4000x1008 float32 k=5"
    assert lines == [c.key for c in chosen_lists(["alone*"])]
    assert run(monkeypatch, "--only", "softmox") == 2
    assert "softmox" in capsys.readouterr().err


@pytest.mark.long
def test_the_command_saves_every_cell_and_draws(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    output, plots = tmp_path / "topk.json", tmp_path / "plots"
    arguments = ("--output", str(output), "--plots", str(plots), "--seed", "1")
    assert run(monkeypatch, *arguments, "--only", "alone*", "figure", "K sweep") == 0
    saved = json.loads(output.read_text(encoding="utf-8"))["cells"]
    assert {r["key"]: r["work"] for r in saved} == {
        c.key: c.work for c in chosen_lists(["alone*", "figure", "K sweep"])}
    names = ("figure_3", "figure_4", "k_sweep")
    assert {p.name for p in plots.iterdir()} == {f"{n}{e}" for n in names for e in (".svg", ".png")}
    assert "hard rows at most 1.00 × random ones" in capsys.readouterr().out


# ---- measuring and checking, by torch on the CPU ----


class _Timer:
    """Stands for streams.timing's: runs every call, whose time is 2 µs."""

    def __init__(self, repetitions: int) -> None: ...

    def warm_up(self) -> None: ...

    def times(self, calls: Sequence[Callable[[], Any]]) -> list[float]:
        return [2.0 for call in calls if call()]

    def microseconds(self, calls: Sequence[Callable[[], Any]]) -> float:
        return self.times(calls)[0]


class _Limits:
    """Stands for streams.limits's: everything takes 1 µs."""

    def __init__(self, timer: _Timer) -> None: ...

    def over(self, kind: str, inputs: Any, output: Any) -> Any:
        return types.SimpleNamespace(us=1.0)


@pytest.fixture
def on_host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """streams.measure_lists, where "cuda" is the CPU."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("cupy")
    from streams import measure_lists
    from torch.overrides import TorchFunctionMode

    class OnHost(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
            kwargs = kwargs or {}
            place = {"device": "cpu"} if kwargs.get("device") == "cuda" else {}
            return func(*args, **{**kwargs, **place})

    for name, stand_in in (("Timer", _Timer), ("Limits", _Limits), ("shape_of", str)):
        monkeypatch.setattr(measure_lists, name, stand_in)
    learns = torch.is_grad_enabled()
    with OnHost():
        yield measure_lists
    torch.set_grad_enabled(learns)


SMALL = tuple(ListCell("", work, 9, 300, 64, dtype, data) for work in (FUSED, ALONE)
              for dtype in ("float32", "bfloat16") for data in ("random", *HARD)
              if data != "mostly -inf")


@pytest.mark.parametrize("cell", SMALL, ids=lambda c: f"{c.work} {c.name}")
def test_a_cell_is_measured_checked_and_timed_beside_torch(on_host: Any, cell: ListCell) -> None:
    bench = on_host.ListBench(repetitions=1, peers=True, variants=0, seed=1)
    found = json.loads(json.dumps(bench.measure(cell)))
    assert (found["status"], found["wrong"]) == ("ok", "")
    assert (found["work"], found["key"]) == (cell.work, cell.key)
    assert (found["us"], found["torch_us"], found["limit_us"]) == (2.0, 2.0, 1.0)


@pytest.mark.parametrize("work", [FUSED, ALONE])
def test_variants_are_of_the_cells_work(on_host: Any, work: str) -> None:
    cell = ListCell("", work, 9, 300, 5, "float32")
    bench = on_host.ListBench(repetitions=1, peers=False, variants=2, seed=1)
    found = bench.measure(cell)
    assert [wrong for _, _, wrong in found["variants"]] == ["", ""]
    assert "torch_us" not in found
    on_host.compile_only(cell, variants=2)


@pytest.mark.parametrize("work", [FUSED, ALONE])
def test_wrong_lists_are_seen(on_host: Any, work: str) -> None:
    import torch

    cell = ListCell("", work, 9, 300, 64, "bfloat16", "few values")
    x = on_host.input_of(cell)
    columns = torch.sort(x, dim=1, descending=True, stable=True).indices
    best = columns[:, :64]
    values = on_host.SCORES[work](x.double()).gather(1, best).bfloat16()
    wrong = partial(on_host.what_is_wrong, cell, x)
    assert wrong(values, best) == ""
    assert "order" in wrong(values, best[:, [1, 0, *range(2, 64)]])
    assert "elements" in wrong(values, columns[:, -64:])
    assert "out of range" in wrong(values, torch.full_like(best, -1))
    spoiled = values.clone()
    spoiled[8, 63] = float("nan")
    assert "values off" in wrong(spoiled, best)
    if work == ALONE:  # x's own elements: one unit in the last place is too much
        assert "values off" in wrong(torch.nextafter(values, torch.zeros_like(values)), best)


def test_infinities_that_are_right_are_no_error(on_host: Any) -> None:
    cell = ListCell("", ALONE, 9, 300, 256, "float32", "mostly -inf")
    bench = on_host.ListBench(repetitions=1, peers=True, variants=0, seed=1)
    assert bench.measure(cell)["status"] == "ok"
