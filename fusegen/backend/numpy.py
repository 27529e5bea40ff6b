"""Running without any compiler: the text as written, in blocks of rows, on a pool of threads.

NumPy releases the interpreter lock inside its loops, so threads help; a block's intermediate values
fit a core's cache, so memory is read about once. Floats are kept in float32 (float64 for float64).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegen.backend.backend import Job, Stopwatch
from fusegen.backend.choices import Candidate, PlainSchedule
from fusegen.backend.emit.source import Source
from fusegen.backend.executable import Progress
from fusegen.backend.findings import Finding
from fusegen.backend.host.chunks import check_chunk, one_schedule
from fusegen.backend.host.memory import HOST, HostMemory
from fusegen.backend.host.threads import share, thread_count
from fusegen.backend.problem import Problem
from fusegen.backend.target import host_cpu
from fusegen.ir import graph as g
from fusegen.ir.dtypes import BOOL, FLOAT64, INT64, DType
from fusegen.ir.errors import BackendError
from fusegen.ir.kernel import Param, Program
from fusegen.ir.kinds import infer_kinds
from fusegen.ir.ops import saturate
from fusegen.ir.vectors import lengths_of, row_numbers
from fusegen.oracle.reference import evaluate
from fusegen.oracle.replay.roles import RoleReplay, merged
from fusegen.oracle.rows import Array

BLOCK_BYTES = 1 << 20  # of one intermediate value: a few of them fit a core's second-level cache

@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text run by the reference interpreter, in blocks of rows."""

    graph: g.Graph
    dtypes: Mapping[str, DType]  # by input name
    outputs: tuple[Param, ...]
    compute: DType

    def run(
        self, arrays: Mapping[str, Array], n_rows: int, n_cols: int,
        threads: int | None = None, progress: Progress | None = None,
    ) -> None:
        """Fill the output arrays of `arrays` (by parameter name)."""
        if n_rows == 0:
            return
        float_dtype = np.float64 if self.compute == FLOAT64 else np.float32
        step = max(1, BLOCK_BYTES // (n_cols * np.dtype(float_dtype).itemsize))
        run = self._run_of_rows(arrays, n_rows)  # which share the columns' vectors
        step = min(step, run)
        per_run = -(-run // step)
        blocks = n_rows // run * per_run
        numbering = row_numbers(self.graph)

        def block(number: int) -> None:
            first = number // per_run * run
            start = first + number % per_run * step
            stop = min(start + step, first + run)
            inputs = {
                i.name: _block(arrays[self.graph.names[i]], i.axis, start, stop, n_rows)
                for i in self.graph.read
            }
            numbers = None if numbering is None else arrays[numbering][start:stop, None]
            found = evaluate(self.graph, inputs, self.dtypes, n_cols, float_dtype, numbers)
            for param, value in zip(self.outputs, found, strict=True):
                _store(arrays[param.name][start:stop], value, param)

        report = None if progress is None else lambda done: progress(done / blocks)
        share(blocks, block, thread_count(threads), report)

    def _run_of_rows(self, arrays: Mapping[str, Array], n_rows: int) -> int:
        """Most neighbouring rows that have the same vectors in their columns."""
        columns = [arrays[self.graph.names[i]] for i in self.graph.inputs
                   if i.axis in (g.Axis.COLUMN_VECTOR, g.Axis.PER_COLUMN)]
        batched = [a for a in columns if a.ndim > 1]
        return math.gcd(n_rows, *(n_rows // len(a) for a in batched))


def _block(array: Array, axis: g.Axis, start: int, stop: int, n_rows: int) -> Array:
    match axis:
        case g.Axis.ELEMENT | g.Axis.ROW_VECTOR:
            return array[start:stop]
        case g.Axis.COLUMN_VECTOR:
            whole: Array = array[start * len(array) // n_rows]
            return whole
        case g.Axis.PER_COLUMN:
            return array[None, :] if array.ndim == 1 else array[start * len(array) // n_rows][None]
        case g.Axis.PER_ROW:
            return array[start:stop, None]
        case g.Axis.SCALAR:
            return array


def _store(target: Array, value: Any, param: Param) -> None:
    """Write a result in its own type: integers saturate, floats round."""
    whole = np.broadcast_to(value, (len(target), value.shape[-1] if value.ndim else 1))
    if param.shape == "row":
        whole = whole[:, 0]
    if param.dtype.kind == "int" and whole.dtype.kind != "b":
        whole = saturate(whole, param.dtype.numpy)
    with np.errstate(all="ignore"):
        target[...] = whole


def oracle(graph: g.Graph, dtypes: Mapping[str, DType]) -> Text:
    """The text in float64 and int64, results unrounded: what every other backend is held to."""
    kinds = infer_kinds(graph, dtypes)
    wide = {"float": FLOAT64, "int": INT64, "bool": BOOL}
    outputs = []
    lengths = lengths_of(graph, dtypes)
    for node, name in zip(graph.outputs, graph.output_names, strict=True):
        dtype = wide[kinds[node]]
        if node in lengths:
            outputs.append(Param(name, dtype, "row_vector", output=True, k=lengths[node]))
            continue
        match g.extent(node):
            case g.Extent.ELEMENT:
                outputs.append(Param(name, dtype, "element", output=True))
            case g.Extent.ROW:
                outputs.append(Param(name, dtype, "row", output=True))
            case g.Extent.LIST:
                (top,) = g.lists_of(node)
                outputs.append(Param(name, dtype, "list", output=True, k=top.k))
    return Text(graph=graph, dtypes=dtypes, outputs=tuple(outputs), compute=FLOAT64)


class NumpyRole:
    """A program of one role: the merged operator itself, in the kernels' own type."""

    def __init__(self, job: Job) -> None:
        self.program, self.schedule = job.program, job.schedule

    def __call__(
        self, arrays: Mapping[str, Array], n_rows: int, n_cols: int, *, first_column: int = 0,
        like: Any = None, copies: Sequence[Any] = (), threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Fill the output arrays of `arrays` (by parameter name); done when it returns."""
        (kernel,), program = self.program.kernels, self.program
        given = {p.name: arrays[p.name] for p in program.inputs}
        if program.role == "merge":
            (states,) = (given.pop(p.name) for p in program.inputs if p.shape == "states")
            arrays[program.outputs[0].name][...] = merged(kernel, states, given)
            return
        found = RoleReplay(kernel, given, n_rows, n_cols, first_column).results_by_name()
        for p in program.outputs:
            _store(arrays[p.name], np.asarray(found[p.name]), p)


# ---- the backend ----


@dataclass(frozen=True, slots=True)
class NumpyTarget:
    """Whatever NumPy was built for."""

    name: str = "numpy"

    @property
    def backend(self) -> str:
        return "numpy"

    @property
    def elsewhere(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class NumpySchedule(PlainSchedule):
    """There is one: the text has its own order."""

    target: NumpyTarget

    @property
    def algorithm(self) -> str:
        return ""

    def describe(self) -> str:
        return f"the text as written, in blocks of rows of {BLOCK_BYTES >> 20} MiB"


class NumpyExecutable:
    """A text in the place of the program that computes the same."""

    def __init__(self, job: Job) -> None:
        self.program, self.schedule = job.program, job.schedule
        self._text = Text(graph=job.graph, dtypes=job.dtypes, outputs=job.program.outputs,
                          compute=job.program.kernels[0].compute)

    def __call__(
        self, arrays: Mapping[str, Array], n_rows: int, n_cols: int, *, first_column: int = 0,
        like: Any = None, copies: Sequence[Any] = (), threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Fill the output arrays of `arrays` (by parameter name); done when it returns."""
        self._text.run(arrays, n_rows, n_cols, threads, progress)


@dataclass(frozen=True, slots=True)
class NumpyBackend:
    """See `Backend`: what runs where nothing can be compiled."""

    name: str = "numpy"
    title: str = "NumPy"
    memory: HostMemory = HOST
    targets: tuple[str, ...] = ("numpy",)

    def target(self, name: str) -> NumpyTarget | None:
        return NumpyTarget() if name == self.name else None

    def here(self) -> NumpyTarget:
        return NumpyTarget()

    def placed(self, wanted: NumpyTarget) -> NumpyTarget:
        return wanted

    def device(self, target: NumpyTarget) -> str:
        return "CPU, NumPy path"

    def hindrance(self, target: NumpyTarget, *, failed: bool = False) -> str:
        return ""

    @property
    def instead(self) -> None:
        return None

    def takes_side_by_side(self, program: Program) -> bool:
        return False

    def select(
        self, program: Program, problem: Problem, target: NumpyTarget, chunk: int | None
    ) -> NumpySchedule:
        check_chunk(program, host_cpu(), chunk)  # what no kernel may have is refused here
        return NumpySchedule(target)

    def candidates(
        self, program: Program, problem: Problem, target: NumpyTarget, chunk: int | None
    ) -> tuple[Candidate, ...]:
        return ()

    def considered_for(self, target: NumpyTarget) -> str:
        return self.title

    def emit(self, program: Program, schedule: NumpySchedule) -> Source:
        raise _no_source()

    def launcher(self, program: Program, schedule: NumpySchedule) -> str:
        raise _no_source()

    def load(self, job: Job) -> NumpyExecutable | NumpyRole:
        return NumpyExecutable(job) if job.program.role == "call" else NumpyRole(job)

    def stopwatch(self) -> Stopwatch:
        raise one_schedule()

    def findings(self) -> Iterator[Finding]:
        return iter(())


def _no_source() -> BackendError:
    return BackendError("the NumPy path has no source: it runs the text as written")


NUMPY = NumpyBackend()
