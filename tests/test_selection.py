"""`explain` on a GPU target: what was considered, what each costs, why one was chosen."""

from __future__ import annotations

import re
import sys
import time
from typing import Any

import numpy as np
import pytest
import simt
from support import fake_cupy, fake_torch
from support.cuda_cases import library_case

import fusegen as fg
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.cli import main
from fusegen.compile import tuning


def section(page: Any) -> list[str]:
    lines = dict(page.sections())["Selection"]
    assert isinstance(lines, list)
    return lines


def test_the_cheapest_and_one_of_each_other_kind() -> None:
    p = fg.library.softmax
    page = p.explain(target="sm_90", n_rows=4000, n_cols=24_000)
    lines = section(page)
    found = candidates(page.work.result("lower"), page.work.problem, page.work.target)
    assert "for 4000 rows of 24000 columns, on sm_90 (H200" in lines[0]
    assert re.match(r"about \d+\.\d machine instructions an element and \d+ of w", lines[1])
    assert f"{len(found)} considered" in lines[2]
    assert lines[3].startswith("→ ")
    shown = [ln for ln in lines[:-1] if "threads" in ln]
    assert [ln.rsplit("  ")[-1] for ln in shown[:5]] == [str(c.price) for c in found[:5]]
    kinds = {c.schedule.kind for c in found}
    assert len({ln[2:].split(" threads")[0].rsplit(",", 1)[0] for ln in shown}) == len(kinds)
    assert f"{page.work.schedule.threads} threads" in lines[3]
    rival = next(c for c in found if c.kind != found[0].kind)
    more = rival.price.total / found[0].price.total
    said = f"chosen: the cheapest; {rival.kind} costs {more:.2f} times that, most of it by "
    assert lines[-1].startswith(said)
    assert lines[-1].removeprefix(said) in dict(rival.price.parts)


def test_few_rows_are_priced_in_microseconds() -> None:
    lines = section(fg.library.logsumexp.explain(target="sm_90", n_rows=1, n_cols=1 << 20))
    assert "for 1 row of" in lines[0]
    assert "prices in µs" in lines[2]
    assert "launch and first load 3.7" in lines[3]
    assert "µs more" in lines[-1]


@pytest.mark.parametrize("n_cols", [100, 1000, 129_024, 2_000_000])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_candidates_are_listed_at_once(n_cols: int, dtype: str) -> None:
    """Whatever the length of a row: of networks of many keys there is no end."""
    work = library_case("softmax_topk", 1, n_cols, dtype, k=5).work(n_rows=4000)
    start = time.process_time()
    assert candidates(work.program, work.problem, work.target)
    assert time.process_time() - start < 1


def test_what_is_not_known_is_said() -> None:
    lines = section(fg.library.softmax.explain(target="sm_90"))
    assert "for many rows of unknown length" in lines[0]
    lines = section(fg.library.softmax.explain(target="sm_90", n_cols=25_000, deterministic=True))
    assert "for any number of rows of 25000 columns" in lines[0]
    assert "one row" in lines[2]


def test_one_that_fits_is_all_there_is() -> None:
    lines = section(fg.library.topk.explain(target="sm_75", k=64))
    assert lines[1].startswith("only one fits: a block, from memory")
    assert len(lines) == 2


def test_lists_have_prices() -> None:
    lines = section(fg.library.topk.explain(target="sm_90", k=64, n_rows=4000, n_cols=129_024))
    assert lines[2].startswith("→ a block, through a ring, 128 threads, 4 × 4")
    lines = section(fg.library.topk.explain(target="sm_90", k=64, n_rows=1, n_cols=129_024))
    assert lines[2].startswith("→ a cluster, in registers, 256 threads × 8 blocks, 16 × 4")
    assert any("slices" in line for line in lines)
    lines = section(fg.library.topk.explain(target="sm_90", k=5, n_rows=20, n_cols=1_000_000))
    assert lines[2].startswith("→ blocks all over the grid, from memory, 256 threads × 26 blocks")


def test_a_cpu_has_nothing_to_select() -> None:
    assert "Selection" not in dict(fg.library.softmax.explain().sections())


def test_text_html_and_command_line_agree(capsys: pytest.CaptureFixture[str]) -> None:
    page = fg.library.rms_norm.explain(target="sm_100", n_rows=66, n_cols=4096)
    assert str(page) == str(fg.library.rms_norm.explain(target="sm_100", n_rows=66, n_cols=4096))
    assert "<h4>Selection</h4>" in page._repr_html_()
    assert "→ " in page._repr_html_()
    line = ["explain", "rms_norm", "--target", "sm_100", "--rows", "66", "--cols", "4096"]
    assert main(line) == 0
    text = capsys.readouterr().out
    assert all(ln in text for ln in section(page))
    assert main([*line, "--deterministic"]) == 0
    assert "for any number of rows" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.skipif(simt.available() is not None, reason=str(simt.available()))
def test_measured_times_where_they_are_known(monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tuning, "_TIMES", 3)
    x = np.random.default_rng(0).standard_normal((6, 2400)).astype(np.float32)
    with fake_cupy.installed(monkeypatch) as gpu:
        monkeypatch.setitem(sys.modules, "torch", fake_torch.module(gpu))
        gpu.takes = lambda seen: 4e-6 if "row per block in registers" in seen["source"] else 9e-6
        p = fg.Pipeline(fg.library.softmax.fn)
        shape = {"target": "sm_90", "n_rows": 6, "n_cols": 2400}
        assert "tuned" not in str(p.explain(**shape))
        p.compile(fake_cupy.array(x), tune=True)
        lines = section(p.explain(**shape))
        at = next(i for i, ln in enumerate(lines) if ln.startswith("tuned: measured on Fake 2"))
        assert re.match(r"→ a block, in registers.* 4\.0 µs$", lines[at + 1])
        assert lines[-1].endswith("9.0 µs")
        for other in ({"n_rows": 7}, {"n_cols": None}, {"target": "sm_80"}, {"form": "safe"},
                      {"dtype": "float64"}):
            assert "tuned" not in str(p.explain(**{**shape, **other}))
