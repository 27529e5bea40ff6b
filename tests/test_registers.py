"""What threads of rows that blocks keep hold: no more vectors than it takes, as many registers as
prices guess."""

from __future__ import annotations

import numpy as np
import pytest
from support import nvrtc
from support.cuda_cases import CONSTANTS, Case

from fusegen import library
from fusegen.backend.cuda.emit.source import cuda_source
from fusegen.backend.cuda.schedule.menu import Menu
from fusegen.backend.cuda.schedule.occupancy import used_registers
from fusegen.ir.dtypes import dtype_of

SHARED = {"layer_norm": ("weight", "bias"), "rms_norm": ("weight",), "softmax": ()}


def menu_of(name: str, n_cols: int, dtype: str, **lies: bool) -> Menu:
    """What is offered for many rows of a norm with what all of them share."""
    kind = dtype_of(dtype).numpy
    inputs = {"x": np.zeros((1, n_cols), kind)}
    inputs |= {n: np.zeros(n_cols, kind) for n in SHARED[name]}
    case = Case(getattr(library, name), inputs, 1, n_cols, CONSTANTS.get(name, {}), varied=True)
    work = case.work(n_rows=9000, **lies)
    return Menu(work.program, work.problem, work.target, None)


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("n_cols", [1100, 2369, 4096, 9001, 60_000])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_no_thread_holds_more_vectors_than_the_row_takes(
    name: str, n_cols: int, dtype: str
) -> None:
    menu = menu_of(name, n_cols, dtype, aligned=n_cols % 8 == 0)
    held = [s for s in menu.all() if s.home.threads_keep and not s.in_warp and not s.home.steady]
    assert held
    for one in held:
        share = -(-menu.n_vectors // one.blocks)
        assert (one.vectors - 1) * one.threads < share <= one.vectors * one.threads


@pytest.mark.long
@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("lies", [{}, {"aligned": False}, {"aligned": False, "in_phase": False}],
                         ids=["aligned", "peeled", "shifted"])
def test_threads_use_the_registers_that_prices_guess(
    name: str, dtype: str, lies: dict[str, bool]
) -> None:
    """How many rows are under way follows from them. Few values go through memory, if any."""
    menu = menu_of(name, 4096, dtype, **lies)
    kept = [s for s in menu.fitting() if s.home.keeps and not s.in_warp and s.blocks == 1]
    assert len(kept) >= 5
    for one in kept:
        source = cuda_source(menu.program, one).text()
        (report,) = nvrtc.compile_for(source, "sm_90").reports
        more = report.registers - used_registers(one, menu.work)
        least = -16 if one.home.threads_keep else -24  # of rows in shared memory that decides
        assert least <= more <= 16, (one.describe(), report)
        assert report.spill_bytes <= 128, (one.describe(), report)
