"""One call, on every backend that runs here: the reference, NumPy, the CPU's C++, emulated CUDA."""

from __future__ import annotations

from typing import Any

import numpy as np
import simt

from fusegen.backend.registry import target_named
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.variants import Choices
from support.cases import TARGETS, leaves
from support.cuda_cases import Case

BACKENDS = ("reference", *TARGETS, *(["cuda"] if simt.available() is None else []))


def results(
    backend: str, pipeline: Pipeline, *arrays: np.ndarray, form: str = "auto", **constants: Any
) -> list[np.ndarray]:
    """The outputs of the pipeline over (rows, cols) arrays, in order."""
    if backend == "reference":
        with np.errstate(all="ignore"):
            return leaves(pipeline.reference(*arrays, **constants))
    if backend == "cuda":
        names = pipeline.signature.arrays[: len(arrays)]
        bound = pipeline.signature.bind_constants(constants)
        n_rows, n_cols = arrays[0].shape
        case = Case(pipeline, dict(zip(names, arrays, strict=True)), n_rows, n_cols, bound)
        return list(case.emulate(form="online" if form == "auto" else form))
    choices = Choices(form=form, target=target_named(backend))
    call = pipeline.prepare(arrays, constants, choices=choices)
    call.run()
    return leaves(call.hand_back())
