"""From arrays to results: which executable serves them, found once per types and shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fusegen import graph as g
from fusegen.compiler import Traced, Work
from fusegen.dtypes import DType
from fusegen.errors import ArgumentError, BackendError, CompilerError
from fusegen.executables import Executable, executable, numpy_executable
from fusegen.forms import Form
from fusegen.kernel import Param, Program
from fusegen.nesting import flatten, nest
from fusegen.runtime import arrays as ar
from fusegen.runtime import results as rs
from fusegen.runtime.columns import check_columns
from fusegen.runtime.notices import warn_once
from fusegen.runtime.rows import Axes, Rows, as_rows, rows_of
from fusegen.runtime.strips import side_by_side, whole_vectors
from fusegen.schedule.problem import Problem
from fusegen.schedule.strips import takes_strips
from fusegen.schedule.target import CpuTarget, CudaTarget, Target, host_cpu, on_device
from fusegen.shared import Lock, Recent, lazy, steady
from fusegen.tuning import Trial, Tuned, tune

_MOST_SHAPES, _MOST_SCHEDULES = 1024, 64  # remembered per types


@dataclass(frozen=True, slots=True)
class Key:
    """All of a call that the choice of an executable depends on, beside the front."""

    device: ar.Device
    place: int  # number of the device
    shape: tuple[int, int]  # rows, columns
    phase: tuple[bool, bool] = (True, True)  # aligned, in phase: see schedule.problem
    inner: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the user may say about a run besides the arrays. Target None: where the arrays live."""

    form: Form = "auto"
    chunk: int | None = None
    target: Target | None = None
    numpy: bool = False  # the path without a compiler, even if there is one
    deterministic: bool = False  # may the tree of a row depend on its length and place alone?
    tune: bool = False  # is the schedule measured, for the shape compiled for?


@dataclass
class Front:
    """A pipeline for given inputs, constants and types: all that does not depend on shapes."""

    traced: Traced
    dtypes: Mapping[str, DType]
    choices: Choices
    program: Program = field(init=False)
    by_shape: Recent[Key, Executable] = field(default_factory=lambda: Recent(_MOST_SHAPES))
    by_schedule: Recent[Any, Executable] = field(default_factory=lambda: Recent(_MOST_SCHEDULES))
    tuned: Recent[Key, Tuned] = field(default_factory=lambda: Recent(_MOST_SHAPES))
    _lock: Lock = field(default_factory=Lock)  # threads that meet the same shape compile it once

    def __post_init__(self) -> None:
        self._first = self.work(host_cpu(), Problem(dtypes=self.dtypes))
        self.program = self._first.result("lower")

    @property
    def graph(self) -> g.Graph:
        return self.traced.graph

    @property
    def outputs(self) -> tuple[Param, ...]:
        return self.program.outputs

    def work(self, target: Target, problem: Problem) -> Work:
        """A compilation that shares what is known already."""
        known = self._first.for_any_target if hasattr(self, "_first") else {}
        choices = self.choices
        return Work(self.traced, self.dtypes, choices.form, target, problem, choices.chunk, known)

    def executable(self, key: Key) -> Executable:
        """The executable for so many rows and columns, as they lie in memory."""
        found = self.by_shape.get(key)
        if found is None:
            with self._lock.held(), steady():
                found = self.by_shape.put(key, self._executable(key))
        return found

    def _executable(self, key: Key) -> Executable:
        if self.choices.numpy and key.device == "cpu":
            return numpy_executable(self._first)
        target = self._target(key.device)
        if isinstance(target, CpuTarget) and _hindered(target):
            return numpy_executable(self._first)
        work = self.work(target, self.problem(key))
        measured = self.tuned.get(key)
        if measured is not None:
            work.known["select_schedule"] = measured.schedule
        made = (target, key.place, work.schedule)  # modules are loaded per device
        found = self.by_schedule.get(made)
        if found is None:
            try:
                found = self.by_schedule.put(made, executable(work))
            except CompilerError:
                if not isinstance(target, CpuTarget) or not _hindered(target, failed=True):
                    raise
                return numpy_executable(self._first)
        return found

    def problem(self, key: Key) -> Problem:
        """What is asked of a kernel for rows of this shape that lie like this in memory."""
        (n_rows, n_cols), (aligned, in_phase) = key.shape, key.phase
        return Problem(dtypes=self.dtypes, n_rows=n_rows, n_cols=n_cols, aligned=aligned,
                       in_phase=in_phase, any_rows=self.choices.deterministic,
                       inner=key.inner)  # fmt: skip

    def tune(self, key: Key, trial: Callable[[], Trial]) -> tuple[Work, Tuned]:
        """Measure the choice for one shape, unless it is known; its later calls use it."""
        with self._lock.held():
            work = self.work(self._target(key.device), self.problem(key))
            found = self.tuned.put(key, tune(work, trial))
            self.by_shape.pop(key)
            work.known["select_schedule"] = found.schedule
            return work, found

    def _target(self, device: ar.Device) -> Target:
        wanted = self.choices.target
        match device, wanted:
            case "cpu", None:
                return host_cpu()
            case "cpu", CpuTarget():
                return wanted
            case "cuda", None:
                ar.need_cuda()
                return ar.cuda_target()
            case "cuda", CudaTarget():
                ar.need_cuda()
                return on_device(wanted, ar.cuda_target())
            case _:
                raise ArgumentError(
                    f"compiled for {wanted.name if wanted else 'auto'}, the arrays are on {device}",
                    fix="Compile for where the arrays live, or move them.",
                )


def _hindered(target: CpuTarget, *, failed: bool = False) -> bool:
    """Can nothing be compiled here? Says so once."""
    from fusegen.runtime.cpu import hindrance

    why = hindrance(target, failed=failed)
    if why:
        warn_once(f"fusegen runs on NumPy, right, but several times slower, since nothing can be "
                  f"compiled (fusegen doctor says more): {why}")  # fmt: skip
    return bool(why)


@dataclass
class Call:
    """One run of a front: arrays laid out as kernels read and write them."""

    front: Front
    adopted: Mapping[str, ar.Adopted]
    device: ar.Device
    rows: Rows
    arrays: dict[str, Any]
    results: list[rs.Result]

    @lazy
    def executable(self) -> Executable:
        return self.front.executable(self.key)

    @property
    def key(self) -> Key:
        elements = [self.arrays[p.name] for p in (*self.front.program.inputs, *self.front.outputs)
                    if p.shape == "element"]  # fmt: skip
        side_by_side = self.rows.inner is not None
        phase = (whole_vectors(elements), True) if side_by_side else ar.phase(elements)
        shape = (self.rows.n_rows, self.rows.n_cols)
        return Key(self.device, self.like.index, shape, phase, self.rows.inner)

    @property
    def like(self) -> ar.Adopted:
        """The array whose kind and place results have."""
        return next(iter(self.adopted.values()))

    @property
    def copies(self) -> list[Any]:
        """What kernels read or write beside the caller's memory and results that were made."""
        graph = self.front.graph
        found = [self.arrays[graph.names[i]] for i in graph.inputs
                 if ar.address(self.arrays[graph.names[i]])
                 != ar.address(self.adopted[i.name].array)]  # fmt: skip
        return found + [r.written for r in self.results if r.copy]

    def tune(self) -> tuple[Work, Tuned]:
        """Measure the choice for calls like this one. Raises ArgumentError, BackendError."""
        if self.device == "cpu":
            raise ArgumentError("tune measures on a GPU, the arrays are on the CPU",
                                why="There is one schedule for a CPU.",
                                fix="Move the arrays to a GPU, or leave tune out.")  # fmt: skip
        if self.front.choices.deterministic:
            raise ArgumentError("tune and deterministic exclude one another",
                                why="What is fastest depends on the number of rows.")  # fmt: skip
        outputs = self.front.outputs
        family = ar.cuda_runtime().family_of(self.like.given)

        def trial() -> Trial:
            made = {p.name: rs.new_result(p, self.rows, self.like).written for p in outputs}
            return Trial({**self.arrays, **made}, outputs, self.key.shape, family)

        with ar.caller_stream(self.adopted):
            return self.front.tune(self.key, trial)

    def load(self) -> Executable:
        """Compile and load what serves this call, on the arrays' device."""
        with ar.caller_stream(self.adopted):
            return self.executable

    def run(self, **options: Any) -> None:
        """Fill the results; `options` (threads, progress) go to CPU executables."""
        if self.rows.n_rows == 0:
            return
        if self.device == "cuda":
            family = ar.cuda_runtime().family_of(self.like.given)
            options = {"family": family, "copies": self.copies}
        with ar.caller_stream(self.adopted):
            self.executable(self.arrays, self.rows.n_rows, self.rows.n_cols, **options)

    def hand_back(self) -> Any:
        """The results as the user's kind of arrays, nested as the pipeline returns them."""
        with ar.caller_stream(self.adopted):
            found = [
                rs.hand_back(r, p, self.rows, self.like)
                for r, p in zip(self.results, self.front.outputs, strict=True)
            ]
        return nest(self.front.graph.structure, found)


def prepare(
    front: Front, adopted: Mapping[str, ar.Adopted], device: ar.Device, axis: Axes, out: Any,
    keepdims: bool = False,
) -> Call:
    """Lay out inputs and results. Raises ShapeError, DTypeError, ArgumentError."""
    with ar.caller_stream(adopted):  # copies that strides may need run there too
        return _laid_out(front, adopted, device, axis, out, keepdims)


def _laid_out(
    front: Front, adopted: Mapping[str, ar.Adopted], device: ar.Device, axis: Axes, out: Any,
    keepdims: bool = False,
) -> Call:
    graph = front.graph
    shapes = {n: tuple(a.array.shape) for n, a in adopted.items()}
    rows = rows_of(graph.inputs, shapes, axis, keepdims)
    check_columns(graph, rows.n_cols)
    views = _side_by_side(front, adopted, rows) if device == "cuda" else {}
    if views:
        rows = replace(rows, inner=math.prod(rows.lead[rows.axes[0] :]))
    arrays = views | {graph.names[i]: as_rows(adopted[i.name].array, i.axis, rows)
                      for i in graph.inputs if graph.names[i] not in views}  # fmt: skip
    like = next(iter(adopted.values()))
    given = flatten(graph.structure, out, len(front.outputs))
    results = [
        rs.new_result(p, rows, like) if o is None
        else rs.given_result(p, rows, o, adopted, len(front.outputs))
        for p, o in zip(front.outputs, given, strict=True)
    ]  # fmt: skip
    rs.check_distinct(results)
    arrays |= {p.name: r.written for p, r in zip(front.outputs, results, strict=True)}
    return Call(front, adopted, device, rows, arrays, results)


def _side_by_side(
    front: Front, adopted: Mapping[str, ar.Adopted], rows: Rows
) -> dict[str, Any]:
    """Element inputs as kernels read rows that lie side by side; empty: rows are to be laid out."""
    graph = front.graph
    if rows.last or len(rows.axes) > 1 or math.prod(rows.lead[rows.axes[0] :]) == 1:
        return {}  # columns are neighbours, or several axes
    if front.choices.deterministic or not takes_strips(front.program):
        return {}
    elements = [i for i in graph.inputs if i.axis is g.Axis.ELEMENT]
    arrays = [np.broadcast_to(adopted[i.name].array, rows.whole) for i in elements]
    views = side_by_side(arrays, rows.axes[0]) or ()
    return {graph.names[i]: v for i, v in zip(elements, views, strict=bool(views))}


def no_source() -> BackendError:
    return BackendError("the NumPy path has no source: it runs the text as written")
