"""What threads of rows that blocks keep hold: no more vectors than it takes, as many registers as
prices guess, and few values in memory."""

from __future__ import annotations

import numpy as np
import pytest
from support import nvrtc
from support.cuda_cases import CONSTANTS, Case

import fusegen as fg
from fusegen import library
from fusegen.backend.cuda.emit.source import cuda_source
from fusegen.backend.cuda.schedule.menu import Menu
from fusegen.backend.cuda.schedule.occupancy import used_registers
from fusegen.ir.dtypes import dtype_of

LIES = [{}, {"aligned": False}, {"aligned": False, "in_phase": False}]
PHASES = ["aligned", "peeled", "shifted"]


@fg.pipeline
def large_state(x, weight: fg.PerColumn, bias: fg.PerColumn):  # type: ignore[no-untyped-def]
    d = x - fg.mean(x)
    return d * fg.rsqrt(fg.var(x) + fg.mean(d**3) ** 2 + fg.mean(d**4)) * weight + bias


@fg.pipeline
def several_states(x, weight: fg.PerColumn):  # type: ignore[no-untyped-def]
    e = fg.exp(x - fg.max(x))
    return e / fg.sum(e) * weight * fg.var(x) + fg.min(x), fg.logsumexp(x), fg.argmax(x)


@fg.pipeline
def slow_values(x, weight: fg.PerColumn, bias: fg.PerColumn):  # type: ignore[no-untyped-def]
    s = 30.0 * fg.tanh(x / 30.0)
    e = fg.exp(s - fg.max(s))
    return e / fg.sum(e) * weight + bias


@fg.pipeline
def slow_norm(x, weight: fg.PerColumn):  # type: ignore[no-untyped-def]
    g = 0.5 * x * (1 + fg.erf(x * 0.70710678))
    return g * fg.rsqrt(fg.mean(g * g) + 1e-6) * weight


TEXTS = {
    "layer_norm": (library.layer_norm, ("weight", "bias")),
    "rms_norm": (library.rms_norm, ("weight",)), "softmax": (library.softmax, ()),
    "large_state": (large_state, ("weight", "bias")), "slow_norm": (slow_norm, ("weight",)),
    "several_states": (several_states, ("weight",)),
    "slow_values": (slow_values, ("weight", "bias")),
}


def menu_of(name: str, n_cols: int, dtype: str, **lies: bool) -> Menu:
    """What is offered for many rows, with what all of them share."""
    kind = dtype_of(dtype).numpy
    text, shared = TEXTS[name]
    inputs = {"x": np.zeros((1, n_cols), kind)} | {n: np.zeros(n_cols, kind) for n in shared}
    case = Case(text, inputs, 1, n_cols, CONSTANTS.get(name, {}), varied=True)
    work = case.work(n_rows=9000, **lies)
    return Menu(work.program, work.problem, work.target, None)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "softmax"])
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
@pytest.mark.parametrize("name", [*TEXTS])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("lies", LIES, ids=PHASES)
def test_threads_use_the_registers_that_prices_guess(
    name: str, dtype: str, lies: dict[str, bool]
) -> None:
    """How many rows are under way follows from them. Few values go through memory, if any."""
    menu = menu_of(name, 4096, dtype, **lies)
    kept = [s for s in menu.fitting() if s.home.keeps and not s.in_warp and s.blocks == 1]
    assert len(kept) >= 3
    for one in kept:
        source = cuda_source(menu.program, one).text()
        (report,) = nvrtc.compile_for(source, "sm_90").reports
        assert report.spill_bytes <= 128, (one.describe(), report)
        more = report.registers - used_registers(one, menu.work)
        norm = name in ("layer_norm", "rms_norm") and one.home.threads_keep
        least, most = (-16, 16) if norm else (-32, 24)
        assert least <= more <= most, (one.describe(), report)
