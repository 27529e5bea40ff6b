"""Pipelines with inputs, built for CUDA and run on the emulator: shared by the CUDA tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

import fusegen as fg
from fusegen import library
from fusegen.backend.arrays.phases import phase_of
from fusegen.backend.arrays.rows import Rows
from fusegen.backend.arrays.views import as_rows
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.problem import Problem
from fusegen.backend.scalars import scalars_in
from fusegen.backend.target import CUDA_TARGETS
from fusegen.compile.passes import Work, trace_pipeline
from fusegen.compile.typed import Typed
from fusegen.ir.dtypes import BFLOAT16, DType, dtype_of
from fusegen.pipeline.pipeline import Pipeline
from support.algebra_cases import ACCEPTED
from support.emulated import EmulatedExecutable

CONSTANTS: dict[str, dict[str, Any]] = {
    "topk": {"k": 5}, "softmax_topk": {"k": 5}, "moe_gate": {"k": 2},
    "layer_norm": {"eps": 1e-5}, "rms_norm": {"eps": 1e-6},
}
LIBRARY = tuple(library.PIPELINES)


@dataclass
class Case:
    """A pipeline with arrays as kernels take them; `outputs` are poisoned."""

    pipeline: Pipeline
    inputs: dict[str, np.ndarray]
    n_rows: int
    n_cols: int
    constants: dict[str, Any] = field(default_factory=dict)
    varied: bool = False  # are float constants arguments, as in calls?
    known: dict[Any, Typed] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def dtypes(self) -> Mapping[str, DType]:
        bits = BFLOAT16.numpy
        return {
            n: BFLOAT16 if a.dtype == bits else dtype_of(a.dtype) for n, a in self.inputs.items()
        }

    def work(
        self, form: str = "online", arch: str = "sm_90", chunk: int | None = None,
        n_rows: int | None = None, **lies: bool,
    ) -> Work:
        problem = Problem(
            dtypes=self.dtypes, n_rows=self.n_rows if n_rows is None else n_rows,
            n_cols=self.n_cols, **lies,
        )
        return Work(self._typed(form), CUDA_TARGETS[arch], problem, chunk)

    def _typed(self, form: str) -> Typed:
        """The text, traced and lowered once for all works of the same types."""
        key = (form, *self.dtypes.items(), *map(repr, self.constants.items()))
        if key not in self.known:
            traced = trace_pipeline(self.pipeline, frozenset(self.inputs), self.constants)
            if self.varied:
                bound = self.pipeline.signature.bind_constants(self.constants)
                traced = self.pipeline.traces.varied(frozenset(self.inputs), bound)
            self.known[key] = Typed(traced, self.dtypes, form)  # type: ignore[arg-type]
        return self.known[key]

    def reference(self) -> tuple[np.ndarray, ...]:
        found = self.pipeline.reference(*self.inputs.values(), **self.constants)
        return found if isinstance(found, tuple) else (found,)

    def emulate(
        self, seed: int = 0, shift: int = 0, schedule: CudaSchedule | None = None, apart: int = 0,
        written: int | None = None, **choices: Any,
    ) -> tuple[np.ndarray, ...]:
        """Results of the generated CUDA on the emulator; `shift` elements off alignment, each
        further array of elements `apart` more than the one before, or all results by `written`."""
        choices.setdefault("n_rows", 100_000)  # rows are not split unless a test says so
        work = self.work(**choices)
        program = work.result("lower")
        rows = Rows((self.n_rows,), (self.n_cols,), (1,))
        offsets = count(shift, apart)
        arrays = {
            work.graph.names[i]: strided(self.inputs[i.name], next(offsets))
            if self.inputs[i.name].ndim == 2 else as_rows(self.inputs[i.name], i.axis, rows)
            for i in work.graph.inputs
        }
        arrays |= scalars_in(work.graph, program.inputs, self.constants)
        shapes = {"element": (self.n_rows, self.n_cols), "row": (self.n_rows,)}
        for p in program.outputs:
            shape = shapes.get(p.shape, (self.n_rows, p.k))
            fill = np.nan if p.dtype.kind == "float" else 1
            blank = np.full(shape, fill).astype(p.dtype.numpy)
            off = next(offsets) if written is None else written
            arrays[p.name] = strided(blank, off) if p.shape == "element" else blank
        found = phase_of((*program.inputs, *program.outputs), arrays)
        work = self.work(**{**found._asdict(), **choices})
        if schedule is not None:
            work = work.scheduled(schedule)
        run = EmulatedExecutable(work.program, work.schedule, work.source, seed)
        run(arrays, self.n_rows, self.n_cols)
        return tuple(arrays[p.name] for p in program.outputs)


def strided(array: np.ndarray, shift: int) -> np.ndarray:
    """A copy whose first element lies `shift` elements after a 64-byte boundary, rows unpadded."""
    buffer = np.zeros(array.size * array.itemsize + shift * array.itemsize + 64, np.uint8)
    start = -buffer.ctypes.data % 64 + shift * array.itemsize
    view = buffer[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def library_case(
    name: str, n_rows: int, n_cols: int, dtype: str = "float32", seed: int = 0, **constants: Any
) -> Case:
    """A library pipeline with random inputs of this type."""
    rng = np.random.default_rng(seed)
    kind = dtype_of(dtype).numpy
    pipeline = getattr(library, name)

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * 3).astype(kind)

    inputs: dict[str, np.ndarray] = {"x": normal(n_rows, n_cols)}
    match name:
        case "cross_entropy":
            inputs["labels"] = rng.integers(0, n_cols, n_rows)
        case "layer_norm":
            inputs |= {"weight": normal(n_cols), "bias": normal(n_cols)}
        case "rms_norm":
            inputs["weight"] = normal(n_cols)
        case "weighted_mean":
            inputs = {"scores": normal(n_rows, n_cols), "values": normal(n_rows, n_cols)}
    return Case(pipeline, inputs, n_rows, n_cols, {**CONSTANTS.get(name, {}), **constants})


def accepted_case(name: str, n_rows: int, n_cols: int, dtype: str = "float32") -> Case:
    """One of the pipelines that the algebra accepts, with ties at the top of its rows."""
    rng = np.random.default_rng(1)
    pipeline = ACCEPTED[name]
    inputs = {n: rng.standard_normal((n_rows, n_cols)) for n in pipeline.signature.arrays}
    for x in inputs.values():
        x[:, n_cols // 3] = x[:, n_cols // 2] = x.max(axis=1) + 0.5
    kind = dtype_of(dtype).numpy
    return Case(pipeline, {n: x.astype(kind) for n, x in inputs.items()}, n_rows, n_cols)


def assert_close_sums(
    got: tuple[np.ndarray, ...], want: tuple[np.ndarray, ...], tolerance: float
) -> None:
    """As assert_close, beside the largest result: sums of both signs may come near 0."""
    for g, w in zip(got, want, strict=True):
        floats = w.dtype.kind == "f"
        size = np.max(np.abs(w), initial=1.0) if floats else 1
        assert_close((g / size if floats else g,), (w / size if floats else w,), tolerance)


def assert_close(
    got: tuple[np.ndarray, ...], want: tuple[np.ndarray, ...], tolerance: float
) -> None:
    """NaN where NaN is due; integers within 1 of rounding only where values were rounded."""
    for g, w in zip(got, want, strict=True):
        if g.dtype.kind in "iu" and g.dtype.itemsize == 1:
            np.testing.assert_allclose(g.astype(int), w.astype(int), atol=1)
        elif g.dtype.kind in "iub":
            np.testing.assert_array_equal(g, w)
        else:
            np.testing.assert_allclose(
                g.astype(np.float64), w.astype(np.float64), rtol=tolerance, atol=tolerance
            )


@fg.pipeline
def section_lists(x):  # type: ignore[no-untyped-def]
    """The eight greatest below the mean of what the two best of each eighth add up to."""
    rows = [fg.where(inside, x, float("-inf")) for inside in fg.sections(x, 8)]
    best = [fg.sum(fg.topk(row, 2)[0]) for row in rows]
    return fg.topk(fg.where(x < sum(best[1:], best[0]) / 8, x, float("-inf")), 8)


def section_lists_case(n_cols: int, dtype: str = "float32") -> Case:
    """Lists that differ in numbers of the row alone, and one more behind them."""
    x = np.random.default_rng(0).standard_normal((1, n_cols)).astype(dtype_of(dtype).numpy)
    return Case(section_lists, {"x": x}, 1, n_cols)
