"""Calls over vectors on the emulator: the very CUDA and launches of a GPU, on NumPy arrays."""

from __future__ import annotations

from typing import Any

from fusegen.backend.target import CUDA_TARGETS
from fusegen.compile.passes import Work
from fusegen.ir.forms import check_form, check_precision
from fusegen.pipeline.call import Call
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.variants import Choices
from support.emulated import EmulatedExecutable


def prepared(text: Pipeline, *arrays: Any, form: str = "auto", arch: str = "sm_90",
             schedule: Any = None, precision: str = "float32", **named: Any) -> tuple[Call, Work]:
    """A call of these arrays, and what a GPU would compile for it."""
    choices = Choices(form=check_form(form), precision=check_precision(precision))
    call = text.prepare(arrays, named, choices=choices)
    work = call.variants.work(CUDA_TARGETS[arch], call.variants.problem(call.key))
    return call, work if schedule is None else work.scheduled(schedule)


def emulate(text: Pipeline, *arrays: Any, seed: int = 0, multiprocessors: int = 2,
            **more: Any) -> Any:
    """The results, as a call returns them."""
    call, work = prepared(text, *arrays, **more)
    layout = call.layout
    run = EmulatedExecutable(work.program, work.schedule, work.source, seed, multiprocessors)
    run(layout.arrays, layout.rows.n_rows, layout.rows.n_cols)
    return call.hand_back()



