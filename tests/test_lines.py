"""Lines say themselves what they use: for every kernel, just what their text spells."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support import own_cases
from support.algebra_cases import ACCEPTED
from support.cuda_cases import library_case

from fusegen import library
from fusegen.backend.cpu.emit import source as cpu
from fusegen.backend.cpu.schedule import CpuSchedule
from fusegen.backend.cuda.emit.dialect import CudaDialect
from fusegen.backend.cuda.emit.strip_rows import StripSweepPrinter
from fusegen.backend.cuda.emit.sweep import SweepPrinter
from fusegen.backend.cuda.emit.views import SweepView
from fusegen.backend.cuda.schedule.strips import strip_candidates, takes_strips
from fusegen.backend.emit.lines import Line
from fusegen.backend.problem import Problem
from fusegen.backend.target import CPU_TARGETS, CUDA_TARGETS
from fusegen.compile.passes import Work, trace_pipeline
from fusegen.compile.typed import Typed
from fusegen.ir.dtypes import INT64, dtype_of
from fusegen.ir.kernel import Kernel
from fusegen.pipeline.pipeline import Pipeline

PIPELINES: dict[str, Pipeline] = {
    **{n: p for n, p in vars(own_cases).items() if isinstance(p, Pipeline)},
    **ACCEPTED, **library.PIPELINES,
}


def work_of(name: str, form: str) -> Work:
    pipeline = PIPELINES[name]
    constants = library_case(name, 1, 64).constants if name in library.PIPELINES else {}
    traced = trace_pipeline(pipeline, frozenset(pipeline.signature.arrays), constants)
    whole = ("labels", "lengths", "target")
    dtypes = {i.name: INT64 if i.name in whole else dtype_of("float32")
              for i in traced.graph.inputs}
    problem = Problem(dtypes=dtypes, n_rows=None, n_cols=4096)
    return Work(Typed(traced, dtypes, form), CUDA_TARGETS["sm_90"], problem)  # type: ignore[arg-type]


def lines_of(view: SweepView) -> Iterator[Line]:
    """Every line inside a fold or a map."""
    yield from (*view.fold_lines, *view.fold_pairs, *view.map_divisors, *view.store_lines)
    for lift in view.lifts:
        yield from (*lift.divisors, *lift.lines)
    for top in view.lists:
        yield from (*top.item_lines, *top.vector_lines)


def words(line: Line) -> set[str]:
    return set(re.findall(r"\w+", line.text))


def check(kernel: Kernel, printer: SweepPrinter) -> None:
    view = printer.view()
    names = {f"{n}_items" for s in printer.sweep.loads for n in [s.name]} | {"column", "n_cols"}
    names |= {n for _, n in printer.elements.row_values()}
    names |= {d.declares for d in view.map_divisors}
    for line in lines_of(view):
        spelled = words(line) & names - {line.declares}
        assert line.uses & names == spelled, (kernel.name, line)
        assert line.declares in words(line) | {""}, line


@pytest.mark.parametrize("form", ["online", "safe"])
@pytest.mark.parametrize("name", PIPELINES)
def test_cuda_lines_use_what_they_spell(name: str, form: str) -> None:
    work = work_of(name, form)
    for kernel in work.program.kernels:
        for sweep in kernel.sweeps:
            dialect = CudaDialect(kernel.compute)
            check(kernel, SweepPrinter(kernel, sweep, work.schedule, dialect, "State"))


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "var_mean", "weighted_mean"])
def test_lines_of_rows_side_by_side_use_what_they_spell(name: str) -> None:
    work = work_of(name, "online")
    program = work.result("lower")
    assert takes_strips(program)
    problem = Problem(dtypes=work.dtypes, n_rows=4096, n_cols=4096, inner=4096)
    schedule = strip_candidates(program, problem, CUDA_TARGETS["sm_90"])[0].schedule
    for kernel in program.kernels:
        for sweep in kernel.sweeps:
            dialect = CudaDialect(kernel.compute)
            check(kernel, StripSweepPrinter(kernel, sweep, schedule, dialect, "State"))


@pytest.mark.parametrize("form", ["online", "safe"])
@pytest.mark.parametrize("name", PIPELINES)
def test_cpu_lines_use_what_they_spell(name: str, form: str) -> None:
    """The row and the values of earlier sweeps are parameters where, and only where, they are
    spelled."""
    work = work_of(name, form)
    schedule = CpuSchedule(target=CPU_TARGETS["x86-64-v4"], lanes=16, chunk=256, piece=1 << 15)
    for kernel in work.result("lower").kernels:
        for view in cpu._kernel_view(kernel, schedule).sweeps:
            merge = view.state.merge if view.state else ()
            parts = (*view.parts, *(view.again.parts if view.again else ()))
            values = [line for part in parts for line in part.row_values]
            for line in (*values, *view.finish, *merge):
                for name in ("row", "known"):
                    assert (name in line.uses) == (f"{name}." in line.text), line
