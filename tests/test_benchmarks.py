"""The parts of the stream benchmark that need no GPU: its table, summaries, merges, counters."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import scale_model
from streams import counters, summary, supervise
from streams.cells import BOTH, FIGURES, SEVENTH, WORKS, Cell, cells, chosen, rows_for
from support import nvrtc

import fusegen as fg
from fusegen.compile.plan import traffic

BENCHMARKS = Path(supervise.__file__).parents[1]
CELL = Cell("one read", "logsumexp", 1000, 256, "float32", 0.95)
HOPPER = "row per block (512 threads), 7 × 4 elements per thread and tile, aligned loads, sm_90"


# ---- the table ----


def test_every_cell_names_a_library_pipeline_and_no_other() -> None:
    every = cells()
    assert len({c.key for c in every}) == len(every)
    for cell in every:
        pipeline = fg.library.PIPELINES[cell.work]
        assert pipeline.signature.arrays == ("x", *WORKS[cell.work].side)
        assert cell.dtype in BOTH
        assert cell.axis in (-1, 0)
        assert cell.form in ("auto", "safe", "online")


def test_the_table_has_the_shapes_that_goals_are_set_for() -> None:
    every = cells()
    sizes = {c.group: min(d.input_bytes for d in every if d.group == c.group) for c in every}
    assert sizes["one read"] >= 64 << 20
    assert min(sizes[g] for g in ("full rows", "norms", "unaligned", "long rows")) >= 256 << 20
    for group, rows in FIGURES.items():
        shown = {c.cols for c in every if c.group == group}
        assert shown <= set(SEVENTH)
        assert max(shown) == (258_048 if rows == 4000 else 2_064_384)
        assert len([c for c in every if c.group == group]) == 3 * len(shown)
    assert {c.target for c in every if c.group not in FIGURES} == {
        0.95, 0.93, 0.92, 0.80, 0.88, 1 / 1.2}


@pytest.mark.parametrize("work", WORKS)
def test_least_bytes_are_the_plans_without_its_second_reads(work: str) -> None:
    pipeline, side = fg.library.PIPELINES[work], WORKS[work].side
    inputs = [s for s in side if s in pipeline.signature.optional]
    for dtype in BOTH:
        cell = Cell("", work, 300, 4096, dtype, None)
        dtypes = {"x": dtype, **{s: "int64" if s == "labels" else dtype for s in side}}
        program = pipeline.work(dtype=dtypes, n_cols=cell.cols, inputs=inputs).program
        again = (program.reads_per_element - 1) * cell.input_bytes
        gathered = 8 * cell.rows if "labels" in side else 0  # a plan does not count gathers
        found = traffic(program, cell.rows, cell.cols).total - again + gathered
        assert cell.least_bytes == found
        assert (cell.limit == "copy") == (program.writes_per_element == 1)


def test_bytes_along_axis_0() -> None:
    cell = Cell("", "logsumexp", 32768, 1024, "float32", None, axis=0)
    assert cell.least_bytes == 32768 * 1024 * 4 + 1024 * 4
    full = replace(cell, work="softmax")
    assert full.least_bytes == 2 * 32768 * 1024 * 4


def test_rows_for_a_size() -> None:
    assert rows_for(1 << 18, "float32", 256 << 20) == 256
    assert rows_for(1009, "bfloat16", 1 << 20) == 520
    assert rows_for(1_000_000, "float32", 1, fewest=256) == 256


def test_cells_are_chosen_by_words_and_patterns() -> None:
    every = cells()
    assert chosen(every, [], quick=False) == every
    axis = chosen(every, ["axis 0"], quick=False)
    assert {c.group for c in axis} == {"axis 0"}
    bf16 = chosen(every, ["full rows: softmax*bfloat16"], quick=False)
    assert {(c.work, c.dtype) for c in bf16} == {("softmax", "bfloat16")}
    quick = chosen(every, [], quick=True)
    assert {c.group for c in quick} == {c.group for c in every}
    assert len(quick) < len(every) / 4
    with pytest.raises(ValueError, match="softmox"):
        chosen(every, ["softmox"], quick=False)


def test_the_command_lists_cells_and_refuses_unknown_ones() -> None:
    run = _command("stream_bench.py", "--list", "--only", "few rows")
    assert run.stdout.splitlines()[0] == "few rows: softmax 1x129024 float32"
    assert len(run.stdout.splitlines()) == 10
    assert "softmox" in _command("stream_bench.py", "--only", "softmox", code=2).stderr
    assert "torhc" in _command("stream_bench.py", "--peers", "torhc", code=2).stderr


def _command(script: str, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    run = subprocess.run([sys.executable, str(BENCHMARKS / script), *arguments], text=True,
                         capture_output=True, env=dict(os.environ))
    assert run.returncode == code, run.stderr
    return run


# ---- summaries ----


def record(cell: Cell, share: float, **more: Any) -> dict[str, Any]:
    """A made-up measurement: the limit is 100 µs."""
    peers = {"torch": {"us": 200.0, "times": 2.0 * share, "right": True, "error": 1e-6},
             "liger": {"note": "not installed"}}
    return {**asdict(cell), "key": cell.key, "limit": cell.limit, "status": "ok",
            "limit_us": 100.0, "us": 100 / share, "share": share, "error": 1e-6,
            "elements_per_s": 1e11 * share, "schedule": HOPPER, "peers": peers, **more}


def report(*records: dict[str, Any], gpu: str = "NVIDIA H200") -> dict[str, Any]:
    run = {"date": "2026-01-02T03:04:05", "commit": "0123456789abcdef"}
    return {"runs": [run], "environment": {"gpu": gpu}, "cells": list(records)}


def test_a_line_says_what_was_measured() -> None:
    shown = summary.line(record(CELL, 0.96))
    for word in ("logsumexp", "1000×256", "float32", "100.0", "104.2", "96.0%", "torch 200.0 µs",
                 "1.92×", "block of 512, 7×4, aligned"):
        assert word in shown
    assert "<" not in shown
    assert "94.0%<" in summary.line(record(CELL, 0.94))
    assert "WRONG: error inf" in summary.line(
        record(CELL, 0.96, status="WRONG", error=float("inf")))
    assert "ERROR no such" in summary.line(supervise.failed(CELL, "no such"))
    alone = record(CELL, 0.96, peers={"quack": {"note": "not installed"}})
    assert "quack: not installed" in summary.line(alone)


def test_peers_that_are_wrong_do_not_count() -> None:
    fast = {"us": 1.0, "times": 0.01, "right": False, "error": 3.0}
    both = record(CELL, 0.96)
    both["peers"]["quack"] = fast
    assert summary.best_peer(both)[0] == "torch"
    assert "wrong" in summary.line(record(CELL, 0.96, peers={"quack": fast}))


def test_the_summary_names_worst_missed_faster_and_wrong() -> None:
    few = replace(CELL, group="few rows", target=1 / 1.2)
    other = replace(CELL, cols=1024)
    faster = {"compile": {"us": 90.0, "times": 0.9, "right": True, "error": 0.0}}
    shown = summary.summary([
        record(CELL, 0.93), record(other, 0.97, peers=faster), record(few, 0.8),
        supervise.failed(replace(CELL, cols=512), "it broke"),
        record(replace(CELL, cols=2048), 0.99, status="WRONG"),
    ])
    assert "worst 93.0 % (logsumexp 1000x256 float32), 1 of 3 missed" in shown
    assert "compile is faster, 0.90×: logsumexp 1000x1024 float32" in shown
    assert "target 1.20×: worst 1.25×" in shown
    assert "\nall: 5 cells, 3 below their target, 1 wrong, 1 failed\n" in shown
    assert shown.endswith("liger: not installed (3 cells)")
    assert "ERROR logsumexp 1000x512 float32, WRONG logsumexp 1000x2048 float32" in shown


def test_merging_keeps_the_first_figures_and_every_peer() -> None:
    fresh = {"compile": {"us": 130.0, "times": 1.3, "right": True, "error": 0.0},
             "torch": {"us": 1.0, "times": 0.01, "right": True, "error": 0.0}}
    other = replace(CELL, cols=512)
    whole = summary.merged([
        report(record(CELL, 0.9), supervise.failed(other, "it broke")),
        report(record(CELL, 0.5, peers=fresh), record(other, 0.7)),
    ])
    first, second = whole["cells"]
    assert (first["share"], first["peers"]["torch"]["times"]) == (0.9, 1.8)
    assert first["peers"]["compile"]["times"] == 1.3
    assert second["share"] == 0.7
    assert len(whole["runs"]) == 2
    wrong = summary.merged([report(record(CELL, 0.9)), report(record(CELL, 0.9, status="WRONG"))])
    assert wrong["cells"][0]["status"] == "WRONG"
    with pytest.raises(ValueError, match="different GPUs"):
        summary.merged([report(record(CELL, 0.9)), report(record(CELL, 0.9), gpu="another")])


def test_the_command_merges_files(tmp_path: Path) -> None:
    for name, cell, status in (("a", CELL, "ok"), ("b", replace(CELL, cols=512), "WRONG")):
        text = json.dumps(report(record(cell, 0.9, status=status)))
        (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
    a, b, out = (str(tmp_path / f"{n}.json") for n in ("a", "b", "out"))
    assert "WRONG" in _command("stream_bench.py", "--merge", a, b, "--output", out, code=1).stdout
    assert len(json.loads(Path(out).read_text(encoding="utf-8"))["cells"]) == 2
    assert "1 of 1 missed" in _command("stream_bench.py", "--merge", a).stdout


@pytest.mark.long
def test_plots_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    whole = report(*(record(c, 0.5 + c.cols % 7 / 20) for c in cells()))
    (tmp_path / "all.json").write_text(json.dumps(whole), encoding="utf-8")
    _command("stream_plots.py", str(tmp_path / "all.json"), "--folder", str(tmp_path / "plots"))
    found = {p.name for p in (tmp_path / "plots").iterdir()}
    names = ("one_read", "full_rows", "norms", "unaligned", "figure_1", "figure_2")
    assert found == {f"{n}{e}" for n in names for e in (".svg", ".png")}
    drawn = (tmp_path / "plots" / "figure_1.svg").read_text(encoding="utf-8")
    assert "<svg" in drawn


# ---- runs that break ----


class Fragile:
    """Stands for a device: some cells raise, end the process, hang, or spoil it."""

    def __init__(self) -> None:
        self.spoiled = False

    def environment(self) -> dict[str, Any]:
        return {"process": os.getpid()}

    def measure(self, cell: Cell) -> dict[str, Any]:
        match cell.cols:
            case 2:
                raise KeyError("two")
            case 3:
                os._exit(7)
            case 4:
                time.sleep(60)
            case 5:
                self.spoiled = True
                raise RuntimeError("an illegal memory access")
        assert not self.spoiled, "nothing may run in a spoiled process"
        return {"key": cell.key, "status": "ok", "process": os.getpid()}

    def lives(self) -> bool:
        return not self.spoiled


@pytest.mark.long
def test_a_cell_that_breaks_costs_no_other() -> None:
    wanted = [replace(CELL, cols=n) for n in range(1, 8)]
    (kind, start), *rest = supervise.records(wanted, Fragile, seconds=1)
    found = [r for _, r in rest]
    assert kind == "environment"
    assert start["process"] != os.getpid()
    assert [r["key"] for r in found] == [c.key for c in wanted]
    assert [r["status"] for r in found] == ["ok", *["ERROR"] * 4, "ok", "ok"]
    messages = [r["message"] for r in found if r["status"] == "ERROR"]
    for message, word in zip(messages, ("two", "code 7", "1 s", "illegal"), strict=True):
        assert word in message
    assert found[0]["process"] == start["process"] != found[-1]["process"]


def test_what_was_measured_is_saved_cell_by_cell(tmp_path: Path) -> None:
    wanted, path = [replace(CELL, cols=n) for n in (1, 3, 6)], tmp_path / "run.json"
    for n, report in enumerate(supervise.reports(wanted, Fragile, 5, {"seed": 7}, path), 1):
        saved = json.loads(path.read_text(encoding="utf-8"))
        assert saved == report
        assert [r["key"] for r in saved["cells"]] == [c.key for c in wanted[:n]]
    assert saved["runs"] == [{"seed": 7}]
    assert saved["environment"]["process"] == saved["cells"][0]["process"]
    assert not any("ends" in r for r in saved["cells"])


def test_a_run_that_cannot_start_says_why() -> None:
    def make() -> supervise.Measurer:
        raise ImportError("no module named torch")

    with pytest.raises(RuntimeError, match="cannot start: ImportError: no module named torch"):
        list(supervise.records([CELL], make, seconds=10))


def _compile(cell: Cell) -> None:
    if cell.cols == 2:
        raise ValueError("refused")


def test_compiling_ahead_reports_and_goes_on() -> None:
    wanted = [replace(CELL, cols=n) for n in (1, 2, 3)]
    (message,) = supervise.compile_ahead(wanted, _compile, jobs=2)
    assert message == "one read: logsumexp 1000x2 float32: refused"


# ---- limits ----


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize("loads", [1, 4, 8])
def test_limit_kernels_keep_their_loads_in_flight(loads: int) -> None:
    source = (BENCHMARKS / "streams" / "limits.cu").read_text(encoding="ascii")
    built = nvrtc.compile_for(f"#define LOADS {loads}\n#define THREADS 256\n{source}", "sm_90")
    assert {r.kernel for r in built.reports} == {"read_all", "copy_all"}
    for made in built.reports:
        assert made.registers >= 4 * loads
        assert made.spill_bytes == 0


# ---- results against float64 ----


def test_errors_are_found_in_whole_results() -> None:
    torch = pytest.importorskip("torch")
    from streams.texts import TEXTS, TOLERANCE, largest_error

    for axis in (-1, 0):
        cell = Cell("", "softmax", 40, 300, "float32", None, axis=axis)
        x = torch.randn(40, 300) * 3
        right = TEXTS["softmax"](x, axis=axis)
        assert largest_error(cell, right, (x,)) <= TOLERANCE["float32"]
        for value in (float("nan"), float("inf"), 1e-4 * float(right[39, 299])):
            spoiled = right.clone()
            spoiled[39, 299] = value
            assert largest_error(cell, spoiled, (x,)) > 0.5
        with pytest.raises(ValueError, match="shape"):
            largest_error(cell, right[:-1], (x,))


# ---- counters ----

COLUMNS = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
           "Block Size", "Grid Size", "Device", "CC", "Section Name", "Metric Name", "Metric Unit",
           "Metric Value")


def ncu_text(*launches: tuple[str, dict[str, tuple[str, str]]]) -> str:
    """What ncu --csv writes for launches of (kernel, metric → (unit, value))."""
    rows = ["==PROF== Connected to process 4242 (/usr/bin/python3.12)",
            '==PROF== Profiling "next_case" - 0: 0%....50%....100% - 2 passes',
            ",".join(f'"{c}"' for c in COLUMNS)]
    for number, (kernel, metrics) in enumerate(launches):
        for metric, (unit, value) in metrics.items():
            row = (number, 4242, "python3.12", "127.0.0.1", kernel, 1, 7, "(512, 1, 1)",
                   "(4000, 1, 1)", 0, "9.0", "Command line profiler metrics", metric, unit,
                   value)
            rows.append(",".join(f'"{v}"' for v in row))
    return "\n".join([*rows, "==PROF== Disconnected from process 4242"]) + "\n"


def bytes_of(read: str, written: str, asked: str = "25,000,000") -> dict[str, tuple[str, str]]:
    return {counters.DRAM_READ: ("byte", read), counters.DRAM_WRITE: ("byte", written),
            counters.ASKED_READ: ("sector", asked),
            counters.ASKED_WRITE: ("sector", "12,500,000"),
            "other__metric.sum": ("inst", "n/a")}


MARK = ("next_case()", bytes_of("0", "128", "0"))
CASES = (counters.Case("online softmax", "softmax", "online", 4000, 25_000),
         counters.Case("safe softmax", "softmax", "safe", 4000, 25_000))


def test_counters_are_read_added_up_and_held_to_the_plan() -> None:
    text = ncu_text(MARK, ("softmax_kernel(float const*)", bytes_of("799,000,000", "390,000,000")),
                    MARK, ("part_1", bytes_of("600,000,000", "200,000,000")),
                    ("part_2", bytes_of("900,000,000", "200,000,000")))
    launches = counters.parsed(text)
    assert [name for name, _ in launches][1] == "softmax_kernel(float const*)"
    one, two = counters.lines(CASES, [(2, 1), (3, 1)], counters.by_case(launches))
    assert one["dram_reads"] == pytest.approx(799 / 400)
    assert one["dram_writes"] == pytest.approx(390 / 400)
    assert (one["asked_reads"], one["asked_writes"]) == (2, 1)
    assert one["agrees"]
    assert two["dram_reads"] == pytest.approx(15 / 4)
    assert not two["agrees"], "3.75 reads where 3 were planned"
    shown = counters.table([one, two])
    assert re.search(r"online softmax +4000×25000 +2 \+ 1 +2\.00 \+ 0\.97 +2\.00 \+ 1\.00\n", shown)
    assert shown.endswith("NOT AS PLANNED")


def test_units_and_missing_counts() -> None:
    scaled = {counters.DRAM_READ: ("Mbyte", "400.5"), counters.DRAM_WRITE: ("Kbyte", "2")}
    ((_, found),) = counters.parsed(ncu_text(("k", scaled)))
    assert found == {counters.DRAM_READ: 400.5e6, counters.DRAM_WRITE: 2000.0}
    (line,) = counters.lines(CASES[:1], [(1, 0)], [found])
    assert line["agrees"]
    assert "not counted" in counters.table([line])
    with pytest.raises(counters.CountersError, match="'n/a'"):
        counters.parsed(ncu_text(("k", {counters.DRAM_READ: ("byte", "n/a")})))
    with pytest.raises(counters.CountersError, match="no kernel of it"):
        counters.lines(CASES[:1], [(1, 0)], [{}])
    with pytest.raises(counters.CountersError, match="2 cases ran, ncu saw 1"):
        counters.lines(CASES, [(1, 0), (1, 0)], [found])


@pytest.mark.parametrize(("said", "word"), [
    ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "NVreg_"),
    ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "gVisor"),
    ("==ERROR== Failed to find metric lts__x.sum", "lts__x"),
    ("==ERROR== The application returned an error code (1).", "code 9"),
])
def test_refusals_say_what_to_do(said: str, word: str) -> None:
    with pytest.raises(counters.CountersError, match=word):
        counters.refused(said, 9)


def test_a_table_is_missed_and_ncu_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(counters.CountersError, match="no table: ==PROF== nothing"):
        counters.parsed("==PROF== nothing\n")
    monkeypatch.setenv("PATH", "")
    assert counters.run_and_print(None) == 2
    assert "ncu is not on the PATH" in capsys.readouterr().err


def test_the_scale_that_is_told_is_the_model_of_what_was_measured() -> None:
    machine = scale_model.measured(json.loads(scale_model.RESULTS.read_text()))
    told = (BENCHMARKS.parent / "docs" / "scale.md").read_text(encoding="utf-8")
    assert scale_model.table(machine, 64, 776) in told
    assert machine.flat(1, 1e6) == 0
    for ranks in (2, 3, 8, 64):  # an all-gather of no bytes is what starts it
        alone = machine.flat(ranks, 0) - machine.merge(ranks, 0) - machine.start
        link = machine.inside if ranks <= machine.per_host else machine.across
        assert alone == pytest.approx(link.latency * len(f"{ranks - 1:b}"))
