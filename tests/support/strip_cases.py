"""Pipelines over an axis whose elements are not neighbours, on the emulator: rows side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fusegen.backend.arrays.strips import side_by_side, whole_vectors
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.strips import strip_candidates
from fusegen.backend.problem import HALF_VECTOR
from fusegen.backend.scalars import scalars_in
from fusegen.compile.passes import Work
from support.cuda_cases import Case, library_case
from support.emulated import EmulatedExecutable


@dataclass
class StripCase:
    """A case with element arrays (outer, n_cols, inner), each inner row `padding` longer."""

    case: Case
    outer: int
    padding: int = 0

    @property
    def inner(self) -> int:
        return self.case.n_rows // self.outer

    def laid_out(self, array: np.ndarray, shift: int = 0) -> np.ndarray:
        """An array (n_rows, n_cols) as (outer, n_cols, inner), `shift` elements off alignment."""
        n_cols, long = self.case.n_cols, self.inner + self.padding
        buffer = np.zeros((self.outer * n_cols * long + shift) * array.itemsize + 64, np.uint8)
        start = -buffer.ctypes.data % 64 + shift * array.itemsize
        size = self.outer * n_cols * long * array.itemsize
        whole = buffer[start : start + size].view(array.dtype).reshape(self.outer, n_cols, long)
        view = whole[:, :, : self.inner]
        view[...] = np.moveaxis(array.reshape(self.outer, self.inner, n_cols), 1, 2)
        return view

    def work(self, arrays: list[np.ndarray], **choices: Any) -> Work:
        found = self.case.work(**choices)
        problem = replace(found.problem, inner=self.inner, aligned=whole_vectors(arrays),
                          in_phase=whole_vectors(arrays, HALF_VECTOR))
        return replace(found, problem=problem)

    def emulate(
        self, seed: int = 0, shift: int = 0, pick: Any = None, **choices: Any
    ) -> tuple[np.ndarray, ...]:
        """Results, rows first; `pick` chooses among the candidates' schedules."""
        choices.setdefault("n_rows", self.case.n_rows)
        program = self.case.work(**choices).result("lower")
        arrays: dict[str, np.ndarray] = {}
        for name, given in self.case.inputs.items():
            arrays[name] = self.laid_out(given, shift) if given.ndim == 2 else given
        arrays |= scalars_in(self.case.work(**choices).graph, program.inputs, self.case.constants)
        for p in program.outputs:
            shape = (self.case.n_rows, self.case.n_cols)[: 2 if p.shape == "element" else 1]
            blank = np.full(shape, np.nan if p.dtype.kind == "float" else 1).astype(p.dtype.numpy)
            arrays[p.name] = self.laid_out(blank, shift) if p.shape == "element" else blank
        elements = [a for a in arrays.values() if a.ndim == 3]
        assert side_by_side(elements, 1) is not None
        work = self.work(elements, **choices)
        if pick is not None:
            work = work.scheduled(pick(self.schedules(work)))
        run = EmulatedExecutable(work.program, work.schedule, work.source, seed)
        run(arrays, self.case.n_rows, self.case.n_cols)
        return tuple(self._rows_first(arrays[p.name]) for p in program.outputs)

    def schedules(self, work: Work) -> list[CudaSchedule]:
        """Every candidate's schedule, cheapest first."""
        lowered = work.result("lower")
        return [c.schedule for c in
                strip_candidates(lowered, work.problem, work.target, work.chunk)]  # type: ignore[arg-type]

    def _rows_first(self, array: np.ndarray) -> np.ndarray:
        if array.ndim != 3:
            return array
        return np.moveaxis(array, 1, 2).reshape(self.case.n_rows, self.case.n_cols)


def strip_case(
    name: str, outer: int, n_cols: int, inner: int, dtype: str = "float32", padding: int = 0,
    **constants: Any,
) -> StripCase:
    """A library pipeline with random inputs."""
    return StripCase(library_case(name, outer * inner, n_cols, dtype, **constants), outer, padding)
